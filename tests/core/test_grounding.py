import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taofold.core import events as e
from taofold.core.grounding import Evidence, ground_turns, tokens
from taofold.core.trace import turns
from taofold.core.values import Action, Message, Observation, Step, Thought
from tests.core.judging import ground
from tests.core.story import Story


def step(number: int, thought: str, result="", because=(), **parameters) -> Step:
    return Step(
        number,
        Thought(thought, because=because),
        (Action("t", parameters, "why"),),
        (Observation(result),),
    )


def judged(*steps: Step, goal="the goal", instructions=""):
    return ground(steps, goal=goal, instructions=instructions)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the TTL is 60 seconds", {"ttl"}),
        ("3 errors, v 3.14, 7", set()),
        ("see src/auth/config.ts:42", {"src/auth/config.ts", "config.ts"}),
        ("./a_b/c.py", {"a_b/c.py", "a_b", "c.py"}),
        ("t.py::TestX::test_y", {"t.py::testx::test_y", "t.py", "testx", "test_y"}),
        ("it said \"token expired\" and 'bad luck'", {"token expired", "bad luck"}),
        ("don't say it's so", set()),
        ("e.g. this, i.e. n/a", set()),
        ("camelCase but not Capital", {"camelcase"}),
        ("x86_64 and utf8", {"x86_64", "utf8"}),
        ("std::vector", {"std::vector"}),
        ("plain words only, well-known", set()),
        ("", set()),
    ],
)
def test_concrete_tokens(text, found):
    assert tokens(text) == found


@pytest.mark.parametrize(
    ("observed", "thought", "grounded"),
    [
        ("timeout: 30s", "The timeout of 30 seconds is too short.", True),
        ("timeout: 30s", "The timeout of 30 minutes is too long.", False),
        ("the memory has 512 MiB", "The memory of 512 MB is too small.", True),
        ("the memory has 512 MiB", "The memory of 512 GB is plenty.", False),
        ("took 30 s of 30 min", "The 30 minutes were enough, it took 30 s.", True),
        ("timeout: 30s", "I should raise the timeout of 30 s to 30 minutes.", True),
    ],
)
def test_a_number_with_another_unit_than_observed_grounds_nothing(observed, thought, grounded):
    assert judged(step(1, "x", observed), step(2, thought))[1].grounded is grounded


@pytest.mark.parametrize("text", ["a.", "'a", '"', "1.", "_", "Ab3/", "\"'`\u201c", " 'a", "::"])
def test_hostile_text_takes_linear_time(text):
    began = time.process_time()
    tokens(text * 250_000)
    assert time.process_time() - began < 2


@given(st.text())
def test_any_text_has_tokens_of_bounded_length(text):
    assert all(1 < len(token) <= 200 for token in tokens(text))


@pytest.mark.scenario("TAO-12")
def test_a_thought_that_uses_what_was_observed_is_grounded_with_evidence():
    first, second = judged(
        step(1, "read it", "TOKEN_TTL = 60"), step(2, "the TOKEN_TTL of 60 is too short")
    )
    assert not first.eligible
    assert second.grounded
    found = {one.token for one in second.evidence}
    assert found >= {"60", "60 ttl", "token_ttl"}
    assert {one.step for one in second.evidence} == {1}


@pytest.mark.scenario("TAO-12")
def test_a_vague_thought_is_ungrounded():
    (_, second) = judged(step(1, "read it", "TTL = 60"), step(2, "set it to a larger value"))
    assert second.eligible
    assert not second.grounded


@pytest.mark.scenario("TAO-12")
@pytest.mark.parametrize("kind", ["goal", "instructions", "thought", "parameters", "rationale"])
def test_a_token_that_was_said_before_it_was_observed_is_an_echo(kind):
    said = {kind: "about module_x"}
    first = Step(
        1,
        Thought(said.get("thought", "read it")),
        (Action("t", {"p": [said.get("parameters", "")]}, said.get("rationale", "")),),
        (Observation("module_x is here"),),
    )
    (_, second) = judged(
        first,
        step(2, "so module_x it is"),
        goal=said.get("goal", "g"),
        instructions=said.get("instructions", ""),
    )
    assert not second.grounded


