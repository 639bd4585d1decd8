"""Approvals at the terminal: only a clear yes is one, and the end of the input leaves it open."""

import io
from typing import Any

import pytest

from taofold import Agent, MemoryLog, tool
from taofold.core.values import Action, Tier
from taofold.runtime.approvers import approve_all, at_terminal
from taofold.runtime.ledger import Park
from taofold.runtime.setup import Approval

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
    assert "pay needs your word (tier 3: tier 3 always asks)" in shown.err
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
    assert "? which?" in capsys.readouterr().err


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
    assert "2 calls of one step need your word" in shown
    assert shown.index("  1. pay(amount=5)") < shown.index("  2. pay(amount=7)")
    assert shown.index("  2. pay(amount=7)") < shown.index("approve? [y/N]")
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
