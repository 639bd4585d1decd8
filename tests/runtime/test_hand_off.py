"""The active agent of a run changes: with the history, and its own instructions, tools, rules."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from taofold import (
    Agent,
    Budget,
    ConfigError,
    Decision,
    Hook,
    HookContext,
    InputGuard,
    Limits,
    MemoryLog,
    Policy,
    Principal,
    Reject,
    ReplaceArguments,
    ReplayDiverged,
    RunContext,
    RunResult,
    Tier,
    tool,
)
from taofold.core import events as e
from taofold.core.agent_shares import shares
from taofold.core.content import TextPart
from taofold.core.values import Action, Profile, Reply, ToolCall, Usage
from taofold.log.log import Window
from taofold.runtime.control import decide, pending
from taofold.runtime.metering import report_consumption
from taofold.runtime.model import OnText, Request
from taofold.runtime.run import row_of
from taofold.testing.models import ROOMY
from taofold.testing.replay import assert_replays

from .kit import Memo, act, batch, finish, planted

pytestmark = pytest.mark.anyio
RAN: list[str] = []
NATIVE = Profile(native_tools=True, window=200_000)


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


@tool(effect="read")
def find(order: str) -> str:
    """Find an order."""
    RAN.append(f"find {order}")
    return f"order {order} cost 30 euros"


@tool(effect="once", tier=1, reversible=True)
def refund(order: str, amount: int) -> str:
    """Refund an order."""
    RAN.append(f"refund {order} {amount}")
    return f"refunded {amount}"


def to(name: str, reason: str = "it is its work") -> str:
    return act(f"transfer_to_{name}", "another agent knows this", reason=reason)


async def approve(result: RunResult[Any]) -> None:
    assert result.log is not None
    for request in await pending(result.log, result.run_id):
        await decide(result.log, request.id, Decision("approve", digest=request.digest))


def desk(
    *script: Any, billing: dict[str, Any] | None = None, log: Any = None, **options: Any
) -> tuple[Agent[Any, Any], Memo, Memo]:
    """Two agents that hand over to each other; the script has pairs of agent and reply."""
    first = Memo([reply for who, reply in script if who == "a"], name="memo:a")
    second = Memo([reply for who, reply in script if who == "b"], name="memo:b")
    agents: dict[str, Agent[Any, Any]] = {}
    other: dict[str, Any] = {"instructions": "You refund.", **(billing or {})}
    agents["b"] = Agent(
        second,
        name="billing",
        description="Refunds orders.",
        tools=[refund],
        handoffs=lambda: [agents["a"]],
        **other,
    )
    agents["a"] = Agent(
        first,
        name="triage",
        instructions="You sort requests.",
        tools=[find],
        handoffs=[agents["b"]],
        log=log or MemoryLog(),
        **options,
    )
    return agents["a"], first, second


def tags(result: RunResult[Any]) -> list[str]:
    return [record.event.tag for record in result.records]


def handed(result: RunResult[Any]) -> list[e.HandedOff]:
    return [r.event for r in result.records if isinstance(r.event, e.HandedOff)]


THERE_AND_BACK = (
    ("a", act("find", order="7")),
    ("a", to("billing", "refund order 7")),
    ("b", act("refund", order="7", amount=30)),
    ("b", to("triage", "it is refunded")),
    ("a", finish("refunded")),
)


async def test_the_active_agent_changes_with_the_conversation_and_its_own_prompt_and_tools() -> (
    None
):
    agent, _first, second = desk(*THERE_AND_BACK)
    result = await agent.run("Refund order 7.")
    assert result.output == "refunded"
    assert RAN == ["find 7", "refund 7 30"]
    assert [(h.before, h.agent, h.reason) for h in handed(result)] == [
        ("triage", "billing", "refund order 7"),
        ("billing", "triage", "it is refunded"),
    ]
    system = second.asked[0][0].text
    assert "You refund." in system
    assert "refund(" in system
    assert "find(" not in system
    # The goal and the steps of the other agent.
    texts = [message.text for message in second.asked[0]]
    assert any("Refund order 7." in text for text in texts)
    assert any("order 7 cost 30 euros" in text for text in texts)
    assert result.state.agent == "triage"
    await assert_replays(agent, result)


async def test_back_at_an_agent_its_prompt_begins_with_the_same_messages() -> None:
    """The provider's prompt cache then holds what this agent was sent before."""
    agent, first, _ = desk(*THERE_AND_BACK)
    await agent.run("Refund order 7.")
    before, again = first.asked[1], first.asked[2]
    assert again[: len(before)] == before


