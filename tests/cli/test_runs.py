"""`taofold runs …`: reading, travelling, replaying, forking, exporting, deleting."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Image, tool
from taofold.core.content import OpaquePart, ThinkingPart, blob_digest
from taofold.core.events import Violated
from taofold.core.values import Reply, ToolCall
from taofold.server.streams.events import project as project_events
from taofold.testing.models import ScriptedModel
from taofold.tools.threads import run_now
from tests.pictures import PICTURE, png
from tests.prerequisites import ROOT
from tests.terminal import Taofold


@pytest.fixture
def run(taofold: Taofold) -> str:
    """The id of a finished run."""
    return str(json.loads(taofold("run", "agents.py:adder", "add", "--json").out)["id"])


def test_without_runs_every_command_says_where_it_looked(taofold: Taofold) -> None:
    done = taofold("runs", "list")
    assert done.code == 2
    assert "there are no runs yet" in done.err


def test_the_log_of_a_program_in_this_folder_is_named(
    taofold: Taofold, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a.db").write_text("no log")
    agent = Agent(ScriptedModel(["x"]), log="mine.db")
    agent.run_sync("hello")
    assert agent.opened_log is not None
    run_now(agent.opened_log.close())
    done = taofold("approvals", "list")
    assert done.code == 2
    assert "to show the runs of mine.db, set TAOFOLD_LOG=mine.db" in " ".join(done.err.split())
    monkeypatch.setenv("TAOFOLD_LOG", "mine.db")
    assert "hello" in taofold("runs", "list").out


def test_list_shows_the_runs(taofold: Taofold, run: str) -> None:
    assert run in taofold("runs", "list").out
    told = json.loads(taofold("runs", "list", "--json").out)
    assert [(one["id"], one["status"]) for one in told] == [(run, "finished")]
    assert taofold("runs", "list", "--status", "waiting").out == ""
    assert taofold("runs", "list", "--status", "wating").code == 2


def test_a_run_that_was_begun_and_is_not_driven_yet_is_queued(taofold: Taofold) -> None:
    Path("queue_up.py").write_text(
        "import asyncio\nfrom agents import adder\n"
        "print(asyncio.run(adder.replace(log='.taofold/runs.db').begin('add')))\n"
    )
    begun = subprocess.run([sys.executable, "queue_up.py"], text=True, capture_output=True)
    run = begun.stdout.strip()
    assert json.loads(taofold("runs", "list", "--json").out)[0]["status"] == "queued"
    assert run in taofold("runs", "list", "--status", "queued").out
    taofold("runs", "resume", run, "--agent", "agents.py:adder")
    assert taofold("runs", "list", "--status", "queued").out == ""


def test_list_shows_the_runs_with_a_tag(taofold: Taofold, run: str) -> None:
    tagged = taofold("run", "agents.py:adder", "add", "--tag", "team=x", "--tag", "a=b", "--json")
    told = json.loads(taofold("runs", "list", "--tag", "team=x", "--json").out)
    assert [(one["id"], one["tags"]) for one in told] == [
        (json.loads(tagged.out)["id"], {"team": "x", "a": "b"})
    ]
    assert taofold("runs", "list", "--tag", "team=y").err.strip() == "no runs"
    for wrong in (["runs", "list", "--tag", "team"], ["run", "g", "--tag", "team"]):
        assert taofold(*wrong).code == 2


def test_show_travels(taofold: Taofold, run: str) -> None:
    assert "step 2 synthesis: it is 42" in taofold("runs", "show", run).out
    log = taofold("runs", "log", run, "--json").out.splitlines()
    seq = next(json.loads(line)["seq"] for line in log if '"observed"' in line)
    then = taofold("runs", "show", run, "--at", str(seq))
    assert "step 1" in then.out
    assert "step 2" not in then.out
    assert json.loads(taofold("runs", "show", run, "--at", "0", "--json").out)["steps"] == []
    assert taofold("runs", "show", run, "--at", "999").code == 2


def test_a_unique_beginning_names_a_run_and_an_ambiguous_one_does_not(
    taofold: Taofold, run: str
) -> None:
    taofold("run", "agents.py:adder", "add")
    assert taofold("runs", "show", run[:-1]).code == 0
    both = taofold("runs", "show", run[:3])
    assert both.code == 2
    assert "beginning of 2 runs" in both.err
    wrong = taofold("runs", "show", run[:-2] + "zz")
    assert wrong.code == 2
    assert f"did you mean {run}" in wrong.err


def test_log_has_one_line_for_each_event(taofold: Taofold, run: str) -> None:
    lines = taofold("runs", "log", run).out.splitlines()
    told = taofold("runs", "log", run, "--json").out.splitlines()
    assert len(lines) == len(told)
    assert lines[0].split()[:1] == ["0"]
    assert "run_started" in lines[0]
    assert "run_finished" in lines[-1]


def test_metrics_and_checklist(taofold: Taofold, run: str) -> None:
    assert json.loads(taofold("runs", "metrics", run, "--json").out)["iterations_count"] == 2
    points = taofold("runs", "check", run)
    assert points.out.count("\n") == 7
    assert points.code == (1 if "FAIL" in points.out else 0)


def test_replay_is_offline_and_identical(
    taofold: Taofold, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = taofold("runs", "log", run, "--json").out
    done = taofold("runs", "replay", run)
    assert done.code == 0
    assert done.out.startswith("identical")
    assert taofold("runs", "log", run, "--json").out == before


def test_replay_shows_the_first_divergence(taofold: Taofold, run: str) -> None:
    done = taofold("runs", "replay", run, "--agent", "agents.py:pointer")
    assert done.code == 1
    assert "diverges at effect" in done.out


@pytest.mark.parametrize("strict", [False, True])
def test_a_run_from_python_that_broke_a_rule_is_derived_as_it_was(
    taofold: Taofold, project: Path, strict: bool
) -> None:
    """A run keeps its initial strictness, regardless of the command."""
    place = {"__file__": str(project / "agents.py")}
    exec((project / "agents.py").read_text(), place)
    agent = place["careless"].replace(log=str(project / ".taofold/runs.db"), strict=strict)
    result = agent.run_sync("add", run_id="lenient")
    assert result.success
    broken = [r.event for r in result.records if isinstance(r.event, Violated)]
    assert broken
    done = taofold("runs", "replay", "lenient", "--agent", "agents.py:careless")
    assert (done.code, done.out.split()[0]) == (0, "identical:"), done.out
    half = next(r.seq for r in result.records if isinstance(r.event, Violated)) + 1
    new = taofold("runs", "fork", "lenient", "--at", str(half)).out.strip()
    done = taofold("runs", "resume", new, "--agent", "agents.py:careless")
    assert (done.code, done.out) == (0, "42\n"), done.err
    kept = json.loads(taofold("runs", "log", new, "--json").out.splitlines()[0])
    assert kept["event"]["settings"]["strict"] is strict
    # The same from Python: what the agent that carries on would choose does not matter.
    other = agent.replace(strict=not strict)
    assert run_now(other.replay("lenient")).success


def test_fork_and_diff(taofold: Taofold, run: str) -> None:
    log = taofold("runs", "log", run, "--json").out.splitlines()
    seq = next(json.loads(line)["seq"] for line in log if '"observed"' in line)
    new = taofold("runs", "fork", run, "--at", str(seq)).out.strip()
    parted = taofold("runs", "diff", run, new)
    assert parted.code == 1
    assert "nothing: the run ends here" in parted.out
    done = taofold("runs", "resume", new)
    assert (done.code, done.out) == (0, "42\n")
    assert taofold("runs", "diff", run, new).code == 0
    went = taofold("runs", "fork", run, "--at", str(seq), "--continue", "--json")
    assert json.loads(went.out)["output"] == "42"


def test_diff_shows_the_steps_that_differ(taofold: Taofold, run: str) -> None:
    other = json.loads(taofold("run", "agents.py:endless", "add", "--json").out)["id"]
    done = taofold("runs", "diff", run, other)
    assert done.code == 1
    assert "- → add a=17 b=25" in done.out
    assert json.loads(taofold("runs", "diff", run, other, "--json").out)["same"] is False


@pytest.mark.parametrize("format", ["ndjson", "tao-yaml", "react-json"])
def test_an_export_comes_back(taofold: Taofold, run: str, format: str, project: Path) -> None:
    assert taofold("runs", "export", run, "--format", format, "-o", "out").code == 0
    assert taofold("runs", "export", run, "--format", format, "-o", "out").code == 2
    done = taofold("runs", "import", "out", "--format", format, "--as", "copy")
    assert (done.code, done.out) == (0, "copy\n")
    told = json.loads(taofold("runs", "show", "copy", "--json").out)
    assert told["output"] == "42"
    assert taofold("runs", "import", "out", "--format", format, "--as", "copy").code == 2


@tool(effect="read")
def large() -> list[Any]:
    """A picture and much text."""
    return [Image(data=PICTURE, name="b.png"), "x" * 40_000]


def test_what_a_model_thought_and_was_shown_is_told_on_a_line_each(
    taofold: Taofold, project: Path
) -> None:
    thinking = "Let me see. " * 50
    parts = (ThinkingPart(thinking), OpaquePart("SIGNED", "thinking"), ToolCall("large", "{}", "c"))
    model = ScriptedModel([Reply(parts=parts), Reply("Seen.")])
    agent = Agent(model, tools=[large], log=str(project / ".taofold/runs.db"))
    assert agent.run_sync("Look.", run_id="r").success
    shown = taofold("runs", "show", "r").out
    assert f"thinking, {len(thinking)} characters: Let me see." in shown
    assert shown.count("Let me see.") < 12
    assert "[image image/png 1 kB b.png" in shown
    assert "SIGNED" not in shown
    events = list(project_events(agent_records(agent)))
    told = [event.get("reasoning") for event in events if event["type"] == "thinking"]
    assert told == [thinking, None], "the console shows it folded"
    assert "SIGNED" not in json.dumps(events)


def agent_records(agent: Agent[Any, Any]) -> Any:
    assert agent.opened_log is not None
    return run_now(agent.opened_log.read("r"))


def test_an_export_takes_pictures_and_large_results_along(taofold: Taofold, project: Path) -> None:
    replies = [Reply(calls=(ToolCall("large", "{}", "c1"),)), Reply("Seen.")]
    path = project / ".taofold/runs.db"
    agent = Agent(ScriptedModel(replies), tools=[large], log=str(path))
    assert agent.run_sync(["Look.", Image(data=png(3, 3), name="a.png")], run_id="r").success

    def kept() -> list[bytes]:
        with sqlite3.connect(path) as db:
            return [body for (body,) in db.execute("select body from blobs order by length(body)")]

    bodies = kept()
    assert {PICTURE, png(3, 3)} < set(bodies)
    assert len(bodies) == 3
    taofold("runs", "export", "r", "-o", "out.ndjson")
    assert taofold("runs", "delete", "r", "--yes").code == 0
    assert kept() == []
    assert taofold("runs", "import", "out.ndjson", "--as", "copy").code == 0
    assert kept() == bodies
    text = (project / "out.ndjson").read_text()
    *_, picture = [line for line in text.splitlines() if line.startswith('{"blob"')]
    stranger = json.dumps({"blob": blob_digest(b"?"), "body": "Pw=="}, separators=(",", ":"))
    for wrong in (
        text.replace(json.loads(picture)["body"], "Pw=="),
        f"{text}{stranger}\n",
        f"{text}{{}}\n",
    ):
        (project / "wrong.ndjson").write_text(wrong)
        refused = taofold("runs", "import", "wrong.ndjson", "--as", "other")
        assert refused.code == 2
        assert "wrong.ndjson:" in refused.err
    assert kept() == bodies


def test_an_imported_run_may_not_say_which_code_to_import(taofold: Taofold, run: str) -> None:
    taofold("runs", "export", run, "-o", "out.ndjson")
    taofold("runs", "import", "out.ndjson", "--as", "copy")
    refused = taofold("runs", "replay", "copy")
    assert refused.code == 2
    assert "--agent" in refused.err
    assert taofold("runs", "replay", "copy", "--agent", "agents.py:adder").code == 0


def test_a_damaged_export_is_refused_with_its_line(taofold: Taofold, project: Path) -> None:
    (project / "bad.ndjson").write_text("{}\n")
    done = taofold("runs", "import", "bad.ndjson")
    assert done.code == 2
    assert "bad.ndjson:1" in done.err


def test_delete_asks_unless_it_is_told_to(taofold: Taofold, run: str) -> None:
    asked = taofold("runs", "delete", run)
    assert asked.code == 2
    assert taofold("runs", "show", run).code == 0
    assert taofold("runs", "delete", run, "--yes").code == 0
    assert taofold("runs", "show", run).code == 2


def test_a_finished_run_is_not_resumed(taofold: Taofold, run: str) -> None:
    done = taofold("runs", "resume", run)
    assert done.code == 1
    assert "fork it" in done.err


def test_the_store_is_found_by_walking_up_and_the_environment_overrides(
    taofold: Taofold, run: str, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    inner = project / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert run in taofold("runs", "list").out
    monkeypatch.setenv("TAOFOLD_HOME", str(tmp_path / "elsewhere"))
    assert taofold("runs", "list").code == 2
    assert taofold("run", "../../agents.py:adder", "add").code == 0
    assert (tmp_path / "elsewhere" / ".gitignore").read_text() == "*\n"


@ROOT.mark
def test_a_folder_that_another_user_left_on_the_way_up_is_refused(
    taofold: Taofold, project: Path
) -> None:
    os.chown(project / ".taofold", 12345, -1)
    done = taofold("run", "agents.py:adder", "add")
    assert done.code == 2
    assert "belongs to another user" in done.err


def test_a_run_is_rated_shown_and_becomes_a_case(taofold: Taofold, run: str) -> None:
    assert taofold("eval", "--from-rated").code == 2
    assert "rated 0:" in taofold("runs", "rate", run, "bad", "--note", "it is 41").err
    assert taofold("runs", "show", run).out.endswith("rated 0 by local: it is 41\n")
    (shown,) = json.loads(taofold("runs", "show", run, "--json").out)["ratings"]
    assert (shown["by"], shown["value"], shown["note"]) == ("local", 0.0, "it is 41")
    cases = "cases:\n- goal: add\n  note: 'rated 0 by local: it is 41'\n"
    assert taofold("eval", "--from-rated").out == cases, "a wrong answer is nothing to expect"
    assert json.loads(taofold("runs", "rate", "last", "good", "--json").out)["value"] == 1
    assert "expect: '42'" in taofold("eval", "--from-rated").out
    for wrong in ("1.5", "well", "nan"):
        assert taofold("runs", "rate", run, wrong).code == 2
    taofold("runs", "delete", run, "--yes")
    assert taofold("eval", "--from-rated").code == 2


def test_the_prompt_of_a_call_is_shown_as_it_was_sent(taofold: Taofold, run: str) -> None:
    calls = json.loads(taofold("runs", "show", run, "--json").out)["model_calls"]
    last = taofold("runs", "show", run, "--prompt")
    assert last.code == 0
    assert f"prompt {calls} of {calls}" in last.out
    first = json.loads(taofold("runs", "show", run, "--prompt", "1", "--json").out)
    assert (first["number"], first["missing"]) == (1, "")
    assert first["messages"][-1]["parts"][0]["text"] == "add"
    beyond = taofold("runs", "show", run, "--prompt", str(calls + 1))
    assert beyond.code == 2
    assert f"--prompt is 1 to {calls}" in beyond.err
