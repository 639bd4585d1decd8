import sys

import pytest

from taofold.core import events as e
from taofold.core.metrics import measure
from taofold.core.values import Action, Observation, Thought
from tests.core.story import Story

SIX = {
    "iterations_count", "thought_type_distribution", "action_tool_distribution",
    "observation_success_rate", "thought_to_action_ratio", "grounding_score",
}  # fmt: skip


@pytest.mark.scenario("TAO-13")
def test_eight_of_nine_grounded_thoughts_score_88_9():
    story = Story()
    for number in range(1, 11):
        thought = "on we go" if number == 5 else f"item_{number - 1} was there"
        story.step(thought, result=f"item_{number}", n=number)
    metrics = measure(story.finish().records)
    assert metrics.iterations_count == 10
    assert (metrics.grounded, metrics.grounding_eligible) == (8, 9)
    assert metrics.grounding_score == 88.9


@pytest.mark.scenario("TAO-14")
def test_batches_count_once_in_the_ratio_and_as_calls_in_the_distribution():
    story = Story().step(Thought("a", "goal")).step(Thought("b", "progress"), tool="read")
    key = story.think("both", Action("read", {"n": 1}, "w"), Action("look", {"n": 2}, "w"))
    story.start(key).start(key, 1).see(key, Observation("x")).see(key, Observation("y"), 1)
    metrics = measure(story.records)
    assert metrics.thought_to_action_ratio == 1.0
    assert metrics.thought_type_distribution == {"goal": 1, "progress": 1, "reasoning": 1}
    assert metrics.action_tool_distribution == {"look": 2, "read": 2}
    assert sum(metrics.action_tool_distribution.values()) == metrics.calls == 4


@pytest.mark.scenario("TAO-11")
def test_partial_is_not_success():
    story = Story().step().step(status="partial", n=1).step(status="timeout", n=2)
    assert measure(story.records).observation_success_rate == 33.3


@pytest.mark.scenario("TAO-15")
def test_an_interrupted_step_is_counted_apart_and_nowhere_else():
    story = Story().step()
    whole = measure(story.records)
    story.start(story.think(Thought("go", "exception"), Action("slow", {}, "w")))
    metrics = measure(story.records)
    assert metrics.interrupted == 1
    assert metrics.grounding_eligible == 0
    assert metrics.iterations_count == whole.iterations_count == 1
    assert metrics.action_tool_distribution == whole.action_tool_distribution
    assert metrics.thought_to_action_ratio == 1.0
    assert metrics.exception_rate == 0.0


def test_nothing_to_measure_is_null_not_zero():
    metrics = measure(Story().records)
    assert metrics.grounding_score is None
    assert metrics.observation_success_rate is None
    assert metrics.thought_to_action_ratio is None
    assert measure(Story().step().records).grounding_score is None
    assert measure([]).iterations_count == 0


@pytest.mark.scenario("TAG-30")
def test_usage_is_summed_per_model_with_its_cost():
    story = Story().reply(model="a", input_tokens=10, output_tokens=2, usd=0.1).step()
    story.reply(model="b", input_tokens=5, usd=0.2).reply(model="a", input_tokens=1, usd=0.1)
    told = measure(story.records).as_dict()
    assert told["usage_by_model"]["a"] == {
        "input_tokens": 11, "output_tokens": 2, "cached_tokens": 0, "usd": 0.2,
        "written_tokens": 0, "reasoning_tokens": 0,
    }  # fmt: skip
    assert told["usage"]["usd"] == 0.4
    assert told["model_calls"] == 3
    assert told["model_ms"] == 21.0


def test_refused_calls_and_exceptions_are_counted():
    story = Story().step(status="failure", refused="denied").step(Thought("so", "exception"), n=1)
    metrics = measure(story.records)
    assert metrics.refused_calls == 1
    assert metrics.calls == 1
    assert metrics.exception_rate == 50.0


def test_waiting_for_a_person_is_no_activity():
    story = Story().put(e.Parked(reason="awaiting_approval")).put(e.Resumed(epoch=2)).step()
    metrics = measure(story.records)
    assert metrics.wall_ms == 5000
    assert metrics.active_ms == 4000


def test_a_thought_without_an_action_shows_in_the_ratio():
    story = Story().step()
    story.think("hm")
    assert measure(story.step(n=1).records).thought_to_action_ratio == 1.5


def test_the_dictionary_has_the_seeds_names_and_every_figure():
    told = measure(Story().step().records).as_dict()
    assert told.keys() >= SIX
    assert told["interrupted"] == 0
    assert told["grounding_score"] is None


def test_ten_times_the_steps_take_ten_times_the_work():
    """Counted in calls of functions: a machine under load has no clock to go by."""

    def log(count: int):
        story = Story()
        for number in range(count):
            story.step(
                Thought(f"item_{number - 1} was there", because=(number,)),
                result=f"item_{number} in src/module_{number % 7}.py line {number}\n" * 3,
                path=f"src/module_{number}.py",
            )
        return story.records

    def calls(count: int) -> int:
        records, made = log(count), 0

        def counted(*_: object) -> None:
            nonlocal made
            made += 1

        sys.setprofile(counted)
        try:
            metrics = measure(records)
        finally:
            sys.setprofile(None)
        assert metrics.grounding_score == 100.0
        return made

    assert calls(2_000) < 12 * calls(200)
