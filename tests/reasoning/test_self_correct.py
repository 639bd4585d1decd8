"""Self-correction, driven by `send()`: who drafts, who judges, which version wins."""

from typing import Any

import pytest

from taofold.core.effects import Answer, Outlook
from taofold.core.errors import ConfigError
from taofold.core.values import Message, Observation
from taofold.reasoning import Cot, Offer, Output, SelfCorrect, Task, react

from .kit import Play, play


def verdict(score: float, *issues: str) -> dict[str, Any]:
    return {"score": score, "issues": list(issues), "suggestions": [f"mend {i}" for i in issues]}


def task(type_: Any = str, **options: Any) -> Task:
    return Task(goal="write it", output=Output(type_), **options)


def model(drafts: list[Any], verdicts: list[Any]) -> Any:
    given = {"executor": iter(drafts), "critic": iter(verdicts)}
    return lambda ask: next(given[ask.role])


def correct(drafts: list[Any], verdicts: list[Any], type_: Any = str, **options: Any) -> Play:
    rounds = options.pop("rounds", 2)
    return play(SelfCorrect(rounds=rounds)(task(type_)), model(drafts, verdicts), **options)


@pytest.mark.scenario("TEA-17")
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_n_rounds_make_n_revisions_and_say_so(rounds: int) -> None:
    drafts = [f"v{n}" for n in range(rounds + 1)]
    verdicts = [verdict(n / 10, f"i{n}") for n in range(rounds + 1)]
    done = correct(drafts, verdicts, rounds=rounds)
    assert done.steps.count("draft") + done.steps.count("revise") == rounds + 1
    assert done.steps.count("critique") == (rounds + 1 if rounds else 0)
    said = done.notes("corrected")[0]
    assert said == {
        "rounds_completed": rounds,
        "best": rounds,
        "stopped": f"{rounds} rounds were allowed",
    }
    assert done.answer == Answer(f"v{rounds}")


@pytest.mark.scenario("TEA-18")
def test_the_version_with_the_best_score_is_returned_even_if_it_is_the_first() -> None:
    done = correct(["v0", "v1"], [verdict(0.9, "a"), verdict(0.4, "b")], rounds=1)
    assert done.answer == Answer("v0")
    assert "score 0.9" in done.acts("finish")[0].thought.content


@pytest.mark.scenario("TEA-18")
def test_of_two_versions_with_one_score_the_earlier_wins() -> None:
    done = correct(["v0", "v1", "v2"], [verdict(0.2, "a"), verdict(0.7, "b"), verdict(0.7, "c")])
    assert done.answer == Answer("v1")


@pytest.mark.scenario("TEA-18")
@pytest.mark.parametrize(
    ("drafts", "verdicts", "why", "rounds"),
    [
        (["v0"], [verdict(0.8)], "the critic found nothing to improve", 0),
        (["v0"], [verdict(1.0, "nitpick")], "the critic found nothing to improve", 0),
        (["v0", "v1"], [verdict(0.5, "a"), verdict(0.9)], "the critic found nothing to improve", 1),
        (["v0", "v0"], [verdict(0.5, "a")], "the revision changed nothing", 1),
    ],
)
def test_it_stops_early_when_there_is_nothing_to_improve_and_says_why(
    drafts: list[str], verdicts: list[Any], why: str, rounds: int
) -> None:
    done = correct(drafts, verdicts, rounds=5)
    assert done.notes("corrected")[0]["stopped"] == why
    assert done.notes("corrected")[0]["rounds_completed"] == rounds
    assert done.answer.stop == "final_answer"
    assert why in done.acts("finish")[0].thought.content


@pytest.mark.scenario("TEA-19")
def test_the_generator_drafts_and_revises_and_the_critic_only_judges() -> None:
    done = correct(["v0", "v1"], [verdict(0.1, "too short"), verdict(0.9, "fine")], rounds=1)
    assert done.roles == ["executor", "critic", "executor", "critic"]
    judged = [act.local[0] for act in done.acts("critique")]
    assert all(one is not None and one.auto for one in judged), "a critic's line is no extraction"
    revision = done.prompt(2)
    assert "v0" in revision
    assert "too short" in revision
    assert "mend too short" in revision
    assert "v1" in done.prompt(3)
    assert "v0" not in done.prompt(3)


@pytest.mark.scenario("TEA-17")
def test_a_critic_that_fails_is_recorded_and_its_round_does_not_count() -> None:
    done = correct(["v0"], ["?"] * 99, rounds=2)
    assert done.answer == Answer("v0")
    assert done.notes("corrected")[0]["rounds_completed"] == 0
    failed = done.acts("critique")
    assert [one.local[0].status for one in failed] == ["failure", "failure"]
    assert failed[0].thought.type == "exception"
    later = correct(["v0", "v1"], [*["?"] * 3, verdict(0.3, "a"), verdict(0.6, "b")], rounds=2)
    assert later.answer == Answer("v1")
    assert later.notes("corrected")[0]["rounds_completed"] == 1
    assert later.acts("critique")[1].thought.type == "exception"


