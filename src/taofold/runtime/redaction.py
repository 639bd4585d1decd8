"""Prepares text from models, tools and users for the record: checked, redacted, valid UTF-8.

A model may be any code, so its reply is checked and redacted as text when it arrives. Its step is
redacted once more after parsing, which may reveal a secret that an escape hid. JSON is searched to
a bounded depth and size, and a redacted value marks its action as guessed. `policy.redaction`
defines secrets. Knows nothing about limits or the record.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import is_
from typing import Any, Final, cast

from msgspec import structs

from taofold.core.content import (
    Content,
    Issuer,
    MediaPart,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolResult,
    content_of,
    is_issuer_bound,
    parts_of,
    without_issuer_parts,
)
from taofold.core.effects import Act
from taofold.core.errors import ModelError
from taofold.core.reply import finish_of
from taofold.core.text import utf8
from taofold.core.values import (
    RESERVED,
    Action,
    Message,
    Observation,
    Reply,
    Thought,
    ToolCall,
    Usage,
)
from taofold.policy.redaction import MARK, NUMBERS, Redactor

DEEPEST: Final = 100
"""Maximum nesting of lists and dicts."""
MOST: Final = 1 << 53
"""More tokens than any call consumes."""
_SCALARS: Final = frozenset({int, float, bool, type(None)})
ALTERED: Final = "a secret was taken out"
OPAQUE_DROPPED: Final = "a secret was taken out: the opaque parts beside it are not kept"


def check_reply(reply: object) -> Reply:
    """Returns the reply with checked fields; a model may be any code.

    Raises:
        ModelError: Of kind "reply": a field has the wrong type.
    """
    if not isinstance(reply, Reply):
        raise ModelError(f"the model gave {type(reply).__name__}, not a Reply", kind="reply")
    labels: list[Any] = [reply.model, reply.finish]
    if None in labels:
        # Some adapters return None for missing fields; that is no fault of the reply.
        labels = [label if label is not None else "" for label in labels]
        reply = replace(reply, model=labels[0], finish=labels[1])

    # For a model that passes its provider's own term through ("safety"): it is mapped.
    finish = finish_of(labels[1]) if isinstance(labels[1], str) else ""
    if finish and finish != reply.finish:
        reply = replace(reply, finish=finish)
    texts: list[Any] = [*labels, *reply.notes, *reply.found]
    for part in reply.parts:
        texts += _texts(part)
    # One check for all texts; only an unusual type is checked individually. A subclass of str is
    # one.
    if {*map(type, texts)} != {str}:
        for text in texts:
            if not isinstance(text, str):
                raise ModelError(f"the reply has a {type(text).__name__} for a text", kind="reply")

    if not (type(reply.issuer) is Issuer or reply.issuer is None):
        raise ModelError("the reply's issuer is not an Issuer", kind="reply")
    checked_usage(reply.usage)
    return reply


def _texts(part: Any) -> tuple[Any, ...]:
    """Returns the fields of `part` that must be text."""
    match part:
        case TextPart():
            return part.text, part.phase, part.opaque
        case ToolCall():
            return part.name, part.arguments, part.id, part.opaque
        case ThinkingPart():
            return part.text, part.echo
        case OpaquePart():
            return part.data, part.kind, part.digest
        case _:
            raise ModelError(f"the reply has a {type(part).__name__} for a part", kind="reply")


def checked_usage(usage: Any) -> Usage:
    """Returns the usage.

    Raises:
        ModelError: It is no `Usage`, or has impossible numbers.
    """
    if not isinstance(usage, Usage):
        raise ModelError(f"the reply's usage is a {type(usage).__name__}", kind="reply")
    counts: list[Any] = [
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_tokens,
        usage.priced_usd,
        usage.written_tokens,
        usage.reasoning_tokens,
    ]
    for kind in {*map(type, counts)}:
        # bool is an int in Python; True tokens are a mistake.
        if not issubclass(kind, int | float) or kind is bool:
            raise ModelError(f"the reply's usage holds a {kind.__name__}", kind="reply")
    # A NaN makes the sum NaN, which is below nothing.
    if min(counts) < 0 or not sum(counts) < MOST:
        raise ModelError("the reply's usage holds an impossible number", kind="reply")
    return usage


def redact_reply(redactor: Redactor, reply: Reply, usage: Usage, model: str) -> Reply:
    """Returns `reply` without secrets and lone surrogates; `model` is its model's default name.

    Opaque parts are not searched, because an edited one is invalid. If readable parts hold a
    secret, they are dropped: the encrypted data may contain it too.
    """
    name = reply.model or model
    # One search over all texts joined: most replies hold no secret and end here.
    if redactor.spotless(_read(reply, name)):
        if name == reply.model and usage is reply.usage:
            return reply
        return Reply(
            usage=usage,
            model=name,
            finish=reply.finish,
            parts=reply.parts,
            issuer=reply.issuer,
            notes=reply.notes,
            found=reply.found,
        )

    walk = RedactionPass(redactor)
    parts = tuple([_without_secrets(walk, part) for part in reply.parts])
    notes = [walk.text(note) for note in reply.notes]

    # Encrypted reasoning cannot be searched; if the readable part held a secret, it may hold it
    # too.
    if walk.lost and is_issuer_bound(reply.content):
        parts = parts_of(without_issuer_parts(parts))
        notes.append(OPAQUE_DROPPED)
    return Reply(
        usage=usage,
        model=walk.text(name),
        finish=walk.text(reply.finish),
        parts=content_of(parts),
        issuer=reply.issuer,
        notes=notes,
        found=tuple([walk.text(name) for name in reply.found]),
    )


def is_reply_masked(before: Reply, after: Reply) -> bool:
    """Returns whether a secret was replaced between the two."""
    if after.parts is before.parts:
        return False
    return is_masked(_read(before, before.model), _read(after, after.model))


def _read(reply: Reply, name: str) -> list[str]:
    """Returns all readable texts of a reply."""
    texts = [name, reply.finish, *reply.notes, *reply.found]
    for part in reply.parts:
        match part:
            case TextPart() | ThinkingPart():
                texts.append(part.text)
            case ToolCall():
                texts += (part.name, part.arguments, part.id)
            case _:
                pass
    return texts


def _without_secrets(walk: "RedactionPass", part: Part) -> Part:
    text = walk.text
    match part:
        case TextPart():
            return TextPart(text(part.text), part.phase, part.opaque)
        case ThinkingPart():
            return ThinkingPart(text(part.text), part.echo)
        case ToolCall():
            return ToolCall(text(part.name), text(part.arguments), text(part.id), part.opaque)
        case ToolResult():
            return ToolResult(text(part.id), redact_visible(walk, part.content), part.error)
        case MediaPart():
            return structs.replace(part, name=text(part.name), url=text(part.url))
        case OpaquePart():
            return part


def redact_visible(
    walk: "RedactionPass", content: Content
) -> "str | tuple[TextPart | MediaPart, ...]":
    """Returns text and media without secrets."""
    if isinstance(content, str):
        return walk.text(content)
    parts = [_without_secrets(walk, part) for part in content]
    return tuple([part for part in parts if isinstance(part, TextPart | MediaPart)])


def redact_step(redactor: Redactor, effect: Act, *, masked: bool = False) -> Act:
    """Returns the step without secrets; an action with a redacted parameter is marked with
    `ALTERED`.

    If the run has `masked` a secret anywhere, a mask in a parameter counts too: the model repeats
    the masked text that it was shown.
    """
    if not (masked or effect.local) and _spotless(redactor, effect.thought, effect.actions):
        return effect
    thought = effect.thought
    content = redact_json(redactor, thought.content)
    if content != thought.content:
        thought = structs.replace(thought, content=content)
    actions = tuple([_action(redactor, action, masked) for action in effect.actions])
    local = effect.local and tuple(
        [_observation(redactor, observation) for observation in effect.local]
    )
    return Act(thought, actions, local, effect.planned)


def unsaid(walk: "RedactionPass", message: Message) -> Message:
    """Returns a message of an earlier conversation without secrets and opaque parts."""
    parts = [
        _without_secrets(walk, part) for part in parts_of(without_issuer_parts(message.content))
    ]
    return Message(message.role, content_of(parts))


def redact_json(redactor: Redactor, value: Any) -> Any:
    """Returns `value`, JSON, without secrets and lone surrogates; itself if there are none."""
    try:
        return RedactionPass(redactor).value(value)
    except TooDeep:
        return f"(nested deeper than {DEEPEST})"


class TooDeep(Exception):
    """A value is nested deeper than `DEEPEST`, or contains itself."""


class RedactionPass:
    """One pass over values. `lost` is True if a secret was removed from any of them."""

    __slots__ = ("_harmless", "_redactor", "lost")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor, self._harmless = redactor, redactor.harmless
        self.lost = False

    def text(self, text: str) -> str:
        """Returns `text` without secrets and lone surrogates."""
        # Harmless texts were searched before: goals and prompts recur at each step.
        if not text or text in self._harmless:
            return text
        valid = text if text.isascii() else utf8(text)
        redacted = self._redactor.text(valid)
        if is_masked(valid, redacted):
            self.lost = True
        return redacted

    def value(self, value: Any, depth: int = 0) -> Any:
        """Returns any JSON without secrets; unchanged parts are not copied.

        Raises:
            TooDeep: It is nested deeper than `DEEPEST`.
        """
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, NUMBERS):
            redacted = self._redactor.number(value)
            self.lost = self.lost or redacted is MARK
            return redacted
        if isinstance(value, dict):
            return self._mapping(cast("dict[str, Any]", value), depth)
        if isinstance(value, (list, tuple)):
            old = cast("Sequence[Any]", value)
            if depth >= DEEPEST and old:
                raise TooDeep
            parts = [self.value(member, depth + 1) for member in old]
            # Identity, not equality: 1 == True, and a changed part must not pass for the old one.
            return old if all(map(is_, parts, old)) else parts
        return value  # not JSON: the encoder will report it

    def _mapping(self, old: dict[str, Any], depth: int) -> dict[str, Any]:
        if depth >= DEEPEST and old:
            raise TooDeep
        new: dict[str, Any] = {}
        same = True
        for name, value in old.items():
            key = self.text(str(name))
            cleared = self.value(value, depth + 1)
            same = same and cleared is value and key is name
            new[key] = cleared
        return old if same else new


def _parameters(walk: RedactionPass, action: Action) -> tuple[dict[str, Any], str]:
    try:
        return walk.value(action.parameters), action.error
    except TooDeep:
        return {}, f"the parameters are nested deeper than {DEEPEST}: make them flatter"


def _spotless(redactor: Redactor, thought: Thought, actions: Sequence[Action]) -> bool:
    """Returns whether the step certainly holds no secret, by one check; flat parameters only."""
    if type(thought.content) is not str:
        return False
    texts = [thought.content]
    for action in actions:
        texts += (action.tool, action.rationale, action.id, action.error, *action.repairs)
        for name, value in action.parameters.items():
            # A key that is no string is not JSON: the slow path turns it into one.
            if type(name) is not str:
                return False
            texts.append(name)
            if type(value) is str:
                texts.append(value)
            elif type(value) not in _SCALARS or redactor.number(value) is MARK:
                return False
    return redactor.spotless(texts)


def is_masked(before: Any, after: Any) -> bool:
    """Returns whether a secret was replaced between the two. Existing masks do not count."""
    if after is before or after == before:
        return False
    return str(after).count(MARK) > str(before).count(MARK)


def mask_places(value: Any, path: str = "") -> Iterator[str]:
    """Yields the places of masks in `value`, JSON: "content, line 3", "headers.token"."""
    if isinstance(value, str):
        if MARK not in value:
            return
        for number, line in enumerate(value.split("\n"), 1):
            if MARK in line:
                yield f"{path}, line {number}"
    elif isinstance(value, dict):
        for name, member in cast("dict[str, Any]", value).items():
            if MARK in str(name):
                yield f"a name in {path or 'the parameters'}"
            yield from mask_places(member, f"{path}.{name}" if path else str(name))
    elif isinstance(value, (list, tuple)):
        for at, member in enumerate(cast("Sequence[Any]", value)):
            yield from mask_places(member, f"{path}[{at}]")


def _action(redactor: Redactor, action: Action, masked: bool) -> Action:
    walk = RedactionPass(redactor)
    parameters, error = _parameters(walk, action)
    repairs = action.repairs
    is_lost = walk.lost or (masked and next(mask_places(parameters), None) is not None)
    # An answer may lose a secret; any other action must not run with a mask as a parameter.
    if is_lost and action.tool not in RESERVED and ALTERED not in repairs:
        repairs = (*repairs, ALTERED)
    redacted_text = walk.text
    cleaned = Action(
        redacted_text(action.tool),
        parameters,
        redacted_text(action.rationale),
        redacted_text(action.id),
        tuple([redacted_text(repair) for repair in repairs]),
        action.guessed or ALTERED in repairs,
        redacted_text(error),
    )
    return action if cleaned == action else cleaned


def _observation(redactor: Redactor, given: Observation | None) -> Observation | None:
    if given is None:
        return None
    result, extraction = (
        redact_json(redactor, given.result),
        redact_json(redactor, given.extraction),
    )
    if result is given.result and extraction == given.extraction:
        return given
    return structs.replace(given, result=result, extraction=extraction)
