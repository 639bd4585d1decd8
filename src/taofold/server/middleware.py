"""Middleware of all requests: host and origin, rates, headers, metrics, audit.

It is pure ASGI, so that streams pass unbuffered, and it responds to CORS preflights. It knows only
the names of routes. It protects the server's routes and MCP over HTTP (`McpProtection`, which also
authenticates).

`RateLimiter` is a token bucket for each name. `Counts` are metrics in Prometheus's text format.
`Audit` records actions and refusals, one JSON line each.
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
    """A token bucket for each name: `burst` requests at once, `per_s` more each second."""

    per_s: float
    burst: float
    _buckets: OrderedDict[str, tuple[float, float]] = field(
        default_factory=OrderedDict[str, tuple[float, float]]
    )

    def take(self, name: str, now: float, cost: float = 1.0) -> float:
        """Takes `cost` from the bucket. Returns 0.0, or the seconds until that is possible."""
        # Popped and reinserted, so that the dict is in order of last use.
        left, at = self._buckets.pop(name, (self.burst, now))
        left = min(self.burst, left + max(0.0, now - at) * self.per_s)
        # A refused request takes nothing, so that repeated requests do not extend the wait.
        wait = 0.0 if left >= cost else (cost - left) / self.per_s
        self._buckets[name] = (left if wait else left - cost, now)
        # The least recently used bucket is dropped: it is the fullest.
        if len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)
        return wait

    def is_exhausted(self, name: str, now: float) -> bool:
        """Returns whether the next request would have to wait."""
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
        """Returns all metrics, with current gauges: name → (help, value)."""
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
    """Writes an audit to the file `path`; without it keeps the last thousand lines."""

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
        """Writes a line with the action and the principal."""
        line = {"at": iso(self._now()), "what": what, **self._clean({"who": who, **said})}
        self.last.append(line)
        if self._path is not None:
            self._write(line)

    def check(self) -> None:
        """Refuses a file that this user did not create.

        Raises:
            ConfigError: It is a link, a device, or another user's file.
        """
        if self._path is None:
            return
        # The file may not exist yet, and a full or read-only disk must not stop the server.
        with suppress(OSError):
            os.close(open_file(self._path, os.O_WRONLY))

    def refusal(self, who: str, **said: Any) -> None:
        """Writes a line about a refused request.

        Above `REFUSALS_PER_S` refusals are only counted.
        """
        second = self._now() // 1000
        if second != self._second:
            missed = self._count - REFUSALS_PER_S
            # Omitted refusals become one line, before the first refusal of a later second.
            self._second, self._count = second, 0
            if missed > 0:
                self("refused", "several", count=missed, detail="refusals that were not written")
        self._count += 1
        if self._count <= REFUSALS_PER_S:
            self("refused", who, **said)

    def close(self) -> None:
        """Closes the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _clean(self, line: dict[str, Any]) -> dict[str, Any]:
        # In written form: values that are not JSON are redacted as text.
        plain = json.loads(json.dumps(line, default=str))
        # Redacted before shortening: otherwise a part of a secret could remain at the cut.
        cleaned: dict[str, Any] = _shortened(self._redactor.json(plain))
        return cleaned

    def _write(self, line: dict[str, Any]) -> None:
        assert self._path is not None
        body = (json.dumps(line, ensure_ascii=True, default=str) + "\n").encode()
        try:
            if self._descriptor < 0:
                # With a log in a database the folder may not exist.
                make_folder(self._path.parent)
                # Opened once and kept open. After a rotation of the file, restart the server.
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                self._descriptor = open_file(self._path, flags)
            # One write with O_APPEND, so that lines of several processes do not mix.
            os.write(self._descriptor, body)
        except (OSError, ConfigError) as error:
            _logger.error("the audit cannot be written: %s: %s", error, body.decode())


def _shortened(value: Any) -> Any:
    """Returns `value` with all its texts cut to a maximum length."""
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
"""Statuses of refused reads that are only counted, not audited."""


@dataclass(slots=True)
class AccessRecord:
    """Facts about a request during its handling."""

    who: str = "nobody"
    route: str = "other"
    code: str = ""
    detail: str = ""


