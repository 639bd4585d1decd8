"""Prompts and replies as span attributes: the messages that a model was sent, in the form of the
GenAI conventions, as bounded JSON (`Lengths`), without secrets (`Disclosure`).

A message is encoded once, however many prompts it is in. A prompt that is too long is cut between
messages, a text within it to its ends and its error lines; never in the middle of JSON.

A log holds the digest of each prompt and everything it was made of, but not the prompt. For a
stored run (`prompts_of`) its agent is driven once more, offline: what it makes of the log today is
the prompt that was sent if the digests agree; no other is used.
"""

import contextlib
import os
from bisect import bisect_left
from collections.abc import Mapping, Sequence
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
from taofold.core.errors import TaofoldError
from taofold.core.text import excerpt
from taofold.log.log import Log, WrappedLog
from taofold.policy.redaction import Redactor
from taofold.runtime.model import Request, ToolSpec

TEXT: Final = 32_000
"""Characters of one text. Longer ones are cut to their ends and their error lines."""
LONGEST_PROMPT: Final = 128_000
"""Characters of an attribute, if the environment names no other length."""
_LENGTHS: Final = ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT")


class Lengths(NamedTuple):
    """How much of what was said is told, in characters: of one text, of one attribute."""

    text: int = TEXT
    attribute: int = LONGEST_PROMPT

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> "Lengths":
        """What OpenTelemetry's variables say of the length of an attribute."""
        named = [environment.get(name, "").strip() for name in _LENGTHS]
        length = next(
            (int(value) for value in named if value.isdecimal() and int(value)), LONGEST_PROMPT
        )
        # Half: of two texts at least the first and the last message of a prompt find room.
        return cls(min(TEXT, max(length // 2, 1)), length)


class Disclosure(NamedTuple):
    """That content is told: who takes secrets out, and how much of it there may be."""

    redactor: Redactor
    bounds: Lengths = Lengths()

    def text(self, value: str) -> str:
        """A text, redacted and cut."""
        return excerpt(self.redactor.text(value), self.bounds.text)

    def json(self, value: Any) -> str:
        """A value as JSON text, redacted; if it is too long, its excerpt as a JSON string."""
        # Redacted before it is cut: a secret across the cut would not be recognised.
        whole = msgspec.json.encode(self.redactor.json(value)).decode()
        if len(whole) <= self.bounds.attribute:
            return whole
        return msgspec.json.encode(excerpt(whole, self.bounds.text)).decode()


class EncodedMessages:
    """Messages in order, of which more may come; each is encoded once."""

    __slots__ = ("_content", "_definitions", "_encoded", "_ends", "messages")

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages
        self._content: Disclosure | None = None
        self._encoded: list[str] = []
        self._ends: list[int] = [0]
        self._definitions: tuple[tuple[ToolSpec, ...], str] = ((), "")

    def encoded(self, length: int, content: Disclosure) -> tuple[list[str], list[int]]:
        """The JSON of at least the first `length` messages, and where each ends in a list of them.

        For one thread: whoever sends the spans.
        """
        self._use(content)
        done, ends = self._encoded, self._ends
        for index in range(len(done), length):
            text = _encode(message_of(self.messages[index], content))
            done.append(text)
            ends.append(ends[-1] + len(text) + 1)
        return done, ends

    def definitions(self, tools: tuple[ToolSpec, ...], content: Disclosure) -> str:
        """The JSON of the tools, which most prompts of a run have alike. For one thread, too."""
        self._use(content)
        definitions, text = self._definitions
        if definitions != tools:
            text = content.json([definition(tool) for tool in tools])
            self._definitions = tools, text
        return text

    def _use(self, content: Disclosure) -> None:
        # Two exporters may tell different lengths: what was encoded for the other one is no use.
        if self._content != content:
            self._content, self._definitions = content, ((), "")
            self._encoded, self._ends = [], [0]


class Prompt(NamedTuple):
    """The first `length` messages of a transcript, and what else a model was given.

    `exact`: it is what was sent, not what the log says that must have been sent.
    """

    transcript: EncodedMessages
    length: int
    tools: tuple[ToolSpec, ...] = ()
    temperature: float | None = None
    max_tokens: int = 0
    exact: bool = False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Prompt):
            return NotImplemented
        # Transcripts grow: two prompts are equal by the messages that they are made of.
        return self.messages == other.messages and self[2:] == other[2:]

    def __hash__(self) -> int:
        return hash(self.length)

    @property
    def messages(self) -> tuple[Message, ...]:
        """What was sent."""
        return tuple(self.transcript.messages[: self.length])

    def system(self, content: Disclosure) -> list[dict[str, Any]]:
        """The system's texts that lead the conversation, as parts."""
        leading = self.transcript.messages[: self._leading()]
        return [{"type": "text", "content": content.text(message.shown)} for message in leading]

    def input(self, content: Disclosure) -> str:
        """All other messages, as JSON: the first and as many of the last as there is room for."""
        begin, end = self._leading(), self.length
        if begin == end:
            return "[]"
        encoded, ends = self.transcript.encoded(end, content)
        first = [encoded[begin]]
        # Two brackets; `ends` counts a comma behind each message.
        room = content.bounds.attribute - 2 - (ends[begin + 1] - ends[begin])
        # The first message whose end lies within `room` of the last one's: all after it fit.
        cut = bisect_left(ends, ends[end] - room, begin + 1, end)
        left = cut - begin - 1
        if left > 0:
            first.append(_encode(_left_out(left)))
        return f"[{','.join([*first, *encoded[cut:end]])}]"

    def definitions(self, content: Disclosure) -> str:
        """The tools that were offered natively, as JSON; "" if there were none."""
        if not self.tools:
            return ""
        return self.transcript.definitions(self.tools, content)

    def _leading(self) -> int:
        messages = self.transcript.messages
        count = 0
        while count < self.length and messages[count].role == "system":
            count += 1
        return count


def prompt_of(request: Request, transcript: EncodedMessages) -> Prompt:
    """What is sent with `request`, whose conversation is the transcript's and may go on."""
    settings = request.asked()
    return Prompt(
        transcript,
        len(request.conversation),
        request.tools,
        settings.temperature,
        settings.max_tokens,
        exact=True,
    )


def definition(tool: ToolSpec) -> dict[str, Any]:
    """A tool as the conventions have it."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }


def message_of(message: Message, content: Disclosure) -> dict[str, Any]:
    """A message as the conventions have it."""
    parts = [encoded for part in message.parts if (encoded := part_of(part, content)) is not None]
    return {"role": message.role, "parts": parts}


def part_of(part: Part, content: Disclosure) -> dict[str, Any] | None:
    """A part as the conventions have it, None for one that only its issuer can read.

    Bytes of media stay in the log: a part names them by their digest, as a file.
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
    """A tool call as a part: its arguments as JSON, or as text if they are none."""
    return {
        "type": "tool_call",
        "id": call.id,
        "name": content.text(call.name),
        "arguments": arguments_of(call.arguments, content),
    }


def arguments_of(text: str, content: Disclosure) -> Any:
    """What a model wrote as arguments, redacted."""
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


class _Listening(WrappedLog):
    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.prompts: dict[str, Prompt] = {}
        self._transcript = EncodedMessages(())

    def on_request(self, run: str, key: str, request: Any) -> None:
        sent: Request = request
        # One conversation grows from call to call: its
        # messages are encoded once for all prompts.
        if self._transcript.messages is not sent.conversation:
            self._transcript = EncodedMessages(sent.conversation)
        self.prompts[sent.conversation.digest] = prompt_of(sent, self._transcript)


async def prompts_of(agent: Agent[Any, Any], log: Log, run: str) -> dict[str, Prompt]:
    """The prompts of `run` by their digest; fewer, perhaps none, where the agent has changed.

    Asks no model and writes nothing.
    """
    listening = _Listening(log)
    # Where the replay diverges, the prompts until then are exact; later ones are rebuilt.
    with contextlib.suppress(TaofoldError):
        await agent.replace(log=listening).replay(run)
    return listening.prompts
