"""Chain of thought, driven by `send()`: formats, examples, every way a reply may look."""

from typing import Any

import pytest
from pydantic import BaseModel

from taofold.core.effects import Answer, Outlook
from taofold.core.errors import ConfigError
from taofold.core.values import Reply
from taofold.reasoning import FORMATS, Cot, Direct, Example, Output, Task

from .kit import play


class Point(BaseModel):
    x: int
    label: str


def task(type_: Any = str, **options: Any) -> Task:
    return Task(goal="the problem", output=Output(type_), **options)


@pytest.mark.scenario("TEA-01")
@pytest.mark.parametrize("format", FORMATS)
def test_each_format_puts_its_instruction_into_the_prompt(format: str) -> None:
    done = play(Cot(format=format)(task()), [{"thinking": "t", "answer": "a"}])
    others = [text for name, text in FORMATS.items() if name != format]
    assert FORMATS[format] in done.prompt(0)
    assert not [text for text in others if text in done.prompt(0)]
    assert done.answer == Answer("a")


@pytest.mark.scenario("TEA-01")
def test_an_unknown_format_is_refused_at_once_and_the_allowed_ones_are_named() -> None:
    with pytest.raises(ConfigError) as refused:
        Cot(format="sideways")
    assert "'sideways'" in str(refused.value)
    assert all(name in str(refused.value) for name in FORMATS)


@pytest.mark.scenario("TEA-02")
def test_every_example_shows_problem_thinking_and_answer_in_order() -> None:
    examples = [
        Example(problem="15% of 80?", thinking="0.15 × 80", answer="12"),
        {"problem": "colours?", "thinking": "look", "answer": ["red", {"deep": 1}]},
    ]
    prompt = play(Cot(examples=examples)(task()), ["x"]).prompt(0)
    parts = ["15% of 80?", "0.15 × 80", '"answer":"12"', "colours?", "look", '["red",{"deep":1}]']
    places = [prompt.index(part) for part in parts]
    assert places == sorted(places)


@pytest.mark.scenario("TEA-02")
def test_an_example_without_its_parts_is_refused_with_its_place() -> None:
    with pytest.raises(ConfigError, match=r"examples\.1"):
        Cot(examples=[Example(problem="p", thinking="t", answer=1), {"problem": "p"}])


READ: list[tuple[str, Any, str, Any, list[str]]] = [
    ('{"thinking": "add", "answer": 4}', int, "add", 4, []),
    ('```json\n{"thinking": "add", "answer": 4}\n```', int, "add", 4, ["located"]),
    ('Well: {"thinking": "add", "answer": 4} Done.', int, "add", 4, ["located"]),
    ('{"thinking": "a", "answer": 4}\n{"thinking": "a", "answer": 4}', int, "a", 4, ["located"]),
    ("<thinking>two and two</thinking> 4", int, "two and two", 4, ["thinking_tag"]),
    ("<thinking>hm</thinking><answer>yes</answer>", str, "hm", "yes", ["elements"]),
    ('<think>hm</think>{"answer": "yes"}', str, "hm", "yes", ["located"]),
    ("First.\nThen.\nAnswer: so be it", str, "First.\nThen.", "so be it", ["answer_label"]),
    ('{"thinking": "δ ≠ ε 🙂", "answer": "naïve"}', str, "δ ≠ ε 🙂", "naïve", []),
    ('{"answer": {"a": [1, {"b": null}]}}', dict[str, Any], "", {"a": [1, {"b": None}]}, []),
    ('{"thinking": "n", "answer": {"x": 1, "label": "é"}}', Point, "n", {"x": 1, "label": "é"}, []),
    ('{"thinking": "n", "answer": [1, 2]}', list[int], "n", [1, 2], []),
    ('{"thinking": "n", "answer": ["kept as text"]}', str, "n", '["kept as text"]', []),
    ("Just words.", str, "", "Just words.", ["bare_answer"]),
    ("<thinking>hm</thinking>yes", str, "hm", "yes", ["thinking_tag"]),
    ("<thinking>hm</thinking><answer>[1, 2]</answer>", list[int], "hm", [1, 2], []),
    ("42", int, "", 42, ["bare_answer"]),
]  # fmt: skip


@pytest.mark.scenario("TEA-03", "TEA-07")
@pytest.mark.parametrize(("said", "type_", "thinking", "answer", "how"), READ)
def test_thinking_and_answer_are_read_and_how_is_on_the_record(
    said: str, type_: Any, thinking: str, answer: Any, how: list[str]
) -> None:
    done = play(Cot()(task(type_)), [said])
    assert done.answer == Answer(answer)
    thought = done.acts("finish")[0].thought
    assert (thought.content if not thought.synthesized else "") == thinking
    assert thought.synthesized == (not thinking)
    found = done.notes("read")[0]["how"] if how else []
    assert set(how) <= set(found)
    assert done.acts("finish")[0].local[0].result == answer


