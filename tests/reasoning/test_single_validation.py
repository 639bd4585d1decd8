"""A typed answer is validated once, and every place gives the value of that validation."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, SecretStr, model_validator

import taofold
from taofold import Agent, RunResult
from taofold.core.content import ToolCall
from taofold.core.values import Profile, Reply
from taofold.evals import Case, evaluate
from taofold.parsing import Parsed
from taofold.reasoning.task import Output
from taofold.testing import ScriptedModel
from taofold.views import run_state_json
from tests.road.types import KINDS, Kind

pytestmark = pytest.mark.anyio
NATIVE = Profile(window=100_000, window_known=True, native_tools=True)
TEXT = Profile(window=100_000, window_known=True)


def finishing(wire: Any, *, native: bool = False) -> Reply:
    """A reply that calls `finish` with `wire` as the answer."""
    if native:
        arguments = json.dumps({"answer": wire})
        return Reply("", calls=(ToolCall("finish", arguments, "c1"),), finish="tool_calls")
    action = {"tool": "finish", "parameters": {"answer": wire}, "rationale": "done"}
    return Reply(json.dumps({"thought": "t", "thought_type": "synthesis", "action": action}))


def bare(kind: Kind) -> str:
    """The answer as the whole reply."""
    return kind.wire if kind.type is str else json.dumps(kind.wire)


def same(got: Any, kind: Kind) -> bool:
    return got == kind.expected and type(got) is type(kind.expected)


def replies(strategy: str, kind: Kind) -> list[Reply | str]:
    """Returns model replies that give the answer at once with a strategy."""
    reasoned = json.dumps({"thinking": "short", "answer": kind.wire})
    judged = json.dumps({"score": 1.0, "issues": [], "suggestions": []})
    parts = [
        {"id": "a", "description": "one", "complex": False},
        {"id": "b", "description": "two", "complex": False},
    ]
    split = json.dumps({"reasoning": "r", "sub_problems": parts})
    part = json.dumps({"thinking": "short", "answer": "part"})
    match strategy:
        case "react":
            return [finishing(kind.wire)]
        case "direct":
            return [bare(kind)]
        case "cot":
            return [reasoned]
        case "self_correct":
            return [bare(kind), judged]
        case "decompose":
            return [split, part, part, reasoned]
        case _:
            plan = json.dumps({"thought": "nothing to do", "tasks": []})
            verdict = json.dumps({"reasoning": "r", "achieved": True})
            return [plan, verdict, bare(kind)]


kinds = pytest.mark.parametrize("kind", KINDS, ids=str)


@kinds
@pytest.mark.parametrize(
    "strategy", ["react", "direct", "cot", "self_correct", "decompose", "plan"]
)
def test_each_strategy_gives_the_value_of_one_validation(kind: Kind, strategy: str) -> None:
    if kind.name == "union" and strategy in ("direct", "self_correct", "plan"):
        pytest.skip("a bare 7 in a text is a number")
    model = ScriptedModel(replies(strategy, kind))
    result = Agent(model, output=kind.type, strategy=strategy).run_sync("Answer.")  # type: ignore[arg-type]
    assert result.success, result.error
    assert same(result.output, kind), result.output


@kinds
@pytest.mark.parametrize("native", [True, False], ids=["native", "text"])
async def test_every_way_to_load_an_answer_gives_the_same_value(
    kind: Kind, native: bool, tmp_path: Path
) -> None:
    def agent() -> Agent[Any, Any]:
        model = ScriptedModel(
            itertools.repeat(finishing(kind.wire, native=native)),
            NATIVE if native else TEXT,
        )
        return Agent(model, output=kind.type, log=str(tmp_path / "log.db"))

    one = agent()
    run = await one.run("Answer.", run_id="r")
    stored = run.state.output
    assert same(run.output, kind)
    other = agent()  # another process: nothing is kept
    for result in (
        await other.result("r"),
        await other.result("r"),
        await other.replay("r"),
        await other.fork("r", run_id="f"),
        *(await other.map(["Answer.", "Again."])).results,
    ):
        assert isinstance(result, RunResult)
        assert same(result.output, kind)
        assert result.state.output == stored


@kinds
async def test_a_stream_ends_with_the_value_of_the_result(kind: Kind) -> None:
    stream = Agent(ScriptedModel([bare(kind)]), output=kind.type, strategy="direct").stream("Go.")
    partials = [value async for value in stream.partials(every=0)]
    if kind.name == "union":
        return
    assert same(stream.result.output, kind)
    if kind.expected is not None:
        assert partials[-1] == kind.expected


@kinds
def test_a_parent_reads_the_answer_of_its_child(kind: Kind) -> None:
    child = Agent(
        ScriptedModel([finishing(kind.wire)]),
        output=kind.type,
        name="child",
        description="Answers.",
    )
    call = {"tool": "child", "parameters": {"goal": "Answer."}, "rationale": "r"}
    asking = json.dumps({"thought": "t", "thought_type": "reasoning", "action": call})
    parent = Agent(ScriptedModel([asking, finishing("done")]), tools=[child])
    result = parent.run_sync("Ask the child.")
    assert result.success, result.error
    observed = result.steps[0].observations[0]
    assert observed.status == "success"
    expected = "(no result)" if kind.wire is None else kind.wire
    assert observed.result == expected or kind.name == "model_hidden_text"


@kinds
async def test_an_evaluation_counts_the_answer_as_right(kind: Kind) -> None:
    model = ScriptedModel(itertools.repeat(finishing(kind.wire)))
    agent = Agent(model, output=kind.type)
    for expected in (kind.wire, kind.expected):
        report = await evaluate(agent, [Case("Answer.", expected)])
        assert report.trials[0].passed, report.trials[0].scores


@kinds
async def test_reasoning_calls_give_the_value(kind: Kind) -> None:
    answer = json.dumps({"thinking": "short", "answer": kind.wire})
    thought = await taofold.reason.cot("Answer.", model=ScriptedModel([answer]), output=kind.type)
    acted = await taofold.reason.react(
        "Answer.", model=ScriptedModel([finishing(kind.wire)]), output=kind.type
    )
    assert same(thought.answer, kind)
    assert same(acted.answer, kind)


@kinds
def test_text_around_an_answer_changes_nothing(kind: Kind) -> None:
    written = json.dumps(kind.wire, indent=1)
    if written[0] not in "[{" or not kind.wire:
        pytest.skip("a lone number or text must stand alone")
    text = f"Here it is:\n```json\n{written}\n```\n"
    output = Output(kind.type)
    read = output.read(text)
    assert isinstance(read, Parsed), read
    assert same(output.load(read.value), kind)
    assert same(Output(kind.type).load(json.loads(json.dumps(read.value))), kind)


def test_a_repaired_answer_is_stored_repaired() -> None:
    class Order(BaseModel):
        count: int
        price: float

    read = Output(Order).read("```json\n{'count': '7', price: 2.50,}\n```")
    assert isinstance(read, Parsed)
    assert read.value == {"count": 7, "price": 2.5}
    assert Output(Order).load(read.value) == Order(count=7, price=2.5)


@pytest.mark.parametrize("strategy", ["react", "direct", "cot"])
def test_an_answer_is_validated_once_in_a_run(strategy: str) -> None:
    numbers: Iterator[int] = itertools.count(1)

    class Counted(BaseModel):
        x: int
        number: int = 0

        @model_validator(mode="after")
        def count(self) -> "Counted":
            self.number = next(numbers)
            return self

    kind = Kind("counted", Counted, {"x": 1})
    model = ScriptedModel(replies(strategy, kind))
    result = Agent(model, output=Counted, strategy=strategy).run_sync("x")  # type: ignore[arg-type]
    assert result.output is not None
    assert (result.output.number, next(numbers)) == (1, 2)


def test_two_results_share_no_value() -> None:
    agent = Agent(ScriptedModel([finishing([1])] * 2), output=list[int])
    first, second = agent.run_sync("a"), agent.run_sync("b")
    assert first.output is not None
    first.output.append(2)
    assert second.output == [1]


class Login(BaseModel):
    user: str
    word: Annotated[SecretStr, Field(validation_alias="codeWord")]


@pytest.mark.parametrize("strategy", ["react", "direct", "cot", "self_correct", "plan"])
def test_a_hidden_text_is_masked_wherever_the_answer_is_shown(strategy: str) -> None:
    kind = Kind("login", Login, {"user": "ada", "codeWord": "lovelace"})
    agent = Agent(ScriptedModel(replies(strategy, kind)), output=Login, strategy=strategy)  # type: ignore[arg-type]
    result = agent.run_sync("x")
    assert result.output is not None
    assert result.output.word.get_secret_value() == "lovelace"
    shown = [
        run_state_json(result.run_id, result.records),
        repr(result),
        [o.result for step in result.steps for o in step.observations],
        [dict(action.parameters) for step in result.steps for action in step.actions],
        [step.thought.content for step in result.steps],
    ]
    assert "lovelace" not in str(shown)
    assert "ada" in str(result.state.output)
