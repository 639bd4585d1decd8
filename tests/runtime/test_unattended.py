"""Maintenance of runs without an owner: found, closed, ended and parked again."""

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from taofold import Agent, Limits, MemoryLog
from taofold.core import events as e
from taofold.core.content import Conversation, Message
from taofold.core.effects import Answer, Begin, Strategy, ask, fork
from taofold.core.errors import Refused
from taofold.core.imported_runs import as_import
from taofold.core.state import fold
from taofold.core.values import Action, Observation, Principal, Thought
from taofold.log.log import AT_ONCE, RunRow, Signal
from taofold.reasoning import Task
from taofold.runtime import control
from taofold.runtime import run as runs
from taofold.runtime.endings import EXPIRED, QUEUED
from taofold.runtime.model import Request
from taofold.runtime.recording import Tape
from taofold.runtime.trace_context import TRACEPARENT, TraceContext, current_trace
from taofold.testing import FunctionModel

from .kit import act, finish
from .payer import agent as payer

pytestmark = pytest.mark.anyio

ANN = Principal("ann")


async def waiting(
    log: MemoryLog, run: str, parent: str = "", *ends: int, wake_at: int = AT_ONCE
) -> RunRow:
    """Returns a run that waits with one question per expiry time in `ends`. 0 is no expiry."""
    actions = tuple([Action("pay", {"amount": n}) for n in range(len(ends))])
    asked = [
        e.Decided(key="1", index=n, verdict="ask", tier=3, digest=f"d{n}", expires_at=end)
        for n, end in enumerate(ends)
    ]
    start = e.RunStarted(goal="go", parent=parent, principal=ANN)
    events = [start, e.Proposed(key="1", thought=Thought("x"), actions=actions), *asked]
    parked = e.Parked(reason="awaiting_approval")
    records = [e.Record(run, n, 1_000, event) for n, event in enumerate([*events, parked])]
    await log.create(RunRow(run, "waiting", "go", parent=parent), records=records)
    claim = await log.claim(run, "")
    reason = "awaiting_approval"
    await log.append(run, claim.epoch, [], status="waiting", waiting_for=reason, wake_at=wake_at)
    return await log.row(run)


async def test_the_root_of_a_run_is_found_over_all_its_callers() -> None:
    log = MemoryLog()
    for run, parent in (("r", ""), ("r.1", "r"), ("r.1.2", "r.1"), ("lost.1", "lost")):
        await log.create(RunRow(run, "waiting", "go", parent=parent))
    for run in ("r", "r.1", "r.1.2"):
        assert (await control.root(log, await log.row(run))).run == "r"
    assert (await control.root(log, await log.row("lost.1"))).run == "lost.1", "as far as it goes"


async def test_a_family_whose_questions_expired_is_one_run_to_resume() -> None:
    log = MemoryLog()
    await waiting(log, "r", "")
    for run, parent in (("r.1", "r"), ("r.2", "r"), ("r.2.1", "r.2"), ("s", "")):
        await waiting(log, run, parent, 5_000)
    assert await control.sweep(log, now=lambda: 5_000) == [], "open until then, not less"
    assert await control.sweep(log, now=lambda: 5_001) == ["r", "s"]
    assert await control.sweep(log, now=lambda: 5_001) == []


async def test_only_the_questions_that_are_late_are_closed_and_each_as_it_was_asked() -> None:
    log = MemoryLog()
    row = await waiting(log, "r", "", 5_000, 0, 9_000, 4_000)
    assert await control.expire(log, row, 5_001)
    records = await log.read("r")
    closed = [r.event for r in records if isinstance(r.event, e.Resolved)]
    assert [(c.key, c.index, c.verdict, c.by, c.tier, c.digest) for c in closed] == [
        ("1", 0, "expired", "clock", 3, "d0"),
        ("1", 3, "expired", "clock", 3, "d3"),
    ]
    assert [r.seq for r in records] == list(range(len(records)))
    assert {r.at for r in records[-3:]} == {5_001}
    assert fold(records).active_ms == 0, "nobody was active while it waited"
    assert [one.expires_at for one in await control.pending(log, "r")] == [0, 9_000]
    row = await log.row("r")
    assert (row.status, row.waiting_for, row.wake_at) == ("waiting", EXPIRED, AT_ONCE)
    assert not await control.expire(log, row, 5_001)


