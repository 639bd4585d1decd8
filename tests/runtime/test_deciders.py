"""The question stores its allowed deciders. They hold for every entry point and policy."""

from typing import Any

import pytest

from taofold import Agent, Approval, Decision, MemoryLog, Policy, Principal, tool
from taofold.core import events as e
from taofold.core.errors import Refused
from taofold.core.values import Deciders
from taofold.runtime.control import decide, pending
from taofold.testing import ScriptedModel
from taofold.testing.replay import assert_replays
from taofold.tools import InputRequired, RunContext

from .kit import act, batch, events, finish

pytestmark = pytest.mark.anyio

ANN, BOB, ROOT = Principal("ann", ("USER",)), Principal("bob", ("USER",)), Principal("root")
SENT: list[str] = []


@pytest.fixture(autouse=True)
def _empty() -> None:
    SENT.clear()


@tool(effect="once", tier=3)
def wire(to: str) -> str:
    """Send money."""
    SENT.append(to)
    return "sent"


@tool(effect="once", tier=3, role="ADMIN")
def publish() -> str:
    """Publish."""
    SENT.append("published")
    return "out"


def child_of(parent: Policy | None, child: Policy, *, used: Any = wire) -> Agent[Any, Any]:
    """An agent with a policy of its own, in the tools of another."""
    parameters = {"to": "X"} if used is wire else {}
    script = [act(used.name, **parameters), finish()]
    cashier = Agent(ScriptedModel(script), tools=[used], name="cashier", policy=child)
    return Agent(
        ScriptedModel([act("cashier", goal="pay"), finish()]), tools=[cashier], name="boss",
        policy=parent or Policy(), log=MemoryLog(),
    )  # fmt: skip


FOUR_EYES = Policy(own_approval=False, approvers="ADMIN")


@pytest.mark.parametrize(
    ("parent", "child", "decider", "why"),
    [
        (None, FOUR_EYES, ANN, "the requester may not approve"),
        (None, Policy(rights={"approve_own": "ADMIN"}), ANN, "requires the role ADMIN"),
        (Policy(approvers="USER"), Policy(approvers="ADMIN"), BOB, "not yours to decide"),
        (Policy(approvers="USER"), Policy(approvers="USER"), BOB, ""),
        (Policy(approvers="USER"), Policy(), BOB, ""),
        (None, Policy(), ANN, ""),
    ],
)
async def test_the_policy_of_a_child_holds_at_the_door_of_its_parent(
    parent: Policy | None, child: Policy, decider: Principal, why: str
) -> None:
    agent = child_of(parent, child)
    result = await agent.run("go", principal=ANN)
    (asked,) = await pending(result.log, result.run_id)
    if not why:
        await decide(result.log, asked.id, Decision("approve"), by=decider, policy=agent.policy)
        done = await agent.resume(result)
        assert SENT == ["X"]
        await assert_replays(agent, done)
        return
    with pytest.raises(Refused, match=why):
        await decide(result.log, asked.id, Decision("approve"), by=decider, policy=agent.policy)
    assert (await agent.resume(result)).status == "waiting"
    assert SENT == []


async def test_the_role_of_the_childs_tool_is_asked_of_the_decider() -> None:
    """The entry point also has a tool of the same name that needs no role."""
    agent = child_of(Policy(approvers="USER"), Policy(approvers="USER"), used=publish)
    result = await agent.run("go", principal=ROOT)
    (asked,) = await pending(result.log, result.run_id)
    assert asked.deciders == Deciders("USER", "USER", ("ADMIN",))
    with pytest.raises(Refused, match="requires role ADMIN"):
        await decide(result.log, asked.id, Decision("approve"), by=BOB, policy=agent.policy)


async def test_a_door_that_knows_no_policy_keeps_to_the_question() -> None:
    agent = Agent(ScriptedModel([act("wire", to="X"), finish()]), tools=[wire], policy=FOUR_EYES)
    result = await agent.run("go", principal=ANN)
    with pytest.raises(Refused, match="the requester may not"):
        await decide(result.log, result.pending[0].id, Decision("approve"), by=ANN)
    # Nobody at this door may decide for others either: the default lets only the requester.
    with pytest.raises(Refused, match="not yours"):
        await decide(result.log, result.pending[0].id, Decision("approve"), by=ROOT)
    await decide(result.log, result.pending[0].id, Decision("approve"), by=ROOT, policy=FOUR_EYES)
    await agent.resume(result)
    assert SENT == ["X"]


@pytest.mark.parametrize("answer", [True, Decision("approve", by="ann"), "all"])
async def test_a_callback_cannot_allow_for_a_requester_who_may_not(answer: Any) -> None:
    approve = "all" if answer == "all" else lambda _: answer
    script = [act("wire", to="X"), finish()]
    agent = Agent(ScriptedModel(script), tools=[wire], policy=FOUR_EYES, approve=approve)
    result = await agent.run("go", principal=ANN)
    assert result.status == "waiting"
    assert SENT == []
    (refused,) = events(result, e.DecisionRefused)
    assert refused.why == "the requester may not approve his own actions here"
    await decide(result.log, result.pending[0].id, Decision("approve"), by=ROOT, policy=FOUR_EYES)
    done = await agent.replace(approve=None).resume(result)
    assert SENT == ["X"]
    await assert_replays(agent, done)


async def test_a_callback_may_deny_for_him_and_allow_for_somebody_else() -> None:
    def person(approval: Approval) -> Any:
        return approval.action.parameters["to"] == "X" and Decision("approve", by="eve")

    script = [batch(("wire", {"to": "X"}), ("wire", {"to": "Y"})), finish()]
    agent = Agent(ScriptedModel(script), tools=[wire], policy=FOUR_EYES, approve=person)
    assert (await agent.run("go", principal=ANN)).status == "finished"
    assert SENT == ["X"]


async def test_of_a_batch_the_later_calls_are_not_allowed_either() -> None:
    def person(approval: Approval) -> Any:
        mine = Decision("approve", by="ann")
        return [Decision("deny", by="ann"), mine] if approval.batch else mine

    script = [batch(("wire", {"to": "X"}), ("wire", {"to": "Y"})), finish()]
    agent = Agent(ScriptedModel(script), tools=[wire], policy=FOUR_EYES, approve=person)
    result = await agent.run("go", principal=ANN)
    assert result.status == "waiting"
    assert SENT == []


async def test_what_a_tool_asks_in_its_call_is_not_for_the_requester_to_accept() -> None:
    @tool(effect="once", tier=1, reversible=True)
    async def sign(ctx: RunContext[Any]) -> str:
        """Sign."""
        if ctx.answer is None:
            raise InputRequired("really?")
        SENT.append("signed" if ctx.answer.accepted else "no")
        return "done"

    agent = Agent(
        ScriptedModel([act("sign"), finish()]), tools=[sign], policy=FOUR_EYES,
        approve=lambda _: True,
    )  # fmt: skip
    assert (await agent.run("go", principal=ANN)).status == "waiting"
    assert SENT == []


async def test_a_question_of_the_model_is_answered_by_the_requester_himself() -> None:
    agent = Agent(
        ScriptedModel([act("ask_user", question="which one?"), finish()]), policy=FOUR_EYES,
        ask_user=True, approve=lambda _: Decision("answer", by="ann", answer="the red one"),
    )  # fmt: skip
    assert (await agent.run("go", principal=ANN)).status == "finished"
