"""`taofold loop` and `taofold loops`: real files, real pytest, a scripted model."""

import asyncio
import json
import signal
import subprocess
from pathlib import Path

import pytest

from taofold.cli import options
from taofold.cli.output import invocation
from taofold.learning.exchange.layout import loop_id
from taofold.log.sqlite.journal import SqliteJournal
from taofold.tools.containment import why_not
from tests.prerequisites import GIT
from tests.terminal import PATIENCE, Started, Taofold, until

from .conftest import GATE

pytestmark = GIT.mark

TASK = "Make the failing tests pass"
WARNING = (
    "warning: the gates run not contained (no bubblewrap): they have your rights\n"
    if why_not()
    else ""
)
"""The complete output of a quiet loop before its first iteration."""


def run(taofold: Taofold, agent: str, *more: str) -> tuple[int, str, str]:
    return taofold("loop", TASK, "-c", GATE, "--agent", f"agents:{agent}", *more)


@pytest.mark.scenario("RLP-01")
def test_without_a_completion_command_and_without_a_terminal_the_usage_is_told(
    taofold: Taofold,
) -> None:
    code, out, err = taofold("loop", "fix the tests", "--agent", "agents:fixer")
    assert (code, out) == (2, "")
    assert "--completion is missing" in err
    assert f"did you mean --completion '{GATE}'" in err
    assert "usage: " in err


@pytest.mark.scenario("RLP-01")
def test_a_criterion_that_is_no_command_is_refused_and_one_is_asked_for(taofold: Taofold) -> None:
    code, _, err = taofold("loop", TASK, "-c", "the code is clean", "--agent", "agents:fixer")
    assert code == 2
    assert "command" in err
    assert taofold("loops", "list").err == "no loops\n"


def test_an_agent_that_approves_in_its_own_code_does_so_here_too(taofold: Taofold) -> None:
    # The option of the command line wins.
    asked = ("--loop-id", "asked", "--approve", "wait", "--autonomy", "balanced")
    assert run(taofold, "trusted", *asked)[0] == 3
    assert taofold("loops", "abort", "asked").code == 0
    assert run(taofold, "trusted", "--loop-id", "own")[0] == 0


def test_runs_of_a_loop_are_listed_by_loop_iteration_and_task(taofold: Taofold) -> None:
    assert run(taofold, "slow_fixer", "--loop-id", "two")[0] == 0
    goals = [row["goal"] for row in json.loads(taofold("runs", "list", "--json").out)]
    assert sorted(goals) == [f"two, iteration {n}: {TASK}" for n in (1, 2)]


@pytest.mark.parametrize("verb", ["list", "status", "pause", "resume", "abort", "report"])
def test_where_nothing_was_started_yet_it_is_loops_that_are_spoken_of(
    taofold: Taofold, verb: str
) -> None:
    code, out, err = taofold("loops", verb)
    assert (code, out) == (2, "")
    assert "there are no loops yet" in err
    assert " loop`" in err


def test_a_loop_fixes_the_project_and_everything_can_be_looked_at(
    taofold: Taofold, project: Path, tmp_path: Path
) -> None:
    code, out, err = run(taofold, "slow_fixer", "--loop-id", "mine", "--json")
    assert (code, err) == (0, WARNING)
    said = json.loads(out)
    assert (said["status"], said["iterations"], said["best"]) == ("completed", 2, 2)
    assert "2 * n" in (project / "calc.py").read_text()

    listed = json.loads(taofold("loops", "list", "--json").out)
    assert [(one["loop_id"], one["status"]) for one in listed] == [("mine", "completed")]
    told = taofold("loops", "status", "--verbose").out
    assert "mine: completed" in told
    assert "2 of 2 checks pass" in told

    report = taofold("loops", "report").out
    assert "| 1 |" in report
    assert "+    return 2 * n" in report
    assert GATE in report
    machine = json.loads(taofold("loops", "report", "mine", "--json").out)
    assert machine["status"] == "completed"
    assert machine["gates"][0]["passed"]

    files = taofold("loops", "export", "-o", str(tmp_path / "out")).out.splitlines()
    home = tmp_path / "out" / "loops" / loop_id("mine")
    assert {Path(file) for file in files} >= {home / "state.json", tmp_path / "out/registry.json"}
    state = json.loads((home / "state.json").read_text())
    learning = state["cross_loop_learning"]
    assert set(learning) >= {"injected_patterns", "extracted_patterns", "improvement_estimate"}
    assert learning["improvement_estimate"]["actual_iterations"] == 2
    memory = json.loads((home / "debug-memory" / "session.json").read_text())
    tried = memory["executions"]
    assert [one["attempt"] for one in tried] == [1, 2, 3]
    assert tried[0]["failures"][0]["test_name"].endswith("::test_double")
    assert len(tried[0]["analysis"]["root_cause"]) >= 20
    assert [one["fix_applied"]["verification"] for one in tried[:2]] == ["failed", "passed"]
    assert tried[0]["code_hash"] != tried[1]["code_hash"]

    for verb, word in (("resume", "cannot be resumed"), ("abort", "has ended already")):
        code, _, err = taofold("loops", verb, "mine")
        assert code == 1
        assert word in err


