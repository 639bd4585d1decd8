"""Small words for tests of runs: replies, models with a memory, logs, people."""

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from msgspec.structs import replace

from taofold import Agent, Decision, MemoryLog, RunResult
from taofold.core import events as e
from taofold.core.errors import LogError
from taofold.core.state import RunState, fold
from taofold.core.values import Principal, Profile, Reply, Usage
from taofold.log.log import Log, RunRow, WrappedLog
from taofold.runtime.control import decide, pending
from taofold.runtime.model import OnText, Request
from taofold.testing.models import ROOMY

LISTENER: ContextVar[Callable[[Request], None] | None] = ContextVar("LISTENER", default=None)
"""Listener that receives every request to a `Memo`."""

KINDS = ("goal", "progress", "extraction", "reasoning", "exception", "synthesis")


def act(tool: str, thought: str = "I act", kind: str = "reasoning", /, **parameters: Any) -> str:
    """A reply with one action."""
    action = {"tool": tool, "parameters": parameters, "rationale": "it is needed"}
    return json.dumps({"thought": thought, "thought_type": kind, "action": action})


def batch(*calls: tuple[str, dict[str, Any]], thought: str = "several at once") -> str:
    """A reply with several actions."""
    actions = [{"tool": t, "parameters": p, "rationale": "needed"} for t, p in calls]
    return json.dumps({"thought": thought, "thought_type": "reasoning", "actions": actions})


def finish(answer: Any = "done", thought: str = "that is it") -> str:
    """The reply that ends a run."""
    return act("finish", thought, "synthesis", answer=answer)


class Died(BaseException):
    """The process is gone."""


class MortalLog(WrappedLog):
    """A log as one process sees it: after `die` nothing is written any more."""

    dead = False

    def die(self) -> NoReturn:
        self.dead = True
        raise Died

    async def append(self, run: str, epoch: int, records: Any, **named: Any) -> bool:
        if self.dead:
            raise Died
        written: bool = await super().append(run, epoch, records, **named)
        return written

    def renew(self, owner: str, runs: Collection[str], lease_ms: int) -> set[str]:
        if self.dead:
            raise LogError("nobody is there to give a sign of life")
        return super().renew(owner, runs, lease_ms)


class Memo:
    """A model that reads a script and gives the same reply to the same prompt ever after.

    `choose` looks at the request first: for branches, whose order is not fixed.
    """

    def __init__(
        self,
        script: Iterable[str | Reply | Exception] = (),
        *,
        choose: Callable[[Request], str | Reply | None] | None = None,
        profile: Profile = ROOMY,
        name: str = "memo:model",
        usd: tuple[float, float] | None = (1.0, 2.0),
    ) -> None:
        self.name, self.profile, self.usd = name, profile, usd
        self.known: dict[str, str | Reply | Exception] = {}
        self.script: Iterator[str | Reply | Exception] = iter(script)
        self.choose = choose
        self.asked: list[list[Any]] = []

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        self.asked.append(list(request.conversation))
        if (listener := LISTENER.get()) is not None:
            listener(request)
        key = request.conversation.digest
        if key not in self.known:
            chosen = self.choose(request) if self.choose is not None else None
            self.known[key] = next(self.script) if chosen is None else chosen
        said = self.known[key]
        if isinstance(said, Exception):
            raise said
        reply = said if isinstance(said, Reply) else Reply(said)
        if on_text is not None:
            for start in range(0, len(reply.text), 7):
                on_text(reply.text[start : start + 7])
        usage = reply.usage if reply.usage.tokens else Usage(100, 10)
        return dataclasses.replace(reply, usage=usage, model=self.name)

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        if self.usd is None:
            return None
        return (self.usd[0] * input_tokens + self.usd[1] * output_tokens) / 1e6


NEUTRAL = {"at": 0, "active_ms": 0, "epoch": 0, "wakes": 0, "started": None, "rewinds": 0}


def neutral(state: RunState, ordered: bool = True) -> dict[str, Any]:
    """The state without times, epochs and wakes, and perhaps the order of the steps."""
    plain = msgspec.structs.asdict(state) | NEUTRAL
    plain["steps"] = [
        replace(step, observations=tuple(replace(o, duration_ms=0.0) for o in step.observations))
        for step in state.steps
    ]
    if not ordered:
        plain["steps"] = sorted([repr(replace(step, number=0)) for step in plain["steps"]])
    plain["usage"] = round_usage(state.usage)
    plain["usage_by_model"] = {m: round_usage(u) for m, u in state.usage_by_model.items()}
    return plain


