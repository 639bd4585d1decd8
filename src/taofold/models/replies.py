"""What the readers of all providers' replies share: bytes become events, and events a reply.

A stream is cut into Server-Sent Events (WHATWG HTML 9.2, `data` fields only) or lines of JSON,
wherever the network cut it. A provider may send anything: whatever it is, a reader gives a `Reply`
or raises `ModelError`, also for an error within a 200 (`reported_error`). `ReplyContext` is what a
reader must know about the call whose reply it reads: calls get ids, usage its cost. Knows no
provider's events, and nothing of requests (`encoding`).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec
from msgspec import structs

from taofold.core.content import Issuer, Part, TextPart, ThinkingPart
from taofold.core.errors import ModelError
from taofold.core.json_values import is_object, is_sequence
from taofold.core.reply import bare_tool_name
from taofold.core.values import Reply, ToolCall, Usage
from taofold.models.decoding import (
    Unfit,
    error_code,
    error_report,
    error_status,
    error_words,
    fitted,
    spoken_words,
)
from taofold.models.prices import Price
from taofold.models.provider_errors import fault
from taofold.models.wire_names import original_arguments
from taofold.runtime.model import Speaker

_MOST_CALLS: Final = 256
"""More in one reply were never meant: no provider allows half as many tools."""
_MOST_TOKENS: Final = 1 << 40
_CHARS_PER_TOKEN: Final = 4
MOST_CHARS_PER_TOKEN: Final = 16
"""No tokenizer gets more of ordinary text into a token, so a smaller count is none."""


def _ended(calls: tuple[ToolCall, ...], finish: str) -> tuple[bool, str]:
    """Are the calls whole, and why did they end: some servers say "stop" of calls too.

    No arguments stand for an empty object only where the provider says that the calls are
    whole. Elsewhere they may have been lost, which whoever knows the tool must judge.
    """
    if finish == "tool_calls":
        return True, finish
    whole = finish == "stop" and calls and all([call.arguments for call in calls])
    return False, "tool_calls" if whole else finish


def _is_blank(part: Part) -> bool:
    """Is it a call of no tool, without arguments? Some servers put one beside a text."""
    return type(part) is ToolCall and not part.name and part.arguments in ("", "{}", "null")


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


def tokens_of(part: Part) -> int:
    """Estimated tokens of a part: four characters each, at least one."""
    match part:
        case TextPart() | ThinkingPart():
            return -(-len(part.text) // _CHARS_PER_TOKEN)
        case ToolCall():
            return -(-(len(part.name) + len(part.arguments)) // _CHARS_PER_TOKEN)
        case _:
            return 0


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
    properties: Mapping[str, Mapping[str, str]] = {}
    sent: int = 0
    """Estimated tokens of the prompt, which count where the provider's count cannot be right."""
    least: int = 0
    """Tokens that the text of the prompt has at least."""
    has_own_price: bool = False
    """The user configured the price: the price in the endpoint's answer does not count."""
    unused: list[dict[str, Any]] = msgspec.field(default_factory=list[dict[str, Any]])
    """The last event with words for people and without a field that a reader uses."""

    def call(self, name: str, arguments: str, id: str, index: int, opaque: str = "") -> ToolCall:  # noqa: A002
        """A tool call under the tool's own name, with an id in any case."""
        original = self.names.get(name)
        if original is None:
            original = self.names.get(bare_tool_name(name), name)
        if original in self.properties:
            arguments = original_arguments(arguments, self.properties[original])
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
        written_long: int = 0,
        total: int = 0,
    ) -> Usage:
        """Usage with its cost; `tier` is the service tier that was really used.

        `written_long`: the tokens of those written that the cache keeps for an hour. `total`: the
        provider's sum, where it reports one.

        Counts are the provider's word: none is below zero, or too large to be written down. Where
        they contradict each other, the larger reading counts, so that limits hold: more cached
        than input means that the input leaves out what was cached (proxies to Anthropic), and a
        total above the sum means that the output leaves out the reasoning (xAI, Gemini's
        compatible endpoint).
        """
        taken, output = input_tokens, output_tokens
        if cached > taken:
            taken = _count(taken) + _count(cached)
        if total > taken + output:
            output = _count(total) - _count(taken)
        if not (
            0 <= cached <= taken <= _MOST_TOKENS
            and 0 <= reasoning <= output <= _MOST_TOKENS
            and 0 <= written <= taken
        ):
            taken, output = _count(input_tokens), _count(output_tokens)
            cached, written = min(_count(cached), taken), min(_count(written), taken)
            reasoning = min(_count(reasoning), output)
        unknown = self.price is None and taken + output
        usage = Usage(taken, output, cached, None if unknown else 0.0, written, reasoning)
        if self.price is None:
            return usage
        usd = self.price.cost(usage, tier, written_long=_count(written_long))
        return structs.replace(usage, usd=usd) if usd else usage

    def reply(
        self, parts: Sequence[Part], usage: Usage, finish: str, notes: Sequence[str] = ()
    ) -> Reply:
        """The finished reply."""
        if len(parts) > 1:
            parts = [part for part in parts if not _is_blank(part)] or parts[:1]
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
            usage=self._plausible(usage, parts),
            model=self.model,
            finish=finish,
            parts=tuple(parts),
            issuer=self.issuer,
            notes=notes,
        )

    def _plausible(self, usage: Usage, parts: Sequence[Part]) -> Usage:
        """The usage, with an estimate where the provider counts too little: limits hold by it."""
        written = sum(map(tokens_of, parts))
        taken, output = usage.input_tokens, usage.output_tokens
        if taken < max(self.least, 1):
            taken = max(taken, self.sent)
        if output * MOST_CHARS_PER_TOKEN < written * _CHARS_PER_TOKEN:
            output = written
        if (taken, output) == (usage.input_tokens, usage.output_tokens):
            return usage
        estimated = self.usage(
            taken, output, usage.cached_tokens, usage.written_tokens, usage.reasoning_tokens
        )
        if estimated.usd is None:
            return estimated
        # The dearer: the service tier is part of the first only, the estimate of the second.
        return structs.replace(estimated, usd=max(estimated.usd, usage.usd or 0.0))

    def unreadable(self, why: str) -> ModelError:
        """The error for an answer that is not what the format says."""
        return ModelError(f"{self.model} gave an unreadable answer: {why}", kind="reply")

    def empty(self, why: str, body: bytes) -> ModelError:
        """The error for an answer without a reply: what the server says in it, or `why`."""
        with suppress(ValueError, RecursionError):
            report = _loaded(body)
            if is_object(report) and spoken_words(report):
                return reported_error(self, report)
        return self.unreadable(why)

    def broken_off(self) -> ModelError:
        """The error for a stream that ends before the reply does."""
        if self.unused:
            return reported_error(self, self.unused[0])
        return ModelError(
            f"the stream of {self.model} broke off before the reply was complete", kind="network"
        )