def test_what_was_learnt_stays_learnt_when_the_model_repeats_it():
    steps = judged(
        step(1, "read", "found alpha_7"),
        step(2, "alpha_7 is odd", "nothing", name="alpha_7"),
        step(3, "still alpha_7"),
    )
    assert [one.grounded for one in steps] == [False, True, True]
    assert Evidence("alpha_7", 1) in steps[2].evidence


def test_the_observation_of_the_same_step_does_not_ground_it():
    (_, second) = judged(step(1, "a", "b"), step(2, "I expect beta_9", "beta_9 it is"))
    assert not second.grounded


@pytest.mark.scenario("TAO-12")
def test_because_narrows_the_search_and_alone_only_cites():
    first, second = step(1, "a", "alpha_1"), step(2, "b", "beta_2")
    narrow = judged(first, second, step(3, "about alpha_1", because=(2,)))[2]
    assert (narrow.grounded, narrow.cited) == (False, True)
    right = judged(first, second, step(3, "about alpha_1", because=(2, 1)))[2]
    assert (right.grounded, right.cited) == (True, True)
    assert Evidence("alpha_1", 1) in right.evidence
    assert {one.step for one in right.evidence} == {1}
    vague = judged(first, second, step(3, "as seen", because=(1,)))[2]
    assert (vague.grounded, vague.cited) == (False, True)
    future = judged(first, second, step(3, "alpha_1", because=(3, 7, -1)))[2]
    assert (future.grounded, future.cited) == (False, False)


def test_structured_results_are_read_key_by_key():
    (_, second) = judged(
        step(1, "a", {"exit_code": 17, "deep": [{"path": "src/x.py\nnext"}]}),
        step(2, "x.py ended with 17"),
    )
    assert {one.token for one in second.evidence} >= {"17", "x.py"}


def test_rejected_replies_and_peoples_words_count_as_said():
    for said in (
        e.Replied(key="8", prompt="p", content="OBSERVATION: delta_4"),
        e.Steered(key="8", id="s", text="look at delta_4", by="ann"),
    ):
        story = Story().put(said).step(result="delta_4 is there").step("so delta_4 it is")
        assert not ground_turns(turns(story.records), story.records)[1].grounded


def test_the_history_of_a_session_counts_as_said_but_not_its_tool_results():
    def second(role) -> bool:
        story = Story(history=(Message(role, "see delta_4"),))
        story.step(result="delta_4 is there").step("so delta_4 it is")
        return ground_turns(turns(story.records), story.records)[1].grounded

    assert not second("assistant")
    assert second("tool")


def test_the_instructions_of_a_run_count_as_said():
    story = Story(settings={"instructions": "look at delta_4"})
    story.step(result="delta_4 is there").step("so delta_4 it is")
    assert not ground_turns(turns(story.records), story.records)[1].grounded


def test_reference_data_in_a_goal_is_nobodys_own_word_and_nothing_observed_either():
    goal = "mend it\n| FAILED tests/test_a.py::test_x\nsee delta_4"

    def grounded(thought: str, result: str, **settings) -> bool:
        story = Story(goal=goal, settings=settings).step(result=result).step(thought)
        return ground_turns(turns(story.records), story.records)[1].grounded

    said = "so tests/test_a.py::test_x it is"
    assert grounded(said, "FAILED tests/test_a.py::test_x", reference="|")
    assert not grounded(said, "nothing", reference="|"), "told before the run, not observed in it"
    assert not grounded(said, "FAILED tests/test_a.py::test_x"), "said by nobody"
    assert not grounded("so delta_4 it is", "delta_4", reference="|"), "the person's own word"


