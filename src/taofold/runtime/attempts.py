"""Calls that may have happened without anybody seeing it: nothing is repeated unasked (D9).

Either an earlier life started the call and was cut off, or it timed out and may still finish.
What the log says of its effect counts, whatever this code says of the tool.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.provenance import imported
from taofold.core.rules import fingerprint
from taofold.core.state import RunState
from taofold.core.values import Action, Observation, Tier
from taofold.policy import Ruling
from taofold.runtime.approvals import settle
from taofold.runtime.ledger import Ledger
from taofold.runtime.tool_calls import answered_since, call, delegate, effect_id, observed, started
from taofold.tools import Answer, Bound, Outcome, Tool
from taofold.tools.result import outcome_of


@dataclass(frozen=True, slots=True)
class Attempts:
    """The starts of one call, at least one."""

    count: int
    action: Action
    """As a person edited it last."""
    once: bool
    """Was it ever started by code that said it must not be repeated?"""
    answer: Answer | None
    """What the last start had of a person, to a question of the tool itself."""


def taken(ledger: Ledger, key: str, index: int, action: Action) -> Attempts | None:
    """The attempts on record, off the tape; None if the call was never started."""
    if ledger.fresh or ledger.exact or ledger.tape.peek(e.Started, key, index) is None:
        return None
    records = ledger.tape.attempts(key, index)
    for record in records:
        ledger.replayed(record)
    events = [record.event for record in records]
    edited = [
        event.action
        for event in events
        if isinstance(event, e.Decided) and event.action is not None
    ]
    starts = [event for event in events if isinstance(event, e.Started)]
    return Attempts(
        count=len(starts),
        action=edited[-1] if edited else action,
        once=any([isinstance(event, e.StartedOnce) and event.effect == "once" for event in starts]),
        answer=_answer(events),
    )


def _answer(events: Sequence[e.Event]) -> Answer | None:
    """The last answer to what the tool asked in the middle of its call."""
    answer: Answer | None = None
    request: dict[str, object] | None = None
    for event in events:
        if isinstance(event, e.Resolved):
            if request is not None and event.verdict != "void":
                allowed = event.verdict == "allow"
                answer = Answer(event.reason, allowed, request["state"], event.by)
        elif isinstance(event, e.Decided):
            request = event.request
    return answer


AGAIN: Final = "this very call timed out before and may have happened, or may still finish"
BEGUN: Final = "where this run was imported from this very call was begun, and may have happened"


async def doubt(
    ledger: Ledger,
    key: str,
    index: int,
    action: Action,
    tool: Tool,
    bound: Bound,
    attempts: Attempts,
) -> tuple[Action, e.Observed]:
    """A call that was started in an earlier life and never observed: did it happen?

    Returns the action, which a person may have edited, and what was observed of it.
    """
    if tool.agent is not None:
        return action, await delegate(ledger, key, index, action, tool)
    since = await answered_since(ledger, key, index, action, tool)
    if since is None and (tool.effect == "once" or attempts.once):
        verified = await _verify(ledger, key, index, tool) if tool.verify else None
        if verified is not None:
            return action, verified
        if tool.verify is None:
            question = (
                f"{tool.name} was started before an interruption and may already have happened; "
                "its old process may even still finish it"
            )
            settled = await settle(ledger, key, index, action, tool, None, question=question)
            if isinstance(settled, Observation):
                return action, e.Observed(key=key, index=index, observation=settled)
            action, bound = settled, tool.bind(settled.parameters)
    ledger.new(started(key, index, tool))
    answer = since or attempts.answer
    return action, await call(ledger, key, index, action, tool, bound, answer)


async def lost(
    ledger: Ledger, key: str, index: int, action: Action, tool: Tool | None, why: Observation
) -> Observation:
    """The answer to a call that cannot be made: `why`, if no earlier life has started it.

    If one has, nobody may say that it never ran: its tool is gone or takes something else now.
    """
    attempts = taken(ledger, key, index, action)
    if attempts is None:
        return why
    action = attempts.action
    text = (
        f"{action.tool} was started before an interruption and may already have happened; "
        f"it cannot be called again: {why.result}"
    )
    if attempts.once:
        settled = await settle(ledger, key, index, action, tool, None, question=text)
        if isinstance(settled, Observation):
            return settled
    return Observation(text, "failure")


def ruled(
    ledger: Ledger, key: str, index: int, action: Action, tool: Tool, ruling: Ruling
) -> Ruling:
    """`ruling`, or the question to a person that the repetition of such a call needs."""
    if ruling.verdict == "deny" or tool.agent is not None:
        return ruling
    begun = tool.effect != "read" and _begun_elsewhere(ledger.store.state, action)
    if ruling.verdict == "ask":
        return replace(ruling, reason=f"{ruling.reason}; {BEGUN}") if begun else ruling
    if tool.effect != "once" and not begun:
        return ruling
    recorded = ledger.tape.peek(e.Decided, key, index)
    # What was known at the time is on the tape: branches may meet in another order now.
    again = recorded.reason == AGAIN if recorded else _timed_out(ledger.store.state, action)
    if again or begun:
        return Ruling("ask", max(ruling.tier, Tier.CONFIRM), AGAIN if again else BEGUN)
    return ruling


def _begun_elsewhere(state: RunState, action: Action) -> bool:
    """Does the file that the run was imported from say that it had begun this very call?"""
    origin = imported(state.started)
    if origin is None or not origin.claims:
        return False
    identity = fingerprint(action)
    return any(claim.started and claim.fingerprint == identity for claim in origin.claims)


def _timed_out(state: RunState, action: Action) -> bool:
    """Has the same call, whatever its `timeout_s`, timed out in this run?"""
    done = [
        past_action
        for step in state.steps
        for past_action, observation in zip(step.actions, step.observations, strict=True)
        if observation.status == "timeout" and past_action.tool == action.tool
    ]
    done += [
        slot.action
        for step in state.open.values()
        for slot in step.slots
        if slot.observation is not None and slot.observation.status == "timeout"
    ]
    identity = fingerprint(action)
    return any([fingerprint(past_action) == identity for past_action in done])


async def _verify(ledger: Ledger, key: str, index: int, tool: Tool) -> e.Observed | None:
    """What `verify` says of the interrupted call; None if it did not happen."""
    assert tool.verify is not None
    verified: Any = tool.verify(effect_id(ledger.store.run, key, index))
    if inspect.isawaitable(verified):
        verified = await verified
    if verified is False or verified is None:
        return None
    outcome = (
        Outcome("verified: it had already happened") if verified is True else outcome_of(verified)
    )
    return observed(ledger, key, index, tool, outcome, 0.0)
