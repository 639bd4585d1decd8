"""Earlier messages: of a session, and `history=` in common formats."""

import base64
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

import taofold
from taofold import Agent, Message
from taofold.core.content import MediaPart, TextPart, ToolCall, ToolResult, blob_digest
from taofold.core.errors import ConfigError
from taofold.testing import ScriptedModel
from tests.pictures import png

pytestmark = pytest.mark.anyio


async def shown(history: Any) -> list[Message]:
    """Returns the messages between the system's message and the goal."""
    model = ScriptedModel(["It is so."])
    result = await Agent(model).run("And in winter?", history=history)
    assert result.success
    return model.requests[0].messages[1:-1]


@pytest.mark.parametrize(
    "history",
    [
        [Message("user", "How long?"), Message("assistant", "Five hours.")],
        [("user", "How long?"), ("assistant", "Five hours.")],
        [("human", "How long?"), ("ai", "Five hours.")],
        [{"role": "user", "content": "How long?"}, {"role": "assistant", "content": "Five hours."}],
        [
            {"role": "user", "content": [{"type": "text", "text": "How long?"}]},
            {"role": "assistant", "content": [{"type": "output_text", "text": "Five hours."}]},
        ],
    ],
)
async def test_messages_of_many_shapes_are_the_same(history: Any) -> None:
    assert await shown(history) == [
        Message("user", "How long?"),
        Message("assistant", "Five hours."),
    ]


