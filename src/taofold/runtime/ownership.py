"""Ownership of a run or a loop: the owner's name in the log, and the lease that shows it is alive.

An owner is a process. In the same boot and pid namespace it can be determined whether it has ended;
elsewhere only the lease shows that. Only a worker that taofold itself spawned may be killed to take
its run over (pid and start time match as well). Open `once` calls of any other owner go to `verify`
or an approver.

`Heartbeat`, one thread of each process, renews the leases of everything that the process drives,
several times per lease. A tool that blocks the event loop therefore costs no run its lease. A
process that is killed or frozen renews nothing; after its leases others continue. Knows only names
in a store.
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
    """Returns a process's start time in clock ticks since boot; "" if it is gone or a zombie."""
    # From the last ")": the name of a program may hold spaces and brackets itself. In the rest,
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
    """Returns the owner name of this process, the same for everything that it drives."""
    return _process(os.getpid())


@cache
def _process(pid: int) -> str:
    spawned = "spawned" if os.environ.get(SPAWNED) else "own"
    # The random part distinguishes processes where /proc is missing (macOS), and after pid reuse.
    return "|".join((_here(), str(pid), _start_time(pid), spawned, os.urandom(4).hex()))


def alive(owner: str) -> bool | None:
    """Returns whether the owner's process exists; None if that cannot be determined here."""
    here, _, rest = owner.partition("|")
    parts = rest.split("|")
    if len(parts) != 4 or here != _here():
        return None
    pid, started = int(parts[0]), parts[1]
    # Without /proc nothing is certain: then only the lease counts.
    if not started:
        return None
    # A pid alone may belong to another process by now; pid and start time together do not.
    return _start_time(pid) == started


def mine(owner: str) -> bool:
    """Returns whether this process is the owner."""
    return owner == me()


def gone(owner: str) -> bool:
    """Returns whether the owner's process has certainly ended. An empty owner has."""
    return not owner or alive(owner) is False


def driven(row: RunRow) -> bool:
    """Returns whether a process drives the run: its lease holds, and it has not certainly ended."""
    return row.held and not gone(row.owner)


def described(owner: str) -> str:
    """Returns a readable description of the owner."""
    if mine(owner):
        return "this process"
    parts = owner.split("|")
    if len(parts) != 5:
        return f"{owner!r}" if owner else "nobody"
    where = "this machine" if parts[0] == _here() else "another machine, container or boot"
    return f"process {parts[1]} of {where}"


def kill(owner: str, patience: float = 5.0) -> bool:
    """Kills the owner if taofold spawned it. Returns True if it has certainly ended."""
    if alive(owner) is False:
        return True
    parts = owner.split("|")
    if alive(owner) is None or parts[3] != "spawned" or mine(owner):
        return False
    os.kill(int(parts[1]), signal.SIGKILL)
    end = time.monotonic() + patience
    # SIGKILL takes effect after `kill` returns: a process in a system call ends a little later.
    while alive(owner) and time.monotonic() < end:
        time.sleep(0.01)
    return not alive(owner)


LEASE_MS: Final = 10_000
"""Milliseconds without renewal after which another process may take the run."""
BEAT_S: Final = 2.5
"""Seconds between two renewals."""
SILENT_S: Final = 2 * BEAT_S
"""Minimum time in seconds for which a lease is observed as expired, by a monotonic clock, before
its run is taken over. It does not apply if the log's clock is known to be steady. A clock that
jumped expires all leases at once; live owners renew theirs in this time, even if one renewal is
late.
"""

_logger = logging.getLogger(__name__)


class Leased(Protocol):
    """A store whose entries are driven under a lease: a `Log`, a `Journal`."""

    @property
    def identity(self) -> str:
        """Equal for two objects that are one store."""
        ...

    def renew(self, owner: str, names: Collection[str], lease_ms: int, /) -> set[str]:
        """Makes the leases of `names` end in `lease_ms` from now; returns those still owned."""
        ...


@dataclass(slots=True, eq=False)
class _Drive:
    """One activation of `name`, from its claim until the end of its lease."""

    store: Leased
    name: str
    loop: asyncio.AbstractEventLoop | None
    """The event loop that drives it; None: in a thread."""
    released: bool = False
    """True if its lease is no longer renewed; this process starts it again after its end."""

    @property
    def lost(self) -> bool:
        """True if its event loop was closed, so that it can never continue."""
        return self.loop is not None and self.loop.is_closed()


class Heartbeat:
    """The names that this process drives, and the thread that renews their leases.

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
        """Resets after a fork: a child process drives nothing yet, and has no thread."""
        # New objects: the parent's lock may have been held by another thread at the fork.
        self._start()

    def drives(self, store: Leased, name: str) -> bool:
        """Returns whether this process drives `name` now, through any object of the same store."""
        drive = self._driven.get((store.identity, name))
        return drive is not None and not drive.lost

    @contextmanager
    def driving(self, store: Leased, name: str) -> Generator[None]:
        """Renews the lease of `name` until the block ends, or until it is released.

        Raises:
            Conflict: This process drives it already.
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
                # A daemon thread, so that it does not keep an otherwise finished process alive.
                self._thread = Thread(target=self._beat, name="taofold-heartbeat", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                # The entry is another one if this drive was lost, and missing in a child process.
                if self._driven.get(key) is drive:
                    del self._driven[key]

    def release(self, store: Leased, name: str) -> None:
        """Stops renewing the lease of `name`, and ends it so that other processes need not wait.
        Blocks.

        A running renewal finishes first, or it would start the lease again.
        """
        identity = store.identity
        with self._changed:
            if (drive := self._driven.get((identity, name))) is not None:
                drive.released = True
            # Of this store only: another that hangs must not delay it.
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
            # Outside the lock, and before the first renewal: a claim has just started its lease.
            time.sleep(self._beat_s)
            # One thread per beat: a store that hangs delays its own leases only. The next beat
            # renews the stores that this one did not reach.
            try:
                Thread(target=self._renew, name="taofold-leases", daemon=True).start()
            except RuntimeError:  # there are too many threads, or the process ends
                self._renew()

    def _begin_renewal(self, identity: str, drives: Sequence[_Drive]) -> list[_Drive]:
        """Returns the leases to renew now; none while an earlier beat still renews them."""
        with self._changed:
            if identity in self._renewing:
                return []
            # Checked now: leases released while others were renewed stay released.
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
            # Not under the lock: a slow store must not delay the start of other drives.
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
"""The heartbeat of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=HEART.forked)
