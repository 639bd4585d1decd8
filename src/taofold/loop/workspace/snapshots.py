"""The state of a work root, kept by content: snapshots, differences, restoring.

What the project ignores is left alone: it is neither kept nor removed. Links are kept as
links and never followed. A snapshot costs as much as what changed since the last one.
"""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from taofold.core.errors import RunError
from taofold.core.text import excerpt
from taofold.core.values import Value
from taofold.loop.workspace.git import Git, nul
from taofold.tools.jail import Jail

LARGEST: Final = 32_000_000
"""Bytes of a file; larger ones are left out and named."""
MOST: Final = 200_000
"""Files."""
DIFF: Final = 200_000
"""Characters of a diff."""
_EMPTY: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_LINK: Final = "120000"


class TreeSnapshot(Value, frozen=True):
    """A state of the tree. Equal trees have equal ids."""

    id: str
    label: str = ""
    files: int = 0
    skipped: tuple[str, ...] = ()
    """Files that were too large to keep."""


def take(git: Git, project: Git | None, label: str = "") -> TreeSnapshot:
    """Keep the tree as it is now.

    Raises:
        RunError: there are too many files, or git failed.
    """
    tracked = git.names("ls-files", "-z", "--cached")
    names = dict.fromkeys(git.names("ls-files", "-z", "--others", "--exclude-standard"))
    names |= dict.fromkeys(tracked)
    if project is not None:  # tracked although ignored
        with suppress(RunError):
            at = ["-C", str(git.tree)]
            names |= dict.fromkeys(project.names(*at, "ls-files", "-z", "--cached"))
    if len(names) > MOST:
        raise RunError(f"{len(names):,} files in {str(git.tree)!r}; snapshots take {MOST:,}")
    stored: list[str] = []
    gone: list[str] = []
    skipped: list[str] = []
    for name in names:
        _sort(git.tree, name, stored, gone, skipped)
    git.run("update-index", "-z", "--force-remove", "--stdin", given=nul([*gone, *skipped]))
    git.run("update-index", "-z", "--add", "--remove", "--replace", "--stdin", given=nul(stored))
    return TreeSnapshot(git.text("write-tree"), label, len(stored), tuple(skipped))


def _sort(tree: Path, name: str, kept: list[str], gone: list[str], skipped: list[str]) -> None:
    """Into what is kept, what is there no more, and what is too large."""
    if name.endswith("/"):
        return  # another repository, whose files are its own business
    try:
        status = (tree / name).lstat()
    except OSError:
        gone.append(name)
        return
    if any([(tree / parent).is_symlink() for parent in Path(name).parents]):
        gone.append(name)
    elif stat.S_ISLNK(status.st_mode) or (
        stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST
    ):
        kept.append(name)
    elif stat.S_ISREG(status.st_mode):
        skipped.append(name)
    else:
        gone.append(name)


def changed(git: Git, a: str, b: str) -> tuple[str, ...]:
    """Paths that differ between two snapshots."""
    return git.names("diff-tree", "-r", "-z", "--name-only", "--no-renames", a or _EMPTY, b)


def diff(git: Git, a: str, b: str, limit: int = DIFF) -> str:
    """The unified diff between two snapshots, shortened to about `limit` characters."""
    flags = ["--no-renames", "--no-color", "--no-ext-diff", "--no-textconv", "-p"]
    raw = git.run("diff-tree", "-r", *flags, a or _EMPTY, b)
    return excerpt(raw.decode("utf-8", "replace"), limit)


def content(git: Git, snapshot: str, path: str) -> bytes | None:
    """A file of a snapshot; None if it was not there, or is a link."""
    for mode, blob, name in _entries(git, snapshot, [path]):
        if name == path and mode != _LINK:
            return git.run("cat-file", "blob", blob)
    return None


def restore(git: Git, snapshot: str, now: str, only: Sequence[str] | None = None) -> list[str]:
    """Make the tree, which is at `now`, the one of `snapshot`; what was touched.

    `only` some of its paths. Files that snapshots do not keep stay as they are.
    """
    paths = [p for p in changed(git, now, snapshot) if only is None or p in only]
    entries = {name: (mode, blob) for mode, blob, name in _entries(git, snapshot, paths)}
    for path in paths:
        if path not in entries:
            _remove(git.tree, path)
    for path, (mode, blob) in entries.items():
        write(git.tree, path, mode, git.run("cat-file", "blob", blob))
    return paths


def write(tree: Path, path: str, mode: str, data: bytes) -> None:
    """Put one file or link in place, following no link on the way."""
    parts = path.split("/")
    for count in range(1, len(parts) + 1):
        target = tree.joinpath(*parts[:count])
        if not os.path.lexists(target):
            break
        if target.is_symlink() or (count < len(parts) and not target.is_dir()):
            target.unlink()
            break
        if count == len(parts) and target.is_dir():
            _empty(target)
    jail = Jail(tree, (), ())
    if mode == _LINK:
        with jail.directory(tuple(parts[:-1]), create=True) as folder:
            with suppress(FileNotFoundError):
                os.unlink(parts[-1], dir_fd=folder)
            os.symlink(os.fsdecode(data), parts[-1], dir_fd=folder)
        return
    jail.write(path, data)
    with jail.directory(tuple(parts[:-1])) as folder:
        fd = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        old = stat.S_IMODE(os.fstat(fd).st_mode)
        os.fchmod(fd, old | 0o111 if mode.endswith("755") else old & ~0o111)
        os.close(fd)


def _remove(tree: Path, path: str) -> None:
    parts = path.split("/")
    with suppress(OSError, ValueError), Jail(tree, (), ()).directory(tuple(parts[:-1])) as folder:
        os.unlink(parts[-1], dir_fd=folder)
    for parent in list((tree / path).parents)[: len(parts) - 1]:
        with suppress(OSError):
            parent.rmdir()


def _empty(place: Path) -> None:
    """A directory where a file is wanted: it may hold nothing but what was removed already."""
    for folder, _, _ in sorted(os.walk(place), reverse=True):
        Path(folder).rmdir()


def _entries(git: Git, snapshot: str, paths: Sequence[str]) -> list[tuple[str, str, str]]:
    """Mode, blob and name of these paths, where the snapshot has them."""
    if not paths:
        return []
    names = set(paths)
    entries: list[tuple[str, str, str]] = []
    for line in git.names("ls-tree", "-r", "-z", snapshot):
        head, _, name = line.partition("\t")
        if name in names:
            mode, _, blob = head.split(" ")
            entries.append((mode, blob, name))
    return entries
