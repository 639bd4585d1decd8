"""What people do to runs from outside: see what is pending, decide, answer, steer, cancel.

Everything goes through the inbox of the run, once; who may do it is the policy's word.
"""

from collections.abc import Callable, Iterable
from typing import Any

from taofold.core import events as e
from taofold.core.errors import Refused
from taofold.core.state import ENDED, fold, live
from taofold.core.values import ASK_USER, Principal
from taofold.policy import Facts, Policy
from taofold.runtime.approving import approval
from taofold.runtime.setup import Approval, Decision
from taofold.store.log import Log, Signal
from taofold.store.store import clock

LOCAL = Principal()


async def pending(log: Log, run: str = "") -> list[Approval]:
    """What waits for a person: in `run` and its children, or in every waiting run."""
    rows = [await log.row(run)] if run else await log.rows(status="waiting", limit=1000)
    found: list[Approval] = []
    for row in rows:
        found += pending_in(await log.read(row.run))
        if run:
            for child in await log.rows(parent=run, status="waiting"):
                found += await pending(log, child.run)
    return found


def pending_in(records: list[e.Record]) -> list[Approval]:
    """The open questions of one run, from its records. Pure."""
    counted = live(records)
    state = fold(counted)
    if state.status in ENDED or state.started is None:
        return []
    principal = state.started.principal.id
    found: list[Approval] = []
    for record in asking(counted):
        event = record.event
        assert isinstance(event, e.Decided)
        if event.key not in state.open:
            continue
        action = state.open[event.key].slots[event.index].action
        question = event.reason if action.tool == ASK_USER else ""
        found.append(approval(record.run, record, action, principal, question))
    return found


def asking(records: Iterable[e.Record]) -> list[e.Record]:
    """The records that ask a person and were not answered. Pure."""
    asked: dict[tuple[str, int], e.Record] = {}
    for record in live(records):
        event = record.event
        if isinstance(event, e.Decided) and event.verdict == "ask":
            asked[event.key, event.index] = record
        elif isinstance(event, e.Decided | e.Observed):
            asked.pop((event.key, event.index), None)
    return list(asked.values())


async def find(log: Log, action_id: str) -> Approval:
    """The pending approval with this id.

    Raises:
        Refused: there is none: wrong id, already resolved, or its run has ended.
    """
    run, _, seq = action_id.rpartition(":")
    if not run or not seq.isdigit():
        raise Refused(f"{action_id!r} is no action id: it looks like RUN:SEQ")
    for one in pending_in(await log.read(run)):
        if one.id == action_id:
            return one
    raise Refused(f"action {action_id!r} is not pending: it was already resolved, or never asked")


async def decide(
    log: Log,
    action_id: str,
    decision: Decision,
    *,
    by: Principal = LOCAL,
    policy: Policy | None = None,
    facts: Facts | None = None,
    now: Callable[[], int] = clock,
) -> Approval:
    """Put a person's decision in the run's inbox. The run acts on it when it is resumed.

    Raises:
        Refused: late, repeated, or not this person's to take.
    """
    one = await find(log, action_id)
    if decision.verdict not in ("allow", "approve", "deny", "done", "edit", "answer"):
        raise Refused(f"a decision is approve, deny, edit or done, not {decision.verdict!r}")
    policy = policy or Policy()
    row = (await log.read(one.run, limit=1))[0].event
    requester = row.principal if isinstance(row, e.RunStarted) else LOCAL
    why = policy.may_decide(by, requester, facts or Facts(one.tier, "once"), one.action.tool)
    if why:
        await _audit(log, one, by, why, now())
        raise Refused(why)
    if one.expires_at and now() > one.expires_at:
        raise Refused(f"EXPIRED: the approval of {one.action.tool!r} ended at {one.expires_at}")
    verdict = {"approve": "allow", "edit": "allow", "answer": "allow"}.get(
        decision.verdict, decision.verdict
    )
    data: dict[str, Any] = {"seq": _seq(action_id), "verdict": verdict, "reason": decision.reason}
    if decision.parameters is not None:
        data["parameters"] = decision.parameters
    if decision.answer is not None:
        data["text"] = decision.answer
    posted = await log.post(one.run, Signal(f"decide:{action_id}", "decide", by.id, now(), data))
    if not posted:
        raise Refused(f"action {action_id!r} was already resolved")
    return one


async def steer(
    log: Log, run: str, text: str, *, by: Principal = LOCAL, message_id: str = ""
) -> None:
    """Send the model a message that it reads at its next turn, once."""
    state = fold(await log.read(run))
    if state.status in ENDED:
        raise Refused(f"run {run!r} has ended as {state.status}: nobody would read it")
    at = clock()
    name = message_id or f"steer:{at}:{abs(hash(text)) % 10**8}"
    if not await log.post(run, Signal(name, "steer", by.id, at, {"text": text})):
        raise Refused(f"message {name!r} was sent already")


async def cancel(log: Log, run: str, *, by: Principal = LOCAL) -> None:
    """Ask the run to stop: nothing starts afterwards, what was done is kept."""
    state = fold(await log.read(run))
    if state.status in ENDED:
        raise Refused(f"run {run!r} has already ended as {state.status}")
    await log.post(run, Signal(f"cancel:{run}:{state.wakes}", "cancel", by.id, clock()))


async def _audit(log: Log, one: Approval, by: Principal, why: str, at: int) -> None:
    """Leave a trace of a refused attempt: the run's next activation writes it into its log."""
    name = f"refused:{one.id}:{by.id}:{at}"
    await log.post(one.run, Signal(name, "refused", by.id, at, {"id": one.id, "why": why}))


def _seq(action_id: str) -> int:
    return int(action_id.rpartition(":")[2])
