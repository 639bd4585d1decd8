"""An imported call that was begun elsewhere may have happened there, so an approver decides."""

from typing import Any

import pytest

from taofold import Agent, Decision, MemoryLog, Policy, Principal, tool
from taofold.core import events as e
from taofold.core.imported_runs import as_import
from taofold.log.log import Log
from taofold.runtime.control import decide, pending
from taofold.runtime.uncertain_calls import BEGUN

from .kit import Memo, act, batch, finish, planted

pytestmark = pytest.mark.anyio

PAID: list[int] = []


@tool(effect="once", tier=1, reversible=True)
def pay(euros: int) -> str:
    """Pay."""
    PAID.append(euros)
    return f"paid {euros}"


@tool(effect="idempotent", tier=1, reversible=True)
def tag(name: str) -> str:
    """Tag."""
    PAID.append(0)
    return f"tagged {name}"


@tool(effect="read")
def look(what: str) -> str:
    """Look."""
    PAID.append(1)
    return f"{what} is there"


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "pay": ("pay", {"euros": 5}),
    "tag": ("tag", {"name": "x"}),
    "look": ("look", {"what": "it"}),
}


async def elsewhere(calls: list[str], *, began: int) -> Log:
    """A log into which a run was taken that began so many of its calls and ended none."""
    PAID.clear()
    script = [batch(*[CALLS[name] for name in calls]), finish()]
    whole = await Agent(Memo(script), tools=[pay, tag, look], log=MemoryLog()).run("go", run_id="r")
    PAID.clear()
    records, starts = [], 0
    for record in whole.records:
        if isinstance(record.event, e.Observed):
            break
        starts += isinstance(record.event, e.Started)
        if isinstance(record.event, e.Started) and starts > began:
            continue
        records.append(record)
    return await planted(as_import(records, "a file", principal=Principal(), at=9), MemoryLog())


def agent(log: Log, *script: str, **options: Any) -> Agent[Any, Any]:
    return Agent(Memo([*script, finish()]), tools=[pay, tag, look], log=log, **options)


@pytest.mark.parametrize(
    ("calls", "began", "asks"),
    [
        (["pay"], 1, ["pay"]),
        (["pay"], 0, []),
        (["tag"], 1, ["tag"]),
        (["look"], 1, []),
        (["pay", "tag"], 1, ["pay"]),
        (["tag", "pay"], 1, ["tag"]),
        (["pay", "tag"], 2, ["pay", "tag"]),
    ],
)
async def test_what_was_begun_there_is_asked_about_and_nothing_else(
    calls: list[str], began: int, asks: list[str]
) -> None:
    log = await elsewhere(calls, began=began)
    one = agent(log)
    result = await one.resume("r")
    questions = await pending(log, "r")
    assert [question.action.tool for question in questions] == asks
    assert {question.reason for question in questions} <= {BEGUN}
    assert {int(question.tier) for question in questions} <= {3}
    assert result.status == ("waiting" if asks else "finished")
    for question in questions:
        await decide(log, question.id, Decision("approve"))
    if questions:
        assert (await agent(log).resume("r")).status == "finished"
    assert len(PAID) == len(calls), "once each, after the word"


async def test_the_same_call_later_on_is_asked_about_too_and_another_is_not() -> None:
    log = await elsewhere(["pay"], began=1)
    one = agent(log, act("pay", euros=6))
    await one.resume("r")
    (question,) = await pending(log, "r")
    await decide(log, question.id, Decision("deny"))
    # The model continues with another amount, which needs no approval, then with the doubtful one.
    again = agent(log, act("pay", euros=6), act("pay", euros=5))
    assert (await again.resume("r")).status == "waiting"
    assert PAID == [6]
    (question,) = await pending(log, "r")
    assert question.action.parameters == {"euros": 5}
    assert question.reason == BEGUN


async def test_where_the_policy_asks_anyway_both_reasons_are_said() -> None:
    log = await elsewhere(["pay"], began=1)
    await agent(log, policy=Policy(autonomy="conservative")).resume("r")
    (question,) = await pending(log, "r")
    assert question.reason == f"conservative: everything that writes asks; {BEGUN}"


async def test_what_the_policy_denies_is_denied_not_asked() -> None:
    log = await elsewhere(["pay"], began=1)
    result = await agent(log, policy=Policy(deny=frozenset({"pay"}))).resume("r")
    assert result.status == "finished"
    assert await pending(log, "r") == []
    assert PAID == []
