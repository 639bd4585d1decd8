"""Reads replies in the format of OpenAI's chat completions, whole or streamed.

Lenient where servers differ (missing indices, objects for strings, null for absent),
strict where a reply would be wrong. It sends nothing.
"""

from typing import Any, Final

import msgspec

from taofold.core.content import OpaquePart, Part, TextPart, ThinkingPart
from taofold.core.value import is_object
from taofold.core.values import Reply, Usage
from taofold.models.reader import EventReader, decoded, reported
from taofold.models.sse import DONE
from taofold.models.wire import Frame, encode, finish_of

DETAILS: Final = "reasoning_details"
"""The field of OpenRouter's that must come back whole, in order and unmodified."""
_MOST_USD: Final = 1e6
"""A call that is said to cost more than this was not: its tokens are priced instead."""
_MERGED: Final = ("text", "summary", "data")
"""Fields of a detail that arrive in pieces; whatever else is set later wins."""


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(msgspec.Struct):
    id: str | None = None
    index: int | None = None
    function: _Function | None = None
    extra_content: Any = None


class _Message(msgspec.Struct):
    content: str | list[Any] | None = None
    tool_calls: list[_Call] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Message | None = None
    delta: _Message | None = None
    finish_reason: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None
    cost: float | None = None


class _Answer(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    service_tier: str | None = None
    error: Any = None


_DECODE: Final = msgspec.json.Decoder(_Answer).decode


def _text(content: str | list[Any] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(_part(part) for part in content)


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if is_object(part) and part.get("type", "text") in ("text", "output_text"):
        return str(part.get("text") or "")
    return ""


def _arguments(function: _Function) -> str:
    given = function.arguments
    if isinstance(given, dict):
        return msgspec.json.encode(given).decode()
    return given or ""


class _Growing:
    """A tool call that is still arriving."""

    __slots__ = ("extra", "id", "name", "pieces")

    def __init__(self) -> None:
        self.id = self.name = ""
        self.extra: Any = None
        self.pieces: list[str] = []

    def add(self, call: _Call) -> None:
        self.id = call.id or self.id
        self.extra = call.extra_content or self.extra
        if call.function:
            self.name = call.function.name or self.name
            self.pieces.append(_arguments(call.function))

    @property
    def opaque(self) -> str:
        return encode(self.extra).decode() if self.extra else ""


class ChatReader(EventReader):
    """Reads one answer; the `endpoint.Reader` of this format."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._echo = ""
        self._details: list[dict[str, Any]] = []
        self._refusal: list[str] = []
        self._calls: dict[int, _Growing] = {}
        self._usage: _Usage | None = None
        self._tier = ""
        self._finish: str | None = None
        self._ended = False

    def whole(self, body: bytes) -> Reply:
        """Read an answer that was not streamed."""
        answer = self._decode(body)
        message = answer.choices[0].message if answer.choices else None
        if message is None:
            raise self._frame.unreadable("it holds no message")
        if self._frame.speaker:
            self._frame.speaker(_text(message.content))
        self._take(message)
        self._finish = (answer.choices or [_Choice()])[0].finish_reason
        self._usage, self._tier = answer.usage, answer.service_tier or ""
        return self._reply()

    def _complete(self) -> bool:
        return self._ended or self._finish is not None

    def _decode(self, body: bytes) -> _Answer:
        answer = decoded(self._frame, _DECODE, body)
        if answer.error:
            raise reported(self._frame, answer.error)
        return answer

    def _event(self, data: bytes) -> None:
        if data == DONE:
            self._ended = True
            return
        answer = self._decode(data)
        self._tier = answer.service_tier or self._tier
        if answer.usage is not None:
            self._usage = answer.usage
        if not answer.choices:
            return
        choice = answer.choices[0]
        self._finish = choice.finish_reason or self._finish
        if choice.delta is not None:
            if self._frame.speaker:
                self._frame.speaker(_text(choice.delta.content))
            self._take(choice.delta)

    def _take(self, message: _Message) -> None:
        if message.content:
            self._text.append(_text(message.content))
        field, thought = "reasoning_content", message.reasoning_content
        if thought is None:
            field, thought = "reasoning", message.reasoning
        if thought is not None:
            self._thinking.append(thought)
            self._echo = self._echo or field
        for detail in message.reasoning_details or ():
            self._detail(detail)
        if message.refusal:
            self._refusal.append(message.refusal)
        for call in message.tool_calls or ():
            self._grow(call)

    def _detail(self, detail: dict[str, Any]) -> None:
        """Pieces of one detail have one index and one type; they come one after the other."""
        last = self._details[-1] if self._details else None
        same = (
            last is not None
            and detail.get("index") is not None
            and last.get("index") == detail.get("index")
            and last.get("type") == detail.get("type")
        )
        if last is None or not same:
            self._details.append(dict(detail))
            return
        for name, value in detail.items():
            if name in _MERGED and isinstance(value, str) and isinstance(last.get(name), str):
                last[name] += value
            elif value is not None:
                last[name] = value

    def _grow(self, call: _Call) -> None:
        index = call.index
        if index is None:
            # No index: a new call if it says who it is, else more of the last one.
            new = bool(call.id or (call.function and call.function.name)) or not self._calls
            index = len(self._calls) if new else max(self._calls)
        elif index in self._calls and call.id and call.id != self._calls[index].id:
            index = max(self._calls) + 1  # whole calls that all say they are the first
        self._calls.setdefault(index, _Growing()).add(call)

    def _reply(self) -> Reply:
        frame = self._frame
        parts: list[Part] = []
        thinking = "".join(self._thinking)
        if self._details:
            parts.append(OpaquePart(encode(self._details).decode(), DETAILS))
            # What the details hold comes back in them, and only there.
            self._echo = ""
        if thinking or self._echo:
            parts.append(ThinkingPart(thinking, self._echo))
        finish = finish_of(self._finish)
        text = "".join(self._text)
        if self._refusal:
            text, finish = text or "".join(self._refusal), "refusal"
        if text:
            parts.append(TextPart(text))
        parts += [
            frame.call(call.name, "".join(call.pieces), call.id, index, call.opaque)
            for index, call in sorted(self._calls.items())
        ]
        return frame.reply(parts, self._count(), finish)

    def _count(self) -> Usage:
        usage = self._usage
        if usage is None:
            return Usage()
        details, made = usage.prompt_tokens_details, usage.completion_tokens_details
        cached = (details.cached_tokens if details else None) or usage.prompt_cache_hit_tokens
        counted = self._frame.usage(
            usage.prompt_tokens or 0,
            usage.completion_tokens or 0,
            cached or 0,
            reasoning=(made.reasoning_tokens if made else None) or 0,
            tier=self._tier,
        )
        if usage.cost and 0 < usage.cost < _MOST_USD:  # what the server itself charges
            return msgspec.structs.replace(counted, usd=float(usage.cost))
        return counted
