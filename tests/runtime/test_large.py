"""Results that are too large, and exhausted memory.

Mutants: a large result is searched on the event loop; a large result is stored whole; a
`MemoryError` ends the run, or is hidden from the model.
"""

import asyncio
from typing import Any

import pytest

from taofold import Agent, MemoryLog, tool
from taofold.core import events as e
from taofold.policy.redaction import MARK
from taofold.testing import ScriptedModel
from taofold.tools.result import CHARACTERS, bulky, outcome_of

from .kit import act, finish

pytestmark = pytest.mark.anyio
TURNS: list[int] = []
TURN = {"count": 0}


@tool(effect="read", timeout=300)
def vast() -> str:
    """A hundred megabytes."""
    TURNS.append(TURN["count"])
    return "word " * 20_000_000 + "ghp_" + "a1B2c3D4e5F6" * 3


@tool(effect="read")
def greedy() -> str:
    """More than there is."""
    raise MemoryError


async def observed(tools: list[Any], name: str) -> e.Observed:
    log = MemoryLog()
    agent = Agent(ScriptedModel([act(name), finish()]), tools=tools, log=log)
    await agent.run("goal", run_id="r")
    seen, *_ = [r.event for r in await log.read("r") if isinstance(r.event, e.Observed)]
    assert await agent.replay("r")
    return seen


async def test_a_large_result_does_not_hold_the_event_loop() -> None:
    async def ticking() -> None:
        while True:
            TURN["count"] += 1
            await asyncio.sleep(0)

    ticker = asyncio.create_task(ticking())
    seen = await observed([vast], "vast")
    ticker.cancel()
    turns = TURN["count"] - TURNS[-1]
    assert turns > 1_000, turns  # on the loop it would be a few dozen
    assert seen.observation.cut
    assert seen.observation.blob
    assert MARK in str(seen.observation.result)
    assert "a1B2c3D4" not in str(seen.observation.result)


async def test_no_memory_is_told_to_the_model() -> None:
    seen = await observed([greedy], "greedy")
    assert seen.observation.status == "failure"
    assert "Ask for less" in str(seen.observation.result)


def test_the_middle_of_what_is_too_large_is_left_out() -> None:
    text = "a" * CHARACTERS + "b" * CHARACTERS
    for value, least in ((text, 1), ([text, text], 2), ({"a": text.encode()}, 1)):
        plain = str(outcome_of(value).value)
        assert len(plain) < 1.1 * CHARACTERS
        assert plain.count("characters left out") == least
    assert outcome_of("a" * 1000).value == "a" * 1000


def test_what_is_bulky() -> None:
    assert not bulky({"a": ["b" * 100, 1, None], "c": {"d": "e"}})
    for value in ("a" * 100_000, ["a"] * 10_000, {"a": {"b": ["c" * 100_000]}}, [[1] * 100] * 100):
        assert bulky(value)
