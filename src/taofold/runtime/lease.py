"""Leases: how whoever drives a run or a loop says that it is alive, and what it drives.

One thread of this process renews everything that is driven here, some times in each lease, so a
tool that holds up the event loop costs nobody his run. A process that is killed or frozen
renews nothing; when its leases are over others go on. This module knows nothing about what is
driven, only names in a store.
"""

import logging
import os
import time
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from threading import Condition, Thread
from typing import Final, Protocol

from taofold.core.errors import Conflict, LogError
from taofold.runtime import owner

LEASE_MS: Final = 10_000
"""How long the owner of a run may be silent before somebody else may take it."""
BEAT_S: Final = 2.5
"""Seconds between two signs of life."""
SILENT_S: Final = 2 * BEAT_S
"""A lease must have been seen over for so long, by a clock that nobody sets, before its run is
taken over, unless the log's clock is known to be steady: a clock that jumped ends all leases at
once, and who lives renews his in the meantime, even if one sign of life comes late."""

_logger = logging.getLogger(__name__)


class Leased(Protocol):
    """A store whose entries are driven under a lease: a `Log`, a `Journal`."""

    @property
    def identity(self) -> str:
        """Equal for two objects that are one store."""
        ...

    def renew(self, owner: str, names: Collection[str], lease_ms: int, /) -> set[str]:
        """Make the leases of `names` end in `lease_ms` from now; returns those still owned."""
        ...


class Heartbeat:
    """What this process drives, and the thread that says so.

    >>> from taofold.log.memory import MemoryLog
    >>> beat, log = Heartbeat(), MemoryLog()
    >>> with beat.driving(log, "run-1"):
    ...     beat.drives(log, "run-1")
    True
    """

    def __init__(self, beat_s: float = BEAT_S, lease_ms: int = LEASE_MS) -> None:
        self._beat_s, self._lease_ms = beat_s, lease_ms
        self._start()

    def _start(self) -> None:
        self._driven: dict[tuple[str, str], Leased] = {}
        self._changed = Condition()
        self._thread: Thread | None = None

    def forked(self) -> None:
        """A child process drives nothing of what its parent does, and has no thread."""
        # New objects: the parent's lock may have been held by another thread at the fork.
        self._start()

    def drives(self, store: Leased, name: str) -> bool:
        """Does this process drive `name` now, by whatever object of the same store?"""
        return (store.identity, name) in self._driven

    @contextmanager
    def driving(self, store: Leased, name: str) -> Generator[None]:
        """Renew the lease of `name` for as long as the block lasts.

        Raises:
            Conflict: this process drives it already.
        """
        key = (store.identity, name)
        with self._changed:
            if key in self._driven:
                raise Conflict(f"{name!r} is being driven by this process already")
            self._driven[key] = store
            if self._thread is None:
                # Must not keep a process alive that has nothing else to do.
                self._thread = Thread(target=self._beat, name="taofold-heartbeat", daemon=True)
                self._thread.start()
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._driven.pop(key, None)

    def _beat(self) -> None:
        changed = self._changed
        while True:
            with changed:
                # A loop around wait(): it may wake up without a reason.
                while not self._driven:
                    changed.wait()
            # Outside of the lock, and before the first renewal: a claim has just begun its lease.
            time.sleep(self._beat_s)
            self._renew()

    def _renew(self) -> None:
        # Only the list is made under the lock; a slow store must not hold up who begins to drive.
        with self._changed:
            stores: dict[int, tuple[Leased, list[str]]] = {}
            for (_, name), store in self._driven.items():
                stores.setdefault(id(store), (store, []))[1].append(name)
        for store, names in stores.values():
            try:
                store.renew(owner.me(), names, self._lease_ms)
            except LogError as error:
                _logger.warning("leases could not be renewed, trying again: %s", error)
            except Exception:
                _logger.exception("leases could not be renewed, trying again")


def release(store: Leased, name: str) -> None:
    """End this process's lease of `name` now, so that nobody has to wait for it. Blocks."""
    with suppress(LogError):
        store.renew(owner.me(), [name], 0)


HEART: Final = Heartbeat()
"""This process's."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=HEART.forked)
