"""What every request passes first: host and origin (CORS preflights are answered here), rates,
headers, counts, the audit.

Pure ASGI, so that a stream is passed on as it comes. It knows routes only by their names, and
stands before everything that answers on a port: the server's routes, and MCP over HTTP
(`McpProtection`, which says to the application behind it who asks).

`RateLimiter` is a token bucket for each name. `Counts` are printed in the text format of
Prometheus. `Audit` is who did what at the server, and what was refused, a line of JSON each.
"""

import asyncio
import json
import logging
import os
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from taofold.clocks import clock
from taofold.core.errors import ConfigError
from taofold.core.json_values import is_array, is_object
from taofold.core.text import iso
from taofold.core.values import Principal
from taofold.policy.redaction import Redactor
from taofold.reserved_places import make_folder, open_file, reserve_file
from taofold.runtime.trace_context import TRACEPARENT
from taofold.server.auth import Authenticator, LocalToken, Signin, TokenStore
from taofold.server.endpoint import Problem, too_many_requests

_MOST: Final = 10_000


@dataclass(slots=True)
class RateLimiter:
    """`burst` requests at once, `per_s` more each second, for each name."""

    per_s: float
    burst: float
    _buckets: OrderedDict[str, tuple[float, float]] = field(
        default_factory=OrderedDict[str, tuple[float, float]]
    )

    def take(self, name: str, now: float, cost: float = 1.0) -> float:
        """Take from the bucket; 0.0, or the seconds to wait until that is possible."""
        # Popped and put back: the dict's order is then who was heard of last.
        left, at = self._buckets.pop(name, (self.burst, now))
        left = min(self.burst, left + max(0.0, now - at) * self.per_s)
        # A refused request takes nothing: a client that hammers is not pushed back ever further.
        wait = 0.0 if left >= cost else (cost - left) / self.per_s
        self._buckets[name] = (left if wait else left - cost, now)
        # The one unheard of for longest goes: its bucket is the fullest, so it loses nothing.
        if len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)
        return wait

    def is_exhausted(self, name: str, now: float) -> bool:
        """Would the next request have to wait?"""
        left, at = self._buckets.get(name, (self.burst, now))
        return left + max(0.0, now - at) * self.per_s < 1.0