def test_a_branch_is_not_grounded_by_what_was_observed_after_it_thought():
    story = Story()
    story.think("left", Action("l", {}, "w"), key="1.0.0")
    story.think("gamma_3 on the right", Action("r", {}, "w"), key="1.1.0")
    story.start("1.0.0").start("1.1.0")
    story.see("1.0.0", Observation("gamma_3")).see("1.1.0", Observation("x"))
    right = ground_turns(turns(story.records), story.records)[1]
    assert not right.grounded
    assert not right.eligible


def test_both_ways_of_grounding_agree_on_a_plain_run():
    story = Story(goal="fix app.py")
    for number in range(6):
        story.step(f"look at v_{number - 1} and app.py", result=f"app.py v_{number}", n=number)
    told = turns(story.records)
    assert ground([turn.step() for turn in told], goal="fix app.py") == ground_turns(
        told, story.records
    )
    assert sum(one.grounded for one in ground_turns(told, story.records)) == 5


@pytest.mark.parametrize("form", ["a_{}"])
def test_a_token_has_at_most_two_hundred_characters(form: str) -> None:
    longest = form.format("1" * (200 - len(form.format(""))))
    assert tokens(f"see {longest} there") >= {longest}
    assert longest + "1" not in tokens(f"see {longest}1 there")


def test_a_quotation_has_at_least_two_characters() -> None:
    assert tokens('"a " and "ab"') == {"ab"}


# Observation, thought, and whether the thought rests on it.
CASES = [
    ("3 tests failed", "All 3 failing tests need the new fixture", True),
    ("the save button is missing", "The save button is missing, so I add it", True),
    ("fatal: repository corrupted", "Fatal: the repository is corrupted", True),
    ("Permission denied (publickey).", "Permission was denied because of the publickey", True),
    ("TTL = 60 seconds", "Based on the TTL of 60 seconds, increase it to 3600", True),
    ("TTL = 60 seconds", "I'll update the TTL to some larger value", False),
    ("TOKEN_TTL = 60", "TOKEN_TTL is 900", False),
    ("TOKEN_TTL = 60", "TOKEN_TTL is 60, which is short", True),
    ("3 failed, 9 passed", "All tests passed", False),
    ("5 tests failed", "All tests passed", False),
    ("12 tests passed, 0 failed", "All 12 tests passed", True),
    ("100 files", "That is 100 percent coverage", False),
    ("1,204 orders are open", "There are 1204 open orders", True),
    ("seven workers hang", "All 7 workers hang", True),
    ("disk usage of /var: 97%", "The disk with /var is used to 97 percent", True),
    ('"private": false, "name": "acme-cli"', "acme-cli is a private package", False),
    ("File src/auth/config.ts, line 4", "config.ts sets it in line 4", True),
    ("Загружено 15 файлов", "15 файлов загружены", True),
    ("金额包含字母", "金额里包含字母", True),
    ("Der Anschluss in Fulda fehlt", "Wegen Fulda fehlt der Anschluss", True),
    ("permission denied", "Looking at it again", False),
]


@pytest.mark.parametrize(("observation", "thought", "grounded"), CASES)
def test_words_numbers_and_contradictions_decide(observation, thought, grounded) -> None:
    (_, second) = judged(step(1, "go", observation), step(2, thought))
    assert second.grounded is grounded, second


def test_the_newest_step_that_names_a_state_counts() -> None:
    steps = judged(
        step(1, "go", "3 tests failed"),
        step(2, "mend", "all 12 tests passed in parser.py"),
        step(3, "all 12 tests in parser.py passed"),
    )
    assert steps[2].grounded


def test_a_contradiction_names_both_values() -> None:
    (_, second) = judged(step(1, "go", "TOKEN_TTL = 60"), step(2, "TOKEN_TTL is 900"))
    assert "observed with 60, not with 900" in second.problem


def test_a_single_digit_counts_with_its_noun() -> None:
    assert judged(step(1, "go", "3 workers"), step(2, "3 workers"))[1].grounded
    assert not judged(step(1, "go", "3 workers"), step(2, "so 3 it is"))[1].grounded
