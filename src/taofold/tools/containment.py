"""Confines a command with bubblewrap: one writable directory, no network of ours, no secrets.

It gives the longer argument list, the places made for its mounts (`stubs`), and what must live as
long as the command does (`Containment.around`); `why_not` finds out whether it works here. Knows
nothing about tools. What it promises: only the work root (without its protected and hidden names)
is writable and lasts; the system is read-only; the home directory, other projects, `/run`, `/var`
and this machine's network do not exist; when the command ends, all its processes end. With a
`reach` it has a network of its own, from which nothing on this machine's loopback can be reached
but the ports that are named, if a helper for that is installed; `shares` is true if none is. It
does not limit memory or processor use.

`stubs` keep names such as `.git` out of reach, existing or not. A mount covers what exists. What
does not exist is made for as long as the command runs, because a mount needs a place: an empty
directory, told from others by its sticky bit, so that one left by a killed process is removed by
the next command. Whoever uses it holds a shared lock: removing it would take the mount off another
command's container as well. Links below the root are not covered, nor what a command makes below
it itself.
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
"""Names to cover; with more, a command does not start."""
_STUB: Final = 0o1755
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TRIES: Final = 100


class Stubs:
    """The places of one command. They are left where they are unless `ended` is set."""

    def __init__(self) -> None:
        self.ended = False
        """Has every process of the command ended?"""


@contextmanager
def stubs(root: Path, names: Sequence[str]) -> Generator[Stubs]:
    """Have a directory entry for each of `names` in `root` meanwhile.

    Raises:
        OSError: a name cannot be had, or is a link, over which nothing can be mounted.
    """
    held_stubs = Stubs()
    with ExitStack() as locks:
        for name in names:
            fd = _held(root, root / name)
            if fd >= 0:
                locks.callback(_release, root / name, fd, held_stubs)
        yield held_stubs


def covers(root: Path, protected: Sequence[str], hidden: Sequence[str]) -> list[str]:
    """The bubblewrap options that make `protected` read-only and `hidden` empty, at any depth.

    Reads the whole tree: blocks. Directories that cannot be read are emptied too, because
    a command could make them readable.

    Raises:
        OSError: the root cannot be read, or there are more than `MOST` names.
    """
    if not protected and not hidden:
        return []
    # In the order in which they were found: a mount over a directory must
    # come before those inside it.
    mounts: list[list[str]] = []
    todo = [(str(root), False)]
    while todo:
        folder, frozen = todo.pop()
        if not os.access(folder, os.R_OK | os.X_OK):
            mounts.append(_emptied(folder))
        else:
            with suppress(FileNotFoundError):  # removed meanwhile
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
    """Options for this entry, and whether its inside is read-only (None: no need to look)."""
    name, path = entry.name.casefold(), entry.path  # some file systems ignore case
    # A bind mount would follow it and cover the target, which may lie outside.
    if entry.is_symlink():
        return [], None
    directory = entry.is_dir(follow_symlinks=False)
    if name in hidden:
        # A device is dead in there, so /dev/null can be neither read nor written.
        return (_emptied(path) if directory else ["--ro-bind", "/dev/null", path]), None
    # Below a read-only mount everything is read-only already; hidden names still need a cover.
    if name in protected and not frozen:
        return ["--ro-bind", path, path], True if directory else None
    return [], frozen if directory else None


def _emptied(path: str) -> list[str]:
    return ["--tmpfs", path, "--remount-ro", path]


def _held(root: Path, path: Path) -> int:
    """A locked descriptor of the stub at `path`; -1 if it needs none."""
    for _ in range(_TRIES):
        try:
            path.mkdir(_STUB)
        except FileExistsError:
            pass
        except OSError as error:
            if _impossible(root, error):
                return -1
            raise
        with suppress(FileNotFoundError):  # somebody's, removed meanwhile
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                raise OSError(errno.ELOOP, f"{str(path)!r} is a link and cannot be protected")
            if not _is_stub(status):
                return -1
            fd = os.open(path, _OPEN)
            # Shared among all commands that use the stub; exclusive only to remove it (`_release`).
            fcntl.flock(fd, fcntl.LOCK_SH)
            # Between mkdir and the lock another command may have removed it and made a new one.
            if _same(path, fd):
                return fd
            os.close(fd)
    raise OSError(errno.EAGAIN, f"{str(path)!r} comes and goes and cannot be protected")


def _impossible(root: Path, error: OSError) -> bool:
    """Can a command not make it either? An owner could change the directory's mode."""
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
        with suppress(OSError):  # another command uses it, or somebody filled it: theirs now
            if made.ended:
                # Fails while another command holds its shared lock: the last
                # one to leave removes it.
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
"""The home directory inside the container, where /tmp is its own."""
_NONE: Final = "/dev/null/bwrap"
_PROBE_SECONDS: Final = 10
_END_SECONDS: Final = 5.0
Inside: TypeAlias = tuple[list[str], list[str], tuple[int, ...]]
"""Options for bubblewrap, what stands before the command, descriptors that must be inherited."""


