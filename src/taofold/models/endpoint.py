"""Calls one provider's address: a limiter, the transport, retries (`RetryPolicy`), and one listener
throughout.

An adapter gives it bodies, a reader of answers (`ReplyReader`) and, where each request is signed,
what signs it (`Sign`); it knows nothing about either's format. How many requests may start is in
`limiter`, what a refusal means in `provider_errors`.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from taofold.core.errors import ConfigError, ModelError
from taofold.core.values import Reply
from taofold.models.limiter import Limiter, shared_limiter
from taofold.models.provider_errors import failure
from taofold.models.transport import (
    Body,
    Bounds,
    Http,
    Transport,
    guard,
    joined,
)
from taofold.network import bare_url
from taofold.runtime.model import Speaker

AGAIN: Final = frozenset({"rate", "server", "network", "reply"})
"""The kinds that may pass by themselves. A timeout may not: it has cost its time already."""
_EVENTS: Final = (b"data:", b"event:", b"id:", b"retry:", b"error:", b":")
"""How a stream of events begins, and no JSON does."""
_BOM: Final = b"\xef\xbb\xbf"


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
    body = body.removeprefix(_BOM)
    if body.lstrip().startswith(_EVENTS):
        reader.feed(body)
        return reader.close()
    return reader.whole(body)
