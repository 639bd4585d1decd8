"""How an approval is closed: by the tape, the inbox, the clock, or the callback in process.

Where a callback and a person elsewhere both spoke, whoever did not allow is heard.
"""

import asyncio
import dataclasses
import inspect
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.values import ASK_USER, Action, Tier, Verdict
from taofold.policy import digest
from taofold.policy.redaction import Redactor
from taofold.runtime.ledger import Ledger
from taofold.runtime.setup import Approval, Decision
from taofold.runtime.signals import Cancelled, Park
from taofold.store.fields import is_mapping
from taofold.tools import Tool
from taofold.tools.arguments import quote
from taofold.tools.result import jsonable, utf8

VERDICTS: Final[dict[str, Verdict]] = {
    "allow": "allow",
    "approve": "allow",
    "edit": "allow",
    "answer": "allow",
    "deny": "deny",
    "done": "done",
}
"""What a person may say, and what it comes to."""
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
    if resolved is None and _expired(ledger, event):
        resolved = _closed(event, "expired", "clock")
    if resolved is None and ledger.setup.approve is None:
        by = ledger.inbox.cancelled()
        if by:
            raise Cancelled(by)
        ledger.hear(key)
        wants_text = action.tool == ASK_USER or bool(event.request and event.request["form"])
        raise Park("awaiting_input" if wants_text else "awaiting_approval")
    if resolved is None:
        await ledger.save()
        try:
            resolved = await _asked_here(ledger, asked, action, tool, question)
        except Park:
            ledger.hear(key)
            raise
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
    resolved = _heard(ledger, event, action, tool, decision)
    if posted is None:
        return resolved
    heard, lost = (resolved, posted) if posted.verdict == "allow" else (posted, resolved)
    why = f"{heard.by} decided {heard.verdict} at the same time"
    name = f"{asked.run}:{asked.seq}"
    ledger.store.dispatch(e.DecisionRefused(id=name, by=lost.by, why=why, at=ledger.setup.now()))
    return heard


def _heard(
    ledger: Ledger, asked: e.Decided, action: Action, tool: Tool | None, decision: Decision
) -> e.Resolved:
    """What the callback's decision comes to. One that cannot be used as it stands denies."""
    wrong = flaw(decision)
    if not wrong and decision.digest and decision.digest != asked.digest:
        wrong = "the decision is about another action than the one it was asked about"
    if wrong:
        return _closed(asked, "deny", ledger.setup.principal.id, utf8(wrong))
    if _expired(ledger, asked):
        return _closed(asked, "expired", "clock")
    said = decision.answer if decision.answer is not None else decision.reason
    verdict = VERDICTS[decision.verdict]
    if asked.request is not None and decision.parameters is not None:
        said = _form(decision.parameters)
        decision = dataclasses.replace(decision, parameters=None)
    given = decision.parameters if verdict == "allow" else None
    lost = "" if given is None else secret(ledger.setup.redactor, given)
    if lost:
        return _closed(asked, "deny", ledger.setup.redactor.text(utf8(decision.by)), lost)
    edited = None if given is None else replace(action, parameters=dict(given))
    reason, by = [ledger.setup.redactor.text(utf8(text)) for text in (said, decision.by)]
    return _closed(asked, verdict, by, reason, edited, tool)


def flaw(decision: Decision) -> str:
    """Why nobody can act on `decision`, or "". It comes from code that may be wrong."""
    said: Any = decision.verdict
    if not isinstance(said, str) or said not in VERDICTS:
        return f"a decision is approve, deny, edit or done, not {quote(said)}"
    texts: dict[str, Any] = {"by": decision.by, "reason": decision.reason}
    texts |= {"answer": decision.answer or "", "digest": decision.digest}
    for name, text in texts.items():
        if not isinstance(text, str):
            return f"the {name} of a decision is text, not {quote(text)}"
    given = decision.parameters
    if given is None:
        return "an edit says which parameters to use instead" if said == "edit" else ""
    if not is_mapping(given) or jsonable(given) != given:
        return f"edited parameters are a dict of JSON, not {quote(given)}"
    return ""


def _expired(ledger: Ledger, asked: e.Decided) -> bool:
    return bool(asked.expires_at) and ledger.setup.now() > asked.expires_at


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
    given, text = data.get("parameters"), str(data.get("text") or data.get("reason") or "")
    if event.request is not None and given is not None:
        text, given = _form(given), None
    said = ledger.setup.redactor.text(text)
    verdict = data.get("verdict", "allow")
    lost = "" if given is None else secret(ledger.setup.redactor, given)
    if lost:  # whoever knew of it was told when he decided
        return _closed(event, "deny", signal.by, lost)
    edited = None if given is None else replace(action, parameters=dict(given))
    return _closed(event, verdict, signal.by, said, edited, tool)


def _form(filled: dict[str, Any]) -> str:
    """An answer to a tool's question that came as parameters instead of as text."""
    return msgspec.json.encode(filled).decode()


def secret(redactor: Redactor, parameters: dict[str, Any]) -> str:
    """Why edited parameters that hold a secret are refused, or "" if they hold none.

    The log keeps no secrets, so the call would run with something else than was approved.
    """
    kept = redactor.json(parameters)
    if kept == parameters:
        return ""
    lost = [name for name, said in parameters.items() if kept.get(name) != said]
    where = f"the parameter {redactor.text(lost[0])!r} holds" if lost else "they hold"
    return f"edited parameters may hold no secret: {where} one, and a log keeps none"


def _still(
    ledger: Ledger, asked: e.Decided, action: Action, resolved: e.Resolved
) -> e.Resolved | None:
    """Re-check what an approval is bound to, right before it is used; void it if it changed."""
    if resolved.verdict != "allow" or ledger.exact:
        return None
    tool = ledger.setup.tools.get(action.tool)
    if tool is None:
        return None
    changed = ""
    if digest(action, tool.definition) != asked.digest:
        changed = "the tool or its parameters changed after the approval was asked for"
    elif ledger.setup.policy.version != asked.policy:
        changed = "the policy changed after the approval was asked for"
    if not changed:
        return None
    # A void edit is taken back: the question is asked anew about the action as it was.
    original = action if resolved.action is not None else None
    void = _closed(asked, "void", "runtime", changed, original, tool)
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
        attempt=asked.attempt,
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
        form=None if event.request is None else event.request["form"],
    )


async def _callback(
    ledger: Ledger, asked: e.Record, action: Action, tool: Tool | None, question: str
) -> Decision | e.Resolved:
    """What the callback says; while it waits, a person elsewhere may decide or cancel."""
    approve, event = ledger.setup.approve, asked.event
    assert approve is not None
    assert isinstance(event, e.Decided)
    said: Any = approve(
        approval(ledger.store.run, asked, action, ledger.setup.principal.id, question)
    )
    if inspect.isawaitable(said):
        asking = asyncio.ensure_future(said)
        try:
            while not (await asyncio.wait({asking}, timeout=LOOK))[0]:
                await ledger.inbox.refresh(ledger.store)
                posted = _decided(ledger, asked, action, tool)
                if posted is not None:
                    return posted
                if _expired(ledger, event):
                    return _closed(event, "expired", "clock")
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
    by = ledger.setup.principal.id
    if isinstance(said, bool):
        return Decision("allow" if said else "deny", by=by)
    return Decision("deny", by=by, reason=f"approve gave {quote(said)}, not a bool or a Decision")