@dataclass(frozen=True, slots=True)
class Containment:
    """How commands are confined. `readable` are further directories they may read."""

    root: Path
    reach: Reach = Reach()
    readable: tuple[Path, ...] = ()
    protected: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    installs: bool = False
    """May it write to the packages that are installed in the root? To shared ones it never may."""

    def wrap(self, command: Sequence[str], folder: Path, more: Sequence[str] = ()) -> list[str]:
        """The arguments that run `command` confined, in `folder`, with `more` options."""
        return [*self._options(), *more, "--chdir", str(folder), "--", *command]

    @asynccontextmanager
    async def around(
        self, command: Sequence[str], folder: Path, also: Sequence[str] = ()
    ) -> AsyncGenerator[tuple[list[str], tuple[int, ...]]]:
        """What to run in place of `command`, and the descriptors it must inherit.

        `also` are further options of bubblewrap.

        The protected and hidden names are out of its reach. Leave the context when the
        command has ended: what was made in the root for it is removed then.

        Raises:
            OSError: they cannot be kept out of its reach; or, when the context is left, the
                command was killed before it began, because its network could not be made.
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
        """Is its network this machine's, so that it reaches all that listens on the loopback?"""
        return self.reach.world and bool(container_network.why_not())

    @asynccontextmanager
    async def _connected(self, made: Stubs) -> AsyncGenerator[Inside]:
        """A network of its own while the context lasts."""
        link = container_network.uplink(self.root, self.reach)
        connecting = asyncio.ensure_future(WORKERS.run(link.connect))
        try:
            yield link.options, link.prefix, link.inherited
        finally:
            link.interrupt()
            # Also when the call is cancelled: the thread must not use
            # descriptors that are closed below.
            await asyncio.shield(asyncio.wait([connecting]))
            made.ended = not link.pid or await process.has_ended(link.pid, _END_SECONDS)
            link.close()
            connecting.result()
        if link.fault:
            raise OSError(f"its network could not be made ({link.fault})")

    def _options(self) -> list[str]:
        root = str(self.root)
        # Never one that lies in the root: an agent could have written it. None = it cannot start.
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
            # After the root: what lies inside it, such as .venv, must not become writable.
            options += [] if path in around else [*_visible_path(str(path)), *unneeded(path)]
        for folder in (self.root, *self.readable):
            options += _reserved(folder, self.hidden if folder == self.root else ())
        return options


@contextmanager
def _data(network: bool) -> Generator[tuple[list[str], tuple[int, ...]]]:
    """Options with what bubblewrap reads from descriptors, and these, while the context lasts.

    The filter for system calls, and without a network the address of `localhost`.
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
    """Notes whether everything ended, when the context is left."""
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
    """Has all that ran in the container ended? bwrap itself ends a moment earlier."""
    # The container may never have begun: then nothing was ever written here.
    os.set_blocking(reader, False)
    try:
        pid = int(json.loads(os.read(reader, 4096))["child-pid"])
    except BlockingIOError:
        return True  # it did not get so far as to start anything
    return await process.has_ended(pid, _END_SECONDS)


def _reserved(place: Path, hidden: tuple[str, ...]) -> list[str]:
    """Options that empty every place of authority below `place`, unless `hidden` covers it.

    What does not exist is made, because a mount needs a place and the command could make it: a
    journal that SQLite believes, or a policy.
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
    # On many systems /bin is a link to /usr/bin: keep it one.
    if path.is_symlink():
        return ["--symlink", str(path.readlink()), str(path)]
    return _visible_path(str(path))


def _visible_path(path: str) -> list[str]:
    return ["--ro-bind-try", path, path]


def python_homes() -> tuple[Path, ...]:
    """The directories this Python needs, where they are not part of the system."""
    private = Path.home().resolve()
    return tuple(
        [
            home
            for home in trusted_code.homes()
            if not home.is_relative_to("/usr") and not private.is_relative_to(home)
        ]
    )


