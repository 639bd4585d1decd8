"""Merges the changes of a worktree into the folder from which it was made.

`merge` compares three states: the one with which the worktree began, the folder's and the
worktree's. A file that only the worktree changed is taken. A file that both changed is merged by
`git merge-file`. Any other file stays as it is in the folder, as an open conflict. Repeated after
an interruption with the same states, a merge ends as an uninterrupted one.
"""

import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import Path
from typing import Final, Literal, NamedTuple

from taofold.core.errors import RunError
from taofold.tools.jail import Jail
from taofold.workspace.git import Git
from taofold.workspace.snapshots import LINK, Snapshots, TreeEntry, change_mode, remove, write

ConflictKind = Literal[
    "lines",
    "binary",
    "large",
    "deleted",
    "added",
    "link",
    "mode",
    "folder",
    "changed",
    "unwritable",
]
MOST_MERGED: Final = 5_000_000
"""The most bytes of a file whose lines are merged."""
_LOOKED_AT: Final = 8_000
"""Bytes at the start of a file in which a NUL means a binary file, as in git."""
_CONFLICTS: Final = range(128)
"""Exit codes of `git merge-file`: the number of conflicts."""


class StoredFile(NamedTuple):
    """A file or link of a state."""

    blob: str
    mode: int
    """Permissions of a file; `S_IFLNK` for a link."""
    size: int


class MergeConflict(NamedTuple):
    """A file that was not merged. The folder has its own version, the worktree the other one.

    `kind`: `lines` (both changed the same lines), `binary`, `large`, `deleted` (one deleted it, the
    other changed it), `added` (both added it), `link`, `mode`, `folder` (a file is where a folder
    is needed, or a folder where a file is), `changed` (during the merge, or no state holds it),
    `unwritable`.
    """

    kind: ConflictKind
    path: str


class Merged(NamedTuple):
    """The result of a merge."""

    paths: tuple[str, ...]
    """The files of the folder that have the worktree's changes now."""
    conflicts: tuple[MergeConflict, ...]


class _Target(NamedTuple):
    """The state that a path is to have. `data` is the content if it is a new one."""

    file: StoredFile | None
    data: bytes | None = None


States = tuple[Mapping[str, StoredFile], Mapping[str, StoredFile], Mapping[str, StoredFile]]
"""The files of the base, of the folder and of the worktree, by path."""


def merge(git: Snapshots, states: States) -> Merged:
    """Merges a worktree's changes into the tree of `git`. Keep other writers of the store out.

    Raises:
        RunError: Git failed.
    """
    plan = _Plan(git, *states)
    for path in sorted({*plan.base, *plan.theirs}):
        plan.decide(path)
    return plan.apply()


def merged_lines(git: Git, ours: bytes, base: bytes, theirs: bytes) -> bytes | None:
    """Returns a text with the changes of both sides; None if they overlap.

    Raises:
        RunError: Git failed.
    """
    # Beside the store, where no agent can write.
    with tempfile.TemporaryDirectory(dir=git.store.parent) as folder:
        paths = [Path(folder) / name for name in ("ours", "base", "theirs")]
        for path, data in zip(paths, (ours, base, theirs), strict=True):
            path.write_bytes(data)
        words = ("merge-file", "-p", "--quiet", *map(str, paths))
        try:
            return git.run(*words)
        except RunError:
            # Any other exit code than the number of conflicts is raised here again.
            git.run(*words, codes=_CONFLICTS)
            return None


