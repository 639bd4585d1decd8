"""The HTTP server of the application: uvicorn, with limits for arriving requests.

uvicorn waits forever for the first line of a request; here a connection without a complete header
in time is closed. Writes after a client's disconnect are dropped (`OpenTransport`), because each
would log a warning.
"""

import asyncio
import errno
import logging
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic
from typing import Any, Final, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS: Final = 10_000
"""Maximum connections; others get 503."""
HEADER_S: Final = 10.0
"""Seconds for the header of a request."""
HEADER_BYTES: Final = 32_768
STOP_S: Final = 5
"""Seconds for open connections when the server stops."""

_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_logger = logging.getLogger(__name__)


class OpenTransport:
    """A transport that drops writes after the client's disconnect.

    A burst of events is written before asyncio reports the lost connection, and it would log a
    warning for each write.
    """

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        """Returns all other attributes of the transport."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Writes while the client is connected."""
        if not self._transport.is_closing():
            self._transport.write(data)


class HeaderTimeoutProtocol(H11Protocol):
    """Closes connections whose header does not arrive in time.

    The time counts from the connection, or from the first byte after the last response.
    """

    header_s = HEADER_S
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Starts the timer of a new connection."""
        super().connection_made(cast("asyncio.Transport", OpenTransport(transport)))
        self._late = self.loop.call_later(self.header_s, self._give_up)

    def data_received(self, data: bytes) -> None:
        """Handles received data."""
        # The next request of a kept-alive connection restarts the timer.
        if self._late is None and not self._busy():
            self._late = self.loop.call_later(self.header_s, self._give_up)
        super().data_received(data)
        # The header is complete when the request is handled; the body has its own time limit.
        if self._busy():
            self._relax()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the timer of a closed connection."""
        self._relax()
        super().connection_lost(exc)

    def _busy(self) -> bool:
        """Returns whether a request is being handled."""
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def _relax(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._late = None
        if not self._busy() and not self.transport.is_closing():
            _logger.info("a connection from %s was too slow", self.client)
            self.transport.close()


class HttpServer(uvicorn.Server):
    """Stops on SIGTERM and Ctrl-C, without ending its process.

    uvicorn would raise the signal again, so that the code after the server would not run and the
    process would end as killed.
    """

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stops at a signal; a second Ctrl-C ends at once."""
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread receives signals
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        loop.set_exception_handler(UnacceptedConnections())
        try:
            yield
        finally:
            loop.set_exception_handler(None)
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


class UnacceptedConnections:
    """An event loop's error handler that logs once a second why no client can connect.

    Without free descriptors asyncio reports each failed connection, thousands a second.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock, self._said = clock, float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handles an error without another handler."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _NO_ROOM:
            loop.default_exception_handler(context)
        elif self._clock() - self._said >= 1:
            self._said = self._clock()
            _logger.warning(
                "no connection can be accepted: %s; raise the limit (`ulimit -n`, LimitNOFILE= in "
                "a unit of systemd) or close clients",
                error.strerror,
            )


def server_for(app: ASGIApp, host: str, port: int, *, header_s: float = HEADER_S) -> uvicorn.Server:
    """Makes a uvicorn server, not started yet."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        # uvicorn makes the protocol objects from a class, so the parameter is a class attribute.
        http=type("HeaderTimeoutProtocol", (HeaderTimeoutProtocol,), {"header_s": header_s}),
        ws="none",
        lifespan="on",
        # Otherwise uvicorn would configure the loggers of the whole process.
        log_config=None,
        # An access log would contain the codes of sign-in links; the audit has the paths of
        # refusals.
        access_log=False,
        server_header=False,
        date_header=True,
        # With X-Forwarded-For any client could pretend to be this machine.
        proxy_headers=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=STOP_S,
        limit_concurrency=MOST_CONNECTIONS,
        h11_max_incomplete_event_size=HEADER_BYTES,
        backlog=2048,
    )
    return HttpServer(config)
