"""ReAct as the seed's story wants it: over the runtime, with real tools."""

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel

from taofold import Agent, Limits, tool
from taofold.core import events as e
from taofold.core.errors import ModelError
from taofold.core.values import Profile, Reply, ToolCall
from taofold.reason import cot, react
from taofold.testing.models import FunctionModel, ScriptedModel
from tests.deadlines import LoopClock

pytestmark = pytest.mark.anyio


def act(name: str, thought: str = "go on", kind: str = "reasoning", **parameters: Any) -> str:
    action = {"tool": name, "parameters": parameters, "rationale": "needed"}
    return json.dumps({"thought": thought, "thought_type": kind, "action": action})


def rules_of(done: Any) -> list[str]:
    return [r.event.rule for r in done.run.records if isinstance(r.event, e.Violated)]


class Kept:
    """Tools that note every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    @property
    def tools(self) -> list[Any]:
        @tool(tier=1, effect="read")
        def search(query: str, limit: int = 3) -> str:
            """Search the library.

            The second paragraph matters too.

            Args:
                query: what to look for
            """
            self.calls.append((query, limit))
            if query == "fail":
                raise ValueError("the index is broken")
            return f"found {query} #{len(self.calls)}"

        return [search]


@pytest.mark.scenario("TEA-05", "TEA-13")
async def test_a_tool_runs_once_with_the_exact_arguments_and_is_seen_in_the_next_prompt() -> None:
    kept = Kept()
    model = ScriptedModel([act("search", query="owls", limit=7), act("finish", answer="so")])
    done = await react("g", model=model, tools=kept.tools)
    assert kept.calls == [("owls", 7)]
    assert "found owls #1" in model.requests[1].last
    first = model.requests[0].text
    for part in (
        "search(",
        "query: string",
        "limit?: int",
        "second paragraph matters",
        "what to look for",
    ):
        assert part in first
    assert done.success


@pytest.mark.scenario("TEA-06")
@pytest.mark.parametrize("steps", [0, 1, 3])
async def test_n_steps_allow_n_model_calls_and_no_success(steps: int) -> None:
    kept = Kept()
    model = ScriptedModel([act("search", query=f"q{n}") for n in range(9)])
    limits = Limits(steps=steps, model_calls=steps, parse_retries=0)
    done = await react("g", model=model, tools=kept.tools, limits=limits)
    assert len(model.requests) == steps
    assert (done.success, done.stop_reason, done.answer) == (False, "max_steps", None)
    assert ("found" in done.run.partial) == (steps > 1)
    assert done.variables["reasoning_answer"] is None


class City(BaseModel):
    name: str
    people: int


@pytest.mark.scenario("TEA-07", "TEA-12")
@pytest.mark.parametrize(
    ("type_", "answer", "wanted"),
    [
        (str, "plain text", "plain text"),
        (list[int], [1, 2], [1, 2]),
        (float, 2.5, 2.5),
        (dict[str, Any], {"a": None}, {"a": None}),
        (City, {"name": "Bern", "people": 1}, City(name="Bern", people=1)),
    ],
)
async def test_a_final_answer_on_step_two_of_ten_ends_it(
    type_: Any, answer: Any, wanted: Any
) -> None:
    model = ScriptedModel([act("search", query="q"), act("finish", answer=answer)])
    done = await react("g", model=model, tools=Kept().tools, output=type_)
    assert (done.answer, done.success, len(done.run.steps)) == (wanted, True, 2)
    assert len(model.requests) == 2


@pytest.mark.scenario("TEA-12")
async def test_an_answer_that_does_not_fit_the_type_names_the_field() -> None:
    wrong = act("finish", answer={"name": "Bern", "people": "many"})
    right = act("finish", answer={"name": "Bern", "people": 3})
    model = ScriptedModel([wrong, right])
    done = await react("g", model=model, output=City)
    assert done.answer == City(name="Bern", people=3)
    assert "people" in model.requests[1].last
    never = await react("g", model=ScriptedModel([wrong] * 3), output=City)
    assert "people" in never.error


@pytest.mark.scenario("TEA-08")
async def test_an_invented_observation_is_dropped_and_only_the_first_action_runs() -> None:
    kept = Kept()
    invented = (
        'THOUGHT: look\nACTION: search\nPARAMETERS: {"query": "a"}\n'
        'OBSERVATION: found 99 things\nTHOUGHT: more\nACTION: search\nPARAMETERS: {"query": "b"}'
    )
    model = ScriptedModel([invented, act("finish", answer="x")])
    done = await react("g", model=model, tools=kept.tools)
    assert kept.calls == [("a", 3)]
    assert "99 things" not in model.requests[1].text
    rules = rules_of(done)
    assert "role_violation" in rules


@pytest.mark.scenario("TEA-09")
async def test_a_tool_error_and_an_unknown_tool_are_observations_and_it_goes_on() -> None:
    kept = Kept()
    model = ScriptedModel(
        [
            act("search", query="fail"),
            act("fly", "that failed", "exception"),
            act("search", "unknown", "exception", query="ok"),
            act("finish", answer="x"),
        ]
    )
    done = await react("g", model=model, tools=kept.tools)
    assert "the index is broken" in model.requests[1].last
    assert "unknown tool 'fly'" in model.requests[2].last
    assert "search" in model.requests[2].last
    assert done.success


@pytest.mark.scenario("TEA-28")
@pytest.mark.document_item("004.later.timeout")
async def test_a_tool_that_hangs_is_a_timeout_in_the_trace_and_the_loop_goes_on() -> None:
    @tool(tier=1, effect="read", timeout=0.02)
    async def hang() -> str:
        """Hang."""
        await asyncio.Event().wait()
        return ""

    model = ScriptedModel([act("hang"), act("finish", "it hung", "exception", answer="x")])
    done = await react("g", model=model, tools=[hang])
    tools = [entry for entry in done.variables["reasoning_trace"] if entry["type"] == "tool"]
    assert (tools[0]["name"], tools[0]["status"]) == ("hang", "timeout")
    assert "[timeout] hang" in model.requests[1].last
    assert done.success


@pytest.mark.scenario("TEA-28")
@pytest.mark.parametrize("primitive", [react, cot])
async def test_a_model_that_hangs_beyond_the_time_limit_is_a_timeout_in_the_trace(
    primitive: Any,
) -> None:
    """The run stops: nothing could be called any more."""

    clock = LoopClock()

    async def hang(_: Any) -> str:
        clock.jump(900)
        await asyncio.Event().wait()
        return ""

    done = await primitive("g", model=FunctionModel(hang), limits=Limits(seconds=600))
    assert (done.success, done.stop_reason) == (False, "max_seconds")
    (entry,) = [one for one in done.trace if one["status"] == "timeout"]
    assert (entry["type"], entry["name"]) == ("limit", "seconds")
    assert done.trace[0]["status"] == "limited"
    assert "600 seconds" in done.variables["reasoning_error"]


@pytest.mark.scenario("TEA-28")
async def test_a_model_call_that_ran_out_of_its_own_time_is_a_timeout_in_the_trace() -> None:
    model = ScriptedModel([ModelError("no reply within 2 s", kind="timeout")])
    done = await react("g", model=model)
    (entry,) = [one for one in done.trace if one["type"] == "model"]
    assert (entry["status"], entry["output"]) == ("timeout", "no reply within 2 s")


@pytest.mark.scenario("TEA-10")
async def test_malformed_json_is_corrected_within_its_own_cap_and_is_no_step() -> None:
    model = ScriptedModel(['{"thought": "x", "action": {"tool": ', act("finish", answer="x")])
    done = await react("g", model=model, tools=Kept().tools)
    assert done.success
    assert len(done.run.steps) == 1
    assert rules_of(done) == ["unreadable"]
    capped = ScriptedModel(['{"thought": "x", "action": {"tool": '] * 9)
    assert not (await react("g", model=capped, tools=Kept().tools)).success
    assert len(capped.requests) == 3


@pytest.mark.scenario("TEA-11")
async def test_the_same_call_with_the_same_result_is_hinted_then_blocked_and_recorded() -> None:
    calls: list[int] = []

    @tool(tier=1, effect="read")
    def peek() -> str:
        """Peek."""
        calls.append(1)
        return "the same"

    model = ScriptedModel([*[act("peek")] * 4, act("finish", "blocked", "exception", answer="x")])
    done = await react("g", model=model, tools=[peek])
    assert len(calls) == 3
    assert "same as before" in model.requests[2].text
    assert "repetition" in rules_of(done)


@pytest.mark.scenario("TEA-13")
async def test_arguments_are_validated_before_the_tool_runs() -> None:
    kept = Kept()
    model = ScriptedModel(
        [act("search", limit=3), act("finish", "no query", "exception", answer="x")]
    )
    await react("g", model=model, tools=kept.tools)
    assert kept.calls == []
    assert "query" in model.requests[1].last


@pytest.mark.scenario("TEA-16")
async def test_malformed_native_arguments_do_not_run_the_tool_and_the_model_is_told() -> None:
    kept = Kept()
    calls = (ToolCall("search", '{"query": "a" "limit"', "c1"),)
    profile = Profile(window=100_000, window_known=True, native_tools=True)
    model = ScriptedModel([Reply("I search", calls=calls), "done"], profile=profile)
    await react("g", model=model, tools=kept.tools)
    assert kept.calls == []
    assert "[failure] search: the arguments" in model.requests[1].last


@pytest.mark.scenario("TEA-31")
async def test_a_tool_that_mutates_its_state_argument_changes_nothing() -> None:
    def grab(state: dict[str, Any], args: dict[str, Any]) -> None:
        """Grab."""
        state["items"].append("stolen")
        state["new"] = 1

    def put(state: dict[str, Any], args: dict[str, Any]) -> tuple[str, Any]:
        """Put."""
        return "items", [*state["items"], "put"]

    model = ScriptedModel([act("grab"), act("put"), act("finish", answer="x")])
    mine: dict[str, Any] = {"items": ["a"]}
    agent = Agent(model, tools=[grab, put], approve="all")
    result = await agent.run("g", data=mine)
    assert mine == {"items": ["a"]}
    assert dict(result.state.data) == {"items": ["a", "put"]}


NATIVE = Profile(window=100_000, window_known=True, native_tools=True)


class Payer:
    """A tool that must not be repeated and one that only reads, with what they were called with."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.rolled: list[int] = []

    @property
    def tools(self) -> list[Any]:
        @tool(effect="once", tier=2)
        def pay(to: str) -> str:
            """Pay."""
            self.paid.append(to)
            return "paid"

        @tool(effect="read")
        def roll(sides: int) -> int:
            """Roll a die."""
            self.rolled.append(sides)
            return len(self.rolled)

        return [pay, roll]