async def test_the_stricter_policy_of_the_next_agent_holds_and_the_first_agents_stays() -> None:
    agent, _, _second = desk(
        ("a", to("billing")),
        ("b", act("refund", order="7", amount=30)),
        ("b", finish("no")),
        billing={"policy": Policy(deny=frozenset({"refund"}))},
    )
    result = await agent.run("Refund order 7.")
    assert RAN == []
    assert result.steps[1].observations[0].refused == "denied"
    # The other way round: the rules of the first agent hold for the tools of the next.
    agent, _, _ = desk(
        ("a", to("billing")),
        ("b", act("refund", order="7", amount=30)),
        policy=Policy(tiers={"refund": Tier.CONFIRM}),
    )
    result = await agent.run("Refund order 7.")
    assert result.status == "waiting"
    assert RAN == []
    await assert_replays(agent, result)


async def test_an_approver_of_the_next_agent_approves_nothing_in_the_run_of_another() -> None:
    agent, _, _ = desk(
        ("a", to("billing")),
        ("b", act("refund", order="7", amount=30)),
        billing={"approve": "all", "policy": Policy(tiers={"refund": Tier.CONFIRM})},
    )
    assert (await agent.run("Refund order 7.")).status == "waiting"
    assert RAN == []


async def test_a_hand_off_can_need_approval_or_be_denied() -> None:
    agent, _, second = desk(
        ("a", to("billing")),
        ("b", finish("refunded")),
        policy=Policy(tiers={"transfer_to_billing": Tier.CONFIRM}),
    )
    result = await agent.run("Refund order 7.")
    assert result.status == "waiting"
    assert second.asked == []
    assert result.pending[0].action.tool == "transfer_to_billing"
    await approve(result)
    result = await agent.resume(result)
    assert result.output == "refunded"
    await assert_replays(agent, result)

    agent, _, second = desk(
        ("a", to("billing")),
        ("a", finish("I cannot")),
        policy=Policy(deny=frozenset({"transfer_to_billing"})),
    )
    result = await agent.run("Refund order 7.")
    assert result.output == "I cannot"
    assert second.asked == []
    assert not handed(result)


async def test_the_limits_of_the_next_agent_count_its_own_share_in_all_its_turns() -> None:
    ping_pong = [
        ("a", to("billing")),
        ("b", act("refund", order="7", amount=1)),
        ("b", to("triage")),
        ("a", to("billing", "again")),
        ("b", act("refund", order="7", amount=2)),
        ("b", finish("two of three")),
    ]
    agent, _, _ = desk(*ping_pong, billing={"limits": Limits(tool_calls=2)})
    result = await agent.run("Refund order 7.")
    # One refund and one hand-off are its two calls: the second refund is over its limit.
    assert RAN == ["refund 7 1"]
    # The calls of the other agent do not count: it could hand back.
    assert [event.agent for event in handed(result)] == ["billing", "triage", "billing"]
    assert result.stop_reason == "max_tool_calls"
    assert "billing" in (result.error or "")
    await assert_replays(agent, result)


async def test_the_limits_of_the_first_agent_bound_the_whole_run() -> None:
    script = [
        ("a", to("billing")),
        *[("b", act("refund", order="7", amount=n)) for n in range(1, 6)],
        ("b", finish("done")),
    ]
    agent, _, _ = desk(*script, billing={"limits": Limits(steps=50)}, limits=Limits(steps=3))
    result = await agent.run("Refund order 7.")
    assert RAN == ["refund 7 1"]
    assert result.stop_reason in ("max_steps", "final_answer")
    bounds = Limits(steps=50, tokens=350)
    agent, _, _ = desk(*script, billing={"limits": Limits(steps=50)}, limits=bounds)
    result = await agent.run("Refund order 7.")
    assert result.stop_reason == "max_tokens"
    assert "of agent 'triage', with which the run began" in result.error