@pytest.mark.scenario("TEA-21")
@pytest.mark.parametrize(
    ("type_", "first", "second"),
    [
        (dict[str, Any], {"a": [1]}, {"a": [2]}),
        (list[int], [1], [1, 2]),
        (float, 1.5, 2.5),
        (bool, True, False),
    ],
)
def test_outputs_that_are_no_text_are_judged_and_revised(
    type_: Any, first: Any, second: Any
) -> None:
    import json

    drafts = [json.dumps(first), json.dumps(second)]
    done = correct(drafts, [verdict(0.1, "a"), verdict(0.9, "b")], type_, rounds=1)
    assert done.answer == Answer(second)
    assert json.dumps(second, separators=(",", ":")) in done.prompt(3)


@pytest.mark.scenario("TEA-20")
def test_a_critic_prompt_is_text_or_is_made_from_the_output() -> None:
    said = model(["v0"] * 2, [verdict(0.9)] * 2)
    text = play(SelfCorrect(critic_prompt="Look for typos.")(task()), said)
    assert "Look for typos." in text.prompt(1)
    assert "v0" in text.prompt(1)
    made = play(SelfCorrect(critic_prompt=lambda output: f"Code: {output}!")(task()), said)
    assert "Code: v0!" in made.prompt(1)


def test_the_inner_strategy_may_be_react_with_its_tools_or_chain_of_thought() -> None:
    drafts = [
        {"thought": "look", "thought_type": "goal", "action": {"tool": "look", "parameters": {}}},
        {"thought": "so", "thought_type": "synthesis",
         "action": {"tool": "finish", "parameters": {"answer": "v0"}}},
    ]  # fmt: skip
    offers = (Offer("look", "Looks.", {"type": "object"}),)
    done = play(
        SelfCorrect(inner=react)(task(offers=offers)),
        model(drafts, [verdict(1)]),
        tool=lambda action: Observation("seen"),
    )
    assert done.steps == ["look", "draft", "critique", "finish"]
    assert done.answer == Answer("v0")
    thoughtful = play(
        SelfCorrect(inner=Cot())(task()), model([{"thinking": "hm", "answer": "v"}], [verdict(1)])
    )
    assert thoughtful.acts("draft")[0].thought.content == "hm"
    twice = SelfCorrect(inner=SelfCorrect(rounds=0), rounds=0)
    assert play(twice(task()), model(["v"], [])).answer == Answer("v")


def test_a_draft_that_fails_ends_it_with_the_error() -> None:
    done = correct(["?"] * 3, [], int)
    assert done.answer.stop == "error"
    assert done.steps == ["draft"]
    assert done.acts("draft")[0].local[0].status == "failure"


def test_a_revision_that_fails_keeps_the_best_and_does_not_count() -> None:
    done = correct(["1", "?", "?", "?", "2"], [verdict(0.3, "a"), verdict(0.6, "b")], int)
    assert done.answer == Answer(2)
    assert done.notes("corrected")[0]["rounds_completed"] == 1


def test_a_limit_ends_it_with_the_best_version_so_far() -> None:
    begun = Outlook()
    last = Outlook(wrap_up="max_steps")
    good = correct(["v0"], [verdict(1.0)], outlooks=[begun, last])
    assert good.answer == Answer("v0"), "the critic wants no further turn"
    near = correct(["v0"], [verdict(0.5, "a")], outlooks=[begun, last, Outlook(stop="max_steps")])
    assert near.answer == Answer("v0", "max_steps")
    assert near.steps == ["draft", "critique", "finish"]
    over = correct(
        ["v0", "v1"], [verdict(0.5, "a")], outlooks=[begun] * 3 + [Outlook(stop="max_usd")]
    )
    assert over.answer == Answer("v0", "max_usd")
    halted = correct(["v0"], [], halt=2)
    assert halted.answer == Answer("v0", "timeout")
    assert halted.steps == ["draft"]
    first = correct([], [], halt=1)
    assert first.answer == Answer(None, "timeout")
    revising = correct(["v0"], [verdict(0.5, "a")], halt=3)
    assert revising.answer == Answer("v0", "timeout")
    assert revising.steps[-1] == "finish"


def test_what_people_say_reaches_the_next_version_and_the_critic() -> None:
    heard = Outlook(heard=(Message("user", "[message from ann] shorter!"),))
    done = correct(["v0", "v1"], [verdict(0.5, "a"), verdict(0.6, "b")], rounds=1, outlooks=[heard])
    assert ["shorter!" in done.prompt(n) for n in range(4)] == [True] * 4


def test_prompts_do_not_grow_with_the_rounds() -> None:
    drafts = [f"v{n:03}" for n in range(21)]
    done = correct(drafts, [verdict(0.5, f"i{n:03}") for n in range(21)], rounds=20)
    lengths = [len(done.prompt(n)) for n, role in enumerate(done.roles) if role == "critic"]
    assert len(set(lengths)) == 1
    assert len({len(done.prompt(n)) for n in range(2, 40, 2)}) == 1


def test_negative_rounds_are_refused() -> None:
    with pytest.raises(ConfigError, match="rounds"):
        SelfCorrect(rounds=-1)