def calls(*sent: tuple[str, str, str], finish: str = "") -> Reply:
    return Reply(calls=[ToolCall(name, text, id_) for name, text, id_ in sent], finish=finish)


PAY = ("pay", '{"to": "A"}', "c1")


async def paying(first: Reply, *, native: bool = True) -> tuple[Payer, Any, ScriptedModel]:
    payer = Payer()
    profile = {"profile": NATIVE} if native else {}
    last = act("finish", answer="nothing") if not native else "nothing"
    model = ScriptedModel([first, last, last], **profile)
    result = await Agent(model, tools=payer.tools, approve="all").run("g")
    return payer, result, model


@pytest.mark.parametrize("native", [True, False], ids=["native", "text"])
@pytest.mark.parametrize("finish", ["content_filter", "refusal", "safety", "SAFETY"])
async def test_nothing_of_a_reply_that_was_withheld_runs(finish: str, native: bool) -> None:
    first = calls(PAY, finish=finish) if native else Reply(act("pay", to="A"), finish=finish)
    payer, result, _ = await paying(first, native=native)
    assert payer.paid == []
    assert result.status == "failed"
    assert "filter" in result.error or "refuses" in result.error


@pytest.mark.parametrize("native", [True, False], ids=["native", "text"])
@pytest.mark.parametrize("finish", ["error", "malformed", "abort"])
async def test_nothing_of_a_reply_that_broke_off_runs_and_the_model_is_told(
    finish: str, native: bool
) -> None:
    first = calls(PAY, finish=finish) if native else Reply(act("pay", to="A"), finish=finish)
    payer, result, model = await paying(first, native=native)
    assert payer.paid == []
    assert result.success
    assert "again" in model.requests[1].last


