"""A network for a container that shares none with this machine.

A command with a `Reach` runs in its own network namespace. A helper outside, `pasta` (package
passt) or `slirp4netns`, forwards its packets to other machines as its own connections. It forwards
nothing to this machine's loopback, so services there (databases, browsers, taofold itself) cannot
be reached, except for ports that the reach names. This module does not depend on tools.

A shell line in front of the command, inside the container, blocks until the network exists. Only
then has bubblewrap finished its own work on the namespaces.
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
"""Address of the name server inside. The helper forwards queries to this machine's resolver."""
_WATCHED: Final = """
exec 3<&0 </dev/null
"$@" 3<&- & helper=$!
{ read -r _ <&3; kill "$helper"; } 2>/dev/null &
wait "$helper"
"""
"""Ends the helper when the other end of its standard input is closed."""
_HELD: Final = 'printf . >"$1"; read -r _ <"$2"; shift 2; exec "$@"'
_NS_GET_USERNS: Final = 0xB701
"""ioctl_ns(2)."""
_START_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.005
_PORTS: Final = range(1, 65536)


@dataclass(frozen=True, slots=True)
class Reach:
    """The network access of a contained command. Empty, and falsy, by default.

    Args:
        world: Allows other machines, through its own network.
        ports: TCP ports of this machine's loopback, reachable at `localhost` under the same number.

    Raises:
        ConfigError: A port is not between 1 and 65535.
    """

    world: bool = False
    ports: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for port in self.ports:
            if port not in _PORTS:
                raise ConfigError(f"{port} is no port: they go from 1 to 65535")

    def __bool__(self) -> bool:
        return self.world or bool(self.ports)

    def why_not(self) -> str:
        """Returns the reason why a container cannot have exactly this access here, or ""."""
        if not self:
            return ""
        if self.ports and _working() not in ("", "pasta"):
            return f"only pasta opens single ports, and {_working()} is what works here"
        return why_not()

    @property
    def label(self) -> str:
        """Short description for previews and results."""
        parts = ["network"] if self.world else []
        parts += [f"localhost:{port}" for port in self.ports]
        return ", ".join(parts) or "no network"


@dataclass(slots=True)
class Helper:
    """A running helper process and the function that ends it."""

    process: subprocess.Popen[bytes]
    close: Callable[[], None]

    def end(self) -> None:
        """Stops the helper. Its connections are cut."""
        self.close()
        self.process.terminate()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def _owner(pid: int) -> Generator[str]:
    """Yields a path to the user namespace that owns the network namespace of `pid`.

    The process itself may already be in a nested one, which has no rights over its network.
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
    """Starts slirp4netns for the network of `pid`, which belongs to the user namespace `owner`.

    The helper ends with this process, also if it is killed.

    Raises:
        OSError: It did not start, or cannot provide what `reach` names.
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
                # Without this option 10.0.2.2 inside leads to this machine's loopback.
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
        # With our copies closed, a helper that dies shows as the end of the pipe.
        os.close(ready_out)
        os.close(exit_in)
    # Closing our end of this pipe ends slirp4netns.
    helper = Helper(process, lambda: os.close(exit_out))
    try:
        if not _readable(_START_SECONDS, ready_in) or not os.read(ready_in, 1):
            helper.end()
            raise OSError("slirp4netns did not come up")
    finally:
        os.close(ready_in)
    return helper


def pasta(program: str, pid: int, owner: str, reach: Reach) -> Helper:
    """Starts pasta for the network of `pid`, which belongs to the user namespace `owner`.

    The helper ends with this process, also if it is killed.

    Raises:
        OSError: It did not start.
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
                    # No port is forwarded into the namespace (-t for TCP, -u for UDP). Out of it,
                    # to this machine's loopback, only the named ones are (-T, -U).
                    "-t",
                    "none",
                    "-u",
                    "none",
                    "-T",
                    ",".join([str(port) for port in reach.ports]) or "none",
                    "-U",
                    "none",
                    # Root needs no other namespace, and pasta would drop the rights to open one.
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
        ):  # written when the network is ready
            if process.poll() is not None or monotonic() > until:
                helper.end()
                raise OSError("pasta did not come up")
            sleep(_POLL_SECONDS)
        return helper


Start: TypeAlias = Callable[[str, int, str, Reach], Helper]
"""`(program, process, path of its user namespace, reach)`."""
HELPERS: Final[Mapping[str, Start]] = {"pasta": pasta, "slirp4netns": slirp4netns}
"""In the order of preference. With pasta this machine's other addresses are unreachable too."""


