"""A policy backtest rules on stored calls as the runtime did."""

from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Limits, MemoryLog, Policy, Principal, Tier, tool
from taofold.backtest import PolicyBacktest, StoredAgents, backtest
from taofold.backtest.policies import CallJudge
from taofold.backtest.stored_calls import StoredCallReader, records_of, rows_since
from taofold.core import events as e
from taofold.core.errors import ConfigError
from taofold.core.values import Profile, Reply, ToolCall
from taofold.log.log import RunRow, WrappedLog
from taofold.policy import Facts, Ruling
from taofold.runtime import run as runs
from tests.backtest.corpus import StoredRuns, corpus, further
from tests.runtime.kit import Memo, act, batch, finish

pytestmark = pytest.mark.anyio


@tool(effect="read")
def look(what: str) -> str:
    """Look something up."""
    return what


@tool(effect="once", tier=2)
def deploy(where: str) -> str:
    """Deploy."""
    return f"deployed to {where}"


@tool(effect="once", tier=2, role="EDITOR")
def publish(what: str) -> str:
    """Publish."""
    return what


SCRIPT = (
    act("look", what="x"),
    batch(("deploy", {"where": "test"}), ("deploy", {"where": "prod"})),
    act("publish", what="y"),
    finish(),
)


def ops(**options: Any) -> Agent[Any, Any]:
    return Agent(Memo(SCRIPT), tools=[look, deploy, publish], approve="all", **options)


async def judged(
    agent: Agent[Any, Any], policy: Policy, log: Any = None, *, known: bool = True
) -> PolicyBacktest:
    """The backtest of `policy` in place of the agent's own."""

    def make(_: Any) -> Agent[Any, Any]:
        if not known:
            raise ConfigError("its agent is unknown")
        return changed

    changed = agent.replace(policy=policy)
    log = log or agent.opened_log
    return await backtest(log, rows_since(log), StoredAgents(log, make), policy)


def changes(result: PolicyBacktest) -> dict[tuple[str, str, str, str], int]:
    return {
        (key.tool, key.recorded, key.now, key.rule): change.calls
        for key, change in result.changes.items()
    }


async def stored(principal: Principal | None = None, **options: Any) -> Agent[Any, Any]:
    agent = ops(log=MemoryLog(), **options)
    await agent.run("go", principal=principal)
    return agent


async def test_each_call_is_ruled_on_again_by_the_key_that_decides() -> None:
    agent = await stored()
    table: list[tuple[Policy, dict[Any, int]]] = [
        (Policy(), {}),
        (Policy(tiers={"look": Tier.CARD}), {("look", "allow", "ask", "tiers.look"): 1}),
        (Policy(deny=frozenset({"deploy"})), {("deploy", "ask", "deny", "deny.deploy"): 2}),
        (Policy(allow=frozenset({"look", "publish"})), {("deploy", "ask", "deny", "allow"): 2}),
        (
            Policy(autonomy="autonomous"),
            {
                ("deploy", "ask", "allow", "autonomy"): 2,
                ("publish", "ask", "allow", "autonomy"): 1,
            },
        ),
        (
            Policy(tiers={"publish": Tier.FORBIDDEN}),
            {("publish", "ask", "deny", "tiers.publish"): 1},
        ),
        (
            Policy(roles={"ADMIN": 1, "EDITOR": 1, "CHIEF": 2}, required={"look": "CHIEF"}),
            {("look", "allow", "deny", "required.look"): 1},
        ),
        (
            Policy(production=True, production_tiers={"look": Tier.CONFIRM}),
            {("look", "allow", "ask", "production_tiers.look"): 1},
        ),
    ]
    for policy, wanted in table:
        result = await judged(agent, policy)
        assert changes(result) == wanted, policy
        assert result.calls == 4


