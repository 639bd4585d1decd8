"""Shared parts of the readers of replies: bytes become events, and events a reply.

A stream is split into Server-Sent Events (WHATWG HTML 9.2, `data` fields only) or lines of JSON,
independent of the network's chunks. A provider may send anything: a reader returns a `Reply` or
raises `ModelError`, also for an error in a 200 (`reported_error`). `ReplyContext` holds what a
reader needs to know about the call. It gives ids to calls and prices usage. This module does not
depend on providers' events or on requests (`encoding`).
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec
from msgspec import structs

from taofold.core.content import Issuer, Part, TextPart, ThinkingPart
from taofold.core.errors import ConfigError, ModelError
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
from taofold.runtime.metering import report_consumption
from taofold.runtime.model import Speaker

_MOST_CALLS: Final = 256
"""Maximum calls in one reply. No provider allows half as many tools."""
_MOST_TOKENS: Final = 1 << 40
_CHARS_PER_TOKEN: Final = 4
MOST_CHARS_PER_TOKEN: Final = 16
"""No tokenizer packs more ordinary text into a token, so a smaller count is wrong."""


def _ended(calls: tuple[ToolCall, ...], finish: str) -> tuple[bool, str]:
    """Returns True if the calls are whole, and their finish reason.

    Some servers report "stop" for calls too. Missing arguments mean an empty object only if the
    provider reports the calls as whole. Otherwise they may be lost, and the caller must decide.
    """
    if finish == "tool_calls":
        return True, finish
    whole = finish == "stop" and calls and all([call.arguments for call in calls])
    return False, "tool_calls" if whole else finish


def _is_blank(part: Part) -> bool:
    """Returns True for a call without tool and arguments, which some servers send with a text."""
    return type(part) is ToolCall and not part.name and part.arguments in ("", "{}", "null")


def _told_apart(parts: Sequence[Part]) -> Sequence[Part]:
    """Returns the parts with unique ids for calls.

    A repeated call with the same id is dropped. A different call gets another id.
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
    """Returns the count at `path` in a provider's report. Any other value counts as 0."""
    count: int = _number_at(usage, path, int)
    return count


def amount_of(usage: Any, *path: str) -> float:
    """Returns the amount at `path` in a provider's report. Any other value counts as 0."""
    amount: float = _number_at(usage, path, float)
    return amount


def _number_at(usage: Any, path: Sequence[str], kind: type) -> Any:
    for name in path:
        usage = usage.get(name) if is_object(usage) else None
    try:
        return fitted(usage, kind)
    except (Unfit, OverflowError):
        return 0


def _count(tokens: int) -> int:
    return min(max(tokens, 0), _MOST_TOKENS)


