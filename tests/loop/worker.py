"""A process that drives a loop and may be killed at any point; restarts finish the loop.

All state is on disk: log, journal, snapshots. Side effects go to a separate file.
"""

import asyncio
import json
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from taofold.agent import Agent
from taofold.core.failing_checks import Check
from taofold.core.values import Reply, Usage
from taofold.log.journal import Fact, StreamRow
from taofold.log.sqlite.journal import SqliteJournal
from taofold.log.sqlite.log import SqliteLog
from taofold.loop.decisions import Stop, decide
from taofold.loop.driver import LoopDependencies
from taofold.loop.environment import Judged
from taofold.loop.lifecycle import catch_up, resume, start
from taofold.loop.state import LoopState
from taofold.loop.stream import load
from taofold.loop.values import DRIVEN, Learnt, Lessons, LoopLimits, LoopRequest
from taofold.loop.verdict import Verdict
from taofold.testing.models import FunctionModel
from taofold.tools.files import file_tools
from tests.crash.points import CrashLog, CrashModel, Points

from .kit import Folder, act, contains, done, write

LOOP = "x"
USD = 0.01
CONTENTS = {
    "completed": ["one two", "one", "one two three"],
    "exhausted": ["one two", "one", "two"],
}


class CrashJournal:
    """A journal with a point on either side of every write."""

    def __init__(self, journal: SqliteJournal, points: Points) -> None:
        self._journal, self._points = journal, points

    @property
    def identity(self) -> str:
        return self._journal.identity

    async def write(
        self, stream: str, after: int, facts: Sequence[tuple[int, bytes]], **named: Any
    ) -> int:
        self._points()
        last = await self._journal.write(stream, after, facts, **named)
        self._points()
        return last

    async def row(self, stream: str) -> StreamRow | None:
        return await self._journal.row(stream)

    def renew(self, owner: str, streams: Collection[str], lease_ms: int) -> set[str]:
        return self._journal.renew(owner, streams, lease_ms)

    async def facts(self, stream: str, *, after: int = -1, limit: int = 0) -> list[Fact]:
        return await self._journal.facts(stream, after=after, limit=limit)

    async def streams(self, prefix: str = "") -> list[StreamRow]:
        return await self._journal.streams(prefix)

    async def trim(self, stream: str, before: int) -> None:
        raise NotImplementedError

    async def drop(self, stream: str) -> None:
        await self._journal.drop(stream)


class DiskFolder(Folder):
    """Snapshots that survive the process, with kill points around every effect."""

    points: Points
    state: Path

    async def snapshot(self, label: str) -> str:
        name = await super().snapshot(label)
        path = self.state / "snapshots" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(self.kept[name]))
        return name

    def load(self) -> None:
        for path in sorted((self.state / "snapshots").glob("*")):
            self.kept[path.name] = json.loads(path.read_text())

    async def judge(self, label: str, seconds: float) -> Judged:
        self.points()
        judged = await super().judge(label, seconds)
        self.points()
        return judged

    async def restore(self, snapshot: str) -> tuple[str, ...]:
        self.points()
        paths = await super().restore(snapshot)
        self.points()
        return paths

    async def deliver(self) -> tuple[str, ...]:
        self.points()
        with (self.state / "delivered").open("a") as file:
            file.write("x")
        return ()


class Register:
    """A learner that counts each loop once, as the real one does."""

    def __init__(self, state: Path, points: Points) -> None:
        self._path, self._points = state / "learnt.json", points

    async def lessons(self, loop: str, state: LoopState, failing: Sequence[Check]) -> Lessons:
        return Lessons("## Cross-Loop Learning Context\nlesson 5150", ("p1",))

    async def learn(self, loop: str, state: LoopState, work: Any) -> Learnt:
        self._points()
        known = json.loads(self._path.read_text()) if self._path.exists() else {}
        known[loop] = [len(await work.records(one.run)) for one in state.iterations]
        self._path.write_text(json.dumps(known))
        self._points()
        return Learnt(n=1)


def reply(contents: list[str]) -> Any:
    """Returns the model's reply: a function of the conversation alone."""

    def say(request: Any) -> Reply:
        goal = next(m.content for m in request.conversation if m.role == "user")
        number = int(goal.partition("## Iteration ")[2].split()[0])
        said = [m for m in request.conversation if m.role == "assistant"]
        moves = [
            act("first look", "list_files", "goal"), write("a.py", contents[number - 1]), done()
        ]  # fmt: skip
        return Reply(moves[len(said)], usage=Usage(10, 10, 0, USD))

    return say


def means(
    folder: Path, story: str, points: Points, *, mutant: str = ""
) -> tuple[LoopDependencies, Any]:
    log = SqliteLog(folder / "log.db", sync=lambda _: None)
    journal = SqliteJournal(folder / "log.db", sync=lambda _: None)
    root = folder / "work"
    root.mkdir(exist_ok=True)
    ground = DiskFolder(root, contains("one", "two", "three"))
    ground.points, ground.state = points, folder
    ground.load()
    made = Agent[Any, Any](
        CrashModel(FunctionModel(reply(CONTENTS[story])), points),
        tools=[file_tools(root)], approve="all", name="worker",
    )  # fmt: skip
    given = LoopDependencies(
        log=CrashLog(log, points), journal=CrashJournal(journal, points),
        environment=lambda loop, state: ground, agent=lambda place, state: made,
        learner=Register(folder, points),
    )  # fmt: skip
    return given, (log, journal)


async def go(folder: Path, story: str, at: int) -> str:
    """Start the loop or go on with it. Dies at point `at`."""
    points = Points(at)
    given, files = means(folder, story, points)
    try:
        state = (await load(given.journal, LOOP)).state
    except LookupError:
        wish = LoopRequest(
            "Make the failing tests pass.", ("true",), str(folder / "work"),
            LoopLimits(iterations=3, usd=1.0),
        )  # fmt: skip
        state = await start(given, wish, loop=LOOP)
    if state.status in (*DRIVEN, "crashed"):
        state = await resume(given, LOOP)
    if not isinstance(decide(LOOP, state, given.now()), Stop):
        await catch_up(given)
    (folder / "points").write_text(str(points.passed))
    for one in files:
        await one.close()
    return state.status


def main(folder: str, story: str, at: int) -> None:
    """The whole life of a process."""
    asyncio.run(go(Path(folder), story, at))
    os._exit(0)


def judged(path: Path) -> Verdict:
    """Returns the gates' result for the current files."""
    return contains("one", "two", "three")(path)
