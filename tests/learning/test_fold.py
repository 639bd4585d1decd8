"""Facts to state: each counts once, however often it is written."""

from tests.learning.make import error

from taofold.learning.events import (
    Applied,
    Discovered,
    Event,
    Imported,
    Injected,
    LoopEnded,
    Merged,
    Shown,
    decode,
    encode,
)
from taofold.learning.patterns.pattern import Claim, Counts
from taofold.learning.state import State

ID = "pat-error-x-001"
STORY: tuple[Event, ...] = (
    Discovered("loop-a", error(identity=ID)),
    Injected("loop-b", (Shown(ID, 0.9, 0.5),), "text"),
    Applied("loop-b", ID, won=True, iteration=2),
    LoopEnded("loop-b", 3, solved=True),
    Merged("loop-c", ID, error(identity="")),
    Imported(error("Other", identity="pat-error-y-001"), Claim(Counts(9, 9, 0))),
)


def test_every_fact_written_twice_counts_once() -> None:
    once, twice = State(), State()
    for at, event in enumerate(STORY, 1):
        assert decode(encode(event)) == event
        once.apply(event, at)
        for _ in range(2):
            twice.apply(event, at)
    assert [*twice.patterns()] == [*once.patterns()]
    assert [*twice.loops()] == [*once.loops()]
    assert twice.stats() == once.stats()
    assert [p.counts.usage for p in once.patterns()] == [3, 0]


def test_facts_about_what_is_not_there_change_no_pattern() -> None:
    state = State()
    for at, event in enumerate(STORY[1:5], 1):
        state.apply(event, at)
    assert [*state.patterns()] == []
