"""The printed resume command works when pasted; a program's file is imported once."""

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from taofold.cli.output import invocation
from tests.cli.test_run import Start, until
from tests.terminal import PATIENCE, Taofold

LOCAL: Final = """
import sys
from agents import scripted, act, note, Agent

def made():
    return Agent(scripted(act("a note", "note", "goal", text="one"),
                          act("another", "note", "goal", text="two"),
                          act("done", "finish", "synthesis", answer="done")),
                 tools=[note], log=".taofold/runs.db")

def again():
    return made()

agent = made()
{guard}
    print(agent.run_sync("write", run_id="r").status)
"""
GUARD: Final = 'if __name__ == "__main__":'


def pasted(project: Path, said: str) -> subprocess.CompletedProcess[str]:
    """Runs the one command in the output that goes on with something."""
    found = re.findall(rf"({re.escape(invocation())} (?:runs|loops) resume[^\n]*)", said)
    (command,) = set(found)
    return subprocess.run(
        command, shell=True, cwd=project, capture_output=True, text=True, timeout=PATIENCE
    )


def script(project: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    (project / "mine.py").write_text(text)
    return subprocess.run(
        [sys.executable, *words, "mine.py"], cwd=project, capture_output=True, text=True,
        timeout=PATIENCE, input="",
    )  # fmt: skip


@pytest.mark.parametrize("interactive", [(), ("-i",)])
def test_a_program_that_holds_its_agent_by_a_name_is_gone_on_with_without_naming_it(
    taofold: Taofold, project: Path, interactive: tuple[str, ...]
) -> None:
    assert script(project, LOCAL.format(guard=GUARD), *interactive).stdout == "waiting\n"
    for _ in range(2):
        approved = taofold("approvals", "approve", "r")
        assert "--agent" not in approved.err
        done = pasted(project, approved.err)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert (project / "notes.txt").read_text() == "one\ntwo\n"
    assert taofold("runs", "replay", "r").code == 0


def test_the_prompt_of_a_program_is_shown_with_one_command(taofold: Taofold, project: Path) -> None:
    script(project, LOCAL.format(guard=GUARD))
    shown = taofold("runs", "show", "last", "--prompt")
    assert shown.code == 0, shown.err
    assert "Write a note." in shown.out


def test_a_file_that_starts_a_run_when_it_is_imported_is_refused(
    taofold: Taofold, project: Path
) -> None:
    script(project, LOCAL.format(guard="if True:"))
    for words in (("runs", "show", "r", "--prompt"), ("run", "mine.py:agent", "go")):
        shown = taofold(*words)
        assert shown.code == 2
        assert 'if __name__ == "__main__":' in shown.err
    assert taofold("runs", "list", "--json").out.count('"id"') == 1


def test_an_agent_without_a_name_is_named_once_and_stays_in_the_command(
    taofold: Taofold, project: Path
) -> None:
    script(project, LOCAL.format(guard=GUARD).replace("print(agent", "print(made()"))
    missing = taofold("runs", "show", "last", "--prompt")
    assert (missing.code, "--agent FILE.py:NAME" in missing.err) == (2, True)
    approved = taofold("approvals", "approve", "r")
    assert approved.err.endswith("runs resume r --agent FILE.py:NAME\n")
    # The second note asks: the hint names the agent that was named.
    waits = taofold("runs", "resume", "r", "--agent", "mine.py:agent", "--approve", "wait")
    assert waits.code == 3
    assert taofold("approvals", "approve", "r").code == 0
    done = pasted(project, waits.err)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    fork = taofold("runs", "fork", "r", "--agent", "mine.py:agent")
    assert pasted(project, fork.err).returncode == 0


def test_a_childs_question_is_gone_on_with_at_the_run_that_called_it(
    taofold: Taofold, project: Path
) -> None:
    (project / "more.py").write_text(
        "from agents import *\n"
        'lead = Agent(scripted(act("let him", "writer", "goal", goal="write"),'
        ' act("done", "finish", "synthesis", answer="all done")),'
        ' tools=[writer.replace(name="writer", description="Writes.")])\n'
    )
    assert taofold("run", "more.py:lead", "go", "-q", "--approve", "wait").code == 3
    (asked,) = re.findall(r"^(\S+:\d+) ", taofold("approvals", "list").out, re.MULTILINE)
    done = pasted(project, taofold("approvals", "approve", asked).err)
    assert (done.returncode, done.stdout) == (0, "all done\n"), done.stderr


def test_an_iteration_is_gone_on_with_by_its_loop(taofold: Taofold, project: Path) -> None:
    words = ("--completion", "test -f notes.txt", "--in-place", "--approve", "wait", "--loop-id")
    balanced = ("--autonomy", "balanced")
    looped = taofold("loop", "write", "--agent", "agents.py:writer", *words, "l", *balanced)
    assert looped.code == 3
    approved = taofold("approvals", "approve", "l.1")
    assert approved.err.endswith(f"{invocation()} loops resume l\n")
    done = pasted(project, approved.err)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("agent", ["agents.py:waiter"])
def test_an_interrupted_run_that_was_resumed_names_its_agent_again(
    started: Start, project: Path, agent: str, taofold: Taofold
) -> None:
    (project / "local.py").write_text(
        "from agents import waiter\n"
        'def made(): return waiter.replace(log=".taofold/runs.db")\n'
        "import asyncio\n"
        'print(asyncio.run(made().begin("go", run_id="r")))\n'
    )
    subprocess.run([sys.executable, "local.py"], cwd=project, check=True, timeout=PATIENCE)
    process = started(*shlex.split(f"runs resume r --agent {agent}"))
    until((project / "waiting").exists)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    (project / "go").touch()
    done = pasted(project, err)
    assert done.returncode == 0, done.stderr
