"""One run in two runtimes: each continues the runs of the other, on one log."""

import json
import os
import re
import signal
import sqlite3
import subprocess
from contextlib import closing
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from taofold.cli.agent_argument import with_model
from taofold.files import Config, build, read_agent
from taofold.log.open import make_home
from taofold.log.sqlite.log import SqliteLog
from taofold.testing.models import ScriptedModel
from tests import conformance_kit as kit
from tests.prerequisites import TAOFOLD_RS, taofold_rs
from tests.rust.kit import AGENT, ANSWER, COUNT, Program, Script, action, begun, events, identical
from tests.terminal import until

pytestmark = [pytest.mark.rust, TAOFOLD_RS.mark]


def test_a_run_that_waits_in_one_is_approved_and_finished_by_the_other(
    both: tuple[Program, Program], script: Script
) -> None:
    first, second = both
    script([COUNT, ANSWER])
    run = begun(first)
    [asked] = second("approvals", "list", "--json").json
    assert asked["args"] == {"path": "a.txt"}
    assert second("approvals", "approve", run).code == 0
    done = second("runs", "resume", run, "--json")
    assert (done.code, done.json["output"], done.json["tool_calls"]) == (0, "3 words", 1)
    # Not asked twice: the approval in one runtime is valid in the other.
    [row] = first("runs", "list", "--json").json
    assert (row["id"], row["status"]) == (run, "finished")
    identical(run, first, second)


def test_an_approval_of_one_is_used_by_the_other(
    both: tuple[Program, Program], script: Script
) -> None:
    first, second = both
    script([COUNT, ANSWER])
    run = begun(first)
    assert second("approvals", "approve", run, "--parameters", '{"path": "a.txt"}').code == 0
    assert first("approvals", "approve", run).code == 1, "it was decided already"
    done = first("runs", "resume", run, "--json")
    assert (done.code, done.json["tool_calls"]) == (0, 1)
    identical(run, first, second)


def test_a_denial_with_a_reason_reaches_the_model_of_the_other(
    both: tuple[Program, Program], script: Script
) -> None:
    first, second = both
    script([COUNT, ANSWER])
    run = begun(first)
    assert second("approvals", "deny", run, "--reason", "not today").code == 0
    done = first("runs", "resume", run, "--json")
    assert (done.code, done.json["tool_calls"]) == (0, 0)
    assert "denied by local: not today" in second("runs", "show", run, "--json").out
    identical(run, first, second)


def test_an_approval_is_void_if_the_call_would_do_something_else_now(
    both: tuple[Program, Program], script: Script, project: Path
) -> None:
    """Mutant: a preview that is not compared. The definition of a tool holds no command."""
    first, second = both
    script([COUNT, ANSWER])
    run = begun(first)
    assert second("approvals", "approve", run).code == 0
    (project / "agent.yaml").write_text(AGENT.replace("[wc, -w,", "[wc, -c,"))
    waiting = second("runs", "resume", run, "--json")
    assert (waiting.code, waiting.json["tool_calls"]) == (3, 0), waiting
    [asked] = first("approvals", "list", "--json").json
    assert "'-c'" in asked["summary"]
    assert first("approvals", "approve", run).code == 0
    done = first("runs", "resume", run, "--json")
    assert (done.code, done.json["tool_calls"]) == (0, 1)
    identical(run, first, second)


def test_a_question_of_the_model_is_answered_through_the_other(
    both: tuple[Program, Program], script: Script
) -> None:
    first, second = both
    script([action("ask_user", question="Which file?"), ANSWER])
    run = begun(first, "count the words")
    [asked] = second("approvals", "list", "--json").json
    assert asked["question"] == "Which file?"
    assert second("approvals", "approve", run, "--answer", "a.txt").code == 0
    done = second("runs", "resume", run, "--json")
    assert (done.code, done.json["success"]) == (0, True)
    identical(run, first, second)


def test_a_flow_of_one_replays_in_the_other(both: tuple[Program, Program], script: Script) -> None:
    first, second = both
    script(['{"thinking": "1 + 2", "answer": 3}', action("finish", answer="yes")])
    done = first("run", "flow.yaml", "1 + 2?", "--json")
    assert (done.code, done.json["output"]) == (0, "yes"), done
    run = done.json["id"]
    identical(run, first, second)
    state = second("runs", "show", run, "--json").json
    assert (state["status"], state["output"]) == ("finished", "yes")


def reply(thought: str, kind: str, tool: str, **parameters: Any) -> str:
    call = {"tool": tool, "parameters": parameters, "rationale": "so that the goal is reached"}
    learned = {"learned": "word_count is there"} if tool == "finish" else {}
    return json.dumps({"thought": thought, "thought_type": kind, "action": call, **learned})


