"""What a model said, made fit for the record: checked, without secrets, valid UTF-8.

A reply is cleaned as text when it arrives, and once more when it has been read: reading
may bring to light what an escape hid. It knows nothing about limits or the tape.
"""

from collections.abc import Sequence
from operator import is_
from typing import Any, Final, cast

from msgspec.structs import replace

from taofold.core.effects import Act
from taofold.core.errors import ModelError
from taofold.core.values import RESERVED, Action, Message, Observation, Reply, ToolCall, Usage
from taofold.policy.redaction import MARK, NUMBERS, Redactor, named
from taofold.tools.result import utf8

DEEPEST: Final = 100
"""How deep lists and dicts may be nested."""
MOST: Final = 1 << 53
"""More tokens than any call consumes."""
_SCALARS: Final = frozenset({int, float, bool, type(None)})
ALTERED: Final = "a secret was taken out"


def checked(reply: Any) -> Reply:
    """A reply whose fields are what they should be; a model may be anybody's code.

    Raises:
        ModelError: of kind "reply", if one is not.
    """
    if type(reply) is Reply and _sound(reply):
        return reply
    if not isinstance(reply, Reply):
        raise ModelError(f"the model gave {type(reply).__name__}, not a Reply", kind="reply")
    said: list[Any] = [reply.model, reply.finish, reply.reasoning]
    if None in said:
        said = [one if one is not None else "" for one in said]
        reply = replace(reply, model=said[0], finish=said[1], reasoning=said[2])
    texts: list[Any] = [reply.text, *said]
    calls: Any = reply.calls
    if not isinstance(calls, tuple):
        raise ModelError(f"the reply's calls are {type(calls).__name__}, no tuple", kind="reply")
    for call in cast("tuple[Any, ...]", calls):
        if not isinstance(call, ToolCall):
            raise ModelError(f"the reply has a {type(call).__name__} for a call", kind="reply")
        texts += (call.name, call.arguments, call.id)
    for kind in {*map(type, texts)}:
        if not issubclass(kind, str):
            raise ModelError(f"the reply has a {kind.__name__} for a text", kind="reply")
    _check(reply.usage)
    return cast("Reply", reply)


def _sound(reply: Reply) -> bool:
    """Is everything exactly of its type? Nearly every reply is; the others get a closer look."""
    said, used = reply, reply.usage
    if not type(said.text) is type(said.model) is type(said.finish) is type(said.reasoning) is str:
        return False
    if type(said.calls) is not tuple or type(used) is not Usage:
        return False
    for call in said.calls:
        if type(call) is not ToolCall:
            return False
        if not type(call.name) is type(call.arguments) is type(call.id) is str:
            return False
    if not type(used.input_tokens) is type(used.output_tokens) is type(used.cached_tokens) is int:
        return False
    fit = 0 <= used.input_tokens < MOST and 0 <= used.output_tokens < MOST
    return (
        fit and 0 <= used.cached_tokens < MOST and type(used.usd) is float and 0 <= used.usd < MOST
    )


def _check(usage: Any) -> None:
    if not isinstance(usage, Usage):
        raise ModelError(f"the reply's usage is a {type(usage).__name__}", kind="reply")
    counts: list[Any] = [usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.usd]
    for kind in {*map(type, counts)}:
        if not issubclass(kind, int | float) or kind is bool:
            raise ModelError(f"the reply's usage holds a {kind.__name__}", kind="reply")
    if not all([0 <= number < MOST for number in counts]):
        raise ModelError("the reply's usage holds an impossible number", kind="reply")


def clean(redactor: Redactor, reply: Reply, usage: Usage, model: str) -> Reply:
    """`reply` without secrets and lone surrogates; `model` is what it is called if it is silent."""
    name = reply.model or model
    texts = [reply.text, name, reply.finish, reply.reasoning]
    for call in reply.calls:
        texts += (call.name, call.arguments, call.id)
    if redactor.spotless(texts):
        return Reply(reply.text, reply.calls, usage, name, reply.finish, reply.reasoning)
    said = Walk(redactor).text
    return Reply(
        said(reply.text),
        tuple([ToolCall(said(c.name), said(c.arguments), said(c.id)) for c in reply.calls]),
        usage,
        said(name),
        said(reply.finish),
        said(reply.reasoning),
    )


