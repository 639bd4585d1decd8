"""Trees of files outside the work root, stored by content, in which gates run.

`KeptFile` is a file at some time; `TreeWalk` and `FileCache` find and read those of a work root.
`Tree` is the place of gate runs: files by content, from the baseline and from the work. It is laid
again for each gate, so no gate sees the writes of another. Laying is cheap: unchanged files stay,
everything else is removed or laid again. A file counts as untouched while its inode and its change
time are those of the laying; no program can set a change time. Knows nothing about verdicts.
"""

import hashlib
import os
import shutil
import stat
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fcntl import ioctl
from pathlib import Path
from typing import Final, TypeAlias

from taofold.core.errors import LogError
from taofold.core.values import Value

LARGEST: Final = 64_000_000
"""The most bytes of a file whose content is stored; a larger one is used in place, if unchanged."""
MOST_FILES: Final = 200_000
"""The most files, besides those of environments."""
MOST_BYTES: Final = 8_000_000_000
SKIPPED: Final = frozenset(
    {
        *(".git", ".hg", ".svn", ".taofold", "__pycache__", ".mypy_cache", ".ruff_cache"),
        *(".tox", ".pytest_cache", ".nox", ".hypothesis"),
    }
)
"""Hidden from all gates; for `.git` see `Tree`."""
NODE_MODULES: Final = "node_modules"
ENVIRONMENTS: Final = frozenset({NODE_MODULES, "__pypackages__"})
NODE_CACHES: Final = (".vite-temp", ".vite", ".vitest", ".cache")
"""Folders of `node_modules` that tools write to: Vite cannot even start without its own."""
TAG: Final = "CACHEDIR.TAG"
"""Marks a folder of build outputs; gates do not get those of the work root."""
Stamp: TypeAlias = tuple[int, int, int, int]
_FICLONE: Final = 0x40049409
"""Linux: shares the blocks of a file and copies them on write (btrfs, xfs)."""
_LARGEST_OUTPUT: Final = 2_000_000_000


class KeptFile(Value, frozen=True):
    """A file at some time: the digest of its content, or the target of the link."""

    digest: str = ""
    mode: int = 0
    link: str = ""
    stored: bool = True
    mtime: int = 0
    """Nanoseconds since the epoch; `make` compares them."""

    def same(self, other: "KeptFile | None") -> bool:
        """Returns equality, ignoring the time and the mode bits that the umask affects."""
        if other is None:
            return False
        identity = (self.digest, self.link, self.mode & 0o755)
        return identity == (other.digest, other.link, other.mode & 0o755)


