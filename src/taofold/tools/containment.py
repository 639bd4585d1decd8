"""Confines a command with bubblewrap: one writable directory, no host network, no secrets.

Provides the extended argument list, the mount points for names that do not exist (`stubs`), and the
resources that must live as long as the command (`Containment.around`). `why_not` tests if
containment works here. This module does not depend on tools.

Guarantees: only the work root is writable and persistent, except for its protected and hidden
names. The system is read-only. The home directory, other projects, `/run`, `/var` and this
machine's network do not exist. All processes of a command end with it. With a `reach` the command
has its own network, if a helper for that is installed. On this machine's loopback it then reaches
only the named ports. Otherwise `shares` is true. Memory and processor use are not limited.

`stubs` keep names such as `.git` out of reach, whether they exist or not. A mount covers what
exists. For other names an empty directory is made while the command runs, because a mount needs a
mount point. Its sticky bit marks it, so that the next command removes a stub that a killed process
left. Each command holds a shared lock on its stubs, because removing one would unmount it in other
containers. Links below the root are not covered, nor entries that a command creates below the root
itself.
"""

import asyncio
import errno
import fcntl
import json
import os
import stat
import subprocess
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, TypeAlias

from taofold import reserved_places, trusted_code
from taofold.core.errors import ConfigError
from taofold.tools import container_network, process, syscall_filter
from taofold.tools.container_network import Reach
from taofold.tools.threads import WORKERS

MOST: Final = 1000
"""Maximum number of names to cover. With more, a command does not start."""
_STUB: Final = 0o1755
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TRIES: Final = 100


class Stubs:
    """The stubs of one command. They are left in place unless `ended` is set."""

    def __init__(self) -> None:
        self.ended = False
        """True once every process of the command has ended."""


@contextmanager
def stubs(root: Path, names: Sequence[str]) -> Generator[Stubs]:
    """Ensures a directory entry for each of `names` in `root` while the context lasts.

    Raises:
        OSError: An entry cannot be made, or is a link, which cannot be a mount point.
    """
    held_stubs = Stubs()
    with ExitStack() as locks:
        for name in names:
            fd = _held(root, root / name)
            if fd >= 0:
                locks.callback(_release, root / name, fd, held_stubs)
        yield held_stubs


def covers(root: Path, protected: Sequence[str], hidden: Sequence[str]) -> list[str]:
    """Returns bubblewrap options that make `protected` read-only and `hidden` empty at any depth.

    Reads the whole tree: blocks. Unreadable directories are emptied too, because a command could
    make them readable.

    Raises:
        OSError: The root cannot be read, or there are more than `MOST` names.
    """
    if not protected and not hidden:
        return []
    # In the order of discovery: a mount over a directory must come before those inside it.
    mounts: list[list[str]] = []
    todo = [(str(root), False)]
    while todo:
        folder, frozen = todo.pop()
        if not os.access(folder, os.R_OK | os.X_OK):
            mounts.append(_emptied(folder))
        else:
            with suppress(FileNotFoundError):  # removed concurrently
                for entry in _entries(folder):
                    cover, inner = _cover(entry, frozen, protected, hidden)
                    mounts += [cover] if cover else []
                    todo += [] if inner is None else [(entry.path, inner)]
        if len(mounts) > MOST:
            raise OSError(errno.E2BIG, f"more than {MOST} names to protect in the work root")
    return [option for cover in mounts for option in cover]


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return list(entries)


def _cover(
    entry: os.DirEntry[str], frozen: bool, protected: Sequence[str], hidden: Sequence[str]
) -> tuple[list[str], bool | None]:
    """Returns options for an entry, and True if its inside is read-only (None: skip its inside)."""
    name, path = entry.name.casefold(), entry.path  # some file systems ignore case
    # A bind mount would follow the link and cover its target, which may be outside.
    if entry.is_symlink():
        return [], None
    directory = entry.is_dir(follow_symlinks=False)
    if name in hidden:
        # Devices do not work inside, so /dev/null can be neither read nor written.
        return (_emptied(path) if directory else ["--ro-bind", "/dev/null", path]), None
    # Everything below a read-only mount is read-only. Hidden names still need a cover.
    if name in protected and not frozen:
        return ["--ro-bind", path, path], True if directory else None
    return [], frozen if directory else None


