"""All pairs and triples of deaths around one call, for each kind of effect."""

import pytest

from taofold.core import events as run_events
from taofold.core.state import fold
from taofold.runtime import run as runs
from tests.crash.deaths import CASES, RUN, Case, Left, explored

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def dead_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for signs of life: here every earlier owner is dead, and there are thousands."""
    monkeypatch.setattr(runs, "SILENT_S", 0.0)


def check(case: Case, end: Left) -> None:
    """Checks that the run has ended and no effect was repeated without approval."""
    records = end.medium._runs[RUN].records
    assert [record.seq for record in records] == list(range(len(records)))
    state = fold(records)
    assert (state.status, state.output) == ("finished", "done"), end.deaths
    marks = end.world.marks
    if "once" not in case.name:
        assert "call" in marks
        return
    since = 1
    for mark in marks:
        if mark == "call":
            assert since, f"called again unasked after deaths at {end.deaths}: {marks}"
            since = 0
        else:
            since += mark == "allow"
    if case.word.__name__ == "truthful" or "verified" in case.name:
        assert marks.count("call") == 1, (end.deaths, marks)


@pytest.mark.scenario("PEER-03", "PEER-04", "PEER-05")
@pytest.mark.parametrize("power", [False, True], ids=["killed", "power cut"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_after_any_three_deaths_a_call_is_repeated_only_where_a_person_said_so(
    case: Case, power: bool
) -> None:
    ends = list(await explored(case, 3, power=power))
    assert len(ends) > 3, "the harness kills nobody"
    for end in ends:
        check(case, end)


async def test_the_enumeration_goes_red_where_an_old_answer_counts_for_a_new_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from taofold.runtime.recording import Tape

    def up_to_the_first_start(self: Tape, key: str, index: int) -> list[run_events.Record]:
        kinds = self._at[key, index]
        started = kinds[run_events.Started]
        taken = [started.popleft()]
        for kind in (run_events.Decided, run_events.Resolved):
            queue = kinds.get(kind)
            while queue and queue[0].seq < taken[0].seq:
                taken.append(queue.popleft())
        taken += started  # later starts are swallowed, and their answers stay
        started.clear()
        return sorted(taken, key=lambda record: record.seq)

    monkeypatch.setattr(Tape, "attempts", up_to_the_first_start)
    hasty = next(case for case in CASES if case.name == "once, hasty")
    ends = list(await explored(hasty, 3))
    with pytest.raises(AssertionError, match="called again unasked"):
        [check(hasty, end) for end in ends]
