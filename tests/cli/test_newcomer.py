"""Messages for new users: the waiting run and its reason, its location, the next command."""

import json
import re
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from taofold import Agent, tool
from taofold.cli.project import KNOWN, relative, unknown
from taofold.files.config import LimitKeys
from taofold.testing import ScriptedModel
from tests.cli.test_approval_prompt import Terminal, terminal
from tests.cli.test_run import until
from tests.ports import PATIENCE
from tests.terminal import Taofold

ROOT = Path(__file__).parents[2]

__all__ = ["terminal"]
Start = Callable[..., subprocess.Popen[str]]


def killed(start: Start, project: Path, agent: str = "slow") -> None:
    process = start("run", f"agents.py:{agent}", "go", "--approve", "all")
    until((project / "waiting").exists)
    process.kill()
    process.communicate(timeout=PATIENCE)


def test_what_another_terminal_asks_is_listed_and_goes_on_by_itself(
    taofold: Taofold, terminal: Callable[..., Terminal], project: Path
) -> None:
    one = terminal("run", "agents.py:writer", "go")
    one.until("[a]pprove")
    assert "asked at a terminal" in taofold("approvals", "list").out
    assert json.loads(taofold("approvals", "list", "--json").out)[0]["live"] is True
    done = taofold("approvals", "approve", "last")
    assert "the run continues at the terminal" in done.err
    assert "runs resume" not in done.err
    one.until("finished: final_answer")
    assert (project / "notes.txt").read_text() == "hello 7777\n"


@pytest.mark.allow_model_requests
def test_an_agent_with_an_address_is_used_from_here(taofold: Taofold, project: Path) -> None:
    (project / "mine.py").write_text(
        "from taofold import Agent\n"
        "agent = Agent('openai-compatible:x', base_url='http://127.0.0.1:9/v1')\n"
    )
    done = taofold("run", "mine.py:agent", "go", "-q")
    assert done.code == 1
    assert "cannot talk to http://127.0.0.1:9/v1" in done.err, "quiet, but not silent"
    assert taofold("run", "mine.py:agent", "go", "-q", "--model", "offline:repair").code == 1
    assert "base_url" not in taofold("run", "mine.py:agent", "go", "-m", "offline:repair").err


def test_a_run_that_python_started_is_listed_and_decided_from_here(
    taofold: Taofold, project: Path
) -> None:
    @tool(effect="once", tier=3)
    def bill(name: str) -> str:
        """Bill."""
        return f"billed {name}"

    call = {"thought": "x", "action": {"tool": "bill", "parameters": {"name": "Ada"}}}
    model = ScriptedModel([json.dumps(call), "done"])
    agent = Agent(model, tools=[bill], log=str(project / ".taofold/runs.db"))
    waiting = agent.run_sync("bill Ada")
    assert repr(waiting).endswith("waits for a person: bill(name='Ada') (tier 3 always asks))")
    run = waiting.run_id
    assert "decided" not in taofold("approvals", "list").out
    approved = taofold("approvals", "approve", run)
    assert f"runs resume {run} --agent FILE.py:NAME" in " ".join(approved.err.split())
    assert "decided: resume the run" in taofold("approvals", "list").out
    (listed,) = json.loads(taofold("approvals", "list", "--json").out)
    assert (listed["decided"], listed["live"]) == (True, False)
    assert agent.resume_sync(run).output == "done"
    assert taofold("approvals", "list").err.strip() == "nothing waits for you"


def test_a_call_in_doubt_is_shown_with_its_reason_and_three_ways_out(
    taofold: Taofold, started: Start, project: Path
) -> None:
    killed(started, project)
    resumed = taofold("runs", "resume", "last", "-q")
    assert resumed.code == 3
    name = json.loads(taofold("approvals", "list", "--json").out)[0]["id"]
    for shown in (resumed.err, taofold("approvals", "list").err):
        assert "before an interruption and may already have happened" in shown
        lines = [" ".join(line.split()) for line in shown.splitlines()]
        for label, command in (
            ("it happened:", f"approve {name} --done"),
            ("run it again:", f"approve {name}"),
            ("skip it:", f"deny {name}"),
        ):
            assert any(one.startswith(label) and one.endswith(command) for one in lines), shown
    noted = taofold("approvals", "approve", name, "--done")
    assert noted.err.startswith("recorded as done: slowly")
    assert taofold("runs", "resume", "last").code == 0


def test_a_run_whose_process_is_gone_is_interrupted_and_a_fork_is_forked(
    taofold: Taofold, started: Start, project: Path
) -> None:
    killed(started, project, "waiter")
    run = json.loads(taofold("runs", "list", "--json").out)[0]["id"]
    assert " interrupted " in taofold("runs", "list").out
    assert "status: interrupted " in taofold("runs", "show", run).out
    fork = taofold("runs", "fork", run, "--at", "0").out.strip()
    assert fork in taofold("runs", "list", "--status", "forked").out
    assert run in taofold("runs", "list", "--status", "interrupted").out
    assert taofold("runs", "list", "--status", "running").out == ""
    words = taofold("runs", "resume", "--help").out
    assert all(one in words for one in ("waits", "interrupted", "cancelled", "failed"))


