"""Reads replies in the format of OpenAI's chat completions, whole or streamed.

Lenient where servers differ (missing indices, objects for strings, null for absent),
strict where a reply would be wrong. It sends nothing.
"""

from typing import Any, Final

import msgspec

from taofold.core.errors import ModelError
from taofold.core.values import Reply, Usage
from taofold.models.anyjson import is_object
from taofold.models.retry import fault
from taofold.models.sse import DONE, Events
from taofold.models.wire import Frame, finish_of


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(msgspec.Struct):
    id: str | None = None
    index: int | None = None
    function: _Function | None = None


class _Message(msgspec.Struct):
    content: str | list[Any] | None = None
    tool_calls: list[_Call] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Message | None = None
    delta: _Message | None = None
    finish_reason: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None


class _Answer(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
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

    __slots__ = ("id", "name", "pieces")

    def __init__(self) -> None:
        self.id = self.name = ""
        self.pieces: list[str] = []

    def add(self, call: _Call) -> None:
        self.id = call.id or self.id
        if call.function:
            self.name = call.function.name or self.name
            self.pieces.append(_arguments(call.function))


class ChatReader:
    """Reads one answer; the `endpoint.Reader` of this format."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._events = Events(self._event)
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._calls: dict[int, _Growing] = {}
        self._usage: _Usage | None = None
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
        self._usage = answer.usage
        return self._reply()

    def feed(self, chunk: bytes) -> None:
        """Take in bytes of a stream."""
        self._events.feed(chunk)

    def close(self) -> Reply:
        """The stream ended."""
        self._events.close()
        if not self._ended and self._finish is None:
            raise ModelError(
                f"the stream of {self._frame.model} broke off before the reply was complete",
                kind="network",
            )
        return self._reply()

    def _decode(self, body: bytes) -> _Answer:
        try:
            answer = _DECODE(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            shown = bytes(body[:120]).decode("utf-8", "replace")
            raise self._frame.unreadable(f"{error}; it begins {shown!r}") from None
        if answer.error:
            raise self._reported(answer.error)
        return answer

    def _reported(self, error: Any) -> ModelError:
        told = error if is_object(error) else {"message": str(error)}
        code: Any = told.get("code")
        return fault(
            code if isinstance(code, int) else 0,
            str(told.get("type") or code or ""),
            str(told.get("message") or ""),
            self._frame.url,
            secret=self._frame.secret,
        )

    def _event(self, data: bytes) -> None:
        if data == DONE:
            self._ended = True
            return
        answer = self._decode(data)
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
        if thought := message.reasoning_content or message.reasoning:
            self._reasoning.append(thought)
        if message.refusal:
            self._refusal.append(message.refusal)
        for call in message.tool_calls or ():
            self._grow(call)

    def _grow(self, call: _Call) -> None:
        index = call.index
        if index is None:
            # No index: a new call if it says who it is, else more of the last one.
            new = bool(call.id or (call.function and call.function.name)) or not self._calls
            index = len(self._calls) if new else max(self._calls)
        self._calls.setdefault(index, _Growing()).add(call)

    def _reply(self) -> Reply:
        frame = self._frame
        calls = tuple(
            frame.call(call.name, "".join(call.pieces), call.id, index)
            for index, call in sorted(self._calls.items())
        )
        finish = finish_of(self._finish)
        text = "".join(self._text)
        if self._refusal:
            text, finish = text or "".join(self._refusal), "content_filter"
        return frame.reply(text, calls, self._count(), finish, "".join(self._reasoning))

    def _count(self) -> Usage:
        usage = self._usage
        if usage is None:
            return Usage()
        details = usage.prompt_tokens_details
        cached = (details.cached_tokens if details else None) or usage.prompt_cache_hit_tokens
        return self._frame.usage(
            usage.prompt_tokens or 0, usage.completion_tokens or 0, cached or 0
        )
