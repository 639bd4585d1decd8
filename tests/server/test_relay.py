"""Streamed text of another process's run reaches its watchers here before it is in the log."""

import asyncio
import os
import random
import signal
import string
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, MemoryLog, RunContext, tool
from taofold.agent.result import Progress
from taofold.core.errors import LogError
from taofold.log.log import Log, WrappedLog
from taofold.server import Settings
from taofold.server.streams.relay import PAYLOAD, Relay, TextNotice, notice_messages
from tests import postgres
from tests.server.agents import Bench, Slowly, act, finish
from tests.server.live import PATIENCE, Client, Event, serving, settled

pytestmark = pytest.mark.anyio

WATCHES = Settings(most_runs=0, tail_s=0.05, stop_s=1.0)
DRIVES = Settings(look_s=0.02, tail_s=0.05, stop_s=1.0)
TEXT = "one two three four five six seven eight nine ten – 🌍 " * 6


class Ether:
    """A wire in memory that loses the messages selected by `lost`."""

    def __init__(self, lost: Callable[[str], bool] = lambda message: False) -> None:
        self.messages: list[str] = []
        self._lost = lost
        self._listeners: list[Callable[[str], None]] = []

    def broadcast(self, message: str) -> None:
        assert message.isascii()
        assert len(message) <= PAYLOAD
        self.messages.append(message)
        for listener in list(self._listeners):
            if not self._lost(message):
                listener(message)

    def on_broadcast(self, listener: Callable[[str], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)


class AiringLog(WrappedLog):
    """A log of one process that stands for a database with several."""

    def __init__(self, log: Log, ether: Ether) -> None:
        super().__init__(log)
        self.broadcast, self.on_broadcast = ether.broadcast, ether.on_broadcast


class Screened:
    """Remembers what was shown."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.reports: list[Progress] = []
        self.pokes = 0

    def show(self, root: str, text: str, head: int) -> None:
        assert (root, head) == ("r", 3)
        self.texts.append(text)

    def report(self, root: str, progress: Progress) -> None:
        self.reports.append(progress)

    def poke(self, root: str) -> None:
        self.pokes += 1


@asynccontextmanager
async def pair(ether: Ether) -> AsyncIterator[tuple[Relay, Relay, Screened]]:
    """Returns the driver of run `r`, its watcher, and the output shown to the watcher."""
    screen = Screened()
    driver = Relay(ether, Screened(), part_s=0.002, watch_s=0.02)
    watcher = Relay(ether, screen, part_s=0.002, watch_s=0.02)
    await driver.start()
    await watcher.start()
    driver.begin("r", 3)
    watcher.watch("r")
    await asyncio.sleep(0.01)
    try:
        yield driver, watcher, screen
    finally:
        driver.close()
        watcher.close()


@pytest.mark.parametrize("seed", range(5))
async def test_what_is_shown_is_always_a_beginning_of_the_answer_and_ends_whole(seed: int) -> None:
    """Mutant: a piece behind a gap is put where the text ends."""
    chance = random.Random(seed)
    ether = Ether(lambda message: chance.random() < 0.3)
    text = "".join(chance.choice(string.printable + "ß🌍\ud800"[:2]) for _ in range(6000))
    async with pair(ether) as (driver, _, screen):
        for end in range(0, len(text), 200):
            driver.arrived("r", text[: end + 200])
            await asyncio.sleep(0.003)
        # No more parts arrive. A watcher requests a lost part when the next one shows a gap.
        async with asyncio.timeout(PATIENCE):
            tail = 0
            while not screen.texts or not screen.texts[-1].startswith(text):
                tail += 1
                driver.arrived("r", text + "." * tail)
                await asyncio.sleep(0.005)
    whole = text + "." * tail
    assert all(whole.startswith(shown) for shown in screen.texts)


async def test_nothing_is_sent_of_a_run_that_nobody_watches() -> None:
    """Mutant: `_is_wanted` is always true."""
    ether = Ether()
    async with pair(ether) as (driver, watcher, screen):
        driver.begin("other", 0)
        for number in range(20):
            driver.arrived("other", "x" * number)
            driver.wrote("other", number)
            await asyncio.sleep(0.001)
        assert '"other"' not in "".join(ether.messages)
        watcher.unwatch("r")
        driver.arrived("r", "hello")
        await asyncio.sleep(0.01)
        assert screen.texts == []


async def test_another_attempt_at_a_reply_begins_again() -> None:
    async with pair(Ether()) as (driver, _, screen):
        driver.arrived("r", "a wrong answer")
        await settled(lambda: "a wrong answer" in screen.texts)
        driver.arrived("r", "another")
        await settled(lambda: screen.texts[-1] == "another")


async def test_a_second_watcher_gets_the_answer_from_its_beginning() -> None:
    ether, screen = Ether(), Screened()
    async with pair(ether) as (driver, _, first):
        driver.arrived("r", TEXT)
        await settled(lambda: TEXT in first.texts)
        second = Relay(ether, screen)
        await second.start()
        second.watch("r")
        await settled(lambda: screen.texts[-1:] == [TEXT])
        second.close()
    assert first.texts[-1] == TEXT


@pytest.mark.parametrize("message", ["", "{", "[]", '{"sender":"x","notices":[{"type":"new"}]}'])
async def test_what_is_not_understood_is_ignored(message: str) -> None:
    ether = Ether()
    async with pair(ether) as (driver, _, screen):
        ether.broadcast(message)
        driver.arrived("r", "hello")
        await settled(lambda: screen.texts == ["hello"])


def test_a_message_is_never_longer_than_a_database_takes() -> None:
    notices = [TextNotice("r" * size, "x.1", 1, 0, "🌍" * 500) for size in (1, 900, 9000)]
    messages = list(notice_messages("x", notices))
    assert len(messages) == 2  # the last one is too long for any
    assert all(len(message) <= PAYLOAD for message in messages)


async def test_text_and_reports_of_another_process_are_seen_as_they_come() -> None:
    """Mutants: `show` does nothing; `begin` is not sent; `Replied` does not end a reply."""
    go = asyncio.Event()

    @tool(effect="read")
    async def dig(ctx: RunContext[Any]) -> str:
        """Dig."""
        while not go.is_set():
            ctx.report("deep")
            await asyncio.sleep(0.02)
        return "dug"

    model = Slowly(act("dig", "dig"), finish(TEXT))
    agent = Agent(model, tools=[dig])
    ether, memory = Ether(), MemoryLog()
    async with (
        serving(agent, AiringLog(memory, ether), settings=DRIVES) as worker,
        serving(agent, AiringLog(memory, ether), settings=WATCHES) as server,
    ):
        run = await worker.start()
        seen: list[Event] = []
        watching = asyncio.create_task(server.events(run, into=seen))
        await settled(lambda: server.server.hub.watched(run))
        model.go(len(range(0, len(model.replies[0]), model.size)))
        await settled(lambda: any(event.name == "progress" for event in seen))
        go.set()
        model.go(20)
        await settled(lambda: any(event.name == "answer_chunk" for event in seen))
        assert not any(event.name == "answer" for event in seen)
        joined: list[Event] = []
        later = asyncio.create_task(server.events(run, into=joined))
        await settled(lambda: any(event.name == "answer_chunk" for event in joined))
        model.go(1000)
        events, late = await watching, await later
    for got in (events, late):
        assert "".join(event.data["text"] for event in got if event.name == "answer_chunk") == TEXT
        assert [event.name for event in got][-2:] == ["answer", "done"]
    assert len([event for event in events if event.name == "answer_chunk"]) > 1
    assert next(event.data["text"] for event in events if event.name == "progress") == "deep"


async def test_what_comes_too_late_takes_nothing_back() -> None:
    """Mutant: `show` does not look at the head."""
    agent = Bench().agent(finish(TEXT))
    async with serving(agent, MemoryLog()) as client:
        run = await client.start()
        await client.until(run, "finished")
        async with client.server.hub.watch(run) as channel:
            client.server.hub.show(run, "one two", 1)
            assert (channel.answer, channel.live) == (TEXT, False)


AGENTS = """
import asyncio, pathlib
from taofold import Agent
from tests.server.agents import Slowly, finish

class Fed(Slowly):
    async def complete(self, request, on_text=None):
        feeding = asyncio.create_task(self.feed())
        try:
            return await super().complete(request, on_text)
        finally:
            feeding.cancel()

    async def feed(self):
        eaten = 0
        while True:
            size = int(pathlib.Path("pieces").read_text() or 0)
            self.go(max(0, size - eaten))
            eaten = max(size, eaten)
            await asyncio.sleep(0.02)

agent = Agent(Fed(finish("one two three four five six seven eight nine ten – 🌍 " * 6)))
"""


def work(folder: Path, url: str) -> "subprocess.Popen[bytes]":
    environment = {
        **os.environ, "TAOFOLD_LOG": url, "TAOFOLD_HOME": str(folder / "home"),
        "PYTHONPATH": f"{Path(__file__).parents[2]}:{folder}",
    }  # fmt: skip
    with (folder / "said.txt").open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "taofold.cli", "work", "agents:agent"],
            cwd=folder, env=environment, stdout=file, stderr=file,
        )  # fmt: skip


def chunks(events: list[Event]) -> str:
    """Returns the answer assembled from the chunks that a client received."""
    text = ""
    for event in events:
        if event.name == "answer_chunk":
            text = text[: event.data["offset"]] + event.data["text"]
    return text


async def test_a_client_of_a_server_sees_what_a_worker_hears_until_it_dies_and_from_the_next(
    tmp_path: Path,
) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    from taofold.log.postgres import PostgresLog

    log = PostgresLog(postgres.server().url())
    (tmp_path / "agents.py").write_text(AGENTS)
    pieces = tmp_path / "pieces"
    pieces.write_text("0")
    agent = Agent(Slowly(finish(TEXT)))
    workers = [work(tmp_path, log.database.dsn)]
    try:
        async with serving(agent, log, settings=WATCHES, seconds=2 * PATIENCE) as client:
            run = await client.start()
            seen: list[Event] = []
            watching = asyncio.create_task(client.events(run, into=seen, seconds=2 * PATIENCE))
            pieces.write_text("20")
            await until(client, lambda: TEXT.startswith(chunks(seen)) and len(chunks(seen)) > 50)
            assert not any(event.name == "answer" for event in seen)
            workers[0].send_signal(signal.SIGKILL)
            workers.append(work(tmp_path, log.database.dsn))
            # The next worker calls the model again. Its text continues behind the shown text.
            known = len(chunks(seen))
            pieces.write_text("24")
            await until(client, lambda: len(chunks(seen)) > known)
            assert not any(event.name == "answer" for event in seen)
            pieces.write_text("1000")
            events = await watching
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
        await log.close()
    assert chunks(events) == TEXT
    assert [event.name for event in events][-2:] == ["answer", "done"]


async def until(client: Client, holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)


async def test_a_broadcast_that_a_database_would_not_take_is_refused() -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    from taofold.log.postgres import PostgresLog

    log = PostgresLog(postgres.server().url())
    with pytest.raises(LogError, match="ASCII"):
        log.broadcast("ß")
    with pytest.raises(LogError, match="7999"):
        log.broadcast("x" * 8000)
    heard = asyncio.Event()
    loop = asyncio.get_running_loop()
    stop = await asyncio.to_thread(
        log.on_broadcast, lambda message: loop.call_soon_threadsafe(heard.set)
    )
    async with asyncio.timeout(PATIENCE):
        while not heard.is_set():
            log.broadcast("x" * 7999)
            await asyncio.sleep(0.01)
    stop()
    await log.close()
