"""A replay derives the right to decide: a record of a decider without it does not follow.

Mutants, each tried: `unfounded` is not called; `unfounded` does not compare the principal with
the name; it accepts any deciders of the decision; `_derived_deciders` keeps the recorded ones.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from taofold import Agent, Decision, MemoryLog, Policy, Principal, ReplayDiverged, tool
from taofold.core import events as e
from taofold.core.values import Deciders
from taofold.policy.redaction import MARK
from taofold.runtime.control import decide
from taofold.runtime.run import row_of
from taofold.testing import ScriptedModel
from taofold.testing.replay import assert_replays

from .kit import act, events, finish

pytestmark = pytest.mark.anyio

ANN, ROOT = Principal("ann", ("USER",)), Principal("root")
MALLORY = Principal("mallory", ("USER",))
FOUR_EYES = Policy(own_approval=False, approvers="ADMIN")
NO_OTHERS = Policy()


@tool(effect="once", tier=3)
def wire(to: str) -> str:
    """Send money."""
    return "sent"


def payer(policy: Policy, **options: Any) -> Agent[Any, Any]:
    model = ScriptedModel([act("wire", to="X"), finish()])
    return Agent(model, tools=[wire], policy=policy, log=MemoryLog(), **options)


async def decided(
    policy: Policy, by: Principal | None, decision: Decision | None = None
) -> tuple[Agent[Any, Any], Any]:
    """Returns an agent and its finished run, in which `by` approved a call of Ann's."""
    agent = payer(policy)
    waiting: Any = await agent.run("go", principal=ANN)
    decision = decision or Decision("approve")
    await decide(waiting.log, waiting.pending[0].id, decision, by=by, policy=policy)
    done = await agent.resume(waiting)
    assert done.status == "finished"
    await assert_replays(agent, done)
    return agent, done


async def replayed(agent: Agent[Any, Any], done: Any, kind: type[e.Event], **changes: Any) -> None:
    """Replays a copy of the run whose first event of `kind` has `changes`."""
    records = list(await done.log.read(done.run_id))
    for number, record in enumerate(records):
        if type(record.event) is kind:
            event = replace(record.event, **changes)
            records[number] = replace(record, event=event)
            break
    started = records[0].event
    assert isinstance(started, e.RunStarted)
    copy = MemoryLog()
    await copy.create(row_of(records[0], started), records=records)
    await agent.replace(log=copy).replay(done.run_id)


async def test_a_decision_records_the_principal_whose_rights_were_checked() -> None:
    _, done = await decided(FOUR_EYES, ROOT)
    (resolved,) = events(done, e.Resolved)
    assert (resolved.by, resolved.principal) == ("root", ROOT)
    assert resolved.deciders == Deciders(None, "ADMIN")


@pytest.mark.parametrize(
    ("policy", "decider", "forged", "why"),
    [
        (FOUR_EYES, ROOT, {"by": "mallory"}, "the rights of 'root' were checked"),
        (FOUR_EYES, ROOT, {"by": "mallory", "principal": MALLORY}, "not yours to decide"),
        (FOUR_EYES, ROOT, {"by": "ann", "principal": ANN}, "the requester may not approve"),
        (
            FOUR_EYES,
            ROOT,
            {"by": "ann", "principal": None, "deciders": None},
            "the requester may not",
        ),
        (FOUR_EYES, ROOT, {"by": "ann", "principal": Principal()}, "rights of 'local' were"),
        (
            FOUR_EYES,
            ROOT,
            {"by": "agent:x", "principal": None, "deciders": None},
            "an agent may not",
        ),
        (
            FOUR_EYES,
            ROOT,
            {"by": "mallory", "principal": MALLORY, "deciders": Deciders(None, "USER")},
            "its deciders are not those of the question",
        ),
        (FOUR_EYES, ROOT, {"principal": None}, "recorded without a principal"),
        (FOUR_EYES, ROOT, {"by": MARK, "principal": Principal(MARK, ("USER",))}, "not yours"),
        (FOUR_EYES, ROOT, {"by": MARK}, "the rights of 'root' were checked"),
        (NO_OTHERS, ANN, {"by": "mallory", "principal": MALLORY}, "belongs to 'ann'"),
        (NO_OTHERS, ANN, {"principal": Principal("ann", ("VIEWER",))}, "requires the role USER"),
    ],
)
async def test_a_decider_whom_the_question_excludes_does_not_follow(
    policy: Policy, decider: Principal, forged: dict[str, Any], why: str
) -> None:
    agent, done = await decided(policy, decider)
    with pytest.raises(ReplayDiverged, match="no decision by") as caught:
        await replayed(agent, done, e.Resolved, **forged)
    assert why in str(caught.value)
    assert isinstance(caught.value.recorded, e.Resolved)


