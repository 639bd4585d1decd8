"""`taofold run`: result, trace, exit codes, sessions."""

import asyncio
import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from taofold import Agent, Principal
from taofold.log.sqlite.log import SqliteLog
from taofold.testing import ScriptedModel
from tests.ports import PATIENCE
from tests.terminal import Result, Taofold

Start = Callable[..., subprocess.Popen[str]]


def until(there: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not there():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


@pytest.mark.scenario("TAG-27")
def test_standard_output_holds_only_the_result(taofold: Taofold) -> None:
    done = taofold("run", "agents.py:adder", "add 17 and 25")
    assert done == Result(0, "42\n", done.err)
    assert "step 1 goal: 17 and 25" in done.err
    assert "success" in done.err
    assert "2 steps · 1 call" in done.err


@pytest.mark.scenario("TAG-27")
def test_json_prints_only_the_result_object(taofold: Taofold) -> None:
    done = taofold("run", "agents.py:adder", "add 17 and 25", "--json")
    told = json.loads(done.out)
    assert told["output"] == "42"
    assert told["success"] is True
    assert (told["status"], told["stop_reason"]) == ("finished", "final_answer")
    assert (told["steps"], told["tool_calls"], told["pending"]) == (2, 1, [])


def test_quiet_says_nothing_of_the_way(taofold: Taofold) -> None:
    assert "step" not in taofold("run", "agents.py:adder", "add", "-q").err


def test_a_typed_output_is_printed_as_json(taofold: Taofold) -> None:
    assert json.loads(taofold("run", "agents.py:pointer", "where?").out) == {"x": 3}


def test_a_goal_may_come_from_standard_input(taofold: Taofold) -> None:
    assert "from a pipe" in taofold("run", "agents.py:listening", "-", stdin="from a pipe").out


def test_a_limit_is_exit_code_1(taofold: Taofold) -> None:
    done = taofold("run", "agents.py:endless", "go on")
    assert done.code == 1
    assert "limited: max_steps" in done.err


def test_flags_bound_a_run(taofold: Taofold) -> None:
    done = taofold("run", "agents.py:endless", "go on", "--steps", "0", "--json")
    assert (done.code, json.loads(done.out)["steps"]) == (1, 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "agents.py:adder"), "GOAL is missing"),
        (("run", "agents.py:ader", "x"), "did you mean 'adder'"),
        (("run", "agents.py:nothing", "x"), "is of the type int, not an Agent"),
        (("run", "missing.yaml", "x"), "there is no agent file 'missing.yaml'"),
        (("run", "no.such:thing", "x"), "there is no module 'no'"),
        (("run", "agents.py:adder", " "), "GOAL is empty"),
        (("run", "do something"), "no model"),
        (("run", "--model", "opnai:x", "do something"), "did you mean 'openai'"),
        (("run", "agents.py:adder", "x", "--approve", "yes"), "--approve is one of"),
        (("run", "agents.py:adder", "x", "--autonomy", "full"), "--autonomy is one of"),
        (("run", "agents.py:adder", "x", "--root", "nowhere"), "is no directory"),
        (("rn",), "Did you mean"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_says_what_to_do(
    taofold: Taofold, arguments: tuple[str, ...], said: str
) -> None:
    done = taofold(*arguments)
    assert done.code == 2
    assert said in done.err
    assert done.out == ""


def test_the_default_agent_works_on_the_current_directory(taofold: Taofold) -> None:
    done = taofold("run", "--model", "offline:repair", "write a poem")
    assert "search policy" in done.out  # it declines, and names the file's kind
    assert "default with offline:repair" in done.err


@pytest.mark.scenario("PEER-33")
def test_a_session_carries_the_conversation_over(taofold: Taofold) -> None:
    taofold("run", "agents.py:listening", "my name is Ada_1", "--session", "s")
    assert "Ada_1" in taofold("run", "agents.py:listening", "who am I?", "--session", "s").out
    assert "Ada_1" not in taofold("run", "agents.py:listening", "who am I?").out


@pytest.mark.scenario("PEER-33")
def test_a_session_has_one_run_at_a_time(taofold: Taofold) -> None:
    assert taofold("run", "agents.py:writer", "write", "--session", "s").code == 3
    done = taofold("run", "agents.py:listening", "hello", "--session", "s")
    assert done.code == 1
    assert "has not ended" in done.err


async def _remembered(log: SqliteLog, principal: str, session: str) -> None:
    agent = Agent(ScriptedModel(["my name is Ada_1"]), strategy="direct", log=log)
    await agent.run("my name is Ada_1", session=session, principal=Principal(principal))
    await log.close()


def test_a_session_with_the_name_of_somebody_elses_is_another_conversation(
    taofold: Taofold, project: Path
) -> None:
    # A server keeps the session x of ann as `ann/x`.
    taofold("run", "agents.py:listening", "hello")
    asyncio.run(_remembered(SqliteLog(project / ".taofold/runs.db"), "ann", "ann/x"))
    asks = ("run", "agents.py:listening", "who am I?", "--session", "ann/x")
    assert "Ada_1" not in taofold(*asks).out
    taofold("run", "agents.py:listening", "my name is Bob_1", "--session", "ann/x")
    assert "Bob_1" in taofold(*asks).out


def test_child_runs_are_told_inside_their_parents(taofold: Taofold) -> None:
    done = taofold("run", "agents.py:boss", "delegate")
    assert done.code == 0
    assert "    step 1 goal: 17 and 25" in done.err
    assert "\nstep 2 synthesis" in done.err
    assert "child" in taofold("runs", "list").out


def test_text_of_a_model_cannot_reach_the_terminal_raw(taofold: Taofold) -> None:
    done = taofold("run", "agents.py:evil", "go")
    assert "\x1b" not in done.err
    assert "\u202e" not in done.err
    assert "␛[2J" in done.err
    assert done.out == "\x1b[31mred\n"  # a pipe gets the result as it is


@pytest.mark.scenario("PEER-28")
def test_a_running_run_is_steered_from_another_process(
    taofold: Taofold, started: Start, project: Path
) -> None:
    process = started("run", "agents.py:waiter", "wait")
    until((project / "waiting").exists)
    sent = taofold("runs", "steer", "last", "the magic_word is xyzzy_9")
    (project / "go").touch()
    _, err = process.communicate(timeout=PATIENCE)
    assert sent.code == 0
    assert process.returncode == 0, err
    shown = taofold("runs", "log", "last", "--json").out
    steered = [json.loads(line)["event"] for line in shown.splitlines() if '"steered"' in line]
    assert [(one["text"], one["by"]) for one in steered] == [("the magic_word is xyzzy_9", "local")]


def test_a_running_run_is_cancelled_from_another_process(
    taofold: Taofold, started: Start, project: Path
) -> None:
    process = started("run", "agents.py:waiter", "wait", "--json")
    until((project / "waiting").exists)
    assert taofold("runs", "cancel", "last").code == 0
    (project / "go").touch()
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert json.loads(out)["status"] == "cancelled"


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_was_done_and_says_how_to_go_on(
    taofold: Taofold, started: Start, project: Path, sent: signal.Signals
) -> None:
    process = started("run", "agents.py:waiter", "wait")
    until((project / "waiting").exists)
    process.send_signal(sent)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (130, "")
    assert "runs resume" in err
    (project / "go").touch()
    assert taofold("runs", "resume", "last").code == 0


def test_a_run_that_another_process_drives_is_not_taken_over(
    taofold: Taofold, started: Start, project: Path
) -> None:
    process = started("run", "agents.py:waiter", "wait")
    until((project / "waiting").exists)
    done = taofold("runs", "resume", "last")
    deleted = taofold("runs", "delete", "last", "--yes")
    (project / "go").touch()
    process.communicate(timeout=PATIENCE)
    assert done.code == 1
    assert "is being driven by process" in done.err
    assert deleted.code == 1
    assert process.returncode == 0


@pytest.mark.scenario("TAG-02")
@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ((), ["add"]),
        (("--tools", "found"), ["add", "hi"]),
        (("--tools", "found", "--recursive"), ["add", "hi"]),
        (("--tools", "found", "--no-recursive"), ["add"]),
        (("--tools", "found/below", "--no-recursive"), ["add", "hi"]),
    ],
)
def test_tools_are_discovered_below_a_folder_unless_not_wanted(
    taofold: Taofold, project: Path, arguments: tuple[str, ...], names: list[str]
) -> None:
    (project / "found" / "below").mkdir(parents=True)
    code = "def hi(state, args):\n    'Say hi.'\n    return 'hi', 1\n"
    (project / "found" / "below" / "tagent.tools.py").write_text(code)
    offered = "\n".join(f"- {name}" for name in names)
    done = taofold("run", "agents.py:shows_tools", "which tools?", *arguments)
    assert done.out == f"{offered}\n", done.err
