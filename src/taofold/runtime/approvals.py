"""Approvals: an action that needs a person's decision before it may run (D10).

An approval is the `Decided(ask)` event in the log; it is bound to the action's digest, the
policy's version and the tool's definition, is used once, and may expire. It is closed by the
tape, the inbox (from anywhere), the clock, or an `approve` callback in process. At the terminal
what is shown was made visible first: a model's text cannot move the cursor or hide what is asked;
the end of the input leaves the run waiting.
"""

import asyncio
import dataclasses
import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.text import visible
from taofold.core.value import is_object
from taofold.core.values import ASK_USER, Action, Observation, Tier, Verdict
from taofold.policy import Ruling, digest
from taofold.policy.redaction import Redactor
from taofold.runtime.ledger import Cancelled, Ledger, Park
from taofold.runtime.redaction import plain
from taofold.runtime.setup import Approval, Decision
from taofold.tools import BadArguments, Tool
from taofold.tools.arguments import quote
from taofold.tools.result import jsonable, utf8
from taofold.tools.worker import WORKERS

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
    words = decision.answer if decision.answer is not None else decision.reason
    verdict = VERDICTS[decision.verdict]
    if asked.request is not None and decision.parameters is not None:
        words = _form(decision.parameters)
        decision = dataclasses.replace(decision, parameters=None)
    parameters = decision.parameters if verdict == "allow" else None
    lost = "" if parameters is None else secret(ledger.setup.redactor, parameters)
    if lost:
        return _closed(asked, "deny", ledger.setup.redactor.text(utf8(decision.by)), lost)
    edited = None if parameters is None else replace(action, parameters=dict(parameters))
    reason, by = [ledger.setup.redactor.text(utf8(text)) for text in (words, decision.by)]
    return _closed(asked, verdict, by, reason, edited, tool)


def flaw(decision: Decision) -> str:
    """Why nobody can act on `decision`, or "". It comes from code that may be wrong."""
    verdict: Any = decision.verdict
    if not isinstance(verdict, str) or verdict not in VERDICTS:
        return f"a decision is approve, deny, edit or done, not {quote(verdict)}"
    texts: dict[str, Any] = {"by": decision.by, "reason": decision.reason}
    texts |= {"answer": decision.answer or "", "digest": decision.digest}
    for name, text in texts.items():
        if not isinstance(text, str):
            return f"the {name} of a decision is text, not {quote(text)}"
    parameters = decision.parameters
    if parameters is None:
        return "an edit says which parameters to use instead" if verdict == "edit" else ""
    if not is_object(parameters) or jsonable(parameters) != parameters:
        return f"edited parameters are a dict of JSON, not {quote(parameters)}"
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
    parameters, text = data.get("parameters"), str(data.get("text") or data.get("reason") or "")
    if event.request is not None and parameters is not None:
        text, parameters = _form(parameters), None
    reason = ledger.setup.redactor.text(text)
    verdict = data.get("verdict", "allow")
    lost = "" if parameters is None else secret(ledger.setup.redactor, parameters)
    if lost:  # whoever knew of it was told when he decided
        return _closed(event, "deny", signal.by, lost)
    edited = None if parameters is None else replace(action, parameters=dict(parameters))
    return _closed(event, verdict, signal.by, reason, edited, tool)


def _form(filled: dict[str, Any]) -> str:
    """An answer to a tool's question that came as parameters instead of as text."""
    return msgspec.json.encode(filled).decode()


