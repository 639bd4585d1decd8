"""Runs that wait for an approval, and a decision from another process."""

import json
from pathlib import Path

import pytest

from taofold.cli.output import invocation
from tests.terminal import PATIENCE, Started, Taofold


def waiting(taofold: Taofold, agent: str = "writer") -> str:
    done = taofold("run", f"agents.py:{agent}", "go", "--json")
    assert done.code == 3
    pending = json.loads(done.out)["pending"]
    assert len(pending) == 1
    return str(pending[0]["id"])


def test_a_run_without_a_terminal_waits_with_exit_code_3(taofold: Taofold, project: Path) -> None:
    done = taofold("run", "agents.py:writer", "go")
    assert (done.code, done.out) == (3, "")
    assert "approvals approve" in done.err
    assert f"{invocation()} runs resume" in done.err
    assert not (project / "notes.txt").exists()


def test_approved_elsewhere_and_resumed_it_runs_once(taofold: Taofold, project: Path) -> None:
    action = waiting(taofold)
    assert action in taofold("approvals", "list").out
    assert taofold("approvals", "approve", action).code == 0
    done = taofold("runs", "resume", action.partition(":")[0])
    assert (done.code, done.out) == (0, "done\n")
    assert (project / "notes.txt").read_text() == "hello 7777\n"
    again = taofold("approvals", "approve", action)
    assert again.code == 1
    assert "not pending" in again.err


def test_a_run_may_stand_for_its_one_question(taofold: Taofold, project: Path) -> None:
    run = waiting(taofold).partition(":")[0]
    edited = '{"text": "edited_1"}'
    assert taofold("approvals", "approve", run, "--parameters", edited).code == 0
    assert taofold("runs", "resume", run).code == 0
    assert (project / "notes.txt").read_text() == "edited_1\n"


def test_an_edit_that_does_not_fit_is_refused_and_the_question_stays_open(
    taofold: Taofold, project: Path
) -> None:
    """Mutant: the schema is not checked, and the model gets the error."""
    run = waiting(taofold).partition(":")[0]
    for wrong in ('{"txt": "x"}', '{"text": 5}', "{}"):
        refused = taofold("approvals", "approve", run, "--parameters", wrong)
        assert refused.code == 1
        assert "edited parameters: " in refused.err
    assert run in taofold("approvals", "list").out
    assert taofold("approvals", "approve", run, "--parameters", '{"text": "y"}').code == 0
    assert taofold("runs", "resume", run).code == 0
    assert (project / "notes.txt").read_text() == "y\n"


def test_an_edit_for_an_agent_that_cannot_be_made_here_is_not_checked_and_says_so(
    taofold: Taofold, started: Started, project: Path
) -> None:
    run = waiting(taofold).partition(":")[0]
    code = (project / "agents.py").read_text()
    (project / "agents.py").write_text("raise ImportError('not on this machine')")
    process = started("approvals", "approve", run, "--parameters", '{"txt": "x"}')
    _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "the run asks again" in told
    (project / "agents.py").write_text(code)
    assert taofold("runs", "resume", run).code == 3
    assert not (project / "notes.txt").exists()


def test_all_that_a_run_asks_is_decided_with_one_word(taofold: Taofold, project: Path) -> None:
    done = taofold("run", "agents.py:pair", "go", "--json")
    ids = [one["id"] for one in json.loads(done.out)["pending"]]
    assert len(ids) == 2
    run = ids[0].partition(":")[0]
    refused = taofold("approvals", "approve", run)
    assert (refused.code, "--all" in refused.err) == (2, True)
    one = taofold("approvals", "approve", run, "--all", "--answer", "x")
    assert (one.code, "exactly one ID" in one.err) == (2, True)
    assert taofold("approvals", "approve", run, "--all").err.count("approved:") == 2
    assert taofold("runs", "resume", run).code == 0
    assert (project / "notes.txt").read_text() == "one\ntwo\n"
    assert taofold("approvals", "approve", run, "--all").code == 1