async def test_other_calls_of_the_reply_run_and_the_first_hand_off_wins() -> None:
    calls = [
        ("find", {"order": "7"}),
        ("transfer_to_billing", {"reason": "one"}),
        ("transfer_to_billing", {"reason": "two"}),
    ]
    agent, _, _second = desk(("a", batch(*calls)), ("b", finish("ok")))
    result = await agent.run("Refund order 7.")
    assert result.output == "ok"
    assert RAN == ["find 7"]
    assert [h.reason for h in handed(result)] == ["one"]
    assert [o.status for o in result.steps[0].observations] == ["success", "success", "failure"]
    await assert_replays(agent, result)


async def test_only_declared_agents_can_be_named() -> None:
    agent, _, _ = desk(("a", act("transfer_to_admin")), ("a", finish("ok")))
    result = await agent.run("Hello.")
    assert result.steps[0].observations[0].refused == "unknown"
    assert not handed(result)


@pytest.mark.parametrize("way", [(True, True), (True, False), (False, True)])
async def test_native_and_json_models_continue_each_others_conversations(
    way: tuple[bool, bool],
) -> None:
    def said(is_native: bool, name: str, **parameters: Any) -> Any:
        if not is_native:
            return finish(**parameters) if name == "finish" else act(name, **parameters)
        if name == "finish":
            return Reply(parameters["answer"])
        call = ToolCall(name, json.dumps(parameters), f"id-{name}")
        return Reply(parts=(TextPart("I call it."), call), finish="tool_calls")

    first, second = way
    agent, one, two = desk(
        ("a", said(first, "find", order="7")),
        ("a", said(first, "transfer_to_billing", reason="refund it")),
        ("b", said(second, "refund", order="7", amount=30)),
        ("b", said(second, "transfer_to_triage", reason="done")),
        ("a", said(first, "finish", answer="refunded")),
    )
    one.profile = NATIVE if first else ROOMY
    two.profile = NATIVE if second else ROOMY
    result = await agent.run("Refund order 7.")
    assert result.output == "refunded"
    assert RAN == ["find 7", "refund 7 30"]
    shown = two.asked[0]
    assert any("order 7 cost 30 euros" in message.text for message in shown)
    if not second:
        # Providers refuse results of calls that are no calls of the request's own tools.
        assert not any(message.calls or message.results for message in shown)
    again = one.asked[-1]
    assert again[: len(one.asked[1])] == one.asked[1]
    await assert_replays(agent, result)


async def test_strict_agents_hand_over_too() -> None:
    thought = "The order is to be refunded, so I hand over, because billing may pay"
    step: dict[str, Any] = {
        "thought": thought,
        "thought_type": "goal",
        "learned": "The order is paid.",
        "action": {
            "tool": "transfer_to_billing",
            "parameters": {},
            "rationale": "So that billing refunds it",
        },
    }
    agent, _, second = desk(
        ("a", json.dumps(step)),
        ("b", act("refund", "", order="7", amount=1)),
        ("b", finish("ok", thought)),
        billing={"strict": True},
        strict=True,
    )
    result = await agent.run("Refund order 7.")
    # The strictness of the active agent: the reply without a thought was asked for again.
    assert result.output == "ok"
    assert len(second.asked) == 2
    assert RAN == []
    await assert_replays(agent, result)


def same_work(result: RunResult[Any]) -> list[Any]:
    return [
        (r.event.tag, getattr(r.event, "key", ""))
        for r in result.records
        if not isinstance(r.event, e.Resumed | e.Started | e.RunStarted)
    ]