COLD = '{"at":"Oslo"}'
OPENAI = [
    {"role": "user", "content": "How cold?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "t", "arguments": '{"at":"Oslo"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "-5"},
    {"role": "assistant", "content": "Five below."},
]
ANTHROPIC = [
    {"role": "user", "content": "How cold?"},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c1", "name": "t", "input": {"at": "Oslo"}}],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "-5"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "Five below."}]},
]


@pytest.mark.parametrize("history", [OPENAI, ANTHROPIC])
async def test_calls_and_their_results_keep_together(history: Any) -> None:
    _, call, result, answer = await shown(history)
    assert isinstance(call.content[0], ToolCall)
    assert (call.calls[0].name, call.calls[0].id) == ("t", "c1")
    assert "Oslo" in call.calls[0].arguments
    assert result == Message("tool", (ToolResult("c1", "-5"),))
    assert answer == Message("assistant", "Five below.")


async def test_an_image_in_a_result_is_shown() -> None:
    data = base64.b64encode(png()).decode()
    source = {"type": "base64", "media_type": "image/png", "data": data}
    content = [{"type": "text", "text": "see"}, {"type": "image", "source": source}]
    returned = {"type": "tool_result", "tool_use_id": "c1", "content": content}
    history = [*ANTHROPIC[:2], {"role": "user", "content": [returned]}, ANTHROPIC[3]]
    _, _, result, _ = await shown(history)
    (part,) = result.results
    assert [type(piece) for piece in part.parts] == [TextPart, MediaPart]


async def test_an_image_is_kept_with_its_bytes() -> None:
    picture = png()
    data = base64.b64encode(picture).decode()
    openai = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    source = {"type": "base64", "media_type": "image/png", "data": data}
    begun = Agent(ScriptedModel(["A dot."]), log=taofold.MemoryLog())
    run = await begun.begin("What is it?", history=[{"role": "user", "content": [openai]}])
    assert begun.opened_log is not None
    assert await begun.opened_log.blob(blob_digest(picture)) == picture
    assert (await begun.resume(run)).output == "A dot."
    for part in (openai, {"type": "image", "source": source}):
        agent = Agent(ScriptedModel(["A dot."]))
        result = await agent.run("What is it?", history=[{"role": "user", "content": [part]}])
        start: Any = result.records[0].event
        (image,) = start.history[0].content
        assert isinstance(image, MediaPart)
        assert result.log is not None
        assert await result.log.blob(image.digest) == picture


@pytest.mark.parametrize(
    ("history", "words"),
    [
        (["How long?"], r"history\[0\].*role and text"),
        ([("user", "a"), ("boss", "b")], r"history\[1\].*'boss'"),
        ([{"content": "a"}], "None"),
        ([object()], "an object of an SDK, not object"),
        ([{"role": "user", "content": 5}], "int"),
        ([OPENAI[2]], "no call 'c1'"),
        (OPENAI[:2], "no result follows the call 'c1'"),
        ([*OPENAI[:2], {"role": "user", "content": "well?"}], "no result follows"),
        ([{"role": "tool", "content": "5"}], "tool_call_id"),
        ([{"role": "user", "content": [{"type": "image", "source": {"data": "%"}}]}], "base64"),
    ],
)
async def test_what_cannot_be_a_message_is_refused_before_the_first_call(
    history: Any, words: str
) -> None:
    model = ScriptedModel([])
    with pytest.raises(ConfigError, match=words):
        await Agent(model).run("g", history=history)
    assert model.requests == []


class Sdk(BaseModel):
    """An object as the SDKs make it: any fields, and those that it does not set are None."""

    model_config = ConfigDict(extra="allow")
    name: str | None = None


def as_sdk(value: Any) -> Any:
    if isinstance(value, dict):
        return Sdk(**{key: as_sdk(entry) for key, entry in value.items()})
    return [as_sdk(entry) for entry in value] if isinstance(value, list) else value


WAV = base64.b64encode(
    b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\0\0\0\0"
).decode()
RESPONSES = [
    {"role": "user", "content": [{"type": "input_text", "text": "How cold?"}]},
    {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "SEALED"},
    {"type": "web_search_call", "id": "w", "status": "completed", "action": {"query": "Oslo"}},
    {"type": "function_call", "id": "f1", "call_id": "c1", "name": "t", "arguments": "{}"},
    {"type": "function_call", "id": "f2", "call_id": "c2", "name": "t", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "5"},
    {"type": "item_from_next_year", "id": "n", "what": "new"},
    {
        "type": "function_call_output",
        "call_id": "c2",
        "output": [{"type": "input_text", "text": "6"}],
    },
    {
        "type": "message",
        "role": "assistant",
        "id": "m",
        "status": "completed",
        "content": [
            {"type": "output_text", "text": "Five.", "annotations": []},
            {"type": "refusal", "refusal": "No more."},
        ],
    },
]
BLOCKS = [
    {
        "role": "user",
        "content": [
            {"type": "document", "title": "T", "source": {"type": "text", "data": "abc"}},
            {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
            {"type": "search_result", "title": "a", "source": "b", "content": []},
        ],
    },
    {
        "id": "msg",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "stop_reason": "tool_use",
        "content": [
            {"type": "thinking", "thinking": "SEALED", "signature": "SEALED"},
            {"type": "redacted_thinking", "data": "SEALED"},
            {
                "type": "server_tool_use",
                "id": "s",
                "name": "web_search",
                "input": {"query": "Oslo"},
            },
            {
                "type": "web_search_tool_result",
                "tool_use_id": "s",
                "content": [
                    {"type": "web_search_result", "title": "Cold", "encrypted_content": "SEALED"}
                ],
            },
            {"type": "tool_use", "id": "c", "name": "t", "input": {"at": "Oslo"}},
            {"type": "container_upload", "file_id": "f"},
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "c",
                "content": [{"type": "tool_reference", "tool_name": "x"}],
            },
            {"type": "text", "text": "And in winter?"},
        ],
    },
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "SEALED", "signature": ""}]},
]
CHAT = [
    {"role": "assistant", "content": None, "refusal": "I will not."},
    {
        "role": "assistant",
        "content": None,
        "audio": {"id": "a", "data": "", "transcript": "Spoken."},
    },
    {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
    {"role": "function", "name": "f", "content": "1"},
    {
        "role": "assistant",
        "tool_calls": [{"id": "k", "type": "custom", "custom": {"name": "c", "input": "raw"}}],
    },
    {"role": "tool", "tool_call_id": "k", "content": [{"type": "text", "text": "r"}]},
    {
        "role": "user",
        "content": [
            {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
            {"type": "file", "file": {"file_id": "file_1"}},
            {
                "type": "file",
                "file": {"file_data": "data:text/plain;base64,aGk=", "filename": "a.txt"},
            },
            {"type": "part_from_next_year", "words": "new"},
        ],
    },
]


@pytest.mark.parametrize("make", [list, as_sdk], ids=["dictionaries", "objects"])
@pytest.mark.parametrize(
    ("history", "roles", "words"),
    [
        (
            RESPONSES,
            ["user", "assistant", "tool", "tool", "assistant"],
            ["How cold?", "[web_search_call", "Oslo", "[item_from_next_year", "Five.", "No more."],
        ),
        (
            BLOCKS,
            ["user", "assistant", "tool", "user"],
            ["abc", "file_1", "[search_result", "[server_tool_use", "Cold", "[container_upload",
             "[tool_reference", "And in winter?"],
        ),
        (
            CHAT,
            ["assistant", "assistant", "assistant", "tool", "assistant", "tool", "user"],
            ["I will not.", "Spoken.", "raw", "file_1", "hi", "audio/wav", "[part_from_next_year"],
        ),
    ],
    ids=["responses", "anthropic", "chat"],
)  # fmt: skip
async def test_a_history_of_todays_sdks_is_taken(
    history: Any, roles: list[str], words: list[str], make: Any
) -> None:
    messages = await shown(make(history))
    assert [message.role for message in messages] == roles
    for word in words:
        assert word in str(messages)
    assert "SEALED" not in str(messages)


async def test_the_calls_of_a_turn_of_the_responses_api_stand_together() -> None:
    messages = await shown(RESPONSES)
    assert [call.id for call in messages[1].calls] == ["c1", "c2"]
    assert [result.text for message in messages for result in message.results] == ["5", "6"]


async def test_a_whole_response_is_its_messages() -> None:
    chat = {
        "id": "x",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}}],
    }
    items = {"id": "y", "object": "response", "output": RESPONSES[1:5]}
    messages = await shown(as_sdk([chat, items, *RESPONSES[5:6], *RESPONSES[7:8]]))
    assert messages[0] == Message("assistant", "Yes.")
    assert [call.id for call in messages[1].calls] == ["c1", "c2"]


