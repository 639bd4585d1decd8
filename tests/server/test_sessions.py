"""Sessions and tokens: they end when their owner says so, everywhere, and no change is lost.

Mutants it catches: a sign-out that only clears the browser, one cookie name for all servers,
no lock around a change, a file that others can read is believed, sessions without number.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.server.agents import Bench, act, finish
from tests.server.live import Client, Event, serving, settled

from taofold.core.errors import ConfigError, LogError
from taofold.server import Settings
from taofold.server.auth import MOST_SESSIONS, SESSION_S, Signin, TokenStore

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def server(folder: Path, **options: Any) -> AsyncIterator[Client]:
    folder.mkdir(exist_ok=True)
    agent = Bench().agent(act("write", "publish", text="x"), finish())
    async with serving(agent, folder / "r.db", folder=folder, **options) as client:
        yield client


async def entered(client: Client) -> dict[str, str]:
    """A browser that signed in by link: its headers. The client itself has no cookie."""
    answer = await client.get(f"/signin/{client.server.signin.code()}")
    cookie = answer.headers["set-cookie"].partition(";")[0]
    client.http.cookies.clear()
    browser = {"Cookie": cookie, "Sec-Fetch-Site": "same-origin", "Origin": client.url}
    me = (await client.get("/me", headers=browser)).json()
    return {**browser, "X-CSRF-Token": me["csrf"]}


async def known(client: Client, browser: Mapping[str, str]) -> bool:
    cookie = {"Cookie": browser["Cookie"]}
    status = (await client.get("/me", headers=cookie)).status_code
    assert status in (200, 401)
    return status == 200


async def test_signing_out_ends_the_session_for_whoever_has_its_cookie(tmp_path: Path) -> None:
    async with server(tmp_path) as client, server(tmp_path) as beside:
        mine, other = await entered(client), await entered(client)
        assert await known(beside, mine)
        assert (await client.post("/signout", headers=mine)).status_code == 202
        assert not await known(client, mine)
        assert not await known(beside, mine), "a server of the same folder"
        assert await known(client, other), "another browser's"
    async with server(tmp_path) as client:
        assert not await known(client, mine), "after a restart"
        assert await known(client, other)


async def test_signing_out_needs_the_csrf_token(tmp_path: Path) -> None:
    async with server(tmp_path) as client:
        mine = await entered(client)
        asked = {name: value for name, value in mine.items() if name != "X-CSRF-Token"}
        assert (await client.post("/signout", headers=asked)).status_code == 403
        assert await known(client, mine)


async def test_this_machines_user_may_sign_in_with_the_local_token(tmp_path: Path) -> None:
    async with server(tmp_path) as client:
        said = {"token": client.server.local.value()}
        page = {"Sec-Fetch-Site": "same-origin", "Origin": client.url}
        passed_on = await client.post("/signin", said, headers={**page, "Via": "1.1 proxy"})
        assert passed_on.status_code == 401
        answer = await client.post("/signin", said, headers=page)
        assert answer.json()["id"] == "local"
        assert (await client.get("/me", headers=page)).json()["id"] == "local"


async def test_a_stream_ends_when_its_session_does(tmp_path: Path) -> None:
    bench = Bench()
    bench.gate.clear()
    agent = bench.agent(act("wait", "slow"), finish("the secret plan"))
    settings = Settings(look_again_s=0.0, tail_s=0.01)
    async with serving(agent, tmp_path / "r.db", settings=settings) as client:
        mine = await entered(client)
        run = (await client.post("/runs", {"goal": "go"}, headers=mine)).json()["id"]
        told: list[Event] = []
        client.http.headers["Cookie"] = mine["Cookie"]
        watching = asyncio.create_task(client.events(run, into=told))
        await bench.arrived.wait()
        await settled(lambda: client.server.streams == 1)
        await client.post("/signout", headers=mine)
        bench.gate.set()
        await watching
        assert told
        assert "the secret plan" not in str(told)


async def test_servers_on_one_host_do_not_overwrite_each_others_sign_in(tmp_path: Path) -> None:
    """A browser sends its cookies to every port of a host: one jar for both."""
    async with server(tmp_path / "a") as one, server(tmp_path / "b") as two:
        for client in (one, two):
            await client.get(f"/signin/{client.server.signin.code()}")
        jar = {**dict(one.http.cookies), **dict(two.http.cookies)}
        assert len(jar) == 2
        both = "; ".join(f"{name}={value}" for name, value in jar.items())
        for client in (one, two):
            client.http.cookies.clear()
            assert await known(client, {"Cookie": both})
        first = dict(zip(("name", "value"), next(iter(jar.items())), strict=True))
        stranger = {"Cookie": f"{two.server.signin.name}={first['value']}"}
        assert not await known(two, stranger), "the other server's cookie under our name"


async def test_sessions_that_cannot_be_trusted_let_nobody_in(tmp_path: Path) -> None:
    kept = tmp_path / "sessions.json"
    async with server(tmp_path) as client:
        mine = await entered(client)
        assert mine["Cookie"].partition("=")[2] not in kept.read_text()
        assert kept.stat().st_mode & 0o077 == 0
        whole = kept.read_text()
        for damaged in ("{", "[]", '{"x": {"token": ""}}'):
            kept.write_text(damaged)
            assert not await known(client, mine), damaged
        kept.write_text(whole)
        assert await known(client, mine)
        kept.chmod(0o644)
        assert not await known(client, mine)
    with pytest.raises(ConfigError, match="open to others"):
        async with server(tmp_path):
            pass


def test_sessions_end_by_time_and_by_number() -> None:
    now = 1_000
    signin = Signin(TokenStore(), now=lambda: now)
    first, *rest = [signin.redeem(signin.code()) or "" for _ in range(MOST_SESSIONS)]
    assert signin.read(first)
    last = signin.redeem(signin.code()) or ""
    assert not signin.read(first), "one more ends the oldest"
    assert all(signin.read(one) for one in (*rest, last))
    now += SESSION_S * 1000
    assert signin.read(last)
    now += 1
    assert not signin.read(last)


def test_changes_at_the_same_instant_are_all_kept(tmp_path: Path) -> None:
    """Each worker has a `Tokens` of its own, as a process would: only the file's lock is shared."""
    path = tmp_path / "tokens.json"
    old = [TokenStore(path).add("old", ["USER"]).split("_")[1] for _ in range(8)]

    def work(mine: str) -> None:
        tokens = TokenStore(path)
        for _ in range(4):
            tokens.add(f"new-{mine}", ["USER"])
        tokens.revoke(mine)

    workers = [Thread(target=work, args=(one,)) for one in old]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    found = TokenStore(path).all()
    assert len(found) == 8 + 8 * 4
    assert {one.id for one in found if one.revoked_at} == set(old)


def test_a_change_that_cannot_be_written_is_said_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    tokens = TokenStore(path)
    said = tokens.add("alice", ["USER"])
    (tmp_path / "tokens.json.lock").unlink()
    (tmp_path / "tokens.json.lock").mkdir()
    with pytest.raises(LogError, match="cannot be written"):
        tokens.revoke(said.split("_")[1])
    assert tokens.check(said) is not None
    assert sorted(one.name for one in tmp_path.iterdir()) == ["tokens.json", "tokens.json.lock"]
