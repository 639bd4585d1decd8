"""What the readers of all providers' replies share: bytes become events, and events a reply.

A stream is cut into Server-Sent Events (WHATWG HTML 9.2, `data` fields only) or lines of JSON,
wherever the network cut it. A provider may send anything: whatever it is, a reader gives a `Reply`
or raises `ModelError`, also for an error within a 200 (`reported_error`). `ReplyContext` is what a
reader must know about the call whose reply it reads: calls get ids, usage its cost. Knows no
provider's events, and nothing of requests (`encoding`).
"""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec
from msgspec import structs

from taofold.core.content import Issuer, Part, TextPart, ThinkingPart
from taofold.core.errors import ModelError
from taofold.core.json_values import is_object, is_sequence
from taofold.core.values import Reply, ToolCall, Usage
from taofold.models.prices import Price
from taofold.models.provider_errors import fault
from taofold.runtime.model import Speaker

_MOST_CALLS: Final = 256
"""More in one reply were never meant: no provider allows half as many tools."""
_MOST_TOKENS: Final = 1 << 40


def _ended(calls: tuple[ToolCall, ...], finish: str) -> tuple[bool, str]:
    """Are the calls whole, and why did they end: some servers say "stop" of calls too.

    No arguments stand for an empty object only where the provider says that the calls are
    whole. Elsewhere they may have been lost, which whoever knows the tool must judge.
    """
    if finish == "tool_calls":
        return True, finish
    whole = finish == "stop" and calls and all([call.arguments for call in calls])
    return False, "tool_calls" if whole else finish


def _told_apart(parts: Sequence[Part]) -> Sequence[Part]:
    """The parts, no two calls of which have one id: their results could not be told apart.

    The same call under the same id was sent twice and is one; another call gets another id.
    """
    taken: set[str] = set()
    sent: set[tuple[str, str, str]] = set()
    distinct: list[Part] = []
    for part in parts:
        if type(part) is ToolCall:
            if part.identity in sent:
                continue
            sent.add(part.identity)
            number, fresh = 1, part.id
            while fresh in taken:
                number, fresh = number + 1, f"{part.id}_{number + 1}"
            taken.add(fresh)
            part = part if fresh == part.id else structs.replace(part, id=fresh)
        distinct.append(part)
    return distinct


def count_of(usage: Any, *path: str) -> int:
    """The count at `path` of what a provider reports; what is absent or null counts as 0."""
    for name in path:
        usage = getattr(usage, name, None)
    return usage or 0


def _count(tokens: int) -> int:
    return min(max(tokens, 0), _MOST_TOKENS)


class ReplyContext(msgspec.Struct, frozen=True):
    """What the reader of a reply must know about the call."""

    model: str
    issuer: Issuer
    url: str
    secret: str
    price: Price | None
    names: dict[str, str]
    turn: int
    speaker: Speaker | None = None

    def call(self, name: str, arguments: str, id: str, index: int, opaque: str = "") -> ToolCall:  # noqa: A002
        """A tool call under the tool's own name, with an id in any case."""
        original = self.names.get(name, name)
        # Servers that send no id get one that is the same in a replay: turn and place.
        return ToolCall(original, arguments, id or f"call_{self.turn}_{index}", opaque)

    def speak(self, text: Any) -> None:
        """Tell whoever listens, if there is something to tell."""
        if self.speaker and text and isinstance(text, str):
            self.speaker(text)

    def check_calls(self, count: int) -> None:
        """Raise `ModelError` for more calls than anybody makes in one reply."""
        if count > _MOST_CALLS:
            raise self.unreadable(f"it holds more than {_MOST_CALLS} tool calls")

    def usage(
        self,
        input_tokens: int,
        output_tokens: int,
        cached: int,
        written: int = 0,
        reasoning: int = 0,
        tier: str = "",
    ) -> Usage:
        """Usage with its cost; `tier` is the service tier that was really used.

        Counts are the provider's word: none is below zero, or too large to be written down.
        """
        taken, output = input_tokens, output_tokens
        if not (
            0 <= cached <= taken <= _MOST_TOKENS
            and 0 <= reasoning <= output <= _MOST_TOKENS
            and 0 <= written <= taken
        ):
            taken, output = _count(input_tokens), _count(output_tokens)
            cached, written = min(_count(cached), taken), min(_count(written), taken)
            reasoning = min(_count(reasoning), output)
        usage = Usage(taken, output, cached, 0.0, written, reasoning)
        if self.price is None:
            return usage
        usd = self.price.cost(usage, tier)
        return structs.replace(usage, usd=usd) if usd else usage

    def reply(
        self, parts: Sequence[Part], usage: Usage, finish: str, notes: Sequence[str] = ()
    ) -> Reply:
        """The finished reply."""
        calls = tuple([part for part in parts if type(part) is ToolCall])
        if len(calls) > 1:
            self.check_calls(len(calls))
            if len({call.id for call in calls}) < len(calls):
                parts = _told_apart(parts)
        whole, finish = _ended(calls, finish)
        if whole and not all([call.arguments for call in calls]):
            parts = [
                structs.replace(part, arguments="{}")
                if type(part) is ToolCall and not part.arguments
                else part
                for part in parts
            ]
        return Reply(
            usage=usage,
            model=self.model,
            finish=finish,
            parts=tuple(parts),
            issuer=self.issuer,
            notes=notes,
        )

    def unreadable(self, why: str) -> ModelError:
        """The error for an answer that is not what the format says."""
        return ModelError(f"{self.model} gave an unreadable answer: {why}", kind="reply")

    def broken_off(self) -> ModelError:
        """The error for a stream that ends before the reply does."""
        return ModelError(
            f"the stream of {self.model} broke off before the reply was complete", kind="network"
        )


