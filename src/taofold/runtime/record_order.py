"""The order of a run's records, which does not depend on the agent.

A replay finds each record by its place, so it does not notice a record that stands too early, or
one more decision, start or result of a call. `misplaced` does. Knows nothing about agents.
"""

from collections.abc import Sequence
from typing import Final

from taofold.core import events as e
from taofold.core.call_ids import places_around
from taofold.core.state import live
from taofold.core.values import Verdict
from taofold.runtime.endings import STATUS


class _Call:
    """The records of one call so far."""

    def __init__(self) -> None:
        self.verdict: Verdict | None = None
        """The last decision; "ask" while a question is open."""
        self.ruled = 0
        """Number of activations before the last decision."""
        self.unused = False
        """True if an answer came after the last start, so that a void may revoke it."""
        self.asks = False
        """True if the tool asks: it starts again with the answer, and once the answer is read."""
        self.starts = 0
        self.woken = 0
        """Number of activations before the last start."""
        self.observed = False

    def may_be_ruled(self, event: e.Decided) -> bool:
        """Returns whether another decision may follow in the same activation."""
        # After a void the call is ruled on again, and a started tool may ask.
        return self.verdict in (None, "void") or (event.verdict == "ask" and self.starts > 0)


_BEFORE_REPLY: Final = (e.Violated, e.Compacted, e.Cut, e.AskFailed, e.Noted)


class _Past:
    """The live records so far."""

    def __init__(self) -> None:
        self.calls: dict[tuple[str, int], _Call] = {}
        self.proposed: dict[str, int] = {}
        """The number of calls of each step."""
        self.furthest: dict[str, int] = {}
        """The last position of an effect in each branch."""
        self.replied: set[str] = set()
        """The effects with a reply of the model."""
        self.policy = ""
        """The policy of the run; "" after a hand-off, which combines those of both agents."""
        self.imported = 0
        """The number of imported records."""
        self.activations = 0
        self.ended = False

    def fault(self, record: e.Record) -> str:
        """Adds the record. Returns why it cannot stand here, or ""."""
        event = record.event
        if isinstance(event, e.Resolved) and event.imported and record.seq >= self.imported:
            return "the run was not imported with it"
        if isinstance(event, e.Resumed | e.Rewound):
            self.activations, self.ended = self.activations + 1, False
        if self.ended and (event.derived or isinstance(event, e.RunFinished)):
            return "the run had ended"
        match event:
            case e.RunFinished():
                self.ended = True
                return _unsound(event)
            case e.RunStarted(policy=policy, imported=origin):
                self.policy, self.imported = policy, 0 if origin is None else origin.events
            case _:
                pass
        if not event.derived or isinstance(event, e.Steered):
            return ""
        places = [(branch, at) for _, branch, at in places_around(_key(event))]
        if any([self.furthest.get(branch, 0) > at for branch, at in places]):
            return "a later effect is recorded before it"
        self.furthest.update(places)
        if isinstance(event, _BEFORE_REPLY) and event.key in self.replied:
            return "the reply of the model is recorded before it"
        match event:
            case e.Replied(key=key):
                self.replied.add(key)
            case e.Proposed(key=key, actions=actions):
                self.proposed[key] = len(actions)
            case e.HandedOff():
                self.policy = ""
            case e.Hooked(key=key, index=index) if (key, index) in self.calls:
                # A changed call is ruled on again.
                self.calls[key, index].verdict = None
            case e.Decided() | e.Started() | e.Observed():
                return self._of_call(event)
            case _:
                pass
        return ""

    def _of_call(self, event: e.Decided | e.Started | e.Observed) -> str:
        if event.index >= self.proposed.get(event.key, 0):
            return "no such call is proposed before it"
        call = self.calls.setdefault((event.key, event.index), _Call())
        if call.observed:
            return "the call had its result"
        match event:
            case e.Resolved(verdict=verdict):
                return _answered(call, verdict)
            case e.Decided():
                return self._ruled(call, event)
            case e.Started():
                return _begun(call, event, self.activations)
            case e.Observed():
                call.observed = True
        return ""

    def _ruled(self, call: _Call, event: e.Decided) -> str:
        # A resumed run rules again on calls that had not begun, perhaps under another policy.
        versions = {event.policy, self.policy} - {""}
        if self.activations == 0 and len(versions) > 1:
            return "the run has another policy"
        if self.activations == call.ruled and not call.may_be_ruled(event):
            return "the call had a decision"
        call.verdict, call.ruled = event.verdict, self.activations
        call.asks = call.asks or call.starts > 0
        return ""


def _unsound(end: e.RunFinished) -> str:
    status = STATUS.get(end.stop_reason, "finished")
    if end.status != status or end.success != (status == "finished" and not end.error):
        return f"the reason {end.stop_reason!r} gives another status or success"
    return ""


def _answered(call: _Call, verdict: Verdict) -> str:
    # A void directly follows the answer that it revokes.
    if call.verdict != "ask" and not (verdict == "void" and call.unused):
        return "no question about the call is open"
    call.verdict, call.unused = verdict, verdict != "void"
    return ""


def _begun(call: _Call, event: e.Started, activations: int) -> str:
    again = event.retry or event.kept is not None or call.asks or activations > call.woken
    if call.starts and not again:
        return "the call had started"
    if not call.starts and call.verdict not in ("allow", "done"):
        return "nothing permits the call before it"
    call.starts, call.woken, call.unused = call.starts + 1, activations, False
    return ""


def misplaced(records: Sequence[e.Record]) -> tuple[e.Record, str] | None:
    """Returns the first record that cannot stand where it does, and the reason; None if all can.

    Records that a rewind revoked are not examined.

    Raises:
        LogError: The key of an event is not a place.
    """
    past = _Past()
    for record in live(records):
        if why := past.fault(record):
            return record, why
    return None


def _key(event: e.Event) -> str:
    return getattr(event, "key", "")
