"""Sessions and tokens end everywhere when their owner ends them, and no change is lost.

Mutants: a sign-out that only clears the browser; a cookie that is read; no lock around a change; a
file that other users can read is accepted; unlimited sessions.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from taofold.core.errors import ConfigError
from taofold.server import Settings
from taofold.server.auth import MOST_SESSIONS, SESSION_S, Signin, TokenStore
from tests.server.agents import Bench, act, finish
from tests.server.live import Client, Event, serving, settled

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def server(folder: Path, **options: Any) -> AsyncIterator[Client]:
    folder.mkdir(exist_ok=True)
    agent = Bench().agent(act("write", "publish", text="x"), finish())
    kept = folder / "sessions.json"
    async with serving(agent, folder / "r.db", folder=folder, sessions=kept, **options) as client:
        yield client


async def entered(client: Client) -> dict[str, str]:
    """A browser that signed in by link: its headers."""
    browser = {"Sec-Fetch-Site": "same-origin", "Origin": client.url}
    answer = await client.post("/signin", {"code": client.server.signin.code()}, headers=browser)
    return {**browser, "Authorization": f"Session {answer.json()['session']}"}


async def known(client: Client, browser: Mapping[str, str]) -> bool:
    session = {"Authorization": browser["Authorization"]}
    status = (await client.get("/me", headers=session)).status_code
    assert status in (200, 401)
    return status == 200


async def test_signing_out_ends_the_session_for_whoever_has_its_secret(tmp_path: Path) -> None:
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


async def test_no_cookie_is_set_or_read(tmp_path: Path) -> None:
    """Cookies go to every port of a host, and every port can set them."""
    async with server(tmp_path) as client:
        code = client.server.signin.code()
        answers = [
            await client.get("/"),
            await client.get(f"/signin/{code}"),
            await client.post("/signin", {"code": code}),
        ]
        secret = answers[-1].json()["session"]
        for answer in answers:
            assert answer.status_code == 200
            assert "set-cookie" not in answer.headers
        page = {"Sec-Fetch-Site": "same-origin", "Origin": client.url}
        for name in ("taofold_session", "Authorization", "session"):
            cookie = {**page, "Cookie": f"{name}={secret}; {name}=Session {secret}"}
            assert (await client.get("/me", headers=cookie)).status_code == 401


async def test_no_answer_gives_the_secret_out_again(tmp_path: Path) -> None:
    async with server(tmp_path) as client:
        mine = await entered(client)
        secret = mine["Authorization"].partition(" ")[2]
        for path in ("/me", "/", "/runs", "/console/runs"):
            answer = await client.get(path, headers=mine)
            assert answer.status_code == 200
            assert secret not in answer.text + str(answer.headers)


async def test_this_machines_user_may_sign_in_with_the_local_token(tmp_path: Path) -> None:
    async with server(tmp_path) as client:
        said = {"token": client.server.local.value()}
        page = {"Sec-Fetch-Site": "same-origin", "Origin": client.url}
        passed_on = await client.post("/signin", said, headers={**page, "Via": "1.1 proxy"})
        assert passed_on.status_code == 401
        answer = await client.post("/signin", said, headers=page)
        assert answer.json()["id"] == "local"
        mine = {**page, "Authorization": f"Session {answer.json()['session']}"}
        assert (await client.get("/me", headers=mine)).json()["id"] == "local"


async def test_a_stream_ends_when_its_session_does(tmp_path: Path) -> None:
    bench = Bench()
    bench.gate.clear()
    agent = bench.agent(act("wait", "slow"), finish("the secret plan"))
    settings = Settings(look_again_s=0.0, tail_s=0.01)
    async with serving(agent, tmp_path / "r.db", settings=settings) as client:
        mine = await entered(client)
        run = (await client.post("/runs", {"goal": "go"}, headers=mine)).json()["id"]
        told: list[Event] = []
        client.http.headers["Authorization"] = mine["Authorization"]
        watching = asyncio.create_task(client.events(run, into=told))
        await bench.arrived.wait()
        await settled(lambda: client.server.streams == 1)
        await client.post("/signout", headers=mine)
        bench.gate.set()
        await watching
        assert told
        assert "the secret plan" not in str(told)


async def test_a_session_of_one_server_is_none_of_another(tmp_path: Path) -> None:
    async with server(tmp_path / "a") as one, server(tmp_path / "b") as two:
        mine = await entered(one)
        assert await known(one, mine)
        assert not await known(two, mine)


async def test_sessions_that_cannot_be_trusted_let_nobody_in(tmp_path: Path) -> None:
    kept = tmp_path / "sessions.json"
    async with server(tmp_path) as client:
        mine = await entered(client)
        assert mine["Authorization"].partition(" ")[2] not in kept.read_text()
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
    with pytest.raises(ConfigError, match="lock' is a folder"):
        tokens.revoke(said.split("_")[1])
    assert tokens.check(said) is not None
    assert sorted(one.name for one in tmp_path.iterdir()) == ["tokens.json", "tokens.json.lock"]
