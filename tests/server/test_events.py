"""The event stream of a run for clients: the projection alone, without a server."""

import asyncio
import re
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest

from taofold import Agent, Limits, Policy, tool
from taofold.agent.result import RunResult
from taofold.clocks import clock
from taofold.core.errors import ModelError
from taofold.core.text import milliseconds
from taofold.runtime.run import rewind
from taofold.server.streams.events import Name, project
from taofold.testing import ScriptedModel
from tests.server.agents import Bench, act, batch, finish

pytestmark = pytest.mark.anyio


def told(result: RunResult[Any]) -> list[dict[str, Any]]:
    return list(project(result.records))


def names(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


async def test_a_run_is_told_as_thoughts_calls_results_and_an_answer() -> None:
    bench = Bench()
    agent = bench.agent(act("look around", "look", at="there"), finish())
    events = told(await agent.run("go"))
    assert names(events) == [
        "thinking", "tool_start", "tool_result", "thinking", "answer", "done",
    ]  # fmt: skip
    assert events[0]["thought"]["content"] == "look around"
    assert events[1]["tool"] == "look"
    assert events[1]["args"] == {"at": "there"}
    assert events[2]["result"] == "seen there"
    assert events[2]["callId"] == events[1]["callId"]
    assert events[4]["text"] == "forty-two"
    assert events[5]["status"] == "finished"
    assert events[5]["toolCalls"] == 1


@pytest.mark.scenario("RCT-20")
@pytest.mark.parametrize(
    "replies",
    [
        (act("look", "look"), finish()),
        (act("look", "look"), ModelError("gone", kind="server")),
        (batch("two", ("look", {}), ("label", {"name": "a"})), finish()),
        ("",),
    ],
)
async def test_every_event_has_type_time_and_a_rising_sequence_and_done_is_last(
    replies: Any,
) -> None:
    events = told(await Bench().agent(*replies).run("go"))
    assert set(names(events)) <= set(get_args(Name))
    numbers = [event["sequence"] for event in events]
    assert all(one < other for one, other in pairwise(numbers))
    assert all(milliseconds(event["timestamp"]) > 0 for event in events)
    assert names(events).count("done") == 1
    assert events[-1]["type"] == "done"


@pytest.mark.scenario("RCT-22")
async def test_a_provider_that_fails_gives_an_error_then_done_and_is_asked_once() -> None:
    bench = Bench()
    events = told(await bench.agent(ModelError("no key", kind="auth")).run("go"))
    assert names(events) == ["error", "done"]
    assert events[0]["kind"] == "auth"
    assert events[0]["terminal"]
    assert events[1]["status"] == "failed"
    assert bench.asked == 1


@pytest.mark.scenario("RCT-01", "RCT-04")
@pytest.mark.parametrize(
    ("calls", "code"),
    [
        (6, "max_tool_calls"),
        (7, "max_tool_calls"),  # with its eighth and last model call
    ],
)
async def test_a_limit_is_a_notice_then_the_answer_then_an_error_with_its_code(
    calls: int, code: str
) -> None:
    bench = Bench()

    def reply(_: Any) -> str:
        if bench.asked > calls:
            return finish("what I know")
        return act("more", "look", at=str(bench.asked))

    events = told(await bench.agent(reply, limits=Limits.chat()).run("go"))
    kinds = names(events)
    assert bench.asked == calls + 1 <= 8
    notice = next(event for event in events if event["type"] == "limit_reached")
    assert notice["last"]
    assert "terminal" not in notice
    assert kinds.index("limit_reached") < kinds.index("answer") < kinds.index("error")
    assert kinds[-1] == "done"
    answer = next(event for event in events if event["type"] == "answer")
    assert answer["text"] == "what I know"
    assert events[kinds.index("error")]["code"] == code
    limits = [event["limit"] for event in events if event["type"] == "limit_reached"]
    assert len(limits) == len(set(limits)), "each limit is told once"
    assert code in [event["code"] for event in events if event["type"] == "limit_reached"]


async def test_an_answer_after_the_fifth_call_is_told_without_an_error() -> None:
    looks = [act("more", "look", at=str(number)) for number in range(5)]
    events = told(await Bench().agent(*looks, finish("it"), limits=Limits.chat()).run("go"))
    assert names(events)[-2:] == ["answer", "done"]
    assert "error" not in names(events)
    assert [event["last"] for event in events if event["type"] == "limit_reached"] == [True]


@pytest.mark.scenario("RCT-02", "RCT-03")
async def test_the_sixth_call_gets_a_limit_result_and_one_notice_says_so() -> None:
    bench = Bench()
    three = batch("three", *[("look", {"at": f"a{n}"}) for n in range(3)])
    more = batch("more", *[("look", {"at": f"b{n}"}) for n in range(3)])
    events = told(await bench.agent(three, more, finish(), limits=Limits.chat()).run("go"))
    results = [event for event in events if event["type"] == "tool_result"]
    assert len(bench.done) == 5
    assert sorted(event["refused"] for event in results) == ["", "", "", "", "", "limit"]
    assert names(events).count("limit_reached") == 1
    assert names(events).count("tool_start") == 5


async def test_a_call_that_comes_too_late_is_told_as_the_time_that_is_over() -> None:
    begun: list[int] = []

    @tool(effect="read", sequential=True)
    async def wait(number: int) -> str:
        """Wait."""
        begun.append(number)
        await asyncio.Event().wait()
        return f"waited {number}"

    two = batch("two", ("wait", {"number": 1}), ("wait", {"number": 2}))
    for seconds in (1.0, 10.0, 60.0):  # on a busy machine the first call may begin after a second
        agent = Agent(ScriptedModel([two, finish()]), tools=[wait], limits=Limits(seconds=seconds))
        events = told(await agent.run("go"))
        if begun:
            break
    results = [event["refused"] for event in events if event["type"] == "tool_result"]
    assert results == ["", "time_limit"]
    notices = [event for event in events if event["type"] == "limit_reached"]
    assert [(notice["limit"], notice["code"]) for notice in notices] == [("seconds", "max_seconds")]


@pytest.mark.scenario("RCT-05")
async def test_an_unknown_tool_is_a_result_that_names_those_there_are() -> None:
    events = told(await Bench().agent(act("try", "nothing"), finish()).run("go"))
    result = next(event for event in events if event["type"] == "tool_result")
    assert result["refused"] == "unknown"
    assert "look" in result["result"]
    assert "tool_start" not in names(events)
    assert events[-1]["status"] == "finished"


@pytest.mark.scenario("RCT-09")
async def test_a_tier_one_tool_that_writes_says_once_that_it_ran_without_asking() -> None:
    events = told(await Bench().agent(act("label", "label", name="a"), finish()).run("go"))
    kinds = names(events)
    assert kinds.count("autonomous_action") == 1
    assert "confirmation_request" not in kinds
    assert kinds[kinds.index("tool_start") + 1] == "autonomous_action"


async def test_a_tool_that_only_reads_is_no_autonomous_action() -> None:
    events = told(await Bench().agent(act("look", "look"), finish()).run("go"))
    assert "autonomous_action" not in names(events)


@pytest.mark.scenario("RCT-11", "RCT-12")
@pytest.mark.parametrize(
    ("autonomy", "name", "asks"),
    [
        ("conservative", "comment", True),
        ("balanced", "comment", True),
        ("autonomous", "comment", False),
        ("autonomous", "publish", True),
    ],
)
async def test_the_dial_says_which_tiers_ask(autonomy: Any, name: str, asks: bool) -> None:
    agent = Bench().agent(act("write", name, text="hi"), finish(), policy=Policy(autonomy=autonomy))
    kinds = names(told(await agent.run("go")))
    assert ("confirmation_request" in kinds) == asks
    assert ("autonomous_action" in kinds) == (not asks)


@pytest.mark.scenario("RCT-10")
async def test_a_question_carries_what_a_person_needs_and_nothing_ran() -> None:
    bench = Bench()
    result = await bench.agent(act("write", "publish", text="hello"), finish()).run("go")
    events = told(result)
    asked = events[-1]
    assert asked["type"] == "confirmation_request"
    assert asked["actionId"] == result.pending[0].id
    assert asked["tool"] == "publish"
    assert asked["args"] == {"text": "hello"}
    assert "hello" in asked["summary"]
    assert (asked["tier"], asked["requiresConfirmation"]) == (3, True)
    assert bench.done == []
    assert "done" not in names(events)


@pytest.mark.scenario("RCT-29")
async def test_a_tool_that_fails_is_a_result_with_the_error() -> None:
    events = told(await Bench().agent(act("try", "broken"), finish()).run("go"))
    result = next(event for event in events if event["type"] == "tool_result")
    assert result["status"] == "failure"
    assert "on fire" in result["result"]
    assert events[-1]["status"] == "finished"


@pytest.mark.scenario("RCT-24")
async def test_a_malformed_call_is_no_blank_answer() -> None:
    broken = '{"thought": "t", "action": {"tool": "look", "parameters": {"at":'
    events = told(await Bench().agent(broken, finish("said at last")).run("go"))
    assert [event["text"] for event in events if event["type"] == "answer"] == ["said at last"]


async def test_child_runs_have_no_answer_and_no_end_of_their_own() -> None:
    bench = Bench()
    inner = bench.agent(act("look", "look"), finish("inner"), name="helper", tools=bench.safe)
    outer = Agent(bench.agent(act("ask", "helper", goal="x"), finish()).model, tools=[inner])
    result = await outer.run("go")
    assert result.log is not None
    (child,) = await result.log.rows(parent=result.run_id)
    events = list(project(await result.log.read(child.run), child=True))
    assert names(events) == ["thinking", "tool_start", "tool_result", "thinking"]
    assert all(event["child"] for event in events)


async def test_a_run_that_was_carried_on_after_its_end_has_one_done() -> None:
    bench = Bench()
    replies: list[Any] = [act("look", "look"), ModelError("gone", kind="server")]
    agent = bench.agent(lambda request: _next(replies, request))
    first = await agent.run("go")
    assert first.status == "failed"
    replies[1] = finish()
    again = await agent.resume(first)
    events = told(again)
    assert names(events).count("done") == 1
    assert events[-1]["type"] == "done"
    assert events[-1]["status"] == "finished"


async def test_what_a_rewind_takes_back_is_said_and_its_steps_are_counted_anew() -> None:
    bench = Bench()
    agent = bench.agent(
        act("one", "look", at="a"),
        act("two", "look", at="b"),
        act("three", "look", at="c"),
        finish(),
    )
    first = await agent.run("go")
    assert first.log is not None
    told_first = told(first)
    (kept,) = [event["seq"] for event in told_first if event["type"] == "tool_result"][:1]
    to = await rewind(first.log, first.run_id, to=kept, now=clock())
    await agent.resume(first)
    events = list(project(await first.log.read(first.run_id)))
    thoughts = [event for event in events if event["type"] == "thinking"]
    assert [event["step"] for event in thoughts] == [1, 2, 3, 4, 2, 3, 4]
    (taken,) = [event for event in events if event["type"] == "rewound"]
    assert taken["to"] == to
    assert names(events).count("done") == 1
    assert events[-1]["steps"] == 4


def _next(replies: list[Any], request: Any) -> Any:
    turn = sum(message.role == "assistant" for message in request.conversation)
    if isinstance(replies[turn], Exception):
        raise replies[turn]
    return replies[turn]


async def test_a_bound_of_one_tool_is_no_limit_of_the_run() -> None:
    bench = Bench()
    one = [act("look", "look", at=str(number)) for number in range(2)]
    agent = bench.agent(*one, finish(), limits=Limits(per_tool={"look": 1}))
    events = told(await agent.run("go"))
    results = [event for event in events if event["type"] == "tool_result"]
    assert [event["refused"] for event in results] == ["", "tool_limit"]
    assert "limit_reached" not in names(events)


def test_the_page_of_the_server_names_every_event() -> None:
    page = (Path(__file__).parents[2] / "docs" / "server.md").read_text(encoding="utf-8")
    listed = page.partition("## Event stream\n")[2].partition("Each event has")[0]
    assert set(re.findall(r"`([a-z_]+)`", listed)) == set(get_args(Name))
