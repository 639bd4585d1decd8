"""The process that drives a run: its name in the log, and whether it certainly is gone.

Certainty needs the same boot and the same pid namespace; about everybody else only the lease
speaks. Only a worker that taofold itself spawned may be killed to take its run over (pid and
start time match as well); anybody else's open `once` calls go to `verify` or a person.
"""

import os
import signal
import time
from functools import cache
from pathlib import Path

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
