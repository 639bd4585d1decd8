"""`taofold eval` on the command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

AGENTS = """
from taofold import Agent
from taofold.testing import FunctionModel

good = Agent(FunctionModel(lambda request: "Oslo"), strategy="direct", name="good")
flawed = Agent(
    FunctionModel(lambda asked: "Bergen" if "3" in asked.conversation[-1].text else "Oslo"),
    strategy="direct",
    name="flawed",
)
bad = Agent(FunctionModel(lambda request: "Bergen"), strategy="direct", name="bad")
"""
CASES = (
    "cases:\n  - goal: Capital of Norway?\n    expect: Oslo\n  - goal: A city?\n    contains: e\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agents.py").write_text(AGENTS, encoding="utf-8")
    (tmp_path / "cases.yaml").write_text(CASES, encoding="utf-8")
    return tmp_path


def taofold(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "taofold.cli", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_exit_code_follows_the_rate(folder: Path) -> None:
    ended = taofold(folder, "eval", "cases.yaml", "--agent", "agents:good", "-q")
    assert ended.returncode == 1
    assert "good: 50% pass" in ended.stdout
    assert "contains: 'e' is missing" in ended.stdout
    ended = taofold(
        folder, "eval", "cases.yaml", "--agent", "agents:good", "--min-rate", "0.5", "--json"
    )
    assert ended.returncode == 0
    assert json.loads(ended.stdout)["reports"][0]["rate"] == 0.5


def test_two_agents_are_compared_and_a_run_becomes_a_case(folder: Path) -> None:
    ended = taofold(
        folder, "eval", "cases.yaml", "--agent", "agents:bad", "--against", "agents:good", "--json"
    )
    comparison = json.loads(ended.stdout)["comparison"]
    assert (comparison["better"], comparison["worse"]) == (["A city?"], ["Capital of Norway?"])
    ended = taofold(folder, "eval", "--from", "last")
    assert ended.stdout.startswith("cases:\n- goal: ")
    (folder / "made.yaml").write_text(ended.stdout, encoding="utf-8")
    assert taofold(folder, "eval", "made.yaml", "--agent", "agents:good").returncode == 0


@pytest.mark.parametrize(
    ("agent", "other", "code"),
    [("good", "bad", 0), ("good", "good", 0), ("bad", "good", 1), ("flawed", "good", 0)],
)
def test_an_agent_that_is_worse_than_the_other_fails(
    folder: Path, agent: str, other: str, code: int
) -> None:
    """`flawed` is worse in one case of six, which chance explains."""
    cases = "".join([f"  - goal: Say Oslo, {n}\n    expect: Oslo\n" for n in range(6)])
    (folder / "six.yaml").write_text(f"cases:\n{cases}", encoding="utf-8")
    ended = taofold(
        folder, "eval", "six.yaml", "--agent", f"agents:{agent}", "--against", f"agents:{other}",
    )  # fmt: skip
    assert ended.returncode == code, ended.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "FILE is missing"),
        (("cases.yaml",), "no agent is named"),
        (("nope.yaml", "--agent", "agents:good"), "No such file"),
        (("cases.yaml", "--agent", "agents:nope"), "nope"),
    ],
)
def test_what_is_missing_is_said(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    ended = taofold(folder, "eval", *arguments)
    assert ended.returncode == 2
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr
