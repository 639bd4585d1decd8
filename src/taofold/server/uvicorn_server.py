"""The HTTP server under the application: uvicorn, with bounds on how a request may arrive.

uvicorn waits for ever for the first line of a request; here a connection that does not bring a
whole header in time is closed. What is written after a client has gone is dropped
(`OpenTransport`), which would otherwise be a warning each time.
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
"""At once; the rest get 503."""
HEADER_S: Final = 10.0
"""Seconds that the header of a request may take."""
HEADER_BYTES: Final = 32_768
STOP_S: Final = 5
"""Seconds that open connections get when the server stops."""

_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_logger = logging.getLogger(__name__)


class OpenTransport:
    """A transport that drops what is written after the client has gone.

    A burst of events is written before asyncio can tell anybody that the connection is lost; it
    would log a warning for each of them.
    """

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        """Everything else is the transport's."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write, while anybody is there."""
        if not self._transport.is_closing():
            self._transport.write(data)


class HeaderTimeoutProtocol(H11Protocol):
    """Closes connections whose header does not arrive in time.

    The time counts from the connection, or from the first byte after the last answer.
    """

    header_s = HEADER_S
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """A client has connected."""
        super().connection_made(cast("asyncio.Transport", OpenTransport(transport)))
        self._late = self.loop.call_later(self.header_s, self._give_up)

    def data_received(self, data: bytes) -> None:
        """Something arrived."""
        # A kept-alive connection starts its next request here; the timer runs anew for it.
        if self._late is None and not self._busy():
            self._late = self.loop.call_later(self.header_s, self._give_up)
        super().data_received(data)
        # The header is complete once a request is being
        # answered; its body has a time of its own.
        if self._busy():
            self._relax()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._relax()
        super().connection_lost(exc)

    def _busy(self) -> bool:
        """Is a request being answered?"""
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
    """Ends on SIGTERM and Ctrl-C, and lets its process end by itself.

    uvicorn would raise the signal once more behind itself, so that what comes after the server is
    not done and the process ends as one that was killed.
    """

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop at a signal; the second Ctrl-C ends it at once."""
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread hears signals
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
    """An event loop's handler of errors that logs once a second why no client can connect.

    asyncio tells of each connection that the process has no descriptor for, thousands a second.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock, self._said = clock, float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an error that no other handler took."""
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
    """A uvicorn server, not yet started."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        # uvicorn makes the protocol objects itself,
        # from a class: a parameter has to live on one.
        http=type("HeaderTimeoutProtocol", (HeaderTimeoutProtocol,), {"header_s": header_s}),
        ws="none",
        lifespan="on",
        # uvicorn would else configure the loggers of the whole process.
        log_config=None,
        # An access log would write the codes of sign-in
        # links down; the audit names paths of refusals.
        access_log=False,
        server_header=False,
        date_header=True,
        # X-Forwarded-For would let any client say that it is this machine.
        proxy_headers=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=STOP_S,
        limit_concurrency=MOST_CONNECTIONS,
        h11_max_incomplete_event_size=HEADER_BYTES,
        backlog=2048,
    )
    return HttpServer(config)
