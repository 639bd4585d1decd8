"""Tools and models of the harness's processes, and the record of the real effects.

Every tool writes a line before it acts and one after: the call and the process. The models derive
their replies from the goal (`plan lpfsyh`: one tool for each letter), so they reply the same in
every process.
"""

import asyncio
import json
import os
import random
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from taofold import Agent, Limits, Outcome, RunContext, tool
from taofold.clocks import clock
from taofold.core.errors import Conflict, LogError
from taofold.engine import LocalEngine
from taofold.log.sqlite.log import SqliteLog
from taofold.testing.models import FunctionModel

EFFECTS = Path("effects.log")
TOOLS = {
    "l": "look", "p": "put", "f": "fire", "s": "shoot", "y": "pay", "h": "helper", "d": "dig",
}  # fmt: skip
"""The tool of each letter of a plan."""


DIG_S = 13.0
"""Longer than a lease, and than the wait before a takeover."""
STALL_S = 1.0
"""A pause that lasts so much longer than it should is a process that got no time to run."""
_who = "-"


def keep_in(folder: Path) -> None:
    """Sets the file for the following effects."""
    global EFFECTS
    EFFECTS = folder / "effects.log"


def settle_in(label: str) -> None:
    """Assigns this process and its forks to the machine `label`."""
    global _who
    _who = label


def note(mark: str, kind: str, effect: str) -> None:
    """A line of the world: `mark kind effect process nanoseconds`."""
    line = f"{mark} {kind} {effect} {_who}.{os.getpid()} {time.monotonic_ns()}\n"
    descriptor = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, line.encode())
    os.close(descriptor)


def happened(effect: str) -> bool:
    """Returns whether the effect happened."""
    with suppress(FileNotFoundError), EFFECTS.open() as file:
        return any(line.startswith("did ") and line.split()[2] == effect for line in file)
    return False


async def act(kind: str, ctx: RunContext[Any]) -> str:
    note("begin", kind, ctx.effect_id)
    # Some calls take long enough for several deaths in one of them.
    longest = random.choice((0.05, 0.05, 1.5))
    await pause(random.random() * longest, kind, ctx)
    note("did", kind, ctx.effect_id)
    await pause(random.random() * longest, kind, ctx)
    return f"{kind} done"


async def pause(seconds: float, kind: str, ctx: RunContext[Any]) -> None:
    """Sleeps, and records a much longer delay: a stalled process counts as frozen."""
    begun = time.monotonic()
    await asyncio.sleep(seconds)
    if time.monotonic() - begun > seconds + STALL_S:
        note("stall", kind, ctx.effect_id)


@tool(effect="read", thread=False)
async def look(ctx: RunContext[Any], at: int) -> str:
    """Look."""
    return await act("look", ctx)


@tool(effect="idempotent", tier=1, reversible=True, thread=False)
async def put(ctx: RunContext[Any], at: int) -> str:
    """Put; to do it again changes nothing."""
    return await act("put", ctx)


@tool(
    effect="once", tier=1, reversible=True, thread=False,
    verify=lambda effect: Outcome("fire done") if happened(effect) else False,
)  # fmt: skip
async def fire(ctx: RunContext[Any], at: int) -> str:
    """Fire, once; whether it happened can be found out."""
    return await act("fire", ctx)


@tool(
    effect="once", tier=1, reversible=True, thread=False,
    verify=lambda effect: Outcome("dig done") if happened(effect) else False,
)  # fmt: skip
async def dig(ctx: RunContext[Any], at: int) -> str:
    """Dig for longer than a lease lasts."""
    note("begin", "dig", ctx.effect_id)
    for _ in range(26):
        await pause(DIG_S / 26, "dig", ctx)
    note("did", "dig", ctx.effect_id)
    return "dig done"


@tool(effect="once", tier=1, reversible=True, thread=False)
async def shoot(ctx: RunContext[Any], at: int) -> str:
    """Shoot, once; only a person can find out whether it happened."""
    return await act("shoot", ctx)


@tool(effect="once", tier=3, thread=False)
async def pay(ctx: RunContext[Any], at: int) -> str:
    """Pay, once, with a person's word."""
    return await act("pay", ctx)


@tool(effect="idempotent", tier=1, reversible=True, thread=False)
def write(content: str) -> str:
    """Write the words."""
    Path("words.py").write_text(content)
    return "written"


def say(name: str, **parameters: Any) -> str:
    action = {"tool": name, "parameters": parameters, "rationale": "needed"}
    return json.dumps({"thought": "on", "thought_type": "progress", "action": action})


def turns(request: Any) -> tuple[str, int]:
    """Returns the goal and the number of the model's replies."""
    messages = request.conversation
    goal = next(message.text for message in messages if message.role == "user")
    return goal, sum(message.role == "assistant" for message in messages)


def worker(request: Any) -> str:
    goal, turn = turns(request)
    plan = goal.partition("plan ")[2].split()[0]
    if turn >= len(plan):
        return say("finish", answer="done")
    if plan[turn] == "h":
        return say("helper", goal="plan f for another")
    return say(TOOLS[plan[turn]], at=turn)


def helping(request: Any) -> str:
    turn = turns(request)[1]
    return say("fire", at=0) if turn == 0 else say("finish", answer="helped")


CONTENTS = ("one", "one two", "one two three")


def building(request: Any) -> str:
    """Write what the gate wants, one word more in each iteration."""
    goal, turn = turns(request)
    number = int(goal.partition("## Iteration ")[2].split()[0])
    if turn == 0:
        return say("write", content=f"words = {CONTENTS[min(number, 3) - 1]!r}\n")
    return say("finish", answer="written")


PLENTY = Limits(steps=60, model_calls=10_000, tool_calls=10_000)
helper = Agent[Any, Any](FunctionModel(helping), tools=[fire], name="helper", limits=PLENTY)
agent = Agent[Any, Any](
    FunctionModel(worker),
    tools=[look, put, fire, dig, shoot, pay, helper],
    name="worker",
    limits=PLENTY,
)
builder = Agent[Any, Any](FunctionModel(building), tools=[write], name="builder", limits=PLENTY)


async def drive(log_path: Path, wanted: Path) -> None:
    """Runs a user's program: it begins the requested runs, and an engine drives them."""
    log = SqliteLog(log_path)
    mine = agent.replace(log=log)

    async def ours(run: str) -> bool:
        return run.startswith("api-")

    async def advance(run: str, pause: Any) -> Any:
        return await mine.advance(run, pause=pause)

    engine = LocalEngine(log, advance, now=clock, ours=ours, look_s=0.3)
    await engine.start()
    begun: set[str] = set()
    while True:
        for line in wanted.read_text().splitlines() if wanted.exists() else ():
            run, goal = line.split(" ", 1)
            if run in begun:
                continue
            try:
                await mine.begin(goal, run_id=run)
                await engine.wake(run)
            except Conflict:
                pass  # another engine has begun it
            except LogError:
                continue  # the disk is full: this process goes on, and tries again
            begun.add(run)
        await asyncio.sleep(0.2)