@pytest.mark.parametrize("broken", ["corrupt", "newer", "no folder"])
def test_what_cannot_even_start_is_exit_code_2(
    taofold: Taofold, project: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / ".taofold" / "runs.db"
    if broken == "corrupt":
        path.write_bytes(b"this is no database" * 400)
    elif broken == "newer":
        taofold("run", "agents.py:adder", "add")
        with sqlite3.connect(path) as db:
            db.execute("pragma user_version = 9999")
        db.close()
    else:
        monkeypatch.setenv("TAOFOLD_HOME", str(project / "agents.py" / "inside"))
    done = taofold("run", "agents.py:adder", "add")
    assert done.code == 2, done.err
    assert done.err.startswith("error: ")


def test_init_where_nothing_can_be_written_is_exit_code_2(taofold: Taofold, project: Path) -> None:
    (project / "agent.yaml").mkdir()
    done = taofold("init", "--force")
    assert done.code == 2
    assert "cannot be written" in done.err


def test_an_import_under_a_taken_id_names_the_way_out(taofold: Taofold) -> None:
    taofold("run", "agents.py:adder", "add")
    taofold("runs", "export", "last", "-o", "out.ndjson")
    done = taofold("runs", "import", "out.ndjson")
    assert done.code == 2
    assert "--as ID" in done.err


def test_approve_all_is_one_line_and_tautologies_are_not_told(taofold: Taofold) -> None:
    done = taofold("run", "agents.py:writer", "go", "--approve", "all")
    assert done.err.count("allowed by --approve all") == 1
    assert "asks for approval" not in done.err
    assert "approved by" not in done.err
    asked = taofold("run", "agents.py:writer", "go").err
    assert "tier 2 asks" not in asked
    assert "it writes" in asked


def test_a_second_decision_is_in_the_log_and_not_in_the_trace(taofold: Taofold) -> None:
    taofold("run", "agents.py:writer", "go")
    name = json.loads(taofold("approvals", "list", "--json").out)[0]["id"]
    taofold("approvals", "approve", name)
    assert taofold("approvals", "deny", name).code == 1
    assert "refused" not in taofold("runs", "resume", "last").err
    assert "decision_refused" in taofold("runs", "log", "last").out


def test_a_run_ends_with_a_short_summary(taofold: Taofold) -> None:
    done = taofold("run", "agents.py:adder", "add")
    end = done.err.partition("finished: final_answer")[2].splitlines()[1:]
    assert end[0] == "calls: add ×1"
    assert "runs show" in end[-1]
    assert len(end) <= 5
    assert "calls:" not in taofold("run", "agents.py:adder", "add", "-q").err


def test_json_leaves_standard_error_to_errors(taofold: Taofold) -> None:
    assert taofold("run", "agents.py:adder", "add", "--json").err == ""
    assert taofold("run", "agents.py:writer", "go", "--json").err == ""
    assert "this deletes 1 run permanently" in taofold("runs", "delete", "last").err


def test_a_variable_that_means_nothing_is_a_warning_with_a_suggestion(
    taofold: Taofold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAOFOLD_MODELL", "x")
    done = taofold("run", "agents.py:adder", "add")
    assert done.code == 0
    assert "warning: unknown environment variable TAOFOLD_MODELL" in done.err
    assert "did you mean TAOFOLD_MODEL?" in done.err
    assert unknown(KNOWN) == []


def test_no_variable_that_taofold_reads_or_sets_is_unknown() -> None:
    """Mutant: `RECORDED_AGENTS` is not in `KNOWN`."""
    texts = [path.read_text() for path in (ROOT / "src" / "taofold").rglob("*.py")]
    names = {name for text in texts for name in re.findall(r'"(TAOFOLD_[A-Z_]*[A-Z])"', text)}
    assert {"TAOFOLD_HOME", "TAOFOLD_RECORDED_AGENTS"} <= names
    assert unknown(names) == []


def test_a_relative_xdg_variable_is_a_warning_because_it_is_ignored(
    taofold: Taofold, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert relative({"XDG_CONFIG_HOME": "", "XDG_STATE_HOME": "/abs"}) == []
    monkeypatch.setenv("XDG_CONFIG_HOME", "operator")
    done = taofold("run", "agents.py:adder", "add")
    assert done.code == 0
    assert "warning: XDG_CONFIG_HOME='operator' is a relative path and is ignored" in done.err


def test_every_limit_has_its_variable() -> None:
    limits = {one.removeprefix("TAOFOLD_LIMITS_").lower() for one in KNOWN if "LIMITS" in one}
    assert limits == set(LimitKeys.model_fields) - {"per_tool"}


def test_check_notes_a_misspelt_tool_in_a_policy(taofold: Taofold, project: Path) -> None:
    """Mutant: `check` does not call `_note_policy`, with or without `--import`."""
    code = '@tool(effect="read")\ndef send() -> str:\n    "Send."\n    return ""\n'
    (project / "mine.py").write_text(f"from taofold import tool\n\n\n{code}")
    text = "model: test:tools\ntools: [files, 'mine.py:send']\npolicy: {deny: [sendd]}\n"
    (project / "mine.yaml").write_text(text)
    assert "sendd" not in taofold("check", "mine.yaml").err
    noted = taofold("check", "--import", "mine.yaml")
    assert noted.code == 0
    assert "no tool of this agent is named 'sendd'; did you mean 'send'?" in noted.err
    (project / "mine.yaml").write_text(
        "model: test:tools\ntools: [files]\npolicy: {deny: [reed_file]}\n"
    )
    assert "did you mean 'read_file'?" in taofold("check", "mine.yaml").err
