"""The prompt in a trace is the prompt that was sent: whole, in order, valid JSON."""

import json
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from taofold import Agent, MemoryLog
from taofold.core.content import (
    MediaPart,
    OpaquePart,
    TextPart,
    ThinkingPart,
    ToolResult,
    result_message,
)
from taofold.core.errors import ModelError
from taofold.core.values import Message, Profile, ToolCall
from taofold.policy.redaction import Redactor
from taofold.telemetry import otel
from taofold.telemetry.attributes import attributes
from taofold.telemetry.projection import spans_of
from taofold.telemetry.prompt import Disclosure, Lengths, Prompt, prompts_of
from taofold.telemetry.spans import ModelSpan
from taofold.telemetry.traced_log import TracedLog
from taofold.testing.models import FunctionModel
from tests.runtime.kit import Memo, finish
from tests.telemetry.kit import add, calculator, capturing, family, told

pytestmark = pytest.mark.anyio


def heard(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Role and text of every message of a prompt in a trace."""
    system = [("system", one["content"]) for one in json.loads(facts["gen_ai.system_instructions"])]
    rest = json.loads(facts["gen_ai.input.messages"])
    return system + [(one["role"], "".join(map(spoken, one["parts"]))) for one in rest]


def spoken(part: dict[str, Any]) -> str:
    return part["response"] if part["type"] == "tool_call_response" else part["content"]


async def test_every_chat_has_the_whole_prompt_that_was_sent():
    with capturing() as server:
        agent = calculator(log=otel.traced("memory", endpoint=server.url, content=True),
                           approve="all")  # fmt: skip
        await agent.run("what is 2 + 3?")
        await agent.log.close()
        chats = [told(one) for one in server.spans() if one.name == "chat gpt-test"]
    sent = [[(one.role, one.content) for one in prompt] for prompt in agent.model.asked]
    assert [heard(one) for one in chats] == sent
    assert len(sent) == 4
    assert sent[3][: len(sent[0])] == sent[0]
    assert {one["taofold.prompt"] for one in chats} == {"sent"}


async def test_a_stored_run_has_the_same_prompts_if_its_agent_still_makes_them():
    log = MemoryLog()
    result = await calculator(log=log, approve="all").run("what is 2 + 3?")
    content = Disclosure(Redactor())
    agent = calculator("the script is over", log=log, approve="all")
    prompts = await prompts_of(agent, log, result.run_id)
    exact = [attributes(one, content) for one in spans_of(result.records, prompts=prompts)
             if isinstance(one, ModelSpan)]  # fmt: skip
    assert {one["taofold.prompt"] for one in exact} == {"sent"}
    with capturing() as server:
        live = calculator(log=otel.traced("memory", endpoint=server.url, content=True),
                          approve="all")  # fmt: skip
        await live.run("what is 2 + 3?")
        await live.log.close()
        chats = [told(one) for one in server.spans() if one.name == "chat gpt-test"]
    assert [heard(one) for one in exact] == [heard(one) for one in chats]
    # Another prompt has another digest: it is not taken for the one that was sent.
    other = agent.replace(instructions="Calculate twice.")
    assert await prompts_of(other, log, result.run_id) == {}
    spans = spans_of(result.records, prompts={})
    shown = [attributes(one, content) for one in spans if isinstance(one, ModelSpan)]
    assert {one["taofold.prompt"] for one in shown} == {"rebuilt"}
    assert heard(shown[0]) == [("system", "Calculate."), ("user", "what is 2 + 3?")]
    assert len(heard(shown[3])) > len(heard(shown[2])) > len(heard(shown[0])), "the whole history"


async def test_tools_that_were_offered_natively_are_told():
    down = ModelError("down", kind="server")
    model = Memo([down], name="openai:gpt-test", profile=Profile(native_tools=True))
    with capturing() as server:
        log = otel.traced("memory", endpoint=server.url, content=True)
        await Agent(model, tools=[add], log=log).run("add")
        await log.close()
        [chat] = [one for one in server.spans() if one.name.startswith("chat")]
    facts = told(chat)
    definitions = json.loads(facts["gen_ai.tool.definitions"])
    [tool] = [one for one in definitions if one["name"] == "add"]
    assert tool == {
        "type": "function", "name": "add", "description": "Add two numbers.",
        "parameters": add.schema,
    }  # fmt: skip
    assert facts["taofold.prompt"] == "sent"
    assert "gen_ai.output.messages" not in facts, "there was no reply"


def long_talk(count: int) -> list[Message]:
    turns = [Message("system", "S" * 900), Message("user", "the goal")]
    for n in range(count):
        call = ToolCall("look", json.dumps({"text": '"' * 300, "n": n}), f"c{n}")
        turns += [Message("assistant", (call,)), result_message(f"c{n}", f"{n}: " + "é\n" * 400)]
    return turns


@pytest.mark.parametrize("limit", [300, 5_000, 40_000, 10_000_000])
def test_a_prompt_of_any_length_is_valid_json_within_its_bound(limit):
    talk = long_talk(60)
    bounds = Lengths.of({"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": str(limit)})
    prompt, content = Prompt(tuple(talk)), Disclosure(Redactor(), bounds)
    text = prompt.input(content)
    messages = json.loads(text)
    [system] = prompt.system(content)
    assert system["content"].startswith("S")
    assert messages[0]["parts"][0]["content"] == "the goal"
    if limit == 10_000_000:
        assert len(messages) == len(talk) - 1
        assert messages[1]["parts"][0]["arguments"] == {"text": '"' * 300, "n": 0}
        return
    assert len(text) <= limit + 200
    assert "messages are left out here" in messages[1]["parts"][0]["content"]
    left = int(messages[1]["parts"][0]["content"].split()[0][1:])
    assert left == len(talk) - 1 - (len(messages) - 1)
    if limit > 300:
        assert messages[-1]["parts"][0]["response"].startswith("59: ")


def test_a_single_long_text_is_cut_within_its_json_string():
    prompt = Prompt((Message("user", '"quoted"\n' * 50_000),))
    [message] = json.loads(prompt.input(Disclosure(Redactor())))
    assert len(message["parts"][0]["content"]) < 33_000


def test_each_part_of_a_message_has_the_form_of_the_conventions():
    picture = MediaPart("image", "image/png", digest="5a0c", size=70)
    linked = MediaPart("document", "application/pdf", url="https://example.org/a.pdf")
    talk = [
        Message("user", (TextPart("look"), picture, linked)),
        Message("assistant", (
            OpaquePart('{"encrypted": "..."}', "reasoning"), ThinkingPart("I think."),
            TextPart("I look."), ToolCall("look", '{"at": 1}', "c1"),
        )),
        Message("tool", (ToolResult("c1", (TextPart("here:"), picture)),)),
    ]  # fmt: skip
    said = json.loads(Prompt(tuple(talk)).input(Disclosure(Redactor())))
    assert said == [
        {"role": "user", "parts": [
            {"type": "text", "content": "look"},
            {"type": "file", "modality": "image", "mime_type": "image/png", "file_id": "5a0c"},
            {"type": "uri", "modality": "document", "mime_type": "application/pdf",
             "uri": "https://example.org/a.pdf"},
        ]},
        {"role": "assistant", "parts": [
            {"type": "reasoning", "content": "I think."},
            {"type": "text", "content": "I look."},
            {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"at": 1}},
        ]},
        {"role": "tool", "parts": [
            {"type": "tool_call_response", "id": "c1",
             "response": f"here:\n{picture.line}"},
        ]},
    ]  # fmt: skip


def test_no_length_or_a_silly_one_is_the_default():
    assert Lengths.of({}) == Lengths()
    assert Lengths.of({"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "many"}) == Lengths()
    assert Lengths.of({"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "0"}) == Lengths()
    assert Lengths.of({"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "1000"}) == Lengths(500, 1000)


def test_a_message_is_redacted_and_encoded_once_however_many_prompts_it_is_in():
    seen: list[str] = []

    class Counting(Redactor):
        def text(self, text: str) -> str:
            seen.append(text)
            return super().text(text)

    talk = tuple([Message("user", f"message {n}") for n in range(100)])
    content = Disclosure(Counting())
    for length in range(1, 101):
        Prompt(talk[:length]).input(content)
    assert len(seen) == 100


def test_the_work_for_a_prompt_is_bounded_by_its_room_and_not_by_the_conversation():
    """Mutant: encode all messages before the last ones are chosen."""
    seen: list[str] = []

    class Counting(Redactor):
        def text(self, text: str) -> str:
            seen.append(text)
            return super().text(text)

    talk = tuple([Message("user", f"message {n}") for n in range(10_000)])
    Prompt(talk).input(Disclosure(Counting(), Lengths(500, 1000)))
    assert len(seen) < 30


async def test_the_transcript_of_a_run_may_grow_while_its_spans_wait():
    """Each span has the prompt of its own call, however late it is read."""
    kept: list[Any] = []

    class Late:
        def export(self, spans: Any) -> None:
            kept.extend(spans)

        def close(self) -> None:
            pass

    log = TracedLog(MemoryLog(), Late())
    agent = calculator(log=log, approve="all")
    await agent.run("what is 2 + 3?")
    chats = [one for one in kept if isinstance(one, ModelSpan)]
    sent = [[(one.role, one.content) for one in prompt] for prompt in agent.model.asked]
    assert [heard(attributes(one, Disclosure(Redactor()))) for one in chats] == sent
    assert log._prompts == {}


async def test_nothing_is_kept_of_prompts_where_content_stays_at_home():
    seen: list[int] = []
    log = otel.traced("memory", exporter=InMemorySpanExporter(), content=False)

    def reply(request: Any) -> str:
        seen.append(len(log._prompts))
        return finish("5")

    await Agent(FunctionModel(reply), log=log).run("what is 2 + 3?")
    assert seen == [0]


async def test_a_child_runs_prompts_are_its_own():
    with capturing() as server:
        log = otel.traced("memory", endpoint=server.url, content=True)
        await family(log).run("ask the helper")
        await log.close()
        chats = [told(one) for one in server.spans() if one.name.startswith("chat")]
    goals = {one["gen_ai.agent.name"]: heard(one) for one in chats}
    assert goals["helper"][1][1].startswith("what is 1 + 1?")
    assert goals["parent"][1][1].startswith("ask the helper")