@pytest.mark.parametrize("native", [True, False], ids=["native", "text"])
@pytest.mark.parametrize("finish", ["length", "max_tokens"])
async def test_what_ends_at_the_output_limit_runs_only_what_may_be_repeated(
    finish: str, native: bool
) -> None:
    """Complete arguments do not show whether further calls were cut off."""
    first = calls(PAY, finish=finish) if native else Reply(act("pay", to="A"), finish=finish)
    payer, result, _ = await paying(first, native=native)
    assert payer.paid == []
    assert result.steps[0].observations[0].refused == "guessed"
    read = ("roll", '{"sides": 6}', "c1")
    first = calls(read, finish=finish) if native else Reply(act("roll", sides=6), finish=finish)
    payer, _, _ = await paying(first, native=native)
    assert payer.rolled == [6]


@pytest.mark.parametrize("finish", ["", "stop", "tool_calls", "end_turn"])
async def test_what_ended_well_runs(finish: str) -> None:
    payer, _, _ = await paying(calls(PAY, finish=finish))
    assert payer.paid == ["A"]


async def test_a_call_that_was_sent_twice_under_one_id_is_one() -> None:
    again = ("pay", '{ "to":"A" }', "c1")
    payer, result, _ = await paying(calls(PAY, again))
    assert payer.paid == ["A"]
    assert len(result.steps[0].actions) == 1


