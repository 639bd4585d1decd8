"""A network for a container that shares none with this machine.

A command with a `Reach` runs in a network namespace of its own. A helper outside, `pasta`
(package passt) or `slirp4netns`, carries its packets to the world as connections of its own,
and nothing to this machine's loopback: what listens there (databases, browsers, taofold itself)
cannot be reached, but for ports that the reach names. Knows nothing about tools.

The command is held back by a line of shell before it, inside, until the network is there: only
then has bubblewrap done all of its own work on the namespaces.
"""

import fcntl
import json
import os
import select
import signal
import subprocess
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Final, TypeAlias

from taofold import trusted_code
from taofold.core.errors import ConfigError
from taofold.tools.temporary_folders import scratch

INSTALL: Final = "install pasta (package passt) or slirp4netns, or leave the network out"
RESOLVER: Final = "10.0.2.3"
"""Where names are looked up inside; the helper passes it on to what this machine uses."""
_WATCHED: Final = """
exec 3<&0 </dev/null
"$@" 3<&- & helper=$!
{ read -r _ <&3; kill "$helper"; } 2>/dev/null &
wait "$helper"
"""
"""Ends the helper when nobody holds the other end of its standard input any more."""
_HELD: Final = 'printf . >"$1"; read -r _ <"$2"; shift 2; exec "$@"'
_NS_GET_USERNS: Final = 0xB701
"""ioctl_ns(2)."""
_START_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.005
_PORTS: Final = range(1, 65536)


@dataclass(frozen=True, slots=True)
class Reach:
    """What a contained command reaches beyond its container. Nothing by default, and then falsy.

    Raises:
        ConfigError: a port is none, from 1 to 65535.
    """

    world: bool = False
    """Other machines, through a network of its own."""
    ports: tuple[int, ...] = ()
    """TCP ports of this machine's loopback, which it finds at `localhost` with the same number."""

    def __post_init__(self) -> None:
        for port in self.ports:
            if port not in _PORTS:
                raise ConfigError(f"{port} is no port: they go from 1 to 65535")

    def __bool__(self) -> bool:
        return self.world or bool(self.ports)

    def why_not(self) -> str:
        """Why a container cannot have exactly this here; "" if it can."""
        if not self:
            return ""
        if self.ports and _working() not in ("", "pasta"):
            return f"only pasta opens single ports, and {_working()} is what works here"
        return why_not()

    @property
    def label(self) -> str:
        """Its name in previews and results."""
        parts = ["network"] if self.world else []
        parts += [f"localhost:{port}" for port in self.ports]
        return ", ".join(parts) or "no network"


@dataclass(slots=True)
class Helper:
    """A running helper, and what ends it."""

    process: subprocess.Popen[bytes]
    close: Callable[[], None]

    def end(self) -> None:
        """Stop it. What it carried is cut off."""
        self.close()
        self.process.terminate()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def _owner(pid: int) -> Generator[str]:
    """A path to the user namespace that the network namespace of `pid` belongs to.

    The process itself may be in a further one by then, which has no rights over its network.
    """
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        owner = fcntl.ioctl(network, _NS_GET_USERNS)
        try:
            yield f"/proc/{os.getpid()}/fd/{owner}"
        finally:
            os.close(owner)
    finally:
        os.close(network)


