"""A tool with `retries` is called again by itself; what has its effect once never is."""

from typing import Any

import pytest

from taofold import Agent, Limits, MemoryLog, tool
from taofold.core import events as e
from taofold.core.errors import ConfigError
from taofold.runtime import tool_calls as calling

from .kit import Memo, act, events, finish

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
async def test_a_call_that_raised_is_made_again_and_counts_once(effect: str) -> None:
    fetch, calls = flaky(2, effect=effect, tier=1, reversible=True, retries=2)
    result = await result_of(fetch, limits=Limits(tool_calls=1))
    assert result.steps[0].observations[0].result == "x fetched"
    assert calls == ["x", "x", "x"]
    assert result.state.tool_calls == 1
    assert len(events(result, e.Started)) == 3


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
