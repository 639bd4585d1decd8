"""What earlier lives of a run did about one call that was never observed.

Everything up to the call's last `Started` is history: it says how the call was made, and
permits nothing any more. Only what was asked and answered after that start is about it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from taofold.core import events as e
from taofold.core.values import Action
from taofold.runtime.ledger import Ledger
from taofold.tools import Answer


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
    edited = [one.action for one in events if isinstance(one, e.Decided) and one.action is not None]
    starts = [one for one in events if isinstance(one, e.Started)]
    return Attempts(
        count=len(starts),
        action=edited[-1] if edited else action,
        once=any([isinstance(one, e.StartedOnce) and one.effect == "once" for one in starts]),
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