_DONE: Final = b"[DONE]"
_BOM: Final = b"\xef\xbb\xbf"
"""A stream may begin with it (WHATWG HTML 9.2.5)."""


class LineDecoder:
    """Calls `on_line` with each complete line, without its end."""

    __slots__ = ("_after_cr", "_on_line", "_rest")

    def __init__(self, on_line: Callable[[bytes], None]) -> None:
        self._on_line = on_line
        self._rest: list[bytes] = []
        self._after_cr = False
        """The last byte was a CR: an LF behind it ends no further line."""

    def feed(self, chunk: bytes) -> None:
        """Take in the next bytes. A line ends with LF, CR LF or CR."""
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in chunk:  # joined once: a line may come in very many pieces
            self._rest.append(chunk)
            return
        lines = b"".join((*self._rest, chunk)).split(b"\n")
        self._rest = [lines.pop()]
        for line in lines:
            self._on_line(line)

    def close(self) -> None:
        """The stream ended: what is left is a line."""
        rest, self._rest = b"".join(self._rest), []
        if rest:
            self._on_line(rest)


class EventDecoder:
    """Calls `on_event` with the data of each event; several `data` lines are joined by newline.

    `on_error` gets the data of events that are named "error", and what llama.cpp writes behind
    `error:` in place of `data:`.
    """

    __slots__ = ("_data", "_is_error", "_lines", "_on_error", "_on_event")

    def __init__(
        self, on_event: Callable[[bytes], None], on_error: Callable[[bytes], None] | None = None
    ) -> None:
        self._on_event, self._on_error = on_event, on_error or on_event
        self._data: list[bytes] = []
        self._is_error = False
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
        elif not line:
            data, self._data = b"\n".join(self._data), []
            is_error, self._is_error = self._is_error, False
            # An event without data is none (WHATWG HTML 9.2.6): servers keep connections so.
            if data.strip():
                (self._on_error if is_error else self._on_event)(data)
        elif line.startswith(b"event:"):
            self._is_error = line[6:].strip() == b"error"
        elif line.startswith(b"error:"):
            self._is_error = True
            self._data.append(line[6:])
        elif line.startswith(_BOM):
            self._line(line[len(_BOM) :])


