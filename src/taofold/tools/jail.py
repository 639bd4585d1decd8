"""Reads, writes and lists files under one directory only.

Every component of a path is opened with `O_NOFOLLOW`, relative to the directory before it. A link
is therefore never followed, and nothing can be replaced between a check and the use of a path.
Writes go to a new file that replaces the old one by a rename in the same open directory. A write
can store a mark of its call on the file, as proof that it happened. `exclusive` keeps other writers
out while a file is read and replaced. This module does not depend on tools or models.

Not detected: a hard link to a file outside (reading reads that file, writing replaces only the
link), and directories that another user with outside rights moves away.
"""

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from taofold import reserved_places
from taofold.core.text import visible
from taofold.reserved_places import is_same_name
from taofold.trusted_code import OUTSIDE, frozen

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK a FIFO would block the tool until a writer opens it.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_MARK: Final = "user.taofold.effect"

_LONGEST_WAIT: Final = 5.0
"""Seconds to wait for another writer. A write takes milliseconds, so this one is stuck."""
_UNLOCKABLE: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF)
"""Errors of file systems without locks."""

HIDDEN: Final = (reserved_places.PROJECT,)
"""Names that do not exist for an agent: its own log, policy and baselines."""
PROTECTED: Final = (".git",)
"""Names that are read-only: a hook in them would run outside the jail."""


class OutsideJail(ValueError):
    """The path is outside the jail, or may not be used this way. The message is for the model."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A directory entry as `lstat` reports it. `kind` is file, directory, link or other."""

    path: str
    kind: str
    size: int = 0
    target: str = ""


