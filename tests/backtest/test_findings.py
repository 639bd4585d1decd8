"""A policy test counts answers, starts and model calls that another policy would have refused."""

import asyncio
from typing import Any

import pytest

from taofold import Agent, Budget, Decision, MemoryLog, Policy, Principal, decide, tool
from taofold.backtest import PolicyBacktest
from taofold.core.values import Reply, Usage
from taofold.log.log import Log
from taofold.runtime.budgets import lift
from taofold.runtime.setup import DecisionWord
from taofold.testing import FunctionModel
from tests.backtest.test_policies import judged
from tests.runtime.kit import Memo, act, finish

pytestmark = pytest.mark.anyio
ANN, BOB = Principal("ann", ("USER",)), Principal("bob", ("EDITOR",))


@tool(effect="once", tier=2, role="USER")
def deploy(where: str) -> str:
    """Deploy."""
    return where


def found(result: PolicyBacktest) -> dict[tuple[str, str], tuple[int, int]]:
    return {tuple(key): (each.count, each.runs) for key, each in result.findings.items()}


async def answered(by: Principal, verdict: DecisionWord = "approve", **rules: Any) -> Any:
    """Returns the agent of a run of ann whose only question `by` has answered."""
    policy = Policy(**rules)
    script = Memo([act("deploy", where="x"), finish()])
    agent = Agent(script, tools=[deploy], policy=policy, log=MemoryLog())
    result = await agent.run("go", principal=ANN)
    question = result.pending[0]
    log = agent.opened_log or MemoryLog()
    await decide(log, question.id, Decision(verdict), by=by, policy=policy)
    await agent.resume(result)
    return agent


@pytest.mark.parametrize(
    ("by", "rules", "wanted"),
    [
        (ANN, {}, {}),
        (ANN, {"own_approval": False}, {("own_approval", "answers refused"): (1, 1)}),
        (
            ANN,
            {"rights": {"approve_own": "ADMIN"}},
            {("rights.approve_own", "answers refused"): (1, 1)},
        ),
        (ANN, {"roles": {"USER": 1, "ADMIN": 9}, "rights": {"approve_own": "USER"}}, {}),
        (ANN, {"rights": {"cancel": "ADMIN"}}, {}),
        (
            ANN,
            {"rights": {"start": "ADMIN"}},
            {("rights.start", "runs not started on a server"): (1, 1)},
        ),
        (BOB, {}, {("approvers", "answers refused"): (1, 1)}),
        (BOB, {"approvers": "EDITOR"}, {}),
        (BOB, {"approvers": "VIEWER"}, {}),
        (BOB, {"approvers": "ADMIN"}, {("approvers", "answers refused"): (1, 1)}),
    ],
)
async def test_an_answer_counts_if_its_approver_may_still_give_it(
    by: Principal, rules: dict[str, Any], wanted: dict[Any, Any]
) -> None:
    """Mutants: the recorded roles of the decider are not read; any role may decide for others."""
    agent = await answered(by, approvers="EDITOR")
    result = await judged(agent, Policy(**rules))
    assert found(result) == wanted
    assert result.tightened == len(wanted)


@pytest.mark.parametrize(
    ("by", "rules", "wanted"),
    [
        (ANN, {}, {}),
        (ANN, {"own_approval": False}, {("own_approval", "answers refused"): (1, 1)}),
        (BOB, {"approvers": "EDITOR"}, {}),
        (BOB, {"approvers": "ADMIN"}, {("approvers", "answers refused"): (1, 1)}),
        (BOB, {"approvers": "EDITOR", "approve_seconds": 0.000001}, {}),
    ],
)
async def test_a_denial_needs_the_right_too(
    by: Principal, rules: dict[str, Any], wanted: dict[Any, Any]
) -> None:
    """Mutants, each tried: denials are skipped; a late denial is a change."""
    agent = await answered(by, "deny", approvers="EDITOR")
    assert found(await judged(agent, Policy(**rules))) == wanted


async def test_a_function_may_deny_in_any_name() -> None:
    """As live. Mutant, tried: the requester's name binds a function that denies."""
    script = Memo([act("deploy", where="x"), finish()])
    agent = Agent(script, tools=[deploy], log=MemoryLog(), approve=lambda _: False)
    await agent.run("go", principal=ANN)
    assert found(await judged(agent, Policy(own_approval=False))) == {}


async def test_a_function_that_answers_for_others_is_not_bound_by_approvers() -> None:
    """As live: its author is responsible for the identity of other deciders."""
    script = Memo([act("deploy", where="x"), finish()])
    agent = Agent(script, tools=[deploy], log=MemoryLog(), approve=late)
    await agent.run("go", principal=ANN)
    assert found(await judged(agent, Policy(own_approval=False))) == {}


async def test_a_late_answer_is_refused_by_the_shorter_time() -> None:
    log = MemoryLog()
    agent = Agent(Memo([act("deploy", where="x"), finish()]), tools=[deploy], log=log, approve=late)
    await agent.run("go", principal=ANN)
    assert found(await judged(agent, Policy(approve_seconds=0.02))) == {
        ("approve_seconds", "answers too late"): (1, 1)
    }
    assert found(await judged(agent, Policy(approve_seconds=60))) == {}


async def late(request: Any) -> Decision:
    await asyncio.sleep(0.1)
    return Decision("approve", by="bob")