def slirp4netns(program: str, pid: int, owner: str, reach: Reach) -> Helper:
    """Start slirp4netns for the network of `pid`, which belongs to the user namespace `owner`.

    It ends when this process does, however that ends.

    Raises:
        OSError: it did not come up, or cannot give what `reach` names.
    """
    if not reach.world or reach.ports:
        raise OSError("slirp4netns opens the world and no single ports")
    ready_in, ready_out = os.pipe()
    exit_in, exit_out = os.pipe()
    try:
        process = subprocess.Popen(
            [
                program,
                "--configure",
                "--mtu=65520",
                # Without it 10.0.2.2 inside leads to this machine's loopback.
                "--disable-host-loopback",
                f"--userns-path={owner}",
                f"--ready-fd={ready_out}",
                f"--exit-fd={exit_in}",
                str(pid),
                "tap0",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(ready_out, exit_in),
        )
    except OSError:
        os.close(exit_out)
        os.close(ready_in)
        raise
    finally:
        # Ours must go: a helper that dies without a word then shows as the end of the pipe.
        os.close(ready_out)
        os.close(exit_in)
    # Closing our end of this pipe is what ends slirp4netns.
    helper = Helper(process, lambda: os.close(exit_out))
    try:
        if not _readable(_START_SECONDS, ready_in) or not os.read(ready_in, 1):
            helper.end()
            raise OSError("slirp4netns did not come up")
    finally:
        os.close(ready_in)
    return helper


def pasta(program: str, pid: int, owner: str, reach: Reach) -> Helper:
    """Start pasta for the network of `pid`, which belongs to the user namespace `owner`.

    It ends when this process does, however that ends.

    Raises:
        OSError: it did not come up.
    """
    exit_in, exit_out = os.pipe()
    with scratch("net") as folder:
        pid_file = folder / "pid"
        try:
            process = subprocess.Popen(
                [
                    "/bin/sh",
                    "-c",
                    _WATCHED,
                    "sh",
                    program,
                    "--foreground",
                    "--quiet",
                    # Without this option the namespace keeps its loopback and has no other address.
                    *(["--config-net"] if reach.world else []),
                    "--no-map-gw",
                    "--dns-forward",
                    RESOLVER,
                    # No port is forwarded into the namespace (-t for TCP, -u for UDP); out of
                    # it, to this machine's loopback, only those that are named (-T, -U).
                    "-t",
                    "none",
                    "-u",
                    "none",
                    "-T",
                    ",".join([str(port) for port in reach.ports]) or "none",
                    "-U",
                    "none",
                    # Root needs no other namespace, and pasta gives up what would let it open one.
                    *(["--runas", "0"] if os.geteuid() == 0 else ["--userns", owner]),
                    "--pid",
                    str(pid_file),
                    str(pid),
                ],
                stdin=exit_in,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            os.close(exit_out)
            raise
        finally:
            os.close(exit_in)
        helper = Helper(process, lambda: os.close(exit_out))
        until = monotonic() + _START_SECONDS
        while not (
            pid_file.exists() and pid_file.stat().st_size
        ):  # written when the network is there
            if process.poll() is not None or monotonic() > until:
                helper.end()
                raise OSError("pasta did not come up")
            sleep(_POLL_SECONDS)
        return helper


Start: TypeAlias = Callable[[str, int, str, Reach], Helper]
"""`(program, process, path of its user namespace, what is reached)`."""
HELPERS: Final[Mapping[str, Start]] = {"pasta": pasta, "slirp4netns": slirp4netns}
"""In the order of preference: inside pasta this machine's other addresses lead nowhere, too."""


@dataclass(slots=True)
class Uplink:
    """The network of one container, connected before its command begins.

    `options` go to bubblewrap, which must inherit `inherited`, and `prefix` stands before the
    command. `connect` in a thread; `close` at the end, whatever happened.
    """

    helper: str
    """The name in `HELPERS`."""
    program: str
    """Its absolute path."""
    reach: Reach = Reach(world=True)
    fault: str = ""
    """Why there is no network, if it could not be made; then the command was ended."""
    pid: int = 0
    """The first process in the container, once it is known."""
    _resolver: int = field(init=False)
    _info: tuple[int, int] = field(init=False)
    _ready: tuple[int, int] = field(init=False)
    _go: tuple[int, int] = field(init=False)
    _stop: tuple[int, int] = field(init=False)
    _helper: Helper | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        # In memory: a file would have to be cleaned up after a crash.
        self._resolver = os.memfd_create("resolv.conf")
        os.write(self._resolver, f"nameserver {RESOLVER}\n".encode())
        os.lseek(self._resolver, 0, os.SEEK_SET)
        self._info, self._ready, self._go, self._stop = [os.pipe() for _ in range(4)]

    @property
    def options(self) -> list[str]:
        """What bubblewrap is told."""
        resolver = ["--ro-bind-data", str(self._resolver), "/etc/resolv.conf"]
        return ["--info-fd", str(self._info[1]), *(resolver if self.reach.world else [])]

    @property
    def prefix(self) -> list[str]:
        """What stands before the command."""
        ready, go = f"/dev/fd/{self._ready[1]}", f"/dev/fd/{self._go[0]}"
        return ["/bin/sh", "-c", _HELD, "sh", ready, go]

    @property
    def inherited(self) -> tuple[int, ...]:
        """The descriptors that bubblewrap and the prefix need."""
        return self._info[1], self._resolver, self._ready[1], self._go[0]

    def connect(self) -> None:
        """Wait for the container, give it its network, let it go. Blocks; `interrupt` ends it.

        Where the network cannot be made the container is killed before its command begins.
        """
        # `ready` comes from inside the container, `stop` from us: whichever is first.
        if self._stop[0] in _readable(None, self._ready[0], self._stop[0]):
            return
        self.pid = int(json.loads(os.read(self._info[0], 4096))["child-pid"])
        try:
            with _owner(self.pid) as owner:
                self._helper = HELPERS[self.helper](self.program, self.pid, owner, self.reach)
        except OSError as error:
            self.fault = str(error)
            # The command waits behind the held line of shell and has done nothing yet.
            os.kill(self.pid, signal.SIGKILL)
            return
        os.write(self._go[1], b"\n")

    def interrupt(self) -> None:
        """Let `connect` return if it still waits for the container."""
        os.write(self._stop[1], b"\0")

    def close(self) -> None:
        """End the helper and let go of everything. `connect` must have returned."""
        if self._helper is not None:
            self._helper.end()
        for descriptor in (self._resolver, *self._info, *self._ready, *self._go, *self._stop):
            os.close(descriptor)


def _readable(seconds: float | None, *descriptors: int) -> set[int]:
    """Which of them can be read, after at most `seconds`. Unlike `select` it knows all numbers."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    events = poll.poll(None if seconds is None else seconds * 1000)
    return {descriptor for descriptor, _ in events}


def uplink(outside: Path, reach: Reach) -> Uplink:
    """A new one, with the helper that works here.

    Its program is not taken from below `outside`, where an agent could have written it.

    Raises:
        ConfigError: there is none, or it cannot open what `reach` names.
    """
    if reason := reach.why_not():
        raise ConfigError(f"no network of its own can be made: {reason}; {INSTALL}")
    helper = _working()
    program = trusted_code.program(helper, outside) if helper else ""
    if not program:
        reason = f"{helper} lies below {outside}, where an agent can write"
        raise ConfigError(f"no network of its own can be made: {reason}; {INSTALL}")
    return Uplink(helper, program, reach)


def why_not() -> str:
    """Why a container cannot have a network of its own here; "" if it can."""
    if _working():
        return ""
    present = [name for name in HELPERS if trusted_code.program(name)]
    if present:
        return f"{' and '.join(present)} did not work"
    return f"{' and '.join(HELPERS)} are not installed"


@cache
def _working() -> str:
    """The first helper that works, found out by using it, once; "" if none does."""
    for name in HELPERS:
        program = trusted_code.program(name)
        if program and _tried(Uplink(name, program)):
            return name
    return ""


def _tried(link: Uplink) -> bool:
    """Does a process in a new namespace get an address from it?"""
    command = [trusted_code.program("bwrap"), "--unshare-all", "--die-with-parent"]
    command += ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--cap-drop", "ALL"]
    command += link.options
    try:
        with subprocess.Popen(
            [*command, "--", *link.prefix, "cat", "/proc/net/route"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=link.inherited,
        ) as process:
            waiting = Thread(target=link.connect)
            waiting.start()
            try:
                output, _ = process.communicate(timeout=_START_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                output = b""
            link.interrupt()
            waiting.join()
        # The table of routes has a heading; a second line is a route.
        return not link.fault and output.count(b"\n") > 1
    except OSError:
        return False
    finally:
        link.close()
