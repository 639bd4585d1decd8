import pytest
from hypothesis import given
from hypothesis import strategies as st

from taofold.core import events as e
from taofold.core.rules import (
    check_thought,
    detect_action_loop,
    detect_alternation,
    fingerprint,
    recorded_violations,
)
from taofold.core.values import THOUGHT_TYPES, Action, Observation, Profile, Thought
from tests.core.judging import violations
from tests.core.story import Story


def rules(story: Story) -> list[tuple[str, tuple[int, ...]]]:
    return [(v.rule, v.steps) for v in violations(story.records) if v.rule != "R4"]


@pytest.mark.scenario("TAO-04", "TAO-05")
def test_six_types_are_known_and_research_only_where_it_was_opted_in():
    for name in THOUGHT_TYPES - {"research"}:
        assert check_thought(name, research=False) == (name, "")
    assert check_thought("research", research=True) == ("research", "")
    kind, problem = check_thought("research", research=False)
    assert kind is None
    assert "not enabled" in problem


@pytest.mark.scenario("TAO-04")
@pytest.mark.parametrize(
    ("text", "word"), [(None, "no type"), ("", "no type"), ("musing", "'musing'")]
)
def test_a_missing_or_unknown_type_is_explained(text, word):
    kind, problem = check_thought(text, research=True)
    assert kind is None
    assert word in problem
    assert "goal" in problem


def test_case_and_blanks_around_a_type_do_not_matter():
    assert check_thought(" Reasoning\n", research=False) == ("reasoning", "")


@pytest.mark.scenario("TAO-01")
def test_a_clean_run_breaks_no_rule():
    story = (
        Story().step(Thought("find the door", "goal"), result="see alpha_1").step("alpha_1 it is")
    )
    assert violations(story.finish().records) == ()


@pytest.mark.scenario("TAO-02")
def test_an_action_without_a_thought_is_r1():
    assert rules(Story().step("  ")) == [("R1", (1,))]


@pytest.mark.scenario("TAO-02")
def test_a_rejected_reply_on_record_is_told_with_the_step_that_was_being_taken():
    story = Story().step()
    story.put(e.Violated(key="1", rule="R1", detail="rejected"))
    assert rules(story)[0] == ("R1", (1,))
    story.put(e.Violated(key="99", rule="R2", detail="rejected")).step()
    assert ("R2", (2,)) in rules(story)


@pytest.mark.scenario("TAO-03")
def test_two_thoughts_without_an_action_are_r2_with_both_numbers():
    story = Story().step()
    story.think("I should check the config")
    story.think("or maybe the logs", Action("read", {"path": "log"}, "to see"))
    story.see(story.put(e.Started(key="3")).records[-1].event.key, Observation("x"))
    assert rules(story) == [("R2", (2, 3))]


@pytest.mark.scenario("TAO-03")
def test_a_last_thought_without_an_action_is_r2():
    story = Story().step()
    story.think("I should stop")
    assert rules(story) == [("R2", (2,))]


@pytest.mark.scenario("TAO-15")
def test_an_action_without_its_observation_at_the_end_is_interrupted():
    story = Story().step()
    story.start(story.think("seek the door", Action("look", {}, "why")))
    (found,) = [v for v in violations(story.records) if v.rule == "R3"]
    assert found.steps == (2,)
    assert found.detail.startswith("interrupted: 1 of 1")


def test_a_run_that_waits_for_a_person_is_not_interrupted():
    story = Story()
    story.think("seek the door", Action("look", {}, "why"))
    assert rules(story.put(e.Parked(reason="awaiting_approval"))) == []


def test_a_batch_with_half_its_observations_is_interrupted():
    story = Story()
    key = story.think("seek the door", Action("a", {}, "w"), Action("b", {}, "w"))
    story.start(key).start(key, 1).see(key, Observation("x"), 1)
    assert rules(story) == [("R3", (1,))]


@pytest.mark.scenario("TAO-08")
@pytest.mark.parametrize("status", ["failure", "timeout"])
def test_after_a_failure_the_next_thought_must_be_an_exception(status):
    story = Story().step(status=status).step("open the gate", path="b")
    assert rules(story) == [("exception", (1, 2))]
    story = Story().step(status=status).step(Thought("wait", "exception"), path="b")
    assert rules(story) == []


def test_a_partial_result_needs_no_exception():
    assert rules(Story().step(status="partial").step(path="b")) == []


