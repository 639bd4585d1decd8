"""Every process death around one call: activations of one run, explored by the remaining state.

One process starts or resumes the run, asks the approver, and continues. It may die at any of its
points: before and after every write, model call and tool call. The remaining state (records, inbox,
external effects) decides the next process's behaviour, so equal states are explored once. All
sequences of deaths are covered, not a sample.
"""

import json
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from taofold import Agent, Approval, Decision, Limits, Outcome, RunContext, tool
from taofold.core.errors import LogError, UnknownRun
from taofold.core.events import Record, encode
from taofold.core.state import ENDED
from taofold.log.log import Claim, RunRow, Signal, WrappedLog
from taofold.log.memory import MemoryLog
from taofold.runtime.control import decide, pending
from taofold.runtime.endings import worn_out
from taofold.testing.models import FunctionModel
from taofold.tools import InputRequired, Tool

RUN = "r"


class Died(BaseException):
    """The process is gone: nothing catches it, and nothing is written any more."""


class Medium(MemoryLog):
    """Storage that survives a process; after a power cut, only the synced part."""

    def __init__(self) -> None:
        super().__init__()
        self._synced: dict[str, Any] = {}

    def clone(self) -> "Medium":
        """The same content in another log."""
        other = Medium()
        other._runs = self._copied(self._runs)
        other._blobs = dict(self._blobs)
        other._synced = self._synced
        return other

    def cut_power(self) -> None:
        """Forget what was not synced."""
        self._runs = self._copied(self._synced)

    def sync(self) -> None:
        """Make everything so far survive a power cut."""
        self._synced = self._copied(self._runs)

    def _copied(self, runs: Mapping[str, Any]) -> dict[str, Any]:
        copies: dict[str, Any] = {}
        for name, run in runs.items():
            copies[name] = one = copy(run)
            one.records, one.inbox = list(run.records), dict(run.inbox)
            one.seen, one.blobs = set(run.seen), set(run.blobs)
        return copies

    async def append(self, *args: Any, disk: bool = False, **named: Any) -> bool:
        written = await super().append(*args, disk=disk, **named)
        if disk and written:
            self.sync()
        return written

    async def post(self, run: str, signal: Signal) -> bool:
        new = await super().post(run, signal)
        self.sync()
        return new


class Life:
    """Counts the points of one process, and ends it at one of them (0 = never)."""

    def __init__(self, at: int) -> None:
        self.at, self.points, self.over = at, 0, False

    def __call__(self) -> None:
        self.points += 1
        if self.over or self.points == self.at:
            self.over = True
            raise Died


class MortalLog(WrappedLog):
    """The medium as one process sees it."""

    def __init__(self, log: Medium, life: Life) -> None:
        super().__init__(log)
        self.life = life

    async def _mortal(self, work: Awaitable[Any]) -> Any:
        try:
            self.life()
        except Died:
            work.close()  # type: ignore[attr-defined]
            raise
        result = await work
        self.life()
        return result

    async def create(self, row: RunRow, **named: Any) -> Any:
        return await self._mortal(super().create(row, **named))

    async def claim(self, run: str, owner: str, **named: Any) -> Claim:
        claim: Claim = await self._mortal(super().claim(run, owner, **named))
        return claim

    async def append(self, run: str, epoch: int, records: Any, **named: Any) -> bool:
        written: bool = await self._mortal(super().append(run, epoch, records, **named))
        return written

    def renew(self, owner: str, runs: Collection[str], lease_ms: int) -> set[str]:
        if self.life.over:
            raise LogError("nobody is there to give a sign of life")
        return super().renew(owner, runs, lease_ms)

    async def post(self, run: str, signal: Signal) -> bool:
        new: bool = await self._mortal(super().post(run, signal))
        return new


@dataclass
class World:
    """The real effects in order: `call` by the tool, `allow` and `done` by the approver."""

    marks: list[str] = field(default_factory=list)

    def count(self, mark: str) -> int:
        return self.marks.count(mark)


@dataclass(frozen=True)
class Case:
    """A kind of call: its tool, and the approver's answer about a call in doubt."""

    name: str
    make: Callable[[World], Tool]
    word: Callable[[World, Approval], Decision]
    callback: bool = False
    child: bool = False


def truthful(world: World, asked: Approval) -> Decision:
    """A person who looks at the world first."""
    if asked.form is not None:
        return Decision("answer", answer="blue") if asked.form else Decision("approve")
    doubt = "may already have happened" in asked.question
    return Decision("done" if doubt and world.count("call") else "approve")


def hasty(world: World, asked: Approval) -> Decision:
    """A person who approves everything."""
    if asked.form:
        return Decision("answer", answer="blue")
    return Decision("approve")


def simple(effect: str, tier: int = 1, **options: Any) -> Callable[[World], Tool]:
    def make(world: World) -> Tool:
        @tool(effect=effect, tier=tier, reversible=True, thread=False, **options)  # type: ignore[call-overload]
        def fire(at: int) -> str:
            """Fire."""
            world.marks.append("call")
            return "fired"

        made: Tool = fire
        return made

    return make


def verified(world: World) -> Tool:
    made = simple("once")(world)
    return replace(made, verify=lambda _: Outcome("fired") if world.count("call") else False)


def asking(effect: str) -> Callable[[World], Tool]:
    """A tool that asks before it acts, and acts when it is called again with the answer."""

    def make(world: World) -> Tool:
        @tool(effect=effect, tier=1, reversible=True)  # type: ignore[call-overload]
        async def fire(ctx: RunContext[Any], at: int) -> str:
            """Fires at a place given by the approver."""
            wants = InputRequired("where?", form={"type": "string"}, state={"at": at})
            answer = ctx.answer
            if answer is None and ctx.ask is not None:
                answer = await ctx.ask(wants)
            if answer is None:
                raise wants
            world.marks.append("call")
            return f"fired at {answer.text}"

        made: Tool = fire
        return made

    return make