def cleaned(redactor: Redactor, effect: Act) -> Act:
    """The step without secrets; an action whose parameters lost one counts as guessed."""
    thought = effect.thought
    if type(thought.content) is not str or thought.content not in redactor.harmless:
        content = plain(redactor, thought.content)
        if content != thought.content:
            thought = replace(thought, content=content)
    actions = tuple([_action(redactor, action) for action in effect.actions])
    local = effect.local and tuple([_observation(redactor, given) for given in effect.local])
    return Act(thought, actions, local, effect.planned)


def unsaid(redactor: Redactor, message: Message) -> Message:
    """A message of an earlier conversation without secrets."""
    text = redactor.text
    calls = tuple([ToolCall(text(c.name), text(c.arguments), text(c.id)) for c in message.calls])
    return replace(message, content=text(message.content), calls=calls)


def plain(redactor: Redactor, value: Any) -> Any:
    """`value`, JSON, without secrets and lone surrogates; itself if there are none."""
    try:
        return Walk(redactor).value(value)
    except TooDeep:
        return f"(nested deeper than {DEEPEST})"


class TooDeep(Exception):
    """A value is nested deeper than anybody means it, or holds itself."""


class Walk:
    """One pass over a value. `lost`: does it hold anything that was taken out?"""

    __slots__ = ("_harmless", "_redactor", "lost")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor, self._harmless = redactor, redactor.harmless
        self.lost = False

    def text(self, text: str) -> str:
        """`text` without secrets and lone surrogates."""
        if not text or text in self._harmless:
            return text
        said = self._redactor.text(text if text.isascii() else utf8(text))
        if MARK in said:
            self.lost = True
        return said

    def value(self, value: Any, depth: int = 0) -> Any:
        """The same for any JSON; what does not change is not copied.

        Raises:
            TooDeep: it is nested deeper than `DEEPEST`.
        """
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, NUMBERS):
            said = self._redactor.number(value)
            self.lost = self.lost or said is MARK
            return said
        if isinstance(value, dict):
            return self._mapping(cast("dict[str, Any]", value), depth)
        if isinstance(value, (list, tuple)):
            old = cast("Sequence[Any]", value)
            if depth >= DEEPEST and old:
                raise TooDeep
            parts = [self.value(said, depth + 1) for said in old]
            return old if all(map(is_, parts, old)) else parts
        return value  # no JSON: whoever writes it will say so

    def _mapping(self, old: dict[str, Any], depth: int) -> dict[str, Any]:
        if depth >= DEEPEST and old:
            raise TooDeep
        new: dict[str, Any] = {}
        same = True
        for name, said in old.items():
            key = self.text(str(name))
            if named(name, said):
                self.lost, kept = True, MARK
            else:
                kept = self.value(said, depth + 1)
            same = same and kept is said and key is name
            new[key] = kept
        return old if same else new


def _parameters(walk: Walk, action: Action) -> tuple[dict[str, Any], str]:
    try:
        return walk.value(action.parameters), action.error
    except TooDeep:
        return {}, f"the parameters are nested deeper than {DEEPEST}: make them flatter"


def _spotless(redactor: Redactor, action: Action) -> bool:
    """Is there surely no secret in the action? Only flat parameters are looked at, as one text."""
    texts = [action.tool, action.rationale, action.id, action.error, *action.repairs]
    for name, value in action.parameters.items():
        if type(name) is not str:
            return False
        texts.append(name)
        if type(value) is str:
            texts.append(value)
        elif type(value) not in _SCALARS or redactor.number(value) is MARK:
            return False
    return redactor.spotless(texts)


def _action(redactor: Redactor, action: Action) -> Action:
    if _spotless(redactor, action):
        return action
    walk = Walk(redactor)
    parameters, error = _parameters(walk, action)
    repairs = action.repairs
    if walk.lost and action.tool not in RESERVED and ALTERED not in repairs:
        repairs = (*repairs, ALTERED)
    said = walk.text
    clean = Action(
        said(action.tool),
        parameters,
        said(action.rationale),
        said(action.id),
        tuple([said(one) for one in repairs]),
        action.guessed or ALTERED in repairs,
        said(error),
    )
    return action if clean == action else clean


def _observation(redactor: Redactor, given: Observation | None) -> Observation | None:
    if given is None:
        return None
    result, extraction = plain(redactor, given.result), plain(redactor, given.extraction)
    if result is given.result and extraction == given.extraction:
        return given
    return replace(given, result=result, extraction=extraction)