@pytest.mark.parametrize("ids", [("c1", "c2", "c3"), ("", "", "")])
async def test_equal_calls_of_a_batch_repeat_only_what_may_be_repeated(ids: Any) -> None:
    """Two dice are rolled. A second payment needs another approval."""
    first, second, third = ids
    batch = calls(
        ("pay", '{"to": "A"}', first),
        ("roll", '{"sides": 6}', second),
        ("pay", '{"to":"A"}', third),
    )
    payer, result, _ = await paying(batch)
    assert payer.paid == ["A"]
    assert [o.refused for o in result.steps[0].observations] == ["", "", "guessed"]
    assert "repeated_call" in result.steps[0].actions[2].repairs
    dice = calls(("roll", '{"sides": 6}', first), ("roll", '{"sides": 6}', second))
    payer, _, _ = await paying(dice)
    assert payer.rolled == [6, 6]


async def test_payments_that_differ_are_all_made() -> None:
    payer, _, _ = await paying(calls(PAY, ("pay", '{"to": "B"}', "c2")))
    assert payer.paid == ["A", "B"]


@pytest.mark.parametrize("strategy", ["plan", "direct"])
async def test_no_strategy_takes_a_reply_that_broke_off(strategy: str) -> None:
    """A plan in it would run its tools, an answer in it would be half of one."""
    plan = {"tasks": [{"id": "t1", "tool": "pay", "args": {"to": "A"}, "depends_on": []}]}
    broken = Reply(json.dumps(plan) if strategy == "plan" else "half of", finish="error")
    payer = Payer()
    model = ScriptedModel([broken, *["no"] * 9])
    await Agent(model, tools=payer.tools, approve="all", strategy=strategy).run("g")
    assert payer.paid == []
    assert "broken off by an error" in model.requests[1].last
