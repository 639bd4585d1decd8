import msgspec
import pytest

from taofold.core import events as e
from taofold.core.checklist import check
from taofold.core.values import FINISH, Action, Observation, Thought
from tests.core.story import Story

NAMES = [
    "complete_triplets", "typed_thoughts", "actions_with_tool_and_parameters",
    "observations_with_status_and_result", "thoughts_reference_observations",
    "metrics_captured", "error_protocol_followed",
]  # fmt: skip


def failed(story: Story) -> dict[str, tuple[int, ...]]:
    return {item.name: item.steps for item in check(story.records) if not item.passed}


def clean() -> Story:
    story = Story().step(Thought("find the cause in it", "goal"), result="see alpha_1")
    return story.step("alpha_1 it is", n=1, result="beta_2")


@pytest.mark.scenario("TAO-16", "TAO-19")
def test_a_clean_run_that_ends_with_finish_passes_all_seven_points():
    story = clean()
    key = story.think(Thought("beta_2 says it", "synthesis"), Action(FINISH, {"answer": 4}))
    story.see(key, Observation(4, extraction="4")).finish(4)
    assert [item.name for item in check(story.records)] == NAMES
    assert failed(story) == {}


@pytest.mark.scenario("TAO-16", "TAO-15")
def test_an_interrupted_turn_fails_the_first_point_with_its_number():
    story = clean()
    story.start(story.think("beta_2", Action("look", {}, "w")))
    assert failed(story) == {"complete_triplets": (3,)}


@pytest.mark.scenario("TAO-16")
def test_each_fault_fails_its_own_point():
    assert failed(clean().step("beta_2", n=2, rationale="")) == {NAMES[2]: (3,)}
    assert failed(clean().step("beta_2", n=2, tool=" ")) == {NAMES[2]: (3,)}
    assert failed(clean().step("beta_2", n=2, result="")) == {NAMES[3]: (3,)}
    assert failed(clean().step("open the gate", n=2)) == {NAMES[4]: (3,)}
    assert failed(clean().step(Thought("beta_2", "research"), n=2)) == {NAMES[1]: (3,)}
    wrong = clean().step("retry beta_2", n=2, status="failure").step("beta_2", n=3)
    assert failed(wrong) == {NAMES[6]: (4,)}
    assert failed(Story()) == {NAMES[5]: ()}


def test_the_detail_says_what_is_wrong_where():
    (item,) = [item for item in check(clean().step("beta guess", n=2).records) if not item.passed]
    assert item.detail.startswith("step 3: ")


def test_time_that_runs_backwards_fails_the_metrics():
    story = clean()
    last = story.records[-1]
    story.records[-1] = e.Record(last.run, last.seq, 1, last.event)
    assert failed(story) == {NAMES[5]: (2,)}


def test_a_corrected_reply_is_no_fault_but_a_coerced_thought_is():
    story = clean()
    unknown = "unknown 'hm'"
    story.put(e.Violated(key="98", rule="thought_type", detail=unknown, refused=True))
    story.put(e.Violated(key="99", rule="R2", detail="no action", refused=True))
    story.step("beta_2", n=2)
    assert failed(story) == {}
    coerced = clean()
    coerced.put(e.Violated(key="98", rule="thought_type", detail="unknown 'hm'"))
    coerced.step(Thought("beta_2", inferred=True), n=2)
    assert failed(coerced) == {NAMES[1]: (3,)}


def test_a_lenient_run_does_not_demand_what_only_a_strict_run_asks_for():
    def demanded(story: Story, strict: bool) -> dict[str, bool]:
        first = story.records[0]
        start = msgspec.structs.replace(first.event, settings={"strict": strict})
        story.records[0] = msgspec.structs.replace(first, event=start)
        return {item.name: item.demanded for item in check(story.records) if not item.passed}

    def faulty() -> Story:
        story = clean()
        story.put(e.Violated(key="98", rule="R1", detail="no thought"))
        return story.step("open the gate", n=2, rationale="")

    points = [NAMES[0], NAMES[2], NAMES[4]]
    assert demanded(faulty(), strict=False) == dict.fromkeys(points, False)
    assert demanded(faulty(), strict=True) == dict.fromkeys(points, True)
    # Lenient runs must also satisfy the requirements of every run.
    empty = clean().step("beta_2", n=2, result="")
    assert demanded(empty, strict=False) == {NAMES[3]: True}
    cut = faulty()
    cut.start(cut.think("beta_2", Action("look", {}, "w")))
    assert demanded(cut, strict=False)[NAMES[0]]


def test_falsy_results_are_results():
    for result in (0, False, [], {}):
        assert failed(clean().step("beta_2", n=2, result=result)) == {}
