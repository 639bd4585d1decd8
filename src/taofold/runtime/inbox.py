"""The inbox of a running drive: steering, answers, decisions and cancellation.

Messages are read from the log, turned into events by whoever takes them at the place where they
take effect, and consumed in the transaction that writes those events. What stands in one was
redacted before it was posted (`control`); here it is once more, for the run's agent may know
further secrets than whoever posted it. `environment_redactor` serves where no agent is at hand.
"""

import os
from typing import Final

from msgspec.structs import replace

from taofold.core import events as e
from taofold.log.log import Log, Signal
from taofold.log.run_store import Store
from taofold.policy.redaction import Redactor

SHAPE_REDACTOR: Final = Redactor()
"""Finds secrets by their shape only; knows no values of a run's own."""


def environment_redactor() -> Redactor:
    """Knows the shapes of secrets and the environment's: all there is without the run's agent."""
    return Redactor(Redactor.secrets_in(os.environ))


class Inbox:
    """What people sent to one run."""

    def __init__(self, log: Log | None, run: str, redactor: Redactor = SHAPE_REDACTOR) -> None:
        self._log, self._run, self._redactor = log, run, redactor
        self._waiting: dict[str, Signal] = {}
        self._taken: set[str] = set()
        self._spent: list[str] = []
        self.stale = True
        """Has the world been waited for since the last look?"""

    @property
    def news(self) -> bool:
        """May there be something that nobody has looked at?"""
        return self.stale or bool(self._waiting)

    async def refresh(self, store: Store | None = None) -> None:
        """Look for new messages. Refused attempts go straight into the log of `store`."""
        if self._log is None:
            return
        # Before the await: if the world is waited for meanwhile, whoever did so sets it again.
        self.stale = False
        for signal in await self._log.inbox(self._run):
            # Consumed only with the next flush: until then the log still shows it.
            if signal.id in self._taken:
                continue
            if signal.kind == "refused" and store is not None:
                why, action_id = [
                    self._redactor.text(str(signal.data.get(n))) for n in ("why", "id")
                ]
                by = self._redactor.text(signal.by)
                store.dispatch(e.DecisionRefused(id=action_id, by=by, why=why, at=signal.at))
                self.take(signal)
            else:
                self._waiting[signal.id] = replace(signal, by=self._redactor.text(signal.by))

    def cancelled(self) -> str:
        """Who cancelled the run, or "". The message is taken: it cancels once."""
        for signal in self._waiting.values():
            if signal.kind == "cancel":
                self.take(signal)
                return signal.by or "somebody"
        return ""

    def find(self, kind: str, seq: int) -> Signal | None:
        """The message of `kind` that answers the event `seq`."""
        for signal in self._waiting.values():
            if signal.kind == kind and signal.data.get("seq") == seq:
                return signal
        return None

    def late(self, pending: frozenset[int]) -> list[Signal]:
        """Decisions on what is not pending (any more): nobody will ever ask for them."""
        return [
            signal
            for signal in self._waiting.values()
            if signal.kind in ("decide", "answer") and signal.data.get("seq") not in pending
        ]

    def steers(self) -> list[Signal]:
        """What people want the model to read."""
        return [signal for signal in self._waiting.values() if signal.kind == "steer"]

    def take(self, signal: Signal) -> None:
        """Mark `signal` as turned into an event; consumed with the next flush."""
        self._waiting.pop(signal.id, None)
        self._taken.add(signal.id)
        self._spent.append(signal.id)

    def spend(self) -> tuple[str, ...]:
        """Ids to take out of the log's inbox, with the events that were made of them."""
        if not self._spent:
            return ()
        spent, self._spent = self._spent, []
        return tuple(spent)
