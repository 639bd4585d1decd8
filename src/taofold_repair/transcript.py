"""Reads a conversation: the goal, the offered tools, the actions so far, and the files' contents.

A pure function of the messages, as tolerant as a language model. It opens no file: a file's text is
the text that reads showed, with the edits applied, and parts cut out of an observation are
requested again in smaller pieces. Knows nothing about repairs.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from taofold.core.values import FINISH, Message

_HEADER: Final = re.compile(r"^Observation:? (\d+) \[(\w+)\] ([\w.\-]+): ?", re.MULTILINE)
_LAST: Final = re.compile(r"(?i)last turn|no tool can be used|without tools|no more tools")
_LEFT_OUT: Final = re.compile(
    r"^\[?… .*(?:left out|continue with start=|more lines|truncated)", re.MULTILINE
)
_TEXTS: Final = ("stdout", "output", "content", "text", "result", "stderr")


@dataclass(frozen=True, slots=True)
class PastAction:
    """One of our actions with its observation. `step` is the runtime's number, 0 if unknown."""

    tool: str
    parameters: Mapping[str, Any]
    status: str
    text: str
    step: int

    @property
    def failed(self) -> bool:
        """True if the runtime reported a failure or a timeout."""
        return self.status in ("failure", "timeout")

    @property
    def cut(self) -> bool:
        """True if the middle of the text was left out."""
        return _LEFT_OUT.search(self.text) is not None


@dataclass(frozen=True, slots=True)
class Transcript:
    """The conversation since its newest goal."""

    goal: str
    said: str
    """All user and system text, without observations."""
    turns: tuple[tuple[PastAction, ...], ...]
    """Our answered batches, oldest first."""
    last_call: bool
    """True if tools are withdrawn."""

    @property
    def actions(self) -> tuple[PastAction, ...]:
        """Every action with its observation, oldest first."""
        return tuple([action for turn in self.turns for action in turn])

    def offers(self, tool: str) -> bool:
        """Returns whether the prompt names `tool`."""
        return re.search(rf"(?<![\w.]){re.escape(tool)}(?![\w.])", self.said) is not None


def read(messages: Sequence[Message], tools: Iterable[str] = ()) -> Transcript:
    """Reads the conversation. `tools` are names offered beside the prompt."""
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
        self.turns: list[tuple[PastAction, ...]] = []
        self.open: list[tuple[str, dict[str, Any]]] = []
        self.finished = False

    def answered(self, message: Message) -> None:
        self.open = actions(message.text)
        self.finished = any(tool == FINISH for tool, _ in self.open)

    def heard(self, text: str) -> None:
        answers = _split(text, [tool for tool, _ in self.open]) if self.open else []
        if not answers:
            self._told(text)
            return
        lead, *blocks = answers
        actions = [
            PastAction(tool, parameters, status, plain(body), step)
            for (tool, parameters), (step, status, body) in zip(self.open, blocks, strict=False)
        ]
        self.turns.append(tuple(actions))
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
            # A new goal in the same session: files may have changed since.
            self.goal = text
            self.turns = []
            self.finished = False


def actions(content: str) -> list[tuple[str, dict[str, Any]]]:
    """Returns the actions in one of our replies; none if it cannot be read."""
    try:
        reply = json.loads(content)
    except (ValueError, RecursionError):
        return []
    if not isinstance(reply, dict):
        return []
    body = cast("dict[str, Any]", reply)
    batch_value = body.get("actions") or [body.get("action")]
    batch = cast("list[object]", batch_value) if isinstance(batch_value, list) else []
    actions: list[tuple[str, dict[str, Any]]] = []
    for action in batch:
        if isinstance(action, dict):
            call = cast("dict[str, Any]", action)
            parameters = call.get("parameters")
            actions.append((str(call.get("tool", "")), dict(parameters or {})))
    return actions


def _split(text: str, tools: list[str]) -> list[tuple[int, str, str]]:
    """Returns the text before the observations, then one entry per tool in the order of `tools`.

    A header counts only if its tool is the next expected one, so that the result of a tool cannot
    imitate another observation.
    """
    heads: list[re.Match[str]] = []
    offset = 0
    for tool in tools:
        head = next((m for m in _HEADER.finditer(text, offset) if m[3] == tool), None)
        if head is None:
            break
        heads.append(head)
        offset = head.end()
    if not heads:
        return []
    sections = [(0, "", text[: heads[0].start()])]
    ends = [head.start() for head in heads[1:]] + [len(text)]
    for head, end in zip(heads, ends, strict=True):
        sections.append((int(head[1]), head[2], text[head.end() : end]))
    return sections


def plain(body: str) -> str:
    """Returns the text of a result: the printed text, if the result is JSON that holds it."""
    stripped = body.strip()
    # Most results are plain text, which is not parsed as JSON.
    if not stripped.startswith(("{", "[", '"')):
        return body
    try:
        value = json.loads(stripped)
    except (ValueError, RecursionError):
        return body
    return flat(value)


def flat(value: Any) -> str:
    """Returns the text of a result in any wrapping."""
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


