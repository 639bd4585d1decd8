"""Converts a tool's return value for the model: JSON, media, or a state change. Never raises.

A tool that did its work and then returned an odd value has still done its work. The value is
therefore recorded as a `repr`, not turned into a failure. Long texts lose their middle. `bulky`
estimates whether a conversion would block an event loop. This module does not depend on tools, logs
or prompts.
"""

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from taofold.core.errors import ConfigError
from taofold.core.text import error_text, utf8
from taofold.core.values import JSON
from taofold.tools.attachments import Attachment, Shown, damage, media_type_of, pillow_png, showing
from taofold.tools.context import Outcome

DEPTH: Final = 64
"""Maximum depth of a result. Cycles end here too."""
NODES: Final = 200_000
"""Maximum number of values in a result. Lists that share members can be exponential."""
CHARACTERS: Final = 4_000_000
"""Maximum characters of all texts in a result. Longer texts lose their middle."""
REPR: Final = 2_000
"""Maximum characters kept of a value without a JSON form."""
NOTHING: Final = "the tool returned nothing"
NO_CHANGE: Final = "the tool returned nothing; the state is unchanged"

_INT: Final = 2**63
_PROBED: Final = 1_000
_UNIT: Final = 64
"""A value is bulky from 1,000 values or 64,000 characters on."""


def outcome_of(value: object) -> Outcome:
    """Returns the outcome of a tool that returned `value`.

    An `Outcome` is kept, except that its parts are made JSON. A mapping with `success: false` and a
    returned exception are failures.
    """
    if value is None:
        return Outcome(None, extraction=NOTHING)
    # By exact type: most results end here, and a subclass may behave in any way.
    scalar = _SCALARS.get(type(value))
    if scalar is not None:
        return Outcome(scalar(shortened(value) if type(value) is str else value))
    if isinstance(value, Outcome):
        return _checked(value)
    media = _media_of(value)
    if media is not None:
        return media_outcome(media)
    if isinstance(value, BaseException):
        return Outcome(error_text(value)[:REPR], "failure")
    plain = jsonable(value)
    if isinstance(plain, dict):
        mapping = cast("dict[str, JSON]", plain)
        # Only False itself: 0 or "" under `success` may mean something else.
        if mapping.get("success") is False:
            reason = mapping.get("error") or mapping.get("message") or "the tool reports no success"
            return Outcome(mapping, "failure", extraction=_line(reason))
    return Outcome(plain)


def media_outcome(said: Sequence[Shown]) -> Outcome:
    """Returns the outcome that shows a model text and media.

    A file that cannot be shown makes the outcome partial, because the tool has done its work.
    """
    try:
        attached = showing(said)
    except ConfigError as error:
        return Outcome(f"the tool returned what cannot be shown: {error}", "partial")
    return Outcome(
        attached.text, parts=attached.parts if attached.media else (), blobs=attached.blobs
    )


def _media_of(value: object) -> list[Shown] | None:
    """Returns the text and media of a returned value in order, or None without media."""
    medium = _medium(value)
    if medium is not None:
        return [medium]
    if not isinstance(value, (list, tuple)):
        return None
    items = cast("Sequence[object]", value)
    media = [_medium(item) for item in items]
    if not any([medium is not None for medium in media]):
        return None
    parts: list[Shown] = []
    for item, medium in zip(items, media, strict=True):
        if medium is not None:
            parts.append(medium)
        else:
            parts.append(item if isinstance(item, str) else _written(item))
    return parts


def _medium(value: object) -> Attachment | None:
    if isinstance(value, Attachment):
        return value
    if isinstance(value, (bytes, bytearray)):
        return _as_attachment(bytes(value))
    if type(value) in _SCALARS:
        return None
    try:
        picture = pillow_png(value)
    except Exception:  # noqa: BLE001 - a foreign object with an image method
        return None
    return None if picture is None else Attachment(data=picture)


def _as_attachment(data: bytes) -> Attachment | None:
    """Returns an attachment for bytes of an undamaged image or document, else None."""
    media_type = media_type_of(data)
    # Only types that models accept. Other bytes become a line that describes them.
    visible = media_type.startswith("image/") or media_type == "application/pdf"
    return Attachment(data=data) if visible and not damage(media_type, data) else None


def _written(value: object) -> str:
    return msgspec.json.encode(jsonable(value)).decode()


def stateful(value: object, tool: str) -> Outcome:
    """Returns the outcome of a TAgent `(state, args)` tool, whose return value updates the state.

    `(key, value)` names its key. A Pydantic model is stored under its class name in lower case,
    other values under `<tool>_output`. `None` changes nothing.
    """
    if value is None:
        return Outcome(None, extraction=NO_CHANGE)
    pair = _pair(value)
    if pair is not None:
        plain = jsonable(pair[1])
        return Outcome(plain, update=(utf8(pair[0]), plain))
    outcome = outcome_of(value)
    if isinstance(value, Outcome) or outcome.status == "failure":
        return outcome
    key = type(value).__name__.lower() if isinstance(value, BaseModel) else f"{tool}_output"
    return Outcome(outcome.value, update=(key, outcome.value))


def _pair(value: object) -> tuple[str, object] | None:
    if not isinstance(value, tuple):
        return None
    parts = cast("tuple[object, ...]", value)
    if len(parts) == 2 and isinstance(parts[0], str) and parts[0]:
        return parts[0], parts[1]
    return None


