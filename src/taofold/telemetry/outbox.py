"""A thread that sends what is put into it, so that nobody waits for a back end.

Bounded: what does not fit is dropped and counted, for a run must not grow with a back end
that is away. Knows nothing about what it sends.
"""

import atexit
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from taofold.core.errors import TaofoldError

T = TypeVar("T")

MOST: Final = 10_000
"""Entries that wait to be sent."""
LINGER: Final = 1.0
"""Seconds that entries wait for others to go with."""
GRACE: Final = 1.0
"""Seconds that closing waits for a back end of which nothing was heard yet."""
PATIENCE: Final = 4.0
"""Seconds more for one that took something before."""
_LOGGER: Final = logging.getLogger("taofold.telemetry")


class Outbox(Generic[T]):
    """Collects entries and hands them to `send`, many at a time."""

    def __init__(self, send: Callable[[Sequence[T]], object], *, linger: float = LINGER) -> None:
        self._send, self._linger = send, linger
        self._waiting: list[T] = []
        self._lock = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._ended = threading.Event()
        self._answered = False
        self._sending = 0
        self._told = ""
        self.lost = 0
        """Entries that were dropped or refused."""

    def put(self, entries: Sequence[T]) -> None:
        """Queue entries. Returns at once."""
        with self._lock:
            if self._closed or len(self._waiting) + len(entries) > MOST:
                self.lost += len(entries)
                return
            first = not self._waiting
            self._waiting += entries
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="taofold-traces", daemon=True
                )
                self._thread.start()
                atexit.register(self.close)
            if first:  # else it lingers: to wake it for each would cost more than the sending
                self._lock.notify()

    def close(self) -> None:
        """Send what waits: for a second, or five if the back end is known to answer."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
            self._lock.notify()
        self._ended.set()
        if thread is not None:
            atexit.unregister(self.close)
            thread.join(GRACE)
            if self._answered and thread.is_alive():
                thread.join(PATIENCE)
            if thread.is_alive():
                left = self._sending + len(self._waiting)
                _LOGGER.warning("%d spans were not sent in time", left)
        if self.lost:
            _LOGGER.warning("%d spans could not be sent", self.lost)
            self.lost = 0

    def pause(self, seconds: float) -> None:
        """Wait between two attempts, unless it is closed."""
        self._ended.wait(seconds)

    def _work(self) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._waiting or self._closed)
                self._lock.wait_for(lambda: self._closed, self._linger)
                batch, self._waiting = self._waiting, []
                if not batch:
                    return
            self._sending = len(batch)
            try:
                self._send(batch)
                self._answered = True
            except TaofoldError as error:
                self.lost += len(batch)
                if str(error) != self._told:  # once, however long it is away
                    self._told = str(error)
                    _LOGGER.warning("%s", error)
            except Exception:
                self.lost += len(batch)
                _LOGGER.exception("%d spans could not be told", len(batch))
