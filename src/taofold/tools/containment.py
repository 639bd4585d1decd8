"""Confines a command with bubblewrap: one writable directory, no network, no secrets.

Knows nothing about tools; it turns an argument list into a longer one. What it promises:
only the work root (without its protected and hidden names) is writable and lasts; the system is
read-only; the home directory, other projects, `/run`, `/var` and the network do not exist;
when the command ends, all its processes end. It does not limit memory or processor use.
"""

import json
import os
import subprocess
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from taofold import host
from taofold.tools import guard, process
from taofold.tools.worker import WORKERS

_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt")
_ETC: Final = (
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "ssl",
    "ca-certificates",
    "pki",
)
_NETWORK_ETC: Final = ("resolv.conf", "hosts", "nsswitch.conf", "services", "protocols")
HOME: Final = "/tmp/home"
"""The home directory inside the container, where /tmp is its own."""
_NONE: Final = "/dev/null/bwrap"
_PROBE_SECONDS: Final = 10
_END_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Containment:
    """How commands are confined. `readable` are further directories they may read."""

    root: Path
    network: bool = False
    readable: tuple[Path, ...] = ()
    protected: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()

    def wrap(self, command: Sequence[str], folder: Path, more: Sequence[str] = ()) -> list[str]:
        """The arguments that run `command` confined, in `folder`, with `more` options."""
        return [*self._options(), *more, "--chdir", str(folder), "--", *command]

    @asynccontextmanager
    async def around(
        self, command: Sequence[str], folder: Path, also: Sequence[str] = ()
    ) -> AsyncGenerator[tuple[list[str], int]]:
        """What to run in place of `command`, and a descriptor it must inherit.

        `also` are further options of bubblewrap.

        The protected and hidden names are out of its reach. Leave the context when the
        command has ended: what was made in the root for it is removed then.

        Raises:
            OSError: they cannot be kept out of its reach.
        """
        reader, writer = os.pipe()
        try:
            with guard.stubs(self.root, (*self.protected, *self.hidden)) as made:
                try:
                    more = await WORKERS.run(guard.covers, self.root, self.protected, self.hidden)
                    more += [*also, "--info-fd", str(writer)]
                    yield self.wrap(command, folder, more), writer
                finally:
                    made.ended = await _ended(reader)
        finally:
            os.close(reader)
            os.close(writer)

    def _options(self) -> list[str]:
        root = str(self.root)
        # Never one that lies in the root: an agent could have written it. None = it cannot start.
        bwrap = host.program("bwrap", self.root) or _NONE
        options = [bwrap, "--unshare-all", "--die-with-parent", "--new-session"]
        options += ["--cap-drop", "ALL", "--hostname", "contained"]
        options += ["--share-net"] if self.network else []
        for part in _SYSTEM:
            options += _system(Path(part))
        for name in (*_ETC, *(_NETWORK_ETC if self.network else ())):
            options += _shown(f"/etc/{name}")
        options += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--dir", HOME]
        around = [path for path in self.readable if self.root.is_relative_to(path)]
        for path in around:
            options += _shown(str(path))
        options += ["--bind", root, root]
        for path in self.readable:
            # After the root: what lies inside it, such as .venv, must not become writable.
            options += [] if path in around else _shown(str(path))
        return options


async def _ended(reader: int) -> bool:
    """Has all that ran in the container ended? bwrap itself ends a moment earlier."""
    os.set_blocking(reader, False)
    try:
        pid = int(json.loads(os.read(reader, 4096))["child-pid"])
    except BlockingIOError:
        return True  # it did not get so far as to start anything
    return await process.gone(pid, _END_SECONDS)


def _system(path: Path) -> list[str]:
    # On many systems /bin is a link to /usr/bin: keep it one.
    if path.is_symlink():
        return ["--symlink", str(path.readlink()), str(path)]
    return _shown(str(path))


def _shown(path: str) -> list[str]:
    return ["--ro-bind-try", path, path]


def python_homes() -> tuple[Path, ...]:
    """The directories this Python needs, where they are not part of the system."""
    private = Path.home().resolve()
    return tuple(
        [
            home
            for home in host.homes()
            if not home.is_relative_to("/usr") and not private.is_relative_to(home)
        ]
    )


@cache
def why_not() -> str:
    """Why commands cannot be contained here; "" if they can. Found out by doing it, once."""
    if not host.program("bwrap"):
        return "bubblewrap (bwrap) is not installed"
    try:
        wrapped = Containment(Path("/usr")).wrap(["true"], Path("/usr"))
        wrapped[0] = host.program("bwrap")
        done = subprocess.run(
            wrapped, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not work here: {error}"
    if done.returncode:
        return f"bubblewrap does not work here: {done.stderr.strip()[:200]}"
    return ""
