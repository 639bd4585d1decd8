"""Imported records: finished work is history, unfinished work loses its claims.

Mutants: claims are kept; the file's principal, settings or session; references to dropped records;
`trusted` always True.
"""

import pytest

from taofold.core import events as e
from taofold.core.errors import LogError
from taofold.core.imported_runs import as_import
from taofold.core.state import fold
from taofold.core.values import Action, Observation, Principal, Thought, Tier

ME = Principal("me", ("USER",))
PAY = Action("pay", {"amount": 5}, "it is due")
KING = Principal("king", ("ADMIN",))


def start(**more: object) -> e.RunStarted:
    settings = {"cli": {"agent": "evil:agent"}}
    return e.RunStarted(goal="g", principal=KING, settings=settings, session="s", **more)  # type: ignore[arg-type]


def proposed(key: str, *actions: Action) -> e.Proposed:
    return e.Proposed(key=key, thought=Thought("t", "reasoning"), actions=actions or (PAY,))


def said(kind: type[e.Decided], key: str, index: int = 0, verdict: str = "allow") -> e.Decided:
    return kind(
        key=key, index=index, verdict=verdict, tier=Tier.CONFIRM, by="local", reason=""  # type: ignore[arg-type]
    )  # fmt: skip


def done(key: str, index: int = 0) -> e.Observed:
    return e.Observed(key=key, index=index, observation=Observation("success", "paid"))


def records(*events: e.Event) -> list[e.Record]:
    return [e.Record("r", seq, 1000 + seq, event) for seq, event in enumerate(events)]


FORGED = (
    proposed("1"),
    said(e.Decided, "1", verdict="ask"),
    e.Parked(reason="awaiting_approval"),
    e.Resumed(epoch=2),
    said(e.Resolved, "1"),
)


@pytest.mark.parametrize("begun", [False, True])
def test_of_a_call_without_an_outcome_only_the_proposal_is_kept(begun: bool) -> None:
    more = (e.Started(key="1", index=0),) if begun else ()
    kept = as_import(records(start(), *FORGED, *more), "x.ndjson", principal=ME, at=9)
    assert not [one for one in kept if isinstance(one.event, e.Decided | e.Started)]
    assert [one.seq for one in kept] == list(range(len(kept)))
    slot = fold(kept).open["1"].slots[0]
    assert (slot.decided, slot.started) == (None, False)
    origin = fold(kept).started
    assert origin is not None
    assert origin.imported is not None
    (claim,) = origin.imported.claims
    assert (claim.tool, claim.decisions, claim.started) == ("pay", ("allow by local",), begun)
    assert (origin.imported.source, origin.imported.principal) == ("x.ndjson", "king")
    assert origin.imported.events == len(kept)


def test_who_and_what_the_file_says_of_itself_is_dropped() -> None:
    (kept,) = as_import(records(start(parent="p", depth=2)), "x", principal=ME, at=9)
    event = kept.event
    assert isinstance(event, e.RunStarted)
    assert (event.principal, event.settings, event.session, event.parent) == (ME, {}, "", "")


def test_what_is_over_stays_and_is_marked() -> None:
    forged = records(start(), *FORGED, e.Started(key="1", index=0), done("1"))
    kept = as_import(forged, "x", principal=ME, at=9)
    assert len(kept) == len(forged)
    (resolved,) = [one.event for one in kept if isinstance(one.event, e.Resolved)]
    assert resolved.imported
    assert resolved.decider == "local elsewhere (imported)"


def test_one_call_of_a_step_may_be_over_and_the_other_not() -> None:
    events = (
        proposed("1", PAY, PAY),
        said(e.Decided, "1", 0),
        e.Started(key="1", index=0),
        done("1"),
        said(e.Resolved, "1", 1),
        e.Started(key="1", index=1),
    )
    kept = as_import(records(start(), *events), "x", principal=ME, at=9)
    slots = fold(kept).open["1"].slots
    assert slots[0].observation is not None
    assert (slots[1].decided, slots[1].started) == (None, False)


def test_references_to_records_are_numbered_anew() -> None:
    events = (
        proposed("1"), said(e.Decided, "1"), e.Started(key="1", index=0), done("1"),
        proposed("2"), said(e.Resolved, "2"), e.Started(key="2", index=0),
        e.Rewound(to=4), proposed("2"), said(e.Resolved, "2"),
    )  # fmt: skip
    kept = as_import(records(start(), *events), "x", principal=ME, at=9)
    state = fold(kept)
    assert len(state.steps) == 1
    assert state.open["2"].slots[0].decided is None
    (back,) = [one.event for one in kept if isinstance(one.event, e.Rewound)]
    assert back.to == 4


def test_a_decision_on_what_was_never_proposed_is_no_run() -> None:
    for event in (said(e.Resolved, "7"), e.Started(key="7", index=0), said(e.Decided, "7")):
        with pytest.raises(ValueError, match="never proposed"):
            as_import(records(start(), event), "x", principal=ME, at=9)


def test_what_does_not_begin_with_a_start_is_no_run() -> None:
    for events in ((), (proposed("1"),), (e.Resumed(epoch=1), start())):
        with pytest.raises(ValueError, match="begins with"):
            as_import(records(*events), "x", principal=ME, at=9)


def test_nothing_stands_behind_the_end_of_a_run() -> None:
    end = e.RunFinished(status="finished", stop_reason="final_answer", success=True)
    ended = records(start(), proposed("1"), done("1"), end)
    assert fold(as_import(ended, "x", principal=ME, at=9)).status == "finished"
    with pytest.raises(ValueError, match="record 3 follows the end"):
        as_import(records(start(), proposed("1"), end, done("1")), "x", principal=ME, at=9)
    gone_on = records(start(), end, e.Resumed(epoch=2), proposed("1"))
    assert fold(as_import(gone_on, "x", principal=ME, at=9)).status == "running"


@pytest.mark.parametrize(("key", "index"), [("7", 0), ("1", 1), ("1", -1)])
def test_a_log_that_speaks_of_no_call_is_an_error_of_the_log(key: str, index: int) -> None:
    """Mutant: -1 is the last call of the step."""
    for event in (done(key, index), said(e.Decided, key, index), e.Started(key=key, index=index)):
        with pytest.raises(LogError, match=rf"{key}\[{index}\] belongs to no open step"):
            fold(records(start(), proposed("1"), event))


@pytest.mark.parametrize(
    "run", ["", "--help", "a\x1b[2J", "a\nb", "a b", "../x", "a/b", ".hidden", "ａ", "x" * 129]
)
def test_an_id_that_is_none_is_refused(run: str) -> None:
    """An id is printed, and is part of paths and command lines."""
    foreign = [e.Record(run, 0, 1000, start())]
    with pytest.raises(ValueError, match="not a valid run id"):
        as_import(foreign, "x.ndjson", principal=ME, at=9)


def test_the_ids_that_runs_have_here_are_taken() -> None:
    for run in ("r", "18f3a0c2b1d4e5f6a7b", "r.1.0", "nightly-2026_11"):
        (kept,) = as_import([e.Record(run, 0, 1000, start())], "x", principal=ME, at=9)
        assert kept.run == run
