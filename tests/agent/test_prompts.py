"""The prompt of each model call can be shown, and is checked against the log."""

from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, tool
from taofold.core.values import Profile
from taofold.runtime.model import Request
from taofold.testing import ScriptedModel
from taofold.testing.models import FunctionModel
from tests.runtime.kit import act, finish

pytestmark = pytest.mark.anyio


@tool(effect="read")
def look(at: str) -> str:
    """Look at something."""
    return f"seen {at}"


def hearing(replies: list[str], heard: list[Request], **profile: Any) -> FunctionModel:
    """A model that keeps what it is sent."""
    script = iter(replies)

    def say(request: Request) -> str:
        heard.append(request)
        return next(script)

    return FunctionModel(say, profile=Profile(**profile))


STRATEGIES = {
    "react": ([act("look", at="left"), finish("done")], {}),
    "direct": (["an answer"], {"strategy": "direct"}),
    "cot": (['{"thinking": "so", "answer": "done"}'], {"strategy": "cot"}),
}


@pytest.mark.parametrize("name", STRATEGIES)
async def test_the_prompts_are_those_that_the_model_was_sent(name: str, tmp_path: Path) -> None:
    replies, options = STRATEGIES[name]
    heard: list[Request] = []
    agent = Agent(
        hearing(replies, heard),
        tools=[look] if name == "react" else [],
        instructions="Be kind.",
        log=str(tmp_path / "runs.db"),
        **options,
    )
    result = await agent.run("go")
    prompts = await agent.prompts(result)
    assert [prompt.missing for prompt in prompts] == [""] * len(heard)
    for prompt, request in zip(prompts, heard, strict=True):
        # The conversation goes on after the call: its first messages are what was sent.
        assert prompt.messages == tuple(request.conversation[: prompt.length])
        assert "Be kind." in prompt.system
        assert (prompt.tools, prompt.schema) == (request.tools, request.schema)
    assert [prompt.number for prompt in prompts] == list(range(1, len(heard) + 1))


async def test_a_prompt_of_a_changed_agent_is_missing_and_not_another_one(tmp_path: Path) -> None:
    model = ScriptedModel([act("look", at="left"), finish("done")])
    agent = Agent(model, tools=[look], log=str(tmp_path / "runs.db"))
    result = await agent.run("go")
    prompts = await agent.replace(instructions="Be rude.").prompts(result)
    assert len(prompts) == 2
    for prompt in prompts:
        assert prompt.missing.startswith("the agent has changed since")
        assert prompt.messages == ()


async def test_a_failed_call_has_its_prompt_too() -> None:
    from taofold.core.errors import ModelError

    def fails(request: Request) -> str:
        raise ModelError("away", kind="server")

    agent = Agent(FunctionModel(fails), log="memory")
    result = await agent.run("go")
    assert not result.success
    (prompt,) = await agent.prompts(result)
    assert (prompt.missing, prompt.digest) == ("", "")
    assert prompt.messages[-1].text == "go"


async def test_later_prompts_share_their_beginning_with_those_before() -> None:
    model = ScriptedModel([act("look", at="left"), act("look", at="right"), finish("done")])
    agent = Agent(model, tools=[look], log="memory")
    first, second, third = await agent.prompts(await agent.run("go"))
    assert second.shared_with(first) == first.length
    assert third.shared_with(second) == second.length > first.length