def _emptied(path: str) -> list[str]:
    return ["--tmpfs", path, "--remount-ro", path]


def _held(root: Path, path: Path) -> int:
    """Returns a locked descriptor of the stub at `path`, or -1 if none is needed."""
    for _ in range(_TRIES):
        try:
            path.mkdir(_STUB)
        except FileExistsError:
            pass
        except OSError as error:
            if _impossible(root, error):
                return -1
            raise
        with suppress(FileNotFoundError):  # removed by another process
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                raise OSError(errno.ELOOP, f"{str(path)!r} is a link and cannot be protected")
            if not _is_stub(status):
                return -1
            fd = os.open(path, _OPEN)
            # Shared among all commands that use the stub, exclusive to remove it (`_release`).
            fcntl.flock(fd, fcntl.LOCK_SH)
            # Between mkdir and the lock another command may have replaced it.
            if _same(path, fd):
                return fd
            os.close(fd)
    raise OSError(errno.EAGAIN, f"{str(path)!r} comes and goes and cannot be protected")


def _impossible(root: Path, error: OSError) -> bool:
    """Returns True if a command cannot make the entry either. An owner could change the mode."""
    foreign = root.stat().st_uid != os.geteuid()
    return error.errno == errno.EROFS or (error.errno == errno.EACCES and foreign)


def _is_stub(found: os.stat_result) -> bool:
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return ours and bool(found.st_mode & stat.S_ISVTX)


def _same(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(fd))
    except FileNotFoundError:
        return False


def _release(path: Path, fd: int, made: Stubs) -> None:
    try:
        with suppress(OSError):  # in use by another command, or filled by another process
            if made.ended:
                # Fails while another command holds its shared lock. The last command removes the
                # stub.
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _same(path, fd):
                    path.rmdir()
    finally:
        os.close(fd)


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
_LOCALHOST: Final = b"127.0.0.1 localhost\n::1 localhost\n"
_NETWORK_ETC: Final = ("resolv.conf", "hosts", "nsswitch.conf", "services", "protocols")
HOME: Final = "/tmp/home"
"""The home directory inside the container, in its own /tmp."""
_NONE: Final = "/dev/null/bwrap"
_PROBE_SECONDS: Final = 60
_END_SECONDS: Final = 30.0
Inside: TypeAlias = tuple[list[str], list[str], tuple[int, ...]]
"""Options for bubblewrap, arguments before the command, descriptors to inherit."""


