"""What was said before: in a session, and as `history=` in the shapes that people have it in."""

import base64
from pathlib import Path
from typing import Any

import pytest
from tests.pictures import png

import taofold
from taofold import Agent, Message
from taofold.core.content import MediaPart, TextPart, ToolCall, ToolResult, blob_digest
from taofold.core.errors import ConfigError
from taofold.testing import ScriptedModel

pytestmark = pytest.mark.anyio


async def shown(history: Any) -> list[Message]:
    """What the model is told between the system's message and the goal."""
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
        ([{"role": "user", "content": 5}], "int"),
        ([{"role": "user", "content": [{"type": "file_id"}]}], "'file_id'"),
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
    await agent.but(instructions="Be short.").run("And now?", session="s")
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