async def test_a_run_resumes_after_a_crash_at_each_record() -> None:
    agent, first, second = desk(*THERE_AND_BACK)
    whole = await agent.run("Refund order 7.")
    for cut in range(1, len(whole.records)):
        RAN.clear()
        log = MemoryLog()
        await planted(whole.records[:cut], log)
        again, one, two = desk(*THERE_AND_BACK, log=log)
        one.known, two.known = first.known, second.known
        result = await again.resume(whole.run_id)
        if result.status == "waiting":
            # A refund that may have been made.
            assert isinstance(whole.records[cut - 1].event, e.StartedOnce)
            continue
        assert result.output == "refunded", cut
        assert same_work(result) == same_work(whole), cut
        assert [h.agent for h in handed(result)] == ["billing", "triage"]
        await assert_replays(again, result)


async def test_a_run_can_be_forked_at_each_record() -> None:
    agent, _, _ = desk(*THERE_AND_BACK)
    whole = await agent.run("Refund order 7.")
    for at in range(len(whole.records)):
        branch = await agent.fork(whole, at=at)
        assert branch.output == "refunded", at
        await assert_replays(agent, branch)


async def test_a_recorded_hand_off_that_is_not_offered_any_more_stops_the_resume() -> None:
    agent, _, _ = desk(*THERE_AND_BACK)
    whole = await agent.run("Refund order 7.")
    cut = next(r.seq for r in whole.records if isinstance(r.event, e.HandedOff)) + 1
    for kept in (cut, cut + 1, cut + 3):
        log = MemoryLog()
        await planted(whole.records[:kept], log)
        for changed in (agent.replace(log=log, handoffs=()),):
            with pytest.raises(ReplayDiverged):
                await changed.resume(whole.run_id)
    with pytest.raises(ReplayDiverged):
        await agent.replace(handoffs=()).replay(whole)


async def test_a_guard_of_the_first_agent_reads_the_goal_of_a_session_that_begins_elsewhere() -> (
    None
):
    """Mutant: the goal is not passed before the first call of the active agent."""
    guard = InputGuard(lambda text: "no refunds" if "twice" in text else None)
    script = (("a", to("billing")), ("b", finish("it is refunded")), ("b", finish("again")))
    agent, _, _ = desk(*script, hooks=[guard])
    assert (await agent.run("refund 7", session="s")).agent == "billing"
    result = await agent.run("refund 7 twice", session="s")
    assert (result.agent, result.status, result.error) == ("billing", "failed", "no refunds")


@pytest.mark.parametrize("who", ["hook", "approver"])
async def test_the_recorded_reason_is_that_of_the_call_that_ran(who: str) -> None:
    """Mutant: the reason is read from the call that the model wrote."""

    class Plain(Hook):
        def before_tool(self, context: HookContext, action: Action) -> Any:
            if who == "hook" and action.tool == "transfer_to_billing":
                return ReplaceArguments({"reason": "a refund"})
            return None

    asks = Policy(tiers={"transfer_to_billing": Tier.CONFIRM}) if who == "approver" else Policy()
    script = (("a", to("billing", "Ann, born 1970")), ("b", finish("ok")))
    agent, _, _ = desk(*script, hooks=[Plain()], policy=asks)
    result = await agent.run("go")
    if who == "approver":
        edit = Decision("edit", parameters={"reason": "a refund"})
        assert result.log is not None
        await decide(result.log, result.pending[0].id, edit)
        result = await agent.resume(result)
    assert [event.reason for event in handed(result)] == ["a refund"]
    await assert_replays(agent, result)


async def test_a_changed_reason_of_a_hand_off_does_not_follow() -> None:
    """Mutant: a replay takes the recorded reason."""
    agent, _, _ = desk(*THERE_AND_BACK)
    result = await agent.run("go")
    records = list(result.records)
    for number, record in enumerate(records):
        if isinstance(record.event, e.HandedOff):
            records[number] = replace(record, event=replace(record.event, reason="a manager"))
            break
    log = MemoryLog()
    first = records[0].event
    assert isinstance(first, e.RunStarted)
    await log.create(row_of(records[0], first), records=records)
    with pytest.raises(ReplayDiverged, match="reason"):
        await agent.replace(log=log).replay(result.run_id)


