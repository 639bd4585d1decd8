"""The program as a user runs it in a terminal: in this process, or as one of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

from taofold.cli.app import main
from tests.ports import PATIENCE


class Result(NamedTuple):
    """Exit code and output of the program."""

    code: int
    out: str
    err: str


Taofold = Callable[..., Result]
Started = Callable[..., subprocess.Popen[str]]


def enter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Works in `folder`, created if needed, without user settings."""
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder.parent / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder.parent / "state"))
    for name in list(os.environ):
        if name.startswith("TAOFOLD_"):
            monkeypatch.delenv(name)
    return folder


@pytest.fixture
def taofold(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Taofold:
    """Runs the program in this process. The project's modules are imported again."""

    def run(*arguments: str, stdin: str = "") -> Result:
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", StringIO(stdin))
        for path in project.glob("*.py"):
            sys.modules.pop(path.stem, None)
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        out, err = capsys.readouterr()
        code = ended.value.code
        return Result(code if isinstance(code, int) else 0, out, err)

    return run


@pytest.fixture
def started(project: Path) -> Started:
    """Starts the program as a process of its own."""

    def start(*arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "taofold.cli", *arguments],
            cwd=project, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    return start


def until(holds: Callable[[], object], process: subprocess.Popen[str]) -> None:
    """Waits for an effect of a process. Fails if the process ends before, or after a timeout."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert process.poll() is None, process.stderr and process.stderr.read()
        assert time.monotonic() < end, "the process gets nowhere"
        time.sleep(0.02)
