"""Conversations of runs as messages of OpenAI's and Anthropic's SDKs.

`conversation` builds messages from a run's records: its history, its goal, each step as a call with
its results, and the answer. `openai_messages` and `anthropic_messages` convert them to the SDKs'
dictionaries. `taofold.agent.history` reads both. Media stored in the log become a line of text,
because a result is read without its log.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from taofold.core import events as e
from taofold.core.content import (
    MediaPart,
    Part,
    TextPart,
    ToolCall,
    ToolResult,
    content_of,
)
from taofold.core.json_values import is_object, render
from taofold.core.state import RunState, live, reduce
from taofold.core.values import FINISH, THOUGHT_PLACEHOLDER, Message, Step

Shape: TypeAlias = Literal["openai", "anthropic"]
"""Format of messages: OpenAI's Chat Completions or Anthropic's Messages."""
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]")
"""Characters that neither provider accepts in the name or the id of a call."""


def conversation(records: Iterable[e.Record]) -> list[Message]:
    """Returns the messages of a run, from its live records."""
    messages: list[Message] = []
    state = RunState()
    for record in live(list(records)):
        steps = len(state.steps)
        state = reduce(state, record)
        match record.event:
            case e.RunStarted() as started:
                messages += [*started.history, Message("user", started.content)]
            case e.Steered() as steered:
                messages.append(Message("user", steered.content))
            case _:
                # A result must follow its call, so a message that came during a step goes before
                # it.
                for step in state.steps[steps:]:
                    messages += _of_step(step)
    if state.output is not None:
        messages.append(Message("assistant", render(state.output)))
    return _renumbered(messages)


def _of_step(step: Step) -> list[Message]:
    pairs = [
        (ToolCall(action.tool, render(action.parameters), action.id), observation)
        for action, observation in zip(step.actions, step.observations, strict=True)
        if action.tool != FINISH
    ]
    if not pairs:
        return []
    thought = "" if step.thought.content.startswith(THOUGHT_PLACEHOLDER) else step.thought.content
    text: list[Part] = [TextPart(thought)] if thought else []
    messages = [Message("assistant", (*text, *[call for call, _ in pairs]))]
    for call, observation in pairs:
        failed = observation.status in ("failure", "timeout")
        result = ToolResult(call.id, observation.parts or render(observation.result), failed)
        messages.append(Message("tool", (result,)))
    return messages


def _renumbered(messages: Sequence[Message]) -> list[Message]:
    """Returns the messages with a unique id for each call and its result."""
    used: set[str] = set()
    waiting: list[tuple[str, str]] = []
    """Calls without a result yet: their id in the run, and the id that both providers accept."""
    written: list[Message] = []
    for message in messages:
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolCall):
                name = _FOREIGN.sub("_", part.id)[:64]
                if not name or name in used:
                    name = f"call_{len(used) + 1}"
                    while name in used:
                        name += "_"
                used.add(name)
                waiting.append((part.id, name))
                parts.append(ToolCall(part.name, part.arguments, name))
            elif isinstance(part, ToolResult):
                found = next((each for each in waiting if each[0] == part.id), None)
                if found is None:
                    continue
                waiting.remove(found)
                parts.append(ToolResult(found[1], part.content, part.error))
            else:
                parts.append(part)
        written.append(Message(message.role, content_of(parts)))
    return written


def openai_messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Returns the messages in the format of Chat Completions."""
    written: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "tool":
            written += [
                {"role": "tool", "tool_call_id": result.id, "content": result.text}
                for result in message.results
            ]
            continue
        entry: dict[str, Any] = {"role": message.role, "content": message.shown or None}
        if message.role == "user" and any(media.url for media in message.media):
            entry["content"] = [_openai_part(part) for part in message.parts]
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": _name(call), "arguments": call.arguments},
            }
            for call in message.calls
        ]
        written.append(entry | ({"tool_calls": calls} if calls else {}))
    return written


def anthropic_messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Returns the messages in the format of Anthropic's Messages API."""
    written: list[dict[str, Any]] = []
    for message in messages:
        role = "user" if message.role == "tool" else message.role
        blocks = [block for part in message.parts if (block := _block(part)) is not None]
        plain = len(blocks) == 1 and blocks[0]["type"] == "text"
        content: Any = blocks[0]["text"] if plain else blocks
        # All results of one turn belong in one user message.
        if message.role == "tool" and written and _holds_results(written[-1]):
            written[-1]["content"] += blocks
        elif content:
            written.append({"role": role, "content": content})
    return written


def _holds_results(message: dict[str, Any]) -> bool:
    content: Any = message["content"]
    return not isinstance(content, str) and bool(content[-1]["type"] == "tool_result")


def _openai_part(part: Part) -> dict[str, Any]:
    if isinstance(part, MediaPart) and part.kind == "image" and part.url:
        return {"type": "image_url", "image_url": {"url": part.url}}
    return {"type": "text", "text": part.line if isinstance(part, MediaPart) else _text(part)}


def _block(part: Part) -> dict[str, Any] | None:
    match part:
        case ToolCall():
            return {"type": "tool_use", "id": part.id, "name": _name(part), "input": _input(part)}
        case ToolResult():
            content = [block for inner in part.parts if (block := _block(inner)) is not None]
            block = {"type": "tool_result", "tool_use_id": part.id, "content": content}
            return block | ({"is_error": True} if part.error else {})
        case MediaPart() if part.url and part.kind in ("image", "document"):
            return {"type": part.kind, "source": {"type": "url", "url": part.url}}
        case MediaPart():
            return {"type": "text", "text": part.line}
        case _:
            text = _text(part)
            return {"type": "text", "text": text} if text.strip() else None


def _text(part: Part) -> str:
    return part.text if isinstance(part, TextPart) else ""


def _name(call: ToolCall) -> str:
    return _FOREIGN.sub("_", call.name)[:64] or "tool"


def _input(call: ToolCall) -> dict[str, Any]:
    """Returns the arguments as an object, also if the model wrote something else."""
    try:
        arguments = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError):
        arguments = None
    return arguments if is_object(arguments) else {"arguments": call.arguments}


SHAPES: Final[Mapping[Shape, Callable[[Iterable[Message]], list[dict[str, Any]]]]] = {
    "openai": openai_messages,
    "anthropic": anthropic_messages,
}
