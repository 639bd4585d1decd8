"""YAML files with the line of every key (`YamlDocument`), checked against a model (`Strict`).

Each fault has its place and a suggestion. This module does not know the meaning of keys.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final, NoReturn, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from taofold.core.errors import ConfigError
from taofold.core.json_values import is_array, is_object
from taofold.core.text import clip, near, visible_line
from taofold.log.formats import yaml_document as yaml
from taofold.log.formats.yaml_document import path_text
from taofold.reserved_places import open_named


@dataclass(frozen=True, slots=True)
class Fault:
    """One mistake. `line` counts from 1, 0 = unknown. `path` is the key, as in `tools[1]`."""

    source: str
    message: str
    path: str = ""
    line: int = 0
    hint: str = ""

    @property
    def location(self) -> str:
        """File, line and key, as far as they are known."""
        source = visible_line(self.source)
        where = f"{source}:{self.line}" if self.line else source
        return f"{where}: {self.path}" if self.path else where

    @property
    def text(self) -> str:
        """The message with its hint."""
        return f"{self.message}; {self.hint}" if self.hint else self.message

    def __str__(self) -> str:
        return f"{self.location}: {self.text}"


class FaultyFile(ConfigError):
    """One fault of a file, as an error."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text, path=fault.location)
        self.fault = fault


def refuse(faults: Sequence[Fault], what: str) -> NoReturn:
    """Raises all faults at once.

    Raises:
        ExceptionGroup: One `FaultyFile` for each fault.
    """
    raise ExceptionGroup(what, [FaultyFile(fault) for fault in faults])


_BLOCK: Final = re.compile(r":\s*[|>][0-9+-]*\s*(?:#.*)?$")
"""The end of a line whose key has a text of several lines."""
_LARGEST: Final = 1 << 20
"""Maximum bytes of a file."""
_FAULTS: Final = 100
"""Maximum number of reported faults in a file."""

Keys = TypeVar("Keys", bound="Strict")
KeyPath = tuple[str | int, ...]
"""Position of a value in a document: keys and indexes from the root."""


# strict=True: in YAML `no` and `1.10` are often meant as text, so nothing is converted.
class Strict(BaseModel):
    """Base of files' keys: unknown keys are errors, and text is never converted to a number."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Keys that are often tried here, and the right place for each."""


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A file that could be read. `source` is its name as the user wrote it."""

    source: str
    text: str
    value: dict[str, Any]
    folder: Path = Path()
    places: Mapping[KeyPath, KeyPath] = field(default_factory=dict[KeyPath, KeyPath])
    """Positions in `text` by position in `value`, if `value` is a translation of the text."""
    path: Path | None = None
    """The file. None if the text came from elsewhere."""

    def fault(self, key_path: KeyPath, message: str, hint: str = "") -> Fault:
        """Returns a fault at the key `key_path`."""
        key_path = self.written_at(key_path)
        return Fault(
            self.source, message, path_text(key_path), yaml.line(self.text, key_path), hint
        )

    def fault_inside(self, key_path: KeyPath, line: int, message: str, hint: str = "") -> Fault:
        """Returns a fault on a line, from 1, of the text at `key_path`."""
        fault = self.fault(key_path, message, hint)
        lines = self.text.split("\n")
        if not 0 < fault.line <= len(lines):
            return fault
        # The text of a block begins on the line after its key.
        first = fault.line + (_BLOCK.search(lines[fault.line - 1]) is not None)
        return replace(fault, line=first + line - 1)

    def written_at(self, key_path: KeyPath) -> KeyPath:
        """Returns the position in `text` of the value at `key_path`."""
        for end in range(len(key_path), 0, -1):
            place = self.places.get(key_path[:end])
            if place is not None:
                return (*place, *key_path[end:])
        return key_path


def load(path: Path, source: str = "") -> tuple[YamlDocument | None, list[Fault]]:
    """Returns the file as a document, or the reason why it cannot be read."""
    source = source or str(path)
    try:
        with open_named(path) as file:
            body = file.read(_LARGEST + 1)
    except ConfigError as error:
        return None, [Fault(source, str(error))]
    except OSError as error:
        return None, [Fault(source, f"cannot be read: {error.strerror or error}")]
    if len(body) > _LARGEST:
        return None, [Fault(source, f"is too large: it has more than {_LARGEST} bytes")]
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        return None, [Fault(source, f"is not UTF-8: {error}")]
    document, faults = parse(text, source, path.parent)
    return (None if document is None else replace(document, path=path.resolve())), faults


def parse(text: str, source: str, folder: Path = Path()) -> tuple[YamlDocument | None, list[Fault]]:
    """Parses a text as a document: one mapping."""
    try:
        documents = yaml.load(text, source)
    except ConfigError as error:
        # The reader's error contains file and line in its text.
        location, _, rest = str(error).partition(": ")
        name, _, line = location.rpartition(":")
        number = int(line) if name and line.isdigit() else 0
        return None, [Fault(source, rest or str(error), line=number)]
    if len(documents) > 1:
        return None, [Fault(source, f"holds {len(documents)} YAML documents, one is read")]
    value: Any = documents[0] if documents else None
    # An empty file becomes an empty mapping, so that missing keys are reported.
    if value is None:
        value = {}
    if not is_object(value):
        return None, [Fault(source, "is not a mapping of keys to values", line=1)]
    mapping = {str(key): inner for key, inner in value.items()}
    document = YamlDocument(source, text, mapping, folder)
    nul = _nul(mapping)
    # No name, path or address contains NUL. Later functions would raise their own errors.
    return (document, []) if nul is None else (None, [document.fault(nul, "holds a NUL character")])


def _nul(value: Any, key_path: KeyPath = ()) -> KeyPath | None:
    """Returns the position of a text with a NUL character, which only an escape can produce."""
    if isinstance(value, str):
        return key_path if "\0" in value else None
    inner: Iterable[tuple[Any, Any]] = ()
    if is_object(value):
        inner = value.items()
        if any("\0" in str(key) for key in value):
            return key_path
    elif is_array(value):
        inner = enumerate(value)
    paths = (_nul(item, (*key_path, key)) for key, item in inner)
    return next((path for path in paths if path is not None), None)


def check(
    document: YamlDocument, model: type[Keys], value: Any = None, key_path: KeyPath = ()
) -> tuple[Keys | None, list[Fault]]:
    """Returns `value` (default: the whole document) as a `model`, or all of its faults."""
    # None at a position is its value. None without a position means the whole document.
    checked = document.value if value is None and not key_path else value
    try:
        return model.model_validate(checked), []
    except ValidationError as error:
        details = _meant(checked, error.errors())
        faults = [_fault(document, model, detail, key_path) for detail in details[:_FAULTS]]
        more = len(details) - len(faults)
        return None, [*faults, Fault(document.source, f"{more} more")] if more else faults


def _meant(value: Any, errors: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Returns the errors at their positions in `value`, only of the form that was meant.

    If a value may have several forms (a name or a mapping), there is an error for each of them. The
    position then contains the form's internal name, which is not in the file.
    """
    placed = [(_there(value, detail), detail) for detail in errors]
    inside = {key_path[:end] for key_path, _ in placed for end in range(len(key_path))}
    innermost: list[ErrorDetails] = []
    for key_path, detail in placed:
        # A nested error shows that this form was meant.
        if len(key_path) < len(detail["loc"]) and key_path in inside:
            continue
        innermost.append({**detail, "loc": key_path})
    return innermost


