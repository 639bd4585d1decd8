"""Keeps names such as `.git` out of a contained command's reach, existing or not.

A mount covers what exists. What does not exist is made for as long as the command runs,
because a mount needs a place: an empty directory, told from others by its sticky bit, so
that one left by a killed process is removed by the next command. Whoever uses it holds a
shared lock: removing it would take the mount off another command's container as well.
Knows nothing about tools. Links below the root are not covered, nor what a command makes
below it itself.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

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
    made = Stubs()
    with ExitStack() as held:
        for name in names:
            fd = _held(root, root / name)
            if fd >= 0:
                held.callback(_release, root / name, fd, made)
        yield made


def covers(root: Path, protected: Sequence[str], hidden: Sequence[str]) -> list[str]:
    """The bubblewrap options that make `protected` read-only and `hidden` empty, at any depth.

    Reads the whole tree: blocks. Directories that cannot be read are emptied too, because
    a command could make them readable.

    Raises:
        OSError: the root cannot be read, or there are more than `MOST` names.
    """
    if not protected and not hidden:
        return []
    found: list[list[str]] = []
    todo = [(str(root), False)]
    while todo:
        folder, frozen = todo.pop()
        if not os.access(folder, os.R_OK | os.X_OK):
            found.append(_emptied(folder))
        else:
            with suppress(FileNotFoundError):  # removed meanwhile
                for entry in _entries(folder):
                    cover, inner = _cover(entry, frozen, protected, hidden)
                    found += [cover] if cover else []
                    todo += [] if inner is None else [(entry.path, inner)]
        if len(found) > MOST:
            raise OSError(errno.E2BIG, f"more than {MOST} names to protect in the work root")
    return [option for cover in found for option in cover]


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return list(entries)


def _cover(
    entry: os.DirEntry[str], frozen: bool, protected: Sequence[str], hidden: Sequence[str]
) -> tuple[list[str], bool | None]:
    """Options for this entry, and whether its inside is read-only (None: no need to look)."""
    name, path = entry.name.casefold(), entry.path  # some file systems ignore case
    if entry.is_symlink():
        return [], None
    directory = entry.is_dir(follow_symlinks=False)
    if name in hidden:
        # A device is dead in there, so /dev/null can be neither read nor written.
        return (_emptied(path) if directory else ["--ro-bind", "/dev/null", path]), None
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
            found = path.lstat()
            if stat.S_ISLNK(found.st_mode):
                raise OSError(errno.ELOOP, f"{str(path)!r} is a link and cannot be protected")
            if not _is_stub(found):
                return -1
            fd = os.open(path, _OPEN)
            fcntl.flock(fd, fcntl.LOCK_SH)
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
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _same(path, fd):
                    path.rmdir()
    finally:
        os.close(fd)
