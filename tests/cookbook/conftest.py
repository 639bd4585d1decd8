"""A reader of the cookbook: saves a page's program in an empty folder and types its commands.

The model is a provider on this machine, found by `OPENAI_BASE_URL` as a reader's own would be.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.road.mind import Asked, Said, fitted
from tests.road.providers import Providers, serving
from tests.terminal import PATIENCE
from tests.test_docs import COOKBOOK

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SAVED = re.compile(r"^Save as `([\w./-]+)`.*?^```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE)


def call(tool: str, **arguments: Any) -> Callable[[Asked], Said]:
    """A reply that calls a tool, with the arguments as the tool's schema on the wire wants them."""

    def reply(asked: Asked) -> Said:
        return Said("I look first.", (tool, fitted(arguments, asked.tools[tool])))

    return reply


def answer(value: Any) -> Callable[[Asked], Said]:
    """A reply that ends the run: by `finish` where it is offered, else as text."""

    def reply(asked: Asked) -> Said:
        if "finish" in asked.tools:
            return call("finish", answer=value)(asked)
        text = (
            value
            if isinstance(value, str) and asked.schema is None
            else json.dumps(value if asked.schema is None else fitted(value, asked.schema))
        )
        return Said(text)

    return reply


Script = Sequence[Callable[[Asked], Said]]


@dataclass
class Reader:
    """Someone who follows a page in an empty folder."""

    folder: Path
    providers: Providers
    environment: dict[str, str]
    page: str = ""
    started: list[subprocess.Popen[str]] = field(default_factory=list[subprocess.Popen[str]])

    def opens(self, name: str) -> None:
        """Reads a page and saves its files."""
        self.page = (COOKBOOK / name).read_text(encoding="utf-8")
        files = SAVED.findall(self.page)
        assert files, f"{name} names no file to save"
        for path, text in files:
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")

    def changes(self, path: str, old: str, new: str) -> None:
        """Changes one place of a saved file, as "Change it" on the page proposes."""
        file = self.folder / path
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1
        file.write_text(text.replace(old, new), encoding="utf-8")

    def scripts(self, *script: Callable[[Asked], Said]) -> None:
        """The model gives these replies, in this order."""
        replies = iter(script)
        self.providers.asked.clear()
        self.providers.model = lambda asked: next(replies)(asked)

    @property
    def commands(self) -> list[str]:
        """The lines of the page's blocks without a language."""
        blocks = [text for language, text in FENCE.findall(self.page) if not language]
        return [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]

    def shows(self, text: str) -> None:
        """Checks that the page shows this output."""
        blocks = [block for language, block in FENCE.findall(self.page) if language == "text"]
        assert text in blocks, f"{text!r} is not among {blocks}"

    def starts(self, line: str, **more: str) -> subprocess.Popen[str]:
        """Starts a command that stands on the page."""
        assert line in self.commands, f"the page has no command {line!r}: {self.commands}"
        words = shlex.split(line)
        environment = dict(self.environment)
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            environment[name] = value
        process = subprocess.Popen(
            words, cwd=self.folder, env=environment | more, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.started.append(process)
        return process

    def runs(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs a command with this Python's packages, as a reader looks around."""
        own = {name: v for name, v in self.environment.items() if not name.startswith("PYTHON")}
        own["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{own['PATH']}"
        return subprocess.run(
            words, cwd=self.folder, env=own, text=True, capture_output=True, timeout=PATIENCE,
            check=False,
        )  # fmt: skip

    def types(self, line: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        """Types a command of the page and waits for its end."""
        process = self.starts(line, **more)
        out, err = process.communicate(stdin, PATIENCE)
        return subprocess.CompletedProcess(line, process.returncode, out, err)


@pytest.fixture(scope="session")
def _served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Providers]:
    with serving(Providers(home=tmp_path_factory.mktemp("operator"))) as providers:
        yield providers


@pytest.fixture
def reader(_served: Providers, tmp_path: Path) -> Iterator[Reader]:
    """A reader with an empty folder and a key for the provider on this machine."""
    home = tmp_path / "home"
    home.mkdir()
    folder = tmp_path / "project"
    folder.mkdir()
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TAOFOLD_", "PYTHON"))}
    environment = {
        **kept,
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_STATE_HOME": str(home / "state"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TAOFOLD_HOME": str(folder / ".taofold"),  # not one in a folder above
        "OPENAI_BASE_URL": f"{_served.url}/v1",
        "OPENAI_API_KEY": "sk-cookbook-key",
        "PYTHONUNBUFFERED": "1",
    }
    _served.refused.clear()
    _served.asked.clear()
    following = Reader(folder, _served, environment)
    yield following
    for process in following.started:
        if process.poll() is None:
            process.kill()
        process.communicate()
    assert _served.refused == []
