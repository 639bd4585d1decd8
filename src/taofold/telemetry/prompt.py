"""Prompts and replies as span attributes, in the messages of the GenAI conventions.

The JSON is bounded (`Lengths`) and without secrets (`Disclosure`). A prompt that is too long is cut
between messages. A text is cut to its ends and its error lines, never in the middle of JSON.

A log holds the digest of each prompt and everything it was made of, but not the prompt. For a
stored run (`prompts_of`) its agent is driven once more, offline (`agent.prompts`). A prompt is used
only if its digest matches the recorded one.
"""

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, assert_never

import msgspec

from taofold.agent import Agent
from taofold.core.content import (
    MediaPart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
)
from taofold.core.text import excerpt
from taofold.log.log import Log
from taofold.policy.redaction import Redactor
from taofold.runtime.model import Request, ToolSpec

TEXT: Final = 32_000
"""Maximum characters of one text. Longer ones are cut to their ends and their error lines."""
LONGEST_PROMPT: Final = 128_000
"""Default maximum characters of an attribute. The environment may set another one."""
_LENGTHS: Final = ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT")


class Lengths(NamedTuple):
    """The longest text and the longest attribute, in characters."""

    text: int = TEXT
    attribute: int = LONGEST_PROMPT

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> "Lengths":
        """Returns the lengths that OpenTelemetry's variables set."""
        named = [environment.get(name, "").strip() for name in _LENGTHS]
        length = next(
            (int(value) for value in named if value.isdecimal() and int(value)), LONGEST_PROMPT
        )
        # Half, so that the first and the last message of a prompt fit.
        return cls(min(TEXT, max(length // 2, 1)), length)


class Disclosure:
    """Discloses content: redacted, and cut to `bounds`."""

    def __init__(self, redactor: Redactor, bounds: Lengths | None = None) -> None:
        self.redactor, self.bounds = redactor, bounds or Lengths()
        # Each prompt of a run repeats the earlier messages, and most have the same tools.
        self.message = lru_cache(maxsize=512)(self._message)
        """Returns the JSON of a message."""
        self._tools: tuple[ToolSpec, ...] = ()
        self._definitions = ""

    def text(self, value: str) -> str:
        """Returns a text, redacted and cut."""
        return excerpt(self.redactor.text(value), self.bounds.text)

    def json(self, value: Any) -> str:
        """Returns a value as JSON, redacted. A long one becomes an excerpt as a JSON string."""
        # Redacted before it is cut, because a secret across the cut would not be recognised.
        whole = _encode(self.redactor.json(value))
        if len(whole) <= self.bounds.attribute:
            return whole
        return _encode(excerpt(whole, self.bounds.text))

    def definitions(self, tools: tuple[ToolSpec, ...]) -> str:
        """Returns the JSON of tools."""
        if tools is not self._tools:
            self._tools = tools
            self._definitions = self.json([definition(tool) for tool in tools])
        return self._definitions

    def _message(self, message: Message) -> str:
        return _encode(message_of(message, self))


class Prompt(NamedTuple):
    """The messages and tools of one model call.

    `exact` is True if it was sent like this. Otherwise it was rebuilt from the log.
    """

    messages: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    temperature: float | None = None
    max_tokens: int = 0
    exact: bool = False

    def system(self, content: Disclosure) -> list[dict[str, Any]]:
        """Returns the leading system texts of the conversation, as parts."""
        leading = self.messages[: self._leading()]
        return [{"type": "text", "content": content.text(message.shown)} for message in leading]

    def input(self, content: Disclosure) -> str:
        """Returns the other messages as JSON: the first, and the last ones that fit.

        The work is bounded by the available length, for conversations of any length.
        """
        messages = self.messages[self._leading() :]
        if not messages:
            return "[]"
        first, *rest = messages
        head, tail = [content.message(first)], list[str]()
        room = content.bounds.attribute - 2 - len(head[0])
        for message in reversed(rest):
            encoded = content.message(message)
            room -= len(encoded) + 1
            if room < 0:
                head.append(_encode(_left_out(len(rest) - len(tail))))
                break
            tail.append(encoded)
        return f"[{','.join([*head, *reversed(tail)])}]"

    def definitions(self, content: Disclosure) -> str:
        """Returns the natively offered tools as JSON, or ""."""
        return content.definitions(self.tools) if self.tools else ""

    def _leading(self) -> int:
        others = (n for n, message in enumerate(self.messages) if message.role != "system")
        return next(others, len(self.messages))


def prompt_of(request: Request) -> Prompt:
    """Returns the prompt of a request."""
    settings = request.asked()
    return Prompt(
        tuple(request.conversation),
        request.tools,
        settings.temperature,
        settings.max_tokens,
        exact=True,
    )


def definition(tool: ToolSpec) -> dict[str, Any]:
    """Returns a tool in the form of the conventions."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }


def message_of(message: Message, content: Disclosure) -> dict[str, Any]:
    """Returns a message in the form of the conventions."""
    parts = [encoded for part in message.parts if (encoded := part_of(part, content)) is not None]
    return {"role": message.role, "parts": parts}


def part_of(part: Part, content: Disclosure) -> dict[str, Any] | None:
    """Returns a part in the form of the conventions, or None if only its issuer can read it.

    Bytes of media stay in the log. A part refers to them by their digest, as a file.
    """
    match part:
        case TextPart():
            return {"type": "text", "content": content.text(part.text)}
        case ThinkingPart():
            return {"type": "reasoning", "content": content.text(part.text)}
        case ToolCall():
            return call_of(part, content)
        case ToolResult():
            response = content.text(part.text)
            return {"type": "tool_call_response", "id": part.id, "response": response}
        case MediaPart():
            kind = {"modality": part.kind, "mime_type": part.media_type}
            if part.url:
                return {"type": "uri", **kind, "uri": content.text(part.url)}
            return {"type": "file", **kind, "file_id": part.digest}
        case OpaquePart():
            return None
        case _:
            assert_never(part)


def call_of(call: ToolCall, content: Disclosure) -> dict[str, Any]:
    """Returns a tool call as a part. Arguments that are not JSON stay text."""
    return {
        "type": "tool_call",
        "id": call.id,
        "name": content.text(call.name),
        "arguments": arguments_of(call.arguments, content),
    }


def arguments_of(text: str, content: Disclosure) -> Any:
    """Returns a model's arguments, redacted."""
    if len(text) <= content.bounds.text:
        try:
            return content.redactor.json(msgspec.json.decode(text))
        except msgspec.MsgspecError:
            pass
    return content.text(text)


def _left_out(count: int) -> dict[str, Any]:
    text = f"[{count} messages are left out here: the prompt is longer than this attribute]"
    return {"role": "system", "parts": [{"type": "text", "content": text}]}


def _encode(value: Any) -> str:
    return msgspec.json.encode(value).decode()


async def prompts_of(agent: Agent[Any, Any], log: Log, run: str) -> dict[str, Prompt]:
    """Returns the prompts of a stored run by digest, without those that `agent` no longer makes.

    Asks no model and writes nothing.
    """
    return {
        sent.digest: Prompt(
            tuple(sent.messages),
            sent.tools,
            sent.settings.temperature,
            sent.settings.max_tokens,
            exact=True,
        )
        for sent in await agent.replace(log=log).prompts(run)
        if sent.digest and not sent.missing
    }