async def test_the_requester_of_each_run_counts() -> None:
    agent = await stored(Principal("eve", ("EDITOR",)))
    other = ops(log=agent.opened_log)
    await other.run("go", principal=Principal("uma", ("USER",)))
    result = await judged(agent, Policy(required={"deploy": "ADMIN"}))
    assert changes(result) == {("deploy", "ask", "deny", "required.deploy"): 4}
    [change] = result.changes.values()
    assert change.runs == 2
    assert change.answers == {"allow": 4}


async def test_a_denied_call_that_would_run_now_is_loosened_and_has_no_consequences() -> None:
    agent = await stored(policy=Policy(deny=frozenset({"deploy"})))
    result = await judged(agent, Policy())
    assert (result.loosened, result.tightened) == (2, 0)
    assert any("denied call has no result" in sentence for sentence in result.limits)
    assert any("after a changed call" in sentence for sentence in result.limits)


async def test_guessed_arguments_count_under_the_new_tier() -> None:
    @tool(effect="idempotent", tier=2, reversible=True)
    def write(text: str) -> str:
        """Write."""
        return text

    # The inner quotes are not escaped.
    call = Reply("I write", calls=(ToolCall("write", '{"text": "say "x" y"}', "1"),))
    native = Profile(window=100_000, window_known=True, native_tools=True)
    model = Memo([call, finish()], profile=native)
    agent = Agent(model, tools=[write], approve="all", log=MemoryLog())
    [step, _] = (await agent.run("go")).steps
    assert step.actions[0].guessed
    assert not step.observations[0].refused
    assert changes(await judged(agent, Policy())) == {}
    raised = await judged(agent, Policy(tiers={"write": Tier.CONFIRM}))
    assert changes(raised) == {("write", "ask", "deny", "guessed"): 1}


async def test_rules_that_no_stored_call_meets_are_named() -> None:
    agent = await stored()
    policy = Policy(
        deny=frozenset({"rm", "deploy"}), tiers={"look": Tier.CARD, "wipe": Tier.FORBIDDEN}
    )
    result = await judged(agent, policy)
    assert result.uncovered == ["tiers.wipe", "deny.rm"]
    uses = {use.rule: (use.met, use.decided) for use in result.rules}
    assert uses["deny.deploy"] == (2, 2)
    assert uses["tiers.look"] == (1, 1)


async def test_without_the_agent_only_denials_are_certain() -> None:
    agent = await stored()
    policy = Policy(deny=frozenset({"deploy"}), tiers={"look": Tier.CARD})
    result = await judged(agent, policy, known=False)
    assert changes(result) == {("deploy", "ask", "deny", "deny.deploy"): 2}
    assert result.unjudged == {"its agent is unknown": 2}
    assert result.uncovered == []


class Paged(WrappedLog):
    """A log that notes how much is read at once."""

    def __init__(self, log: Any) -> None:
        super().__init__(log)
        self.most = 0

    async def read(self, run: str, *, after: int = -1, limit: int = 0) -> list[e.Record]:
        assert limit, "a whole run was read"
        records = await super().read(run, after=after, limit=limit)
        self.most = max(self.most, len(records))
        return records

    async def rows(self, **named: Any) -> list[RunRow]:
        assert named["limit"], "all rows were read"
        return await super().rows(**named)


async def test_runs_are_read_in_pages_and_only_open_calls_are_held() -> None:
    script = [act("look", what=f"w{number}") for number in range(300)]
    agent = Agent(
        Memo([*script, finish()]), tools=[look], log=MemoryLog(), limits=Limits(steps=400)
    )
    await agent.run("go")
    paged = Paged(agent.opened_log)
    result = await judged(agent, Policy(tiers={"look": Tier.CARD}), paged)
    assert result.tightened == 300
    assert paged.most == 500
    [change] = result.changes.values()
    assert len(change.examples) == 5
    reader, most = StoredCallReader(), 0
    async for record in records_of(paged, (await paged.rows(limit=1))[0].run):
        list(reader.feed(record))
        most = max(most, reader.waiting)
    assert most == 1


