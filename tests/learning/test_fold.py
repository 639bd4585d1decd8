"""Facts to state: each counts once, however often it is written."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

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
from taofold.learning.fold import step
from taofold.learning.patterns.pattern import ImportClaim, UseCounts
from taofold.log.patterns.stores import Tables, build
from tests.learning.make import error

ID = "pat-error-x-001"
STORY: tuple[LearningEvent, ...] = (
    PatternDiscovered("loop-a", error(identity=ID)),
    PatternsInjected("loop-b", (ShownPattern(ID, 0.9, 0.5),), "text"),
    PatternApplied("loop-b", ID, won=True, iteration=2),
    LoopSettled("loop-b", 3, solved=True),
    PatternMerged("loop-c", ID, error(identity="")),
    PatternImported(error("Other", identity="pat-error-y-001"), ImportClaim(UseCounts(9, 9, 0))),
)


@contextmanager
def empty() -> Iterator[Tables]:
    with closing(sqlite3.connect(":memory:")) as db:
        build(db)
        yield Tables(db)


def test_every_fact_written_twice_counts_once() -> None:
    with empty() as once, empty() as twice:
        for at, event in enumerate(STORY, 1):
            assert decode(encode(event)) == event
            once.keep(step(once, event, at))
            for _ in range(2):
                twice.keep(step(twice, event, at))
        assert [*twice.patterns()] == [*once.patterns()]
        assert [*twice.loops()] == [*once.loops()]
        assert twice.stats() == once.stats()
        assert [p.counts.usage for p in once.patterns()] == [3, 0]


def test_facts_about_what_is_not_there_change_no_pattern() -> None:
    with empty() as state:
        for at, event in enumerate(STORY[1:5], 1):
            state.keep(step(state, event, at))
        assert [*state.patterns()] == []


def test_a_log_in_which_a_loop_uses_what_was_not_chosen_for_it_counts_no_use() -> None:
    """The registry writes no such fact, but a third-party log may hold one."""
    discovered, injected, applied, settled, *_ = STORY
    with empty() as state:
        for at, event in enumerate((discovered, applied, settled), 1):
            state.keep(step(state, event, at))
        assert [pattern.counts.usage for pattern in state.patterns()] == [1], "the discovery"
    with empty() as state:
        for at, event in enumerate((discovered, injected, applied, settled), 1):
            state.keep(step(state, event, at))
        assert [pattern.counts.usage for pattern in state.patterns()] == [2]
