"""Calls one provider's address: limiter, transport, retries (`RetryPolicy`), and a listener.

An adapter supplies bodies, a reader of answers (`ReplyReader`) and, for signed requests, a `Sign`.
This module does not depend on formats. `limiter` bounds the request rate, `provider_errors`
interprets errors.
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
"""Kinds of errors that are retried. A timeout is not: it has already used its time."""
_EVENTS: Final = (b"data:", b"event:", b"id:", b"retry:", b"error:", b":")
"""Starts of an event stream that cannot be JSON."""
_BOM: Final = b"\xef\xbb\xbf"


class RetryPolicy(NamedTuple):
    """Bounds of retries. `rate_attempts` applies to answers with status 429."""

    attempts: int = 3
    rate_attempts: int = 6
    seconds: float = 300.0
    """Seconds after the first attempt in which retries may start."""
    first: float = 0.5
    longest: float = 20.0
    draw: Callable[[], float] = random.random
    """Jitter: uniform in [0, 1)."""

    def delay(self, error: ModelError, attempt: int, elapsed: float) -> float | None:
        """Returns the seconds to wait after attempt `attempt` (from 1), or None to give up."""
        if error.kind not in AGAIN:
            return None
        if attempt >= (self.rate_attempts if error.kind == "rate" else self.attempts):
            return None
        # Half of the delay is fixed, because a jitter near zero would make all clients return at
        # once.
        delay = min(self.longest, self.first * 2.0 ** (attempt - 1)) * (0.5 + self.draw() / 2)
        delay = max(delay, error.retry_after or 0.0)
        return delay if elapsed + delay <= self.seconds else None


_network: Final = Http()
_BOUNDS: Final = Bounds()
_RETRY: Final = RetryPolicy()


class ReplyReader(Protocol):
    """Reads one answer, streamed or whole. Each attempt has a new one."""

    @property
    def complete(self) -> bool:
        """True if the reply is whole, even if the stream breaks off now."""
        ...

    def feed(self, chunk: bytes) -> bool | None:
        """Takes bytes of a stream. Returns True if nothing follows."""
        ...

    def close(self) -> Reply:
        """Ends the stream and returns the reply.

        Raises:
            ModelError: The reply is incomplete.
        """
        ...

    def whole(self, body: bytes) -> Reply:
        """Reads an answer that was not streamed."""
        ...

    def charge(self, error: BaseException) -> None:
        """Reports the consumption of this attempt, which `error` ended without a reply."""
        ...


Sign: TypeAlias = Callable[[str, Body], Awaitable[Mapping[str, str]]]
"""Takes URL and body, returns headers."""


class Endpoint:
    """One address with one key.

    Args:
        url: The full URL.
        headers: Sent with every request, the key included.
        secret: The key. Never shown.
        transport: Carries requests. None uses the network.
        bounds: Timeouts in seconds and the maximum bytes of an answer.
        sign: Returns the headers of one request, if a key alone is not enough (a signature, a token
            that expires).
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
        """Posts `body` and reads the answer, with retries.

        Args:
            body: The body, in pieces.
            tokens: Tokens that the call may use, for a configured token rate.
            reader: Makes the reader for one attempt.
            speaker: Receives the text and the start of each new attempt.
            streaming: True if the body requests a stream.
            url: The URL, if not the endpoint's own.
        """
        sent = joined(body)
        started = self._clock()
        attempt = 0
        while True:
            attempt += 1
            if self.limiter.busy:
                self._refuse_long_wait()
                await self.limiter.admit(tokens)
            # Taken after the wait, so that a 429 to this request reflects the account's current
            # state.
            ticket = self.limiter.ticket
            try:
                return await self._once(url or self.url, sent, reader(), speaker, streaming)
            except ModelError as error:
                delay = self._retry.delay(error, attempt, self._clock() - started)
                if error.kind == "rate":
                    # Other requests wait too. This one waits with them, in `admit`.
                    self.limiter.reject(ticket, delay or error.retry_after or 0.0)
                if delay is None:
                    raise
                if error.kind != "rate":
                    await self._sleep(delay)

    def _refuse_long_wait(self) -> None:
        """Raises if the provider asked another request to wait very long."""
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
            # Text of an earlier attempt is void.
            speaker.rewind()
        headers = await self._signed(url, body)
        try:
            reply = await self._read(url, headers, body, reader, transport, streaming=streaming)
        except BaseException as error:
            # Also a cancelled task: the provider bills what it was asked.
            reader.charge(error)
            raise
        if self.limiter.busy:
            self.limiter.accept()
        return reply

    async def _read(
        self,
        url: str,
        headers: Mapping[str, str],
        body: Body,
        reader: ReplyReader,
        transport: Transport,
        *,
        streaming: bool,
    ) -> Reply:
        try:
            answer = await transport.post(
                url, headers, body, self._bounds, reader.feed if streaming else None
            )
        except ModelError as error:
            # A stream that broke off or never ended is accepted if its reply is whole.
            if not streaming or error.kind not in ("network", "timeout") or not reader.complete:
                raise
            return reader.close()
        if answer.status != 200:
            raise failure(answer, url, self.secret)
        return _read(reader, answer.body, streaming=streaming)


def _read(reader: ReplyReader, body: bytes, *, streaming: bool) -> Reply:
    """Returns the reply. Handles answers of the wrong kind.

    A server may answer a streaming request with one document (nothing was fed), or send a stream
    with another content type.
    """
    if not body and streaming:
        return reader.close()
    body = body.removeprefix(_BOM)
    if body.lstrip().startswith(_EVENTS):
        reader.feed(body)
        return reader.close()
    return reader.whole(body)
