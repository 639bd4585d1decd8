"""Calls one provider's address: a limiter, the transport, retries, and one listener throughout.

An adapter gives it bodies and a reader of answers; it knows nothing about either's format, only the
shapes in which providers report errors.

A `Limiter` keeps every agent that shares one account below the provider's limits. Without
configured rates it costs nothing until the provider says 429. Then all agents wait until the
account is open again and start one by one; the gap between starts shrinks a little with each
success and doubles with each further 429.
"""

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from typing import Any, Final, NamedTuple, Protocol, TypeAlias
from weakref import WeakValueDictionary

import msgspec

from taofold.core.errors import ConfigError, ModelError
from taofold.core.json_values import is_object, is_sequence
from taofold.core.values import Reply
from taofold.models.transport import (
    Body,
    Bounds,
    Http,
    HttpResponse,
    Transport,
    guard,
    joined,
)
from taofold.network import bare_url
from taofold.runtime.model import Speaker

AGAIN: Final = frozenset({"rate", "server", "network", "reply"})
"""The kinds that may pass by themselves. A timeout may not: it has cost its time already."""
_EXCERPT: Final = 300
_DELAY: Final = re.compile(rb'"retryDelay":\s*"(\d{1,12}(?:\.\d{1,12})?)s"')
_LONGEST_WAIT: Final = 86_400.0
"""Seconds. A server may ask to wait for ever; after a day it is asked again."""
_EVENTS: Final = (b"data:", b"event:", b"id:", b"retry:", b":", b"\xef\xbb\xbf")
"""How a stream of events begins, and no JSON does."""
_OVERFLOW: Final = (
    "context_length_exceeded",
    "maximum context length",
    "exceeds the available context size",
    "exceed_context_size",
    "prompt is too long",
    "context window",
    "context length",
    "too many tokens",
    "input is too long",
    "reduce the length",
    "too many input tokens",
    "exceeds the maximum number of tokens",
    "exceed context limit",
    "maximum prompt length",
    "exceeded model token limit",
    "token limit exceeded",
)
_BINDING: Final = (
    "invalid `signature`",
    "bound to a different conversation",
    "thought_signature",
    "corrupted thought signature",
    "encrypted content",
    "without its required",
    "items are not persisted",
    "expected `thinking`",
    "blocks in the latest assistant message",
    "must be passed back to the api",
)
"""How providers say that they will not have back what they once signed or encrypted."""
_QUOTA: Final = ("insufficient_quota", "billing_hard_limit", "credit balance is too low")
_ADVICE: Final = {
    "auth": "check the key, and that it may use this model",
    "quota": "the account has no credit left: top it up or use another model",
    "overflow": "the conversation is longer than the model's context window",
    "rate": "the account's rate limit is reached",
    "404": "check the model's name and `base_url`",
    "binding": "the provider does not accept its own earlier reasoning back",
    "3xx": "it redirects elsewhere, which is never followed: set `base_url` to the final address",
}


class RetryPolicy(NamedTuple):
    """How often and how long. `rate_attempts` counts answers 429, which waiting does cure."""

    attempts: int = 3
    rate_attempts: int = 6
    seconds: float = 300.0
    """No retry starts later than this after the first attempt."""
    first: float = 0.5
    longest: float = 20.0
    draw: Callable[[], float] = random.random
    """Jitter: uniform in [0, 1)."""

    def delay(self, error: ModelError, attempt: int, elapsed: float) -> float | None:
        """Seconds to wait after failed attempt number `attempt` (from 1), None to give up."""
        if error.kind not in AGAIN:
            return None
        if attempt >= (self.rate_attempts if error.kind == "rate" else self.attempts):
            return None
        # Half of it is fixed: jitter that may be zero would let a crowd come back at once.
        delay = min(self.longest, self.first * 2.0 ** (attempt - 1)) * (0.5 + self.draw() / 2)
        delay = max(delay, error.retry_after or 0.0)
        return delay if elapsed + delay <= self.seconds else None


