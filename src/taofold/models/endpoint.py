"""Calls one provider's address: limiter, transport, retries, and one listener throughout.

An adapter gives it bodies and a reader of answers; it knows nothing about either's format.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

from taofold.core.errors import ConfigError, ModelError
from taofold.core.values import Reply
from taofold.models.http import Http
from taofold.models.limiter import Limiter, shared
from taofold.models.retry import Retry, failure
from taofold.models.transport import Body, Bounds, Transport, guard, joined
from taofold.runtime.model import Speaker

_network: Final = Http()
_BOUNDS: Final = Bounds()
_RETRY: Final = Retry()


class Reader(Protocol):
    """Reads one answer, streamed or whole. A new one serves each attempt."""

    def feed(self, chunk: bytes) -> None:
        """Take in bytes of a stream."""
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
        retry: Retry = _RETRY,
        limiter: Limiter | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        sign: Sign | None = None,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"base_url {url!r} must start with http:// or https://")
        self.url, self._sign = url, sign
        self.limiter = limiter or shared(url, secret)
        self._headers = {"Content-Type": "application/json", **headers}
        self.secret, self._transport, self._bounds = secret, transport, bounds
        self._retry, self._clock, self._sleep = retry, clock, sleep

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r})"

    async def ask(
        self,
        body: Sequence[bytes],
        tokens: int,
        reader: Callable[[], Reader],
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
                await self.limiter.admit(tokens)
            ticket = self.limiter.ticket
            try:
                return await self._once(url or self.url, sent, reader(), speaker, streaming)
            except ModelError as error:
                delay = self._retry.delay(error, attempt, self._clock() - started)
                if error.kind == "rate":
                    self.limiter.reject(ticket, delay or error.retry_after or 0.0)
                if delay is None:
                    raise
                if error.kind != "rate":
                    await self._sleep(delay)

    async def _signed(self, url: str, body: Body) -> Mapping[str, str]:
        if self._sign is None:
            return self._headers
        return {**self._headers, **await self._sign(url, body)}

    async def _once(
        self, url: str, body: Body, reader: Reader, speaker: Speaker | None, streaming: bool
    ) -> Reply:
        transport = self._transport or guard.stand_in or _network
        if speaker is not None:
            speaker.rewind()
        answer = await transport.post(
            url,
            await self._signed(url, body),
            body,
            self._bounds,
            reader.feed if streaming else None,
        )
        if answer.status != 200:
            raise failure(answer, url, self.secret)
        reply = reader.whole(answer.body) if answer.body or not streaming else reader.close()
        if self.limiter.busy:
            self.limiter.accept()
        return reply