class Protection(Protocol):
    """The checks and metrics of one server."""

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
    """The application behind all checks of requests."""

    def __init__(
        self, app: ASGIApp, protection: Protection, pages: frozenset[str] = frozenset()
    ) -> None:
        self._app, self._protection, self._pages = app, protection, pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            # There are no WebSockets: streams are server-sent events, which pass these checks.
            await send({"type": "websocket.close", "code": 1003})
            return
        # Shared by reference: the route fills it, and `_record` reads it after the response.
        access = scope["taofold"] = AccessRecord()
        headers = Headers(scope=scope)
        # A run of this request joins the caller's trace. Each request has its own context; a
        # malformed value is ignored.
        TRACEPARENT.set(headers.get("traceparent", ""))
        status = 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                # All responses pass here, also errors and streams, so all have the security
                # headers.
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
            # Also if the client disconnected; 500 if nothing was sent.
            self._record(scope, access, status)

    def _checked(self, scope: Scope, headers: Headers) -> Response | None:
        """Checks a request. Returns a response if it needs no route.

        Raises:
            Problem: The request is refused.
        """
        path = scope["path"]
        if len(path) > LONGEST_PATH or len(scope["query_string"]) > LONGEST_QUERY:
            raise Problem(414, "too_long", "the address is too long")
        # Checked before parsing: the sizes limit the work that an unknown client can cause.
        if sum(len(name) + len(value) for name, value in scope["headers"]) > LARGEST_HEADER:
            raise Problem(431, "too_large", "the header is too large")
        page = scope["method"] in ("GET", "HEAD") and self._is_page(path)
        self._protection.authenticator.check_address(headers, page=page)
        now = asyncio.get_running_loop().time()
        # Checked before the credentials, so that guessing is slowed down.
        if self._protection.failures.is_exhausted(
            _client(scope), now
        ) and not self._has_credentials(scope, headers):
            raise Problem(429, "rate", "too many failed attempts", headers={"Retry-After": "10"})
        wait = self._protection.rates.take(f"address:{_client(scope)}", now)
        if wait:
            raise too_many_requests(wait)
        # A preflight has no credentials, so it is handled before any route.
        origin = headers.get("origin", "")
        if scope["method"] == "OPTIONS" and origin in self._protection.authenticator.origins:
            return Response(status_code=204)
        return None

    def _has_credentials(self, scope: Scope, headers: Headers) -> bool:
        """Returns whether the credentials are valid: other clients of the address may guess."""
        try:
            return self._protection.authenticator.authenticate(headers, _client(scope)) is not None
        except Problem:
            return False

    def _is_page(self, path: str) -> bool:
        return path == "/" or path.startswith(("/static/", "/signin/")) or path in self._pages

    def _add_headers(self, answer: MutableHeaders, request_headers: Headers) -> None:
        for name, value in HEADERS.items():
            # An endpoint may set its own stricter header, as for media.
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
        # Unknown methods are merged: each would be another time series of the monitor.
        label = method if method in ("GET", "HEAD", "POST", "OPTIONS") else "other"
        protection.counts.requests[label, access.route, status] += 1
        if status < 400:
            return
        protection.counts.refusals[access.code or "error"] += 1
        # Only 401 counts as a failed attempt; a missing right or a malformed body does not.
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
    """The protection of an application that is no `Server`, by tokens only."""

    authenticator: Authenticator
    audit: Audit
    # The defaults of `server.Settings`: one more failure every six seconds.
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
        """Makes the protection for these tokens, with an audit in `folder`.

        `hosts` are allowed besides this machine's own names, in lower case.
        """
        audit = Audit(folder / "audit.jsonl" if folder else None)
        audit.check()
        return cls(Authenticator(tokens, Signin(tokens), local, hosts), audit)

    def authenticate(self, scope: Scope) -> Principal | None:
        """Returns the request's principal, or None."""
        access: AccessRecord = scope["taofold"]
        client = scope.get("client")
        try:
            caller = self.authenticator.authenticate(
                Headers(scope=scope), client[0] if client else ""
            )
        except Problem as problem:
            access.code, access.detail = problem.code, problem.detail
            # Not raised: the caller sends 401 in MCP's form, with a hint about tokens.
            return None
        if caller is None:
            access.code, access.detail = "unauthorized", "no credentials"
            return None
        access.who = caller.principal.id
        return caller.principal