def test_a_strict_run_asks_for_aim_and_reason_in_both(
    both: tuple[Program, Program], rust: Program, script: Script
) -> None:
    """Mutants: a reason that "to the" gives; an aim that is judged in lenient runs."""
    first, second = both
    script(
        [
            reply("Looking at the code.", "reasoning", "nope"),
            reply("I go to the file of the words.", "reasoning", "nope"),
            reply("nope failed, word_count is there: I end.", "exception", "finish", answer="no"),
        ]
    )
    done = first("run", "agent.yaml", "count", "--strict", "--json")
    assert done.code == 0, done
    run = done.json["id"]
    broken = [event["rule"] for event in events(rust, run) if event["e"] == "violated"]
    assert sorted(broken) == ["missing_reason", "missing_reason", "unclear_intent"]
    identical(run, first, second)


def without_tools(case: Path) -> bool:
    return "tools:" not in (case / "flow.yaml").read_text()


@pytest.mark.parametrize("case", [*filter(without_tools, kit.cases())], ids=lambda case: case.name)
def test_a_kit_run_of_python_replays_in_rust(case: Path, rust: Program, project: Path) -> None:
    make_home(project / ".taofold")
    script = json.loads((case / "case.json").read_text())
    file, faults = read_agent(case / "flow.yaml")
    assert file is not None, faults
    agent = with_model(build(file, Config(), project), ScriptedModel(script["replies"]))
    log = SqliteLog(project / ".taofold" / "runs.db")
    agent.replace(log=log).run_sync(script["goal"], data=script["data"], run_id="r1")
    for row in rust("runs", "list", "--json").json:
        replayed = rust("runs", "replay", row["id"], "--agent", str(case / "flow.yaml"), "--json")
        assert replayed.code == 0, replayed


