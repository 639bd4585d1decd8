"""Machines: a nursery forks them, each the first process of its own namespaces.

`run.py` loads the program once. Nurseries, machines and their processes are forks of it. A boot or
a command costs milliseconds, and faults hit processes at work, not processes that load modules.
Killing a machine's first process kills the machine: the kernel ends every process in its pid
namespace, as a power cut does. All processes read the real clock plus an offset in a file, which
the harness sets.
"""

import mmap
import os
import struct
import time
from pathlib import Path

_offset: mmap.mmap | bytes = bytes(8)
_real = time.time_ns


def _bent() -> int:
    moved: int = struct.unpack("q", _offset[:8])[0]
    return _real() + moved


time.time_ns = _bent
time.time = lambda: _bent() / 1e9


def bend_clock(path: Path) -> None:
    """Replaces the time of day by the real time plus the file's offset in nanoseconds."""
    global _offset
    with path.open("rb") as file:
        _offset = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)


import asyncio  # noqa: E402 - whoever imports the time gets the bent one
import ctypes  # noqa: E402
import importlib  # noqa: E402
import json  # noqa: E402
import pkgutil  # noqa: E402
import random  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402
import traceback  # noqa: E402
from contextlib import suppress  # noqa: E402
from typing import Any  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))

import world  # noqa: E402

import taofold  # noqa: E402
from taofold.cli import main as command_line  # noqa: E402
from taofold.runtime import ownership  # noqa: E402

NAMESPACES = 0x00020000 | 0x04000000 | 0x20000000
"""Mounts, host name, process ids (`CLONE_NEWNS`, `CLONE_NEWUTS`, `CLONE_NEWPID`)."""
MOUNTS = 0x00020000
PRIVATE, BIND = 0x40000 | 0x4000, 0x1000
"""Flags of mount(2): `MS_PRIVATE | MS_REC`, `MS_BIND`."""
DIE_WITH_PARENT = 1
LOADED = ("cli", "files", "server", "loop", "tools", "runtime", "engine", "log")
"""Packages of which every module is loaded before the first fork."""


def load() -> None:
    """Load what any process of a machine may need."""
    for package in LOADED:
        name = f"{taofold.__name__}.{package}"
        for found in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
            if "__main__" not in found.name and ".runners." not in found.name:
                with suppress(ImportError):  # it needs an extra that is not here
                    importlib.import_module(found.name)


def reap(number: int, frame: object) -> None:
    """Reaps machines that are off. Their processor time then counts for this process."""
    ended()


def nurse(control: socket.socket) -> None:
    """Boot a machine for each message, which brings the machine's channel."""
    signal.signal(signal.SIGCHLD, reap)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 65_536, 1)
        if not message:
            return
        if os.fork():
            os.close(descriptors[0])
            continue
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            boot(json.loads(message), control, socket.socket(fileno=descriptors[0]))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)


def boot(order: dict[str, str], control: socket.socket, channel: socket.socket) -> None:
    """Be the hardware of one machine: start its first process, stay until everything is gone.

    The channel ends when nothing of the machine is left.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    libc.unshare(NAMESPACES)
    pid = os.fork()
    if pid:
        control.send(str(pid).encode())
        control.close()
        os.waitpid(pid, 0)
        return
    libc.prctl(DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    control.close()
    os.environ |= {"CHAOS_HOST": order["label"], "CHAOS_BOOT": order["boot"]}
    world.settle_in(order["label"])
    live(channel, settle_in(libc, order["label"], order["boot"]))


def settle_in(libc: Any, name: str, boot: str) -> bool:
    """Becomes a machine with this name and boot. False: no namespaces, only simulated names."""
    ownership._here.cache_clear()
    if os.getpid() == 1:
        socket.sethostname(name)
        libc.mount(b"none", b"/", None, PRIVATE, None)
        mounted = libc.mount(b"proc", b"/proc", b"proc", 0, None)
        identity = b"/proc/sys/kernel/random/boot_id"
        if not mounted and not libc.mount(boot.encode(), identity, None, BIND, None):
            return True
    here = f"{Path(boot).read_text().strip()}/{name}"
    ownership._here = lambda: here
    return False


def fork(order: dict[str, str | list[str]], channel: socket.socket) -> int:
    """Forks a process for the order. Returns its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        channel.close()
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        out = os.open(str(order["out"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for target, source in ((0, nothing), (1, out), (2, out)):
            os.dup2(source, target)
        random.seed()
        os.chdir(str(order["folder"]))
        if order["kind"] == "engine":
            asyncio.run(world.drive(*[Path(one) for one in order["arguments"]]))
        else:
            command_line(list(order["arguments"]))
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError):  # the disk is full
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def ended() -> dict[int, int]:
    """Processes that ended since the last call."""
    found: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if not pid:
            return found
        found[pid] = status


def others() -> dict[int, tuple[int, str]]:
    """Returns the other processes of this machine: ids, with parent and command."""
    found: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir() if os.getpid() == 1 else ():
        if entry.name.isdecimal() and entry.name != "1":
            with suppress(OSError):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if line:  # else it has ended and is not reaped yet
                    found[int(entry.name)] = parent, line.decode(errors="replace")
    return found


def answer(order: dict[str, str | list[str]], channel: socket.socket) -> object:
    match order["do"]:
        case "fork":
            return fork(order, channel)
        case "signal":
            try:
                os.kill(int(str(order["pid"])), int(str(order["number"])))
            except ProcessLookupError:
                return False
            return True
        case "others":
            return others()
        case _:
            return ended()


def live(channel: socket.socket, real: bool) -> None:
    """Do what the harness orders, until it or the machine is gone."""
    lines = channel.makefile("rw", encoding="utf-8")
    lines.write(json.dumps({"real": real}) + "\n")
    lines.flush()
    for line in lines:
        lines.write(json.dumps(answer(json.loads(line), channel)) + "\n")
        lines.flush()