@dataclass(slots=True)
class _Plan:
    git: Snapshots
    base: Mapping[str, StoredFile]
    ours: Mapping[str, StoredFile]
    theirs: Mapping[str, StoredFile]
    targets: dict[str, _Target] = field(default_factory=dict[str, _Target])
    conflicts: dict[str, ConflictKind] = field(default_factory=dict[str, ConflictKind])

    def decide(self, path: str) -> None:
        """Decides which state a path is to have."""
        base, ours, theirs = [files.get(path) for files in (self.base, self.ours, self.theirs)]
        if theirs in (base, ours):
            return
        target = _Target(theirs) if ours == base else self._both(base, ours, theirs)
        if isinstance(target, _Target):
            self.targets[path] = target
        else:
            self.conflicts[path] = target

    def _both(
        self, base: StoredFile | None, ours: StoredFile | None, theirs: StoredFile | None
    ) -> _Target | ConflictKind:
        """Returns the state of a path that both changed, or why there is none."""
        if ours is None or theirs is None:
            return "deleted"
        if stat.S_IFLNK in (ours.mode, theirs.mode):
            return "link"
        if base is None or base.mode == stat.S_IFLNK:
            return "mode" if ours.blob == theirs.blob else "added"
        modes = {ours.mode, theirs.mode} - {base.mode}
        if len(modes) > 1:
            return "mode"
        mode = modes.pop() if modes else base.mode
        if base.blob in (ours.blob, theirs.blob) or ours.blob == theirs.blob:
            changed = ours if theirs.blob == base.blob else theirs
            return _Target(changed._replace(mode=mode))
        merged = self._lines(base, ours, theirs)
        if isinstance(merged, bytes):
            return _Target(StoredFile(_blob(merged), mode, len(merged)), merged)
        return merged

    def _lines(self, *versions: StoredFile) -> bytes | ConflictKind:
        """Returns the lines of base, ours and theirs merged, or why they cannot be."""
        if max(it.size for it in versions) > MOST_MERGED:
            return "large"
        base, ours, theirs = [data for _, data in self.git.contents(_entries(versions))]
        if any(b"\0" in data[:_LOOKED_AT] for data in (base, ours, theirs)):
            return "binary"
        merged = merged_lines(self.git, ours, base, theirs)
        return "lines" if merged is None else merged

    def apply(self) -> Merged:
        """Changes the tree, each path only if it is as it was, and not by following links."""
        landed: list[str] = []
        gone = sorted([path for path, it in self.targets.items() if it.file is None], reverse=True)
        for path in gone:
            landed += self._apply(path, b"")
        written = {path: it for path, it in self.targets.items() if it.file is not None}
        stored = [path for path, it in written.items() if it.data is None]
        entries = _entries([_file(written[path]) for path in stored], stored)
        for entry, data in self.git.contents(entries):
            landed += self._apply(entry.name, data)
        for path, target in written.items():
            if target.data is not None:
                landed += self._apply(path, target.data)
        conflicts = [MergeConflict(kind, path) for path, kind in self.conflicts.items()]
        return Merged(tuple(sorted(landed)), tuple(sorted(conflicts, key=lambda it: it.path)))

    def _apply(self, path: str, data: bytes) -> list[str]:
        """Changes one path; returns it, or nothing if it stays as it is."""
        target = self.targets[path].file
        try:
            now = _found(self.git.tree, path)
            if now != target:
                if now != self.ours.get(path):
                    self.conflicts[path] = "changed"
                    return []
                _change(self.git.tree, path, now, target, data)
        except _Clash:
            self.conflicts[path] = "folder"
            return []
        except (OSError, ValueError):
            self.conflicts[path] = "unwritable"
            return []
        return [path]


class _Clash(Exception):
    """A folder with files is where a file is to be, or a file or link where a folder is."""


def _change(
    tree: Path, path: str, now: StoredFile | None, target: StoredFile | None, data: bytes
) -> None:
    if target is None:
        remove(tree, path)
        return
    if now is None or now.blob != target.blob or stat.S_IFLNK in (now.mode, target.mode):
        mode = "100755" if target.mode & 0o111 else "100644"
        write(tree, path, LINK if target.mode == stat.S_IFLNK else mode, data)
    if target.mode != stat.S_IFLNK:
        change_mode(tree, path, target.mode)


def _found(tree: Path, path: str) -> StoredFile | None:
    """Returns the file or link that is at a path now; None if there is none.

    Raises:
        _Clash: A folder with files is there, or something else than a folder on the way to it.
    """
    *above, name = path.split("/")
    try:
        for each in _folders(path):
            if not stat.S_ISDIR(os.lstat(tree / each).st_mode):
                raise _Clash
        with Jail(tree, (), ()).directory(tuple(above)) as folder:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                data = os.fsencode(os.readlink(name, dir_fd=folder))
                return StoredFile(_blob(data), stat.S_IFLNK, len(data))
            if stat.S_ISDIR(status.st_mode) and _is_hollow(name, folder):
                return None
            if not stat.S_ISREG(status.st_mode):
                raise _Clash
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            with open(os.open(name, flags, dir_fd=folder), "rb") as file:  # noqa: PTH123
                data = file.read()
            return StoredFile(_blob(data), stat.S_IMODE(status.st_mode) & 0o777, len(data))
    except FileNotFoundError:
        return None
    except ValueError as error:  # a folder became a link, or is gone
        raise _Clash from error


def _is_hollow(name: str, folder: int) -> bool:
    return not any(files for _, _, files, _ in os.fwalk(name, dir_fd=folder))


def _folders(path: str) -> list[str]:
    """Returns the folders around a path."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _file(target: _Target) -> StoredFile:
    assert target.file is not None
    return target.file


def _entries(files: Sequence[StoredFile], names: Sequence[str] = ()) -> list[TreeEntry]:
    paths = names or [""] * len(files)
    return [TreeEntry("", it.blob, it.size, path) for it, path in zip(files, paths, strict=True)]


def _blob(data: bytes) -> str:
    """Returns git's id of a content."""
    return sha1(b"blob %d\0%s" % (len(data), data), usedforsecurity=False).hexdigest()