@dataclass(slots=True)
class Uplink:
    """The network of one container, connected before its command begins.

    bubblewrap gets `options` and must inherit `inherited`. `prefix` goes before the command. Call
    `connect` in a thread, and always call `close` at the end.
    """

    helper: str
    """Name in `HELPERS`."""
    program: str
    """Absolute path of the helper."""
    reach: Reach = Reach(world=True)
    fault: str = ""
    """The reason why the network could not be made. The command was then ended."""
    pid: int = 0
    """The first process in the container, once it is known."""
    _resolver: int = field(init=False)
    _info: tuple[int, int] = field(init=False)
    _ready: tuple[int, int] = field(init=False)
    _go: tuple[int, int] = field(init=False)
    _stop: tuple[int, int] = field(init=False)
    _helper: Helper | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        # In memory: a file would need cleanup after a crash.
        self._resolver = os.memfd_create("resolv.conf")
        os.write(self._resolver, f"nameserver {RESOLVER}\n".encode())
        os.lseek(self._resolver, 0, os.SEEK_SET)
        self._info, self._ready, self._go, self._stop = [os.pipe() for _ in range(4)]

    @property
    def options(self) -> list[str]:
        """Options for bubblewrap."""
        resolver = ["--ro-bind-data", str(self._resolver), "/etc/resolv.conf"]
        return ["--info-fd", str(self._info[1]), *(resolver if self.reach.world else [])]

    @property
    def prefix(self) -> list[str]:
        """Arguments that go before the command."""
        ready, go = f"/dev/fd/{self._ready[1]}", f"/dev/fd/{self._go[0]}"
        return ["/bin/sh", "-c", _HELD, "sh", ready, go]

    @property
    def inherited(self) -> tuple[int, ...]:
        """Descriptors that bubblewrap and the prefix need."""
        return self._info[1], self._resolver, self._ready[1], self._go[0]

    def connect(self) -> None:
        """Waits for the container, sets up its network and starts it. Blocks until `interrupt`.

        If the network cannot be made, the container is killed before its command begins.
        """
        # `ready` comes from inside the container, `stop` from this process.
        if self._stop[0] in _readable(None, self._ready[0], self._stop[0]):
            return
        self.pid = int(json.loads(os.read(self._info[0], 4096))["child-pid"])
        try:
            with _owner(self.pid) as owner:
                self._helper = HELPERS[self.helper](self.program, self.pid, owner, self.reach)
        except OSError as error:
            self.fault = str(error)
            # The command still waits behind the shell line and has done nothing.
            os.kill(self.pid, signal.SIGKILL)
            return
        os.write(self._go[1], b"\n")

    def interrupt(self) -> None:
        """Makes `connect` return if it still waits for the container."""
        os.write(self._stop[1], b"\0")

    def close(self) -> None:
        """Ends the helper and closes all descriptors. `connect` must have returned."""
        if self._helper is not None:
            self._helper.end()
        for descriptor in (self._resolver, *self._info, *self._ready, *self._go, *self._stop):
            os.close(descriptor)


def _readable(seconds: float | None, *descriptors: int) -> set[int]:
    """Returns the readable descriptors, after at most `seconds`. Unlike `select` it has no limit on
    numbers.
    """
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    events = poll.poll(None if seconds is None else seconds * 1000)
    return {descriptor for descriptor, _ in events}


def uplink(outside: Path, reach: Reach) -> Uplink:
    """Returns a new uplink with the helper that works here.

    A program below `outside` is not used, because an agent could have written it.

    Raises:
        ConfigError: No helper works, or none can open what `reach` names.
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
    """Returns the reason why a container cannot have its own network here, or ""."""
    if _working():
        return ""
    present = [name for name in HELPERS if trusted_code.program(name)]
    if present:
        return f"{' and '.join(present)} did not work"
    return f"{' and '.join(HELPERS)} are not installed"


@cache
def _working() -> str:
    """Returns the first helper that works, tested once, or ""."""
    for name in HELPERS:
        program = trusted_code.program(name)
        if program and _tried(Uplink(name, program)):
            return name
    return ""


def _tried(link: Uplink) -> bool:
    """Returns True if a process in a new namespace gets an address from the link."""
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
        # The table of routes has a heading. A second line is a route.
        return not link.fault and output.count(b"\n") > 1
    except OSError:
        return False
    finally:
        link.close()