def tokens_of(part: Part) -> int:
    """Estimates the tokens of a part: four characters each, at least one."""
    match part:
        case TextPart() | ThinkingPart():
            return -(-len(part.text) // _CHARS_PER_TOKEN)
        case ToolCall():
            return -(-(len(part.name) + len(part.arguments)) // _CHARS_PER_TOKEN)
        case _:
            return 0


class ReplyContext(msgspec.Struct, frozen=True):
    """Facts about the call that the reader of its reply needs."""

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
    """Estimated tokens of the prompt, used if the provider's count is implausible."""
    least: int = 0
    """Minimum tokens of the prompt's text."""
    has_own_price: bool = False
    """The user configured the price, so the endpoint's own price is ignored."""
    unused: list[dict[str, Any]] = msgspec.field(default_factory=list[dict[str, Any]])
    """The last event with readable words that no reader used."""

    def call(self, name: str, arguments: str, id: str, index: int, opaque: str = "") -> ToolCall:  # noqa: A002
        """Returns a tool call under the tool's own name, with an id."""
        original = self.names.get(name)
        if original is None:
            original = self.names.get(bare_tool_name(name), name)
        if original in self.properties:
            arguments = original_arguments(arguments, self.properties[original])
        # A missing id becomes turn and place, the same in a replay.
        return ToolCall(original, arguments, id or f"call_{self.turn}_{index}", opaque)

    def tools(self, names: Iterable[Any]) -> tuple[str, ...]:
        """Returns the tools with these names on the wire; unknown ones are left out."""
        known = [self.names[name] for name in names if isinstance(name, str) and name in self.names]
        return tuple(dict.fromkeys(known))

    def speak(self, text: Any) -> None:
        """Passes text to the listener, if there are both."""
        if self.speaker and text and isinstance(text, str):
            self.speaker(text)

    def check_calls(self, count: int) -> None:
        """Raises `ModelError` if a reply has too many calls."""
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
        """Returns the usage with its cost.

        Counts come from the provider and are clamped to valid values. If they contradict each
        other, the larger reading counts, so that limits hold. More cached than input tokens means
        that the input excludes cached ones (proxies to Anthropic). A total above the sum means that
        the output excludes reasoning (xAI, Gemini's compatible endpoint).

        Args:
            input_tokens: Input tokens.
            output_tokens: Output tokens.
            cached: Input tokens read from the cache.
            written: Input tokens written to the cache.
            reasoning: Output tokens of reasoning.
            tier: The service tier that was used.
            written_long: The written tokens that the cache keeps for an hour.
            total: The provider's sum, if it reports one.
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
        self,
        parts: Sequence[Part],
        usage: Usage,
        finish: str,
        notes: Sequence[str] = (),
        found: Sequence[str] = (),
    ) -> Reply:
        """Returns the finished reply."""
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
            usage=self.plausible(usage, parts),
            model=self.model,
            finish=finish,
            parts=tuple(parts),
            issuer=self.issuer,
            notes=notes,
            found=found,
        )

    def plausible(self, usage: Usage, parts: Sequence[Part]) -> Usage:
        """Returns the usage, estimated if the provider counts too little, so that limits hold."""
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
        # The higher price, because only the first includes the service tier and only the second the
        # estimate.
        return structs.replace(estimated, usd=max(estimated.usd, usage.usd or 0.0))

    def charge(self, error: BaseException, so_far: Callable[[], Usage]) -> None:
        """Reports the consumption of an attempt that `error` ended without a reply.

        Args:
            error: The error, or the cancellation.
            so_far: Returns the usage of the part of the reply that was read.
        """
        if isinstance(error, ConfigError):
            return  # found before anything was sent
        usage = error.usage if isinstance(error, ModelError) else None
        known = usage is not None
        # A part of an answer may be inconsistent in ways that a whole one is not.
        with suppress(Exception):
            usage = so_far() if usage is None else usage
        usage = self.plausible(Usage(), ()) if usage is None else usage
        report_consumption(self.model, usage, estimated=not known)

    def unreadable(self, why: str) -> ModelError:
        """Returns the error for an answer that does not have the format."""
        return ModelError(f"{self.model} gave an unreadable answer: {why}", kind="reply")

    def empty(self, why: str, body: bytes) -> ModelError:
        """Returns the error for an answer without a reply: the server's message, or `why`."""
        with suppress(ValueError, RecursionError):
            report = _loaded(body)
            if is_object(report) and spoken_words(report):
                return reported_error(self, report)
        return self.unreadable(why)

    def broken_off(self) -> ModelError:
        """Returns the error for a stream that ends before the reply does."""
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
        """The last byte was a CR, so a following LF ends no further line."""

    def feed(self, chunk: bytes) -> None:
        """Takes the next bytes. A line ends with LF, CR LF or CR."""
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
        """Ends the stream. The remaining bytes are a line."""
        rest, self._rest = b"".join(self._rest), []
        if rest:
            self._on_line(rest)


class EventDecoder:
    """Calls `on_event` with the data of each event. Several `data` lines are joined by newline.

    `on_error` receives the data of events named "error", and llama.cpp's `error:` lines.
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
        """Takes the next bytes."""
        self._lines.feed(chunk)

    def close(self) -> None:
        """Ends the stream. An event that lacks only its blank line counts."""
        self._lines.close()
        self._line(b"")

    def _line(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            # One space after the colon belongs to the syntax, further ones to the data.
            self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
        elif not line:
            data, self._data = b"\n".join(self._data), []
            is_error, self._is_error = self._is_error, False
            # Events without data are ignored (WHATWG HTML 9.2.6). Servers send them to keep
            # connections.
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
"""Exceptions for bytes that are not JSON, have another form, or are nested too deep."""
_SHOWN: Final = 120
_MOST_DIGITS: Final = 4000
_ERROR: Final = b'"error"'
"""In a text it would be escaped, so it is a key or a whole value."""


def decode(frame: ReplyContext, decoder: "msgspec.json.Decoder[Decoded]", data: bytes) -> Decoded:
    """Decodes `data`.

    Fields that do not fit are dropped (`fitted`). Servers that count in UTF-16 may split a
    character between events, so half a character is passed on as sent (`paired`). `NaN` and raw
    control characters, which JSON does not allow, are accepted.

    Raises:
        ModelError: The bytes do not have the format, or report an error.
    """
    try:
        answer, value = decoder.decode(data), None
    except UNREADABLE as error:
        try:
            value = _loaded(data)
            answer = fitted(value, decoder.type)
        except (ValueError, RecursionError, Unfit):
            excerpt = bytes(data[:_SHOWN]).decode("utf-8", "replace")
            # An excerpt, because an answer may be megabytes of a proxy's HTML.
            raise frame.unreadable(f"{error}; it begins {excerpt!r}") from None
    unused = not any(structs.astuple(answer))
    # Decoded again only if it may be an error: it has the mark, or no used field.
    with suppress(ValueError, RecursionError):
        if value is None and (unused or _ERROR in data):
            value = _loaded(data)
        if value is not None:
            _look_for_errors(frame, value, unused=unused)
    return answer


def _loaded(data: bytes) -> Any:
    """Decodes JSON with raw control characters and numbers of any length.

    Raises:
        ValueError: The data are not JSON.
        RecursionError: The data are nested too deep.
    """
    return json.loads(data, strict=False, parse_int=_integer)


def _integer(digits: str) -> int | float:
    # Python refuses to read very long numbers, and no server means them.
    return int(digits) if len(digits) <= _MOST_DIGITS else float("inf")


def _look_for_errors(frame: ReplyContext, value: Any, *, unused: bool) -> None:
    """Raises the error that an event reports. Keeps its message if nothing else is in it."""
    if report := error_report(value):
        raise reported_error(frame, report)
    if unused and is_object(value) and spoken_words(value):
        frame.unused[:] = [value]


def join_surrogates(text: str) -> str:
    """Returns the text with surrogate pairs joined. A lone half becomes U+FFFD."""
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
    """Returns the error that a provider reports in an answer with status 200."""
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
    """Returns the JSON objects in a list `value`, without other entries."""
    return [entry for entry in value if is_object(entry)] if is_sequence(value) else []


class EventReader:
    """Reads one answer as events. A format's `ReplyReader` is a subclass.

    Subclasses take events (`_event`), report whether the reply is whole (`complete`), and make it
    (`_reply`). `_ended`: the provider announced the end.
    """

    def __init__(self, frame: ReplyContext) -> None:
        self._frame = frame
        self._events = EventDecoder(self._next, self._error)
        self._ended = False

    @property
    def complete(self) -> bool:
        """True if the reply is whole, even if the stream breaks off now."""
        raise NotImplementedError

    def feed(self, chunk: bytes) -> bool:
        """Takes bytes of a stream. Returns True if nothing follows."""
        self._events.feed(chunk)
        return self._ended

    def close(self) -> Reply:
        """Ends the stream and returns the reply.

        Raises:
            ModelError: The reply is incomplete.
        """
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

    def charge(self, error: BaseException) -> None:
        """Reports the consumption of this attempt, which `error` ended without a reply.

        It is what the provider reported so far, or at least the estimate of the prompt and of the
        text that arrived.
        """
        self._frame.charge(error, lambda: self._reply().usage)

    def _next(self, data: bytes) -> None:
        """Takes the next event. Gateways end streams of all formats as chat completions do."""
        if self._ended:
            return  # one read may hold more bytes
        if data.strip() == _DONE:
            self._ended = True
        else:
            self._event(data)

    def _error(self, data: bytes) -> None:
        """Takes an event named "error". Its data may be any JSON, or a text."""
        try:
            report: Any = _loaded(data)
        except (ValueError, RecursionError):
            report = data.decode("utf-8", "replace").strip()
        raise reported_error(self._frame, report)

    def _event(self, data: bytes) -> None:
        raise NotImplementedError

    def _reply(self) -> Reply:
        raise NotImplementedError
