"""What every request passes first: host and origin, rates, headers, counts, the audit.

Pure ASGI, so that a stream is passed on as it comes. It knows routes only by their names, and
stands before everything that answers on a port: the server's routes, and MCP over HTTP.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from taofold.server.auditing import Audit
from taofold.server.counts import Counts
from taofold.server.door import Door
from taofold.server.problem import Problem, hurried
from taofold.server.rates import Rates

CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
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
_LONGEST_PATH: Final = 1024
_LONGEST_QUERY: Final = 8192
_LARGEST_HEADER: Final = 32_768
_METHODS: Final = "GET, HEAD, POST"
_ALLOWED: Final = (
    "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-CSRF-Token, Accept"
)
_QUIET: Final = frozenset({400, 404, 405})
"""Refusals of a mere look, which are only counted."""


@dataclass(slots=True)
class Visit:
    """What is known of a request while it is answered."""

    who: str = "nobody"
    route: str = "other"
    code: str = ""
    detail: str = ""


class Entrance(Protocol):
    """What the front works with."""

    @property
    def door(self) -> Door: ...
    @property
    def rates(self) -> Rates: ...
    @property
    def failures(self) -> Rates: ...
    @property
    def counts(self) -> Counts: ...
    @property
    def audit(self) -> Audit: ...


class Front:
    """The application, behind the door."""

    def __init__(
        self, app: ASGIApp, entrance: Entrance, pages: frozenset[str] = frozenset()
    ) -> None:
        self._app, self._entrance, self._pages = app, entrance, pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1003})
            return
        visit = scope["taofold"] = Visit()
        headers = Headers(scope=scope)
        status = 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._dress(MutableHeaders(scope=message), headers)
            await send(message)

        try:
            early = self._checked(scope, headers)
        except Problem as problem:
            visit.code, visit.detail = problem.code, problem.detail
            early = problem.response()
        try:
            await (early or self._app)(scope, receive, answer)
        finally:
            self._noted(scope, visit, status)

    def _checked(self, scope: Scope, headers: Headers) -> Response | None:
        """Refuse, or answer what needs no route.

        Raises:
            Problem: the request may not come in.
        """
        path = scope["path"]
        if len(path) > _LONGEST_PATH or len(scope["query_string"]) > _LONGEST_QUERY:
            raise Problem(414, "too_long", "the address is too long")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > _LARGEST_HEADER:
            raise Problem(431, "too_large", "the header is too large")
        page = scope["method"] in ("GET", "HEAD") and self._is_page(path)
        self._entrance.door.address(headers, page=page)
        now = asyncio.get_running_loop().time()
        if self._entrance.failures.empty(_client(scope), now) and not self._known(scope, headers):
            raise Problem(429, "rate", "too many failed attempts", headers={"Retry-After": "10"})
        wait = self._entrance.rates.take(f"address:{_client(scope)}", now)
        if wait:
            raise hurried(wait)
        origin = headers.get("origin", "")
        if scope["method"] == "OPTIONS" and origin in self._entrance.door.origins:
            return Response(status_code=204)
        return None

    def _known(self, scope: Scope, headers: Headers) -> bool:
        """Are the credentials good? Whoever guesses next door must not keep them out."""
        try:
            return self._entrance.door.guest(headers, _client(scope), unsafe=False) is not None
        except Problem:
            return False

    def _is_page(self, path: str) -> bool:
        return path == "/" or path.startswith(("/static/", "/signin/")) or path in self._pages

    def _dress(self, answer: MutableHeaders, asked: Headers) -> None:
        for name, value in HEADERS.items():
            answer.setdefault(name, value)
        answer.setdefault("Cache-Control", "no-store")
        origin = asked.get("origin", "")
        if origin in self._entrance.door.origins:
            answer["Access-Control-Allow-Origin"] = origin
            answer["Access-Control-Allow-Methods"] = _METHODS
            answer["Access-Control-Allow-Headers"] = _ALLOWED
            answer["Access-Control-Expose-Headers"] = "Location, Retry-After"
            answer["Cross-Origin-Resource-Policy"] = "cross-origin"
            answer.add_vary_header("Origin")

    def _noted(self, scope: Scope, visit: Visit, status: int) -> None:
        entrance, method = self._entrance, scope["method"]
        known = method if method in ("GET", "HEAD", "POST", "OPTIONS") else "other"
        entrance.counts.requests[known, visit.route, status] += 1
        if status < 400:
            return
        entrance.counts.refusals[visit.code or "error"] += 1
        if status == 401:
            entrance.failures.take(_client(scope), asyncio.get_running_loop().time())
        if status in _QUIET and method in ("GET", "HEAD") and visit.who == "nobody":
            return
        entrance.audit.refusal(
            visit.who,
            client=_client(scope),
            method=known,
            path=scope["path"],
            status=status,
            code=visit.code,
            detail=visit.detail,
        )


def _client(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "unknown"
