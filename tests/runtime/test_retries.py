"""The runtime retries a tool with `retries`, but never one whose effect is `once`."""

from typing import Any

import pytest

from taofold import Agent, Limits, MemoryLog, tool
from taofold.core import events as e
from taofold.core.errors import ConfigError
from taofold.core.state import fold
from taofold.runtime import tool_calls as calling

from .kit import Memo, act, batch, events, finish, planted

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "FIRST_PAUSE", 0.0)


def flaky(raised: int, **options: Any) -> Any:
    """A tool that raises so often before it answers, and what it was called with."""
    calls: list[str] = []

    @tool(**{"effect": "read", **options})
    def fetch(what: str) -> str:
        """Fetch."""
        calls.append(what)
        if len(calls) <= raised:
            raise ConnectionError(f"no line {len(calls)}")
        return f"{what} fetched"

    return fetch, calls


async def result_of(fetch: Any, **options: Any) -> Any:
    agent = Agent(Memo([act("fetch", what="x"), finish()]), tools=[fetch], **options)
    return await agent.run("g")


@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_a_call_that_raised_is_made_again_and_each_attempt_counts(effect: str) -> None:
    fetch, calls = flaky(2, effect=effect, tier=1, reversible=True, retries=2)
    result = await result_of(fetch, limits=Limits(tool_calls=3))
    assert result.steps[0].observations[0].result == "x fetched"
    assert calls == ["x", "x", "x"]
    assert result.state.tool_calls == result.state.per_tool["fetch"] == 3
    assert [start.retry for start in events(result, e.Started)] == [0, 1, 2]


@pytest.mark.parametrize("limits", [Limits(tool_calls=2), Limits(per_tool={"fetch": 2})])
async def test_a_limit_ends_the_attempts_before_the_one_that_would_pass_it(limits: Limits) -> None:
    fetch, calls = flaky(9, retries=5)
    result = await result_of(fetch, limits=limits)
    observation = result.steps[0].observations[0]
    assert (observation.status, observation.refused) == ("failure", "")
    assert observation.result == "tried 2 times: ConnectionError: no line 2"
    assert len(calls) == result.state.tool_calls == 2


@pytest.mark.parametrize("limit", [2, 3, 4, 7])
async def test_calls_at_once_do_not_retry_past_a_limit_together(limit: int) -> None:
    fetch, calls = flaky(99, retries=5)
    both = batch(("fetch", {"what": "x"}), ("fetch", {"what": "y"}))
    agent = Agent(Memo([both, finish()]), tools=[fetch], limits=Limits(tool_calls=limit))
    result = await agent.run("g")
    assert len(calls) == result.state.tool_calls == limit


async def test_what_a_call_beside_it_holds_is_not_spent_on_a_retry() -> None:
    @tool(effect="read")
    def look(what: str) -> str:
        """Look."""
        return "seen"

    fetch, calls = flaky(99, retries=5)
    child = Agent(Memo([act("look", what="a"), act("look", what="b"), finish()]), tools=[look])
    tools = [fetch, child.as_tool("helper", "Helps.")]
    both = batch(("fetch", {"what": "x"}), ("helper", {"goal": "h"}))
    agent = Agent(Memo([both, finish()]), tools=tools, limits=Limits(tool_calls=5))
    result = await agent.run("g")
    assert result.state.tool_calls + result.state.child_tool_calls <= 5
    assert result.steps[0].observations[1].status == "success"
    assert len(calls) == 1


@pytest.mark.parametrize("upto", range(4, 12))
async def test_a_crash_between_attempts_neither_forgets_nor_forgives_them(upto: int) -> None:
    """The log is cut after a start. Recorded attempts are counted and not repeated."""
    calls: list[str] = []

    @tool(effect="read", retries=3)
    def fetch(what: str) -> str:
        """Fetch."""
        calls.append(what)
        raise ConnectionError("no line")

    model = Memo([act("fetch", what="x"), finish()])
    whole = await Agent(model, tools=[fetch], log=MemoryLog()).run("g", run_id="r")
    calls.clear()
    records = whole.records[:upto]
    retries = [r.event.retry for r in records if isinstance(r.event, e.Started)]
    log = await planted(records, MemoryLog())
    result = await Agent(model, tools=[fetch], log=log).resume("r")
    assert result.success
    if not retries or any(isinstance(r.event, e.Observed) for r in records):
        return
    # The interrupted attempt is repeated and counts. The others are not repeated.
    assert len(calls) == 4 - retries[-1]
    assert whole.state.tool_calls == 4
    assert result.state.tool_calls == fold(await log.read("r")).tool_calls == 5
    observation = result.steps[0].observations[0]
    assert observation.result == "tried 4 times: ConnectionError: no line"


async def test_one_that_keeps_raising_says_how_often_it_was_tried() -> None:
    fetch, calls = flaky(9, retries=2)
    observation = (await result_of(fetch)).steps[0].observations[0]
    assert observation.status == "failure"
    assert observation.result == "tried 3 times: ConnectionError: no line 3"
    assert len(calls) == 3


async def test_without_retries_it_is_called_once() -> None:
    fetch, calls = flaky(9)
    assert (await result_of(fetch)).steps[0].observations[0].result == "ConnectionError: no line 1"
    assert len(calls) == 1


async def test_a_retried_run_replays() -> None:
    fetch, calls = flaky(1, retries=1)
    log = MemoryLog()
    agent = Agent(Memo([act("fetch", what="x"), finish()]), tools=[fetch], log=log)
    result = await agent.run("g")
    assert (await agent.replay(result)).output == result.output
    assert len(calls) == 2


async def test_it_is_not_repeated_when_the_time_is_over() -> None:
    fetch, calls = flaky(9, retries=5)
    model = Memo([act("fetch", what="x"), finish()])
    await Agent(model, tools=[fetch], limits=Limits(seconds=0)).run("g")
    assert len(calls) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"effect": "once", "retries": 1}, "not repeated by itself"),
        ({"retries": 1, "effect": None}, "not repeated by itself"),
        ({"retries": -1}, "0 to 10"),
        ({"retries": 11}, "0 to 10"),
        ({"retries": True}, "0 to 10"),
    ],
)
def test_what_must_not_be_repeated_cannot_ask_for_it(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        flaky(0, **options)