async def test_a_session_continues_with_the_agent_that_was_active_last() -> None:
    log = MemoryLog()
    agent, first, second = desk(
        ("a", to("billing")),
        ("b", finish("Which order?")),
        ("b", finish("refunded")),
        ("b", to("triage")),
        ("a", finish("Hello.")),
        ("a", finish("Still here.")),
        log=log,
    )
    await agent.run("I want my money back.", session="s")
    result = await agent.run("Order 7.", session="s")
    assert result.output == "refunded"
    assert len(first.asked) == 1
    assert handed(result)[0].reason == "active last in the session"
    # It reads the session, and the goal once.
    texts = [message.text for message in second.asked[1]]
    assert texts[1:] == ["I want my money back.", "Which order?", "Order 7."]
    await assert_replays(agent, result)
    # The start of the run is that of the first agent, whose rules hold.
    started = result.state.started
    assert started is not None
    assert started.agent == "triage"
    assert (await agent.run("Something else.", session="s")).output == "Hello."
    result = await agent.run("And now.", session="s")
    assert result.output == "Still here."
    assert not handed(result)


class Gate(Hook):
    """Rejects hand-offs."""

    def before_tool(self, context: Any, action: Any) -> Any:
        return Reject("not now") if action.tool.startswith("transfer_to_") else None


JOE = Principal("joe", ("USER",))
TO_BILLING = "transfer_to_billing"


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ({"policy": Policy(deny=frozenset({TO_BILLING}))}, "the policy forbids"),
        ({"policy": Policy(allow=frozenset({"find"}))}, "the policy forbids"),
        ({"policy": Policy(tiers={TO_BILLING: Tier.CONFIRM})}, "tier 3 always asks"),
        ({"policy": Policy(tiers={TO_BILLING: Tier.CONFIRM}), "approve": "all"}, "always asks"),
        ({"policy": Policy(tiers={TO_BILLING: Tier.FORBIDDEN})}, "is forbidden"),
        ({"policy": Policy(required={TO_BILLING: "ADMIN"})}, "requires role ADMIN, has USER"),
        ({"limits": Limits(per_tool={TO_BILLING: 0})}, "limit reached: 0 calls"),
        ({"hooks": [Gate()]}, "not now"),
    ],
)
async def test_a_session_begins_with_the_first_agent_if_its_rules_refuse_the_hand_off(
    rules: dict[str, Any], why: str
) -> None:
    """Mutant: `RunSuccessors.refusal` returns "" at once."""
    log = MemoryLog()
    before, _, _ = desk(("a", to("billing")), ("b", finish("Which order?")), log=log)
    assert (await before.run("Money.", session="s")).agent == "billing"
    agent, _, second = desk(("a", finish("I cannot.")), log=log, **rules)
    result = await agent.run("Order 7.", session="s", principal=JOE)
    assert (result.output, result.agent, second.asked) == ("I cannot.", "triage", [])
    assert not handed(result)
    [noted] = [r.event for r in result.records if isinstance(r.event, e.Noted)]
    assert noted.kind == "agent_not_continued"
    assert noted.data["agent"] == "billing"
    assert why in noted.data["reason"]
    assert TO_BILLING in noted.data["reason"]
    await assert_replays(agent, result)


async def test_the_principal_of_the_run_counts_not_that_of_the_session() -> None:
    rules = Policy(required={TO_BILLING: "ADMIN"})
    admin, log = Principal("root", ("ADMIN",)), MemoryLog()
    before, _, _ = desk(("a", to("billing")), ("b", finish("b")), log=log)
    await before.run("Money.", session="s", principal=admin)
    for who, answer in [(admin, "b"), (JOE, "a")]:
        # The last run of the session was that of an administrator with billing.
        agent, _, _ = desk(("a", finish("a")), ("b", finish("b")), log=log, policy=rules)
        result = await agent.run("Order 7.", session="s", principal=who)
        assert result.output == answer