@pytest.mark.scenario("RLP-04", "PEER-13")
def test_a_liar_is_not_believed(taofold: Taofold) -> None:
    code, out, err = run(taofold, "liar", "--max-iterations", "2")
    assert code == 1
    assert "exhausted" in out
    assert "loops resume" in err
    assert "SUCCESS: everything passes" in err  # declared and not accepted


def test_of_many_loops_only_the_newest_are_named(taofold: Taofold, project: Path) -> None:
    run(taofold, "liar", "--max-iterations", "1", "--loop-id", "only")

    async def more() -> None:
        journal = SqliteJournal(project / ".taofold" / "runs.db")
        [fact, *_] = await journal.facts("loop/only")
        for n in range(14):
            await journal.write(f"loop/more{n}", -1, [(fact.at + n, fact.body)])
        await journal.close()

    asyncio.run(more())
    err = taofold("loops", "report").err
    assert "15 loops are possible" in err
    assert "… and 5 more" in err
    assert len(err.splitlines()) == 12
    assert "… and 5 more" in taofold("loops", "report", "nothing").err
    assert taofold("loops", "list", "--status", "tampered").err == "no loops that are tampered\n"


@pytest.mark.scenario("RLP-05")
def test_resume_may_allow_more_steps(taofold: Taofold) -> None:
    code, _, err = run(taofold, "slow_fixer", "--max-iterations", "1", "--steps", "1")
    assert code == 1
    assert "1 iteration, and the gates do not pass" in err
    assert "1 iteration ·" in err
    more = ("--max-iterations", "3", "--steps", "9")
    code, _, err = taofold("loops", "resume", *more)
    assert code == 0, err
    assert "9 steps each" in err


@pytest.mark.scenario("PEER-14", "RLP-17")
def test_an_agent_that_edits_a_test_twice_ends_as_tampered_and_the_test_is_put_back(
    taofold: Taofold, project: Path
) -> None:
    before = (project / "test_calc.py").read_text()
    code, out, err = run(taofold, "cheat")
    assert code == 1
    assert "tampered" in out
    assert "--allow-edit test_calc.py" in out
    assert "test_calc.py" in err
    assert (project / "test_calc.py").read_text() == before
    # The agent's changes are kept: they may be correct.
    kept = err.partition("protected files are in ")[2].splitlines()[0]
    assert {file.read_text() for file in Path(kept).rglob("test_calc.py")} == {
        "def test_double():\n    pass\n"
    }
    report = taofold("loops", "report").out
    assert "## Changes of protected files that were put back" in report
    assert report.count("+    pass") == 2


@pytest.mark.scenario("PEER-14")
def test_an_agent_that_edits_a_test_once_is_told_and_may_go_on(
    taofold: Taofold, project: Path
) -> None:
    """Mutants: the first edit ends the loop; the edit stays; the output does not name it."""
    before = (project / "test_calc.py").read_text()
    code, out, err = run(taofold, "corrected")
    assert (code, "completed, the gates passed after iteration 2" in out) == (0, True)
    assert "test_calc.py was changed, restored" in err
    assert (project / "test_calc.py").read_text() == before
    report = taofold("loops", "report").out
    assert "+    pass" in report


