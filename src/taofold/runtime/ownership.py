"""Who drives a run or a loop: the owner's name in the log, and the lease that says it is alive.

An owner is a process. Whether it certainly is gone can be known in the same boot and pid namespace;
about everybody else only the lease speaks. Only a worker that taofold itself spawned may be killed
to take its run over (pid and start time match as well); anybody else's open `once` calls go to
`verify` or a person.

`Heartbeat`, one thread of each process, renews the leases of everything that is driven here, some
times in each lease, so a tool that holds up the event loop costs nobody his run. A process that is
killed or frozen renews nothing; when its leases are over others go on. Knows nothing about what is
driven, only names in a store.
"""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Condition, Thread
from typing import Final, Protocol

from taofold.core.errors import Conflict, LogError
from taofold.log.log import RunRow

SPAWNED = "TAOFOLD_SPAWNED"
"""Environment variable that a spawner sets for its workers."""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _start_time(pid: int) -> str:
    """The start time of a process in clock ticks since boot, "" if it is gone or a zombie."""
    # From the last ")": the name of a program may hold spaces and brackets itself. Of what follows,
    # field 0 is the state and 19 the start time (`man 5 proc_pid_stat`).
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return "" if len(fields) < 20 or fields[0] in ("Z", "X") else fields[19]


@cache
def _here() -> str:
    boot = _read("/proc/sys/kernel/random/boot_id") or "unknown"
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = "-"
    return f"{boot}/{namespace}"


def me() -> str:
    """This process as an owner: the same for everything that it drives."""
    return _process(os.getpid())


@cache
def _process(pid: int) -> str:
    spawned = "spawned" if os.environ.get(SPAWNED) else "own"
    # The random part tells two processes apart where /proc is missing (macOS),
    # and after a pid wrapped.
    return "|".join((_here(), str(pid), _start_time(pid), spawned, os.urandom(4).hex()))


def alive(owner: str) -> bool | None:
    """Is the owner's process there? None if that cannot be known from here."""
    here, _, rest = owner.partition("|")
    parts = rest.split("|")
    if len(parts) != 4 or here != _here():
        return None
    pid, started = int(parts[0]), parts[1]
    # Without /proc nothing is certain: then only the lease speaks.
    if not started:
        return None
    # A pid alone may belong to another process by now; pid and start time together do not.
    return _start_time(pid) == started


def mine(owner: str) -> bool:
    """Is the owner this very process?"""
    return owner == me()


def gone(owner: str) -> bool:
    """Is the owner's process certainly gone? Nobody at all is gone too."""
    return not owner or alive(owner) is False


def driven(row: RunRow) -> bool:
    """Does a process drive the run? It says so by its lease, unless it certainly is gone."""
    return row.held and not gone(row.owner)


def described(owner: str) -> str:
    """The owner as a person knows it."""
    if mine(owner):
        return "this process"
    parts = owner.split("|")
    if len(parts) != 5:
        return f"{owner!r}" if owner else "nobody"
    where = "this machine" if parts[0] == _here() else "another machine, container or boot"
    return f"process {parts[1]} of {where}"


def kill(owner: str, patience: float = 5.0) -> bool:
    """Kill the owner if taofold spawned it. True if it is certainly gone."""
    if alive(owner) is False:
        return True
    parts = owner.split("|")
    if alive(owner) is None or parts[3] != "spawned" or mine(owner):
        return False
    os.kill(int(parts[1]), signal.SIGKILL)
    end = time.monotonic() + patience
    # SIGKILL is not done when `kill` returns: a process in a system call dies a little later.
    while alive(owner) and time.monotonic() < end:
        time.sleep(0.01)
    return not alive(owner)


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