def test_several_ids_are_decided_at_once(taofold: Taofold, project: Path) -> None:
    done = taofold("run", "agents.py:pair", "go", "--json")
    ids = [one["id"] for one in json.loads(done.out)["pending"]]
    assert taofold("approvals", "deny", *ids, "--reason", "no").code == 0
    assert taofold("runs", "resume", "last").code == 0
    assert not (project / "notes.txt").exists()


def test_denied_it_does_not_run_and_the_agent_reads_why(taofold: Taofold, project: Path) -> None:
    action = waiting(taofold)
    assert taofold("approvals", "deny", action, "--reason", "not_today").code == 0
    done = taofold("runs", "resume", "last")
    assert "not_today" in done.err
    assert not (project / "notes.txt").exists()


@pytest.mark.scenario("PEER-29")
def test_a_question_waits_and_goes_on_with_the_answer(taofold: Taofold) -> None:
    action = waiting(taofold, "asker")
    assert "which colour_1?" in taofold("approvals", "list").out
    without = taofold("approvals", "approve", action)
    assert without.code == 2
    assert "--answer" in without.err
    assert taofold("approvals", "approve", action, "--answer", "deep_blue").code == 0
    done = taofold("runs", "resume", "last")
    assert done.code == 0
    assert "deep_blue" in done.out


@pytest.mark.scenario("PEER-28")
def test_a_waiting_run_reads_a_message_when_it_goes_on(taofold: Taofold) -> None:
    action = waiting(taofold, "asker")
    sent = taofold("runs", "steer", "last", "be_brief")
    assert "runs resume" in sent.err
    taofold("approvals", "approve", action, "--answer", "red")
    taofold("runs", "resume", "last")
    assert taofold("runs", "log", "last").out.count("be_brief") >= 1
    assert taofold("runs", "log", "last", "--json").out.count('"steered"') == 1


def test_a_waiting_run_is_cancelled_at_once(taofold: Taofold, project: Path) -> None:
    action = waiting(taofold)
    assert taofold("runs", "cancel", "last").code == 0
    assert json.loads(taofold("runs", "show", "last", "--json").out)["status"] == "cancelled"
    assert taofold("approvals", "list").err == "nothing waits for you\n"
    assert taofold("approvals", "approve", action).code == 1
    assert taofold("runs", "cancel", "last").code == 1


def test_approve_all_asks_nobody(taofold: Taofold, project: Path) -> None:
    done = taofold("run", "agents.py:writer", "go", "--approve", "all")
    assert done.code == 0
    assert (project / "notes.txt").read_text() == "hello 7777\n"


def test_approve_all_does_not_answer_questions(taofold: Taofold) -> None:
    assert taofold("run", "agents.py:asker", "go", "--approve", "all").code == 3


def test_the_policy_of_the_operator_holds_for_agents_in_python(
    taofold: Taofold, project: Path
) -> None:
    config = project.parent / "config" / "taofold"
    config.mkdir(parents=True)
    (config / "policy.yaml").write_text("tiers: {note: 4}\n")
    done = taofold("run", "agents.py:writer", "go", "--approve", "all")
    assert "forbidden" in done.err
    assert not (project / "notes.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("approve", "nope:3"), "no run 'nope'"),
        (("approve", "last:999"), "not pending"),
        (("approve", "last", "--parameters", "{"), "is not JSON"),
        (("approve", "last", "--parameters", "3"), "is a JSON object"),
        (("approve", "last", "--answer", "x"), "asks for approval"),
    ],
)
def test_a_decision_that_cannot_be_taken_is_refused(
    taofold: Taofold, arguments: tuple[str, ...], said: str
) -> None:
    waiting(taofold)
    done = taofold("approvals", *arguments)
    assert done.code in (1, 2)
    assert said in done.err
