"""A server on a port of this machine, in the test's own event loop, and clients for it."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from taofold import Agent
from taofold.log.log import Log
from taofold.log.sqlite.log import SqliteLog
from taofold.server import Server, Settings, create_app
from taofold.server.auth import TokenStore
from taofold.server.uvicorn_server import server_for

QUICK = Settings(look_s=0.02, tail_s=0.01, grace_s=0.05, stop_s=1.0)
PATIENCE = 180.0
"""Seconds after which what does not happen on a busy machine has failed."""
POLL_S = 0.02
"""A server refuses more than 100 requests a second from one principal."""
TERMINAL = {"finished", "limited", "failed", "cancelled"}


class Event(NamedTuple):
    """One server-sent event."""

    name: str
    id: str
    data: dict[str, Any]


class ProgramsToken(httpx2.Auth):
    """The token goes with what a program sends, not with what a browser does."""

    def __init__(self, token: str) -> None:
        self._said = f"Bearer {token}"

    def auth_flow(self, request: httpx2.Request) -> Iterator[httpx2.Request]:  # type: ignore[override]
        if not {"authorization", "cookie", "sec-fetch-site"} & set(request.headers):
            request.headers["Authorization"] = self._said
        yield request


class Client:
    """An HTTP client of one server."""

    def __init__(self, http: httpx2.AsyncClient, server: Server, url: str) -> None:
        self.http, self.server, self.url = http, server, url
        self.port = int(url.rpartition(":")[2])

    async def get(self, path: str, **options: Any) -> httpx2.Response:
        return await self.http.get(path, **options)

    async def post(self, path: str, body: Any = None, **options: Any) -> httpx2.Response:
        return await self.http.post(path, json={} if body is None else body, **options)

    async def start(self, goal: str = "go", **body: Any) -> str:
        answer = await self.post("/runs", {"goal": goal, **body})
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    async def until(self, run: str, *statuses: str) -> dict[str, Any]:
        """The run, once it has one of the statuses (or has ended)."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found = (await self.get(f"/runs/{run}")).json()
                if found["status"] in (statuses or TERMINAL):
                    return found
                await asyncio.sleep(POLL_S)

    async def asked(self, run: str, count: int) -> list[dict[str, Any]]:
        """Returns the questions of the run once there are `count`.

        A run reports that it waits while its activation still ends; the questions appear only
        afterwards.
        """
        async with asyncio.timeout(PATIENCE):
            while True:
                found = (await self.get("/approvals", params={"run": run})).json()["items"]
                if len(found) == count:
                    return list(found)
                await asyncio.sleep(POLL_S)

    async def pending(self, run: str, other: str = "") -> dict[str, Any]:
        """Returns the one question of the waiting run, different from `other`."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found = (await self.get("/approvals", params={"run": run})).json()["items"]
                if found and found[0]["id"] != other:
                    (one,) = found
                    return one
                await asyncio.sleep(POLL_S)

    async def events(
        self,
        run: str,
        after: str = "",
        *,
        most: int = 0,
        stop: str = "done",
        into: list[Event] | None = None,
        seconds: float = PATIENCE,
        **headers: str,
    ) -> list[Event]:
        """The run's events behind `after`, until `stop`, or `most` of them with an id."""
        found: list[Event] = [] if into is None else into
        extra = {"Last-Event-ID": after, **headers} if after else headers
        async with asyncio.timeout(seconds):
            path = f"/runs/{run}/events"
            async with self.http.stream("GET", path, headers=extra) as answer:
                if answer.status_code == 204:
                    return found
                assert answer.status_code == 200, await answer.aread()
                async for event in read(answer):
                    found.append(event)
                    if event.name == stop:
                        break
                    if most and len([one for one in found if one.id]) >= most:
                        break
        return found


async def settled(holds: Callable[[], bool]) -> None:
    """Return when it holds."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.001)


async def read(answer: httpx2.Response) -> AsyncIterator[Event]:
    """The events of a response, as they arrive."""
    name = id_ = data = ""
    async for line in answer.aiter_lines():
        if not line:
            if data:
                yield Event(name, id_, json.loads(data))
            name = id_ = data = ""
        elif not line.startswith(":"):
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            elif field == "id":
                id_ = value
            elif field == "data":
                data = value


@asynccontextmanager
async def serving(
    agents: Mapping[str, Agent[Any, Any]] | Agent[Any, Any],
    log: Log | Path,
    *,
    settings: Settings = QUICK,
    tokens: TokenStore | None = None,
    token: str | None = None,
    now: Callable[[], int] | None = None,
    header_s: float = 10.0,
    buffer_bytes: int = 0,
    seconds: float = PATIENCE,
    **options: Any,
) -> AsyncIterator[Client]:
    """Starts a server, and a client signed in with `token`.

    Without a token the client is `local`. If there are `tokens`, it is anonymous, as with "".
    """
    known = agents if isinstance(agents, Mapping) else {"agent": agents}
    opened = SqliteLog(log) if isinstance(log, Path) else log
    if now is not None:
        options["now"] = now
    server = Server(opened, known, settings=settings, tokens=tokens, **options)
    listener = socket.create_server(("127.0.0.1", 0))
    if buffer_bytes:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
    port = listener.getsockname()[1]
    uvicorn = server_for(create_app(server), "127.0.0.1", port, header_s=header_s)
    task = asyncio.create_task(uvicorn._serve(sockets=[listener]))
    await settled(lambda: uvicorn.started or task.done())
    url = f"http://127.0.0.1:{port}"
    if token is None:
        token = "" if tokens is not None else server.local.value()
    auth = ProgramsToken(token) if token else None
    try:
        async with (
            asyncio.timeout(seconds),
            httpx2.AsyncClient(base_url=url, auth=auth, timeout=PATIENCE) as http,
        ):
            yield Client(http, server, url)
    finally:
        uvicorn.should_exit = True
        await task
        if isinstance(log, Path):
            await opened.close()