@dataclass(frozen=True, slots=True)
class Jail:
    """A directory tree. `root` must be an existing directory and is resolved once."""

    root: Path
    hidden: tuple[str, ...] = HIDDEN
    protected: tuple[str, ...] = PROTECTED
    frozen: tuple[str, ...] = ()
    """Directories, relative to the root, that are read-only."""

    def parts(self, path: str, *, write: bool = False) -> tuple[str, ...]:
        """Returns the components of `path` below the root, in a single spelling.

        The approver of a call reads this spelling.

        Raises:
            OutsideJail: The path leads out of the root or to a hidden or protected name, or could
                be read as another path.
        """
        # Models copy absolute paths from listings, so those below the root are accepted.
        inner = path
        if path.startswith("/"):
            root = str(self.root)
            if path != root and not path.startswith(root.rstrip("/") + "/"):
                raise OutsideJail(f"{path!r} is outside the work root; use a path relative to it")
            inner = path[len(root) :]
        parts: list[str] = []
        for part in inner.split("/"):
            if part == "..":
                if not parts:
                    raise OutsideJail(f"{path!r} leads out of the work root")
                raise OutsideJail(f"{path!r} goes back with '..': write the path without it")
            if part not in ("", "."):
                parts.append(part)
        self._allowed(path, parts, write)
        return tuple(parts)

    def _allowed(self, path: str, parts: list[str], write: bool) -> None:
        inner = "/".join(parts)
        try:
            os.fsencode(inner)
        except UnicodeEncodeError:
            raise OutsideJail(f"{path!r} is no file name: it is not valid text") from None
        flaw = _misread(parts, write)
        if flaw:
            raise OutsideJail(f"{path!r} is no file name here: {flaw}")
        target = self.root.joinpath(*parts)
        if _any_same(parts, self.hidden) or reserved_places.holds(self.root, target):
            raise OutsideJail(f"{path!r} belongs to the runtime and cannot be used")
        if write and any([_is_below(parts, prefix) for prefix in self.frozen]):
            raise OutsideJail(f"{path!r} is read-only: this program itself runs from there")
        if write and _any_same(parts, self.protected):
            raise OutsideJail(f"{path!r} is read-only: {', '.join(self.protected)} is protected")

    @contextmanager
    def directory(self, parts: tuple[str, ...], *, create: bool = False) -> Generator[int]:
        """Yields an open descriptor of the directory. `create` makes missing directories."""
        fd = os.open(self.root, _DIRECTORY)
        try:
            for index, part in enumerate(parts):
                inner = _enter(fd, part, "/".join(parts[: index + 1]), create)
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def exclusive(self, path: str, *, create: bool = False) -> Generator[None]:
        """Keeps out other writers of the file's directory that use this method.

        Without it, an edit that was made between reading and replacing a file would be lost.
        `create` makes missing directories.

        Raises:
            OutsideJail: The path is refused, or another writer held the directory too long.
        """
        parts = self._file_parts(path, write=True)
        with self.directory(parts[:-1], create=create) as folder:
            _lock(folder, path)
            yield  # closing the directory releases the lock

    def read(self, path: str, limit: int) -> bytes:
        """Returns the content of a regular file of at most `limit` bytes."""
        parts = self._file_parts(path)
        with self.directory(parts[:-1]) as folder:
            fd = _open_file(folder, parts[-1], path)
            # The size gives a clear message. The read is bounded too, since the file may grow.
            with os.fdopen(fd, "rb") as file:
                size = os.fstat(fd).st_size
                if size > limit:
                    raise OutsideJail(f"{path!r} has {size:,} bytes; the limit is {limit:,}")
                content = file.read(limit + 1)
        if len(content) > limit:
            raise OutsideJail(f"{path!r} is larger than the limit of {limit:,} bytes")
        return content

    def write(self, path: str, content: bytes, mark: str = "") -> bool:
        """Replaces or creates a regular file atomically. Returns True if it was created.

        `mark` is stored with the file if its file system has extended attributes. Content and mark
        become visible together.
        """
        parts = self._file_parts(path, write=True)
        with self.directory(parts[:-1], create=True) as folder:
            mode = _replaceable(folder, parts[-1], path)
            # In the same directory, because a rename is atomic only within a file system.
            temporary = f".{parts[-1][:32]}.{secrets.token_hex(8)}"
            fd = os.open(temporary, _NEW, 0o666, dir_fd=folder)
            try:
                with os.fdopen(fd, "wb") as file:
                    if mode is not None:
                        # The old file's permissions are kept, such as its executable bit.
                        os.fchmod(fd, mode)
                    if mark and hasattr(os, "setxattr"):
                        with suppress(OSError):
                            os.setxattr(fd, _MARK, mark.encode())
                    file.write(content)
                    file.flush()
                    os.fsync(fd)
                # After fsync, because a power cut could otherwise leave an empty file.
                os.rename(temporary, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
        return mode is None

    def mark(self, path: str) -> str:
        """Returns the mark of the last `write` of this file, or ""."""
        parts = self._file_parts(path)
        with self.directory(parts[:-1]) as folder:
            fd = _open_file(folder, parts[-1], path)
            try:
                return os.getxattr(fd, _MARK).decode() if hasattr(os, "getxattr") else ""
            except OSError:
                return ""
            finally:
                os.close(fd)

    def entries(self, parts: tuple[str, ...]) -> list[FileEntry]:
        """Returns the entries of a directory, sorted by name, without hidden ones."""
        entries: list[FileEntry] = []
        with self.directory(parts) as folder:
            for name in sorted(os.listdir(folder)):  # noqa: PTH208 - a descriptor has no Path
                inner = self.root.joinpath(*parts, name)
                if _any_same([name], self.hidden) or reserved_places.holds(self.root, inner):
                    continue
                with suppress(FileNotFoundError):
                    entries.append(_entry(folder, name, "/".join((*parts, name))))
        return entries

    def _file_parts(self, path: str, *, write: bool = False) -> tuple[str, ...]:
        parts = self.parts(path, write=write)
        if not parts or path.endswith("/"):
            raise OutsideJail(f"{path!r} is a directory; name a file")
        return parts


def jail(root: Path | str, *, protected: tuple[str, ...] = PROTECTED) -> Jail:
    """Returns a jail at the directory `root`, whose links are resolved once.

    An agent works there. If this process is sealed, it imports no more modules from it.
    """
    resolved = Path(root).resolve(strict=True)
    if not resolved.is_dir():
        raise NotADirectoryError(f"the work root {str(root)!r} is not a directory")
    OUTSIDE.roots.add(resolved)
    return Jail(resolved, protected=protected, frozen=frozen(resolved))


def _misread(parts: list[str], write: bool) -> str:
    """Returns the reason why the names could be misread, or ""."""
    for part in parts:
        if any([character < " " or "\x7f" <= character < "\xa0" for character in part]):
            return "it holds a control character"
        if part != part.strip():
            return f"{part!r} begins or ends with a blank"
        # Existing names with invisible characters may be read, but not written.
        if write and visible(part) != part:
            return f"it holds an invisible character: {visible(part)}"
    return ""


def _any_same(parts: list[str], reserved: tuple[str, ...]) -> bool:
    # A backslash separates names if the tree is checked out on Windows.
    names = [name for part in parts for name in part.split("\\")]
    return any([is_same_name(name, other) for name in names for other in reserved])


def _is_below(parts: list[str], folder: str) -> bool:
    above = folder.split("/")
    return len(parts) >= len(above) and all(map(is_same_name, parts, above))


def _lock(folder: int, path: str) -> None:
    until = monotonic() + _LONGEST_WAIT
    while True:
        try:
            return fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Bounded: any process with access to the directory can hold its lock for ever.
            if monotonic() > until:
                raise OutsideJail(
                    f"{path!r}: another process has locked its directory for "
                    f"{_LONGEST_WAIT:.0f} s: nothing was changed. Try again"
                ) from None
        except OSError as error:
            if error.errno in _UNLOCKABLE:
                return None
            raise
        sleep(0.002)


def _enter(folder: int, name: str, path: str, create: bool) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise OutsideJail(f"there is no directory {path!r}") from None
    except OSError as error:
        raise _refusal(folder, name, path, error) from error
    with suppress(FileExistsError):  # made concurrently by another process
        os.mkdir(name, dir_fd=folder)
    try:
        return os.open(name, _DIRECTORY, dir_fd=folder)
    except OSError as error:
        raise _refusal(folder, name, path, error) from error


def _open_file(folder: int, name: str, path: str) -> int:
    try:
        fd = os.open(name, _FILE, dir_fd=folder)
    except FileNotFoundError:
        raise OutsideJail(f"there is no file {path!r}") from None
    except OSError as error:
        raise _refusal(folder, name, path, error) from error
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    what = "a directory" if stat.S_ISDIR(mode) else "a device or pipe"
    raise OutsideJail(f"{path!r} is {what}, not a file")


def _replaceable(folder: int, name: str, path: str) -> int | None:
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISREG(mode):
        # Without setuid and setgid bits, which new content must not inherit.
        return stat.S_IMODE(mode) & 0o777
    raise _refusal(folder, name, path, OSError(errno.EISDIR, "it is not a regular file"))


def _refusal(folder: int, name: str, path: str, error: OSError) -> OutsideJail:
    with suppress(OSError):
        entry = _entry(folder, name, path)
        if entry.kind == "link":
            return OutsideJail(f"{path!r} is a link to {entry.target!r}; links are not followed")
        if isinstance(error, NotADirectoryError):
            return OutsideJail(f"{path!r} is a {entry.kind}, not a directory")
    return OutsideJail(f"{path!r} cannot be used: {error.strerror or error}")


def _entry(folder: int, name: str, path: str) -> FileEntry:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        return FileEntry(path, "directory")
    if stat.S_ISREG(status.st_mode):
        return FileEntry(path, "file", status.st_size)
    if stat.S_ISLNK(status.st_mode):
        return FileEntry(path, "link", target=os.readlink(name, dir_fd=folder))
    return FileEntry(path, "other")