async def test_times_of_what_is_written_for_a_run_never_go_back() -> None:
    log = MemoryLog()
    row = await waiting(log, "r", "", 500)
    assert await control.expire(log, row, 501), "by a clock that was set back"
    assert [r.at for r in await log.read("r")][-2:] == [1_000, 1_000]


async def test_of_a_run_that_goes_on_or_is_asked_in_time_nothing_is_closed() -> None:
    log = MemoryLog()
    row = await waiting(log, "r", "", 5_000)
    count = len(await log.read("r"))
    for status, at in (("running", 9_000), ("finished", 9_000), ("waiting", 5_000)):
        assert not await control.expire(log, replace(row, status=status), at)
    assert len(await log.read("r")) == count
    assert (await log.row("r")).waiting_for == "awaiting_approval"


async def test_what_is_written_for_a_run_is_not_before_its_last_record() -> None:
    log = MemoryLog()
    await waiting(log, "r", "", 500)
    claim = await log.claim("r", "")
    later = e.Record("r", len(await log.read("r")), 2_000, e.Parked(reason="awaiting_approval"))
    await log.append("r", claim.epoch, [later], status="waiting", waiting_for="awaiting_approval")
    assert await control.expire(log, await log.row("r"), 1_500)
    assert [r.at for r in await log.read("r")][-3:] == [2_000, 2_000, 2_000]


@pytest.mark.parametrize("what", ["expire", "cancel", "end_orphan"])
async def test_nothing_is_written_for_a_run_that_somebody_has_taken_since(what: str) -> None:
    log = MemoryLog()
    row = await waiting(log, "r", "", 5_000)
    before = await log.read("r")
    claim = await log.claim("r", "somebody", lease_ms=10_000)
    if what == "expire":
        assert not await control.expire(log, row, 6_000)
    elif what == "end_orphan":
        assert not await control.end_orphan(log, row, 6_000)
    else:
        await control.cancel(log, "r", by=ANN)
        assert [signal.kind for signal in await log.inbox("r")] == ["cancel"]
    assert await log.read("r") == before
    assert (await log.row("r")).epoch == claim.epoch


async def test_an_orphan_ends_as_interrupted() -> None:
    log = MemoryLog()
    row = await waiting(log, "r.1", "r", 5_000)
    assert await control.end_orphan(log, row, 2_000)
    state, row = fold(await log.read("r.1")), await log.row("r.1")
    assert (state.status, state.stop_reason, state.at) == ("cancelled", "interrupted", 2_000)
    assert (row.status, row.waiting_for, row.wake_at) == ("cancelled", "", 0)


@pytest.mark.parametrize(
    ("ends", "now", "settled", "wake_at"),
    [
        ((), 9_999, True, 0),
        ((0,), 9_999, True, 0),
        ((5_000,), 5_000, True, 5_001),
        ((7_000, 5_000, 0), 4_000, True, 5_001),
        ((7_000, 5_000), 5_001, False, AT_ONCE),
    ],
)
async def test_a_run_that_is_due_for_nothing_sleeps_until_its_first_question_expires(
    ends: tuple[int, ...], now: int, settled: bool, wake_at: int
) -> None:
    log = MemoryLog()
    row = await waiting(log, "r", "", *ends)
    records = await log.read("r")
    assert await control.settle_wake(log, row, now) is settled
    after = await log.row("r")
    assert (after.status, after.waiting_for) == ("waiting", row.waiting_for)
    assert after.wake_at == wake_at
    assert await log.read("r") == records


