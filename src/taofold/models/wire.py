"""What the providers' formats have in common: names, arguments, batches, finish reasons.

Pure functions of messages. It knows no provider.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from taofold.core.errors import ModelError
from taofold.core.values import Message, Reply, ToolCall, Usage
from taofold.models.anyjson import is_array, is_object
from taofold.models.prices import Price
from taofold.runtime.fallback import Speaker
from taofold.runtime.model import Request, ToolSpec

_ENCODE: Final = msgspec.json.Encoder().encode
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])
_OUTSIDE: Final = re.compile(r"[^A-Za-z0-9_.-]")
_FINISH: Final = {
    "stop": "stop", "end_turn": "stop", "stop_sequence": "stop", "eos": "stop", "load": "stop",
    "length": "length", "max_tokens": "length", "model_context_window_exceeded": "length",
    "tool_calls": "tool_calls", "tool_use": "tool_calls", "function_call": "tool_calls",
    "content_filter": "content_filter", "refusal": "content_filter", "safety": "content_filter",
}  # fmt: skip

NO_RESULT: Final = "(this call was not carried out)"
"""Stands for the result of a call that has none: providers refuse a history without it."""


def encode(value: Any) -> bytes:
    """Compact JSON. Lone surrogates, which UTF-8 cannot say, become question marks."""
    try:
        return _ENCODE(value)
    except UnicodeEncodeError:
        return _ENCODE(_clean(msgspec.to_builtins(value)))


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if is_object(value):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if is_array(value):
        return [_clean(item) for item in value]
    return value


def wire_name(name: str) -> str:
    """A tool's name in the alphabet that providers accept (letters, digits, `_`, `-`)."""
    if name.replace("_", "").replace("-", "").isalnum() and name.isascii():
        return name
    return _OUTSIDE.sub(lambda match: f"_x{ord(match[0]):x}_", name).replace(".", "__")


def names_of(tools: Iterable[ToolSpec]) -> dict[str, str]:
    """Wire name to name. Raises `ModelError` if two tools cannot be told apart."""
    names: dict[str, str] = {}
    for tool in tools:
        other = names.setdefault(wire_name(tool.name), tool.name)
        if other != tool.name:
            raise ModelError(
                f"the tools {other!r} and {tool.name!r} get the same name {wire_name(tool.name)!r} "
                "at this provider: rename one",
                kind="request",
            )
    return names


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """The arguments as an object; what cannot be read is kept as `unreadable`, since servers
    reject a history that holds broken JSON.
    """
    try:
        return _OBJECT.decode(call.arguments or "{}")
    except (msgspec.DecodeError, UnicodeError):
        return {"unreadable": call.arguments}


def pending(messages: Sequence[Message], end: int) -> tuple[ToolCall, ...]:
    """The calls of the batch that ends before index `end` which have no result yet."""
    answered: set[str] = set()
    for at in range(end - 1, -1, -1):
        message = messages[at]
        if message.role != "tool":
            return tuple([call for call in message.calls if call.id not in answered])
        answered.update([result.id for result in message.results])
    return ()


def follows_its_call(messages: Sequence[Message], index: int) -> bool:
    """Does the tool message at `index` answer an open call of the batch before it?"""
    wanted = {result.id for result in messages[index].results}
    return any([call.id in wanted for call in pending(messages, index)])


def as_text(message: Message) -> str:
    """A message for a model without native tools: calls are written out in its text."""
    if not message.calls:
        return message.text
    calls = [{"tool": call.name, "parameters": arguments_of(call)} for call in message.calls]
    written = encode({"actions": calls}).decode()
    return f"{message.text}\n{written}" if message.text else written


def finish_of(reason: str | None) -> str:
    """The reason a reply ended: stop, length, tool_calls, content_filter, or "" if unknown."""
    return _FINISH.get((reason or "").lower(), "")


def estimate(request: Request) -> int:
    """A rough count of the tokens that a call may use: four characters each, plus the output."""
    return request.conversation.chars // 4 + request.max_tokens


def _ended(calls: tuple[ToolCall, ...], finish: str) -> tuple[tuple[ToolCall, ...], str]:
    """The calls, and the reason why they ended: some servers say "stop" of calls too.

    No arguments stand for an empty object only where the provider says that the calls are
    whole. Elsewhere they may have been lost, which whoever knows the tool must judge.
    """
    if finish == "tool_calls":
        return tuple(
            [one if one.arguments else replace(one, arguments="{}") for one in calls]
        ), finish
    whole = finish == "stop" and calls and all(one.arguments for one in calls)
    return calls, "tool_calls" if whole else finish


class Frame(msgspec.Struct, frozen=True):
    """What the reader of a reply must know about the call."""

    model: str
    url: str
    secret: str
    price: Price | None
    names: dict[str, str]
    turn: int
    speaker: Speaker | None = None

    def call(self, name: str, arguments: str, id: str, index: int) -> ToolCall:  # noqa: A002
        """A tool call under the tool's own name, with an id in any case."""
        return ToolCall(self.names.get(name, name), arguments, id or f"call_{self.turn}_{index}")

    def usage(self, input_tokens: int, output_tokens: int, cached: int) -> Usage:
        """Usage with its cost."""
        usage = Usage(input_tokens, output_tokens, min(cached, input_tokens))
        if self.price is None or not any(self.price):
            return usage
        return msgspec.structs.replace(usage, usd=self.price.cost(usage))

    def reply(
        self, text: str, calls: tuple[ToolCall, ...], usage: Usage, finish: str, reasoning: str
    ) -> Reply:
        """The finished reply."""
        calls, finish = _ended(calls, finish)
        return Reply(text, calls, usage, self.model, finish, reasoning)

    def unreadable(self, why: str) -> ModelError:
        """The error for an answer that is not what the format says."""
        return ModelError(f"{self.model} gave an unreadable answer: {why}", kind="reply")


class Memo:
    """Remembers the last few encodings of things that are the same from call to call."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[Any, tuple[Any, Any]] = {}

    def get(self, key: Any, alive: Any, make: Callable[[], Any]) -> Any:
        """`make()`, once per key. `alive` is kept, so that no `id()` in the key is reused."""
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= 32:
                self._known.clear()
            found = self._known[key] = (alive, make())
        return found[1]
