"""Reads replies of Ollama's `/api/chat`, whole or as lines of JSON. It sends nothing."""

from typing import Any, Final

import msgspec

from taofold.core.content import Part, TextPart, ThinkingPart
from taofold.core.values import Reply
from taofold.models.reader import decoded
from taofold.models.retry import fault
from taofold.models.sse import Lines
from taofold.models.wire import Frame, encode, finish_of


class _Function(msgspec.Struct, frozen=True):
    name: str = ""
    arguments: Any = None


class _Call(msgspec.Struct, frozen=True):
    function: _Function = _Function()
    id: str = ""


class _Message(msgspec.Struct):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_Call] | None = None


class _Answer(msgspec.Struct):
    message: _Message | None = None
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: str | None = None


_DECODE: Final = msgspec.json.Decoder(_Answer).decode


class OllamaReader:
    """Reads one answer, whole or as lines of JSON; the `endpoint.Reader` of this format."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._lines = Lines(self._line)
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[_Call] = []
        self._last: _Answer | None = None

    def whole(self, body: bytes) -> Reply:
        """Read an answer that was not streamed."""
        self._line(body)
        return self.close()

    def feed(self, chunk: bytes) -> None:
        """Take in bytes of a stream."""
        self._lines.feed(chunk)

    def close(self) -> Reply:
        """The stream ended."""
        self._lines.close()
        frame, last = self._frame, self._last
        if last is None:
            raise frame.broken_off()
        parts: list[Part] = []
        thinking, text = "".join(self._thinking), "".join(self._text)
        parts += [ThinkingPart(thinking, "thinking")] if thinking else []
        parts += [TextPart(text)] if text else []
        parts += [
            frame.call(
                call.function.name, encode(call.function.arguments or {}).decode(), call.id, index
            )
            for index, call in enumerate(self._calls)
        ]
        return frame.reply(
            parts,
            frame.usage(last.prompt_eval_count or 0, last.eval_count or 0, 0),
            finish_of(last.done_reason or "stop"),
        )

    def _line(self, line: bytes) -> None:
        if not line.strip():
            return
        answer = decoded(self._frame, _DECODE, line)
        if answer.error:
            raise fault(0, "", answer.error, self._frame.url)
        if answer.message is None and not answer.done:
            raise self._frame.unreadable("it holds no message")
        self._take(answer.message or _Message())
        if answer.done:
            self._last = answer

    def _take(self, message: _Message) -> None:
        if message.content:
            self._text.append(message.content)
            if self._frame.speaker:
                self._frame.speaker(message.content)
        if message.thinking:
            self._thinking.append(message.thinking)
        self._calls += message.tool_calls or ()