def _there(value: Any, detail: ErrorDetails) -> KeyPath:
    """Returns the position of an error without the names of forms."""
    key_path: list[str | int] = []
    last = detail["loc"][-1] if detail["type"] in ("missing", "extra_forbidden") else None
    within: object = value
    for part in detail["loc"]:
        if is_object(within) and part in within:
            within = within[str(part)]
        elif is_array(within) and isinstance(part, int) and part < len(within):
            within = within[part]
        elif isinstance(part, int) and part == 0:
            continue  # a single value was wrapped in a list
        elif part is not last:
            continue
        key_path.append(part)
    return tuple(key_path)


def _fault(
    document: YamlDocument, model: type[BaseModel], error: ErrorDetails, key_path: KeyPath
) -> Fault:
    inner = error["loc"]
    if error["type"] == "extra_forbidden":
        key = str(inner[-1])
        nested = _model(model, inner)
        hint = nested.elsewhere.get(key, "") if issubclass(nested, Strict) else ""
        hint = hint or near(key, _keys(nested))
        return document.fault((*key_path, *inner), f"unknown key {key!r}", hint)
    if error["type"] == "missing":
        return document.fault((*key_path, *inner), f"the key {str(inner[-1])!r} is missing")
    if error["type"] in ("model_type", "dict_type"):
        inside = _model(model, (*inner, "")) if error["type"] == "model_type" else None
        hint = _example(str(inner[-1]), inside, error["input"])
        message = f"must be a mapping, not {_short(error['input'])}"
        return document.fault((*key_path, *inner), message, hint)
    message = error["msg"].replace("Input should be", "must be").removeprefix("Value error, ")
    hint = similar_choice(error)
    # A rule of ours names the value itself, or is about several keys.
    rule = error["type"] == "value_error"
    named = rule and (", not " in message or is_object(error["input"]) or is_array(error["input"]))
    value = "" if named else f", not {_short(error['input'])}"
    return document.fault((*key_path, *inner), f"{message}{value}", hint)


def similar_choice(error: ErrorDetails) -> str:
    """Returns the similar allowed word, or "". The message lists all of them."""
    if error["type"] != "literal_error" or not isinstance(error["input"], str):
        return ""
    words = re.findall(r"'([^']*)'", str(error.get("ctx", {}).get("expected", "")))
    hint = near(error["input"], words)
    return hint if hint.startswith("did") else ""


def _example(key: str, model: type[BaseModel] | None, value: object) -> str:
    """Returns an example for `key` if a plain `value` stands for a mapping (`model`)."""
    if model is None:
        return f"write {key}: {{KEY: …}}"
    keys, first = _keys(model), next(iter(model.model_fields.values()))
    # A plain number usually means the first key: `limits: 5`, `retry: 3`.
    fits = isinstance(value, int | float) and _takes_number(first.annotation)
    example = _short(value) if fits else "…"
    return f"write {key}: {{{keys[0]}: {example}}}; its keys are {', '.join(keys)}"


def _takes_number(annotation: Any) -> bool:
    return annotation in (int, float) or any(map(_takes_number, get_args(annotation)))


def _model(model: type[BaseModel], inner: Sequence[str | int]) -> type[BaseModel]:
    """Returns the model of the mapping that has the last key of `inner`."""
    for part in inner[:-1]:
        field = _field(model, str(part))
        # In `list[Model]`, `Model | None` and similar types the keys are those of the inner model.
        inside = _models(field.annotation) if field else []
        if inside:
            model = inside[0]
    return model


def _field(model: type[BaseModel], key: str) -> FieldInfo | None:
    """Returns the field that is written as `key`, also by its alias (`while`, `as`)."""
    fields = model.model_fields
    return next((field for field in fields.values() if field.alias == key), fields.get(key))


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models(inner)]


def _keys(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _short(value: object) -> str:
    return clip(repr(value), 80)