_NUMBERED: Final = re.compile(r"^\s*(\d+)(\t|→|: ?| ?\| ?)(.*)$")
_NOTE: Final = re.compile(r"^\s*(?:\[?…|\.\.\.|\(|\[|#? ?lines? \d|$)")
_PATH: Final = re.compile(r"[\w.\-/]*\w\.py\b")
_FOREIGN: Final = re.compile(r"(?:^|/)(?:site-packages|\.?venv|node_modules|\.tox|build)/")
CHUNK: Final = 160
"""Lines per request after a whole file did not fit; halved after each further failure."""


@dataclass(slots=True)
class ShownFile:
    """A file as it was shown. `lines` is keyed by 1-based number; `complete` = all are there."""

    path: str
    lines: dict[int, str] = field(default_factory=dict[int, str])
    complete: bool = False
    cuts: int = 0
    refused: bool = False

    @property
    def text(self) -> str:
        """The whole text; only valid if `complete`."""
        return "".join([self.lines[number] + "\n" for number in sorted(self.lines)])

    def missing(self) -> tuple[int, int] | None:
        """Returns the range of lines to request next, or None for the whole file."""
        if not self.cuts:
            return None
        # The first gap, or the line after the last one.
        first = next(n for n in range(1, len(self.lines) + 2) if n not in self.lines)
        return first, first + max(CHUNK >> (self.cuts - 1), 20) - 1


@dataclass(slots=True)
class Files:
    """All files that were read, and the paths that were listed."""

    known: dict[str, ShownFile] = field(default_factory=dict[str, ShownFile])
    listed: tuple[str, ...] = ()
    asked: bool = False

    def text(self, path: str) -> str | None:
        """Returns the content of `path`, None if it was not shown completely."""
        file = self.known.get(path)
        return file.text if file is not None and file.complete else None

    def wants(self, path: str) -> bool:
        """Returns whether `path` has unread lines."""
        file = self.known.get(path)
        return file is None or not (file.complete or file.refused)


def collect(actions: Iterable[PastAction]) -> Files:
    """Folds reads, lists, writes and edits, oldest first."""
    files = Files()
    for action in actions:
        path = str(action.parameters.get("path", "")).removeprefix("./")
        match action.tool:
            case "list_files":
                files.asked = True
                if not action.failed:
                    files.listed = tuple(dict.fromkeys([*files.listed, *paths(action.text)]))
            case "read_file":
                _read(files.known.setdefault(path, ShownFile(path)), action)
            case "edit_file" if not action.failed:
                _edited(files, path, action.parameters)
            # The file may differ from the assumed content: it is read again.
            case "edit_file" | "write_file" if action.failed:
                files.known.pop(path, None)
            case "write_file":
                file = files.known[path] = ShownFile(path, complete=True)
                _fill(file, str(action.parameters.get("content", "")), 1)
            case _:
                pass
    return files


def paths(text: str) -> list[str]:
    """Returns every path of a Python file in `text`, in order."""
    paths_named = [path.removeprefix("./") for path in _PATH.findall(text)]
    return [p for p in dict.fromkeys(paths_named) if not _FOREIGN.search(p)]


def _edited(files: Files, path: str, parameters: Any) -> None:
    text = files.text(path)
    old = str(parameters.get("old", ""))
    # An edit of text that was not shown completely: the content is now unknown.
    if text is None or text.count(old) != 1:
        files.known.pop(path, None)
        return
    file = files.known[path]
    file.lines = {}
    _fill(file, text.replace(old, str(parameters.get("new", ""))), 1)


def _fill(file: ShownFile, text: str, first: int) -> int:
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, first):
        file.lines[number] = line
    return len(lines)


def _read(file: ShownFile, action: PastAction) -> None:
    start, end = action.parameters.get("start"), action.parameters.get("end")
    ranged = isinstance(start, int) and isinstance(end, int)
    if action.failed:
        # A range past the end of the file is empty; otherwise the file cannot be read at all.
        file.complete = ranged and bool(file.lines)
        file.refused = not file.complete
        return
    if not ranged:
        file.lines = {}
    if action.text.strip() in ("", f"{file.path} is empty"):
        file.complete = True
        return
    numbered = _numbered(action.text)
    if numbered is None and action.cut:
        file.cuts += 1
        return
    if numbered is None:
        got = _fill(file, action.text, start if isinstance(start, int) else 1)
    else:
        file.lines.update(numbered)
        got = len(numbered)
    if action.cut:
        file.cuts += 1
    # Fewer lines than requested: the end of the file was reached.
    elif not ranged or (isinstance(start, int) and isinstance(end, int) and got < end - start + 1):
        file.complete = True


def _numbered(text: str) -> dict[int, str] | None:
    """Returns the lines by number if `text` shows numbers, else None."""
    lines = text.split("\n")
    numbered: dict[int, str] = {}
    last = 0
    for line in lines:
        match = _NUMBERED.match(line)
        # Numbers increase: a line of the file that begins with a number is not a line number.
        if match and int(match[1]) > last:
            last = int(match[1])
            numbered[last] = match[3]
        elif not _NOTE.match(line):
            if not numbered:
                continue  # a title line above the numbers
            return None
    count = len([line for line in lines if line.strip()])
    return (
        numbered if numbered and len(numbered) * 2 >= count and count - len(numbered) <= 3 else None
    )
