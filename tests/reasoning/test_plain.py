"""Agents without tools on a model with native calls: a plain prompt, and a plain answer."""

import json
from typing import Any

import pytest

from taofold import Agent, tool
from taofold.core.content import ToolCall
from taofold.core.values import Profile, Reply
from taofold.reasoning import Output, Task
from taofold.testing import ScriptedModel

NATIVE = Profile(window=100_000, window_known=True, native_tools=True)
ENFORCES = Profile(window=100_000, window_known=True, native_tools=True, json_schema=True)
CALL = '{"thought": "t", "action": {"tool": "finish", "parameters": {"answer": "no"}}}'


def plain(**more: Any) -> Task:
    return Task(goal="goal", native=True, instructions="Be kind.", **more)


def test_a_task_with_nothing_to_call_is_plain() -> None:
    assert plain().system_prompt() == "Be kind."
    assert not plain(ask_user=True).plain
    typed = plain(output=Output(int), enforces_schema=True)
    assert typed.system_prompt() == (
        "Be kind.\n\nReply with one JSON value of this type and nothing else: int"
    )
    assert not plain(output=Output(int)).plain


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (CALL, CALL),
        (
            "Thought: x\nAction: look\nAction Input: {}",
            "Thought: x\nAction: look\nAction Input: {}",
        ),
        ("The moon.\n\nObservation: it is full.", "The moon.\n\nObservation: it is full."),
        ("<think>Hm.</think>Hello.", "Hello."),
        ("```json\n{}\n```", "```json\n{}\n```"),
    ],
)
def test_the_whole_text_is_the_answer(text: str, answer: str) -> None:
    """Mutant: the text is read as a reply of the text protocol."""
    model = ScriptedModel([text], NATIVE)
    result = Agent(model).run_sync("Go.")
    assert (result.success, result.output, result.stop_reason) == (True, answer, "no_tool_call")
    assert (model.requests[0].request.tools, model.requests[0].request.schema) == ((), None)


@pytest.mark.parametrize(
    ("reply", "feedback"),
    [
        (Reply(" "), "Your reply was empty. Send the answer."),
        (Reply("<think>Hm."), "The reply ends inside its reasoning."),
        (Reply("Hel", finish="length"), "The reply was cut off before it was complete."),
    ],
)
def test_an_incomplete_reply_is_asked_for_again(reply: Reply, feedback: str) -> None:
    model = ScriptedModel([reply, "Hello."], NATIVE)
    assert Agent(model).run_sync("Go.").output == "Hello."
    assert model.requests[1].last.startswith(feedback)


def test_three_empty_replies_end_the_run() -> None:
    result = Agent(ScriptedModel(["", "", ""], NATIVE)).run_sync("Go.")
    assert not result.success
    assert result.error == "no usable reply in 3 attempts: Your reply was empty. Send the answer."


def test_a_typed_answer_is_read_from_the_reply() -> None:
    model = ScriptedModel(['{"answer": "x"}', "7"], ENFORCES)
    result = Agent(model, output=int).run_sync("Go.")
    assert (result.success, result.output) == (True, 7)
    assert [each.request.schema for each in model.requests] == [{"type": "integer"}] * 2
    assert model.requests[0].request.tools == ()


def test_a_typed_answer_is_a_call_where_no_schema_is_enforced() -> None:
    call = ToolCall("finish", json.dumps({"answer": 7}), "c1")
    model = ScriptedModel([Reply(calls=(call,))], NATIVE)
    assert Agent(model, output=int).run_sync("Go.").output == 7
    asked = model.requests[0]
    assert [spec.name for spec in asked.request.tools] == ["finish"]
    assert asked.messages[0].text == "When you are done, call finish with the answer."


def test_an_agent_that_may_ask_is_offered_the_question() -> None:
    model = ScriptedModel(["Hello."], NATIVE)
    assert Agent(model, ask_user=True).run_sync("Go.").output == "Hello."
    assert [spec.name for spec in model.requests[0].request.tools] == ["ask_user"]
    assert [message.role for message in model.requests[0].messages] == ["user"]


def test_a_model_without_native_calls_keeps_the_text_protocol() -> None:
    model = ScriptedModel([CALL])
    assert Agent(model).run_sync("Go.").output == "no"
    assert "Each reply is exactly one JSON object" in model.requests[0].messages[0].text


def test_after_a_hand_off_an_imitated_call_is_no_answer() -> None:
    """Mutant: the last agent's text is the answer, also if it has the form of a call."""

    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    last = Agent("ollama:unused", name="last", description="Answers.")
    replies = [
        Reply(calls=(ToolCall("look", "{}", "c1"),)),
        Reply(calls=(ToolCall("transfer_to_last", "{}", "c2"),)),
        CALL,
    ]
    model = ScriptedModel(replies, NATIVE)
    first = Agent(model, name="first", tools=[look], handoffs=[last.replace(model=model)])
    result = first.run_sync("Go.")
    assert (result.success, result.output) == (True, "no")
    assert model.requests[2].request.tools == ()
    assert not any(message.calls for message in model.requests[2].messages)
