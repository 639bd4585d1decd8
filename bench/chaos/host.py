"""A machine: the first process of its own namespaces, which forks others on request.

It is started by `run.py` with a socket as standard input. Whoever kills it kills the machine: the
kernel ends everything in its pid namespace at once, as a power cut does. The clock that all
processes of it read is the real one and an offset in a file, which the harness moves.
"""

import mmap
import os
import struct
import time


def bend_clock(path: str) -> None:
    """From now on the time of day is the real one and what the file says, in nanoseconds."""
    descriptor = os.open(path, os.O_RDONLY)
    offset, real = mmap.mmap(descriptor, 8, prot=mmap.PROT_READ), time.time_ns

    def bent() -> int:
        moved: int = struct.unpack("q", offset[:8])[0]
        return real() + moved

    time.time_ns = bent
    time.time = lambda: bent() / 1e9


bend_clock(os.environ["CHAOS_CLOCK"])

import asyncio  # noqa: E402 - whoever imports the time gets the bent one
import json  # noqa: E402
import random  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import traceback  # noqa: E402
from pathlib import Path  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))

import world  # noqa: E402

from taofold.cli import main as command_line  # noqa: E402
from taofold.runtime import owner  # noqa: E402


def settle_in(name: str, boot: str) -> bool:
    """Be a machine of this name and boot. False: no namespaces, it is only told to the program."""
    if os.getpid() == 1:
        socket.sethostname(name)
        told = subprocess.run(
            ["mount", "--bind", boot, "/proc/sys/kernel/random/boot_id"], check=False
        )
        if told.returncode == 0:
            return True
    here = f"{Path(boot).read_text().strip()}/{name}"
    owner._here = lambda: here
    return False


def fork(order: dict[str, str | list[str]]) -> int:
    """A process that does what was ordered; its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
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


def answer(order: dict[str, str | list[str]]) -> object:
    match order["do"]:
        case "fork":
            return fork(order)
        case "signal":
            try:
                os.kill(int(str(order["pid"])), int(str(order["number"])))
            except ProcessLookupError:
                return False
            return True
        case _:
            return ended()


def live() -> None:
    channel = socket.socket(fileno=os.dup(0))
    real = settle_in(os.environ["CHAOS_HOST"], os.environ["CHAOS_BOOT"])
    lines = channel.makefile("rw", encoding="utf-8")
    lines.write(json.dumps({"real": real}) + "\n")
    lines.flush()
    for line in lines:
        lines.write(json.dumps(answer(json.loads(line))) + "\n")
        lines.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    live()