CASES = [
    Case("read", simple("read"), truthful),
    Case("idempotent", simple("idempotent"), truthful),
    Case("once, verified", verified, hasty),
    Case("once, truthful", simple("once"), truthful),
    Case("once, hasty", simple("once"), hasty),
    Case("once, approved", simple("once", 3), truthful),
    Case("once, approved, hasty", simple("once", 3), hasty),
    Case("once, asks", asking("once"), truthful),
    Case("once, asks, hasty", asking("once"), hasty),
    Case("once, asks who is there", asking("once"), truthful, callback=True),
    Case("read, asks", asking("read"), hasty),
    Case("once, in a child", simple("once"), hasty, child=True),
]


@dataclass(frozen=True)
class Left:
    """The state that remains after a process."""

    medium: Medium
    world: World
    deaths: tuple[int, ...] = ()

    def key(self) -> object:
        """Equal for what makes no difference to the next life."""
        runs: list[Any] = []
        for name, run in sorted(self.medium._runs.items()):
            events = [_plain(record) for record in run.records]
            inbox = [(one.kind, sorted(one.data.items())) for one in run.inbox.values()]
            runs.append((name, run.row.status, events, len(inbox), str(inbox)))
        return str(runs), tuple(self.world.marks)


def _plain(record: Record) -> str:
    """A record without times and epochs."""
    raw = msgspec.json.decode(encode(record.event))
    for name in ("epoch", "expires_at", "ms", "duration_ms"):
        raw.pop(name, None)
    if "observation" in raw:
        raw["observation"].pop("duration_ms", None)
    return json.dumps(raw, sort_keys=True)


def _agent(case: Case, world: World, log: MortalLog) -> Agent[Any, Any]:
    life = log.life
    made = case.make(world)
    function = made.function
    assert function is not None

    if case.name.find("asks") < 0:  # asynchronous tools have their points in what they write

        def mortal(*args: Any, **named: Any) -> Any:
            life()
            value = function(*args, **named)
            life()
            return value

        mortal.__wrapped__ = function  # type: ignore[attr-defined]
        made = replace(made, function=mortal)

    def turn(request: Any) -> str:
        life()
        said = sum(message.role == "assistant" for message in request.conversation)
        inner = "fire for me" in request.conversation[1].content
        name: str = "fire"
        parameters: dict[str, Any] = {"at": 1}
        if case.child and not inner:
            name, parameters = "clerk", {"goal": "fire for me"}
        if said:
            name, parameters = "finish", {"answer": "done"}
        action = {"tool": name, "parameters": parameters, "rationale": "needed"}
        life()
        return json.dumps({"thought": "on", "thought_type": "progress", "action": action})

    model = FunctionModel(turn)
    tools: list[Any] = [made]
    if case.child:
        tools = [Agent(model, tools=[made], name="clerk")]
    approve = None
    if case.callback:

        def approve(asked: Approval) -> Decision:
            return _word(case, world, asked)

    return Agent(model, tools=tools, log=log, limits=Limits(steps=4), approve=approve)


def _word(case: Case, world: World, asked: Approval) -> Decision:
    decision = case.word(world, asked)
    if "may already have happened" in asked.question:
        world.marks.append("done" if decision.verdict == "done" else "allow")
    return decision


def _is_worn_out(records: Sequence[Record]) -> bool:
    return records[-1].event.timeless() == worn_out()


async def live(case: Case, left: Left, at: int, *, power: bool = False) -> tuple[Left, int]:
    """Runs one process from a remaining state. Returns the new state and the points passed."""
    medium, world, life = left.medium.clone(), World(list(left.world.marks)), Life(at)
    log = MortalLog(medium, life)
    agent = _agent(case, world, log)
    try:
        try:
            row = await medium.row(RUN)
            begun = row.events > 0
            ended = row.status in ENDED and not _is_worn_out(await medium.read(RUN))
        except UnknownRun:
            begun = ended = False
        if not ended:
            result = await (agent.resume(RUN) if begun else agent.run("go", run_id=RUN))
            # The person also lets a run go on whose process ended again and again.
            while result.status == "waiting" or _is_worn_out(await medium.read(RUN)):
                for asked in await pending(medium, RUN):
                    await decide(log, asked.id, _word(case, world, asked))
                result = await agent.resume(RUN)
    except Died:
        if power:
            medium.cut_power()
    return Left(medium, world, (*left.deaths, at)), life.points


async def explored(case: Case, depth: int, *, power: bool = False) -> Iterator[Left]:
    """Returns the states after each sequence of up to `depth` deaths and a final full process."""
    ends: list[Left] = []
    frontier = [Left(Medium(), World())]
    seen = {frontier[0].key()}
    for level in range(depth + 1):
        following: list[Left] = []
        for left in frontier:
            end, points = await live(case, left, 0)
            ends.append(end)
            if level == depth:
                continue
            for at in range(1, points + 1):
                after, _ = await live(case, left, at, power=power)
                _kept(left, after, power=power)
                if after.key() not in seen:
                    seen.add(after.key())
                    following.append(after)
        frontier = following
    return iter(ends)


def _kept(before: Left, after: Left, *, power: bool) -> None:
    """Checks that every durable record stays durable."""
    medium = before.medium
    kept = medium._synced if power else medium._runs
    for name, run in kept.items():
        records = after.medium._runs[name].records
        assert records[: len(run.records)] == run.records, (before.deaths, after.deaths)
