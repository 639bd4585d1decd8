"""A limit on the HTTP sessions of one principal.

The package only limits the total of all sessions, so one principal could take them all. It ends a
session on the client's request or after half an hour without requests; this module counts sessions
by the same rules. It also removes a header that the package cannot handle. Knows nothing about
tools or runs.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, TypeAlias

MOST_SESSIONS: Final = 32
"""Maximum concurrent sessions of one principal."""
IDLE_S: Final = 30 * 60.0
"""Seconds after which the package ends a session without requests."""
_ID: Final = b"mcp-session-id"
_VERSION: Final = b"mcp-protocol-version"
_RESUME: Final = b"last-event-id"
_STATELESS: Final = b"2026"
"""Protocol versions from this year on have no sessions."""

App: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]


@dataclass(slots=True)
class _Session:
    requests: int = 0
    """Running requests."""
    used: float = 0.0


class BoundedSessions:
    """Forwards requests to `app` unless their principal has too many sessions."""

    def __init__(self, app: App, most: int = MOST_SESSIONS) -> None:
        self._app, self._most = app, most
        self._sessions: defaultdict[str, dict[str, _Session]] = defaultdict(dict)
        self._opening: defaultdict[str, int] = defaultdict(int)

    async def __call__(self, principal: str, scope: Any, receive: Any, send: Any) -> None:
        """Handles one request of `principal`; responds 429 above the limit."""
        # Events are not stored, so none can be resent; the package fails on this header.
        headers = [(name, value) for name, value in scope["headers"] if name.lower() != _RESUME]
        scope = {**scope, "headers": headers}
        named = dict(headers)
        if named.get(_VERSION, b"") >= _STATELESS:
            await self._app(scope, receive, send)
        elif _ID in named:
            await self._use(principal, named[_ID].decode("latin-1"), scope, receive, send)
        else:
            await self._open(principal, scope, receive, send)

    async def _open(self, principal: str, scope: Any, receive: Any, send: Any) -> None:
        sessions = self._living(principal)
        if len(sessions) + self._opening[principal] >= self._most:
            await refused(send, 429, "sessions", f"at most {self._most} sessions at once")
            return

        async def noted(message: Any) -> None:
            if message["type"] == "http.response.start" and message["status"] < 300:
                opened = dict(message.get("headers", ())).get(_ID)
                if opened is not None:
                    sessions[opened.decode("latin-1")] = _Session(used=monotonic())
            await send(message)

        self._opening[principal] += 1
        try:
            await self._app(scope, receive, noted)
        finally:
            self._opening[principal] -= 1

    async def _use(self, principal: str, name: str, scope: Any, receive: Any, send: Any) -> None:
        session = self._living(principal).get(name, _Session())
        gone = False

        async def noted(message: Any) -> None:
            nonlocal gone
            if message["type"] == "http.response.start":
                deleted = scope["method"] == "DELETE" and message["status"] < 300
                gone = deleted or message["status"] == 404
            await send(message)

        session.requests += 1
        try:
            await self._app(scope, receive, noted)
        finally:
            session.requests -= 1
            session.used = monotonic()
            if gone:
                self._sessions[principal].pop(name, None)

    def _living(self, principal: str) -> dict[str, _Session]:
        sessions, now = self._sessions[principal], monotonic()
        for name, session in [*sessions.items()]:
            if not session.requests and now - session.used > IDLE_S:
                del sessions[name]
        return sessions


async def refused(send: Any, status: int, error: str, detail: str, *headers: Any) -> None:
    """Sends an error response in JSON."""
    body = f'{{"error": "{error}", "detail": "{detail}"}}'.encode()
    first = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": [*first, *headers]})
    await send({"type": "http.response.body", "body": body})
