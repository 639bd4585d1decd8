"""Folders for one call: gone when it is over, and soon after a process was killed in it."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from taofold.tools import temporary_folders as module
from taofold.tools.temporary_folders import PREFIX, scratch, sweep

HOLDING = """
import sys, time
from taofold.tools.temporary_folders import scratch
with scratch("home") as folder:
    (folder / "inside").mkdir()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(module, "_looked", {})
    return tmp_path


def holder(home: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process in the middle of a call, and its folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING],
        env=os.environ | {"TMPDIR": str(home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def end(process: subprocess.Popen[str], number: int) -> None:
    process.send_signal(number)
    process.communicate()


def test_a_folder_is_there_for_the_block_and_gone_after_it(home: Path) -> None:
    with scratch("gate") as folder:
        (folder / "a").write_text("x")
        assert folder.parent == home
    assert list(home.iterdir()) == []


def test_what_a_killed_process_left_is_removed_by_the_next_that_needs_one(home: Path) -> None:
    process, left = holder(home)
    assert left.is_dir()
    end(process, signal.SIGKILL)
    assert left.is_dir(), "it was killed: it cannot have cleaned up"
    with scratch("gate") as folder:
        assert list(home.iterdir()) == [folder]


def test_what_a_living_process_holds_stays(home: Path) -> None:
    process, held = holder(home)
    try:
        sweep(home)
        with scratch("gate"):
            sweep(home)
        assert (held / "inside").is_dir()
    finally:
        end(process, signal.SIGKILL)


def test_nothing_else_is_removed_and_no_link_is_followed(home: Path) -> None:
    other, target = home / "taofold-demo-1", home / "target"
    for folder in (other, target):
        folder.mkdir()
        (folder / "kept").touch()
    (home / f"{PREFIX}link").symlink_to(target)
    (home / f"{PREFIX}file").touch()
    left = home / f"{PREFIX}gate-1"
    left.mkdir()
    (left / "link").symlink_to(target)
    sweep(home)
    assert not left.exists()
    assert (other / "kept").exists()
    assert (target / "kept").exists()