MEDIA: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(slots=True)
class Counts:
    """Requests by route and status, and refusals by code."""

    requests: Counter[tuple[str, str, int]] = field(default_factory=Counter[tuple[str, str, int]])
    refusals: Counter[str] = field(default_factory=Counter[str])
    events: int = 0

    def text(self, gauges: Mapping[str, tuple[str, float]], runs: Mapping[str, int]) -> str:
        """Everything, with the gauges of this moment: name → (help, value)."""
        lines = list[str]()
        for name, (about, value) in gauges.items():
            lines += _head(name, about, "gauge")
            lines.append(f"taofold_{name} {value:g}")
        lines += _head("runs", "Runs in the log by status.", "gauge")
        lines += [f'taofold_runs{{status="{s}"}} {n}' for s, n in sorted(runs.items())]
        lines += _head("http_requests_total", "Requests by method, route and status.", "counter")
        for (method, route, status), count in sorted(self.requests.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            lines.append(f"taofold_http_requests_total{{{labels}}} {count}")
        lines += _head("http_refusals_total", "Requests refused, by code.", "counter")
        for code, count in sorted(self.refusals.items()):
            lines.append(f'taofold_http_refusals_total{{code="{code}"}} {count}')
        return "\n".join(lines) + "\n"


def _head(name: str, about: str, kind: str) -> list[str]:
    return [f"# HELP taofold_{name} {about}", f"# TYPE taofold_{name} {kind}"]


REFUSALS_PER_S: Final = 50
_LONGEST: Final = 300
_KEPT: Final = 1000

_logger = logging.getLogger(__name__)


class Audit:
    """Writes to the file at `path`; without one it keeps the last thousand lines."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        now: Callable[[], int] = clock,
        secrets: Iterable[str] = (),
    ) -> None:
        self._path, self._now = path, now
        if path is not None:
            reserve_file(path)
        self._redactor = Redactor((*secrets, *Redactor.secrets_in(os.environ)), guesses=True)
        self._descriptor = -1
        self._second, self._count = 0, 0
        self.last: deque[dict[str, Any]] = deque(maxlen=_KEPT)

    def __call__(self, what: str, who: str, **said: Any) -> None:
        """Write a line: what happened, and who did it."""
        line = {"at": iso(self._now()), "what": what, **self._clean({"who": who, **said})}
        self.last.append(line)
        if self._path is not None:
            self._write(line)

    def check(self) -> None:
        """Refuses a file that this user has not made.

        Raises:
            ConfigError: it is a link, a device, or somebody else's.
        """
        if self._path is None:
            return
        # It may not exist yet, and a disk that is full or read-only stops no server.
        with suppress(OSError):
            os.close(open_file(self._path, os.O_WRONLY))

    def refusal(self, who: str, **said: Any) -> None:
        """Write a line about a request that was refused; the excess of a flood is counted."""
        second = self._now() // 1000
        if second != self._second:
            missed = self._count - REFUSALS_PER_S
            # What a flood left out is one line, with the first refusal of a later second.
            self._second, self._count = second, 0
            if missed > 0:
                self("refused", "several", count=missed, detail="refusals that were not written")
        self._count += 1
        if self._count <= REFUSALS_PER_S:
            self("refused", who, **said)

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _clean(self, line: dict[str, Any]) -> dict[str, Any]:
        # As it would be written: what is no JSON is redacted in the text that stands for it.
        plain = json.loads(json.dumps(line, default=str))
        # The other way round a secret across the cut would be half written.
        cleaned: dict[str, Any] = _shortened(self._redactor.json(plain))
        return cleaned

    def _write(self, line: dict[str, Any]) -> None:
        assert self._path is not None
        body = (json.dumps(line, ensure_ascii=True, default=str) + "\n").encode()
        try:
            if self._descriptor < 0:
                # With a log in a database nothing else of a server needs this folder.
                make_folder(self._path.parent)
                # Opened once and kept. Whoever rotates the file has to restart the server.
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                self._descriptor = open_file(self._path, flags)
            # One write with O_APPEND: lines of several processes do not mix.
            os.write(self._descriptor, body)
        except (OSError, ConfigError) as error:
            _logger.error("the audit cannot be written: %s: %s", error, body.decode())


def _shortened(value: Any) -> Any:
    """`value` with every text in it cut to what a line can hold."""
    if is_object(value):
        return {name: _shortened(member) for name, member in value.items()}
    if is_array(value):
        return [_shortened(member) for member in value]
    cut = isinstance(value, str) and len(value) > _LONGEST
    return f"{value[:_LONGEST]} [… cut]" if cut else value


CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=()",
}
LONGEST_PATH: Final = 1024
LONGEST_QUERY: Final = 8192
LARGEST_HEADER: Final = 32_768
_METHODS: Final = "GET, HEAD, POST"
_ALLOWED: Final = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Accept"
_QUIET: Final = frozenset({400, 404, 405})
"""Refusals of a mere look, which are only counted."""


@dataclass(slots=True)
class AccessRecord:
    """What is known of a request while it is answered."""

    who: str = "nobody"
    route: str = "other"
    code: str = ""
    detail: str = ""


class Protection(Protocol):
    """What one server checks requests with, and counts them in."""

    @property
    def authenticator(self) -> Authenticator: ...
    @property
    def rates(self) -> RateLimiter: ...
    @property
    def failures(self) -> RateLimiter: ...
    @property
    def counts(self) -> Counts: ...
    @property
    def audit(self) -> Audit: ...


class ProtectionMiddleware:
    """The application, behind all that a request must pass first."""

    def __init__(
        self, app: ASGIApp, protection: Protection, pages: frozenset[str] = frozenset()
    ) -> None:
        self._app, self._protection, self._pages = app, protection, pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            # There are no WebSockets here: streams are server-sent events,
            # which pass this very check.
            await send({"type": "websocket.close", "code": 1003})
            return
        # Shared by reference: the route fills it in, and `_record` reads it after the answer.
        access = scope["taofold"] = AccessRecord()
        headers = Headers(scope=scope)
        # A run that this request starts hangs in the caller's trace. Each request has its own
        # context, and what is malformed counts as nothing.
        TRACEPARENT.set(headers.get("traceparent", ""))
        status = 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                # Every answer passes here, also errors and streams, so none
                # lacks the security headers.
                self._add_headers(MutableHeaders(scope=message), headers)
            await send(message)

        try:
            early = self._checked(scope, headers)
        except Problem as problem:
            access.code, access.detail = problem.code, problem.detail
            early = problem.response()
        try:
            await (early or self._app)(scope, receive, answer)
        finally:
            # Also when the client left in the middle; 500 if nothing was sent yet.
            self._record(scope, access, status)

    def _checked(self, scope: Scope, headers: Headers) -> Response | None:
        """Refuse, or answer what needs no route.

        Raises:
            Problem: the request may not come in.
        """
        path = scope["path"]
        if len(path) > LONGEST_PATH or len(scope["query_string"]) > LONGEST_QUERY:
            raise Problem(414, "too_long", "the address is too long")
        # Before anything is parsed: the sizes bound what an unknown client can make us do.
        if sum(len(name) + len(value) for name, value in scope["headers"]) > LARGEST_HEADER:
            raise Problem(431, "too_large", "the header is too large")
        page = scope["method"] in ("GET", "HEAD") and self._is_page(path)
        self._protection.authenticator.check_address(headers, page=page)
        now = asyncio.get_running_loop().time()
        # Checked before the credentials are, so that guessing is slowed down.
        if self._protection.failures.is_exhausted(
            _client(scope), now
        ) and not self._has_credentials(scope, headers):
            raise Problem(429, "rate", "too many failed attempts", headers={"Retry-After": "10"})
        wait = self._protection.rates.take(f"address:{_client(scope)}", now)
        if wait:
            raise too_many_requests(wait)
        # A preflight has no credentials, so it is answered here, before any route asks for them.
        origin = headers.get("origin", "")
        if scope["method"] == "OPTIONS" and origin in self._protection.authenticator.origins:
            return Response(status_code=204)
        return None

    def _has_credentials(self, scope: Scope, headers: Headers) -> bool:
        """Are they good? Whoever guesses from the same address must not keep this one out."""
        try:
            return self._protection.authenticator.authenticate(headers, _client(scope)) is not None
        except Problem:
            return False

    def _is_page(self, path: str) -> bool:
        return path == "/" or path.startswith(("/static/", "/signin/")) or path in self._pages

    def _add_headers(self, answer: MutableHeaders, request_headers: Headers) -> None:
        for name, value in HEADERS.items():
            # An endpoint may have set a stricter one of its own, as for media.
            answer.setdefault(name, value)
        answer.setdefault("Cache-Control", "no-store")
        origin = request_headers.get("origin", "")
        if origin in self._protection.authenticator.origins:
            answer["Access-Control-Allow-Origin"] = origin
            answer["Access-Control-Allow-Methods"] = _METHODS
            answer["Access-Control-Allow-Headers"] = _ALLOWED
            answer["Access-Control-Expose-Headers"] = "Location, Retry-After"
            answer["Cross-Origin-Resource-Policy"] = "cross-origin"
            answer.add_vary_header("Origin")

    def _record(self, scope: Scope, access: AccessRecord, status: int) -> None:
        protection, method = self._protection, scope["method"]
        # Clients invent methods: each would be one more time series for the monitor.
        label = method if method in ("GET", "HEAD", "POST", "OPTIONS") else "other"
        protection.counts.requests[label, access.route, status] += 1
        if status < 400:
            return
        protection.counts.refusals[access.code or "error"] += 1
        # Only 401 counts towards the block; a missing right or a malformed body does not.
        if status == 401:
            protection.failures.take(_client(scope), asyncio.get_running_loop().time())
        if status in _QUIET and method in ("GET", "HEAD") and access.who == "nobody":
            return
        protection.audit.refusal(
            access.who,
            client=_client(scope),
            method=label,
            path=scope["path"],
            status=status,
            code=access.code,
            detail=access.detail,
        )


def _client(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "unknown"


@dataclass(frozen=True, slots=True)
class McpProtection:
    """What protects an application that is no `Server`: tokens only."""

    authenticator: Authenticator
    audit: Audit
    # The defaults of `server.Settings`: one failure more every six seconds.
    rates: RateLimiter = field(default_factory=lambda: RateLimiter(100.0, 400.0))
    failures: RateLimiter = field(default_factory=lambda: RateLimiter(1 / 6, 20.0))
    counts: Counts = field(default_factory=Counts)

    @classmethod
    def of(
        cls,
        tokens: TokenStore,
        local: LocalToken,
        folder: Path | None,
        hosts: frozenset[str] = frozenset(),
    ) -> "McpProtection":
        """For these tokens; the audit is kept in `folder`.

        `hosts` are served besides this machine's own names, in lower case.
        """
        audit = Audit(folder / "audit.jsonl" if folder else None)
        audit.check()
        return cls(Authenticator(tokens, Signin(tokens), local, hosts), audit)

    def authenticate(self, scope: Scope) -> Principal | None:
        """Who sent the request; None if nobody that is known."""
        access: AccessRecord = scope["taofold"]
        client = scope.get("client")
        try:
            caller = self.authenticator.authenticate(
                Headers(scope=scope), client[0] if client else ""
            )
        except Problem as problem:
            access.code, access.detail = problem.code, problem.detail
            # Not raised: the caller answers 401 in MCP's own way, with where to get a token.
            return None
        if caller is None:
            access.code, access.detail = "unauthorized", "no credentials"
            return None
        access.who = caller.principal.id
        return caller.principal