@pytest.mark.scenario("TAO-09")
def test_the_failed_action_repeated_unchanged_is_found():
    story = Story().step(status="failure", path="a", n=1)
    story.step(Thought("try a second mirror", "exception"), n=1, path="a")
    assert rules(story) == [("repeat_same_action_unchanged", (1, 2))]


@pytest.mark.scenario("TAO-09")
@pytest.mark.parametrize(("seconds", "broken"), [(30, True), (10, True), (60, False)])
def test_only_a_larger_timeout_counts_as_a_change(seconds, broken):
    story = Story().step(status="timeout", cmd="make", timeout_s=30)
    story.step(Thought("try a second mirror", "exception"), cmd="make", timeout_s=seconds)
    assert bool(rules(story)) is broken


def test_a_repeat_after_success_is_not_this_rule():
    assert rules(Story().step(path="a").step(path="a")) == []


def test_failures_of_one_branch_do_not_bind_another():
    story = Story()
    story.step(key="3.0.0", status="failure").step("other branch", key="3.1.0")
    assert rules(story) == []


@pytest.mark.scenario("TAO-05")
def test_research_is_flagged_unless_opted_in():
    story = Story().step(Thought("learn the cause", "research"))
    assert rules(story) == [("thought_type", (1,))]
    opted = Story(settings={"research": True}).step(Thought("learn the cause", "research"))
    assert rules(opted) == []


@pytest.mark.scenario("TAO-05")
def test_a_state_changing_action_in_a_research_step_is_flagged():
    thought = Thought("learn the cause", "research")
    told = Story(settings={"research": True}).step(thought, tool="write", effect="once")
    assert rules(told) == [("research_changes_state", (1,))]
    unknown = Story(settings={"research": True}).step(thought, tool="write")
    assert rules(unknown) == []
    settings = Story(settings={"research": True, "effects": {"write": "once"}})
    assert rules(settings.step(thought, tool="write")) == [("research_changes_state", (1,))]


def test_a_missing_rationale_is_found_except_where_there_is_no_place_for_one():
    assert rules(Story().step(rationale=" ")) == [("missing_rationale", (1,))]
    native = Story(profile=Profile(native_tools=True)).step(rationale="")
    assert rules(native) == []
    own = Story()
    own.see(own.think("criticise", Action("critique")), Observation("fine"))
    assert rules(own) == []


def test_a_recorded_violation_names_the_step_of_its_turn():
    story = Story().step(rationale="")
    story.put(e.Violated(key="1", rule="missing_rationale", detail="look"))
    (recorded,) = recorded_violations(story.records)
    assert (recorded.rule, recorded.steps) == ("missing_rationale", (1,))


def test_what_was_rewound_breaks_nothing():
    story = Story().step().step(" ")
    story.put(e.Rewound(to=3))
    assert rules(story) == []


def test_fingerprints_ignore_order_and_the_timeout_but_nothing_else():
    a = Action("t", {"x": 1, "y": {"b": 1, "a": 2}}, "why", "id")
    b = Action("t", {"y": {"a": 2, "b": 1}, "timeout_s": 9, "x": 1})
    assert fingerprint(a) == fingerprint(b)
    assert fingerprint(a) != fingerprint(Action("t", {"x": "1", "y": {"b": 1, "a": 2}}))
    assert fingerprint(a) != fingerprint(Action("u", a.parameters))


@pytest.mark.scenario("TAG-15")
def test_the_same_call_twice_in_a_row_is_a_loop_and_other_arguments_are_not():
    first, other = (fingerprint(Action("search", {"q": q})) for q in ("a", "b"))
    assert detect_action_loop([first, first])
    assert not detect_action_loop([first, other])
    assert not detect_action_loop([first])


@given(st.lists(st.sampled_from("ab"), max_size=6), st.integers(-2, 6))
def test_the_loop_check_is_the_seeds(recent, most):
    expected = False
    if len(recent) >= 2:
        expected = recent[-1] == recent[-2]
        if not expected and len(recent) >= most:
            expected = len(set(recent[-most:])) == 1
    assert detect_action_loop(recent, most) == expected


@pytest.mark.scenario("TAG-16")
@pytest.mark.parametrize(
    ("actions", "window", "found"),
    [("abab", 4, True), ("xabab", 4, True), ("ababab", 6, True), ("abcab", 4, False),
     ("aaaa", 4, False), ("aba", 4, False), ("babbab", 6, False)],
)  # fmt: skip
def test_back_and_forth_is_found(actions, window, found):
    assert detect_alternation(actions, window) is found