@pytest.mark.scenario("RLP-05", "RLP-18")
def test_an_exhausted_loop_goes_on_with_larger_limits(taofold: Taofold) -> None:
    assert run(taofold, "slow_fixer", "--max-iterations", "1")[0] == 1
    code, _, err = taofold("loops", "resume")
    assert code == 1
    assert "--max-iterations 2" in err
    code, out, err = taofold("loops", "resume", "--max-iterations", "4")
    assert code == 0, err
    assert "completed, the gates passed after iteration 2" in out


@pytest.mark.scenario("RLP-14")
def test_with_several_loops_and_no_id_an_error_lists_them(taofold: Taofold) -> None:
    for name in ("one", "two"):
        run(taofold, "liar", "--max-iterations", "1", "--loop-id", name)
    for verb in ("status", "resume", "report"):
        code, _, err = taofold("loops", verb)
        assert code == 2, verb
        assert "  one\n" in err
        assert "  two\n" in err
    code, _, err = taofold("loops", "abort")
    assert code == 2
    assert "there is no loop for this command" in err
    # A shell completes the same ids, and the newest by its word.
    assert [name for name, _ in options.loops("")] == ["two", "one", "last"]
    assert options.loops("o") == [("one", "")]


@pytest.mark.scenario("RLP-14")
def test_of_several_open_loops_none_is_aborted_without_its_id(taofold: Taofold) -> None:
    for name in ("one", "two"):
        run(taofold, "asker", "--loop-id", name, "--autonomy", "balanced")
    code, _, err = taofold("loops", "abort")
    assert code == 2
    assert "  one\n" in err
    assert "  two\n" in err
    listed = json.loads(taofold("loops", "list", "--json").out)
    assert {one["status"] for one in listed} == {"paused"}
    assert taofold("loops", "abort", "two").code == 0


def test_an_approval_pauses_the_loop_with_3_and_resume_goes_on(
    taofold: Taofold, project: Path
) -> None:
    code, out, err = run(taofold, "asker", "--autonomy", "balanced", "--approve", "wait")
    assert code == 3
    assert "paused, awaiting_approval" in out
    assert "approvals list" in err
    while code == 3:
        [asked, *_] = json.loads(taofold("approvals", "list", "--json").out)
        assert f"waits for approval: {asked['summary'].splitlines()[0]}" in err
        assert f"approvals approve {asked['id']}    (or deny)" in err
        assert taofold("approvals", "approve", asked["id"]).code == 0
        code, _, err = taofold("loops", "resume", "--approve", "wait")
    assert code == 0, err


@pytest.mark.scenario("RLP-12")
@pytest.mark.crash
def test_a_killed_loop_is_found_crashed_and_goes_on(
    taofold: Taofold, project: Path, started: Started
) -> None:
    process = started("loop", TASK, "-c", GATE, "--agent", "agents:waiter", "--loop-id", "x")
    signs = project / ".taofold"
    until(lambda: (signs / "waiting").exists(), process)
    assert "x: running" in taofold("loops", "status").out
    code, _, err = taofold("loops", "resume")
    assert code == 1
    assert "driven by process" in err
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    told = taofold("loops", "status").out
    assert "x: crashed (the process that drove it is gone)" in told
    (signs / "go").touch()
    code, out, err = taofold("loops", "resume")
    assert code == 0, err
    assert "after iteration 1" in out


@pytest.mark.crash
def test_a_loop_killed_inside_an_action_asks_whether_it_happened_and_says_how_to_answer(
    taofold: Taofold, project: Path, started: Started
) -> None:
    process = started("loop", TASK, "-c", GATE, "--agent", "agents:deployer", "--loop-id", "x")
    signs = project / ".taofold"
    until(lambda: (signs / "waiting").exists(), process)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    code, out, err = taofold("loops", "resume", "--approve", "wait")
    assert (code, out) == (3, "x: paused, awaiting_approval\n")
    [asked] = json.loads(taofold("approvals", "list", "--json").out)
    assert "waits for approval: slow_deploy" in err
    assert asked["question"] in err
    assert f"it happened:   {invocation()} approvals approve {asked['id']} --done" in err
    assert taofold("approvals", "approve", asked["id"], "--done").code == 0
    code, out, err = taofold("loops", "resume")
    assert code == 0, err
    assert not (signs / "go").exists(), "it was not run again"