async def test_what_was_said_is_redacted() -> None:
    agent = Agent(ScriptedModel(["ok"]), secrets=["hunter2hunter2"])
    result = await agent.run("g", history=[("user", "my word is hunter2hunter2")])
    assert "hunter2" not in repr(result.records)


@pytest.mark.parametrize("kind", ["memory", "file", "object"])
async def test_a_session_remembers_with_every_log(kind: str, tmp_path: Path) -> None:
    log: Any = {"memory": "memory", "file": str(tmp_path / "a.db"), "object": taofold.MemoryLog()}[
        kind
    ]
    model = ScriptedModel(["Hello Ada.", "You are Ada.", "Still Ada."])
    agent = Agent(model, log=log)
    await agent.run("I am Ada.", session="s")
    await agent.run("Who am I?", session="s")
    await agent.replace(instructions="Be short.").run("And now?", session="s")
    assert ["I am Ada." in asked.text for asked in model.requests] == [True, True, True]
    assert "You are Ada." in model.requests[2].text


async def test_a_session_that_nothing_would_remember_is_refused() -> None:
    model = ScriptedModel([])
    with pytest.raises(ConfigError, match='log="memory"'):
        await Agent(model).run("I am Ada.", session="s")
    assert model.requests == []


async def test_a_run_in_memory_is_found_again_by_its_id() -> None:
    agent = Agent(ScriptedModel(["ok"]), log="memory")
    result = await agent.run("g")
    assert (await agent.replay(result.run_id)).output == "ok"


def test_names_are_completed() -> None:
    assert {"Agent", "Message", "reason", "tool"} <= set(dir(taofold))