@dataclass(frozen=True, slots=True)
class Containment:
    """The confinement of commands. `readable` are further directories that they can read."""

    root: Path
    reach: Reach = Reach()
    readable: tuple[Path, ...] = ()
    protected: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    installs: bool = False
    """Allows writes to packages installed in the root, except to those shared with a cache."""

    def wrap(self, command: Sequence[str], folder: Path, more: Sequence[str] = ()) -> list[str]:
        """Returns the arguments that run `command` confined, in `folder`, with `more` options."""
        return [*self._options(), *more, "--chdir", str(folder), "--", *command]

    @asynccontextmanager
    async def around(
        self, command: Sequence[str], folder: Path, also: Sequence[str] = ()
    ) -> AsyncGenerator[tuple[list[str], tuple[int, ...]]]:
        """Yields the arguments to run in place of `command`, and the descriptors to inherit.

        Protected and hidden names are out of the command's reach. Leave the context when the
        command has ended. It then removes what was made in the root for the command.

        Args:
            command: The program and its arguments.
            folder: Its working directory.
            also: Further options for bubblewrap.

        Raises:
            OSError: The names cannot be kept out of reach. On exit: the command was killed before
                it began, because its network could not be made.
        """
        with stubs(self.root, (*self.protected, *self.hidden)) as held_stubs:
            more = await WORKERS.run(covers, self.root, self.protected, self.hidden)
            around = self._connected if self.reach and not self.shares else _alone
            async with around(held_stubs) as (options, prefix, inherited):
                with _data(self.reach.world) as (data, given):
                    options = [*more, *also, *options, *data]
                    yield self.wrap([*prefix, *command], folder, options), (*inherited, *given)

    @property
    def shares(self) -> bool:
        """True if the command shares this machine's network, loopback services included."""
        return self.reach.world and bool(container_network.why_not())

    @asynccontextmanager
    async def _connected(self, made: Stubs) -> AsyncGenerator[Inside]:
        """Provides a separate network while the context lasts."""
        link = container_network.uplink(self.root, self.reach)
        connecting = asyncio.ensure_future(WORKERS.run(link.connect))
        try:
            yield link.options, link.prefix, link.inherited
        finally:
            link.interrupt()
            # Awaited also on cancellation: the thread must not use descriptors that are closed
            # below.
            await asyncio.shield(asyncio.wait([connecting]))
            made.ended = not link.pid or await process.has_ended(link.pid, _END_SECONDS)
            link.close()
            connecting.result()
        if link.fault:
            raise OSError(f"its network could not be made ({link.fault})")

    def _options(self) -> list[str]:
        root = str(self.root)
        # Never a program in the root, because an agent could have written it. None cannot start.
        bwrap = trusted_code.program("bwrap", self.root) or _NONE
        options = [bwrap, "--unshare-all", "--die-with-parent", "--new-session"]
        options += ["--cap-drop", "ALL", "--hostname", "contained"]
        options += ["--share-net"] if self.shares else []
        for part in _SYSTEM:
            options += _system(Path(part))
        for name in (*_ETC, *(_NETWORK_ETC if self.reach.world else ())):
            options += _visible_path(f"/etc/{name}")
        options += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--dir", HOME]
        around = [path for path in self.readable if self.root.is_relative_to(path)]
        for path in around:
            options += _visible_path(str(path))
        options += ["--bind", root, root]
        for path in packages(self.root):
            if not self.installs or _is_shared(path):
                options += _visible_path(str(path))
        for path in self.readable:
            # Mounted after the root, so that directories inside it, such as .venv, stay read-only.
            options += [] if path in around else [*_visible_path(str(path)), *unneeded(path)]
        for folder in (self.root, *self.readable):
            options += _reserved(folder, self.hidden if folder == self.root else ())
        return options


@contextmanager
def _data(network: bool) -> Generator[tuple[list[str], tuple[int, ...]]]:
    """Yields options and the descriptors from which bubblewrap reads their data.

    The data are the filter for system calls and, without a network, the address of `localhost`.
    """
    with ExitStack() as opened:
        options: list[str] = []
        descriptors: list[int] = []
        hosts = b"" if network else _LOCALHOST
        for option, content, place in (
            ("--seccomp", syscall_filter.program(), []),
            ("--ro-bind-data", hosts, ["/etc/hosts"]),
        ):
            if content:
                fd = os.memfd_create("taofold", os.MFD_CLOEXEC)
                opened.callback(os.close, fd)
                os.write(fd, content)
                os.lseek(fd, 0, os.SEEK_SET)
                options += [option, str(fd), *place]
                descriptors.append(fd)
        yield options, tuple(descriptors)


@asynccontextmanager
async def _alone(made: Stubs) -> AsyncGenerator[Inside]:
    """Records at exit whether all processes have ended."""
    reader, writer = os.pipe()
    try:
        yield ["--info-fd", str(writer)], [], (writer,)
    finally:
        try:
            made.ended = await _ended(reader)
        finally:
            os.close(reader)
            os.close(writer)


