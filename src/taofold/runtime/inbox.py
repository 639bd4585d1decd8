"""The inbox of a running drive: steering, answers, decisions and cancellation.

Messages are read from the log, turned into events where they take effect, and consumed in the
transaction that writes those events. Their content was redacted before it was posted (`control`).
It is redacted again here because the run's agent may know further secrets. `environment_redactor`
serves callers without an agent.
"""

import os
from typing import Final

from msgspec.structs import replace

from taofold.core import events as e
from taofold.log.log import Log, Signal
from taofold.log.run_store import Store
from taofold.policy.redaction import Redactor

SHAPE_REDACTOR: Final = Redactor()
"""Finds secrets by their shape only; knows no values of the run."""


def environment_redactor() -> Redactor:
    """Returns a redactor with the shapes of secrets and the environment's values.

    It serves callers that have no agent.
    """
    return Redactor(Redactor.secrets_in(os.environ))


class Inbox:
    """The messages to one run."""

    def __init__(self, log: Log | None, run: str, redactor: Redactor = SHAPE_REDACTOR) -> None:
        self._log, self._run, self._redactor = log, run, redactor
        self._waiting: dict[str, Signal] = {}
        self._taken: set[str] = set()
        self._spent: list[str] = []
        self.stale = True
        """True if the run has waited for the world since the last check."""

    @property
    def news(self) -> bool:
        """True if there may be unread messages."""
        return self.stale or bool(self._waiting)

    async def refresh(self, store: Store | None = None) -> None:
        """Reads new messages. Refused attempts go directly into the log of `store`."""
        if self._log is None:
            return
        # Before the await: a call that waits for the world in the meantime sets it again.
        self.stale = False
        for signal in await self._log.inbox(self._run):
            # Consumed only with the next flush: until then the log still has it.
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
        """Returns the sender of a cancellation, or "". The message is taken: it cancels once."""
        for signal in self._waiting.values():
            if signal.kind == "cancel":
                self.take(signal)
                return signal.by or "somebody"
        return ""

    def find(self, kind: str, seq: int) -> Signal | None:
        """Returns the message of `kind` that answers the event `seq`."""
        for signal in self._waiting.values():
            if signal.kind == kind and signal.data.get("seq") == seq:
                return signal
        return None

    def late(self, pending: frozenset[int]) -> list[Signal]:
        """Returns decisions on questions that are not pending, which would never be read."""
        return [
            signal
            for signal in self._waiting.values()
            if signal.kind in ("decide", "answer") and signal.data.get("seq") not in pending
        ]

    def steers(self) -> list[Signal]:
        """Returns the steering messages."""
        return [signal for signal in self._waiting.values() if signal.kind == "steer"]

    def take(self, signal: Signal) -> None:
        """Marks `signal` as turned into an event; it is consumed with the next flush."""
        self._waiting.pop(signal.id, None)
        self._taken.add(signal.id)
        self._spent.append(signal.id)

    def spend(self) -> tuple[str, ...]:
        """Returns the ids to remove from the log's inbox together with their events."""
        if not self._spent:
            return ()
        spent, self._spent = self._spent, []
        return tuple(spent)