class TreeWalk:
    """The entries below `root`, without following links."""

    def __init__(self, root: Path, without: Collection[str] = ()) -> None:
        self.files: list[str] = []
        self.environments: list[str] = []
        self.repositories: list[str] = []
        """Entries that make git treat a folder as a repository, besides `.git` of the root."""
        todo = [""]
        while todo:
            todo += self._folder(root, todo.pop(), without)

    def _folder(self, root: Path, folder: str, without: Collection[str]) -> list[str]:
        try:
            with os.scandir(root / folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError:  # it vanished, or is unreadable: no gate could read it either
            return []
        names = {entry.name for entry in entries}
        if folder and ("pyvenv.cfg" in names or folder.rpartition("/")[2] in ENVIRONMENTS):
            self.environments.append(folder)
            return []
        self._note_repositories(folder, names)
        # The gate makes build outputs again; see `Tree.built`.
        if folder and TAG in names:
            return []
        inner: list[str] = []
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                inner += [path] if entry.name not in SKIPPED and path not in without else []
            else:
                self.files.append(path)
        return inner

    def _note_repositories(self, folder: str, names: set[str]) -> None:
        if folder and ".git" in names:
            self.repositories.append(f"{folder}/.git")
        # A bare repository needs no `.git`: git recognises it by these three.
        if {"HEAD", "objects", "refs"} <= names:
            self.repositories.append(f"{folder}/HEAD".lstrip("/"))


class FileCache:
    """Reads files of a tree; unchanged files are not read again."""

    def __init__(self, root: Path, objects: Path) -> None:
        self._root, self._objects = root, objects
        self._seen: dict[str, tuple[tuple[int, ...], KeptFile]] = {}

    def kept(self, path: str) -> KeptFile | None:
        """Returns the file at `path` now, its content stored; None if there is none.

        Links on the way are not followed: nothing is found behind one.
        """
        target = f"{self._root}/{path}"
        try:
            status = os.lstat(target)
            # Not as `Path`: this runs for every file of a tree, in every verdict.
            if any([os.path.islink(f"{self._root}/{parent}") for parent in parents_of(path)]):  # noqa: PTH114
                return None
        except OSError:
            return None
        # A program can set size and time back, but not the change time.
        mark = (
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_mode,
        )
        cached = self._seen.get(path)
        if cached is not None and cached[0] == mark:
            return cached[1]
        now = _read(Path(target), status, self._objects)
        if now is not None:
            self._seen[path] = (mark, now)
        return now


def _read(path: Path, status: os.stat_result, objects: Path) -> KeptFile | None:
    try:
        if stat.S_ISLNK(status.st_mode):
            return KeptFile(link=str(path.readlink()))
        if not stat.S_ISREG(status.st_mode):
            # A pipe, socket or device: never laid, but a change to or from one is noticed.
            return KeptFile(link="\0other")
        # Without O_NONBLOCK, opening a pipe in the file's place would block forever.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        mode = stat.S_IMODE(status.st_mode) & 0o777
        if status.st_size > LARGEST:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return KeptFile(digest, mode, stored=False, mtime=status.st_mtime_ns)
        data = file.read()
    digest = hashlib.sha256(data).hexdigest()
    store(objects, digest, data)
    return KeptFile(digest, mode, mtime=status.st_mtime_ns)


def store(objects: Path, digest: str, content: bytes) -> None:
    """Stores `content` under its digest, once."""
    target = objects / digest[:2] / digest
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_suffix(f".{os.getpid()}")
        temporary.write_bytes(content)
        # Renaming is atomic: a process that dies leaves no partial content under a digest.
        temporary.rename(target)


def content(objects: Path, digest: str) -> bytes:
    """Returns the content stored under `digest`.

    Raises:
        LogError: It is gone, or was changed.
    """
    try:
        data = (objects / digest[:2] / digest).read_bytes()
    except OSError as error:
        raise LogError(f"the baseline's content {digest[:12]} is gone: {error}") from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise LogError(f"the baseline's content {digest[:12]} was changed")
    return data


@dataclass(slots=True)
class Tree:
    """One tree on disk. Blocks.

    Contained gates see it in the place of the work root. Otherwise they see it in its own place,
    and folders that are only shown are links.
    """

    folder: Path
    root: Path
    """The work root."""
    objects: Path
    contained: bool
    shown: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Paths below the root that are not laid but shown read-only, and their real places."""
    outputs: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Folders that every laying copies again, and their sources."""
    _laid: dict[str, tuple[KeptFile, bool, Stamp]] = field(
        default_factory=dict[str, tuple[KeptFile, bool, Stamp]]
    )

    @property
    def seen(self) -> Path:
        """Its path in the gate's view."""
        return self.root if self.contained else self.folder

    def host(self, path: Path) -> Path:
        """Returns this process's path for a gate's `path`."""
        if not path.is_relative_to(self.seen):
            return path
        inner = path.relative_to(self.seen)
        for name, source in self.shown.items():
            if inner.is_relative_to(name):
                return source / inner.relative_to(name)
        return self.folder / inner

    def moved(self, path: str) -> str:
        """Returns a path below the work root in the gate's view; others unchanged."""
        inside = path == str(self.root) or path.startswith(f"{self.root}/")
        return f"{self.seen}{path[len(str(self.root)) :]}" if inside else path

    def lay(self, files: Mapping[str, KeptFile], new: Collection[str]) -> None:
        """Makes the tree hold exactly `files`; those in `new` get the current time, others their
        own.

        Raises:
            LogError: The baseline's own content was changed, or the tree cannot be laid.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        # Shown paths are not laid as well: in a worktree `.git` is an ordinary file.
        files = {
            path: file
            for path, file in files.items()
            if file.stored and file.link != "\0other" and path not in self.shown
        }
        # Laying only the changes makes a verdict on a large tree cheap.
        standing = {path for path in self._laid if self._stands(path, files.get(path), path in new)}
        folders = {parent for path in files for parent in parents_of(path)}
        _clean(self.folder, "", standing, folders)
        self._laid = {path: self._laid[path] for path in standing}
        for path in sorted(files.keys() - standing):
            self._put(path, files[path], late=path in new)
        # Build outputs are copied from the baseline: an agent's would count as up to date.
        for name, source in self.outputs.items():
            copy_folder(source, self.folder / name)
        for name, source in self.shown.items():
            self._show(name, source)

    def _stands(self, path: str, file: KeptFile | None, late: bool) -> bool:
        laid, was_late, stamp = self._laid[path]
        # The stamp shows if a gate touched a file: no program can set a change time.
        return laid == file and was_late == late and _stamp(f"{self.folder}/{path}") == stamp

    def touched(self) -> tuple[str, ...]:
        """Returns files that were touched since they were laid, with any content."""
        return tuple(
            [p for p, (_, _, stamp) in self._laid.items() if _stamp(f"{self.folder}/{p}") != stamp]
        )

    def made(self) -> list[str]:
        """Returns the topmost files and folders that a gate made in the tree."""
        folders = {"", *[parent for path in self._laid for parent in parents_of(path)]}
        known = {*folders, *self._laid, *self.shown, *self.outputs}
        known |= {parent for path in (*self.shown, *self.outputs) for parent in parents_of(path)}
        paths: list[str] = []
        for at in sorted(folders):
            for entry in _entries(self.folder / at):
                path = f"{at}/{entry.name}" if at else entry.name
                paths += [path] if path not in known and entry.name not in SKIPPED else []
        return paths

    def built(self) -> list[str]:
        """Returns folders of build outputs that a gate made in the tree."""
        paths: list[str] = []
        todo = [""]
        while todo:
            at = todo.pop()
            for entry in _entries(self.folder / at):
                path = f"{at}/{entry.name}" if at else entry.name
                if not entry.is_dir(follow_symlinks=False) or path in self.shown:
                    continue
                if not (self.folder / path / TAG).is_file():
                    todo.append(path)
                elif not entry.name.startswith("."):
                    paths.append(path)
        return [path for path in paths if _size(self.folder / path) <= _LARGEST_OUTPUT]

    def _put(self, path: str, file: KeptFile, *, late: bool) -> None:
        target = self.folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if file.link:
                target.symlink_to(file.link)
            else:
                target.write_bytes(content(self.objects, file.digest))
                target.chmod(file.mode | stat.S_IRUSR)
                # `make` compares times: files of the baseline must be older than later work.
                if not late:
                    os.utime(target, ns=(file.mtime, file.mtime))
        except OSError as error:
            raise LogError(f"{path!r} cannot be laid for the gates: {error}") from error
        self._laid[path] = (file, late, _stamp(str(target)))

    def _show(self, name: str, source: Path) -> None:
        """Creates a mount point, or a link."""
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not self.contained:
            target.symlink_to(source)
        # A mount point must be of the same kind as its source.
        elif source.is_dir():
            target.mkdir()
        else:
            target.touch()


def copy_folder(source: Path, target: Path) -> None:
    """Copies a folder with its links, modes and times; entries that are not files are skipped.

    Raises:
        OSError: It cannot be read or written.
    """

    def ignored(folder: str, names: list[str]) -> list[str]:
        kinds = [(name, (Path(folder) / name).lstat().st_mode) for name in names]
        return [n for n, m in kinds if not (stat.S_ISREG(m) or stat.S_ISDIR(m) or stat.S_ISLNK(m))]

    shutil.copytree(source, target, symlinks=True, ignore=ignored, copy_function=_copied)


def node_caches(packages: Path) -> list[str]:
    """Returns the existing cache folders of a `node_modules`."""
    folders = [(name, packages / name) for name in NODE_CACHES]
    return [name for name, folder in folders if folder.is_dir() and not folder.is_symlink()]


def _copied(source: str, target: str) -> str:
    # Sharing blocks is instant, but only some file systems can: any failure means a plain copy.
    with suppress(OSError), Path(source).open("rb") as old, Path(target).open("wb") as new:
        ioctl(new.fileno(), _FICLONE, old.fileno())
        shutil.copystat(source, target)
        return target
    return str(shutil.copy2(source, target))


def _stamp(path: str) -> Stamp:
    try:
        status = os.lstat(path)
    except OSError:
        return (0, 0, 0, 0)
    return (status.st_ino, status.st_ctime_ns, status.st_size, status.st_mode)


def parents_of(path: str) -> list[str]:
    return [path[:at] for at, sign in enumerate(path) if sign == "/"]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _clean(root: Path, folder: str, files: Collection[str], folders: Collection[str]) -> None:
    """Removes all but `files` and `folders`."""
    for entry in _entries(root / folder):
        path = f"{folder}/{entry.name}" if folder else entry.name
        if entry.is_dir(follow_symlinks=False):
            if path in folders:
                _clean(root, path, files, folders)
            else:
                remove_folder(root / path)
        elif path not in files:
            (root / path).unlink()


def remove_folder(folder: Path) -> None:
    """Removes a folder, also one that a gate made unreadable.

    Raises:
        LogError: It cannot be removed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        # A gate may have removed the permissions that are needed for removal.
        for inner, _, _ in os.walk(folder):
            with suppress(OSError):
                Path(inner).chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        raise LogError(f"{str(folder)!r} cannot be removed; gates need an empty folder there")


def _size(folder: Path) -> int:
    total = 0
    for here, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += (Path(here) / name).lstat().st_size
    return total
