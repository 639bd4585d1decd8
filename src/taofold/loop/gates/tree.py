"""Trees of files outside the work root, kept by content, in which gates run.

`KeptFile` is a file as it was, `TreeWalk` and `FileCache` find and read those of a work root.
`Tree` is where gates run: files by content, from the baseline and from the work. It is laid anew
for each gate: no gate sees what another wrote. Laying is cheap: what is as it was laid stays,
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
"""Bytes of a file whose content is kept; a larger one is used where it lies, if it is unchanged."""
MOST_FILES: Final = 200_000
"""Files, besides those of environments."""
MOST_BYTES: Final = 8_000_000_000
SKIPPED: Final = frozenset(
    {
        *(".git", ".hg", ".svn", ".taofold", "__pycache__", ".mypy_cache", ".ruff_cache"),
        *(".tox", ".pytest_cache", ".nox", ".hypothesis"),
    }
)
"""No gate sees these, whoever wrote them; of `.git` see `Tree`."""
NODE_MODULES: Final = "node_modules"
ENVIRONMENTS: Final = frozenset({NODE_MODULES, "__pypackages__"})
NODE_CACHES: Final = (".vite-temp", ".vite", ".vitest", ".cache")
"""Folders of `node_modules` that tools write to: Vite cannot even start without its own."""
TAG: Final = "CACHEDIR.TAG"
"""Marks a folder of build outputs: gates begin without those that lie in the work root."""
Stamp: TypeAlias = tuple[int, int, int, int]
_FICLONE: Final = 0x40049409
"""Linux: share the blocks of a file, copying them when either is written (btrfs, xfs)."""
_LARGEST_OUTPUT: Final = 2_000_000_000


class KeptFile(Value, frozen=True):
    """A file as it was: the digest of its content, or where the link leads."""

    digest: str = ""
    mode: int = 0
    link: str = ""
    stored: bool = True
    mtime: int = 0
    """Nanoseconds since the epoch; `make` compares them."""

    def same(self, other: "KeptFile | None") -> bool:
        """Equal but for the time, and for what the umask says of group and others."""
        if other is None:
            return False
        identity = (self.digest, self.link, self.mode & 0o755)
        return identity == (other.digest, other.link, other.mode & 0o755)


class TreeWalk:
    """What lies below `root`, no link followed."""

    def __init__(self, root: Path, without: Collection[str] = ()) -> None:
        self.files: list[str] = []
        self.environments: list[str] = []
        self.repositories: list[str] = []
        """What makes git take a folder for a repository, besides `.git` of the root."""
        todo = [""]
        while todo:
            todo += self._folder(root, todo.pop(), without)

    def _folder(self, root: Path, folder: str, without: Collection[str]) -> list[str]:
        try:
            with os.scandir(root / folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError:  # it vanished, or nobody may read it: no gate could either
            return []
        names = {entry.name for entry in entries}
        if folder and ("pyvenv.cfg" in names or folder.rpartition("/")[2] in ENVIRONMENTS):
            self.environments.append(folder)
            return []
        self._note_repositories(folder, names)
        # Build outputs are made again by the gate; see `Tree.built`.
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
    """Reads files of a tree; what did not change since the last look is not read again."""

    def __init__(self, root: Path, objects: Path) -> None:
        self._root, self._objects = root, objects
        self._seen: dict[str, tuple[tuple[int, ...], KeptFile]] = {}

    def kept(self, path: str) -> KeptFile | None:
        """What lies at `path` now, its content stored; None if nothing does.

        Links on the way are not followed: there is nothing behind one.
        """
        target = f"{self._root}/{path}"
        try:
            status = os.lstat(target)
            # Not as `Path`: this is asked of every file of a tree, in every verdict.
            if any([os.path.islink(f"{self._root}/{parent}") for parent in parents_of(path)]):  # noqa: PTH114
                return None
        except OSError:
            return None
        # Size and time can be set back by a program, the change time cannot.
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
        # Without O_NONBLOCK, opening a pipe that took the file's place would hang for ever.
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
    """Keep `content` under its digest, once."""
    target = objects / digest[:2] / digest
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_suffix(f".{os.getpid()}")
        temporary.write_bytes(content)
        # Renaming is atomic: a process that dies leaves no half content under a digest.
        temporary.rename(target)


def content(objects: Path, digest: str) -> bytes:
    """What was kept under `digest`.

    Raises:
        LogError: it is gone, or is not what was kept.
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

    Contained, gates see it in the place of the work root; otherwise where it lies, and folders
    that are only shown are links.
    """

    folder: Path
    root: Path
    """The work root."""
    objects: Path
    contained: bool
    shown: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Paths below the root that are not laid but shown read-only, and where they really are."""
    outputs: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Folders that every laying puts in place anew, and what is copied there."""
    _laid: dict[str, tuple[KeptFile, bool, Stamp]] = field(
        default_factory=dict[str, tuple[KeptFile, bool, Stamp]]
    )

    @property
    def seen(self) -> Path:
        """Where a gate finds it."""
        return self.root if self.contained else self.folder

    def host(self, path: Path) -> Path:
        """Where this process finds what a gate sees at `path`."""
        if not path.is_relative_to(self.seen):
            return path
        inner = path.relative_to(self.seen)
        for name, source in self.shown.items():
            if inner.is_relative_to(name):
                return source / inner.relative_to(name)
        return self.folder / inner

    def moved(self, path: str) -> str:
        """A path below the work root as a gate sees it; others as they are."""
        inside = path == str(self.root) or path.startswith(f"{self.root}/")
        return f"{self.seen}{path[len(str(self.root)) :]}" if inside else path

    def lay(self, files: Mapping[str, KeptFile], new: Collection[str]) -> None:
        """Make the tree hold exactly `files`; those in `new` are of now, others of their time.

        Raises:
            LogError: the baseline's own content was changed, or the tree cannot be laid.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        # What is shown is not laid beside it: in a worktree `.git` is a file like any other.
        files = {
            path: file
            for path, file in files.items()
            if file.stored and file.link != "\0other" and path not in self.shown
        }
        # Re-laying only what changed makes a verdict on a large tree cheap.
        standing = {path for path in self._laid if self._stands(path, files.get(path), path in new)}
        folders = {parent for path in files for parent in parents_of(path)}
        _clean(self.folder, "", standing, folders)
        self._laid = {path: self._laid[path] for path in standing}
        for path in sorted(files.keys() - standing):
            self._put(path, files[path], late=path in new)
        # Build outputs are the baseline's, copied anew: an agent's would be taken for up to date.
        for name, source in self.outputs.items():
            copy_folder(source, self.folder / name)
        for name, source in self.shown.items():
            self._show(name, source)

    def _stands(self, path: str, file: KeptFile | None, late: bool) -> bool:
        laid, was_late, stamp = self._laid[path]
        # The stamp says whether a gate touched a file: no program can set a change time.
        return laid == file and was_late == late and _stamp(f"{self.folder}/{path}") == stamp

    def touched(self) -> tuple[str, ...]:
        """Files that are not as they were laid, whatever is in them now."""
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
        """Folders of build outputs that a gate made in the tree."""
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
                # `make` compares times: what is of the baseline must be older
                # than what was done since.
                if not late:
                    os.utime(target, ns=(file.mtime, file.mtime))
        except OSError as error:
            raise LogError(f"{path!r} cannot be laid for the gates: {error}") from error
        self._laid[path] = (file, late, _stamp(str(target)))

    def _show(self, name: str, source: Path) -> None:
        """A mount point, or a link."""
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not self.contained:
            target.symlink_to(source)
        # A mount point must be of the same kind as what is mounted on it.
        elif source.is_dir():
            target.mkdir()
        else:
            target.touch()


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder with its links, modes and times; what is no file is left out.

    Raises:
        OSError: it cannot be read or written.
    """

    def ignored(folder: str, names: list[str]) -> list[str]:
        kinds = [(name, (Path(folder) / name).lstat().st_mode) for name in names]
        return [n for n, m in kinds if not (stat.S_ISREG(m) or stat.S_ISDIR(m) or stat.S_ISLNK(m))]

    shutil.copytree(source, target, symlinks=True, ignore=ignored, copy_function=_copied)


def node_caches(packages: Path) -> list[str]:
    """Returns the folders for caches that there are in a `node_modules`."""
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
    """Remove all but `files` and `folders`."""
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
    """Remove a folder, also one that a gate made unreadable.

    Raises:
        LogError: it cannot be removed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        # A gate may have taken away the rights that are needed to remove what it made.
        for inner, _, _ in os.walk(folder):
            with suppress(OSError):
                Path(inner).chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        raise LogError(f"{str(folder)!r} cannot be removed; gates do not run beside what is in it")


def _size(folder: Path) -> int:
    total = 0
    for here, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += (Path(here) / name).lstat().st_size
    return total
