"""One loop of the benchmark: the built-in model repairs a copy of a bug, with or without lessons.

The agent, its file tools, its log and the model are the real ones. Only `run_command` is replaced:
it runs real pytest in a fork server and caches the output by file contents.
"""

import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from corpus import Bug

from taofold import Agent, Limits
from taofold.core.events import Record
from taofold.core.failing_checks import Check
from taofold.diagnostics import parse_pytest
from taofold.learning.extraction.history import RepairAttempt, read_run
from taofold.tools import tool
from taofold.tools.files import file_tools
from taofold_repair import RepairModel

GOAL = "Make the failing tests pass: `python -m pytest -q` has to be green."
SECONDS = 2
TURNS = 3
"""Turns that one candidate takes: edit, test, take back."""


class Checks:
    """Runs pytest. The same files and arguments are run once."""

    def __init__(self, cache: str = "") -> None:
        self.cache = Path(cache) if cache else None
        self.known: dict[str, tuple[int | None, str]] = {}
        self.keep()
        self.real = 0
        self._process: subprocess.Popen[str] | None = None

    def run(self, folder: Path, arguments: list[str]) -> tuple[int | None, str]:
        key = _digest(folder, arguments)
        if key not in self.known:
            self.known[key] = self._really(folder, arguments)
        return self.known[key]

    def _really(self, folder: Path, arguments: list[str]) -> tuple[int | None, str]:
        self.real += 1
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-B", str(Path(__file__).with_name("zygote.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONHASHSEED": "0"},
            )
        assert self._process.stdin
        assert self._process.stdout
        asked = {"folder": str(folder), "arguments": arguments, "seconds": SECONDS}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        return said["code"], said["output"].replace(str(folder), ".")

    def keep(self) -> None:
        """Join what the cache knows and what we know, if there is one."""
        if self.cache is None:
            return
        if self.cache.exists():
            held = json.loads(self.cache.read_text(encoding="utf-8"))
            self.known.update({key: (code, said) for key, (code, said) in held.items()})
        part = self.cache.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(self.known), encoding="utf-8")
        part.replace(self.cache)

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None


def _digest(folder: Path, arguments: list[str]) -> str:
    seen = hashlib.blake2b(repr(arguments).encode(), digest_size=16)
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            seen.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return seen.hexdigest()


@dataclass(frozen=True)
class Trial:
    """Result of one loop. `tried` is its cost: candidate edits, each with a test run."""

    solved: bool
    tried: int
    attempts: tuple[RepairAttempt, ...] = field(repr=False, default=())
    records: tuple[Record, ...] = field(repr=False, default=())


def start(bug: Bug, checks: Checks) -> tuple[Check, ...]:
    """Returns the initial failures; () if the bug cannot be used."""
    with tempfile.TemporaryDirectory(prefix="learn-") as place:
        folder = bug.copy(Path(place) / "work")
        report = parse_pytest(checks.run(folder, ["-q", "--tb=short"])[1])
    return report.failures if report is not None else ()


async def repair(bug: Bug, lessons: str, checks: Checks, budget: int) -> Trial:
    """Let the model work on a copy until the tests are green or `budget` candidates were tried."""
    with tempfile.TemporaryDirectory(prefix="learn-") as place:
        folder = bug.copy(Path(place) / "work")

        @tool(effect="idempotent", tier=2)
        def run_command(command: str) -> str:
            """Run a program and return its exit code and output.

            Args:
                command: For example "python -m pytest -q".
            """
            words = shlex.split(command)
            arguments = words[words.index("pytest") + 1 :] if "pytest" in words else ["-q"]
            code, output = checks.run(folder, arguments)
            if code is None:
                return f"killed: it used more than {SECONDS} s\n{output}"
            return f"exit code {code}\n{output}"

        agent = Agent(
            RepairModel(),
            tools=[file_tools(folder), run_command],
            instructions=lessons,
            limits=Limits(
                steps=TURNS * budget + 12, model_calls=TURNS * budget + 20,
                tool_calls=4 * budget + 40,
            ),
            approve="all",
        )  # fmt: skip
        result = await agent.run(GOAL)
        green = checks.run(folder, ["-q", "--tb=short"])[0] == 0
        attempts = tuple([a for a in read_run(result.records, 1).attempts if a.judged])
    solved = green and len(attempts) <= budget
    cost = len(attempts) if solved else budget
    return Trial(solved, cost, attempts[:budget], tuple(result.records))
