"""What a model said, made fit for the record: checked, without secrets, valid UTF-8.

A reply is cleaned as text when it arrives, and once more when it has been read: reading
may bring to light what an escape hid. It knows nothing about limits or the tape.
"""

from math import isfinite
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from taofold.core.effects import Act
from taofold.core.errors import ModelError
from taofold.core.values import RESERVED, Action, Message, Observation, Reply, ToolCall, Usage
from taofold.policy.redaction import Redactor, marked
from taofold.tools.result import utf8

DEEPEST: Final = 100
"""How deep lists and dicts may be nested."""
MOST: Final = 1 << 53
"""More tokens than any call consumes."""
ALTERED: Final = "a secret was taken out"


def checked(reply: Any) -> Reply:
    """A reply whose fields are what they should be; a model may be anybody's code.

    Raises:
        ModelError: of kind "reply", if one is not.
    """
    if not isinstance(reply, Reply):
        raise ModelError(f"the model gave {type(reply).__name__}, not a Reply", kind="reply")
    for name in ("model", "finish", "reasoning"):
        if getattr(reply, name) is None:
            reply = replace(reply, **{name: ""})
    texts: list[Any] = [reply.text, reply.model, reply.finish, reply.reasoning]
    calls: Any = reply.calls
    if not isinstance(calls, tuple):
        raise ModelError(f"the reply's calls are {type(calls).__name__}, no tuple", kind="reply")
    for call in cast("tuple[Any, ...]", calls):
        if not isinstance(call, ToolCall):
            raise ModelError(f"the reply has a {type(call).__name__} for a call", kind="reply")
        texts += (call.name, call.arguments, call.id)
    for text in texts:
        if not isinstance(text, str):
            raise ModelError(f"the reply has a {type(text).__name__} for a text", kind="reply")
    _check(reply.usage)
    return cast("Reply", reply)


def _check(usage: Any) -> None:
    if not isinstance(usage, Usage):
        raise ModelError(f"the reply's usage is a {type(usage).__name__}", kind="reply")
    counts: tuple[Any, ...] = (usage.input_tokens, usage.output_tokens, usage.cached_tokens)
    for number in (*counts, usage.usd):
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise ModelError(f"the reply's usage holds a {type(number).__name__}", kind="reply")
        if not isfinite(number) or not 0 <= number < MOST:
            raise ModelError("the reply's usage holds an impossible number", kind="reply")


def clean(redactor: Redactor, reply: Reply) -> Reply:
    """`reply` without secrets and lone surrogates."""

    def said(text: str) -> str:
        return redactor.text(utf8(text)) if text else text

    calls = reply.calls
    if calls:
        calls = tuple([ToolCall(said(c.name), said(c.arguments), said(c.id)) for c in calls])
    return replace(
        reply,
        text=said(reply.text),
        calls=calls,
        model=said(reply.model),
        finish=said(reply.finish),
        reasoning=said(reply.reasoning),
    )


def cleaned(redactor: Redactor, effect: Act) -> Act:
    """The step without secrets; an action whose parameters lost one counts as guessed."""
    content = plain(redactor, effect.thought.content)
    thought = effect.thought
    if content != thought.content:
        thought = replace(thought, content=content)
    return replace(
        effect,
        thought=thought,
        actions=tuple([_action(redactor, action) for action in effect.actions]),
        local=tuple([_observation(redactor, given) for given in effect.local]),
    )


def unsaid(redactor: Redactor, message: Message) -> Message:
    """A message of an earlier conversation without secrets."""
    text = redactor.text
    calls = tuple([ToolCall(text(c.name), text(c.arguments), text(c.id)) for c in message.calls])
    return replace(message, content=text(message.content), calls=calls)


def plain(redactor: Redactor, value: Any) -> Any:
    """`value`, JSON, without secrets and lone surrogates; itself if there are none."""
    if isinstance(value, str):
        return redactor.text(utf8(value))
    if deep(value):
        return f"(nested deeper than {DEEPEST})"
    return _flat(redactor, value)


def _flat(redactor: Redactor, value: Any) -> Any:
    """`plain` for what is known not to be nested too deep."""
    value = redactor.json(value)
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return _valid(value)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError):
        pass  # no JSON: whoever writes it will say so
    return value


def deep(value: Any) -> bool:
    """Is `value` nested deeper than anybody means it?"""
    level: list[Any] = [value]
    for _ in range(DEEPEST + 1):
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                below += cast("dict[str, Any]", one).values()
            elif isinstance(one, list | tuple):
                below += cast("list[Any]", one)
        if not below:
            return False
        level = below
    return True


def _action(redactor: Redactor, action: Action) -> Action:
    if deep(action.parameters):
        said = f"the parameters are nested deeper than {DEEPEST}: make them flatter"
        action = replace(action, parameters={}, error=said)
    parameters = _flat(redactor, action.parameters)
    repairs = action.repairs
    if action.tool not in RESERVED and marked(parameters) and ALTERED not in repairs:
        repairs = (*repairs, ALTERED)
    return replace(
        action,
        tool=plain(redactor, action.tool),
        parameters=parameters,
        rationale=plain(redactor, action.rationale),
        id=plain(redactor, action.id),
        repairs=tuple([plain(redactor, one) for one in repairs]),
        guessed=action.guessed or ALTERED in repairs,
        error=plain(redactor, action.error),
    )


def _observation(redactor: Redactor, given: Observation | None) -> Observation | None:
    if given is None:
        return None
    result, extraction = plain(redactor, given.result), plain(redactor, given.extraction)
    if result is given.result and extraction == given.extraction:
        return given
    return replace(given, result=result, extraction=extraction)


def _valid(value: Any) -> Any:
    """`value` with what UTF-8 cannot say in its strings replaced."""
    if isinstance(value, str):
        return utf8(value)
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {utf8(name): _valid(said) for name, said in items}
    if isinstance(value, list | tuple):
        return [_valid(said) for said in cast("list[Any]", value)]
    return value