async def test_rights_without_a_trace_are_named() -> None:
    agent = await answered(ANN)
    rules = {"start": "USER", "read": "ADMIN", "metrics": "ADMIN", "learning": "ADMIN"}
    result = await judged(agent, Policy(rights=rules))  # type: ignore[arg-type]
    assert result.untested == ("rights.read", "rights.metrics")


def spender(log: Log, **options: Any) -> Agent[Any, Any]:
    """Each run makes two calls of 1000 tokens and $0.5."""
    usage = Usage(1000, usd=0.5)
    replies = [Reply(act("deploy", where="x"), usage=usage), Reply(finish(), usage=usage)]
    return Agent(Memo(replies * 4), tools=[deploy], approve="all", log=log, **options)


async def spent(runs: int = 2, **options: Any) -> Agent[Any, Any]:
    agent = spender(MemoryLog(), **options)
    for _ in range(runs):
        await agent.run("go", principal=ANN)
    return agent


@pytest.mark.parametrize(
    ("budget", "wanted"),
    [
        (Budget(tokens=4000), {}),
        (Budget(tokens=3000), {"all-day": (1, 1)}),
        (Budget(tokens=2000), {"all-day": (2, 1)}),
        (Budget(tokens=1000), {"all-day": (3, 2)}),
        (Budget(usd=1.0, per="principal", name="x"), {"x": (2, 1)}),
        (Budget(usd=1.5, per="agent", period="month"), {"agent-month": (1, 1)}),
        (Budget(tokens=1, per="tag:team"), {}),
    ],
)
async def test_a_budget_refuses_the_calls_behind_its_amount(
    budget: Budget, wanted: dict[str, tuple[int, int]]
) -> None:
    agent = await spent()
    result = await judged(agent, Policy(budgets=[budget]))
    assert found(result) == {
        (f"budgets.{name}", "model calls refused"): counts for name, counts in wanted.items()
    }


async def test_a_refused_call_costs_nothing() -> None:
    """Mutants: a refused call is charged; a run is charged after its refusal."""
    agent = spender(MemoryLog())
    await agent.run("go", principal=ANN, tags={"team": "x"})
    await agent.run("go", principal=ANN)
    budgets = [Budget(tokens=1000, per="tag:team"), Budget(tokens=3000)]
    result = await judged(agent, Policy(budgets=budgets))
    assert found(result) == {("budgets.tag-team-day", "model calls refused"): (1, 1)}


@pytest.mark.parametrize(
    ("tokens", "wanted"),
    [(300, {}), (200, {"agent-day": (1, 1)}), (100, {"agent-day": (3, 1)})],
)
async def test_a_budget_per_agent_charges_the_active_one(
    tokens: int, wanted: dict[str, tuple[int, int]]
) -> None:
    """Three calls of `a`, two of `b`, each of 100 tokens. Mutants: `a` has all; no agent's sum."""
    usage = Usage(100)
    a = [Reply(act("transfer_to_b"), usage=usage) for _ in range(2)]
    script = [Reply(act("transfer_to_a"), usage=usage) for _ in range(2)]
    agents: dict[str, Agent[Any, Any]] = {}
    agents["b"] = Agent(Memo(script), name="b", handoffs=lambda: [agents["a"]])
    first = Memo([*a, Reply(finish(), usage=usage)])
    agents["a"] = Agent(first, name="a", handoffs=[agents["b"]], log=MemoryLog())
    result = await agents["a"].run("go", principal=ANN)
    assert result.success, result.error
    tested = await judged(agents["a"], Policy(budgets=[Budget(per="agent", tokens=tokens)]))
    assert found(tested) == {
        (f"budgets.{name}", "model calls refused"): counts for name, counts in wanted.items()
    }


async def test_the_budgets_in_force_refuse_nothing_and_lifts_count() -> None:
    """Mutant: lifts are not read."""
    budget = Budget(tokens=2000)
    policy = Policy(budgets=[budget])
    agent = await spent(1, policy=policy)
    assert found(await judged(agent, policy)) == {}
    await lift(agent.opened_log or MemoryLog(), policy, budget.name, "all", by=Principal())
    await agent.run("go", principal=ANN)
    assert found(await judged(agent, policy)) == {}
    stopped = await agent.run("go", principal=ANN)
    assert stopped.stop_reason == "max_budget"
    result = await judged(agent, policy)
    assert (found(result), result.halted) == ({}, 1)
    freed = await judged(agent, Policy())
    assert found(freed) == {("budgets.all-day", "no longer stops a run"): (1, 1)}
    assert freed.loosened == 1


async def test_calls_in_flight_together_are_allowed_together() -> None:
    """Mutant: a call is checked when its reply is recorded."""
    gate, waiting = asyncio.Event(), list[int]()

    async def slow(_: Any) -> Reply:
        waiting.append(1)
        if len(waiting) == 2:
            gate.set()
        await gate.wait()
        await asyncio.sleep(0.02 * len(waiting))
        return Reply(finish(), usage=Usage(1000))

    policy = Policy(budgets=[Budget(tokens=1000)])
    agent = Agent(FunctionModel(slow), log=MemoryLog(), policy=policy)
    results = await asyncio.gather(*[agent.run("go", principal=ANN) for _ in range(2)])
    assert [each.status for each in results] == ["finished", "finished"]
    assert found(await judged(agent, policy)) == {}
