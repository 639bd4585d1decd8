"""Activations as invocations of a Restate service, which a Restate server hands to workers.

A worker is an HTTP endpoint that the server calls: `advance` with the id of a run. Restate keeps
the queue, retries broken invocations, and shows both. Of a run it keeps only the id. The service is
a plain one, not a virtual object: the log already prevents two workers on one run, and an object
would hold a run for as long as a frozen worker holds the connection. `RestateAddress` holds the
server's address and the worker's own, parsed from one URL.
"""

import asyncio
import logging
import socket
import threading
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

import aiohttp
import restate
import uvicorn

from taofold.clocks import clock
from taofold.core.errors import ConfigError, LogError
from taofold.engine.dispatch import Drive

PORT: Final = 9080
"""Default port of a worker."""
ADMIN_PORT: Final = 9070
REPEAT_MS: Final = 5000
"""Milliseconds before a ticket with an ended invocation is sent again while its run is due."""
KEEP: Final = timedelta(hours=1)
"""Time for which Restate remembers an ended ticket."""
_TIMEOUT_S: Final = 10.0
_STOP_S: Final = 5
_RETRIES: Final = restate.InvocationRetryPolicy(
    initial_interval=timedelta(milliseconds=100),
    max_interval=timedelta(seconds=1),
    max_attempts=30,
    on_max_attempts="kill",
)
"""After these attempts the run is enqueued again for as long as it is due."""


@dataclass(frozen=True, slots=True)
class RestateAddress:
    """The addresses of the server and of this worker.

    >>> RestateAddress.parse("http://restate:8080?worker=http://workers:9080&host=0.0.0.0").admin
    'http://restate:9070'
    """

    ingress: str
    admin: str
    worker: str
    """The address at which the server reaches the worker, or its load balancer."""
    host: str
    port: int
    shared: bool = False
    """True if other workers of this machine may listen there too (SO_REUSEPORT)."""
    key: str = ""
    """The server's public key (`publickeyv1_…`): only its requests are accepted."""

    @classmethod
    def parse(cls, text: str) -> "RestateAddress":
        """Parses `http://HOST:8080?admin=URL&worker=URL&host=ADDRESS&port=PORT&shared=yes&key=KEY`.

        Raises:
            ConfigError: It has another form.
        """
        parts = urlsplit(text)
        fields = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        unknown = fields.keys() - {"admin", "worker", "host", "port", "shared", "key"}
        if parts.scheme not in ("http", "https") or not parts.hostname or unknown:
            raise ConfigError(
                "the address of Restate is http://HOST:8080, with ?admin=URL&worker=URL&"
                f"host=ADDRESS&port=PORT&shared=yes&key=KEY if need be, not {text!r}",
                path="engine",
            )

        port = fields.get("port", str(PORT))
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise ConfigError(f"port must be 1 to 65535, not {port!r}", path="engine")
        name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return cls(
            ingress=urlunsplit((parts.scheme, parts.netloc, "", "", "")),
            admin=fields.get("admin", f"{parts.scheme}://{name}:{ADMIN_PORT}").rstrip("/"),
            worker=fields.get("worker", f"http://127.0.0.1:{port}").rstrip("/"),
            host=fields.get("host", "127.0.0.1"),
            port=int(port),
            shared=fields.get("shared", "") == "yes",
            key=fields.get("key", ""),
        )


class RestateDispatcher:
    """The service of one group of workers at a Restate server."""

    def __init__(self, address: RestateAddress) -> None:
        self._address = address
        self._service = ""
        self._session: aiohttp.ClientSession | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    async def start(self, drive: Drive, *, group: str, most: int) -> None:
        """Listens, and registers the address at the server."""
        self._service = f"taofold-{group}"
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S))
        try:
            listener = self._listener()
            app = self._app(drive, asyncio.get_running_loop(), most)
            config = uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=_STOP_S,
            )
            # In a thread of its own: the SDK and uvicorn would take over the process's signals.
            self._server = uvicorn.Server(config)
            serving = partial(asyncio.run, self._server.serve(sockets=[listener]))
            self._thread = threading.Thread(target=serving, name="restate", daemon=True)
            self._thread.start()
            await self._register()
        except ConfigError:
            await self.close()
            raise

    async def enqueue(self, run: str, ticket: str) -> None:
        """Sends the run to the service; a ticket that Restate knows is not sent again."""
        identifier, news = await self._sent(run, ticket)
        if not news and await self._ended(identifier):
            # The invocation found nothing to do, or failed: the run is still due.
            await self._sent(run, f"{ticket}.{clock() // REPEAT_MS}")

    async def pause(self) -> None:
        """Does nothing: the handler refuses from now on, and Restate tries another worker."""

    async def close(self) -> None:
        """Stops listening."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            await asyncio.to_thread(self._thread.join, 2 * _STOP_S)
        if self._session is not None:
            await self._session.close()

    def _listener(self) -> socket.socket:
        address = self._address
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        try:
            return socket.create_server(
                (address.host, address.port), family=family, reuse_port=address.shared
            )
        except OSError as error:
            raise ConfigError(
                f"a worker of Restate cannot listen at {address.host}:{address.port}: "
                f"{error.strerror}; name another one with ?host=ADDRESS&port=PORT",
                path="engine",
            ) from error

    def _app(self, drive: Drive, home: asyncio.AbstractEventLoop, most: int) -> Any:
        slots = asyncio.Semaphore(most)
        service = restate.Service(
            self._service, idempotency_retention=KEEP, invocation_retry_policy=_RETRIES
        )

        @service.handler("advance")
        async def advance(context: restate.Context, run: str) -> None:  # pyright: ignore[reportUnusedFunction]
            # Restate retries after an exception here, at any worker it reaches then.
            async with slots:
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(drive(run), home))

        # It logs a traceback for every exception of a handler; the engine logs the relevant ones.
        logging.getLogger("restate").setLevel(logging.CRITICAL)
        return restate.app([service], identity_keys=[self._address.key] * bool(self._address.key))

    async def _register(self) -> None:
        body = {"uri": self._address.worker, "use_http_11": True, "force": True}
        try:
            status, answer = await self._post(f"{self._address.admin}/deployments", body)
        except LogError as error:
            raise ConfigError(str(error), path="engine") from error
        if status >= 400:
            raise ConfigError(
                f"Restate refuses the worker at {self._address.worker}: {answer}. It must reach "
                "that address: name it with ?worker=URL",
                path="engine",
            )

    async def _sent(self, run: str, ticket: str) -> tuple[str, bool]:
        url = f"{self._address.ingress}/{self._service}/advance/send"
        status, answer = await self._post(url, run, {"idempotency-key": quote(ticket, safe="")})
        if status >= 400:
            raise LogError(f"Restate does not take runs: {status} {answer}")
        return answer["invocationId"], answer["status"] == "Accepted"

    async def _ended(self, invocation: str) -> bool:
        url = f"{self._address.ingress}/restate/invocation/{invocation}/output"
        status, _ = await self._post(url, None)
        return status not in (470, 404)

    async def _post(self, url: str, body: Any, headers: Any = None) -> tuple[int, Any]:
        """Returns status and content of the response; GET if there is no body."""
        assert self._session is not None
        method = "GET" if body is None else "POST"
        try:
            async with self._session.request(method, url, json=body, headers=headers) as answer:
                kind = answer.content_type
                content = await (answer.json() if kind == "application/json" else answer.text())
                return answer.status, content
        except (aiohttp.ClientError, TimeoutError) as error:
            kind = type(error).__name__
            raise LogError(f"Restate cannot be reached at {url}: {kind}") from error
