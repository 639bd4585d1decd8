"""Connects the tools to the office: over HTTP, or in this process without a socket."""

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol
from urllib.parse import unquote, urlencode

import aiohttp

from testops.data import JSON

Asgi = Callable[[Any, Any, Any], Awaitable[None]]


class OfficeError(Exception):
    """The office refused the request. The text gives the model the reason."""


class Desk(Protocol):
    """Sends one request to the office and gives its status and JSON back."""

    async def send(
        self, method: str, path: str, body: JSON | None, headers: Mapping[str, str]
    ) -> tuple[int, Any]: ...


class Remote:
    """An office at a URL."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    async def send(
        self, method: str, path: str, body: JSON | None, headers: Mapping[str, str]
    ) -> tuple[int, Any]:
        """Sends one HTTP request."""
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, self.url + path, json=body, headers=headers) as response,
        ):
            return response.status, await response.json()


class Local:
    """An ASGI application in this process."""

    def __init__(self, app: Asgi) -> None:
        self.app = app

    async def send(
        self, method: str, path: str, body: JSON | None, headers: Mapping[str, str]
    ) -> tuple[int, Any]:
        """Sends one request through the ASGI interface."""
        place, _, query = path.partition("?")
        content = b"" if body is None else json.dumps(body).encode()
        given = {"host": "office", "content-type": "application/json", **headers}
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
            "scheme": "http", "path": unquote(place), "raw_path": place.encode(), "root_path": "",
            "query_string": query.encode(), "server": ("office", 80), "client": ("tool", 0),
            "headers": [(name.lower().encode(), said.encode()) for name, said in given.items()],
        }  # fmt: skip
        status, parts = 0, list[bytes]()

        async def receive() -> JSON:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: JSON) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                parts.append(message.get("body", b""))

        await self.app(scope, receive, send)
        return status, json.loads(b"".join(parts))


class Office:
    """The client of the tools. Its requests raise `OfficeError` if the office refuses."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def get(self, path: str, /, **query: Any) -> Any:
        """Read."""
        return await self._ask("GET", f"{path}?{urlencode(query)}" if query else path, None, "")

    async def write(self, method: str, path: str, effect: str, /, **body: Any) -> Any:
        """Write once: `effect` is the same for every attempt at the same call."""
        given = {name: value for name, value in body.items() if value is not None}
        return await self._ask(method, path, given, effect)

    async def _ask(self, method: str, path: str, body: JSON | None, effect: str) -> Any:
        headers = {"Idempotency-Key": effect} if effect else {}
        status, said = await self.desk.send(method, path, body, headers)
        if status >= 400:
            raise OfficeError(said.get("error", f"HTTP {status}"))
        return said


def connect(app: Asgi) -> Office:
    """The office at `TESTOPS_URL`, else `app` in this process."""
    url = os.environ.get("TESTOPS_URL", "")
    return Office(Remote(url) if url else Local(app))
