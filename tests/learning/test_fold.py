"""Facts to state: each counts once, however often it is written."""

from tests.learning.make import error

from taofold.learning.events import (
    LearningEvent,
    LoopSettled,
    PatternApplied,
    PatternDiscovered,
    PatternImported,
    PatternMerged,
    PatternsInjected,
    ShownPattern,
    decode,
    encode,
)
from taofold.learning.patterns.pattern import ImportClaim, UseCounts
from taofold.learning.state import State

ID = "pat-error-x-001"
STORY: tuple[LearningEvent, ...] = (
    PatternDiscovered("loop-a", error(identity=ID)),
    PatternsInjected("loop-b", (ShownPattern(ID, 0.9, 0.5),), "text"),
    PatternApplied("loop-b", ID, won=True, iteration=2),
    LoopSettled("loop-b", 3, solved=True),
    PatternMerged("loop-c", ID, error(identity="")),
    PatternImported(error("Other", identity="pat-error-y-001"), ImportClaim(UseCounts(9, 9, 0))),
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
