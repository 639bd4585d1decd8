"""A hand-off: records which agent continues the run, and exchanges the plan that drives it.

The facts about the next agent are recorded before it is asked. A resumed run and a replay take them
from the record. Knows nothing about `Agent`: `Setup.successors` does.
"""

from typing import Any, Final

from msgspec import structs

from taofold.core import events as e
from taofold.core.effects import HandOff, Strategy
from taofold.core.errors import ReplayDiverged
from taofold.core.state import live
from taofold.core.text import clip, utf8
from taofold.policy.redaction import Redactor
from taofold.runtime.ledger import Ledger

_LONGEST_REASON: Final = 2_000
"""Maximum characters of a reason in the event. The call that gives it is recorded in full."""


async def hand_off(ledger: Ledger, key: str, effect: HandOff) -> Strategy[Any]:
    """Makes another agent the active one, and returns its strategy.

    Raises:
        ReplayDiverged: The run cannot be handed over to this agent any more.
    """
    setup, wanted = ledger.setup, f"a hand-off to {effect.agent!r}"
    effect = _as_called(ledger, effect)
    if setup.successors is None:
        raise ReplayDiverged(key, wanted, "no hand-off")
    recorded = ledger.recording.event(e.HandedOff, key)
    if recorded is None:
        ledger.touch(key)
        event = await setup.successors.describe(key, effect, live(ledger.store.records))
    elif recorded.agent != effect.agent:
        raise ReplayDiverged(key, recorded.summary, wanted)
    else:
        # An exact replay compares both agents and the reason, and takes the facts about the next
        # agent as they were.
        reason = recorded_reason(effect, setup.redactor)
        event = structs.replace(recorded.timeless(), before=setup.agent, reason=reason)
    ledger.put(event)
    next_setup, strategy = setup.successors.activate(event, effect, ledger.store.records)
    ledger.change_agent(next_setup)
    return strategy


def _as_called(ledger: Ledger, effect: HandOff) -> HandOff:
    """Returns the hand-off with the reason of the call that ran.

    A hook or an approver may have changed the call of the model.
    """
    # None at the start of a run of a session.
    for step in ledger.store.state.steps[-1:]:
        for action, observation in zip(step.actions, step.observations, strict=True):
            tool = ledger.tools.get(action.tool)
            successor = None if tool is None else tool.successor
            if successor is None or successor.name != effect.agent:
                continue
            if observation.status == "success":
                reason = action.parameters.get("reason")
                return structs.replace(effect, reason=reason if isinstance(reason, str) else "")
    return effect


def recorded_reason(effect: HandOff, redactor: Redactor) -> str:
    """Returns the reason of a hand-off as the log has it: without secrets, and bounded."""
    return redactor.text(clip(utf8(effect.reason), _LONGEST_REASON))