@pytest.mark.parametrize("place", ["first", "middle", "ways", "free"])
async def test_each_hand_off_on_the_way_must_be_allowed(place: str) -> None:
    """Mutant: the rules of the agents between are left out."""
    log, deny = MemoryLog(), Policy(deny=frozenset({"transfer_to_c"}))

    def chain(*replies: Any, **options: Any) -> Agent[Any, Any]:
        third = Agent(Memo([finish("c")]), name="c")
        second = Agent(
            Memo([to("c")]),
            name="b",
            handoffs=[third],
            policy=deny if options.pop("middle", False) else Policy(),
        )
        other = Agent(Memo(), name="d", handoffs=[third])
        more = [other] if options.pop("ways", False) else []
        handoffs = [second, *more]
        return Agent(Memo(replies), name="a", handoffs=handoffs, log=log, **options)

    assert (await chain(to("b")).run("x", session="s")).agent == "c"
    rules: dict[str, dict[str, Any]] = {
        "first": {"policy": deny},
        "middle": {"middle": True},
        # The other way is free.
        "ways": {"middle": True, "ways": True},
        "free": {"limits": Limits(tool_calls=2)},
    }
    result = await chain(finish("a"), **rules[place]).run("x", session="s")
    assert result.output == ("c" if place in ("ways", "free") else "a")
    if place == "free":
        result = await chain(finish("a"), limits=Limits(tool_calls=1)).run("x", session="s")
        assert result.output == "a"


async def test_a_recorded_start_is_judged_by_the_rules_that_drive_it() -> None:
    """Mutant: `_check_start` does nothing."""
    log = MemoryLog()
    script = (("a", to("billing")), ("b", finish("Which?")), ("b", finish("done")))
    agent, _, _ = desk(*script, log=log)
    await agent.run("Money.", session="s")
    whole = await agent.run("Order 7.", session="s")
    assert whole.agent == "billing"
    deny = Policy(deny=frozenset({TO_BILLING}))
    other = MemoryLog()
    await planted(whole.records[:1], other)
    strict, _, second = desk(*script, log=other, policy=deny)
    with pytest.raises(ReplayDiverged, match="the policy forbids"):
        await strict.resume(whole.run_id)
    assert second.asked == []


async def test_a_caller_cannot_choose_the_agent_with_a_setting() -> None:
    """Mutant: the caller's key is kept."""
    agent, _, second = desk(("a", finish("a")), ("b", finish("b")))
    chosen = {"active_agent": "billing", "agent_not_continued": {"agent": "x"}}
    result = await agent.run("x", settings=chosen)
    assert (result.output, second.asked) == ("a", [])
    assert "noted" not in tags(result)


async def test_metrics_show_the_cost_of_each_agent() -> None:
    agent, _, _ = desk(*THERE_AND_BACK)
    result = await agent.run("Refund order 7.")
    by_agent = shares(result.records)
    assert {name: share.model_calls for name, share in by_agent.items()} == {
        "triage": 3,
        "billing": 2,
    }
    assert sum(share.usage.tokens for share in by_agent.values()) == result.usage.tokens
    assert {n: u.tokens for n, u in result.metrics.usage_by_agent.items()} == {
        "triage": 330,
        "billing": 220,
    }


async def spent(result: RunResult[Any], *scopes: str) -> list[int]:
    """The tokens of each scope of the run's log."""
    assert result.log is not None
    sums = await result.log.spent([Window(scope, 0, 10**9) for scope in scopes])
    return [each.tokens for each in sums]


def dear(*script: Any) -> list[tuple[str, Reply]]:
    """The script with replies of 10,000 tokens, so that estimates of prompts are small beside."""
    return [(who, Reply(text, usage=Usage(10_000))) for who, text in script]


