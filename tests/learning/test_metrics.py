"""Benefit of learning: control group, confidence interval, the seed's names."""

import asyncio
from random import Random

import pytest

from taofold.learning.loops import LoopNote, LoopStats
from taofold.learning.metrics import Effect, benefit, impact, improvement, measure
from taofold.learning.patterns.pattern import Arm
from taofold.log.patterns.stores import memory_registry
from tests.learning.make import ALWAYS, EXTRACT, NEVER, Clock, anti, case, error, looped


def arm(*iterations: int) -> Arm:
    made = Arm()
    for one in iterations:
        made = made.plus(one, True)
    return made


@pytest.mark.scenario("XTL-16")
@pytest.mark.document_item("001.metric.improvement")
def test_the_example_of_the_seed() -> None:
    stats = LoopStats(shown=arm(3, 3, 3, 3, 4), held=arm(5, 5, 5, 5, 5, 5, 5, 5, 5, 6))
    found = benefit(stats)
    assert found.value == 37.3
    assert found.low is not None
    assert found.high is not None
    assert found.low < 37.3 < found.high


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


def test_the_first_pair_of_loops_has_an_effect_and_a_wide_interval() -> None:
    first = benefit(LoopStats(shown=arm(3), held=arm(5)))
    assert (first.value, first.shown, first.held) == (40.0, 1, 1)
    assert first.low is not None
    assert first.low < 0
    assert first.high == 100.0, "more than all iterations cannot be saved"
    more = benefit(LoopStats(shown=arm(*[3] * 50), held=arm(*[5] * 50)))
    assert more.low is not None
    assert more.high is not None
    assert 0 < more.low < 40.0 < more.high < 60, "equal loops leave some doubt"


def test_an_effect_as_text_has_its_interval_and_its_loops() -> None:
    assert Effect(2, 3, 40.0, -5.0, 85.0).text("%") == (
        "+40.0 % (95 %: -5.0 to +85.0; 2 with lessons, 3 control)"
    )
    assert Effect(4, 0).text("%") == "unknown (4 with lessons, 0 control)"
    none = "no control, since control_share is 0 (4 with lessons, 0 control)"
    assert Effect(4, 0).text("%", control=False) == none


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
@pytest.mark.document_item(
    "001.metric.total",
    "001.metric.types",
    "001.metric.usage",
    "001.metric.benefit",
    "001.metric.updated",
    "001.metric.control",
)
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
        assert impact(await registry.show(found.id), await registry.stats()) == Effect(0, 0)
        await looped(registry, "held", case(), won=None, iterations=6, injection=NEVER)
        for n in range(2):
            await looped(registry, f"shown-{n}", case(), won=True, iterations=3 + 2 * n)
        pattern, stats = await registry.show(found.id), await registry.stats()
        effect = impact(pattern, stats)
        assert (effect.value, effect.shown, effect.held) == (-2.0, 2, 1)
        assert effect.low is not None
        assert effect.high is not None
        assert effect.low < -2.0 < effect.high

    asyncio.run(main())


def test_a_loops_improvement_names_what_it_stands_on() -> None:
    note = LoopNote("x", ended=1, iterations=4)
    made = improvement(note, LoopStats(held=arm(6, 6))).as_json()
    low, high = made.pop("improvement_interval_95")
    assert low < 0 < 33.3 < high, "one loop against two proves nothing"
    assert made == {
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