Decoded = TypeVar("Decoded", bound=msgspec.Struct)

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are no JSON, of another shape, or nested without end."""
_SHOWN: Final = 120
_MOST_DIGITS: Final = 4000
_ERROR: Final = b'"error"'
"""In text it would be escaped, so that it is a key or a whole value."""


def decode(frame: ReplyContext, decoder: "msgspec.json.Decoder[Decoded]", data: bytes) -> Decoded:
    """What `decoder` reads.

    A field that does not fit is left out (`fitted`). Half a character is let through as it was
    sent: servers that count in UTF-16 cut a character in two, and the other half is in the next
    event (`paired`). So are `NaN` and raw control characters, which no JSON has.

    Raises:
        ModelError: the bytes do not have the format, or report an error.
    """
    try:
        answer, value = decoder.decode(data), None
    except UNREADABLE as error:
        try:
            value = _loaded(data)
            answer = fitted(value, decoder.type)
        except (ValueError, RecursionError, Unfit):
            excerpt = bytes(data[:_SHOWN]).decode("utf-8", "replace")
            # An excerpt: an answer may be megabytes of a proxy's HTML.
            raise frame.unreadable(f"{error}; it begins {excerpt!r}") from None
    unused = not any(structs.astuple(answer))
    # Looked at again only where it may be an error: the mark is in it, or nothing that is used.
    with suppress(ValueError, RecursionError):
        if value is None and (unused or _ERROR in data):
            value = _loaded(data)
        if value is not None:
            _look_for_errors(frame, value, unused=unused)
    return answer


def _loaded(data: bytes) -> Any:
    """JSON with raw control characters, and with numbers of any length.

    Raises:
        ValueError: it is none.
        RecursionError: it is nested without end.
    """
    return json.loads(data, strict=False, parse_int=_integer)


def _integer(digits: str) -> int | float:
    # Python refuses to read very long ones, and no server means them.
    return int(digits) if len(digits) <= _MOST_DIGITS else float("inf")


def _look_for_errors(frame: ReplyContext, value: Any, *, unused: bool) -> None:
    """Raise the error that an event reports; keep its words if there is nothing else in it."""
    if report := error_report(value):
        raise reported_error(frame, report)
    if unused and is_object(value) and spoken_words(value):
        frame.unused[:] = [value]


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
    inner: Any = report.get("error")
    if inner and is_object(inner):
        report = inner
    elif inner and isinstance(inner, str):
        report = {"message": inner, **report}
    return fault(
        # OpenRouter puts the status of the provider behind it into `code`.
        error_status(report),
        error_code(report),
        error_words(report),
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
        self._events = EventDecoder(self._next, self._error)
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
        if self._frame.unused and not reply.parts:
            raise reported_error(self._frame, self._frame.unused[0])
        try:
            reply.text.encode()
            for call in reply.calls:
                call.arguments.encode()
        except UnicodeEncodeError:
            return replace(reply, parts=tuple([_whole_characters(part) for part in reply.parts]))
        return reply

    def _next(self, data: bytes) -> None:
        """The next event. Gateways end the streams of all formats as chat completions do."""
        if self._ended:
            return  # the bytes of one read may hold more, and those of the next are not read
        if data.strip() == _DONE:
            self._ended = True
        else:
            self._event(data)

    def _error(self, data: bytes) -> None:
        """An event that is named "error": its data may be JSON of any shape, or words."""
        try:
            report: Any = _loaded(data)
        except (ValueError, RecursionError):
            report = data.decode("utf-8", "replace").strip()
        raise reported_error(self._frame, report)

    def _event(self, data: bytes) -> None:
        raise NotImplementedError

    def _reply(self) -> Reply:
        raise NotImplementedError