async def test_budgets_charge_the_agent_that_was_active_when_the_call_was_made() -> None:
    """Mutants: the check, the reply or the log takes the first agent."""
    policy = Policy(budgets=[Budget(per="agent", tokens=25_000)])
    agent, first, second = desk(*dear(*THERE_AND_BACK), policy=policy)
    result = await agent.run("Refund order 7.", principal=Principal("ann"), tags={"team": "x"})
    assert result.success, result.error
    everyone = ("all", "principal:ann", "tag:team=x", "agent:triage", "agent:billing")
    assert await spent(result, *everyone) == [50_000, 50_000, 50_000, 30_000, 20_000]
    await assert_replays(agent, result)
    # Nothing is left of the first agent's amount.
    stopped = await agent.run("Refund order 8.")
    assert (stopped.stop_reason, len(first.asked), len(second.asked)) == ("max_budget", 3, 2)
    assert "'agent:triage': 30,000 tokens were spent" in stopped.error


async def test_an_agents_budget_stops_its_turns_and_warns_of_each_agents_amount() -> None:
    """Mutants: a warning of one agent's amount stands for all; the first agent's sum counts."""
    policy = Policy(budgets=[Budget(per="agent", tokens=20_000, warn=0.5)])
    agent, first, second = desk(*dear(*THERE_AND_BACK), policy=policy)
    result = await agent.run("Refund order 7.")
    # The third call of the first agent does not fit, the second of the other one does.
    assert (result.stop_reason, len(first.asked), len(second.asked)) == ("max_budget", 2, 2)
    assert "'agent:triage': 20,000 tokens were spent" in result.error
    notes = [r.event for r in result.records if isinstance(r.event, e.Noted)]
    assert [note.data["scope"] for note in notes if note.kind == "budget"] == [
        "agent:triage",
        "agent:billing",
    ]
    await assert_replays(agent, result)


async def test_a_tool_and_a_broken_call_charge_the_active_agent() -> None:
    """Mutants: a charge of a tool, or of a call without a reply, names no agent."""

    @tool(effect="read")
    def ask_elsewhere(ctx: RunContext[Any]) -> str:
        """Ask another model."""
        ctx.charge(Usage(1000))
        return "asked"

    class Broken(Memo):
        async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
            report_consumption("other", Usage(5000))
            return await super().complete(request, on_text)

    second = Broken([act("ask_elsewhere"), finish()])
    billing = Agent(second, name="billing", tools=[ask_elsewhere])
    first = Memo([to("billing")])
    agent = Agent(
        first,
        name="triage",
        handoffs=[billing],
        log=MemoryLog(),
        policy=Policy(budgets=[Budget(tokens=100_000)]),
    )
    result = await agent.run("Go.")
    assert result.success, result.error
    charged = await spent(result, "agent:triage", "agent:billing")
    assert charged == [110, 1000 + 2 * (5000 + 110)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strategy": "cot"}, "strategy"),
        ({"output": int}, "same output"),
    ],
)
async def test_agents_that_cannot_share_a_run_are_refused_before_it(
    options: dict[str, Any], words: str
) -> None:
    agent, first, _ = desk(("a", finish()), billing=options)
    with pytest.raises(ConfigError, match=words):
        await agent.run("Hello.")
    assert first.asked == []


async def test_handoffs_are_named_agents_with_different_names() -> None:
    model = Memo()
    with pytest.raises(ConfigError, match="needs a name"):
        await Agent(model, name="a", handoffs=[Agent(model)]).run("x")
    twice = [Agent(model, name="b"), Agent(model, name="b")]
    with pytest.raises(ConfigError, match="named 'b'"):
        await Agent(model, name="a", handoffs=twice).run("x")
    with pytest.raises(ConfigError, match="list of agents"):
        Agent(model, name="a", handoffs=["b"])  # type: ignore[list-item]
    alike = [Agent(model, name="b c"), Agent(model, name="b/c")]
    with pytest.raises(ConfigError, match=r"'b c' and 'b/c' would both .* 'transfer_to_b_c'"):
        await Agent(model, name="a", handoffs=alike).run("x")


async def test_the_secrets_of_the_next_agent_are_masked_in_the_whole_run() -> None:
    agent, _, _ = desk(("a", finish("ok")), billing={"secrets": ["hunter2-hunter2"]})
    result = await agent.run("The password is hunter2-hunter2.")
    assert "hunter2" not in str(result.records)
