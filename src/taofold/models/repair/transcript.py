"""What a conversation says: the goal, the tools on offer, and what was done with which result.

A pure reading of messages, as tolerant as a language model's would be. Knows nothing
about tests or repairs.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from taofold.core.values import FINISH, Message

_HEADER: Final = re.compile(r"^Observation:? (\d+) \[(\w+)\] ([\w.\-]+): ?", re.MULTILINE)
_LAST: Final = re.compile(r"(?i)last turn|no tool can be used|without tools|no more tools")
_LEFT_OUT: Final = re.compile(
    r"^\[?… .*(?:left out|continue with start=|more lines|truncated)", re.MULTILINE
)
_TEXTS: Final = ("stdout", "output", "content", "text", "result", "stderr")


@dataclass(frozen=True, slots=True)
class Deed:
    """One action of ours and what came back. `step` is the runtime's number, 0 if unknown."""

    tool: str
    parameters: Mapping[str, Any]
    status: str
    text: str
    step: int

    @property
    def failed(self) -> bool:
        """Did the runtime call it a failure or a timeout?"""
        return self.status in ("failure", "timeout")

    @property
    def cut(self) -> bool:
        """Was something left out of the middle?"""
        return _LEFT_OUT.search(self.text) is not None


@dataclass(frozen=True, slots=True)
class Transcript:
    """The conversation since its newest goal."""

    goal: str
    said: str
    """Everything that people and the system said, observations left out."""
    turns: tuple[tuple[Deed, ...], ...]
    """Our batches that were answered, oldest first."""
    last_call: bool
    """Are tools withdrawn?"""

    @property
    def deeds(self) -> tuple[Deed, ...]:
        """Every action with its observation, oldest first."""
        return tuple([deed for turn in self.turns for deed in turn])

    def offers(self, tool: str) -> bool:
        """Does the prompt name `tool`?"""
        return re.search(rf"(?<![\w.]){re.escape(tool)}(?![\w.])", self.said) is not None


def read(messages: Sequence[Message], tools: Iterable[str] = ()) -> Transcript:
    """Read the conversation. `tools` are names offered beside the prompt."""
    fold = _Fold(" ".join(tools))
    for message in messages:
        match message.role:
            case "system":
                fold.said.append(message.text)
            case "assistant":
                fold.answered(message)
            case _:
                fold.heard(message.text)
    return Transcript(
        fold.goal, "\n".join(fold.said), tuple(fold.turns), _LAST.search(fold.newest) is not None
    )


class _Fold:
    def __init__(self, tools: str) -> None:
        self.said = [tools]
        self.goal = ""
        self.newest = ""
        self.turns: list[tuple[Deed, ...]] = []
        self.open: list[tuple[str, dict[str, Any]]] = []
        self.finished = False

    def answered(self, message: Message) -> None:
        self.open = actions(message.text)
        self.finished = any(tool == FINISH for tool, _ in self.open)

    def heard(self, text: str) -> None:
        found = _split(text, [tool for tool, _ in self.open]) if self.open else []
        if not found:
            self._told(text)
            return
        lead, *blocks = found
        deeds = [
            Deed(tool, parameters, status, plain(body), step)
            for (tool, parameters), (step, status, body) in zip(self.open, blocks, strict=False)
        ]
        self.turns.append(tuple(deeds))
        self.open = []
        self.newest = lead[2]
        if lead[2].strip():
            self.said.append(lead[2])

    def _told(self, text: str) -> None:
        self.newest = text
        self.said.append(text)
        if not self.goal:
            self.goal = text
        elif self.finished and re.search(r"(?i)\btests?\b|pytest", text):
            # A new goal in the same session: files may have changed meanwhile.
            self.goal = text
            self.turns = []
            self.finished = False


def actions(content: str) -> list[tuple[str, dict[str, Any]]]:
    """The actions in a reply of ours; none if it cannot be read."""
    try:
        reply = json.loads(content)
    except (ValueError, RecursionError):
        return []
    if not isinstance(reply, dict):
        return []
    said = cast("dict[str, Any]", reply)
    given = said.get("actions") or [said.get("action")]
    batch = cast("list[object]", given) if isinstance(given, list) else []
    found: list[tuple[str, dict[str, Any]]] = []
    for one in batch:
        if isinstance(one, dict):
            call = cast("dict[str, Any]", one)
            parameters = call.get("parameters")
            found.append((str(call.get("tool", "")), dict(parameters or {})))
    return found


def _split(text: str, tools: list[str]) -> list[tuple[int, str, str]]:
    """What stands before the observations, then one entry per tool in the order of `tools`.

    A header counts only where its tool is the one expected next, so that what a tool
    returned cannot pass for another observation.
    """
    heads: list[re.Match[str]] = []
    place = 0
    for tool in tools:
        head = next((m for m in _HEADER.finditer(text, place) if m[3] == tool), None)
        if head is None:
            break
        heads.append(head)
        place = head.end()
    if not heads:
        return []
    found = [(0, "", text[: heads[0].start()])]
    ends = [head.start() for head in heads[1:]] + [len(text)]
    for head, end in zip(heads, ends, strict=True):
        found.append((int(head[1]), head[2], text[head.end() : end]))
    return found


def plain(body: str) -> str:
    """The text of a result: what a tool printed, if the result is JSON that holds it."""
    stripped = body.strip()
    if not stripped.startswith(("{", "[", '"')):
        return body
    try:
        value = json.loads(stripped)
    except (ValueError, RecursionError):
        return body
    return flat(value)


def flat(value: Any) -> str:
    """The text of a result, however it is wrapped."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        items = cast("list[object]", value)
        return "\n".join([flat(item) for item in items])
    if isinstance(value, dict):
        entries = cast("dict[str, object]", value)
        held = [text for key in _TEXTS if isinstance(text := entries.get(key), str)]
        return "\n".join(held) if held else json.dumps(entries)
    return str(value)
