"""Agents without tools: each format sends the agent's own words, and the reply is the answer."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from taofold import Agent
from taofold.runtime.model import Model
from tests.models.providers.test_agents import Case, Fakes, add, each, one_each

pytestmark = pytest.mark.anyio

KIND, GOAL = "You are kind.", "Say hello."
PROMPTS = ("instructions", "system", "systemInstruction", "messages", "input", "contents")
OFFERS = (
    "tools",
    "tool_choice",
    "toolConfig",
    "response_format",
    "format",
    "text",
    "output_config",
)
CALL = '{"tool": "finish", "parameters": {"answer": "no"}}'
"""An answer that has the form of a call in the text protocol."""


class Greeting(BaseModel):
    """Output type of the runs."""

    word: str
    times: int


def texts(value: Any) -> Iterator[str]:
    """Yields the texts of a part of a request, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each_value in value:
            yield from texts(each_value)
    elif isinstance(value, dict):
        for key in ("text", "parts", "content"):
            yield from texts(value.get(key))


def prompt(body: dict[str, Any]) -> list[str]:
    """Returns all texts that the model reads."""
    return [text for key in PROMPTS if key in body for text in texts(body[key])]


def kind(model: Model, **more: Any) -> Agent[Any, Any]:
    return Agent(model, instructions=KIND, **more)


@each
async def test_the_request_has_no_words_but_the_agents(case: Case, fakes: Fakes) -> None:
    """Mutant: `is_native` is false without tools."""
    model, server = case.connect(fakes)
    server.load([{"say": CALL}])
    result = await kind(model).run(GOAL)
    assert not server.refused()
    assert (result.success, result.output) == (True, CALL)
    [seen] = server.seen()
    assert prompt(seen["body"]) == [KIND, GOAL]
    settings = {"output_config": {"effort": dict(case.options).get("effort")}}
    assert {k: v for k, v in seen["body"].items() if k in OFFERS and v != settings.get(k)} == {}


@each
async def test_without_instructions_only_the_goal_is_sent(case: Case, fakes: Fakes) -> None:
    model, server = case.connect(fakes)
    server.load([{"say": "Hello."}])
    result = await Agent(model).run(GOAL)
    assert not server.refused()
    assert result.output == "Hello."
    assert prompt(server.seen()[0]["body"]) == [GOAL]


@one_each
async def test_an_empty_reply_is_asked_for_again(case: Case, fakes: Fakes) -> None:
    """Mutant: `_read_plain` without its check for an empty text."""
    model, server = case.connect(fakes)
    server.load([{"think": "Hm.", "say": ""}, {"say": "Hello."}])
    result = await kind(model).run(GOAL)
    assert not server.refused()
    assert (result.output, result.metrics.model_calls) == ("Hello.", 2)
    assert prompt(server.seen()[1]["body"])[-1] == "Your reply was empty. Send the answer."


@one_each
async def test_a_refusal_ends_the_run(case: Case, fakes: Fakes) -> None:
    if case.kind == "ollama":
        pytest.skip("it has no word for a refusal")
    model, server = case.connect(fakes)
    server.load([{"refuse": "I will not."}])
    result = await kind(model).run(GOAL)
    assert not result.success
    assert "refuse" in result.error or "filter" in result.error, result.error


@each
async def test_a_typed_answer_is_enforced_or_called_for(case: Case, fakes: Fakes) -> None:
    """A provider that enforces a schema gets it; any other is offered `finish` alone."""
    model, server = case.connect(fakes)
    value = {"word": "Hello", "times": 2}
    enforced = model.profile.json_schema
    calls = {"call": [{"name": "finish", "args": {"answer": value}}]}
    server.load([{"json": value} if enforced else calls])
    result = await kind(model, output=Greeting).run(GOAL)
    assert not server.refused(), server.refused()
    assert (result.success, result.output) == (True, Greeting(word="Hello", times=2))
    [seen] = server.seen()
    assert ("tools" in seen["body"]) != enforced
    assert "times" in json.dumps({key: seen["body"][key] for key in seen["body"].keys() - PROMPTS})
    assert "thought" not in json.dumps([prompt(seen["body"]), seen["body"].get("tools")])


@one_each
async def test_a_session_goes_on_in_plain_text(case: Case, fakes: Fakes) -> None:
    model, server = case.connect(fakes)
    server.load([{"say": "Hello."}, {"say": "Hello again."}])
    agent = kind(model, log="memory")
    first = await agent.run(GOAL, session="s")
    second = await agent.run("Again.", session="s")
    assert not server.refused()
    assert (first.output, second.output) == ("Hello.", "Hello again.")
    assert prompt(server.seen()[1]["body"]) == [KIND, GOAL, "Hello.", "Again."]
    assert (await agent.replay(second.run_id)).success


@one_each
async def test_an_agent_without_tools_takes_a_conversation_over(case: Case, fakes: Fakes) -> None:
    """Mutant: earlier steps are sent as native calls, though nothing is offered."""
    model, server = case.connect(fakes)
    last = Agent(model, name="last", description="Says hello.", instructions=KIND)
    first = Agent(model, name="first", tools=[add], handoffs=[last])
    server.load(
        [
            {"call": [{"name": "add", "args": {"a": 1, "b": 2}}]},
            {"call": [{"name": "transfer_to_last", "args": {}}]},
            {"say": "Hello."},
        ]
    )
    result = await first.run(GOAL)
    assert not server.refused()
    assert (result.success, result.output) == (True, "Hello.")
    body = server.seen()[-1]["body"]
    assert "tools" not in body
    texts_of_last = prompt(body)
    assert texts_of_last[:2] == [KIND, GOAL]
    assert any(text.startswith("Observation: 1 [success] add: 3") for text in texts_of_last)


@one_each
async def test_a_strict_agent_is_still_asked_for_a_thought(case: Case, fakes: Fakes) -> None:
    model, server = case.connect(fakes)
    turn = {"thought": "I greet the user, so that it is polite.", "thought_type": "synthesis",
            "because": [], "learned": "", "action": {"tool": "finish", "rationale": "done",
            "parameters": {"answer": "Hello."}}}  # fmt: skip
    server.load([{"say": json.dumps(turn)}])
    result = await kind(model, strict=True).run(GOAL)
    assert not server.refused()
    assert result.output == "Hello."
    assert '"learned"' in prompt(server.seen()[0]["body"])[0]
