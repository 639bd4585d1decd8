"""Values given through `finish` are read back: native calls and text, every output type."""

import json
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from taofold import Agent, tool
from taofold.core.content import ToolCall
from taofold.core.values import Profile, Reply
from taofold.parsing import Unparsed, read_call
from taofold.reasoning.task import Output
from taofold.testing import ScriptedModel

NATIVE = Profile(window=100_000, window_known=True, native_tools=True)
TEXT = Profile(window=100_000, window_known=True)


class Colour(Enum):
    RED = "red"


class OnlyAnswer(BaseModel):
    answer: int


class AnswerAndSource(BaseModel):
    answer: int
    source: str


class Verdict(BaseModel):
    success: bool
    value: int


@dataclass
class Point:
    x: int
    y: int = 0


@tool(effect="read")
def word_count(text: str) -> int:
    """Counts the words of a text."""
    return len(text.split())


def finished(type_: Any, parameters: Any, *, native: bool) -> Any:
    """Runs an agent of which the model finishes with `parameters`, as text or as a native call."""
    if native:
        written = parameters if isinstance(parameters, str) else json.dumps(parameters)
        reply = Reply("", calls=(ToolCall("finish", written, "c1"),), finish="tool_calls")
    else:
        action = {"tool": "finish", "parameters": parameters, "rationale": "done"}
        reply = Reply(json.dumps({"thought": "t", "thought_type": "synthesis", "action": action}))
    model = ScriptedModel([reply] * 3, NATIVE if native else TEXT)
    return Agent(model, tools=[word_count], output=type_).run_sync("Answer.")


ANSWERS: list[tuple[Any, Any, Any]] = [
    (int, 7, 7),
    (float, 7.5, 7.5),
    (bool, False, False),
    (Literal["a", "b"], "a", "a"),
    (Colour, "red", Colour.RED),
    (date, "2026-11-28", date(2026, 11, 28)),
    (int | None, 7, 7),
    (int | None, None, None),
    (list[int], [1, 2], [1, 2]),
    (list[int], [], []),
    (dict, {"a": 1}, {"a": 1}),
    (dict, {}, {}),
    (dict, {"answer": {"a": 1}}, {"answer": {"a": 1}}),
    (dict[str, int], {"answer": 1, "success": 0}, {"answer": 1, "success": 0}),
    (Any, {"answer": 1}, {"answer": 1}),
    (Any, 7, 7),
    (str, "seven", "seven"),
    (str, '{"answer": 7}', '{"answer": 7}'),
    (Point, {"x": 1}, Point(1)),
    (OnlyAnswer, {"answer": 3}, OnlyAnswer(answer=3)),
    (AnswerAndSource, {"answer": 3, "source": "s"}, AnswerAndSource(answer=3, source="s")),
    (Verdict, {"success": False, "value": 3}, Verdict(success=False, value=3)),
]


@pytest.mark.parametrize("native", [True, False], ids=["native", "text"])
@pytest.mark.parametrize(("type_", "answer", "expected"), ANSWERS)
def test_the_declared_arguments_of_finish_are_read_back(
    type_: Any, answer: Any, expected: Any, native: bool
) -> None:
    for beside in ({}, {"success": True}):
        result = finished(type_, {"answer": answer, **beside}, native=native)
        assert result.success, result.error
        assert result.output == expected
        assert type(result.output) is type(expected)


BARE: list[tuple[Any, Any, Any]] = [
    (Point, {"x": 1, "y": 2}, Point(1, 2)),
    (dict, {"a": 1}, {"a": 1}),
    (dict[str, int], {"answer": 1}, {"answer": 1}),
    (OnlyAnswer, {"answer": 3}, OnlyAnswer(answer=3)),
    (AnswerAndSource, {"answer": 3, "source": "s"}, AnswerAndSource(answer=3, source="s")),
    (Verdict, {"success": True, "value": 3}, Verdict(success=True, value=3)),
    (list[int], [1, 2], [1, 2]),
    (int, 7, 7),
]


@pytest.mark.parametrize("native", [True, False], ids=["native", "text"])
@pytest.mark.parametrize(("type_", "parameters", "expected"), BARE)
def test_a_bare_answer_is_taken_where_nothing_else_can_be_meant(
    type_: Any, parameters: Any, expected: Any, native: bool
) -> None:
    result = finished(type_, parameters, native=native)
    assert result.output == expected


@pytest.mark.parametrize("native", [True, False], ids=["native", "text"])
@pytest.mark.parametrize(
    ("type_", "parameters", "words"),
    [
        (dict, {"answer": {"a": 1}, "b": 2}, "read in two ways"),
        (Verdict, {"success": False, "value": 3}, "read in two ways"),
        (dict, {}, "is missing"),
        (int | None, {}, "is missing"),
        (int, {"answer": "many"}, "integer"),
        (str, {}, "empty"),
    ],
)
def test_arguments_of_finish_that_may_mean_two_things_are_refused(
    type_: Any, parameters: Any, words: str, native: bool
) -> None:
    result = finished(type_, parameters, native=native)
    assert not result.success
    assert result.output_or_none is None
    assert words in result.error


@pytest.mark.parametrize("native", [True, False], ids=["native", "text"])
@pytest.mark.parametrize("type_", [int, dict, Point, list[int], OnlyAnswer])
def test_an_honest_failure_is_no_answer(type_: Any, native: bool) -> None:
    parameters = {"answer": "The page is gone.", "success": False}
    result = finished(type_, parameters, native=native)
    assert (result.success, result.output_or_none) == (False, None)
    assert result.error == "The page is gone."


def test_a_final_answer_keeps_the_failure_beside_it() -> None:
    reply = json.dumps({"thought": "t", "final_answer": "gone", "success": False})
    result = Agent(ScriptedModel([reply], TEXT), tools=[word_count]).run_sync("Answer.")
    assert (result.success, result.output_or_none) == (False, "gone")


def test_torn_arguments_of_finish_are_no_answer() -> None:
    result = finished(str, '{"answer": "The capital of', native=True)
    assert not result.success
    assert "not valid JSON" in result.error


def test_no_reading_of_finish_changes_its_arguments() -> None:
    schema = Output(dict).finish_schema()
    call = read_call("finish", '{"answer": {"Answer": 1}}', finish_reason="tool_calls")
    assert call.parameters.keys() <= schema["properties"].keys()
    read = Output(dict).read_finish(call.parameters)
    assert not isinstance(read, Unparsed)
    assert read.answer == {"Answer": 1}
