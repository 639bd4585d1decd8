"""Requester, approver and result of every call, for every outcome."""

import pytest

from taofold import Agent, Decision, MemoryLog, Policy, Principal, tool
from taofold.clocks import clock
from taofold.core.trace import AuditEntry
from taofold.runtime.control import decide, sweep
from taofold.testing import ScriptedModel

pytestmark = pytest.mark.anyio
DONE = '{"thought": "Done.", "action": {"tool": "finish", "parameters": {"answer": "ok"}}}'


@tool(effect="once", tier=3)
def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


@tool(effect="read")
def balance() -> int:
    """Read the balance."""
    return 7


def calling(name: str, parameters: str = "{}") -> str:
    action = f'{{"tool": "{name}", "parameters": {parameters}}}'
    return f'{{"thought": "I use {name}.", "action": {action}}}'


def agent(*replies: str, **options: object) -> Agent:
    return Agent(ScriptedModel([*replies, DONE]), tools=[pay, balance], log=MemoryLog(), **options)  # type: ignore[arg-type]


@pytest.mark.scenario("RCT-19")
async def test_a_read_is_audited_with_the_policys_word() -> None:
    entries, attempts = (await agent(calling("balance")).run("x")).audit
    read = entries[0]
    assert (read.who, read.tool, read.tier, read.decision, read.resolver, read.outcome) == (
        "local", "balance", 1, "allow", "policy", "success",
    )  # fmt: skip
    assert 0 < read.proposed_at <= read.decided_at <= read.started_at <= read.finished_at
    assert attempts == ()


@pytest.mark.scenario("RCT-19", "RCT-18")
async def test_a_confirmed_call_names_its_resolver_and_refused_attempts_are_kept() -> None:
    one = agent(calling("pay", '{"euros": 5}'))
    waiting = await one.run("x", principal=Principal("ada"))
    assert waiting.audit[0][0].decision == "ask"
    assert waiting.audit[0][0].outcome == "open"
    with pytest.raises(Exception, match="not yours"):
        await decide(waiting.log, waiting.pending[0].id, Decision("approve"), by=Principal("eve"))
    await decide(waiting.log, waiting.pending[0].id, Decision("approve"), by=Principal("ada"))
    entries, attempts = (await one.resume(waiting)).audit
    assert (entries[0].resolver, entries[0].decision, entries[0].outcome) == (
        "ada", "allow", "success",
    )  # fmt: skip
    assert [(a.who, a.id) for a in attempts] == [("eve", waiting.pending[0].id)]


@pytest.mark.scenario("RCT-19")
async def test_denied_expired_and_refused_calls_are_audited_too() -> None:
    denied = await agent(calling("pay", '{"euros": 5}'), approve=lambda _: False).run("x")
    assert (denied.audit[0][0].decision, denied.audit[0][0].outcome) == ("deny", "denied")
    assert denied.audit[0][0].started_at == 0

    slow = agent(calling("pay", '{"euros": 5}'), policy=Policy(approve_seconds=60))
    waiting = await slow.run("x")
    await sweep(waiting.log, now=lambda: clock() + 61_000)
    expired: AuditEntry = (await slow.resume(waiting)).audit[0][0]
    assert (expired.decision, expired.resolver, expired.outcome) == ("expired", "clock", "expired")

    unknown = await agent(calling("dance")).run("x")
    assert unknown.audit[0][0].outcome == "unknown"
