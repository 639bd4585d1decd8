"""A bound on the sessions over HTTP of one principal, and what a request may ask of the package.

The package bounds all sessions together, so that one principal could take them all. It ends a
session when its client does, or after half an hour without a request; the counts here follow
these rules from the requests and answers that pass. Knows nothing about tools or runs.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, TypeAlias

MOST_SESSIONS: Final = 32
"""Sessions of one principal at once."""
IDLE_S: Final = 30 * 60.0
"""Seconds after which the package ends a session without requests."""
_ID: Final = b"mcp-session-id"
_VERSION: Final = b"mcp-protocol-version"
_RESUME: Final = b"last-event-id"
_STATELESS: Final = b"2026"
"""From this year on the protocol has no sessions."""

App: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]


@dataclass(slots=True)
class _Session:
    requests: int = 0
    """Under way."""
    used: float = 0.0


class BoundedSessions:
    """Passes requests on to `app` while their principal has not opened too many sessions."""

    def __init__(self, app: App, most: int = MOST_SESSIONS) -> None:
        self._app, self._most = app, most
        self._sessions: defaultdict[str, dict[str, _Session]] = defaultdict(dict)
        self._opening: defaultdict[str, int] = defaultdict(int)

    async def __call__(self, principal: str, scope: Any, receive: Any, send: Any) -> None:
        """Answers one request of `principal`; 429 if it would be a session too many."""
        # No events are kept, so none can be sent again: the package fails at the header.
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
    """Answers with an error in JSON."""
    body = f'{{"error": "{error}", "detail": "{detail}"}}'.encode()
    first = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": [*first, *headers]})
    await send({"type": "http.response.body", "body": body})
