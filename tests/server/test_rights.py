"""Every route requires credentials and the rights of a role.

Mutants: loopback is `local` again; a token without a role passes; an endpoint that declares less
than it does; the local token accepted through a proxy or from another machine.
"""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.datastructures import Headers

from taofold import Policy
from taofold.policy.roles import RIGHTS, ROLES
from taofold.server import Settings, create_app
from taofold.server.app import ENDPOINTS
from taofold.server.auth import Authenticator, LocalToken, Signin, TokenStore
from taofold.server.endpoint import ApiEndpoint, Problem
from tests.server.agents import Bench, act, finish
from tests.server.live import Client, serving

pytestmark = pytest.mark.anyio

AGENT = (act("write", "publish", text="x"), finish())
PUBLIC = {"/healthz", "/readyz", "/openapi.json", "/signin"}
PAGES = {"/", "/signin/{code}", "/signed-in", "/static/{file:path}"}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    """Returns a client without credentials, of a server with tokens."""
    tokens = TokenStore(tmp_path / "tokens.json")
    settings = Settings(failures_burst=1000)
    agent = Bench().agent(*AGENT)
    async with serving(agent, tmp_path / "r.db", tokens=tokens, settings=settings) as one:
        yield one


async def send(client: Client, endpoint: ApiEndpoint, token: str = "") -> httpx2.Response:
    path = re.sub(r"\{[^}]*\}", "x", endpoint.path)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    body: Any = {} if endpoint.method == "POST" else None
    return await client.http.request(endpoint.method, path, json=body, headers=headers)


async def test_without_credentials_every_route_is_closed_but_those_that_show_nothing(
    client: Client,
) -> None:
    for endpoint in ENDPOINTS:
        answer = await send(client, endpoint)
        public = endpoint.right == "public"
        assert (answer.status_code == 401) is not public or endpoint.path == "/signin", endpoint
    assert {one.path for one in ENDPOINTS if one.right == "public"} - PAGES <= PUBLIC
    assert await client.server.log.rows() == []


async def test_no_route_is_answered_that_declares_no_right(client: Client) -> None:
    front: Any = create_app(client.server)
    paths = {route.path for route in front._app.routes}
    assert paths == {endpoint.path for endpoint in ENDPOINTS} | {"/openapi.json"}


@pytest.mark.parametrize("role", ["", *ROLES])
async def test_a_role_gives_the_rights_of_the_table_and_no_other(client: Client, role: str) -> None:
    token = client.server.tokens.add("somebody", [role] if role else [])
    level = ROLES.get(role, -1)
    for endpoint in ENDPOINTS:
        if endpoint.right in ("public", "signed_in"):
            continue
        answer = await send(client, endpoint, token)
        allowed = level >= ROLES[RIGHTS[endpoint.right]]
        assert (answer.status_code == 403) is not allowed, (endpoint.path, answer.text)
    headers = {"Authorization": f"Bearer {token}"}
    assert (await client.get("/me", headers=headers)).status_code == 200


async def test_the_operator_says_which_role_gives_a_right(tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path / "tokens.json")
    user, admin = tokens.add("u", ["USER"]), tokens.add("a", ["ADMIN"])
    settings = Settings(policy=Policy(rights={"start": "ADMIN"}))
    agent = Bench().agent(*AGENT)
    async with serving(agent, tmp_path / "r.db", tokens=tokens, settings=settings) as client:
        for token, status in ((user, 403), (admin, 201)):
            headers = {"Authorization": f"Bearer {token}"}
            answer = await client.post("/runs", {"goal": "x"}, headers=headers)
            assert answer.status_code == status


async def test_a_viewer_does_not_approve_the_action_of_a_run_that_was_his(tmp_path: Path) -> None:
    bench = Bench()
    tokens = TokenStore(tmp_path / "tokens.json")
    user, viewer = tokens.add("v", ["USER"]), tokens.add("v", ["VIEWER"])
    agent = bench.agent(*AGENT)
    async with serving(agent, tmp_path / "r.db", tokens=tokens, token=user) as client:
        run = await client.start()
        one = await client.pending(run)
        client.http.headers["Authorization"] = f"Bearer {viewer}"
        assert (await client.get(f"/runs/{run}")).status_code == 200
        for decision in ("approve", "deny"):
            answer = await client.post(f"/approvals/{one['id']}", {"decision": decision})
            assert answer.status_code == 403, answer.text
        assert (await client.post(f"/runs/{run}/cancel")).status_code == 403
    assert bench.done == []


async def test_the_operators_table_holds_where_the_agents_policy_says_nothing(
    tmp_path: Path,
) -> None:
    settings = Settings(policy=Policy(rights={"approve_own": "ADMIN"}))
    tokens = TokenStore(tmp_path / "tokens.json")
    user = tokens.add("u", ["USER"])
    agent = Bench().agent(*AGENT)
    async with serving(
        agent, tmp_path / "r.db", tokens=tokens, token=user, settings=settings
    ) as client:
        one = await client.pending(await client.start())
        answer = await client.post(f"/approvals/{one['id']}", {"decision": "approve"})
        assert answer.status_code == 403, answer.text


def caller(authenticator: Authenticator, client: str, **headers: str) -> str:
    try:
        found = authenticator.authenticate(Headers(headers), client)
    except Problem as problem:
        return str(problem.status)
    return "" if found is None else found.principal.id


def test_the_local_token_counts_from_this_machine_alone() -> None:
    local, tokens = LocalToken(), TokenStore()
    authenticator = Authenticator(tokens, Signin(tokens), local)
    bearer = f"Bearer {local.value()}"
    assert caller(authenticator, "127.0.0.1", authorization=bearer) == "local"
    assert caller(authenticator, "::1", authorization=bearer) == "local"
    assert caller(authenticator, "127.0.0.1") == ""
    assert caller(authenticator, "192.0.2.7", authorization=bearer) == "401"
    assert caller(authenticator, "", authorization=bearer) == "401"
    for name in ("forwarded", "x-forwarded-for", "x-real-ip", "via"):
        assert caller(authenticator, "127.0.0.1", authorization=bearer, **{name: "x"}) == "401"
    for wrong in ("Bearer ", "Bearer x", f"Basic {local.value()}", f"{bearer}x", "Bearer ü"):
        assert caller(authenticator, "127.0.0.1", authorization=wrong) == "401"


def test_without_a_token_that_was_made_nobody_is_local() -> None:
    tokens = TokenStore()
    authenticator = Authenticator(tokens, Signin(tokens), LocalToken())
    assert caller(authenticator, "127.0.0.1", authorization="Bearer ") == "401"
