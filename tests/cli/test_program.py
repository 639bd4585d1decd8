"""The program as a whole: help, version, speed, its reference page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import taofold as package
from tests.terminal import Taofold

ROOT = Path(package.__file__).parents[2]
HEAVY = (
    "taofold.runtime",
    "taofold.models",
    "taofold.log.sqlite",
    "taofold.log.open",
    "taofold.log.patterns",
    "taofold.agent",
    "pydantic",
    "aiohttp",
)


def test_help_and_version_are_on_standard_output(taofold: Taofold) -> None:
    assert "approvals" in taofold("--help").out
    assert taofold("--version").out == f"{package.__version__}\n"
    assert "--at" in taofold("runs", "show", "--help").out


def test_help_loads_nothing_that_is_heavy() -> None:
    script = (
        "import sys\nfrom taofold.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = done.stderr.split()
    assert [name for name in loaded if name.startswith(HEAVY)] == []


def test_the_package_is_the_program() -> None:
    words = [sys.executable, "-m", "taofold", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [package.__version__]


def test_the_reference_is_current() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "cli_reference.py"],
        capture_output=True,
        text=True,
        check=True,
    )
    page = ROOT / "docs" / "cli.md"
    assert done.stdout == page.read_text(encoding="utf-8"), (
        "write it with: python -m tests.cli_reference docs/cli.md"
    )


@pytest.mark.parametrize(
    "command",
    ["run", "runs list", "runs show", "runs log", "runs metrics", "runs check", "runs resume",
     "runs cancel", "runs steer", "runs fork", "runs replay", "runs diff", "runs export",
     "runs import", "runs delete", "approvals list", "approvals approve", "approvals deny",
     "check", "init", "doctor", "demo"],
)  # fmt: skip
def test_every_command_is_in_the_reference(command: str) -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert re.search(rf"^## `taofold {command}`$", page, re.MULTILINE)


def test_shell_completion_is_there(taofold: Taofold, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert "taofold" in taofold("--show-completion", "bash").out


def test_a_closed_pipe_is_no_traceback(project: Path, taofold: Taofold) -> None:
    taofold("run", "agents.py:adder", "add")
    command = f"{sys.executable} -m taofold.cli runs log last --json | true"
    done = subprocess.run(["/bin/sh", "-c", command], cwd=project, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
