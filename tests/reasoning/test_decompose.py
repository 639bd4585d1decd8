"""Decomposition, driven by `send()`: depth, order, failures, synthesis."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from taofold.core.effects import Act, Answer, Ask, Fork, Outlook
from taofold.core.errors import ConfigError
from taofold.core.values import Message
from taofold.reasoning import Cot, Decompose, Direct, Output, SelfCorrect, Task
from taofold.reasoning.dependencies import Tangle, waves

from .kit import Play, play


def part(id_: str, *needs: str, **more: Any) -> dict[str, Any]:
    return {"id": id_, "description": f"do {id_}", "dependencies": list(needs), **more}


def parts(*some: Any) -> dict[str, Any]:
    return {"reasoning": "it falls apart", "sub_problems": list(some)}


def asked_part(ask: Ask) -> str:
    """The description of the part that an ask is about, "" for the whole."""
    found = re.findall(r"Solve only this part:\ndo (\w+)", ask.conversation[1].content)
    return found[-1] if found else ""


def world(
    splits: Mapping[str, Any], answers: Mapping[str, Any] | None = None, final: Any = "whole"
) -> Any:
    """A model: `splits` by part ("" the whole), answers by part."""

    def model(ask: Ask) -> Any:
        about = asked_part(ask)
        if ask.role == "planner":
            return splits.get(about, parts())
        if ask.role == "finalizer":
            return {"thinking": "together", "answer": final if not about else f"sum {about}"}
        said = (answers or {}).get(about, f"answer {about}")
        return said if isinstance(said, str) and said == "?" else {"thinking": "t", "answer": said}

    return model


def solve(model: Any, task: Task | None = None, **options: Any) -> Play:
    outlooks = options.pop("outlooks", ())
    halt = options.pop("halt", 0)
    task = task or Task(goal="the whole")
    return play(Decompose(**options)(task), model, outlooks=outlooks, halt=halt)


def levels(done: Play) -> list[tuple[str, int]]:
    return [
        (a.parameters["path"], a.parameters["level"])
        for one in done.acts("decompose")
        for a in one.actions
        if one.local[0] is not None and one.local[0].result
    ]


NESTED = {"": parts(part("a"), part("b")), "a": parts(part("x"), part("y")), "x": parts(part("z"))}


@pytest.mark.scenario("TEA-22")
@pytest.mark.parametrize(
    ("depth", "split", "planned", "solved"),
    [
        (0, [], 0, ["finish"]),
        (1, [("", 1)], 1, ["solve", "solve"]),
        (2, [("", 1), ("a", 2)], 3, ["solve", "solve", "solve", "solve"]),
        (3, [("", 1), ("a", 2), ("a/x", 3)], 5, ["solve"] * 5),
    ],
)
def test_it_recurses_to_max_depth_and_no_further(
    depth: int, split: list[Any], planned: int, solved: list[str]
) -> None:
    done = solve(world(NESTED), max_depth=depth)
    assert levels(done) == split
    assert done.roles.count("planner") == planned
    assert done.steps.count("solve") == solved.count("solve")
    assert done.steps[-1] == "finish"
    assert done.answer.stop == "final_answer"


@pytest.mark.scenario("TEA-22")
def test_a_part_that_is_said_to_be_simple_is_not_asked_about_again() -> None:
    simple = {"": parts(part("a", complex=False), part("b", complex=True))}
    assert solve(world(simple)).roles.count("planner") == 2


@pytest.mark.scenario("TEA-22")
def test_a_problem_without_parts_is_solved_directly() -> None:
    done = solve(world({}))
    assert done.steps == ["decompose", "finish"]
    assert done.roles == ["planner", "executor"]
    assert done.answer == Answer("answer ")


@pytest.mark.scenario("TEA-23")
@pytest.mark.parametrize("listed", [("c", "b", "a"), ("a", "b", "c"), ("b", "c", "a")])
def test_parts_are_solved_in_the_order_of_their_dependencies(listed: tuple[str, ...]) -> None:
    every = {"a": part("a"), "b": part("b", "a"), "c": part("c", "a", "b")}
    done = solve(world({"": parts(*[every[id_] for id_ in listed])}), max_depth=1)
    order = [one.actions[0].parameters["id"] for one in done.acts("solve")]
    assert order == ["a", "b", "c"]
    prompts = [text for role, text in _prompts(done) if role == "executor"]
    assert ["- a: answer a" in text for text in prompts] == [False, True, True]
    assert ["- b: answer b" in text for text in prompts] == [False, False, True]
    final = done.prompt(-1)
    places = [final.index(f"[{id_}] do {id_}\nanswer {id_}") for id_ in listed]
    assert places == sorted(places)


def _prompts(done: Play) -> list[tuple[str, str]]:
    return [(role, done.prompt(n)) for n, role in enumerate(done.roles)]


@pytest.mark.scenario("TEA-23")
@pytest.mark.parametrize(
    ("wrong", "kind", "said"),
    [
        (parts(part("a", "b"), part("b", "a")), "cycle", "a' depends"),
        (parts(part("a", "a")), "cycle", ""),
        (parts(part("a", "nobody")), "unknown_dependency", "'nobody'"),
        (parts(part("a"), part("a")), "duplicate_id", "'a'"),
        (parts(*[part(f"p{n}") for n in range(9)]), "too_many_parts", "at most 8"),
    ],
)
def test_parts_that_cannot_be_ordered_are_corrected_first_and_then_a_typed_error(
    wrong: Any, kind: str, said: str
) -> None:
    again = iter([wrong, parts(part("a"), part("b", "a"))])
    mended = play(
        Decompose(max_depth=1)(Task(goal="g")),
        lambda ask: next(again) if ask.role == "planner" else world({})(ask),
    )
    assert mended.answer == Answer("whole")
    assert mended.notes("violation")[0]["detail"].startswith(kind)
    never = solve(world({"": wrong}))
    assert never.answer.output is None
    assert never.answer.stop == "error"
    assert never.answer.error.startswith(f"{kind}: ")
    assert never.notes("unread")[0]["reason"] == kind
    assert "solve" not in never.steps


def test_waves_name_the_circle() -> None:
    with pytest.raises(Tangle, match=r"a → b → c → a"):
        waves([("d", "a"), ("a", "b"), ("b", "c"), ("c", "a")])
    assert waves([("b", "a"), ("c", ""), ("a", "")]) == [["c", "a"], ["b"]]
    assert waves([("b", ["old"])], ["old"]) == [["b"]]


@pytest.mark.scenario("TEA-24")
def test_independent_parts_are_forked_together_unless_parallel_is_off() -> None:
    three = {"": parts(part("a"), part("b"), part("c"))}
    together = solve(world(three), max_depth=1)
    forks = [len(one.branches) for one in together.effects if isinstance(one, Fork)]
    assert forks == [3]
    apart = solve(world(three), max_depth=1, parallel=False)
    assert [len(one.branches) for one in apart.effects if isinstance(one, Fork)] == [1, 1, 1]


@pytest.mark.scenario("TEA-25")
def test_a_failed_part_is_marked_and_dependants_and_the_synthesis_are_told() -> None:
    split = {"": parts(part("a"), part("b", "a"), part("c"))}
    strict = Task(goal="the whole", strict=True)
    done = solve(world(split, {"a": ""}), strict, max_depth=1)
    failed = [
        one for one in done.acts("solve") if one.local[0] and one.local[0].status == "failure"
    ]
    assert [one.actions[0].parameters["id"] for one in failed] == ["a"]
    told = [text for role, text in _prompts(done) if "do b" in text and role == "executor"]
    assert "- a: (could not be solved: " in told[0]
    assert "These parts could not be solved" in done.prompt(-1)
    assert "- a: " in done.prompt(-1)
    assert "answer b" in done.prompt(-1)
    assert done.acts("synthesize")[0].actions[0].parameters["failed"] == ["a"]
    assert done.answer == Answer("whole")


@pytest.mark.scenario("TEA-25")
def test_if_every_part_fails_there_is_nothing_to_synthesize() -> None:
    done = solve(world({"": parts(part("a"), part("b"))}, {"a": "", "b": ""}), max_depth=1)
    assert done.answer.stop == "error"
    assert done.answer.error.startswith("no part could be solved: a: ")
    assert "finalizer" not in done.roles


@pytest.mark.scenario("TEA-20")
def test_the_synthesis_prompt_is_text_or_is_made_from_the_sub_answers() -> None:
    split = {"": parts(part("a"), part("b"))}
    text = solve(world(split), max_depth=1, synthesis_prompt="Make a poem.")
    assert "Make a poem." in text.prompt(-1)
    assert "answer b" in text.prompt(-1)
    seen: list[Any] = []

    def made(answers: list[dict[str, Any]]) -> str:
        seen.extend(answers)
        return f"Combine {len(answers)} things"

    done = solve(world(split, {"b": ""}), max_depth=1, synthesis_prompt=made)
    assert "Combine 2 things" in done.prompt(-1)
    assert "- b: " in done.prompt(-1)
    assert seen[0] == {"id": "a", "description": "do a", "answer": "answer a"}
    assert seen[1]["answer"] is None
    assert "error" in seen[1]


def test_the_answer_has_the_type_of_the_task_and_parts_are_text() -> None:
    split = {"": parts(part("a"), part("b"))}
    task = Task(goal="the whole", output=Output(dict[str, int]))
    done = solve(world(split, {"a": 5}, {"sum": 7}), task)
    assert done.answer == Answer({"sum": 7})
    assert done.acts("solve")[0].local[0].result == "5"
    bad = solve(world(split, final="?"), task)
    assert bad.answer.stop == "error"


def test_parts_may_be_solved_by_any_strategy() -> None:
    split = {"": parts(part("a"))}
    model = world(split)
    plain = solve(lambda ask: "plain" if ask.role == "executor" else model(ask), inner=Direct())
    assert plain.acts("solve")[0].local[0].result == "plain"
    inner = SelfCorrect(inner=Cot(), rounds=0)
    assert solve(world(split), inner=inner, max_depth=1).steps[-4:] == [
        "draft", "solve", "synthesize", "finish",
    ]  # fmt: skip


def test_limits_end_it_with_what_is_known() -> None:
    split = {"": parts(part("a"), part("b", "a"))}
    begun = Outlook()
    stop = solve(world(split), max_depth=1, outlooks=[Outlook(stop="max_steps")])
    assert stop.answer == Answer(None, "max_steps")
    last = solve(world(split), max_depth=1, outlooks=[Outlook(wrap_up="max_steps")])
    assert last.roles == ["executor"]
    some = solve(
        world(split),
        max_depth=1,
        outlooks=[begun, begun, Outlook(stop="max_usd"), Outlook(stop="max_usd")],
    )
    assert some.answer == Answer("- a: answer a", "max_usd")
    typed = Task(goal="g", output=Output(int))
    none = solve(
        world(split), typed, max_depth=1, outlooks=[begun, begun, *[Outlook(stop="max_usd")] * 2]
    )
    assert none.answer == Answer(None, "max_usd")
    halted = solve(world(split), max_depth=1, halt=4)
    assert halted.answer == Answer("- a: answer a\n- b: answer b", "timeout")
    inside = solve(world(split), max_depth=1, halt=2)
    assert inside.answer == Answer("whole", "timeout")
    assert "stopped: timeout" in inside.prompt(-1)


def test_what_people_say_while_a_part_is_solved_reaches_the_synthesis() -> None:
    heard = Outlook(heard=(Message("user", "[message from ann] in French"),))
    split = {"": parts(part("a"), part("b", "a"))}
    done = solve(world(split), max_depth=1, outlooks=[Outlook(), heard])
    assert ["in French" in text for _, text in _prompts(done)] == [False, True, True, True]


@pytest.mark.parametrize("wrong", [{"max_depth": -1}, {"max_parts": 0}])
def test_impossible_options_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Decompose(**wrong)


def test_the_steps_are_whole_triplets() -> None:
    for one in solve(world(NESTED), max_depth=3).effects:
        if isinstance(one, Act):
            assert len(one.local) == len(one.actions) == 1
            assert one.thought.content
