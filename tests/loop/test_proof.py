"""Reports of the files in and outside the proof, from the command line to the report.

Mutants: the goal of the next iteration, the terminal or the report does not name them; `--scope` is
not passed on, or is lost by a resumed loop.
"""

import json
from pathlib import Path

import pytest

from tests.prerequisites import GIT
from tests.terminal import Taofold

from .conftest import GATE

pytestmark = GIT.mark

MINE = """
from agents import *

def noting(*iterations):
    def say(request):
        goal = next(m.content for m in request.conversation if m.role == "user")
        number = int(goal.partition("## Iteration ")[2].split()[0])
        (here / ".taofold" / f"goal{number}").write_text(goal)
        turn = len([m for m in request.conversation if m.role == "assistant"])
        return iterations[min(number, len(iterations)) - 1][turn]
    return Agent(FunctionModel(say, name="scripted:model"), tools=[file_tools(here)], policy=FREE)

MORE = "from calc import double\\n\\ndef test_more():\\n    assert double(1) == 2\\n"
tester = noting([write("test_more.py", MORE), done], [write("calc.py", RIGHT), done])
cheat = noting([write("proofs/compare.py", "print('fine')\\n"), done])
"""
COMPARE = "import sys\nsys.path.insert(0, '.')\nfrom calc import double\nsys.exit(double(3) != 6)\n"


@pytest.fixture
def mine(project: Path) -> Path:
    (project / "mine.py").write_text(MINE)
    (project / "proofs").mkdir()
    (project / "proofs" / "compare.py").write_text(COMPARE)
    (project / "check.sh").write_text("python -m proofs.compare\n")
    return project


def test_an_agent_and_a_person_are_told_what_was_not_in_the_proof(
    taofold: Taofold, mine: Path
) -> None:
    code, _, err = taofold("loop", "Add tests", "-c", GATE, "--agent", "mine:tester")
    assert code == 0, err
    assert "not in the proof: test_more.py (new tests prove nothing)" in err
    goal = (mine / ".taofold" / "goal2").read_text()
    assert "Not in the proof: test_more.py (new tests prove nothing)" in goal
    assert "--allow-edit test_more.py" in goal
    report = taofold("loops", "report").out
    assert "in the proof: calc.py" in report
    assert "not in the proof: test_more.py" in report
    assert "--allow-edit test_more.py" in report
    machine = json.loads(taofold("loops", "report", "--json").out)
    assert machine["joined"] == ["calc.py"]
    assert machine["left_out"] == {"test_more.py": "new tests prove nothing"}


def test_who_asks_for_tests_or_configuration_is_told_the_option_at_the_start(
    taofold: Taofold, mine: Path
) -> None:
    asked = ("loop", "-c", GATE, "--agent", "agents:fixer")
    err = taofold(*asked, "Add a test for the sum").err
    assert "the task seems to ask for tests or configuration (test): these are protected" in err
    (mine / "calc.py").write_text("def double(n):\n    return n\n")
    assert "seems to ask" not in taofold(*asked, "Add tests", "--allow-edit", "test_*.py").err


def test_findings_that_no_agent_may_mend_are_told_at_the_start(
    taofold: Taofold, mine: Path
) -> None:
    (mine / "test_calc.py").write_text("import os\n")
    (mine / "calc.py").write_text("import os\n")
    asked = ("loop", "Mend it", "-c", "ruff check .", "--agent", "agents:fixer")
    err = taofold(*asked, "--max-iterations", "1").err
    start = err.partition("━━ iteration 1")[0]
    assert "findings lie in files that are not the agent's to change: test_calc.py" in start
    assert "--allow-edit test_calc.py" in start


def test_an_emptied_check_is_noted_and_a_scope_leaves_it_out(taofold: Taofold, mine: Path) -> None:
    asked = ("loop", "Mend it", "-c", "sh ./check.sh", "--agent", "mine:cheat")
    code, _, err = taofold(*asked, "--loop-id", "noted")
    assert code == 0
    assert "it may be what decides: proofs/compare.py (check.sh names it)" in err
    assert "proofs/compare.py (check.sh names it)" in taofold("loops", "report", "noted").out
    (mine / "proofs" / "compare.py").write_text(COMPARE)
    code, _, err = taofold(
        *asked, "--scope", "calc.py", "--max-iterations", "1", "--loop-id", "own"
    )
    assert code == 1, err
    assert "not in the proof: proofs/compare.py (it is outside of the loop's scope)" in err
    code, _, err = taofold("loops", "resume", "own", "--max-iterations", "2")
    assert code == 1, err
    assert "it is outside of the loop's scope" in err
