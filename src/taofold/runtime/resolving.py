"""How an approval is closed: by the tape, the inbox, the clock, or the callback in process.

Where a callback and a person elsewhere both spoke, whoever did not allow is heard.
"""

import asyncio
import inspect
from typing import Any

from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.values import ASK_USER, Action, Tier
from taofold.policy import digest
from taofold.runtime.ledger import Ledger
from taofold.runtime.setup import Approval, Decision
from taofold.runtime.signals import Cancelled, Park
from taofold.tools import Tool

LOOK = 0.5
"""Seconds between two looks into the inbox while a callback waits for its person."""


async def resolution(
    ledger: Ledger, asked: e.Record, action: Action, tool: Tool | None, question: str
) -> e.Resolved:
    """What became of the question: from the tape, the inbox, the clock or the callback."""
    event = asked.event
    assert isinstance(event, e.Decided)
    key, index = event.key, event.index
    recorded = ledger.tape.take(e.Resolved, key, index)
    if recorded is not None and isinstance(recorded.event, e.Resolved):
        ledger.replayed(recorded)
        voided = ledger.tape.peek(e.Resolved, key, index)
        if voided is not None and voided.verdict == "void":
            ledger.put(voided)
            return voided
        return _still(ledger, event, action, recorded.event) or recorded.event
    ledger.touch(f"{key}[{index}]")
    await ledger.inbox.refresh(ledger.store)
    resolved = _decided(ledger, asked, action, tool)
    if resolved is None and event.expires_at and ledger.setup.now() > event.expires_at:
        resolved = _closed(event, "expired", "clock")
    if resolved is None and ledger.setup.approve is None:
        by = ledger.inbox.cancelled()
        if by:
            raise Cancelled(by)
        ledger.hear(key)
        raise Park("awaiting_input" if action.tool == ASK_USER else "awaiting_approval")
    if resolved is None:
        await ledger.save()
        resolved = await _asked_here(ledger, asked, action, tool, question)
    ledger.put(resolved)
    return _still(ledger, event, action, resolved) or resolved


async def _asked_here(
    ledger: Ledger, asked: e.Record, action: Action, tool: Tool | None, question: str
) -> e.Resolved:
    """The callback's word, or that of a person who decided elsewhere meanwhile.

    Where both spoke, whoever did not allow is heard; the other is on the record as refused.
    """
    event = asked.event
    assert isinstance(event, e.Decided)
    decision = await _callback(ledger, asked, action, tool, question)
    ledger.inbox.stale = True
    await ledger.inbox.refresh(ledger.store)
    posted = _decided(ledger, asked, action, tool)
    if isinstance(decision, e.Resolved):
        return decision
    said = decision.answer if decision.answer is not None else decision.reason
    resolved = _closed(
        event,
        {"approve": "allow", "edit": "allow"}.get(decision.verdict, decision.verdict),
        decision.by,
        ledger.setup.redactor.text(said),
        _edited(ledger, action, decision.parameters),
        tool,
    )
    if posted is None:
        return resolved
    heard, lost = (resolved, posted) if posted.verdict == "allow" else (posted, resolved)
    why = f"{heard.by} decided {heard.verdict} at the same time"
    name = f"{asked.run}:{asked.seq}"
    ledger.store.dispatch(e.DecisionRefused(id=name, by=lost.by, why=why, at=ledger.setup.now()))
    return heard


def _decided(
    ledger: Ledger, asked: e.Record, action: Action, tool: Tool | None
) -> e.Resolved | None:
    """What a person's message in the inbox says."""
    event = asked.event
    assert isinstance(event, e.Decided)
    signal = ledger.inbox.find("decide", asked.seq) or ledger.inbox.find("answer", asked.seq)
    if signal is None:
        return None
    ledger.inbox.take(signal)
    data = signal.data
    said = ledger.setup.redactor.text(str(data.get("text") or data.get("reason") or ""))
    verdict = data.get("verdict", "allow")
    edited = _edited(ledger, action, data.get("parameters"))
    return _closed(event, verdict, signal.by, said, edited, tool)


def _edited(ledger: Ledger, action: Action, parameters: dict[str, Any] | None) -> Action | None:
    if parameters is None:
        return None
    return replace(action, parameters=ledger.setup.redactor.json(dict(parameters)))


def _still(
    ledger: Ledger, asked: e.Decided, action: Action, resolved: e.Resolved
) -> e.Resolved | None:
    """Re-check what an approval is bound to, right before it is used; void it if it changed."""
    if resolved.verdict != "allow" or ledger.exact:
        return None
    tool = ledger.setup.tools.get(action.tool)
    if tool is None or ledger.tape.peek(e.Started, asked.key, asked.index) is not None:
        return None
    changed = ""
    if digest(action, tool.definition) != asked.digest:
        changed = "the tool or its parameters changed after the approval was asked for"
    elif ledger.setup.policy.version != asked.policy:
        changed = "the policy changed after the approval was asked for"
    if not changed:
        return None
    void = _closed(asked, "void", "runtime", changed)
    ledger.put(void)
    return void


def _closed(
    asked: e.Decided,
    verdict: str,
    by: str,
    reason: str = "",
    edited: Action | None = None,
    tool: Tool | None = None,
) -> e.Resolved:
    """The end of the question. Edited parameters make a new digest."""
    bound = asked.digest
    if edited is not None:
        bound = digest(edited, tool.definition if tool else "")
    return e.Resolved(
        key=asked.key,
        index=asked.index,
        verdict=verdict,  # type: ignore[arg-type]
        by=by,
        tier=asked.tier,
        reason=reason,
        digest=bound,
        action=edited,
    )


def approval(
    run: str, asked: e.Record, action: Action, requester: str, question: str = ""
) -> Approval:
    """The question in the log as a person sees it."""
    event = asked.event
    assert isinstance(event, e.Decided)
    return Approval(
        id=f"{run}:{asked.seq}",
        run=run,
        key=event.key,
        index=event.index,
        action=action,
        tier=Tier(event.tier),
        reason=event.reason,
        preview=event.preview,
        digest=event.digest,
        policy=event.policy,
        requester=requester,
        asked_at=asked.at,
        expires_at=event.expires_at,
        question=question,
    )


async def _callback(
    ledger: Ledger, asked: e.Record, action: Action, tool: Tool | None, question: str
) -> Decision | e.Resolved:
    """What the callback says; while it waits, a person elsewhere may decide or cancel."""
    approve = ledger.setup.approve
    assert approve is not None
    said = approve(approval(ledger.store.run, asked, action, ledger.setup.principal.id, question))
    if inspect.isawaitable(said):
        asking = asyncio.ensure_future(said)
        try:
            while not (await asyncio.wait({asking}, timeout=LOOK))[0]:
                await ledger.inbox.refresh(ledger.store)
                posted = _decided(ledger, asked, action, tool)
                if posted is not None:
                    return posted
                by = ledger.inbox.cancelled()
                if by:
                    raise Cancelled(by)
            said = asking.result()
        finally:
            if not asking.done():
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
    if isinstance(said, Decision):
        return said
    return Decision("allow" if said is True else "deny", by=ledger.setup.principal.id)