async def _ended(reader: int) -> bool:
    """Returns True if all processes in the container have ended. bwrap itself ends earlier."""
    # If the container never began, nothing was written here.
    os.set_blocking(reader, False)
    try:
        pid = int(json.loads(os.read(reader, 4096))["child-pid"])
    except BlockingIOError:
        return True  # it never started anything
    return await process.has_ended(pid, _END_SECONDS)


def _reserved(place: Path, hidden: tuple[str, ...]) -> list[str]:
    """Returns options that empty each reserved place below `place`, unless `hidden` covers it.

    Places that do not exist are made, because a mount needs a mount point and the command could
    create them: a journal that SQLite trusts, or a policy.
    """
    options: list[str] = []
    for folder in reserved_places.folders(place):
        if not _is_hidden(folder, place, hidden):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            options += ["--tmpfs", str(folder), "--remount-ro", str(folder)]
    for file in reserved_places.files(place):
        if file.parent.is_dir() and not _is_hidden(file, place, hidden):
            file.touch(0o600)
            options += ["--ro-bind", "/dev/null", str(file)]
    return options


def _is_hidden(path: Path, root: Path, hidden: tuple[str, ...]) -> bool:
    return not {part.casefold() for part in path.relative_to(root).parts}.isdisjoint(hidden)


def _system(path: Path) -> list[str]:
    # On many systems /bin is a link to /usr/bin. It stays a link.
    if path.is_symlink():
        return ["--symlink", str(path.readlink()), str(path)]
    return _visible_path(str(path))


def _visible_path(path: str) -> list[str]:
    return ["--ro-bind-try", path, path]


def python_homes() -> tuple[Path, ...]:
    """Returns the directories that this Python needs outside the system directories."""
    private = Path.home().resolve()
    return tuple(
        [
            home
            for home in trusted_code.homes()
            if not home.is_relative_to("/usr") and not private.is_relative_to(home)
        ]
    )


def linked_environment(link: Path, root: Path) -> Path | None:
    """Returns the package folder outside `root` that `link` leads to, or None.

    Accepts environments (`.venv`) and `node_modules`, but no folder that encloses the root or the
    home. A process in `root` could create such a link, but not its target. The target shows only a
    program and its read-only libraries. A project that is itself an environment shows more and is
    refused.
    """
    if not link.is_symlink():
        return None
    target, private = Path(os.path.realpath(link)), Path.home().resolve()
    installed = _is_environment(target) or (
        target.is_dir() and target.name == link.name == "node_modules"
    )
    encloses = root.is_relative_to(target) or private.is_relative_to(target)
    return target if installed and not encloses and not target.is_relative_to(root) else None


_ENVIRONMENT: Final = frozenset(
    {"bin", "etc", "include", "lib", "lib64", "man", "share"}
    | {"pyvenv.cfg", ".gitignore", ".lock", ".project", "CACHEDIR.TAG"}
)
"""Entries that tools create in an environment."""


def _is_environment(folder: Path) -> bool:
    """Returns True if the folder holds only a Python environment and empty marker files."""
    return (folder / "pyvenv.cfg").is_file() and all(
        [
            entry.name in _ENVIRONMENT or (entry.is_file() and not entry.stat().st_size)
            for entry in _entries(str(folder))
        ]
    )


def unneeded(environment: Path, shown_at: Path | None = None) -> list[str]:
    """Returns options that empty an environment's settings (`etc`), which no interpreter needs.

    Args:
        environment: A mounted folder. Ignored if it is not an environment.
        shown_at: Its mount point, if that differs from its path.
    """
    if not ((environment / "pyvenv.cfg").is_file() and (environment / "etc").is_dir()):
        return []
    return _emptied(str((shown_at or environment) / "etc"))


def installed_outside(root: Path) -> tuple[Path, ...]:
    """Returns the package folders outside `root` that programs in it use, for `readable`.

    These are environments that links in `root` lead to, and Node's folders above `root`.
    """
    linked = [linked_environment(Path(entry.path), root) for entry in _entries(str(root))]
    homes = {home for target in linked if target for home in environment_homes(target)}
    homes.update(node_modules_above(root))
    return tuple(sorted([home for home in homes if not root.is_relative_to(home)]))