async def test_a_run_with_a_message_or_with_its_turn_is_not_put_to_sleep() -> None:
    log = MemoryLog()
    row = await waiting(log, "r", "", 5_000)
    await log.post("r", Signal("s1", "steer", "ann", 1, {"text": "hurry"}))
    assert not await control.settle_wake(log, row, 2_000)
    row = await waiting(log, "q", "")
    await log.append("q", row.epoch, [], status="waiting", waiting_for=QUEUED, wake_at=AT_ONCE)
    assert not await control.settle_wake(log, await log.row("q"), 2_000)
    row = await waiting(log, "t", "", 5_000)
    await log.claim("t", "somebody", lease_ms=10_000)
    assert await control.settle_wake(log, row, 2_000), "somebody else looks after it"


async def test_a_message_may_be_sent_twice_and_is_read_once() -> None:
    log = MemoryLog()
    await waiting(log, "r", "")
    await control.steer(log, "r", "hurry", by=ANN, message_id="m1")
    with pytest.raises(Refused, match="'m1' was sent already"):
        await control.steer(log, "r", "hurry", by=ANN, message_id="m1")
    await control.steer(log, "r", "hurry", by=ANN)
    await control.steer(log, "r", "slowly", by=ANN)
    assert [signal.data["text"] for signal in await log.inbox("r")] == ["hurry", "hurry", "slowly"]


@pytest.mark.parametrize("name", ["", "r", "r:", "r:x", ":3", "r:-1", "r:99"])
async def test_an_action_id_that_names_no_open_question_is_refused(name: str) -> None:
    log = MemoryLog()
    await waiting(log, "r", "", 0)
    with pytest.raises(Refused, match=r"is not an action id|is not pending"):
        await control.find(log, name)
    assert (await control.find(log, "r:2")).action.parameters == {"amount": 0}


async def test_the_wake_of_a_family_is_that_of_the_first_who_waits() -> None:
    log = MemoryLog()
    await waiting(log, "r", "", wake_at=0)
    await waiting(log, "r.1", "r", wake_at=0)
    assert await runs._wake_at(log, await log.row("r")) == 0, "nobody has a time"
    await waiting(log, "r.1.1", "r.1", wake_at=7_000)
    await waiting(log, "r.2", "r", wake_at=8_000)
    assert await runs._wake_at(log, await log.row("r")) == 7_000
    await log.create(RunRow("s", "running", "go", wake_at=5))
    assert await runs._wake_at(log, await log.row("s")) == 0, "it does not wait"


async def test_a_run_that_ended_as_it_should_is_not_reopened_and_another_waits_its_turn() -> None:
    log = MemoryLog()
    agent = payer(act("look"), finish(), log=log)
    await agent.run("x", run_id="done")
    with pytest.raises(Refused, match="ended as finished"):
        await runs.reopen(log, "done")
    row = await waiting(log, "r", "")
    await runs.reopen(log, "r")
    assert await log.row("r") == row, "it has not ended"
    await control.cancel(log, "r", by=ANN)
    await runs.reopen(log, "r")
    row = await log.row("r")
    assert (row.status, row.waiting_for, row.wake_at) == ("waiting", "reopened", AT_ONCE)


async def test_of_an_imported_run_a_copy_knows_how_much_of_it_was_imported() -> None:
    """The local records after the imported ones are not attributed to the file."""
    step: list[e.Event] = []
    for n in (1, 2):
        step += [
            e.Proposed(key=str(n), thought=Thought("x"), actions=(Action("look", {"n": n}),)),
            e.Decided(key=str(n), verdict="allow"),
            e.Started(key=str(n)),
            e.Observed(key=str(n), observation=Observation("seen")),
        ]
    parked = [e.Parked(reason="awaiting_input"), e.Resumed(epoch=1, owner="x")]
    events: list[e.Event] = [e.RunStarted(goal="go"), *step[:4], *parked]
    file = [e.Record("f", n, n, event) for n, event in enumerate(events)]
    came = as_import(file, "f.ndjson", principal=ANN, at=1)
    here = [e.Record("f", len(came) + n, 9, event) for n, event in enumerate(step[4:])]
    copy = runs.copy_records([*came, *here], len(came) + len(here), "g", 10)
    start = copy[0].event
    assert isinstance(start, e.RunStarted)
    assert start.imported is not None
    assert start.imported.events == 5, "parked and resumed are not of the copy"
    assert [type(r.event).__name__ for r in copy[-2:]] == ["Observed", "Forked"]
    assert len(copy) == 10
    plain = runs.copy_records([e.Record("p", 0, 1, e.RunStarted(goal="go"))], 0, "q", 10)
    assert plain[0].event == e.RunStarted(goal="go")


@pytest.mark.parametrize("bound", range(1, 6))
@pytest.mark.parametrize("branches", [1, 2, 3])
@pytest.mark.parametrize("priced", [True, False])
async def test_branches_that_ask_at_once_keep_to_the_bound_on_calls(
    bound: int, branches: int, priced: bool
) -> None:
    """Each branch counts the active calls of the others. An ended branch releases only its own."""

    def together(task: Task) -> Strategy[Answer]:
        def branch(number: int) -> Strategy[None]:
            for turn in range(2):
                yield Begin()
                yield from ask(Conversation([Message("user", f"{number} {turn}")]))

        yield from fork([branch(number) for number in range(branches)])
        return Answer("done")

    limits = Limits(model_calls=bound, usd=100.0 if priced else None)

    async def reply(_: Request) -> str:
        await asyncio.sleep(0)  # the others ask at the same time
        return "x"

    model = FunctionModel(reply, usd=(1.0, 1.0) if priced else None)
    agent = Agent(model, strategy=together, limits=limits)
    result = await agent.run("go")
    wanted = 2 * branches
    assert result.state.model_calls == min(bound, wanted)
    assert bound >= wanted or "model_calls" in result.state.limits_hit


def test_a_branch_that_begins_anew_is_not_behind_what_others_left_on_the_tape() -> None:
    """Limits are looked at where something happens for the first time."""
    cut = [e.Cut(key=key, reason="x", messages=1) for key in ("0", "3.1.2", "3.1.2")]
    tape = Tape([e.Record("r", n, n, event) for n, event in enumerate(cut)])
    where = ("0", "1", "3", "4", "3.0.0", "3.1.0", "3.1.2", "3.1.3", "3.2.0", "5.0.0")
    behind = ("0", "1", "3", "3.1.0", "3.1.2")
    assert [key for key in where if tape.behind(key)] == list(behind)
    assert tape.take(e.Cut, "3.1.2") is not None
    assert [key for key in where if tape.behind(key)] == list(behind), "one is left"
    assert tape.take(e.Cut, "3.1.2") is not None
    assert [key for key in where if tape.behind(key)] == ["0", "1", "3.1.0"]
    assert tape.take(e.Cut, "3.1.2") is None
    assert not Tape().behind("0")


class _Span:
    def __init__(self, flags: int, valid: bool = True) -> None:
        self.context = SimpleNamespace(
            trace_id=0xABC, span_id=0xDEF, trace_flags=flags, is_valid=valid
        )

    def get_span_context(self) -> Any:
        return self.context


@pytest.mark.parametrize(
    ("flags", "sampled"), [(0, False), (1, True), (2, False), (3, True), (254, False), (255, True)]
)
def test_the_lowest_flag_of_the_applications_span_says_whether_it_is_recorded(
    flags: int, sampled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    span = _Span(flags)
    api = SimpleNamespace(get_current_span=lambda: span)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", api)  # type: ignore[arg-type]
    assert current_trace() == TraceContext(f"{0xABC:032x}", f"{0xDEF:016x}", sampled)
    span.context.is_valid = False
    assert current_trace() is None
    token = TRACEPARENT.set(str(TraceContext("1" * 32, "2" * 16, sampled)))
    try:
        assert current_trace() == TraceContext("1" * 32, "2" * 16, sampled), (
            "the header comes first"
        )
    finally:
        TRACEPARENT.reset(token)
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    assert current_trace() is None
