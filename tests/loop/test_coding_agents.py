"""`taofold loop --agent claude`: a coding agent's program inside a loop, with real gates."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from taofold.loop.iteration import RULES
from tests.bridges.coding_agents.standins import SAID, SOURCES, installed
from tests.prerequisites import GIT
from tests.terminal import Taofold

from .conftest import GATE

pytestmark = GIT.mark

TASK = "Make the failing tests pass"
REPAIR = 'path.write_text(path.read_text().replace("a - b", "a + b"))'
DOUBLES = 'path.write_text("def double(n):\\n    return 2 * n\\n")'


@pytest.fixture
def programs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder on PATH."""
    folder = tmp_path_factory.mktemp("programs")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def loop(taofold: Taofold, agent: str, *more: str) -> tuple[int, str, str]:
    asked = ("--loop-id", "x", "--approve", "all", "--agent", agent)
    return taofold("loop", TASK, "-c", GATE, *asked, *more)


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *[("claude", mode) for mode in ("--in-place", "--worktree", "--copy")],
        ("codex", "--worktree"),
        ("gemini", "--copy"),
        ("opencode", "--in-place"),
        ("aider", "--worktree"),
    ],
)
def test_a_coding_agent_is_driven_until_the_gates_pass(
    taofold: Taofold, project: Path, programs: Path, name: str, mode: str
) -> None:
    """Mutant: the program works in the project in every mode."""
    for words in ("init -q", "add -A", "-c user.name=t -c user.email=t@t commit -qm first"):
        subprocess.run(["git", *words.split()], cwd=project, check=True)
    source = SOURCES[name].replace("work(", "work_and_tell(", 1)
    work = (
        "def work_and_tell(prompt):\n"
        "    path = Path('calc.py')\n"
        f"    {DOUBLES}\n"
        "    global SAID\n"
        "    SAID += ' In ' + os.getcwd()\n"
    )
    installed(programs, name, work + source)
    code, _, err = loop(taofold, name, mode, "--json")
    assert code == 0, err
    assert "2 * n" in (project / "calc.py").read_text()
    run = json.loads(taofold("runs", "show", "x.1", "--json").out)
    assert SAID in json.dumps(run)
    assert (f"In {project}" in json.dumps(run)) == (mode == "--in-place")
    assert taofold("runs", "replay", "x.1").code == 0
    told = json.loads(taofold("loops", "status", "x", "--json").out)
    assert told["tokens"] > 200


def test_the_prompt_begins_with_the_task_and_does_not_speak_of_our_tools(
    taofold: Taofold, project: Path
) -> None:
    """Mutants: the rules of the loop come first; the sentence about calls of tools stays."""
    loop(taofold, "cmd: sh -c 'cat > prompt.txt'", "--max-iterations", "1")
    prompt = (project / "prompt.txt").read_text()
    assert prompt.startswith(TASK)
    assert prompt.endswith(RULES)
    assert "tool call" not in prompt


@pytest.mark.parametrize("command", [("loop", TASK, "-c", GATE, "--agent"), ("run",)])
def test_an_option_that_a_coding_agent_has_no_use_for_is_refused(
    taofold: Taofold, programs: Path, project: Path, command: tuple[str, ...]
) -> None:
    """Mutant: they are accepted and change nothing."""
    installed(programs, "claude", SOURCES["claude"])
    (project / "more").mkdir()
    options = [("--strict",), ("--tools", "more")] if command == ("run",) else [("--strict",)]
    for option in options:
        code, _, err = taofold(*command, "claude", *[TASK] * (command == ("run",)), *option)
        assert code == 2
        assert "'claude' is a coding agent" in err
        assert f"leave {option[0]} out" in err
    assert not (project / "seen.json").exists()


def test_a_program_that_fails_twice_ends_the_loop_with_its_reason(
    taofold: Taofold, programs: Path
) -> None:
    """Mutant: a loop goes on for as long as a run has one step."""
    installed(programs, "claude", "say('Please run /login')\nsys.exit(1)")
    code, out, _ = loop(taofold, "claude", "--max-iterations", "9")
    assert code == 1
    assert "failed, the model failed 2 times in a row" in out
    assert "Please run /login" in out


def test_a_loop_spends_no_more_than_it_may(taofold: Taofold, project: Path, programs: Path) -> None:
    """The cost that the program reports counts. Mutant: it is left out."""
    installed(programs, "claude", SOURCES["claude"])
    code, out, _ = loop(taofold, "claude", "--budget", "0.002", "--max-iterations", "5")
    assert (code, "budget, $0.00 of $0.00 are spent" in out) == (1, True)
    assert taofold("runs", "show", "x.2").code == 2


def test_a_budget_needs_a_program_that_says_what_it_costs(taofold: Taofold, programs: Path) -> None:
    installed(programs, "codex", SOURCES["codex"])
    code, _, err = loop(taofold, "codex", "--budget", "1")
    assert code == 2
    assert "price" in err


def test_what_is_not_installed_is_told_before_anything_starts(taofold: Taofold) -> None:
    code, _, err = loop(taofold, "cmd: no-such-program-1 {prompt_file}")
    assert code == 2
    assert "the program 'no-such-program-1' is not installed" in err
    assert "there are no loops yet" in taofold("loops", "list").err


def test_a_file_name_that_no_text_can_hold_does_not_break_a_loop(
    taofold: Taofold, project: Path, programs: Path
) -> None:
    """Mutant: a fact with such a name cannot be stored, now or when the loop is resumed."""
    odd = "open(b'caf\\xe9.txt', 'w').close()\n"
    repair = f"Path('calc.py').{DOUBLES.removeprefix('path.')}\n"
    installed(programs, "claude", odd + repair + SOURCES["claude"])
    code, _, err = loop(taofold, "claude")
    assert code == 0, err
    assert "caf" in taofold("loops", "report", "x").out