_DEPTH: Final = 5
"""Maximum depth of packages below an environment. pnpm's are the deepest."""


def packages(root: Path) -> tuple[Path, ...]:
    """Returns the package folders directly in `root`: environments and `node_modules`."""
    return tuple(
        [
            Path(entry.path)
            for entry in _entries(str(root))
            if entry.is_dir(follow_symlinks=False)
            and (entry.name == "node_modules" or (Path(entry.path) / "pyvenv.cfg").is_file())
        ]
    )


def _is_shared(folder: Path) -> bool:
    """Returns True if the files of installed packages are hard links into a package cache.

    uv and pnpm install with hard links. Writing to such a file changes the cache and every other
    environment made from it.
    """
    places = [folder, *folder.glob("lib/*/site-packages")]
    return _has_shared(str(folder), tuple([place.stat().st_mtime_ns for place in places]))


@lru_cache(maxsize=64)
def _has_shared(folder: str, changed: tuple[int, ...], depth: int = _DEPTH) -> bool:
    """Returns True if a folder's first file is a hard link. A package has all hard links or none.

    `changed` holds the times of the last changes of packages, as a key of the cache.
    """
    inner: list[str] = []
    looked = False
    for entry in _entries(folder):
        if entry.is_dir(follow_symlinks=False):
            inner.append(entry.path)
        elif not looked and entry.is_file(follow_symlinks=False):
            looked = True
            if entry.stat(follow_symlinks=False).st_nlink > 1:
                return True
    return depth > 0 and any([_has_shared.__wrapped__(path, changed, depth - 1) for path in inner])


def node_modules_above(root: Path) -> tuple[Path, ...]:
    """Returns the package folders above `root`, the nearest first. Node searches them too."""
    return tuple([path for above in root.parents if (path := above / "node_modules").is_dir()])


def environment_homes(environment: Path) -> set[Path]:
    """Returns the directories that an environment's programs need: its own, its interpreter's."""
    return {environment, *program_homes(environment / "bin" / "python")}


def program_homes(program: Path) -> set[Path]:
    """Returns the directories that a program needs: its own, and those its links lead to."""
    private = Path.home().resolve()
    folders: set[Path] = set()
    for file in (program, program.resolve()):
        folder = file.parent
        home = folder.parent if folder.name in ("bin", "Scripts") else folder
        if home.name in (".cargo", ".local"):  # they hold secrets beside the programs
            home = folder
        # A Node package needs its neighbours.
        packages = [above for above in file.parents if above.name == "node_modules"]
        home = packages[-1] if packages else home
        if not str(home).startswith(_SYSTEM) and not private.is_relative_to(home):
            folders.add(home)
    return folders


def check_ports(reach: Reach) -> None:
    """Checks that a container here can open the named ports of this machine.

    Raises:
        ConfigError: Commands are contained here, and single ports cannot be opened.
    """
    reason = reach.why_not() if reach.ports and not why_not() else ""
    if reason:
        raise ConfigError(
            f"commands are contained here and cannot reach {reach.label}: {reason}; "
            "install pasta (package passt)"
        )


@cache
def why_not() -> str:
    """Returns the reason why commands cannot be contained here, or "". Tested once."""
    if not trusted_code.program("bwrap"):
        return "bubblewrap (bwrap) is not installed"
    try:
        # /usr exists everywhere, and nothing is written to it.
        with _data(network=False) as (data, given):
            wrapped = Containment(Path("/usr")).wrap(["true"], Path("/usr"), data)
            wrapped[0] = trusted_code.program("bwrap")
            done = subprocess.run(
                wrapped,
                capture_output=True,
                text=True,
                timeout=_PROBE_SECONDS,
                check=False,
                pass_fds=given,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not work here: {error}"
    if done.returncode:
        return f"bubblewrap does not work here: {done.stderr.strip()[:200]}"
    return ""