@dataclass(slots=True, eq=False)
class _Drive:
    """One activation of `name`, from its claim until its lease is let go."""

    store: Leased
    name: str
    loop: asyncio.AbstractEventLoop | None
    """Where it goes on; None: in a thread."""
    released: bool = False
    """It renews its lease no more; nobody else of this process begins before it is over."""

    @property
    def lost(self) -> bool:
        """Was its event loop closed under it? It never goes on, whoever still holds its task."""
        return self.loop is not None and self.loop.is_closed()


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
        self._driven: dict[tuple[str, str], _Drive] = {}
        self._changed = Condition()
        self._renewing: set[str] = set()
        """The identities of the stores whose leases are being renewed now."""
        self._thread: Thread | None = None

    def forked(self) -> None:
        """A child process drives nothing of what its parent does, and has no thread."""
        # New objects: the parent's lock may have been held by another thread at the fork.
        self._start()

    def drives(self, store: Leased, name: str) -> bool:
        """Does this process drive `name` now, by whatever object of the same store?"""
        drive = self._driven.get((store.identity, name))
        return drive is not None and not drive.lost

    @contextmanager
    def driving(self, store: Leased, name: str) -> Generator[None]:
        """Renew the lease of `name` for as long as the block lasts, or until it is released.

        Raises:
            Conflict: this process drives it already.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        key, drive = (store.identity, name), _Drive(store, name, loop)
        with self._changed:
            if key in self._driven and not self._driven[key].lost:
                raise Conflict(f"{name!r} is being driven by this process already")
            self._driven[key] = drive
            if self._thread is None:
                # Must not keep a process alive that has nothing else to do.
                self._thread = Thread(target=self._beat, name="taofold-heartbeat", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                # Another one where this was lost, none in a child process.
                if self._driven.get(key) is drive:
                    del self._driven[key]

    def release(self, store: Leased, name: str) -> None:
        """Renew the lease of `name` no more, and end it: nobody has to wait for it. Blocks.

        A sign of life that is under way is over first, or it would begin the lease anew.
        """
        identity = store.identity
        with self._changed:
            if (drive := self._driven.get((identity, name))) is not None:
                drive.released = True
            # Of this store only: another that hangs must not hold up its neighbours.
            self._changed.wait_for(lambda: identity not in self._renewing)
        with suppress(LogError):
            store.renew(me(), [name], 0)

    def _beat(self) -> None:
        changed = self._changed
        while True:
            with changed:
                # A loop around wait(): it may wake up without a reason.
                while not self._driven:
                    changed.wait()
            # Outside of the lock, and before the first renewal: a claim has just begun its lease.
            time.sleep(self._beat_s)
            # A thread for each beat: a store that hangs holds up its own leases only, and the
            # neighbours of it that this beat did not come to are renewed by the next.
            try:
                Thread(target=self._renew, name="taofold-leases", daemon=True).start()
            except RuntimeError:  # there are too many threads, or the process ends
                self._renew()

    def _begin_renewal(self, identity: str, drives: Sequence[_Drive]) -> list[_Drive]:
        """Those whose leases are to be renewed now; none while an earlier beat is still at it."""
        with self._changed:
            if identity in self._renewing:
                return []
            # Looked at now: what was released while others were renewed stays released.
            current = self._driven.get
            driven = [drive for drive in drives if current((identity, drive.name)) is drive]
            driven = [drive for drive in driven if not (drive.released or drive.lost)]
            if driven:
                self._renewing.add(identity)
            return driven

    def _renew(self) -> None:
        with self._changed:
            stores: dict[tuple[str, int], list[_Drive]] = {}
            for (identity, _), drive in self._driven.items():
                stores.setdefault((identity, id(drive.store)), []).append(drive)
        for (identity, _), drives in stores.items():
            driven = self._begin_renewal(identity, drives)
            if not driven:
                continue
            # Not under the lock: a slow store must not hold up who begins to drive.
            try:
                driven[0].store.renew(me(), [drive.name for drive in driven], self._lease_ms)
            except LogError as error:
                _logger.warning("leases could not be renewed, trying again: %s", error)
            except Exception:
                _logger.exception("leases could not be renewed, trying again")
            finally:
                with self._changed:
                    self._renewing.discard(identity)
                    self._changed.notify_all()


HEART: Final = Heartbeat()
"""This process's."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=HEART.forked)
