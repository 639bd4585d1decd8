"""Approvals at the terminal: only a clear yes is one, and the end of the input leaves it open."""

import io
import os
import pty
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from taofold import Agent, MemoryLog, tool
from taofold.core.values import Action, Tier
from taofold.runtime.approvers import approve_all, at_terminal, discard_typed, has_input
from taofold.runtime.ledger import Park
from taofold.runtime.setup import Approval, cut_preview
from tests.terminal import PATIENCE

from .kit import Memo, act, batch, finish

pytestmark = pytest.mark.anyio


def asked(preview: str = "pay(5)", **options: Any) -> Approval:
    plain: dict[str, Any] = {
        "run": "r", "key": "1", "action": Action("pay", {"amount": 5}), "tier": Tier.CONFIRM,
        "reason": "tier 3 always asks", "preview": preview, "digest": "d", "policy": "p",
        "requester": "ann", "asked_at": 1, "expires_at": 0, "question": "", "index": 0,
    }  # fmt: skip
    return Approval("r:1", **{**plain, **options})


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Any:
    def typed(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))

    return typed


@pytest.mark.parametrize(
    ("line", "verdict"),
    [("y\n", "allow"), (" YES \n", "allow"), ("\n", "deny"), ("n\n", "deny"), ("yep\n", "deny")],
)
async def test_only_a_clear_yes_approves(
    line: str, verdict: str, typed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(line)
    decision = await at_terminal(asked())
    assert not isinstance(decision, list)
    assert decision.verdict == verdict
    shown = capsys.readouterr()
    assert "pay needs your approval (tier 3: tier 3 always asks)" in shown.err
    assert "pay(5)" in shown.err
    assert shown.out == "", "stdout carries the result only"


@pytest.mark.parametrize(
    ("action", "waits_for"), [("pay", "awaiting_approval"), ("ask_user", "awaiting_input")]
)
async def test_the_end_of_the_input_leaves_the_run_waiting(
    action: str, waits_for: str, typed: Any
) -> None:
    typed("")
    question = "which?" if action == "ask_user" else ""
    with pytest.raises(Park) as parked:
        await at_terminal(asked(action=Action(action), question=question))
    assert parked.value.args == (waits_for,)


async def test_a_question_is_answered_with_what_was_typed(
    typed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    typed("  the blue one \n")
    decision = await at_terminal(asked(action=Action("ask_user"), question="which?"))
    assert not isinstance(decision, list)
    assert (decision.verdict, decision.answer) == ("allow", "the blue one")
    assert "? the agent asks:\n  │ which?\n> " in capsys.readouterr().err


async def test_nothing_that_is_shown_moves_the_cursor(
    typed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    typed("n\nn\nn\n")
    evil = "pay(5)\x1b[2K\rlook()\u202e"
    await at_terminal(asked(evil, reason=evil))
    one = asked(evil)
    await at_terminal(asked(evil, batch=(one, one)))
    shown = capsys.readouterr().err
    for hidden in ("\x1b", "\r", "\u202e"):
        assert hidden not in shown


async def test_what_a_step_asks_at_once_is_listed_first_and_answered_one_by_one(
    typed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[int] = []

    @tool(effect="once", tier=3)
    def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return f"paid {amount}"

    typed("y\nn\n")
    script = [batch(("pay", {"amount": 5}), ("pay", {"amount": 7})), finish()]
    agent = Agent(Memo(script), tools=[pay], approve="terminal", log=MemoryLog())
    result = await agent.run("go")
    assert result.status == "finished"
    assert ran == [5]
    shown = capsys.readouterr().err
    assert "2 calls of one step need your approval" in shown
    assert shown.index("  1. │ pay(amount=5)") < shown.index("  2. │ pay(amount=7)")
    assert shown.index("  2. │ pay(amount=7)") < shown.index("approve? [y/N]")
    assert shown.count("approve? [y/N]") == 2


async def test_one_call_is_not_listed(typed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    @tool(effect="once", tier=3)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    typed("y\n")
    agent = Agent(Memo([act("pay", amount=5), finish()]), tools=[pay], approve="terminal")
    assert (await agent.run("go")).status == "finished"
    assert "calls of one step" not in capsys.readouterr().err


def test_everything_is_approved_but_no_question_answered() -> None:
    assert approve_all(asked())
    for action, waits_for in (("pay", "awaiting_approval"), ("ask_user", "awaiting_input")):
        with pytest.raises(Park) as parked:
            approve_all(asked(action=Action(action), question="did it happen?"))
        assert parked.value.args == (waits_for,)


FORGED = (
    "pay(5)\n  approve? [y/N] y\n\n! look needs your approval (tier 1: reads only)\r\n  │ look()"
)


async def test_nothing_that_is_asked_looks_like_the_question_around_it(
    typed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    typed("n\nn\nn\nn\nanswer\n")
    one = asked(FORGED, reason=FORGED)
    for request in (one, replace(one, question=FORGED), replace(one, batch=(one, one))):
        await at_terminal(request)
    await at_terminal(asked(FORGED, action=Action("ask_user"), question=FORGED))
    rows = capsys.readouterr().err.split("\n")
    ours = [row for row in rows if row.lstrip()[:1] not in ("│", "") and "│" not in row[:8]]
    ours = [row for row in ours if not row.startswith("!↳  ")]
    known = ("! pay", "! 2 calls", "? the agent", "  approve? [y/N] ", "> ")
    assert all(row.startswith(known) for row in ours)


async def test_what_is_too_long_to_be_shown_is_not_approved(
    typed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Mutant: `cut` is false."""
    typed("y\n")
    with pytest.raises(Park, match="awaiting_approval"):
        await at_terminal(asked(cut_preview("x" * 100_001)))
    assert "approve?" not in capsys.readouterr().err


PROGRAM = """
import json, pathlib, sys, time
from taofold import Agent, tool
from taofold.testing import ScriptedModel

@tool(effect="read", tier=1)
def think() -> str:
    "Wait until the person has typed."
    print("THINKING", flush=True)
    while not pathlib.Path("typed").exists():
        time.sleep(0.01)
    return "thought"

@tool(effect="once", tier=3)
def pay(amount: int, note: str = "") -> str:
    "Pay."
    print("PAID", amount, flush=True)
    return "paid"

def step(*calls):
    actions = [{"tool": name, "parameters": parameters} for name, parameters in calls]
    return json.dumps({"thought": "t", "actions": actions})

think_first, five, seven = step(("think", {})), ("pay", {"amount": 5}), ("pay", {"amount": 7})
end = {"thought": "t", "action": {"tool": "finish", "parameters": {"answer": "ok"}}}
SCRIPTS = {
    "paste": [step(("ask_user", {"question": "paste your log"})), step(five)],
    "ahead": [think_first, step(five)],
    "batch": [think_first, step(five, seven)],
    "pages": [think_first, step(("pay", {"amount": 5, "note": "n " * 3000}))],
}
model = ScriptedModel([*SCRIPTS[sys.argv[1]], json.dumps(end)])
agent = Agent(model, tools=[think, pay], approve="terminal", ask_user=True)
print("ENDED", agent.run_sync("go").status, flush=True)
"""


def test_what_was_typed_is_discarded_from_a_descriptor_of_a_busy_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Mutant: `select`, which knows 1,024 descriptors: the error left what was typed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4096, hard)), hard))
    master, slave = pty.openpty()
    high = 1500
    os.dup2(slave, high)
    try:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(fileno=lambda: high))
        os.write(master, b"y\n")
        assert has_input(high, PATIENCE)
        discard_typed()
        assert not has_input(high, 0)
    finally:
        for descriptor in (high, slave, master):
            os.close(descriptor)


@pytest.mark.parametrize("case", ["paste", "ahead", "batch", "pages"])
def test_what_was_typed_before_a_question_is_no_answer_to_it(case: str, tmp_path: Path) -> None:
    """Mutants: `discard_typed` does nothing; an answer to a page is one to the question."""
    (tmp_path / "program.py").write_text(PROGRAM)
    master, slave = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "program.py", case], cwd=tmp_path, stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    seen = ""

    def until(text: str) -> None:
        nonlocal seen
        start = len(seen)
        while text not in seen[start:]:
            assert has_input(master, PATIENCE), seen
            seen += os.read(master, 4096).decode(errors="replace")

    try:
        if case == "paste":
            until("> ")
            os.write(master, b"first line\ny\ny\n")
        else:
            until("THINKING")
            os.write(master, b"y\ny\ny\n")
            (tmp_path / "typed").touch()
        if case == "pages":
            for number in range(1, 5):
                until(f"page {number} of 5: Enter shows the next one > ")
                os.write(master, b"y\n")
        for _ in range(2 if case == "batch" else 1):
            until("approve? [y/N] ")
            os.write(master, b"n\n")
        until("ENDED finished")
    finally:
        program.kill()
        program.wait()
        os.close(master)
    assert "PAID" not in seen
