"""Approvals: an action that needs a person's word before it may run (D10).

An approval is the `Decided(ask)` event in the log; it is bound to the action's digest,
the policy's version and the tool's definition, is used once, and may expire. The word
comes from an `approve` callback in process, or through the inbox from anywhere.
"""

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.values import ASK_USER, Action, Observation, Tier
from taofold.policy import Ruling, digest
from taofold.runtime.ledger import Ledger
from taofold.runtime.setup import Approval, Decision
from taofold.runtime.signals import Cancelled, Park
from taofold.tools import BadArguments, Tool

PREVIEW = 2000


async def settle(
    ledger: Ledger,
    key: str,
    index: int,
    action: Action,
    tool: Tool | None,
    ruling: Ruling | None,
    *,
    rule: Callable[[], Ruling] | None = None,
    question: str = "",
) -> Action | Observation:
    """The action to run as a person approved it, or the observation that answers it.

    If the approval is void, `rule` is asked anew. Without a `ruling` the person is asked a
    `question`: by `ask_user`, or about an action that may already have happened. Parks the
    run if nobody answers now.
    """
    while True:
        asked = _ask(ledger, key, index, action, tool, ruling, question)
        resolved = await _resolution(ledger, asked, action, tool, question)
        if resolved.verdict != "void":
            return _outcome(resolved, action, tool)
        if ruling is not None and rule is not None:
            ruling = rule()
            if ruling.verdict == "deny":
                return Observation(ruling.reason, "failure", refused="denied")
            if ruling.verdict == "allow":
                return action


def _ask(
    ledger: Ledger,
    key: str,
    index: int,
    action: Action,
    tool: Tool | None,
    ruling: Ruling | None,
    question: str,
) -> e.Record:
    """Record that a person is asked, or find it recorded."""
    setup = ledger.setup
    seconds = setup.policy.approve_seconds
    recorded = ledger.tape.peek(e.Decided, key, index)
    tier = ruling.tier if ruling else (tool.tier if tool else Tier.CARD)
    event = e.Decided(
        key=key,
        index=index,
        verdict="ask",
        tier=int(tier),
        reason=ruling.reason if ruling else question,
        digest=digest(action, tool.definition if tool else ""),
        policy=setup.policy.version,
        preview=_preview(action, tool),
        expires_at=setup.now() + round(seconds * 1000) if seconds else 0,
    )
    if recorded is not None and recorded.verdict == "ask":
        # The policy's version may have changed without changing what it says; the preview
        # and the time are the world's.
        event = replace(
            event,
            expires_at=recorded.expires_at,
            policy=recorded.policy,
            preview=recorded.preview,
        )
        if not ledger.exact:
            event = recorded
    elif recorded is not None and not ledger.exact:
        ledger.overruled(key, index)
    return ledger.put(event)


async def _resolution(
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
        decision = await _callback(ledger, asked, action, question)
        ledger.inbox.stale = True
        resolved = _closed(
            event,
            {"approve": "allow", "edit": "allow"}.get(decision.verdict, decision.verdict),
            decision.by,
            decision.answer if decision.answer is not None else decision.reason,
            _edited(ledger, action, decision.parameters),
            tool,
        )
        resolved = replace(resolved, reason=ledger.setup.redactor.text(resolved.reason))
        await ledger.inbox.refresh(ledger.store)
        resolved = _decided(ledger, asked, action, tool) or resolved
    ledger.put(resolved)
    return _still(ledger, event, action, resolved) or resolved


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


def _outcome(resolved: e.Resolved, action: Action, tool: Tool | None) -> Action | Observation:
    if action.tool == ASK_USER:
        return Observation(resolved.reason or "(no answer)", extraction=resolved.reason, auto=True)
    match resolved.verdict:
        case "allow":
            edited = resolved.action or action
            if tool is not None and resolved.action is not None:
                try:
                    tool.bind(edited.parameters)
                except BadArguments as error:
                    return Observation(f"edited parameters: {error}", "failure", refused="invalid")
            return edited
        case "done":
            return Observation("a person says that it had already happened", extraction="done")
        case "expired":
            return Observation("approval expired", "failure", refused="expired")
        case _:
            said = f": {resolved.reason}" if resolved.reason else ""
            return Observation(f"denied by {resolved.by}{said}", "failure", refused="denied")


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


async def _callback(ledger: Ledger, asked: e.Record, action: Action, question: str) -> Decision:
    approve = ledger.setup.approve
    assert approve is not None
    request = approval(ledger.store.run, asked, action, ledger.setup.principal.id, question)
    said = approve(request)
    if inspect.isawaitable(said):
        said = await said
    if isinstance(said, Decision):
        return said
    return Decision("allow" if said is True else "deny", by=ledger.setup.principal.id)


def _preview(action: Action, tool: Tool | None) -> str:
    """What would happen, for a person to read."""
    if tool is not None and tool.preview is not None:
        with suppress(Exception):  # a bad preview must not stop the question
            return _cut(tool.preview(action.parameters))
    said = ", ".join(f"{name}={value!r}" for name, value in action.parameters.items())
    return _cut(f"{action.tool}({said})")


def _cut(text: str) -> str:
    return text if len(text) <= PREVIEW else f"{text[:PREVIEW]} [… cut]"