def test_a_run_that_ctrl_c_ends_is_cancelled_and_gone_on_with_by_python(
    python: Program, rust: Program, script: Script, project: Path
) -> None:
    """Mutant: an interrupted run whose row stays as it was, held by a process that is gone."""
    (project / "agent.yaml").write_text(AGENT.replace("[wc, -w,", "[sh, -c, 'sleep 60', "))
    script([COUNT, ANSWER])
    process = subprocess.Popen(
        [taofold_rs(), "run", "agent.yaml", "count", "--approve", "all"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    begun_call = re.compile(r'"e": ?"started')  # The call's event, not "run_started".
    until(lambda: begun_call.search(rust("runs", "log", "last", "--json").out), process)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    [row] = python("runs", "list", "--json").json
    assert (row["status"], row["held"]) == ("cancelled", False)
    asked = python("runs", "resume", "last", "--json")
    assert asked.code == 3, asked
    assert rust("approvals", "approve", "last", "--done").code == 0
    done = python("runs", "resume", "last", "--json")
    assert (done.code, done.json["output"]) == (0, "3 words")
    identical(row["id"], python, rust)


ASKS_A_CHILD = """
agents: {counter: agent.yaml}
nodes: [{name: a, uses: agent.counter, with: {goal: count a.txt}}]
result: "{{ state.a }}"
"""


def test_a_run_that_waits_inside_a_child_run_is_approved_and_finished_by_the_other(
    both: tuple[Program, Program], script: Script, project: Path
) -> None:
    """Mutant: a child run that is begun anew, so that its call is asked about a second time."""
    first, second = both
    (project / "flow.yaml").write_text(ASKS_A_CHILD)
    script([COUNT, ANSWER])
    run = begun(first, "count", "flow.yaml")
    [asked] = second("approvals", "list", run, "--json").json
    child = asked["run"]
    assert (asked["tool"], child) == ("word_count", f"{run}.1-0")
    rows = {row["id"]: row for row in second("runs", "list", "--json").json}
    assert (rows[run]["status"], rows[child]["parent"]) == ("waiting", run)
    assert second("approvals", "approve", run).code == 0
    done = second("runs", "resume", run, "--json")
    assert (done.code, done.json["output"]) == (0, "3 words"), done
    shown = first("runs", "show", child, "--json").json
    assert (shown["status"], shown["tool_calls"], shown["model_calls"]) == ("finished", 1, 2)
    identical(run, first, second)


def test_a_run_with_a_child_run_replays_in_the_other(
    both: tuple[Program, Program], rust: Program, script: Script, project: Path
) -> None:
    first, second = both
    (project / "flow.yaml").write_text(ASKS_A_CHILD)
    script([COUNT, ANSWER])
    done = first("run", "flow.yaml", "count", "--approve", "all", "--json")
    assert (done.code, done.json["output"]) == (0, "3 words"), done
    run = done.json["id"]
    identical(run, first, second)
    # Rust finds the agent of a child run through the agent of its caller.
    identical(f"{run}.1-0", rust)


def test_a_run_is_cancelled_with_the_child_run_that_waits(
    both: tuple[Program, Program], script: Script, project: Path
) -> None:
    first, second = both
    (project / "flow.yaml").write_text(ASKS_A_CHILD)
    script([COUNT])
    run = begun(first, "count", "flow.yaml")
    assert second("runs", "cancel", run).code == 0
    rows = {row["id"]: row["status"] for row in first("runs", "list", "--json").json}
    assert rows == {run: "cancelled", f"{run}.1-0": "cancelled"}
    assert second("approvals", "list", "--json").json == []


def test_rust_goes_on_with_a_child_run_by_way_of_the_run_that_began_it(
    rust: Program, script: Script, project: Path
) -> None:
    (project / "flow.yaml").write_text(ASKS_A_CHILD)
    script([COUNT])
    run = begun(rust, "count", "flow.yaml")
    refused = rust("runs", "resume", f"{run}.1-0")
    assert refused.code == 2
    assert f"taofold-rs runs resume {run}" in refused.err


def test_what_a_person_edited_is_what_is_shown(rust: Program, script: Script) -> None:
    """Mutant: `runs show` that shows what the model proposed."""
    script([COUNT, ANSWER])
    run = begun(rust)
    edited = rust("approvals", "approve", run, "--parameters", '{"path": "b.txt"}')
    assert edited.code == 0
    assert rust("runs", "resume", run, "--json").code == 0
    shown = rust("runs", "show", run)
    assert "word_count(path='b.txt')    (approved by local with edited parameters)" in shown.out
    assert "a.txt" not in shown.out.replace("goal: count a.txt", "")


def has_people(case: Path) -> bool:
    return "people" in json.loads((case / "case.json").read_text())


def agreed(event: dict[str, Any]) -> dict[str, Any]:
    """Returns an event without the fields that a provider adds to a reply."""
    return {name: each for name, each in event.items() if name not in ("finish", "issuer")}


@pytest.mark.parametrize("case", [*filter(has_people, kit.cases())], ids=lambda case: case.name)
def test_a_kit_run_that_waits_is_gone_on_with_by_the_other(
    case: Path, both: tuple[Program, Program], rust: Program, script: Script, project: Path
) -> None:
    """The other runtime takes over at each wait, and the run produces the kit's events."""
    told = json.loads((case / "case.json").read_text())
    for file in case.glob("*.yaml"):
        (project / file.name).write_text(file.read_text())
    script(told["replies"])
    data = f"question={told['data']['question']}"
    run = begun(both[0], told["goal"], "flow.yaml", "--set", data)
    for acts, by in zip(told["people"], cycle(reversed(both))):
        asked = by("approvals", "list", run, "--json").json
        for act in acts:
            if "steer" in act:
                done = by("runs", "steer", run, act["steer"])
            elif "cancel" in act:
                done = by("runs", "cancel", run)
            else:
                verb = "deny" if act["decide"] == "deny" else "approve"
                options = ["--reason", act["reason"]] if "reason" in act else []
                if "parameters" in act:
                    options += ["--parameters", json.dumps(act["parameters"])]
                done = by("approvals", verb, asked.pop(0)["id"], *options)
            assert done.code == 0, done
        if "cancel" not in acts[-1]:
            resumed = by("runs", "resume", run, "--approve", "wait", "--json")
            assert resumed.code in (0, 3), resumed
    logs = {run: json.loads((case / "events.json").read_text())}
    if (case / "children.json").exists():
        children = json.loads((case / "children.json").read_text())
        logs |= {child.replace("r1", run, 1): events for child, events in children.items()}
    for name, expected in logs.items():
        _, *records = rust("runs", "export", name).out.splitlines()
        found = [kit.compared(json.loads(record)["event"]) for record in records]
        # The other runtime words the same prompt differently.
        found = [event for event in found if event["e"] != "prompt_changed"]
        assert [*map(agreed, found)] == [agreed(unnamed(event, run)) for event in expected]
    identical(run, *both)


def unnamed(event: dict[str, Any], run: str) -> dict[str, Any]:
    """Returns an event of the kit with `run` as its parent instead of `r1`."""
    return {**event, "parent": run} if "parent" in event else event


def test_a_changed_log_replays_in_neither(
    both: tuple[Program, Program], script: Script, project: Path
) -> None:
    first, second = both
    script([ANSWER])
    run = first("run", "agent.yaml", "count", "--json").json["id"]
    with closing(sqlite3.connect(project / ".taofold" / "runs.db")) as log:
        changed = log.execute(
            "update events set body = replace(body, 'I use finish.', 'I made it up.') "
            "where json_extract(body, '$.e') = 'proposed'"
        )
        assert changed.rowcount == 1
        log.commit()
    assert [each("runs", "replay", run).code for each in (first, second)] == [1, 1]


def test_both_make_the_same_file_of_an_empty_one(rust: Program, project: Path) -> None:
    assert rust("run", "agent.yaml", "x", "--model", "test:answer").code == 0
    SqliteLog(project / "python.db").open()
    layouts = [layout(path) for path in (project / ".taofold/runs.db", project / "python.db")]
    assert layouts[0] == layouts[1]


def layout(path: Path) -> tuple[Any, ...]:
    with closing(sqlite3.connect(path)) as log:
        pragmas = [
            log.execute(f"pragma {name}").fetchone()[0]
            for name in ("user_version", "application_id", "page_size", "journal_mode")
        ]
        schema = log.execute("select type, name, sql from sqlite_master order by name").fetchall()
        notes = {name for (name,) in log.execute("select key from meta")}
        return pragmas, schema, notes


def test_a_log_that_is_a_copy_is_refused(rust: Program, project: Path) -> None:
    assert rust("run", "agent.yaml", "x", "--model", "test:answer").code == 0
    log = project / ".taofold" / "runs.db"
    copy = project / "copy.db"
    copy.write_bytes(log.read_bytes())
    os.environ["TAOFOLD_LOG"] = str(copy)
    try:
        refused = rust("runs", "list")
    finally:
        del os.environ["TAOFOLD_LOG"]
    assert refused.code == 2
    assert "not created by this user on this machine" in refused.err


def test_a_wal_file_that_was_not_written_here_is_refused(
    python: Program, rust: Program, project: Path
) -> None:
    assert rust("run", "agent.yaml", "x", "--model", "test:answer").code == 0
    wal = project / ".taofold" / "runs.db-wal"
    wal.write_bytes(b"planted" * 100)
    for refusing in (python, rust):
        refused = refusing("runs", "list")
        assert refused.code == 2
        assert "was not written by this user's taofold" in refused.err
    assert wal.read_bytes() == b"planted" * 100


def test_a_log_that_rust_left_in_the_middle_is_opened_by_python(
    python: Program, rust: Program, project: Path
) -> None:
    """Mutant: a -wal file without the mark. Whether one is left depends on how a process ends."""
    assert rust("run", "agent.yaml", "x", "--model", "test:answer").code == 0
    log = project / ".taofold" / "runs.db"
    # While the log is held open, the program does not checkpoint the -wal file at its end.
    with closing(sqlite3.connect(log)) as held:
        held.execute("select count(*) from events").fetchone()
        assert rust("run", "agent.yaml", "y", "--model", "test:answer").code == 0
        assert log.with_name("runs.db-wal").stat().st_size > 0
        assert len(python("runs", "list", "--json").json) == 2


def test_a_copy_without_its_wal_file_is_refused(rust: Program, project: Path) -> None:
    assert rust("run", "agent.yaml", "x", "--model", "test:answer").code == 0
    with closing(sqlite3.connect(project / ".taofold" / "runs.db")) as log:
        log.execute("insert or replace into meta values('records follow', '1')")
        log.commit()
    refused = rust("runs", "list")
    assert refused.code == 2
    assert "its last records are missing" in refused.err


def test_both_charge_their_replies_to_the_same_totals(
    python: Program, rust: Program, script: Script, project: Path
) -> None:
    """Mutant: an append in Rust that charges nothing."""
    script([ANSWER, ANSWER])
    for count, program in enumerate((rust, python), 1):
        assert program("run", "agent.yaml", "count").code == 0
        with closing(sqlite3.connect(project / ".taofold" / "runs.db")) as log:
            usages = [
                json.loads(body).get("usage", {})
                for (body,) in log.execute("select body from events")
                if json.loads(body)["e"] == "replied"
            ]
            spent = dict(log.execute("select scope, sum(tokens) from spend group by scope"))
        tokens = sum(use.get("input_tokens", 0) + use.get("output_tokens", 0) for use in usages)
        assert len(usages) == count
        assert tokens > 0
        assert spent["all"] == spent["principal:local"] == tokens


def test_both_count_what_a_rewind_revoked(
    both: tuple[Program, Program], python: Program, script: Script, project: Path
) -> None:
    """Mutants in Rust: revoked records are left out; a rewind is counted with the next record."""
    limited = AGENT.replace("steps: 6", "steps: 6, model_calls: 2")
    (project / "agent.yaml").write_text(limited, encoding="utf-8")
    first, second = both
    script([ANSWER, ANSWER])
    run = first("run", "agent.yaml", "count", "--json").json["id"]
    for resuming, reason in ((second, "final_answer"), (first, "max_model_calls")):
        assert python("runs", "rewind", run, "--at", "0").code == 0
        identical(run, first, second)
        ended = resuming("runs", "resume", run, "--json").json
        assert ended["stop_reason"] == reason, ended
        identical(run, first, second)
