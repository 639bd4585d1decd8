"""Gemini's own format, where it differs from model to model."""

import pytest

from taofold.core.content import Conversation, result_message
from taofold.core.values import Message, Profile, ToolCall
from taofold.runtime.model import Request
from tests.models.conftest import Connect

pytestmark = pytest.mark.anyio
ANSWER = {"json": {"candidates": [{"content": {"parts": [{"text": "3"}]}, "finishReason": "STOP"}]}}


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3.7-flash"])
async def test_behind_results_without_media_nothing_is_made_up(
    connect: Connect, after_tools: Conversation, model: str
) -> None:
    asked, cassette = connect(f"gemini:{model}", ANSWER)
    assert (await asked.complete(Request(after_tools))).text == "3"
    *_, results = cassette.requests[0]["contents"]
    assert results["role"] == "user"
    assert [list(part) for part in results["parts"]] == [["functionResponse"]] * 2


async def test_a_call_without_a_result_is_answered_before_the_person_speaks(
    connect: Connect,
) -> None:
    profile = Profile(window=100_000, window_known=True, native_tools=True)
    asked, cassette = connect("gemini:gemini-2.5-flash", ANSWER, profile=profile)
    calls = (ToolCall("add", '{"a": 1, "b": 2}', "c1"), ToolCall("add", "{}", "c2"))
    messages = [
        Message("user", "Go"),
        Message("assistant", calls),
        result_message("c1", "3"),
        Message("user", "And now?"),
    ]
    await asked.complete(Request(Conversation(messages)))
    *_, results, question = cassette.requests[0]["contents"]
    answered = [part["functionResponse"]["response"] for part in results["parts"]]
    assert answered == [{"output": "3"}, {"output": "(this call was not carried out)"}]
    assert question == {"role": "user", "parts": [{"text": "And now?"}]}
