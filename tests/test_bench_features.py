"""bench/features: our programs run, other frameworks are skipped by name, names are counted."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

RUNNER = Path(__file__).parent.parent / "bench" / "features" / "run.py"


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(RUNNER.parent), *sys.path])
    for name in ("server", "run"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    spec = importlib.util.spec_from_file_location("run", RUNNER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "run", module)
    spec.loader.exec_module(module)
    return module


def test_our_program_runs_without_the_other_frameworks() -> None:
    environment = {name: v for name, v in os.environ.items() if name != "TAOFOLD_PEERS"}
    command = [sys.executable, str(RUNNER), "--only", "skills"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [row] = [line for line in done.stdout.splitlines() if "| taofold |" in line]
    assert "| 3 | yes |" in row
    assert done.stderr.startswith("skipped: pydantic-ai-harness, ")
    assert "export TAOFOLD_PEERS=" in done.stderr


def test_a_reply_that_calls_a_tool_that_is_not_offered_fails(
    runner: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    feature = runner.FEATURES["skills"]
    monkeypatch.setitem(feature.scripts, "taofold", [runner.Call("load", {}), runner.MAY])
    row = runner.Bench(None, runner.Tokenizer(None)).run("skills", "taofold")
    assert "tool 'load' is not offered; offered: use_skill" in row.fault


def test_concepts_are_names_of_the_framework(runner: ModuleType, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import json\n"
        "from pathlib import Path\n"
        "from frame import Agent, Guard\n"
        "class Mine(Guard):\n"
        "    def before(self, context, *, call): return json.dumps(call, indent=1)\n"
        "def goal(text): return text\n"
        'agent = Agent("m", tools=[Path("x").name], guards=[Mine()])\n'
        'print(agent.run(goal(text="hi")).output.strip(), sep=" ")\n'
    )
    assert runner.concepts(program) == (
        "Agent", "Guard", "before", "call", "guards", "output", "run", "tools",
    )  # fmt: skip
