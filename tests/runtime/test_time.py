"""Elapsed time of a run is measured with the monotonic clock, not with its records' times.

Mutants: no event records the elapsed time; only jumps ahead are detected; small differences are
dropped each time; a wait that a fork leaves out counts.
"""

import time

import pytest

from taofold import Approval, Decision, Limits, MemoryLog, RunContext, tool
from taofold.core import events as codec
from taofold.core import events as e
from taofold.core.state import fold
from taofold.log.formats.ndjson import dumps, loads
from taofold.log.run_store import Store
from taofold.runtime.run import copy_records
from taofold.testing.replay import assert_replays
from taofold.tools import InputRequired

from .kit import act, finish
from .payer import agent

pytestmark = pytest.mark.anyio

HOUR = 3_600_000


class Clocks:
    """The system clock, which `jump` sets, and the monotonic clock."""

    def __init__(self) -> None:
        self.wall, self.passed = 1_700_000_000_000, 0

    def go(self, ms: int, jump: int = 0) -> None:
        self.passed += ms
        self.wall += ms + jump

    def store(self) -> Store:
        store = Store(now=lambda: self.wall, passed=lambda: self.passed)
        store.record(e.RunStarted(goal="g"))
        return store


@pytest.mark.parametrize("jump", [HOUR, -HOUR, 24 * HOUR, -24 * HOUR, 300, -300])
def test_a_clock_that_is_set_changes_nothing_of_the_time_spent(jump: int) -> None:
    clocks = Clocks()
    store = clocks.store()
    for number in range(20):
        clocks.go(100, jump if number == 7 else 0)
        store.record(e.Noted(key="0", kind="n"))
    assert abs(store.state.active_ms - 2_000) <= 250
    assert fold(store.records) == store.state
    again = loads(dumps(store.records))
    assert fold(again).active_ms == store.state.active_ms


def test_a_clock_that_runs_too_slow_is_made_up_for() -> None:
    clocks = Clocks()
    store = clocks.store()
    for _ in range(1_000):
        clocks.go(100, jump=-10)
        store.record(e.Noted(key="0", kind="n"))
    assert abs(store.state.active_ms - 100_000) <= 250


def test_records_say_nothing_of_time_where_the_clocks_agree() -> None:
    clocks = Clocks()
    store = clocks.store()
    clocks.go(5_000)
    store.record(e.Noted(key="0", kind="n"))
    assert store.state.active_ms == 5_000
    assert "elapsed" not in dumps(store.records)


def test_an_event_cannot_give_time_back() -> None:
    with pytest.raises(ValueError, match="elapsed"):
        codec.decode('{"e":"noted","key":"0","kind":"n","elapsed":-5}')


def test_the_time_of_a_person_is_not_the_runs() -> None:
    """Mutants: it counts; a message to the run ends it; other branches' work is left out."""
    clocks = Clocks()
    store = clocks.store()
    clocks.go(400)
    with store.idle():
        clocks.go(HOUR)
    store.record(e.Noted(key="0", kind="n"))
    assert abs(store.state.active_ms - 400) <= 250
    with store.idle():
        clocks.go(HOUR)
        store.record(e.DecisionRefused(id="s", by="ann", why="not hers", at=0))
        clocks.go(HOUR)
    store.record(e.Noted(key="0", kind="n"))
    assert abs(store.state.active_ms - 400) <= 250
    with store.idle():
        clocks.go(3_000)
        store.record(e.Noted(key="other", kind="n"))
        clocks.go(HOUR)
    store.record(e.Noted(key="0", kind="n"))
    assert abs(store.state.active_ms - 3_400) <= 250
    assert fold(loads(dumps(store.records))).active_ms == store.state.active_ms


@pytest.mark.parametrize("asks", ["policy", "tool"])
async def test_a_callback_that_takes_its_time_costs_the_run_none(
    monkeypatch: pytest.MonkeyPatch, asks: str
) -> None:
    """Mutant: the seconds of who approves are the run's."""
    later = 0
    real = time.monotonic_ns
    wall = time.time_ns
    monkeypatch.setattr("taofold.clocks.time.time_ns", lambda: wall() + later)
    monkeypatch.setattr("taofold.clocks.time.monotonic_ns", lambda: real() + later)

    def think(_: Approval) -> Decision:
        nonlocal later
        later += HOUR * 1_000_000
        return Decision("approve")

    @tool(effect="once", tier=2 if asks == "policy" else 1, reversible=True)
    async def write(context: RunContext, n: int) -> str:
        """Write."""
        if asks == "tool":
            assert context.ask is not None
            await context.ask(InputRequired("really?"))
        return "written"

    script = [act("write", n=1), act("write", n=2), finish("in time")]
    one = agent(*script, tools=[write], limits=Limits(seconds=60), approve=think)
    result = await one.run("goal")
    assert (result.status, result.output) == ("finished", "in time"), result.error
    assert later == 2 * HOUR * 1_000_000
    await assert_replays(one, result)


async def test_a_run_goes_on_though_the_machines_clock_is_set_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead = 0
    real = time.time_ns
    monkeypatch.setattr("taofold.clocks.time.time_ns", lambda: real() + ahead)

    @tool(effect="read")
    def jump(hours: int) -> str:
        """Set the clock."""
        nonlocal ahead
        ahead += hours * HOUR * 1_000_000
        return f"set by {hours}"

    script = [act("jump", hours=5), act("jump", hours=-7), act("jump", hours=1), finish("in time")]
    one = agent(*script, tools=[jump], limits=Limits(seconds=600))
    result = await one.run("goal")
    assert (result.status, result.output) == ("finished", "in time")
    assert result.state.active_ms < 600_000
    await assert_replays(one, result)


async def test_what_a_fork_leaves_out_is_not_counted_in_it() -> None:
    one = agent(act("look", what="a"), finish(), limits=Limits(seconds=60), log=MemoryLog())
    whole = await one.run("goal")
    at = next(r.seq for r in whole.records if isinstance(r.event, e.Observed))
    night = [
        *whole.records[: at + 1],
        e.Record(whole.run_id, at + 1, whole.records[at].at, e.Parked(reason="awaiting_input")),
        e.Record(whole.run_id, at + 2, whole.records[at].at + 8 * HOUR, e.Resumed(epoch=2)),
        e.Record(whole.run_id, at + 3, whole.records[at].at + 8 * HOUR + 7, _note()),
    ]
    copy = copy_records(night, at + 3, "copy", whole.records[at].at + 99 * HOUR)
    assert fold(copy).active_ms == fold(night).active_ms < 60_000


def _note() -> e.Noted:
    return e.Noted(key="1", kind="n")
