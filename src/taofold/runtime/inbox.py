"""The inbox of a running drive: steering, answers, decisions and cancellation.

Messages are read from the log, turned into events at the place where they take
effect, and consumed in the transaction that writes those events.
"""

from typing import TYPE_CHECKING

from taofold.core import events as e
from taofold.store.log import Log, Signal
from taofold.store.store import Store

if TYPE_CHECKING:
    from taofold.runtime.drive import Drive


class Inbox:
    """What people sent to one run."""

    def __init__(self, log: Log | None, run: str) -> None:
        self._log, self._run = log, run
        self._waiting: dict[str, Signal] = {}
        self._taken: set[str] = set()

    async def refresh(self, store: Store | None = None) -> None:
        """Look for new messages. Refused attempts go straight into the log of `store`."""
        if self._log is None:
            return
        for signal in await self._log.inbox(self._run):
            if signal.id in self._taken:
                continue
            if signal.kind == "refused" and store is not None:
                why, one = str(signal.data.get("why")), str(signal.data.get("id"))
                store.dispatch(e.DecisionRefused(id=one, by=signal.by, why=why, at=signal.at))
                self.take(signal)
            else:
                self._waiting[signal.id] = signal

    def cancelled(self) -> str:
        """Who cancelled the run, or ""."""
        for signal in self._waiting.values():
            if signal.kind == "cancel":
                return signal.by or "somebody"
        return ""

    def find(self, kind: str, seq: int) -> Signal | None:
        """The message of `kind` that answers the event `seq`."""
        for signal in self._waiting.values():
            if signal.kind == kind and signal.data.get("seq") == seq:
                return signal
        return None

    def take(self, signal: Signal) -> None:
        """Mark `signal` as turned into an event; consumed with the next flush."""
        self._waiting.pop(signal.id, None)
        self._taken.add(signal.id)

    def consumed(self) -> tuple[str, ...]:
        """Ids to take out of the log's inbox."""
        return tuple(self._taken)

    async def steering(self, drive: "Drive", key: str) -> list[e.Steered]:
        """The messages to be read at `key`: recorded ones, or what has arrived since."""
        heard: list[e.Steered] = []
        while (record := drive.tape.take(e.Steered, key)) is not None:
            drive.replayed(record)
            if isinstance(record.event, e.Steered):
                heard.append(record.event)
        if drive.exact or drive.tape:
            return heard
        await self.refresh(drive.store)
        for signal in [s for s in self._waiting.values() if s.kind == "steer"]:
            text = drive.setup.redactor.text(str(signal.data.get("text", "")))
            event = e.Steered(key=key, id=signal.id, text=text, by=signal.by)
            drive.put(event)
            heard.append(event)
            self.take(signal)
        return heard