async def test_a_fork_does_not_count_the_calls_of_its_source_again() -> None:
    agent = await stored()
    log = agent.opened_log
    assert log is not None
    [row] = await log.rows()
    await runs.fork(log, row.run, "copy", now=0)
    result = await judged(agent, Policy(deny=frozenset({"deploy"})))
    assert (result.runs, result.calls) == (2, 4)


async def test_a_child_is_judged_under_the_policy_of_its_caller() -> None:
    child = Agent(
        Memo([act("deploy", where="prod"), finish()]), tools=[deploy], name="helper", approve="all"
    )
    agent = Agent(
        Memo([act("helper", goal="help"), finish()]), tools=[child], log=MemoryLog(), approve="all"
    )
    await agent.run("go")
    result = await judged(agent, Policy(deny=frozenset({"deploy"})))
    assert changes(result) == {("deploy", "ask", "deny", "deny.deploy"): 1}


def agents_of(kept: StoredRuns) -> StoredAgents:
    return StoredAgents(kept.log, lambda _: kept.agent)


async def test_the_policy_that_was_in_force_changes_no_verdict_of_sessions_and_teams(
    tmp_path: Path,
) -> None:
    calls = 0
    async for kept in further(tmp_path):
        log = kept.log
        result = await backtest(log, rows_since(log), agents_of(kept), Policy())
        assert not result.changes, (kept.name, result.changes)
        assert not result.findings, (kept.name, result.findings)
        assert not result.unjudged, (kept.name, result.unjudged)
        calls += result.calls
    assert calls > 15


async def test_the_policy_that_was_in_force_changes_no_verdict_of_any_run() -> None:
    """Whole, cut and resumed runs: what was recorded is what the backtest derives."""
    calls = count = 0
    async for kept in corpus(step=9):
        log = kept.log
        result = await backtest(log, rows_since(log), agents_of(kept), Policy())
        assert not result.changes, (kept.name, result.changes)
        assert not result.findings, (kept.name, result.findings)
        assert "the agent has no such tool now" not in result.unjudged
        calls += result.calls
        count += result.runs
    assert calls > 300
    assert count > 100


async def test_a_judge_that_ignores_the_policy_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = await stored(policy=Policy(autonomy="conservative"), limits=Limits(steps=9))

    def blind(self: CallJudge, call: Any) -> Ruling:
        return Ruling("allow", Tier.AUTO)

    monkeypatch.setattr(CallJudge, "rule", blind)
    assert (await judged(agent, Policy(autonomy="conservative"))).loosened == 3


def test_the_rule_of_every_ruling_is_named() -> None:
    policy = Policy(deny=frozenset({"a"}), tiers={"b": Tier.CONFIRM}, required={"c": "ADMIN"})
    from taofold import Action

    for name in "abcd":
        for tier in Tier:
            for effect in ("read", "idempotent", "once"):
                for critical in (False, True):
                    who = Principal("x", ("USER",))
                    facts = Facts(tier, effect)
                    assert policy.rule(Action(name), facts, who, critical=critical).rule


async def test_after_a_rewind_the_agent_of_that_time_calls() -> None:
    """Mutant: a rewound hand-off stays in force."""

    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    script = [act("look"), act("transfer_to_b"), act("look"), finish()]
    other = Agent(Memo([finish("b")]), name="b")
    # After the rewind, the same prompt gets another reply.
    model = Memo(choose=lambda _: script.pop(0))
    agent = Agent(model, name="a", tools=[look], handoffs=[other], log=MemoryLog())
    result = await agent.run("go")
    assert (result.agent, result.log) == ("b", agent.opened_log)
    assert result.log is not None
    model.known.clear()
    observed = next(r.seq for r in result.records if isinstance(r.event, e.Observed))
    await runs.rewind(result.log, result.run_id, to=observed, now=result.records[-1].at)
    again = await agent.resume(result.run_id)
    assert (again.agent, again.success) == ("a", True)
    tested = await judged(agent, Policy(tiers={"look": Tier.CARD}))
    assert changes(tested) == {("look", "allow", "ask", "tiers.look"): 2}
    assert not tested.unjudged