@pytest.mark.scenario("TEA-03")
def test_two_different_answers_are_refused_as_ambiguous_and_asked_again() -> None:
    two = '{"thinking": "a", "answer": 4} {"thinking": "b", "answer": 5}'
    done = play(Cot()(task(int)), [two, {"thinking": "b", "answer": 5}])
    assert done.answer == Answer(5)
    assert "several" in done.prompt(1)


@pytest.mark.scenario("TEA-04", "TEA-10")
def test_garbage_ends_in_an_error_with_a_bounded_echo_after_its_own_number_of_attempts() -> None:
    done = play(Cot()(task(int, attempts=3)), ["garbage " * 1000] * 3)
    assert done.answer.output is None
    assert done.answer.stop == "error"
    assert done.answer.error.startswith("no_candidate: no usable reply in 3 attempts")
    assert len(done.answer.error) < 600
    assert len(done.notes("violation")) == 3
    assert done.notes("unread")[0]["raw"] == ("garbage " * 1000)[:500]
    assert [len(messages) for _, messages in done.prompts] == [2, 4, 6]
    assert all(len(message.content) < 2100 for _, messages in done.prompts for message in messages)


@pytest.mark.scenario("TEA-12")
def test_an_answer_of_the_wrong_type_is_sent_back_with_the_field_that_failed() -> None:
    done = play(
        Cot()(task(Point)),
        [
            {"thinking": "t", "answer": {"x": "many", "label": "l"}},
            {"thinking": "t", "answer": {"x": 3, "label": "l"}},
        ],
    )
    assert "answer.x" in done.prompt(1)
    assert done.answer.output == {"x": 3, "label": "l"}


def test_strict_asks_again_for_missing_thinking_and_lenient_marks_it() -> None:
    bare = '{"answer": "a"}'
    strict = play(Cot()(task(strict=True)), [bare, {"thinking": "t", "answer": "a"}])
    assert "thinking is missing" in strict.prompt(1)
    lenient = play(Cot()(task()), [bare])
    assert lenient.acts("finish")[0].thought.synthesized


def test_a_reasoning_models_own_thinking_counts() -> None:
    done = play(Cot()(task(strict=True)), [Reply('{"answer": "a"}', reasoning="because")])
    assert done.acts("finish")[0].thought.content == "because"


def test_an_empty_answer_is_no_answer() -> None:
    empty = {"thinking": "t", "answer": " "}
    done = play(Cot()(task()), [empty, {"thinking": "t", "answer": "a"}])
    assert "empty" in done.prompt(1)
    nothing = play(Cot()(task(int)), ["<thinking>t</thinking> maybe", '{"answer": 3}'])
    assert nothing.answer == Answer(3)
    broken = play(Cot()(task()), ['{"thinking": "t", ', '{"thinking": "t", "answer": "a"}'])
    assert broken.answer == Answer("a")
    other = play(Cot()(task()), ['Look: {"result": 1}', '{"thinking": "t", "answer": "a"}'])
    assert other.answer == Answer("a")
    wrong, right = {"thinking": "t", "answer": [1]}, {"thinking": "t", "answer": {"a": 1}}
    assert play(Cot()(task(dict[str, Any])), [wrong, right]).answer == Answer({"a": 1})


def test_limits_and_people_are_heard() -> None:
    stop = play(Cot()(task()), [], outlooks=[Outlook(stop="max_steps")])
    assert (stop.answer, stop.prompts) == (Answer(None, "max_steps"), [])
    halted = play(Cot()(task()), [], halt=1)
    assert halted.answer == Answer(None, "timeout")
    overflow = play(Cot()(task()), [Reply(finish="overflow")])
    assert "context window" in overflow.answer.error
    assert play(Direct()(task()), [], halt=1).answer == Answer(None, "timeout")


@pytest.mark.parametrize(
    ("said", "type_", "wanted"),
    [
        ("def f():\n    return {1: 2}", str, "def f():\n    return {1: 2}"),
        ("<think>hm</think>\nyes", str, "yes"),
        ("The number is 7.", str, "The number is 7."),
        ("```json\n[1, 2]\n```", list[int], [1, 2]),
        ('{"x": 1, "label": "l"}', Point, {"x": 1, "label": "l"}),
    ],
)
def test_a_direct_answer_is_the_whole_reply_in_its_type(said: str, type_: Any, wanted: Any) -> None:
    done = play(Direct()(task(type_)), [said])
    assert done.answer == Answer(wanted)
    assert done.steps == ["finish"]


def test_a_direct_answer_that_was_cut_off_is_asked_for_again() -> None:
    done = play(Direct()(task()), [Reply("half of", finish="length"), "the whole"])
    assert done.answer == Answer("the whole")
    assert play(Direct()(task(int)), ["?"] * 3).answer.stop == "error"
    assert play(Direct()(task()), [], outlooks=[Outlook(stop="max_usd")]).answer.stop == "max_usd"
