"""The text of an answer and the output so far, while they arrive."""

import dataclasses
import json
from typing import Any

import pytest

from taofold import Agent, tool
from taofold.core.content import TextPart, ToolCall
from taofold.core.values import Profile, Reply
from taofold.testing import ScriptedModel

pytestmark = pytest.mark.anyio

LONG = "Oslo is the capital of Norway, and lies at the end of a fjord."
NATIVE = Profile(window=1_000_000, window_known=True, native_tools=True, json_schema=True)


@dataclasses.dataclass
class City:
    name: str
    people: int


@tool(effect="read")
def look(what: str) -> str:
    """Look."""
    return f"seen {what}"


async def texts(agent: Agent[Any, Any]) -> tuple[list[str], Any]:
    stream = agent.stream("g")
    return [piece async for piece in stream.text()], stream.result


@pytest.mark.parametrize("strategy", ["react", "direct"])
async def test_an_answer_in_prose_comes_piece_by_piece(strategy: str) -> None:
    pieces, result = await texts(Agent(ScriptedModel([LONG]), strategy=strategy))
    assert len(pieces) > 2
    assert "".join(pieces) == result.output == LONG


async def test_neither_thought_nor_call_nor_envelope_is_text() -> None:
    call = 'Thought: I should look first.\nAction: look\nAction Input: {"what": "x"}'
    answer = f"Thought: Now I know what I need.\nFinal Answer: {LONG}"
    pieces, result = await texts(Agent(ScriptedModel([call, answer]), tools=[look]))
    assert "".join(pieces) == result.output == LONG


async def test_words_before_a_native_call_are_a_paragraph_of_their_own() -> None:
    first = Reply(parts=(TextPart("Let me look first."), ToolCall("look", '{"what":"x"}', "c1")))
    pieces, result = await texts(Agent(ScriptedModel([first, LONG], NATIVE), tools=[look]))
    assert "".join(pieces) == f"Let me look first.\n\n{LONG}"
    assert result.output == LONG


async def test_a_child_is_not_heard() -> None:
    child = Agent(ScriptedModel(["what the child says"]), name="child", description="Asks.")
    first = Reply(parts=(ToolCall("child", '{"goal":"x"}', "c1"),))
    pieces, _ = await texts(Agent(ScriptedModel([first, LONG], NATIVE), tools=[child]))
    assert "".join(pieces) == LONG


async def test_a_strategy_of_many_replies_gives_its_answer_at_the_end() -> None:
    model = ScriptedModel([LONG, '{"score": 1.0, "critique": "good"}', LONG, LONG])
    pieces, result = await texts(Agent(model, strategy="self_correct"))
    assert result.output is not None
    assert pieces == [result.output]


@pytest.mark.parametrize("profile", [NATIVE, None])
async def test_partials_grow_into_the_typed_output(profile: Profile | None) -> None:
    script = [json.dumps({"name": "Oslo", "people": 700_000})]
    model = ScriptedModel(script, profile) if profile else ScriptedModel(script)
    stream = Agent(model, output=City).stream("g")
    seen = [value async for value in stream.partials(every=0)]
    assert seen[0] == {"name": "Oslo"}
    assert seen[-1] == stream.result.output == City("Oslo", 700_000)


async def test_a_stream_is_iterated_once() -> None:
    stream = Agent(ScriptedModel([LONG, LONG])).stream("g")
    assert [_ async for _ in stream.text()]
    with pytest.raises(RuntimeError, match="once"):
        assert [_ async for _ in stream.text()]


async def test_leaving_early_ends_the_run() -> None:
    stream = Agent(ScriptedModel([LONG])).stream("g")
    text = stream.text()
    assert await anext(text)
    await text.aclose()
    with pytest.raises(RuntimeError, match="not ended"):
        _ = stream.result