async def test_a_denial_needs_the_right_too() -> None:
    agent, done = await decided(FOUR_EYES, ROOT, Decision("deny"))
    with pytest.raises(ReplayDiverged, match="not yours to decide"):
        await replayed(agent, done, e.Resolved, by="mallory", principal=MALLORY)


async def test_the_deciders_of_a_question_follow_from_its_policy() -> None:
    agent, done = await decided(FOUR_EYES, ROOT)
    with pytest.raises(ReplayDiverged, match="deciders") as caught:
        await replayed(agent, done, e.Decided, deciders=Deciders("USER", "USER"))
    assert type(caught.value.recorded) is e.Decided


async def test_the_owner_of_a_process_may_decide_in_another_name() -> None:
    agent = payer(NO_OTHERS)
    waiting: Any = await agent.run("go")
    await decide(waiting.log, waiting.pending[0].id, Decision("approve", by="grace"))
    done = await agent.resume(waiting)
    (resolved,) = events(done, e.Resolved)
    assert (resolved.by, resolved.principal) == ("grace", Principal())
    await assert_replays(agent, done)


async def test_the_local_policy_names_others_if_the_question_names_none() -> None:
    agent = payer(NO_OTHERS)
    waiting: Any = await agent.run("go", principal=ANN)
    door = Policy(roles={"USER": 1, "CHIEF": 2}, approvers="CHIEF")
    eve = Principal("eve", ("CHIEF",))
    await decide(waiting.log, waiting.pending[0].id, Decision("approve"), by=eve, policy=door)
    done = await agent.resume(waiting)
    assert events(done, e.Resolved)[0].deciders == Deciders("USER", "CHIEF")
    await assert_replays(agent, done)


async def test_the_order_of_roles_of_another_policy_is_not_judged() -> None:
    """The roles of the run's policy are not known to the agent that verifies."""
    ranked = Policy(roles={"USER": 1, "CHIEF": 2}, approvers="CHIEF")
    agent, done = await decided(ranked, Principal("eve", ("CHIEF",)))
    await agent.replace(policy=Policy()).replay(done.run_id)


@pytest.mark.parametrize("name", ["ann-with-a-secret-name", "eve-with-a-secret-name"])
async def test_a_masked_name_of_a_principal_follows(name: str) -> None:
    """The mask hides who it was. Mutant: a masked name is compared."""
    policy = NO_OTHERS if name.startswith("ann") else Policy(approvers="USER")
    agent = payer(policy, secrets=[name])
    requester = Principal("ann-with-a-secret-name", ("USER",))
    waiting: Any = await agent.run("go", principal=requester)
    asked, by = waiting.pending[0].id, Principal(name, ("USER",))
    options = {"policy": policy, "redactor": agent.redactor}
    await decide(waiting.log, asked, Decision("approve"), by=by, **options)
    await assert_replays(agent, await agent.resume(waiting))


async def test_a_callback_cannot_decide_as_an_agent() -> None:
    agent = payer(NO_OTHERS, approve=lambda _: Decision("approve", by="agent:x"))
    result = await agent.run("go")
    assert result.status == "waiting"
    assert events(result, e.DecisionRefused)[0].why == "an agent may not approve"
