"""Approvals: an action that needs a person's word before it may run (D10).

An approval is the `Decided(ask)` event in the log; it is bound to the action's digest,
the policy's version and the tool's definition, is used once, and may expire. The word
comes from an `approve` callback in process, or through the inbox from anywhere.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.values import ASK_USER, Action, Observation, Tier
from taofold.policy import Ruling, digest
from taofold.runtime.cleaning import plain
from taofold.runtime.ledger import Ledger
from taofold.runtime.resolving import resolution
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
        asked = ask(ledger, key, index, action, tool, ruling, question)
        resolved = await resolution(ledger, asked, action, tool, question)
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
            said = f": {resolved.reason}" if resolved.reason else ""
            if doubt:
                text = f"skipped by {resolved.by}: it may or may not have happened before{said}"
                return Observation(text, "failure", refused="denied")
            return Observation(f"denied by {resolved.by}{said}", "failure", refused="denied")


def _preview(action: Action, tool: Tool | None) -> str:
    """What would happen, for a person to read."""
    if tool is not None and tool.preview is not None:
        with suppress(Exception):  # a bad preview must not stop the question
            return _cut(tool.preview(action.parameters))
    said = ", ".join(f"{name}={value!r}" for name, value in action.parameters.items())
    return _cut(f"{action.tool}({said})")


def _cut(text: str) -> str:
    return text if len(text) <= PREVIEW else f"{text[:PREVIEW]} [… cut]"
