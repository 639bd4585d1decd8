"""State that servers of several machines share: tokens, sessions and driven runs."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from taofold import Agent
from taofold.core.errors import ConfigError, LogError
from taofold.engine import RemoteEngine
from taofold.log.log import AT_ONCE
from taofold.log.memory import MemoryLog
from taofold.server import Server
from taofold.server.auth import Signin, TokenStore
from taofold.shared_document import Shared
from tests import postgres
from tests.server.agents import finish, scripted
from tests.server.live import PATIENCE, QUICK

pytest.importorskip("psycopg", reason="psycopg is not installed (pip install 'taofold[postgres]')")

from taofold.log.postgres import Database, PostgresLog


class Plain:
    """A shelf in memory, which may be out of reach, and whose writers may be overtaken."""

    def __init__(self) -> None:
        self.entries: dict[str, tuple[int, bytes]] = {}
        self.away, self.overtaken = False, 0

    def kept(self, key: str) -> tuple[int, bytes]:
        if self.away:
            raise LogError("away")
        return self.entries.get(key, (0, b""))

    def keep(self, key: str, version: int, body: bytes) -> bool:
        if self.overtaken or self.kept(key)[0] != version:
            self.overtaken = max(self.overtaken - 1, 0)
            return False
        self.entries[key] = (version + 1, body)
        return True


def test_who_signs_in_at_one_server_is_signed_in_at_the_other_and_ends_at_both() -> None:
    server = postgres.server()
    url = server.url()
    shelves = [Database(url), Database(url)]
    tokens = [TokenStore(Shared(one, "tokens")) for one in shelves]
    signins = [
        Signin(mine, Shared(one, "sessions")) for mine, one in zip(tokens, shelves, strict=True)
    ]
    said = tokens[0].add("ann", ["USER"])
    token = tokens[1].check(said)
    assert token is not None
    cookie = signins[0].begin(token)
    session = signins[1].read(cookie)  # at once, not after a quarter of a second
    assert session is not None
    assert session.principal.id == "ann"
    signins[1].end(cookie)
    assert settles(lambda: signins[0].read(cookie) is None)
    tokens[0].revoke(token.id)
    assert settles(lambda: tokens[1].check(said) is None)
    for one in shelves:
        one.close()


def settles(holds: Callable[[], bool]) -> bool:
    """Returns whether the condition becomes true within the timeout."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.02)
    return False


def test_a_writer_who_is_overtaken_reads_again_and_loses_nothing() -> None:
    shelf = Plain()
    one, two = (TokenStore(Shared(shelf, "tokens")) for _ in range(2))
    one.add("ann", ["USER"])
    two.add("bob", ["USER"])
    shelf.overtaken = 3
    one.add("cid", ["USER"])
    assert [token.principal for token in TokenStore(Shared(shelf, "tokens")).all()] == [
        "ann", "bob", "cid",
    ]  # fmt: skip


def test_a_database_out_of_reach_lets_nobody_in() -> None:
    shelf = Plain()
    tokens = TokenStore(Shared(shelf, "tokens"))
    said = tokens.add("ann", ["USER"])
    shelf.away = True
    fresh = TokenStore(Shared(shelf, "tokens"))
    assert fresh.check(said) is None
    assert fresh.configured  # so that the server is not treated as one without tokens
    with pytest.raises(ConfigError, match="cannot be read"):
        fresh.all()


def test_a_server_that_drives_nothing_leaves_its_runs_to_others() -> None:
    async def main() -> None:
        log = MemoryLog()
        agent = Agent(scripted(finish()))
        server = Server(log, {"agent": agent}, settings=replace(QUICK, most_runs=0))
        assert isinstance(server.engine, RemoteEngine)
        await server.start()
        await server.worker.begin(server.engine, server.catalog["agent"], "r1", "go")
        row = await log.row("r1")
        assert (row.status, row.waiting_for, row.wake_at) == ("waiting", "queued", AT_ONCE)
        assert [one.run for one in await log.due(2**50)] == ["r1"]
        await server.engine.wake("r1")
        await server.engine.wake("unknown")
        await server.stop()

    asyncio.run(main())


def test_a_server_looks_as_soon_as_another_wrote() -> None:
    """A message in the database is acted on long before the engine would look by itself."""

    async def main() -> None:
        url = postgres.server().url()
        one, two = PostgresLog(url), PostgresLog(url)
        slow = replace(QUICK, look_s=PATIENCE * 3)
        agent = Agent(scripted(finish()))
        front = Server(one, {"agent": agent}, settings=replace(slow, most_runs=0))
        worker = Server(two, {"agent": agent}, settings=slow)
        await worker.start()
        await front.start()
        ours = {"server": {"agent": "agent"}}
        await front.worker.begin(front.engine, front.catalog["agent"], "r1", "go", settings=ours)
        async with asyncio.timeout(PATIENCE):
            while (await one.row("r1")).epoch < 2:  # noqa: ASYNC110 - a log says nothing by itself
                await asyncio.sleep(0.01)
        await front.stop()
        await worker.stop()
        await one.close()
        await two.close()

    asyncio.run(main())