@pytest.mark.crash
def test_aborting_a_running_loop_stops_its_process_and_reverts(
    taofold: Taofold, project: Path, started: Started
) -> None:
    before = (project / "calc.py").read_text()
    process = started("loop", TASK, "-c", GATE, "--agent", "agents:waiter", "--loop-id", "x")
    until(lambda: (project / ".taofold" / "waiting").exists(), process)
    assert taofold("loops", "abort", "--revert").code == 2  # no terminal to confirm
    code, out, err = taofold("loops", "abort", "--revert", "--yes")
    assert code == 0, err
    assert "x: aborted" in out
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "aborted by local" in err
    assert (project / "calc.py").read_text() == before
    code, _, err = taofold("loops", "resume", "x")
    assert code == 1
    assert "cannot be resumed" in err


def test_a_worktree_keeps_what_was_not_committed_and_the_result_is_brought_back(
    taofold: Taofold, project: Path
) -> None:
    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments],
            cwd=project, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    (project / "calc.py").write_text("def double(n):\n    return 3 * n\n")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "first")
    (project / "notes.txt").write_text("not committed")
    code, _, err = taofold(
        "loop", TASK, "-c", GATE, "-m", "offline:repair", "--worktree", "--branch", "ralph/x",
        "--loop-id", "x", "--steps", "60", "--approve", "all",
    )  # fmt: skip
    assert code == 0, err
    assert "2 * n" in (project / "calc.py").read_text()
    assert (project / "notes.txt").read_text() == "not committed"
    log = git("log", "--format=%s", "ralph/x").splitlines()
    assert log == ["ralph: iteration 1", "first"]
    assert git("rev-parse", "--abbrev-ref", "HEAD").strip() != "ralph/x"


def test_the_run_of_an_iteration_can_be_replayed_by_itself(taofold: Taofold) -> None:
    run(taofold, "fixer", "--loop-id", "x")
    code, out, err = taofold("runs", "replay", "x.1")
    assert code == 0, err
    assert "identical" in out


@pytest.mark.parametrize(
    ("arguments", "word"),
    [(("--memory", "11"), "--memory"), (("--copy", "--worktree"), "exclude one another"),
     (("--interactive",), "needs a terminal"),
     (("--copy",), "were made for the project"), (("--loop-id", "A B"), "--loop-id")],
)  # fmt: skip
def test_wrong_options_are_refused(taofold: Taofold, arguments: tuple[str, ...], word: str) -> None:
    code, out, err = run(taofold, "fixer", *arguments)
    assert (code, out) == (2, "")
    assert word in err


def test_commits_that_cannot_be_made_are_refused_before_the_loop(
    taofold: Taofold, project: Path
) -> None:
    def refused(*more: str) -> str:
        code, out, err = run(taofold, "fixer", *more)
        assert (code, out) == (2, "")
        return err

    assert "not a git repository" in refused("--commit")
    subprocess.run(["git", "init", "-q", "-b", "mine"], cwd=project, check=True)
    who = ["-c", "user.name=t", "-c", "user.email=t@t"]
    commit = ["git", *who, "commit", "-q", "--allow-empty", "-m", "first"]
    subprocess.run(commit, cwd=project, check=True)
    assert "'mine' is checked out" in refused("--branch", "mine")
    assert "not a valid branch name" in refused("--branch", "a..b")
    assert taofold("loops", "list").err == "no loops\n"


