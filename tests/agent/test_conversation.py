"""The conversation of a run, in the shapes of OpenAI's and Anthropic's SDKs, and back again."""

from typing import Any, Literal, NotRequired

import pytest
from pydantic import BaseModel, ConfigDict, TypeAdapter
from typing_extensions import TypedDict

from taofold import Agent, Image, Outcome, RunResult, tool
from taofold.core.errors import ConfigError
from taofold.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Function(Closed):
    name: str
    arguments: str


class Call(Closed):
    id: str
    type: Literal["function"]
    function: Function


class UserChat(TypedDict):
    role: Literal["user", "system"]
    content: str | list[dict[str, Any]]


class AssistantChat(TypedDict):
    role: Literal["assistant"]
    content: str | None
    tool_calls: NotRequired[list[Call]]


class ToolChat(TypedDict):
    role: Literal["tool"]
    tool_call_id: str
    content: str


class TextBlock(Closed):
    type: Literal["text"]
    text: str


class ToolUse(Closed):
    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


class Source(Closed):
    type: Literal["url"]
    url: str


class ImageBlock(Closed):
    type: Literal["image"]
    source: Source


class Result(Closed):
    type: Literal["tool_result"]
    tool_use_id: str
    content: list[TextBlock | ImageBlock]
    is_error: bool = False


class AnthropicMessage(Closed):
    role: Literal["user", "assistant"]
    content: str | list[TextBlock | ToolUse | ImageBlock | Result]


DOCUMENTED: dict[str, TypeAdapter[Any]] = {
    "openai": TypeAdapter(list[UserChat | AssistantChat | ToolChat]),
    "anthropic": TypeAdapter(list[AnthropicMessage]),
}
"""The shapes as the providers' references describe them."""


@tool(effect="read")
def look(at: str) -> str:
    """Looks at a place."""
    if at == "Mars":
        raise ValueError("too far away")
    return f"-5 in {at}"


@tool(effect="read", name="sky.look")
def sky() -> Outcome:
    """Shows the sky."""
    return Outcome(["blue", Image(url="https://example.org/sky.png")])


BATCH = (
    '{"thought": "I look.", "actions": ['
    '{"tool": "look", "parameters": {"at": "Oslo"}},'
    '{"tool": "look", "parameters": {"at": "Mars"}},'
    '{"tool": "sky.look", "parameters": {}}]}'
)


async def told() -> RunResult:
    agent = Agent(ScriptedModel([BATCH, "It is cold."]), tools=[look, sky])
    earlier = [
        ("user", "Hello"),
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c 1", "function": {"name": "t", "arguments": "5"}}],
        },
        {"role": "tool", "tool_call_id": "c 1", "content": "x"},
    ]
    goal = ["How cold?", Image(url="https://example.org/oslo.png")]
    return await agent.run(goal, history=earlier)


@pytest.mark.parametrize("shape", ["openai", "anthropic"])
async def test_a_conversation_has_the_documented_shape(shape: Any) -> None:
    messages = (await told()).messages(shape)
    DOCUMENTED[shape].validate_python(messages)
    assert messages[0] == {"role": "user", "content": "Hello"}
    assert messages[-1] == {"role": "assistant", "content": "It is cold."}
    assert "oslo.png" in str(messages)
    assert "sky_look" in str(messages)


async def test_calls_and_results_keep_their_ids_and_their_order() -> None:
    result = await told()
    chat = result.messages("openai")
    assert [m["role"] for m in chat] == (
        ["user", "assistant", "tool", "user", "assistant", "tool", "tool", "tool", "assistant"]
    )
    calls = [call["id"] for call in chat[4]["tool_calls"]]
    assert calls == [m["tool_call_id"] for m in chat[5:8]]
    assert len({*calls, chat[1]["tool_calls"][0]["id"]}) == 4
    assert chat[4]["content"] == "I look."
    blocks = result.messages("anthropic")
    assert [m["role"] for m in blocks] == (
        ["user", "assistant", "user", "user", "assistant", "user", "assistant"]
    )
    assert [block.get("is_error", False) for block in blocks[5]["content"]] == [False, True, False]
    assert blocks[1]["content"][0]["input"] == {"arguments": "5"}


@pytest.mark.parametrize("shape", ["openai", "anthropic"])
async def test_a_conversation_is_read_back_as_it_was_written(shape: Any) -> None:
    messages = (await told()).messages(shape)
    again = await Agent(ScriptedModel(["Yes."])).run("Sure?", history=messages)
    assert again.messages(shape)[:-2] == messages
    assert again.messages(shape)[-2:] == [
        {"role": "user", "content": "Sure?"},
        {"role": "assistant", "content": "Yes."},
    ]


async def test_a_run_without_an_answer_ends_with_what_came_last() -> None:
    agent = Agent(ScriptedModel(["{}", "{}", "{}"]), output=int)
    result = await agent.run("How many?")
    assert not result.success
    assert result.messages() == [{"role": "user", "content": "How many?"}]


async def test_another_shape_is_refused() -> None:
    wrong: Any = "gemini"
    with pytest.raises(ConfigError, match="shape: is one of openai, anthropic, not 'gemini'"):
        (await told()).messages(wrong)
