"""A small complete run of `bench/chaos` with few faults. The large one is started manually."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.crash
RUN = Path(__file__).parents[2] / "bench" / "chaos" / "run.py"
FAULTS = 40
ENOUGH = 20
"""Calls after which one that was not written is sure to be among those that count."""


def chaos(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Faults are due when work was done: a slow machine gets fewer of them in these seconds."""
    command = [sys.executable, str(RUN), "--faults", str(FAULTS), "--seconds", "25", *options]
    environment = {name: v for name, v in os.environ.items() if not name.startswith("TAOFOLD_")}
    environment["TMPDIR"] = str(folder)
    return subprocess.run(
        command, check=False, env=environment, capture_output=True, text=True, timeout=380
    )


def figures(ended: subprocess.CompletedProcess[str]) -> dict[str, object]:
    start = ended.stdout.index("{\n")
    found: dict[str, object] = json.JSONDecoder().raw_decode(ended.stdout[start:])[0]
    return found


def test_nothing_is_lost_repeated_or_left_behind_in_a_small_chaos(tmp_path: Path) -> None:
    ended = chaos(tmp_path, "--seed", "1", "--patience", "300")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    whole = figures(ended)
    assert whole["wrong"] == 0
    assert int(str(whole["faults"])) > 0, "the harness hurts nobody"
    if not whole["namespaces"]:
        print("machines share this one's process ids: may not unshare (run as root)")


def test_the_harness_tells_of_a_runtime_that_breaks_its_promise(tmp_path: Path) -> None:
    """A mutant without recorded starts must be reported; otherwise the test above proves little."""
    ended = chaos(tmp_path, "--seed", "2", "--patience", "20", "--mutant", "swallowed")
    calls = dict(figures(ended)["figures"]).get("calls", 0)  # type: ignore[call-overload]
    if calls < ENOUGH:
        pytest.skip(f"this machine is so busy that only {calls} calls were made")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "is failed" in ended.stdout  # such a run cannot be resumed, and the judge reports it