def retry_after(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Seconds that the answer asks to wait (RFC 9110 10.2.3: seconds or a date), None if it
    does not say.
    """
    exact = headers.get("Retry-After-Ms") or headers.get("retry-after-ms")
    value = headers.get("Retry-After") or headers.get("retry-after")
    try:
        if exact:
            return _bounded(float(exact) / 1000)
        if not value:
            return None
        if value.strip().replace(".", "", 1).isdigit():
            return _bounded(float(value))
        moment = parsedate_to_datetime(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return _bounded(moment.timestamp() - now())
    except (ValueError, OverflowError):
        return None


def _bounded(seconds: float) -> float:
    # In this order: what is no number compares as false, and becomes 0.
    return min(max(0.0, seconds), _LONGEST_WAIT)


def failure(answer: HttpResponse, url: str, secret: str = "") -> ModelError:
    """The error that an answer with a status other than 2xx stands for."""
    code, message = reason(answer.body)
    wait = retry_after(answer.headers)
    if wait is None:
        wait = _delay_in(answer.body)
    return fault(answer.status, code, message, url, secret=secret, wait=wait)


def _delay_in(body: bytes) -> float | None:
    """The delay that Google writes into the body: `"retryDelay": "1.5s"`."""
    match = _DELAY.search(body) if b"retryDelay" in body else None
    return _bounded(float(match[1])) if match else None


def fault(
    status: int, code: str, message: str, url: str, *, secret: str = "", wait: float | None = None
) -> ModelError:
    """The error for what a provider says, be it in a status, a body or a stream."""
    kind, advice = _sort(status, f"{code} {message}".lower())
    public = _printable(message if not secret else message.replace(secret, "***"))
    code = _printable(code)[:_EXCERPT]
    text = f"{bare_url(url)} answered {status}" if status else f"{bare_url(url)} reported an error"
    text += f" ({code})" if code and code != str(status) else ""
    text += f": {public[:_EXCERPT]}" if public else ""
    advice = _ADVICE.get(advice, "")
    return ModelError(
        f"{text} [{advice}]" if advice else text, kind=kind, status=status, retry_after=wait
    )


def _printable(text: str) -> str:
    """The text without what a terminal would obey."""
    if text.isprintable():
        return text
    return "".join([char if char.isprintable() or char == "\n" else " " for char in text])


class _Sorting(NamedTuple):
    """Errors of one kind: `always` with these statuses, `among` others if a mark is in the text."""

    kind: str
    advice: str
    always: Container[int] = ()
    among: Container[int] = ()
    marks: tuple[str, ...] = ()

    def fits(self, status: int, text: str) -> bool:
        if status in self.always:
            return True
        return status in self.among and any([mark in text for mark in self.marks])


_ANY: Final = range(1 << 16)
_SORTINGS: Final = (
    # Google answers 400 to a wrong key, so its text counts too.
    _Sorting("auth", "auth", (401, 403), _ANY, ("api_key_invalid", "api key not valid")),
    _Sorting("binding", "binding", (), (400, 404, 422), _BINDING),
    # Before 429: OpenAI sends that for an empty account too, and no waiting helps there.
    _Sorting("auth", "quota", (402,), _ANY, _QUOTA),
    # Not from 429 on: a rate limit also speaks of too many tokens.
    _Sorting("overflow", "overflow", (413,), range(429), _OVERFLOW),
    _Sorting("rate", "rate", (429,), (0,), ("rate_limit",)),
    _Sorting("server", "", (408,)),
    _Sorting("server", "", range(500, 1 << 16)),
    _Sorting("request", "", (), (0,), ("invalid_request",)),
    _Sorting("server", "", (0,)),
    _Sorting("request", "404", (404,)),
    _Sorting("request", "3xx", range(300, 400)),
    _Sorting("request", "", _ANY),
)
"""In this order: the first that fits. 0 is the status of what came in a stream or a body."""


def _sort(status: int, text: str) -> tuple[str, str]:
    """The kind of the error, and which advice it gets."""
    sorting = next(sorting for sorting in _SORTINGS if sorting.fits(status, text))
    return sorting.kind, sorting.advice


def reason(body: bytes) -> tuple[str, str]:
    """Code and message of an error body, in any of the providers' shapes."""
    try:
        report: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "", body[:_EXCERPT].decode("utf-8", "replace").strip()
    # Google wraps the error of a stream in a list.
    while is_sequence(report) and report:
        report = report[0]
    if not is_object(report):
        return "", str(report)
    inner: Any = report.get("error", report)
    if not is_object(inner):
        return "", str(inner)
    code: Any = inner.get("code")
    # A number only repeats the status.
    code = code if isinstance(code, str) else inner.get("type") or inner.get("status")
    message: Any = inner.get("message") or inner.get("detail") or ""
    upstream = _upstream(inner)
    return str(code or ""), f"{message}: {upstream}" if upstream else str(message)


def _upstream(error: dict[str, Any]) -> str:
    """What the provider behind a router said, which alone says what is wrong."""
    metadata: Any = error.get("metadata")
    raw: Any = metadata.get("raw") if is_object(metadata) else None
    if not isinstance(raw, str) or not raw:
        return ""
    return reason(raw.encode())[1] if raw.lstrip().startswith(("{", "[")) else raw


_GAP: Final = 0.25
_NARROW: Final = 0.01
_WIDE: Final = 10.0
_EASE: Final = 0.9
"""Halving with each success would win back at once what a refusal had just taught."""


class Limiter:
    """Admits requests. It uses no locks and no futures, so loops in several threads may share it.

    Args:
        requests_per_minute: starts per minute, evenly spaced; None = no bound of our own.
        tokens_per_minute: input tokens plus the output asked for; None = no bound.
        clock: monotonic seconds.
        sleep: waits that many seconds.
    """

    __slots__ = (
        "__weakref__",
        "_clock",
        "_due",
        "_gap",
        "_per_request",
        "_per_token",
        "_shut_until",
        "_sleep",
        "_turn",
        "busy",
        "ticket",
    )

    def __init__(
        self,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._per_request = self._per_token = 0.0
        self._gap = 0.0
        self._shut_until = self._due = self._turn = float("-inf")
        self.ticket = 0
        self.busy = False
        self.configure(requests_per_minute, tokens_per_minute)

    def configure(
        self, requests_per_minute: float | None = None, tokens_per_minute: float | None = None
    ) -> None:
        """Set rates. The stricter one wins if several agents set them."""
        if requests_per_minute:
            self._per_request = max(self._per_request, 60.0 / requests_per_minute)
        if tokens_per_minute:
            self._per_token = max(self._per_token, 60.0 / tokens_per_minute)
        self.busy = self._limits()

    def _limits(self) -> bool:
        return bool(self._per_request or self._per_token or self._gap)

    @property
    def shut(self) -> float:
        """Seconds for which the provider wants to be left alone."""
        return max(0.0, self._shut_until - self._clock())

    async def admit(self, tokens: int) -> None:
        """Wait until a request of `tokens` may start."""
        # Looked at again after each sleep: whoever woke first has moved the next turn on.
        while (delay := max(self._shut_until, self._due, self._turn) - self._clock()) > 0:
            await self._sleep(delay)
        # No await from here to the end, so within one
        # loop two requests never take the same turn.
        now = self._clock()
        self._due = now + max(self._per_request, self._per_token * tokens)
        self._turn = now + self._gap

    def reject(self, ticket: int, seconds: float) -> None:
        """The provider said 429 to a request that started when `ticket` was the ticket.

        Everybody waits `seconds`. Refusals of requests that were under way when the
        account was shut already only prolong the wait: one burst widens the gap once.
        """
        self._shut_until = max(self._shut_until, self._clock() + seconds)
        if ticket == self.ticket:
            self.ticket += 1
            self._gap = min(_WIDE, max(_GAP, self._gap * 2))
        self.busy = True

    def accept(self) -> None:
        """A request got through."""
        if not self._gap or self._clock() < self._shut_until:
            return
        self._gap = self._gap * _EASE if self._gap > _NARROW else 0.0
        # The next turn was set with the wider gap.
        self._turn = min(self._turn, self._clock() + self._gap)
        self.busy = self._limits()


_shared: Final[WeakValueDictionary[bytes, Limiter]] = WeakValueDictionary()


def shared_limiter(url: str, key: str) -> Limiter:
    """The limiter of everybody in this process who uses `key` at `url`. Keeps only a hash."""
    name = blake2b(f"{url}\0{key}".encode(), digest_size=16).digest()
    limiter = _shared.get(name)
    if limiter is None:
        # `setdefault`: another thread may have been quicker.
        # Weak: it goes with the last model that uses it.
        limiter = _shared.setdefault(name, Limiter())
    return limiter


_network: Final = Http()
_BOUNDS: Final = Bounds()
_RETRY: Final = RetryPolicy()


class ReplyReader(Protocol):
    """Reads one answer, streamed or whole. A new one serves each attempt."""

    @property
    def complete(self) -> bool:
        """Is the reply whole, even if the stream should break off now?"""
        ...

    def feed(self, chunk: bytes) -> bool | None:
        """Take in bytes of a stream. True if it says that nothing follows."""
        ...

    def close(self) -> Reply:
        """The stream ended. Raises `ModelError` if the reply is not complete."""
        ...

    def whole(self, body: bytes) -> Reply:
        """Read an answer that was not streamed."""
        ...


Sign: TypeAlias = Callable[[str, Body], Awaitable[Mapping[str, str]]]
"""`(url, body)` to headers."""


class Endpoint:
    """One address with one key.

    Args:
        url: the full URL.
        headers: sent with every request, the key included.
        secret: the key; never shown.
        transport: what carries requests, None for the network.
        bounds: timeouts in seconds and the largest answer in bytes.
        sign: gives the headers of one request where a key alone is not enough (a signature, a
            token that expires).
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        secret: str = "",
        transport: Transport | None = None,
        bounds: Bounds = _BOUNDS,
        retry: RetryPolicy = _RETRY,
        limiter: Limiter | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        sign: Sign | None = None,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"base_url {url!r} must start with http:// or https://")
        self.url, self._sign = url, sign
        self.limiter = limiter or shared_limiter(url, secret)
        self._headers = {"Content-Type": "application/json", **headers}
        self.secret, self._transport, self._bounds = secret, transport, bounds
        self._retry, self._clock, self._sleep = retry, clock, sleep

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r})"

    async def ask(
        self,
        body: Sequence[bytes],
        tokens: int,
        reader: Callable[[], ReplyReader],
        speaker: Speaker | None = None,
        *,
        streaming: bool = False,
        url: str = "",
    ) -> Reply:
        """POST `body` and read the answer, trying again while that may help.

        Args:
            body: what to send, in pieces.
            tokens: what the call may use, for a configured token rate.
            reader: makes the reader for one attempt.
            speaker: hears the text; told when a new attempt begins.
            streaming: the body asks for a stream.
            url: where to, if not to the endpoint's own.
        """
        sent = joined(body)
        started = self._clock()
        attempt = 0
        while True:
            attempt += 1
            if self.limiter.busy:
                self._refuse_long_wait()
                await self.limiter.admit(tokens)
            # After the wait: a 429 to this request says
            # something about the account as it is now.
            ticket = self.limiter.ticket
            try:
                return await self._once(url or self.url, sent, reader(), speaker, streaming)
            except ModelError as error:
                delay = self._retry.delay(error, attempt, self._clock() - started)
                if error.kind == "rate":
                    # The others wait too; this request waits with them, in `admit`.
                    self.limiter.reject(ticket, delay or error.retry_after or 0.0)
                if delay is None:
                    raise
                if error.kind != "rate":
                    await self._sleep(delay)

    def _refuse_long_wait(self) -> None:
        """Another run was told to come back much later: nobody waits for that in silence."""
        if (shut := self.limiter.shut) > self._retry.seconds:
            raise ModelError(
                f"{bare_url(self.url)} asked to be left alone for {shut:.0f} s more: the account's "
                "rate limit is reached; use another model, or come back then",
                kind="rate",
                retry_after=shut,
            )

    async def _signed(self, url: str, body: Body) -> Mapping[str, str]:
        if self._sign is None:
            return self._headers
        return {**self._headers, **await self._sign(url, body)}

    async def _once(
        self, url: str, body: Body, reader: ReplyReader, speaker: Speaker | None, streaming: bool
    ) -> Reply:
        transport = self._transport or guard.stand_in or _network
        if speaker is not None:
            # What an attempt before said is void.
            speaker.rewind()
        headers = await self._signed(url, body)
        try:
            answer = await transport.post(
                url, headers, body, self._bounds, reader.feed if streaming else None
            )
        except ModelError as error:
            # Of a stream that broke off, or never ended, nothing is lacking if its reply is whole.
            if not streaming or error.kind not in ("network", "timeout") or not reader.complete:
                raise
            return reader.close()
        if answer.status != 200:
            raise failure(answer, url, self.secret)
        reply = _read(reader, answer.body, streaming=streaming)
        if self.limiter.busy:
            self.limiter.accept()
        return reply


def _read(reader: ReplyReader, body: bytes, *, streaming: bool) -> Reply:
    """The reply: a server may answer a request for a stream with one document, in which case
    nothing was fed, or send a stream and call it something else.
    """
    if not body and streaming:
        return reader.close()
    if body.lstrip().startswith(_EVENTS):
        reader.feed(body)
        return reader.close()
    return reader.whole(body)