def lost_starts(records: Iterable[e.Record]) -> Counter[str]:
    """Counts, by tool, the starts repeated because their process had ended. Each is a call."""
    tools: dict[tuple[str, int], str] = {}
    at_work: set[tuple[str, int]] = set()
    lost: set[tuple[str, int]] = set()
    counted = Counter[str]()
    orderly = True
    for record in records:
        match record.event:
            case e.Proposed(key=key, actions=actions):
                tools |= {(key, number): action.tool for number, action in enumerate(actions)}
            case e.Started(key=key, index=index):
                counted[tools[key, index]] += (key, index) in lost
                lost.discard((key, index))
                at_work.add((key, index))
            case e.Observed(key=key, index=index):
                at_work.discard((key, index))
            case e.Decided(key=key, index=index, request=request) if request is not None:
                at_work.discard((key, index))  # it asks in the middle of its call
            case e.Resumed() if not orderly:
                lost |= at_work
        orderly = isinstance(record.event, e.Parked | e.RunFinished)
    return +counted


def assert_alike(
    got: dict[str, Any],
    wanted: dict[str, Any],
    records: Iterable[e.Record],
    children: Iterable[e.Record] = (),
    where: object = "",
) -> None:
    """Equal, but for starts that were lost with their process, each of which counts as a call."""
    own, below = lost_starts(records), lost_starts(children)
    per_tool = Counter(wanted["per_tool"]) + own + below
    counted = {
        "tool_calls": wanted["tool_calls"] + own.total(),
        "child_tool_calls": wanted["child_tool_calls"] + below.total(),
        "per_tool": dict(per_tool),
    }
    assert got == wanted | counted, where


def round_usage(usage: Usage) -> Usage:
    return replace(usage, usd=round(usage.usd, 9))


async def planted(records: Iterable[e.Record], log: Log) -> Log:
    """`log` with these records in it, as a crash would have left them."""
    runs: dict[str, list[e.Record]] = {}
    for record in records:
        runs.setdefault(record.run, []).append(record)
    for run, rows in runs.items():
        first = rows[0].event
        assert isinstance(first, e.RunStarted)
        row = RunRow(run, "running", first.goal, parent=first.parent, principal=first.principal.id)
        await log.create(row)
        epochs = [record.event.epoch for record in rows if isinstance(record.event, e.Resumed)]
        # Whoever resumes it has the next epoch: of an earlier one no start is lost.
        for _ in range(max([1, *epochs])):
            claim = await log.claim(run, "")
        last = rows[-1].event
        status, why = "running", ""
        if isinstance(last, e.Parked):
            status, why = "waiting", last.reason
        elif isinstance(last, e.RunFinished):
            status = last.status
        await log.append(run, claim.epoch, rows, status=status, waiting_for=why)
    return log


Answerer = Callable[[Any], Decision]


def yes(request: Any) -> Decision:
    """Approves everything and answers every question with `blue`."""
    if request.action.tool == "ask_user":
        return Decision("answer", answer="blue")
    return Decision("approve")


async def settled(
    agent: Agent[Any, Any], result: RunResult[Any], answer: Answerer = yes, **options: Any
) -> RunResult[Any]:
    """Answer what a run waits for, and resume it, until it ends."""
    rounds = 0
    while result.status == "waiting":
        rounds += 1
        assert rounds < 20, "the run never ends"
        assert result.log is not None
        for one in await pending(result.log, result.run_id):
            await decide(result.log, one.id, answer(one), by=Principal(one.requester))
        result = await agent.resume(result, **options)
    return result


async def state_of(log: Log, run: str) -> RunState:
    return fold(await log.read(run))


def kinds(result: RunResult[Any], *names: str) -> list[str]:
    """Returns the kinds of a run's events in order, optionally filtered by name."""
    found = [type(record.event).__name__ for record in result.records]
    return [one for one in found if one in names] if names else found


def events(result: RunResult[Any], kind: type[Any]) -> list[Any]:
    """The run's events of one kind."""
    return [record.event for record in result.records if isinstance(record.event, kind)]


def memory(_: Path) -> Log:
    return MemoryLog()


def sqlite(folder: Path) -> Log:
    from taofold.log.sqlite.log import SqliteLog

    return SqliteLog(folder / "runs.db", sync=lambda _: None)


LOGS = {"memory": memory, "sqlite": sqlite}
