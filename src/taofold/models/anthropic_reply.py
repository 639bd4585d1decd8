"""Reads replies of Anthropic's Messages API, whole or streamed. It sends nothing."""

from typing import Any, Final

import msgspec

from taofold.core.errors import ModelError
from taofold.core.values import Reply, Usage
from taofold.models.anyjson import is_object
from taofold.models.retry import fault
from taofold.models.sse import Events
from taofold.models.wire import Frame, finish_of

_WRITE_EXTRA: Final = 0.25
"""Writing to the prompt cache costs this much more than reading input."""


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Block(msgspec.Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    partial_json: str | None = None
    stop_reason: str | None = None


class _Answer(msgspec.Struct):
    type: str = ""
    index: int = 0
    content: list[_Block] | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None
    message: "_Answer | None" = None
    content_block: _Block | None = None
    delta: _Block | None = None
    error: Any = None


_DECODE: Final = msgspec.json.Decoder(_Answer).decode


class _Growing:
    """A content block that is still arriving."""

    __slots__ = ("id", "json", "name", "pieces", "type")

    def __init__(self, block: _Block) -> None:
        self.type, self.id, self.name = block.type, block.id or "", block.name or ""
        self.pieces = [block.text or block.thinking or ""]
        self.json: list[str] = []
        if block.input:
            self.json.append(msgspec.json.encode(block.input).decode())

    def add(self, delta: _Block) -> None:
        self.pieces.append(delta.text or delta.thinking or "")
        if delta.partial_json:
            self.json.append(delta.partial_json)


class MessagesReader:
    """Reads one answer; the `endpoint.Reader` of this format."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._events = Events(self._event)
        self._blocks: dict[int, _Growing] = {}
        self._usage = _Usage()
        self._finish: str | None = None

    def whole(self, body: bytes) -> Reply:
        """Read an answer that was not streamed."""
        answer = self._decode(body)
        if answer.content is None:
            raise self._frame.unreadable("it holds no content")
        for index, block in enumerate(answer.content):
            self._blocks[index] = _Growing(block)
            if self._frame.speaker and block.type == "text":
                self._frame.speaker(block.text or "")
        self._finish = answer.stop_reason
        self._count(answer.usage)
        return self._reply()

    def feed(self, chunk: bytes) -> None:
        """Take in bytes of a stream."""
        self._events.feed(chunk)

    def close(self) -> Reply:
        """The stream ended."""
        self._events.close()
        if self._finish is None:
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
        if answer.error or answer.type == "error":
            said: Any = answer.error
            told = said if is_object(said) else {"message": said or ""}
            raise fault(
                0,
                str(told.get("type") or ""),
                str(told.get("message") or ""),
                self._frame.url,
                secret=self._frame.secret,
            )
        return answer

    def _event(self, data: bytes) -> None:
        event = self._decode(data)
        if event.type == "message_start" and event.message:
            self._count(event.message.usage)
        elif event.type == "content_block_start" and event.content_block:
            self._blocks[event.index] = _Growing(event.content_block)
            self._speak(event.content_block)
        elif event.type == "content_block_delta" and event.delta:
            block = self._blocks.setdefault(event.index, _Growing(_Block(type="text")))
            block.add(event.delta)
            self._speak(event.delta)
        elif event.type == "message_delta":
            self._finish = (event.delta and event.delta.stop_reason) or self._finish
            self._count(event.usage)

    def _speak(self, part: _Block) -> None:
        if self._frame.speaker and part.text:
            self._frame.speaker(part.text)

    def _count(self, usage: _Usage | None) -> None:
        # Counts in later events replace those in earlier ones; they are running totals.
        for field in _Usage.__struct_fields__:
            value = getattr(usage, field, None)
            if value is not None:
                setattr(self._usage, field, value)

    def _reply(self) -> Reply:
        blocks = [block for _, block in sorted(self._blocks.items())]
        calls = tuple(
            self._frame.call(block.name, "".join(block.json), block.id, index)
            for index, block in enumerate(blocks)
            if block.type == "tool_use"
        )
        return self._frame.reply(
            "".join("".join(block.pieces) for block in blocks if block.type == "text"),
            calls,
            self._total(),
            finish_of(self._finish),
            "".join("".join(block.pieces) for block in blocks if block.type == "thinking"),
        )

    def _total(self) -> Usage:
        read = self._usage.cache_read_input_tokens or 0
        written = self._usage.cache_creation_input_tokens or 0
        total = (self._usage.input_tokens or 0) + read + written
        usage = self._frame.usage(total, self._usage.output_tokens or 0, read)
        if not written or not self._frame.price:
            return usage
        extra = written * self._frame.price.input * _WRITE_EXTRA / 1e6
        return msgspec.structs.replace(usage, usd=usage.usd + extra)
