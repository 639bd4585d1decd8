"""The crashing process: one agent with every kind of tool, on one SQLite log.

Effects go to a side file, one line each. The approver answers truthfully.
"""

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

from taofold import Agent, Decision, Limits, Outcome, RunContext, tool
from taofold.core.call_ids import effect_id
from taofold.core.errors import UnknownRun
from taofold.core.state import fold
from taofold.core.values import Principal
from taofold.log.log import Log
from taofold.log.sqlite.log import SqliteLog
from taofold.runtime.control import decide, pending
from taofold.testing.models import FunctionModel
from tests.crash.points import CrashLog, CrashModel, Points, crashing

RUN = "r"


def say(*calls: tuple[str, dict[str, Any]]) -> str:
    actions = [{"tool": name, "parameters": p, "rationale": "needed"} for name, p in calls]
    return json.dumps({"thought": "I go on", "thought_type": "progress", "actions": actions})


TURNS = [
    say(("look", {"what": "a"})),
    say(("put", {"name": "x"})),
    say(("fire", {"at": 1})),
    say(("look", {"what": "b"}), ("fire", {"at": 2}), ("put", {"name": "y"})),
    say(("shoot", {"at": 3})),
    say(("pay", {"amount": 4})),
    say(("helper", {"goal": "fire for me"}), ("look", {"what": "c"})),
    say(("finish", {"answer": "all done"})),
]
INNER = [say(("fire", {"at": 5})), say(("finish", {"answer": "fired for you"}))]


def reply(request: Any) -> str:
    return _turn(request, TURNS)


def inner(request: Any) -> str:
    return _turn(request, INNER)


def _turn(request: Any, turns: list[str]) -> str:
    said = [message for message in request.conversation if message.role == "assistant"]
    return turns[len(said)]


class Side:
    """The world outside: what really happened, in order."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "side.txt"

    def write(self, kind: str, effect: str) -> None:
        with self.path.open("ab", buffering=0) as file:
            file.write(f"{kind} {effect}\n".encode())

    def lines(self) -> list[list[str]]:
        if not self.path.exists():
            return []
        return [line.split() for line in self.path.read_text().splitlines()]

    def done(self, effect: str) -> bool:
        return any(line[1] == effect for line in self.lines())


def tools(side: Side, folder: Path) -> list[Any]:
    def verify(effect: str) -> Any:
        return Outcome("fired") if side.done(effect) else False

    @tool(effect="read", thread=False)
    def look(ctx: RunContext, what: str) -> str:
        """Look."""
        side.write("look", ctx.effect_id)
        return f"{what} is there"

    @tool(effect="idempotent", tier=1, reversible=True, thread=False)
    def put(ctx: RunContext, name: str) -> str:
        """Put."""
        side.write("put", ctx.effect_id)
        return f"put {name}"

    @tool(effect="once", tier=1, reversible=True, thread=False, verify=verify)
    def fire(ctx: RunContext, at: int) -> str:
        """Fire, once; whether it happened can be found out."""
        side.write("fire", ctx.effect_id)
        return "fired"

    @tool(effect="once", tier=1, reversible=True, thread=False)
    def shoot(ctx: RunContext, at: int) -> str:
        """Shoot, once; nobody can find out later."""
        if (folder / "hold").exists():
            (folder / "inside").touch()
            while (folder / "hold").exists():
                time.sleep(0.005)
        side.write("shoot", ctx.effect_id)
        return "shot"

    @tool(effect="once", tier=3, thread=False)
    def pay(ctx: RunContext, amount: int) -> str:
        """Pay, once, with a person's word."""
        side.write("pay", ctx.effect_id)
        return "paid"

    return [look, put, fire, shoot, pay]


def agent(folder: Path, points: Points, log: Log, *, mutant: bool = False) -> Agent[Any, Any]:
    made = [crashing(one, points) for one in tools(Side(folder), folder)]
    if mutant:  # the mutant: every tool that must not be repeated counts as repeatable
        from dataclasses import replace

        made = [replace(t, effect="idempotent", verify=None, reversible=True) for t in made]
    quick = [one for one in made if one.name in ("fire", "look")]
    helper = Agent(CrashModel(FunctionModel(inner), points), tools=quick, name="helper")
    return Agent(
        CrashModel(FunctionModel(reply), points),
        tools=[*made, helper],
        limits=Limits(steps=12),
        log=CrashLog(log, points),
    )


async def go(folder: Path, at: int, *, mutant: bool = False, takeover: bool = False) -> str:
    """Starts or resumes the run and approves until it ends. Dies at point `at`."""
    points = Points(at)
    log = SqliteLog(folder / "log.db", sync=lambda _: None)
    one = agent(folder, points, log, mutant=mutant)
    try:
        begun = (await log.row(RUN)).events > 0
    except UnknownRun:
        begun = False
    if begun and (await log.row(RUN)).status not in ("running", "waiting"):
        return "ended"
    if begun:
        result = await one.resume(RUN, takeover=takeover)
    else:
        result = await one.run("do it all", run_id=RUN)
    # The person also lets a run go on whose process ended three times at one place.
    while result.status == "waiting" or "at the same place" in result.error:
        assert one.log is not None
        if result.status == "waiting":
            await answer(folder, one.log)
        result = await one.resume(result.run_id)
    (folder / "points").write_text(str(points.passed))
    await log.close()
    return result.status


async def answer(folder: Path, log: Any) -> None:
    """Decides as an approver who checks the side file and answers truthfully."""
    for request in await pending(log, RUN):
        happened = Side(folder).done(
            effect_id(request.run, fold(await log.read(RUN)), request.key, request.index)
        )
        doubt = "may already have happened" in request.reason
        verdict = "done" if doubt and happened else "approve"
        await decide(log, request.id, Decision(verdict), by=Principal())


def main(folder: str, at: int, mutant: bool = False) -> None:
    """The whole life of a process."""
    status = asyncio.run(go(Path(folder), at, mutant=mutant))
    os._exit(0 if status in ("finished", "ended") else 7)


def worker(folder: str, spawned: bool, takeover: bool, barrier: Any = None) -> None:
    """A process that may be overtaken: it exits with 5 if it got a `Conflict`."""
    from taofold.core.errors import Conflict

    if spawned:
        os.environ["TAOFOLD_SPAWNED"] = "1"
    if barrier is not None:
        barrier.wait(180)
    try:
        status = asyncio.run(once(Path(folder), takeover))
    except Conflict:
        os._exit(5)
    os._exit({"finished": 0, "waiting": 3}.get(status, 7))


async def once(folder: Path, takeover: bool) -> str:
    """Drives one activation without an approver."""
    log = SqliteLog(folder / "log.db", sync=lambda _: None)
    one = agent(folder, Points(), log)
    try:
        begun = (await log.row(RUN)).events > 0
    except UnknownRun:
        begun = False
    if begun:
        return (await one.resume(RUN, takeover=takeover)).status
    return (await one.run("do it all", run_id=RUN)).status