def jsonable(value: object) -> JSON:
    """Returns a copy of `value` as JSON. Values without a JSON form become text."""
    return _Walk().plain(value, DEPTH)


@dataclass(slots=True)
class _Walk:
    left: int = NODES
    room: int = CHARACTERS

    def plain(self, value: object, depth: int) -> JSON:
        # One budget for the whole value, because shared members multiply when written out.
        self.left -= 1
        if type(value) is str:
            text = shortened(value, self.room)
            self.room -= len(text)
            return utf8(text)
        scalar = _SCALARS.get(type(value))
        if scalar is not None:
            return scalar(value)
        if depth == 0 or self.left < 0:
            return "…"
        if isinstance(value, Mapping):
            return self._mapping(cast("Mapping[object, object]", value), depth)
        if isinstance(value, (list, tuple)):
            return self._sequence(cast("Sequence[object]", value), depth)
        if isinstance(value, Set):
            # Sorted, because a replay must see the same text.
            return sorted(self._sequence(list(cast("Set[object]", value)), depth), key=repr)
        return self._other(value, depth)

    def _mapping(self, value: Mapping[object, object], depth: int) -> JSON:
        try:
            items = list(value.items())
        except Exception:  # noqa: BLE001 - a foreign mapping may do anything
            return _safe_repr(value)
        plain: dict[str, JSON] = {}
        for key, item in items:
            if self.left < 0:
                plain["…"] = "…"
                break
            plain[_key(key)] = self.plain(item, depth - 1)
        return plain

    def _sequence(self, value: Sequence[object], depth: int) -> list[JSON]:
        plain: list[JSON] = []
        for item in value:
            if self.left < 0:
                plain.append("…")
                break
            plain.append(self.plain(item, depth - 1))
        return plain

    def _other(self, value: object, depth: int) -> JSON:
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self.plain(_bytes(bytes(cast("bytes", value))), depth)
        if isinstance(value, BaseException):
            return error_text(value)[:REPR]
        try:
            # Pydantic converts dates, dataclasses, models and UUIDs. Its output is walked again.
            plain_value = to_jsonable_python(value, by_alias=False, bytes_mode="base64")
        except Exception:  # noqa: BLE001 - serializers and properties of foreign classes run here
            return _safe_repr(value)
        return self.plain(plain_value, depth - 1)


def _update_of(update: Any) -> tuple[str, Any] | None:
    """Returns a state update as key and value.

    Raises:
        ValueError: The update is invalid. The message is for the tool's author.
    """
    match update:
        case None:
            return None
        case dict() if len(cast("dict[Any, Any]", update)) == 1:
            [(key, value)] = cast("dict[Any, Any]", update).items()
        case (key, value):
            pass
        case _:
            raise ValueError('Outcome(update=…) is one key with its value, as ("cart", [1, 2])')
    return utf8(str(key)), jsonable(value)


def _checked(said: Outcome) -> Outcome:
    update = _update_of(said.update)
    extraction = utf8(str(said.extraction))
    media = None if said.parts else _media_of(said.value)
    if media is not None:
        pictures = media_outcome(media)
        status = pictures.status if said.status == "success" else said.status
        return replace(pictures, status=status, extraction=extraction, update=update)
    value = jsonable(said.value)
    return Outcome(value, said.status, extraction, update, said.parts, said.blobs)


def shortened(text: str, most: int = CHARACTERS) -> str:
    """Returns `text`, without its middle if it has more than `most` characters."""
    if len(text) <= most:
        return text
    half = max(0, most) // 2
    description = (
        f"\n… {len(text) - 2 * half:,} of {len(text):,} characters left out: too large a result …\n"
    )
    return f"{text[:half]}{description}{text[len(text) - half :]}"


def bulky(value: object) -> bool:
    """Estimates whether converting or searching `value` would block an event loop."""
    if type(value) is int:
        return False
    left, open_ = _PROBED, [value]
    while open_:
        left -= 1
        item = open_.pop()
        if isinstance(item, str | bytes | bytearray):
            left -= len(item) // _UNIT
        elif isinstance(item, dict):
            open_ += cast("dict[object, object]", item).values()
        elif isinstance(item, list | tuple):
            open_ += cast("Sequence[object]", item)
        if left < 0 or len(open_) > _PROBED:
            return True
    return False


def is_scalar(value: object) -> bool:
    """Returns True for a text, number, bool or None of exactly these types."""
    return type(value) in _SCALARS


def _integer(value: Any) -> JSON:
    # Python refuses to print integers of more than 4,300 digits.
    return value if -_INT <= value < _INT else str(value) if abs(value) < 10**4000 else "…"


def _float(value: Any) -> JSON:
    return value if math.isfinite(value) else repr(value)


def _same(value: Any) -> JSON:
    return value


_SCALARS: Final[dict[type, Callable[[Any], JSON]]] = {
    str: utf8,
    int: _integer,
    float: _float,
    bool: _same,
    type(None): _same,
}


def _key(key: object) -> str:
    return utf8(key) if type(key) is str else utf8(_safe_repr(key))


def _bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        more = " …" if len(value) > 32 else ""
        return f"<{len(value)} bytes, not text: {value[:32].hex(' ')}{more}>"


def _line(said: object) -> str:
    text = said if isinstance(said, str) else _safe_repr(said)
    return utf8(text.strip().partition("\n")[0][:200])


def _safe_repr(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - __repr__ of a foreign class
        return f"<{type(value).__name__} without a readable repr>"
    return utf8(text if len(text) <= REPR else f"{text[:REPR]}…")