@pytest.mark.scenario("XTL-29")
@pytest.mark.parametrize("file", ["aiwg.yml", ".taofold/config.yml"])
def test_what_a_file_says_of_learning_takes_effect(
    taofold: Taofold, project: Path, file: str
) -> None:
    keys = "{extraction: {enabled: false}, injection: {enabled: false}}"
    (project / file).write_text("ralph: {cross_loop_learning: " + keys + "}\n")
    code, out, err = run(taofold, "slow_fixer", "--json")
    assert code == 0, err
    assert json.loads(out)["cross_loop_learning"]["extracted_patterns"] == []
    (project / file).write_text("ralph: {cross_loop_learning: {injection: {top_k: 3}}}\n")
    code, out, err = run(taofold, "slow_fixer")
    assert (code, out) == (2, "")
    assert "ralph.cross_loop_learning.injection.top_k" in err


def test_ralph_is_another_name(taofold: Taofold) -> None:
    code, out, _ = taofold("ralph", TASK, "-c", GATE, "--agent", "agents:fixer")
    assert code == 0
    assert "completed" in out


@pytest.mark.scenario("RLP-02")
def test_a_green_gate_ends_at_once_with_a_warning(taofold: Taofold, project: Path) -> None:
    (project / "calc.py").write_text("def double(n):\n    return 2 * n\n")
    code, out, err = run(taofold, "liar", "--json")
    said = json.loads(out)
    assert (code, said["iterations"], err) == (0, 0, WARNING)
    assert "nothing is learnt" in said["warning"]
    assert said["cross_loop_learning"]["extracted_patterns"] == []


def test_snapshots_of_loops_that_ended_are_removed_when_a_person_says_so(
    taofold: Taofold, project: Path, tmp_path: Path
) -> None:
    """Mutants: a loop that can be resumed loses its snapshots; a dry run removes them."""
    run(taofold, "fixer", "--loop-id", "one")
    (project / "calc.py").write_text("def double(n):\n    return n\n")
    run(taofold, "liar", "--loop-id", "two", "--max-iterations", "1")
    folders = sorted((tmp_path / "state" / "taofold" / "loops").glob("*/*"))
    assert [folder.name.partition(".")[0] for folder in folders] == ["one", "two"]
    assert taofold("loops", "clean").code == 2, "nobody can be asked"
    code, out, err = taofold("loops", "clean", "--dry-run")
    assert (code, out.startswith("1 folder would be removed, ")) == (0, True)
    assert "two  exhausted  kept: it can be resumed; --all removes it" in err
    assert [folder.exists() for folder in folders] == [True, True]
    assert taofold("loops", "clean", "--yes").code == 0
    assert [folder.exists() for folder in folders] == [False, True]
    assert taofold("loops", "report", "one").code == 0
    code, _, err = taofold("loops", "revert", "one", "--yes")
    assert (code, "there is no workspace in" in err) == (2, True)
    found = json.loads(taofold("loops", "clean", "--all", "--yes", "--json").out)
    assert found["folders"] == [str(folders[1])]
    assert found["bytes"] > 0
    assert not folders[1].exists()


def test_work_that_was_not_brought_back_is_never_cleaned_up(
    taofold: Taofold, project: Path, tmp_path: Path
) -> None:
    """Mutant: its status alone decides."""
    taofold(
        "loop", TASK, "-c", GATE, "-m", "offline:repair", "--copy", "--loop-id", "x",
        "--steps", "1", "--max-iterations", "1", "--approve", "all",
    )  # fmt: skip
    (folder,) = (tmp_path / "state" / "taofold" / "loops").glob("*/x.*")
    code, out, err = taofold("loops", "clean", "--all", "--yes")
    assert (code, out.startswith("0 folders removed")) == (0, True)
    assert "its work was not applied" in err
    assert (folder / "work" / "calc.py").exists()


def test_what_no_gate_has_run_with_is_named_when_a_loop_ends_unfinished(
    taofold: Taofold, project: Path
) -> None:
    """Mutant: a conftest.py that makes the user's own run green is not named."""
    code, _, err = run(taofold, "planter", "--max-iterations", "1", "--loop-id", "x")
    assert code == 1
    assert (project / "conftest.py").exists()
    assert "changes that no gate has run with" in err
    assert "conftest.py" in err.partition("no gate has run with")[2]
    assert "conftest.py" in taofold("loops", "report", "x").out.partition("warning:")[2]
