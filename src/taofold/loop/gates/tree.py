"""Lays the tree in which gates run: files by content, from the baseline and from the work.

The tree lies outside the work root and is reused: what is as it was laid stays, everything else
is removed or laid again. A file counts as untouched while its inode and its change time are those
of the laying; no program can set a change time. Knows nothing about verdicts.
"""

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
from taofold.loop.gates.baseline import TAG, KeptFile, content

Stamp: TypeAlias = tuple[int, int, int, int]
_FICLONE: Final = 0x40049409
"""Linux: share the blocks of a file, copying them when either is written (btrfs, xfs)."""
_LARGEST_OUTPUT: Final = 2_000_000_000


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
        # Re-laying only what changed makes a verdict on a large tree cheap; the stamp says whether
        # a gate touched a file, and no program can set a change time.
        standing = {
            path
            for path, (file, late, stamp) in self._laid.items()
            if path in files
            and files[path] == file
            and late == (path in new)
            and _stamp(self.folder / path) == stamp
        }
        folders = {parent for path in files for parent in _parents(path)}
        _clean(self.folder, "", standing, folders)
        self._laid = {path: self._laid[path] for path in standing}
        for path in sorted(files.keys() - standing):
            self._put(path, files[path], late=path in new)
        # Build outputs are the baseline's, copied anew: an agent's would be taken for up to date.
        for name, source in self.outputs.items():
            copied(source, self.folder / name)
        for name, source in self.shown.items():
            self._show(name, source)

    def touched(self) -> tuple[str, ...]:
        """Files that are not as they were laid, whatever is in them now."""
        return tuple(
            [p for p, (_, _, stamp) in self._laid.items() if _stamp(self.folder / p) != stamp]
        )

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
        self._laid[path] = (file, late, _stamp(target))

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


def copied(source: Path, target: Path) -> None:
    """Copy a folder with its links, modes and times; what is no file is left out.

    Raises:
        OSError: it cannot be read or written.
    """

    def ignored(folder: str, names: list[str]) -> list[str]:
        kinds = [(name, (Path(folder) / name).lstat().st_mode) for name in names]
        return [n for n, m in kinds if not (stat.S_ISREG(m) or stat.S_ISDIR(m) or stat.S_ISLNK(m))]

    shutil.copytree(source, target, symlinks=True, ignore=ignored, copy_function=_copied)


def _copied(source: str, target: str) -> str:
    # Sharing blocks is instant, but only some file systems can: any failure means a plain copy.
    with suppress(OSError), Path(source).open("rb") as old, Path(target).open("wb") as new:
        ioctl(new.fileno(), _FICLONE, old.fileno())
        shutil.copystat(source, target)
        return target
    return str(shutil.copy2(source, target))


def _stamp(path: Path) -> Stamp:
    try:
        status = path.lstat()
    except OSError:
        return (0, 0, 0, 0)
    return (status.st_ino, status.st_ctime_ns, status.st_size, status.st_mode)


def _parents(path: str) -> list[str]:
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
                removed(root / path)
        elif path not in files:
            (root / path).unlink()


def removed(folder: Path) -> None:
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