def secret(redactor: Redactor, parameters: dict[str, Any]) -> str:
    """Why edited parameters that hold a secret are refused, or "" if they hold none.

    The log keeps no secrets, so the call would run with something else than was approved.
    """
    redacted = redactor.json(parameters)
    if redacted == parameters:
        return ""
    lost = [name for name, value in parameters.items() if redacted.get(name) != value]
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
    decision: Any = approve(
        approval(ledger.store.run, asked, action, ledger.setup.principal.id, question)
    )
    if inspect.isawaitable(decision):
        asking = asyncio.ensure_future(decision)
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
            decision = asking.result()
        finally:
            if not asking.done():
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
    if isinstance(decision, Decision):
        return decision
    by = ledger.setup.principal.id
    if isinstance(decision, bool):
        return Decision("allow" if decision else "deny", by=by)
    return Decision(
        "deny", by=by, reason=f"approve gave {quote(decision)}, not a bool or a Decision"
    )


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
        request = ask(ledger, key, index, action, tool, ruling, question)
        resolved = await resolution(ledger, request, action, tool, question)
        if resolved.verdict != "void":
            return _outcome(resolved, action, tool, doubt=ruling is None)
        if ruling is not None and rule is not None:
            ruling = rule()
            if ruling.verdict == "deny":
                return Observation(ruling.reason, "failure", refused="denied")
            if ruling.verdict == "allow":
                return action


def ask(
    ledger: Ledger,
    key: str,
    index: int,
    action: Action,
    tool: Tool | None,
    ruling: Ruling | None,
    question: str,
    request: dict[str, Any] | None = None,
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
        preview=plain(setup.redactor, _preview(action, tool)),
        expires_at=setup.now() + round(seconds * 1000) if seconds else 0,
        request=request,
        attempt=ledger.store.state.open[key].slots[index].attempts,
    )
    if recorded is not None and recorded.verdict == "ask":
        # The policy's version may have changed without changing what it says; the preview
        # and the time are the world's. How often the call had started is the log's: while a
        # replay meets parallel branches in another order, the state may count a later start.
        event = replace(
            event,
            expires_at=recorded.expires_at,
            policy=recorded.policy,
            preview=recorded.preview,
            attempt=recorded.attempt,
        )
        if not ledger.exact:
            event = recorded
    elif recorded is not None and not ledger.exact:
        ledger.overruled(key, index)
    return ledger.put(event)


def _outcome(
    resolved: e.Resolved, action: Action, tool: Tool | None, *, doubt: bool
) -> Action | Observation:
    """`doubt`: the question was whether an interrupted call had happened."""
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
            suffix = f": {resolved.reason}" if resolved.reason else ""
            if doubt:
                text = f"skipped by {resolved.by}: it may or may not have happened before{suffix}"
                return Observation(text, "failure", refused="denied")
            return Observation(f"denied by {resolved.by}{suffix}", "failure", refused="denied")


def _preview(action: Action, tool: Tool | None) -> str:
    """What would happen, for a person to read."""
    if tool is not None and tool.preview is not None:
        with suppress(Exception):  # a bad preview must not stop the question
            return _cut(tool.preview(action.parameters))
    pairs = ", ".join(f"{name}={value!r}" for name, value in action.parameters.items())
    return _cut(f"{action.tool}({pairs})")


def _cut(text: str) -> str:
    return text if len(text) <= PREVIEW else f"{text[:PREVIEW]} [… cut]"


def approve_all(request: Approval) -> bool:
    """Approve every action; questions are left to a person. Only for runs that cannot do harm."""
    if request.question:
        raise Park("awaiting_input" if request.wants_text else "awaiting_approval")
    return True


async def at_terminal(request: Approval) -> Decision:
    """Ask the person at the terminal."""
    answer = await WORKERS.run(_ask, request)
    if answer is None:
        raise Park("awaiting_input" if request.wants_text else "awaiting_approval")
    if request.wants_text:
        return Decision("allow", answer=answer)
    return Decision("allow" if answer.lower() in ("y", "yes") else "deny")


def _ask(request: Approval) -> str | None:
    """The line that the person typed, None at the end of the input."""
    if request.wants_text:
        sys.stderr.write(f"\n? {visible(request.question)}\n> ")
    else:
        why = visible(request.question or request.reason)
        sys.stderr.write(
            f"\n! {request.action.tool} needs your word (tier {int(request.tier)}: {why})\n"
            f"  {visible(request.preview)}\n  approve? [y/N] "
        )
    sys.stderr.flush()
    line = sys.stdin.readline()
    return line.strip() if line else None