DONE: Final = b"[DONE]"
_BOM: Final = b"\xef\xbb\xbf"
"""A stream may begin with it (WHATWG HTML 9.2.5)."""


class LineDecoder:
    """Calls `on_line` with each complete line, without its end."""

    __slots__ = ("_on_line", "_rest")

    def __init__(self, on_line: Callable[[bytes], None]) -> None:
        self._on_line = on_line
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> None:
        """Take in the next bytes."""
        if b"\n" not in chunk:  # joined once: a line may come in very many pieces
            self._rest.append(chunk)
            return
        lines = b"".join((*self._rest, chunk)).split(b"\n")
        self._rest = [lines.pop()]
        for line in lines:
            self._on_line(line[:-1] if line.endswith(b"\r") else line)

    def close(self) -> None:
        """The stream ended: what is left is a line."""
        rest, self._rest = b"".join(self._rest), []
        if rest:
            self._on_line(rest)


class EventDecoder:
    """Calls `on_event` with the data of each event; several `data` lines are joined by newline."""

    __slots__ = ("_data", "_lines", "_on_event")

    def __init__(self, on_event: Callable[[bytes], None]) -> None:
        self._on_event = on_event
        self._data: list[bytes] = []
        self._lines = LineDecoder(self._line)

    def feed(self, chunk: bytes) -> None:
        """Take in the next bytes."""
        self._lines.feed(chunk)

    def close(self) -> None:
        """The stream ended. An event that lacks only its blank line still counts."""
        self._lines.close()
        self._line(b"")

    def _line(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            # One space behind the colon belongs to the syntax, further ones to the data.
            self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
        elif not line and self._data:
            data, self._data = self._data, []
            self._on_event(b"\n".join(data))
        elif line.startswith(_BOM):
            self._line(line[len(_BOM) :])


Decoded = TypeVar("Decoded")

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are no JSON, of another shape, or nested without end."""
_SHOWN: Final = 120
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def decode(frame: ReplyContext, decoder: "msgspec.json.Decoder[Decoded]", data: bytes) -> Decoded:
    """What `decoder` reads.

    Half a character is let through as it was sent: servers that count in UTF-16 cut a character
    in two, and the other half is in the next event (`paired`).

    Raises:
        ModelError: the bytes are not what the format says.
    """
    try:
        return decoder.decode(data)
    except UNREADABLE as error:
        if _SURROGATE.search(data):
            with suppress(ValueError, RecursionError, msgspec.ValidationError):
                return msgspec.convert(json.loads(data), decoder.type)
        excerpt = bytes(data[:_SHOWN]).decode("utf-8", "replace")
        # An excerpt: an answer may be megabytes of a proxy's HTML.
        raise frame.unreadable(f"{error}; it begins {excerpt!r}") from None


def join_surrogates(text: str) -> str:
    """The text with the halves of characters put together; a lone one becomes U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _whole_characters(part: Part) -> Part:
    match part:
        case TextPart() | ThinkingPart():
            return structs.replace(part, text=join_surrogates(part.text))
        case ToolCall():
            return structs.replace(part, arguments=join_surrogates(part.arguments))
        case _:
            return part


def reported_error(frame: ReplyContext, error: Any) -> ModelError:
    """The error that a provider reports in the body of an answer with status 200."""
    report: dict[str, Any] = error if is_object(error) else {"message": str(error or "")}
    code: Any = report.get("code")
    kind: Any = report.get("type") or report.get("status") or code
    return fault(
        # OpenRouter puts the status of the provider behind it into `code`.
        code if isinstance(code, int) and 400 <= code < 600 else 0,
        str((code if isinstance(code, str) else kind) or ""),
        str(report.get("message") or ""),
        frame.url,
        secret=frame.secret,
    )


def objects(value: Any) -> list[dict[str, Any]]:
    """The JSON objects in `value` if it is a list; what else is in it is left out."""
    return [entry for entry in value if is_object(entry)] if is_sequence(value) else []


class EventReader:
    """Reads one answer as events; the `ReplyReader` of a format is a subclass.

    Subclasses take in an event (`_event`), say whether the reply is whole (`complete`), and make
    it (`_reply`). `_ended`: the provider said that nothing follows.
    """

    def __init__(self, frame: ReplyContext) -> None:
        self._frame = frame
        self._events = EventDecoder(self._event)
        self._ended = False

    @property
    def complete(self) -> bool:
        """Is the reply whole, even if the stream should break off now?"""
        raise NotImplementedError

    def feed(self, chunk: bytes) -> bool:
        """Take in bytes of a stream. True if it says that nothing follows."""
        self._events.feed(chunk)
        return self._ended

    def close(self) -> Reply:
        """The stream ended. Raises `ModelError` if the reply is not complete."""
        self._events.close()
        if not self.complete:
            raise self._frame.broken_off()
        reply = self._reply()
        try:
            reply.text.encode()
            for call in reply.calls:
                call.arguments.encode()
        except UnicodeEncodeError:
            return replace(reply, parts=tuple([_whole_characters(part) for part in reply.parts]))
        return reply

    def _event(self, data: bytes) -> None:
        raise NotImplementedError

    def _reply(self) -> Reply:
        raise NotImplementedError
