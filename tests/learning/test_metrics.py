"""Benefit of learning: control group, confidence interval, the seed's names."""

import asyncio
from random import Random

import pytest

from taofold.learning.loops import LoopNote, LoopStats
from taofold.learning.metrics import benefit, impact, improvement, measure
from taofold.learning.patterns.pattern import Arm
from taofold.log.patterns.stores import memory_registry
from tests.learning.make import ALWAYS, EXTRACT, NEVER, Clock, anti, case, error, looped


def arm(*iterations: int) -> Arm:
    made = Arm()
    for one in iterations:
        made = made.plus(one, True)
    return made


@pytest.mark.scenario("XTL-16")
def test_the_example_of_the_seed() -> None:
    stats = LoopStats(shown=arm(3, 3, 3, 3, 4), held=arm(5, 5, 5, 5, 5, 5, 5, 5, 5, 6))
    found = benefit(stats)
    assert found.improvement == 37.3
    assert found.low is not None
    assert found.high is not None
    assert found.low < 37.3 < found.high
    assert not found.enough, "five loops are too few"


@pytest.mark.scenario("XTL-16")
def test_without_loops_to_compare_with_there_is_no_figure() -> None:
    for stats in (
        LoopStats(),
        LoopStats(shown=arm(3, 4)),
        LoopStats(held=arm(5)),
        LoopStats(held=arm(0)),
    ):
        found = measure([], stats, 0).as_json()["cross_loop_benefit"]
        assert found["improvement_percentage"] is None
        assert found["improvement_interval_95"] is None
        assert found["n_too_small"] is True


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    rnd, held, tries = Random(7), 0, 400
    for _ in range(tries):
        one = arm(*(rnd.randint(1, 7) for _ in range(30)))
        other = arm(*(rnd.randint(1, 11) for _ in range(12)))
        found = benefit(LoopStats(shown=one, held=other))
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 100 * (1 - 4 / 6) <= found.high
    assert 0.90 < held / tries < 0.985


@pytest.mark.scenario("XTL-33")
def test_the_numbers_add_up_and_have_the_seeds_names() -> None:
    async def main() -> None:
        registry = memory_registry(now=Clock())
        await registry.discover("loop-a", [error(), anti("Guess", "Guess")], EXTRACT)
        for n in range(3):
            await looped(registry, f"shown-{n}", case(), won=n > 0, iterations=3)
        for n in range(2):
            await looped(registry, f"held-{n}", case(), won=None, iterations=6, injection=NEVER)
        await looped(registry, "plain", case("Paint", ""), won=None, iterations=50)
        await registry.inject("hand", case(), ALWAYS, manual=True)
        await registry.ended("hand", iterations=50, solved=False)
        metrics = await registry.metrics()
        told = metrics.as_json()
        assert told["total_patterns"] == sum(told["patterns_by_type"].values()) == 2
        assert told["patterns_by_type"] == {
            "error_patterns": 1,
            "success_patterns": 0,
            "anti_patterns": 1,
            "code_templates": 0,
        }
        stats = told["pattern_usage_stats"]
        assert stats["total_applications"] == 3, "the discovery is none"
        assert stats["successful_applications"] + stats["failed_applications"] == 3
        assert stats["overall_success_rate"] == 0.67
        gain = told["cross_loop_benefit"]
        assert gain["loops_with_pattern_injection"] == 3
        assert gain["loops_without_pattern_injection"] == 2
        assert (gain["average_iterations_with"], gain["average_iterations_without"]) == (3.0, 6.0)
        assert gain["improvement_percentage"] == 50.0, "hand-made and empty ones do not count"
        assert gain["loops_with_nothing_to_inject"] == 1
        assert gain["loops_injected_by_hand"] == 1
        assert told["last_updated"].endswith("Z")

    asyncio.run(main())


@pytest.mark.scenario("XTL-32")
def test_a_patterns_impact_compares_with_loops_kept_from_it() -> None:
    async def main() -> None:
        registry = memory_registry(now=Clock())
        (found,) = await registry.discover("loop-a", [error()], EXTRACT)
        assert impact(await registry.show(found.id), await registry.stats()) == (None, 0, 0)
        await looped(registry, "held", case(), won=None, iterations=6, injection=NEVER)
        for n in range(2):
            await looped(registry, f"shown-{n}", case(), won=True, iterations=3 + 2 * n)
        pattern, stats = await registry.show(found.id), await registry.stats()
        assert impact(pattern, stats) == (-2.0, 2, 1)

    asyncio.run(main())


def test_a_loops_improvement_names_what_it_stands_on() -> None:
    note = LoopNote("x", ended=1, iterations=4)
    assert improvement(note, LoopStats(held=arm(6, 6))).as_json() == {
        "baseline_iterations": 6.0,
        "actual_iterations": 4,
        "improvement": "33.3%",
        "n": 2,
    }
    assert improvement(note, LoopStats()).as_json()["improvement"] is None


def test_the_lot_falls_on_eligible_loops_only() -> None:
    async def main() -> None:
        registry = memory_registry(now=Clock())
        lessons = await registry.inject("loop-a", case(), NEVER)
        assert not lessons.control, "there was nothing to hold back"
        await registry.discover("loop-b", [error()], EXTRACT)
        lessons = await registry.inject("loop-c", case(), NEVER)
        assert (lessons.control, lessons.text, lessons.ids) == (True, "", ())
        note = await registry.loop("loop-c")
        assert note is not None
        assert len(note.shown) == 1, "what it would have seen is noted"
        assert note.ids == frozenset()

    asyncio.run(main())
