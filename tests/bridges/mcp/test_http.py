"""MCP over HTTP: each request has a principal or is refused; only its principal decides.

Mutants: a default principal; elicitations answered without a right; a session that another
principal may use; a principal that is looked up once and cached; sessions without a bound, and one
that counts only those that are open.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn

from taofold import MemoryLog, Principal
from taofold.bridges.mcp import McpServer
from taofold.bridges.mcp.server import Offers, http_app, make_server
from taofold.bridges.mcp.server.sessions import MOST_SESSIONS
from taofold.core import events as e
from taofold.server.auth import LocalToken, TokenStore
from taofold.server.middleware import McpProtection, ProtectionMiddleware

from .kit import act, agent, finish
from .test_serving import DONE, nothing_done, pay

__all__ = ["nothing_done"]
pytestmark = pytest.mark.anyio
ACCEPT = "application/json, text/event-stream"


class Served:
    """A server on a port of this machine."""

    def __init__(
        self, url: str, log: MemoryLog, protection: McpProtection, local: LocalToken
    ) -> None:
        self.url, self.log, self.protection, self.local = url, log, protection, local

    def token(self, name: str, *roles: str) -> str:
        return self.protection.authenticator.tokens.add(name, roles)

    def bridge(self, token: str) -> McpServer:
        headers = {"Authorization": f"Bearer {token}"}
        return McpServer.http(self.url, headers=headers, name="s", pins=False)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as one:
        yield one


@asynccontextmanager
async def serving(
    folder: Path,
    agents: Sequence[Any] = (),
    tools: Sequence[Any] = (pay,),
    hosts: frozenset[str] = frozenset(),
) -> AsyncIterator[Served]:
    log, local = MemoryLog(), LocalToken()
    protection = McpProtection.of(TokenStore(folder / "tokens.json"), local, None, hosts)
    server = make_server(Offers.of(agents, tools, log=log))
    app = ProtectionMiddleware(http_app(server, protection.authenticate, hosts=hosts), protection)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    running = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none"))
    task = asyncio.create_task(running._serve(sockets=[listener]))
    try:
        async with asyncio.timeout(180):
            while not running.started and not task.done():  # noqa: ASYNC110 - no event for it
                await asyncio.sleep(0.005)
        yield Served(f"http://127.0.0.1:{port}/mcp", log, protection, local)
    finally:
        running.should_exit = True
        await task


def initialize() -> dict[str, Any]:
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "x", "version": "0"},
    }
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


def call(amount: int = 5) -> dict[str, Any]:
    params = {"name": "pay", "arguments": {"amount": amount}}
    return {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}


async def post(url: str, body: Any, **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=180) as client:
        return await client.post(url, json=body, headers={"Accept": ACCEPT, **headers})


async def test_without_credentials_nothing_is_started_and_nothing_answered(served: Served) -> None:
    answer = {"jsonrpc": "2.0", "id": 0, "result": {"action": "accept", "content": {}}}
    for body in (initialize(), call(), answer):
        for said in ({}, {"Authorization": "Bearer tf_x"}, {"Authorization": "Basic eA=="}):
            assert (await post(served.url, body, **said)).status_code == 401
    local = f"Bearer {served.local.value()}"
    for name in ("X-Forwarded-For", "Via"):
        refused = await post(served.url, initialize(), Authorization=local, **{name: "x"})
        assert refused.status_code == 401
    foreign = {"Origin": "https://evil.example", "Authorization": local}
    assert (await post(served.url, initialize(), **foreign)).status_code == 403
    assert (await post(served.url, initialize(), Authorization=local)).status_code == 200
    assert await served.log.rows() == []
    assert len([one for one in served.protection.audit.last if one["what"] == "refused"]) == 12
    assert DONE == []


async def test_who_asks_approves_at_the_client_if_the_roles_say_so(served: Served) -> None:
    async def paid(token: str) -> Any:
        async with served.bridge(token) as server:
            one = agent(server, act("s_pay", amount=5), finish("done"), approve=_yes)
            return await one.run("pay")

    for token, who in ((served.token("ada", "USER"), "ada"), (served.local.value(), "local")):
        DONE.clear()
        assert (await paid(token)).success
        assert DONE == [5]
        rows = await served.log.rows()
        assert rows[0].principal == who
        decided = [one.event for one in await served.log.read(rows[0].run)]
        assert [one.by for one in decided if isinstance(one, e.Resolved)] == [who]


def _yes(approval: Any) -> Any:
    from taofold import Decision

    return Decision("approve", answer="yes" if approval.form else None)


@pytest.mark.parametrize("roles", [(), ("VIEWER",)])
async def test_a_token_without_the_right_starts_nothing(
    served: Served, roles: tuple[str, ...]
) -> None:
    token = served.token("eve", *roles)
    async with httpx2.AsyncClient(
        timeout=180, headers={"Accept": ACCEPT, "Authorization": f"Bearer {token}"}
    ) as client:
        opened = await client.post(served.url, json=initialize())
        session = {"Mcp-Session-Id": opened.headers.get("mcp-session-id", "")}
        answer = await client.post(served.url, json=call(), headers=session)
    assert "access denied: start requires the role USER" in answer.text
    assert await served.log.rows() == []


async def test_a_session_belongs_to_who_opened_it(served: Served) -> None:
    ada, bob = served.token("ada", "USER"), served.token("bob", "USER")
    opened = await post(served.url, initialize(), Authorization=f"Bearer {ada}")
    session = opened.headers["mcp-session-id"]
    headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-06-18"}
    answer = await post(served.url, call(), Authorization=f"Bearer {bob}", **headers)
    assert answer.status_code in (403, 404)
    assert await served.log.rows() == []


async def test_a_principal_opens_a_bounded_number_of_sessions(served: Served) -> None:
    ada, bob = (f"Bearer {served.token(name, 'USER')}" for name in ("ada", "bob"))
    opened = await asyncio.gather(
        *[post(served.url, initialize(), Authorization=ada) for _ in range(MOST_SESSIONS + 8)]
    )
    assert [answer.status_code for answer in opened].count(200) == MOST_SESSIONS
    assert {answer.status_code for answer in opened} == {200, 429}
    assert (await post(served.url, initialize(), Authorization=bob)).status_code == 200
    first = next(a.headers["mcp-session-id"] for a in opened if a.status_code == 200)
    # Another principal's request and an unknown id free no slot.
    for who, name in ((bob, first), (ada, "unknown")):
        answer = await post(served.url, call(), Authorization=who, **{"Mcp-Session-Id": name})
        assert answer.status_code == 404
    assert (await post(served.url, initialize(), Authorization=ada)).status_code == 429
    async with httpx2.AsyncClient(timeout=180) as client:
        headers = {"Accept": ACCEPT, "Authorization": ada, "Mcp-Session-Id": first}
        assert (await client.delete(served.url, headers=headers)).status_code == 200
    assert (await post(served.url, initialize(), Authorization=ada)).status_code == 200
    assert (await post(served.url, initialize(), Authorization=ada)).status_code == 429


async def test_a_stream_that_asks_for_lost_events_begins_anew(served: Served) -> None:
    ada = f"Bearer {served.token('ada', 'USER')}"
    session = (await post(served.url, initialize(), Authorization=ada)).headers["mcp-session-id"]
    headers = {"Accept": ACCEPT, "Authorization": ada, "Mcp-Session-Id": session}
    async with (
        httpx2.AsyncClient(timeout=180) as client,
        client.stream("GET", served.url, headers={**headers, "Last-Event-ID": "1"}) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")


async def test_a_run_of_somebody_else_is_neither_resumed_nor_decided_on(served: Served) -> None:
    offers = Offers.of([], [pay], log=served.log, principal=Principal("ada", ("USER",)))
    result = await offers.run("pay", {"amount": 7}, None)
    assert result.status == "waiting"
    token = served.token("bob", "USER")
    async with httpx2.AsyncClient(
        timeout=180, headers={"Accept": ACCEPT, "Authorization": f"Bearer {token}"}
    ) as client:
        opened = await client.post(served.url, json=initialize())
        session = {"Mcp-Session-Id": opened.headers.get("mcp-session-id", "")}
        body = call()
        body["params"] = {"name": "resume_run", "arguments": {"run_id": result.run_id}}
        answer = await client.post(served.url, json=body, headers=session)
    assert "was not started here" in answer.text
    assert DONE == []


async def test_behind_a_proxy_its_name_is_served_and_no_other(tmp_path: Path) -> None:
    async with serving(tmp_path, hosts=frozenset({"mcp.example"})) as there:
        for token, host, status in (
            (there.token("ann", "EDITOR"), "mcp.example", 200),
            (there.token("bob", "EDITOR"), "mcp.example:443", 200),
            (there.token("eve", "EDITOR"), "evil.example", 403),
            # The local token is this user's own authority: a proxy passes on requests of others.
            (there.local.value(), "mcp.example", 401),
        ):
            headers = {"Host": host, "Via": "1.1 proxy", "Authorization": f"Bearer {token}"}
            assert (await post(there.url, initialize(), **headers)).status_code == status
        own = {"Host": "mcp.example", "Origin": "https://mcp.example"}
        token = f"Bearer {there.token('ann', 'EDITOR')}"
        assert (await post(there.url, initialize(), Authorization=token, **own)).status_code == 200
