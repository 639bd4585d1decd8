"""`taofold demo`: real pytest, real edits, no key, no network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.crash
def test_the_demo_survives_kill_9_and_repairs_the_project(tmp_path: Path) -> None:
    place = tmp_path / "demo"
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    environment.pop("TAOFOLD_HOME", None)

    def taofold(*arguments: str, folder: Path = tmp_path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "taofold.cli", *arguments],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    done = taofold("demo", "--keep", str(place), "--kill-at", "20")
    assert done.returncode == 0, done.stderr
    assert "kill -9 after event 20" in done.stderr
    assert "search policy, not a language model" in done.stdout
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=place / "project", capture_output=True, text=True,
    )  # fmt: skip
    assert tests.returncode == 0, tests.stdout
    assert taofold("runs", "replay", "last", folder=place).stdout.startswith("identical")
    assert taofold("runs", "check", "last", folder=place).returncode == 0