def linked_environment(link: Path, root: Path) -> Path | None:
    """The folder of installed packages outside of `root` to which `link` leads; None if to none.

    An environment (`.venv`) or `node_modules`, and no folder that encloses the root or the home.
    Who works in `root` could make such a link and cannot make what it leads to: all that it
    shows is a program and its libraries, which nobody may write. A project that is an environment
    itself is more than that.
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
"""What tools put into an environment."""


def _is_environment(folder: Path) -> bool:
    """Does the folder hold an environment of Python's, and besides it only empty marks?"""
    return (folder / "pyvenv.cfg").is_file() and all(
        [
            entry.name in _ENVIRONMENT or (entry.is_file() and not entry.stat().st_size)
            for entry in _entries(str(folder))
        ]
    )


def unneeded(environment: Path, shown_at: Path | None = None) -> list[str]:
    """Options that empty what no interpreter needs of an environment: its settings (`etc`).

    Args:
        environment: A folder that is shown; nothing is emptied where it is no environment.
        shown_at: Where it is shown, if not at its own path.
    """
    if not ((environment / "pyvenv.cfg").is_file() and (environment / "etc").is_dir()):
        return []
    return _emptied(str((shown_at or environment) / "etc"))


def installed_outside(root: Path) -> tuple[Path, ...]:
    """Where programs in `root` find packages outside of it, for `readable`.

    Environments to which links in `root` lead, and what is above it for Node.
    """
    linked = [linked_environment(Path(entry.path), root) for entry in _entries(str(root))]
    homes = {home for target in linked if target for home in environment_homes(target)}
    homes.update(node_modules_above(root))
    return tuple(sorted([home for home in homes if not root.is_relative_to(home)]))


_DEPTH: Final = 5
"""Folders below an environment in which packages lie; pnpm's lie deepest."""


def packages(root: Path) -> tuple[Path, ...]:
    """The folders of installed packages directly in `root`: environments and `node_modules`."""
    return tuple(
        [
            Path(entry.path)
            for entry in _entries(str(root))
            if entry.is_dir(follow_symlinks=False)
            and (entry.name == "node_modules" or (Path(entry.path) / "pyvenv.cfg").is_file())
        ]
    )


def _is_shared(folder: Path) -> bool:
    """Are the files of installed packages shared with a package cache?

    uv and pnpm install by hard links: to write to such a file is to write to the cache, and so to
    every other environment that was made from it.
    """
    places = [folder, *folder.glob("lib/*/site-packages")]
    return _has_shared(str(folder), tuple([place.stat().st_mtime_ns for place in places]))


@lru_cache(maxsize=64)
def _has_shared(folder: str, changed: tuple[int, ...], depth: int = _DEPTH) -> bool:
    """Is the first file of any folder below a hard link? All files of a package are, or none.

    `changed`: when packages were last added or removed, so that this is found out once.
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
    """The folders of packages above `root`, the nearest first: Node looks there, too."""
    return tuple([path for above in root.parents if (path := above / "node_modules").is_dir()])


def environment_homes(environment: Path) -> set[Path]:
    """The directories that the programs of an environment need: its own, its interpreter's."""
    return {environment, *program_homes(environment / "bin" / "python")}


def program_homes(program: Path) -> set[Path]:
    """The directories that a program outside the system needs: its own, and where links lead."""
    private = Path.home().resolve()
    folders: set[Path] = set()
    for file in (program, program.resolve()):
        folder = file.parent
        home = folder.parent if folder.name in ("bin", "Scripts") else folder
        if home.name in (".cargo", ".local"):  # they hold secrets beside the programs
            home = folder
        # A package of Node's needs those beside it.
        packages = [above for above in file.parents if above.name == "node_modules"]
        home = packages[-1] if packages else home
        if not str(home).startswith(_SYSTEM) and not private.is_relative_to(home):
            folders.add(home)
    return folders


def check_ports(reach: Reach) -> None:
    """Refuse ports of this machine that a container here cannot open.

    Raises:
        ConfigError: commands are contained here, and single ports cannot be opened.
    """
    reason = reach.why_not() if reach.ports and not why_not() else ""
    if reason:
        raise ConfigError(
            f"commands are contained here and cannot reach {reach.label}: {reason}; "
            "install pasta (package passt)"
        )


@cache
def why_not() -> str:
    """Why commands cannot be contained here; "" if they can. Found out by doing it, once."""
    if not trusted_code.program("bwrap"):
        return "bubblewrap (bwrap) is not installed"
    try:
        # /usr exists everywhere and nothing is written to it.
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
