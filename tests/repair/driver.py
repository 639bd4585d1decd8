"""A stand-in for the runtime: shows a conversation to the model and performs its actions.

The formats are those of the built-in tools, so far as the model can see them.
"""

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from taofold.core.content import Conversation
from taofold.core.values import Message
from taofold.runtime.model import Request
from taofold_repair import RepairModel

SYSTEM = """Tools:
- list_files({"path": "string"}): List files.
- read_file({"path": "string", "start": "integer", "end": "integer"}): Read a text file.
- edit_file({"path": "string", "old": "string", "new": "string"}): Replace an exact text.
- run_command({"command": "string"}): Run a program.

Work in steps. Each reply is exactly one JSON object. When done use "tool": "finish"."""
GOAL = "Make the failing tests pass."


class Pytest:
    """Runs pytest in forks of one warm process, each for so many seconds of processor time."""

    def __init__(self) -> None:
        zygote = Path(__file__).parents[2] / "bench/learn/zygote.py"
        self._process = subprocess.Popen(
            [sys.executable, "-B", str(zygote)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        )  # fmt: skip

    def run(self, folder: Path, arguments: list[str], seconds: int = 5) -> tuple[int | None, str]:
        assert self._process.stdin
        assert self._process.stdout
        asked = {"folder": str(folder), "arguments": arguments, "seconds": seconds}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        return said["code"], said["output"]

    def close(self) -> None:
        self._process.communicate()


@dataclass
class Outcome:
    """Result of a run."""

    answer: str
    turns: int
    edits: int
    messages: list[Message]
    folder: Path
    replies: list[dict[str, Any]] = field(default_factory=list)

    @property
    def repaired(self) -> bool:
        return self.answer.startswith("repaired")


def ask(messages: Sequence[Message]) -> dict[str, Any]:
    reply = asyncio.run(RepairModel().complete(Request(Conversation(messages))))
    return json.loads(reply.text)


def drive(
    folder: Path,
    pytest_: Pytest,
    goal: str = GOAL,
    system: str = SYSTEM,
    most: int = 120,
    hear: Callable[[int, dict[str, Any]], None] | None = None,
) -> Outcome:
    """Let the model work in `folder` until it finishes or has had `most` turns."""
    messages = [Message("system", system), Message("user", goal)]
    outcome = Outcome("", 0, 0, messages, folder)
    for number in range(1, most + 1):
        reply = ask(messages)
        outcome.replies.append(reply)
        outcome.turns = number
        if hear is not None:
            hear(number, reply)
        actions = reply.get("actions") or [reply["action"]]
        if actions[0]["tool"] == "finish":
            outcome.answer = actions[0]["parameters"]["answer"]
            break
        outcome.edits += sum(action["tool"] == "edit_file" for action in actions)
        shown: list[str] = []
        for action in actions:
            status, text = perform(folder, pytest_, action["tool"], action["parameters"])
            shown.append(f"Observation: {number} [{status}] {action['tool']}: {text}")
        messages.append(Message("assistant", json.dumps(reply)))
        messages.append(Message("user", "\n\n".join(shown)))
    return outcome


def perform(folder: Path, pytest_: Pytest, tool: str, given: dict[str, Any]) -> tuple[str, str]:
    match tool:
        case "list_files":
            found = sorted(p for p in folder.rglob("*") if p.is_file())
            return "success", "\n".join(
                f"{p.relative_to(folder)}  {p.stat().st_size}" for p in found
            )
        case "read_file":
            return _shown(folder, given["path"], given.get("start", 1), given.get("end", 0))
        case "edit_file":
            place = folder / given["path"]
            text = place.read_text()
            if text.count(given["old"]) != 1:
                return "failure", f"old occurs {text.count(given['old'])} times: nothing changed"
            place.write_text(text.replace(given["old"], given["new"]))
            return "success", f"edited {given['path']}: 1 occurrence replaced"
        case "run_command":
            words = shlex.split(given["command"])
            arguments = words[words.index("pytest") + 1 :]
            code, output = pytest_.run(folder, arguments, 1)
            if code is None:
                return "timeout", output
            return ("failure" if code else "success"), f"exit code {code}, 0.1 s\n{output}"
        case _:
            return "failure", f"unknown tool {tool!r}"


def _shown(folder: Path, path: str, start: int, end: int) -> tuple[str, str]:
    place = folder / path
    if not place.is_file():
        return "failure", f"there is no {path!r}"
    lines = place.read_text().splitlines()
    if not lines:
        return "success", f"{path} is empty"
    last = min(end or len(lines), len(lines))
    if start > last:
        return "failure", f"{path!r} has {len(lines)} lines"
    body = "\n".join(f"{n}\t{lines[n - 1]}" for n in range(start, last + 1))
    return "success", f"{path}: lines {start}-{last} of {len(lines)}\n{body}"
