"""The states of a work root, stored by content in a git store outside of it.

`Snapshots` takes them, compares and restores them; `shadow` opens the store. Files that the project
ignores are neither kept nor removed. Links are kept as links and never followed. A snapshot costs
as much as the changes since the last one. `git` runs the commands.
"""

import os
import re
import stat
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from taofold import trusted_code
from taofold.core.errors import ConfigError, RunError
from taofold.core.text import excerpt
from taofold.core.values import Value
from taofold.loop.git import Git, nul
from taofold.tools.jail import Jail

MADE_AGAIN: Final = (
    *(".taofold/", "__pycache__/", "*.pyc", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/"),
    *(".venv", "node_modules", ".hypothesis/", ".tox/", ".nox/", ".coverage", "target/debug/"),
    *("target/release/", ".DS_Store"),
)
"""Caches and installed packages, also behind links: never kept, and no loss."""
INSTALLED: Final = (".venv", "node_modules")
"""Those of them that hold installed packages."""
_NAMES: Final = frozenset([pattern.rstrip("/") for pattern in MADE_AGAIN])
_BUILT: Final = tuple([pattern for pattern in MADE_AGAIN if "/" in pattern.rstrip("/")])
"""Those of them that are a folder in a folder."""
PLAIN: Final = "* -text -eol -filter -ident -working-tree-encoding\n"
LARGEST: Final = 32_000_000
"""The most bytes of a file; larger ones are skipped and listed."""
MOST_FILES: Final = 200_000
"""The most files."""
DIFF: Final = 200_000
"""The most characters of a diff."""
_EMPTY: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_LINK: Final = "120000"
_PACKS: Final = (2, 39)
"""The first version of git known to write all contents of a command into one pack."""


class TreeSnapshot(Value, frozen=True):
    """A state of the tree. Equal trees have equal ids."""

    id: str
    label: str = ""
    files: int = 0
    skipped: tuple[str, ...] = ()
    """Files that were too large to keep."""


@dataclass(frozen=True, slots=True)
class Snapshots(Git):
    """Our own store for the states of one tree, outside of it.

    Example: `Snapshots(store, tree, store / "index").take(None, "before iteration 1").id`.
    """

    def take(self, project: Git | None, label: str = "") -> TreeSnapshot:
        """Takes a snapshot of the current tree.

        Raises:
            RunError: There are too many files, or git failed.
        """
        tracked = self.names("ls-files", "-z", "--cached")
        names = dict.fromkeys(self.names("ls-files", "-z", "--others", "--exclude-standard"))
        # Files in the index that are now ignored are kept too: `--others` does not list them.
        names |= dict.fromkeys(tracked)
        if project is not None:  # tracked although ignored
            with suppress(RunError):
                at = ["-C", str(self.tree)]
                names |= dict.fromkeys(project.names(*at, "ls-files", "-z", "--cached"))
        if len(names) > MOST_FILES:
            raise RunError(
                f"{str(self.tree)!r} has {len(names):,} files; snapshots keep {MOST_FILES:,}"
            )
        stored: list[str] = []
        gone: list[str] = []
        skipped: list[str] = []
        links: dict[str, bool] = {}
        for name in names:
            _sort(self.tree, name, links, stored, gone, skipped)
        # Removed first: where a file replaced a folder the index cannot hold both.
        self.run("update-index", "-z", "--force-remove", "--stdin", stdin=nul([*gone, *skipped]))
        self.run(
            *("update-index", "-z", "--add", "--remove", "--replace", "--stdin"),
            stdin=nul(stored),
            more=self._one_pack(),
        )
        return TreeSnapshot(self.text("write-tree"), label, len(stored), tuple(skipped))

    def _one_pack(self) -> dict[str, str]:
        """Returns variables with which git writes new contents into one pack.

        Git does so for files that it considers large: here all of them. An older git would write
        one pack per file.
        """
        if _version(trusted_code.program("git", self.tree)) < _PACKS:
            return {}
        setting = {"GIT_CONFIG_KEY_0": "core.bigFileThreshold", "GIT_CONFIG_VALUE_0": "1"}
        return {"GIT_CONFIG_COUNT": "1", **setting}

    def changed(self, a: str, b: str) -> tuple[str, ...]:
        """Returns the paths that differ between two snapshots."""
        return self.names("diff-tree", "-r", "-z", "--name-only", "--no-renames", a or _EMPTY, b)

    def diff(self, a: str, b: str, limit: int = DIFF) -> str:
        """Returns the unified diff between two snapshots, shortened to about `limit` characters."""
        flags = ["--no-renames", "--no-color", "--no-ext-diff", "--no-textconv", "-p"]
        raw = self.run("diff-tree", "-r", *flags, a or _EMPTY, b)
        return excerpt(raw.decode("utf-8", "replace"), limit)

    def content(self, snapshot: str, path: str) -> bytes | None:
        """Returns a file of a snapshot; None if it was missing, or is a link."""
        for mode, blob, name in self._entries(snapshot, [path]):
            if name == path and mode != _LINK:
                return self.run("cat-file", "blob", blob)
        return None

    def restore(self, snapshot: str, now: str, only: Sequence[str] | None = None) -> list[str]:
        """Changes the tree from the state `now` to `snapshot`; returns the touched paths.

        `only` limits the paths. Files that snapshots do not keep stay unchanged.
        """
        paths = [p for p in self.changed(now, snapshot) if only is None or p in only]
        entries = {name: (mode, blob) for mode, blob, name in self._entries(snapshot, paths)}
        for path in paths:
            if path not in entries:
                _remove(self.tree, path)
        for path, (mode, blob) in entries.items():
            write(self.tree, path, mode, self.run("cat-file", "blob", blob))
        return paths

    def _entries(self, snapshot: str, paths: Sequence[str]) -> list[tuple[str, str, str]]:
        """Returns mode, blob and name of these paths, if the snapshot has them."""
        if not paths:
            return []
        names = set(paths)
        entries: list[tuple[str, str, str]] = []
        for line in self.names("ls-tree", "-r", "-z", snapshot):
            head, _, name = line.partition("\t")
            if name in names:
                mode, _, blob = head.split(" ")
                entries.append((mode, blob, name))
        return entries

    def whole(self, top: Path) -> str:
        """Takes a snapshot of the whole worktree, of which the work root is a part."""
        return Snapshots(self.store, top, self.store / "top.index").take(None).id

    def ignored(self, root: Path) -> list[str]:
        """Returns ignored files that no snapshot has, without caches and the like."""
        names = self.names(
            "ls-files", "-z", "--others", "--ignored", "--exclude-per-directory=.gitignore"
        )
        return [path for path in names if not _made_again(path) and (root / path).exists()]

    def repositories(self) -> list[str]:
        """Returns nested repositories, whose files no snapshot has."""
        names = self.names("ls-files", "-z", "--others", "--exclude-standard")
        return [path for path in names if path.endswith("/")]


def shadow(folder: Path, root: Path) -> Snapshots:
    """Opens or creates our store in `folder` for the tree at `root`.

    Raises:
        ConfigError: Git is not installed.
    """
    if not trusted_code.program("git", root):
        raise ConfigError("a loop keeps snapshots with git, and git is not installed")
    store = folder / "snapshots.git"
    git = Snapshots(store, root, store / "index")
    if not (store / "HEAD").exists():
        folder.mkdir(parents=True, exist_ok=True)
        git.run("init", "--quiet", "--template=", str(root))
    (store / "info").mkdir(exist_ok=True)
    (store / "info" / "exclude").write_text("\n".join(MADE_AGAIN) + "\n", encoding="utf-8")
    (store / "info" / "attributes").write_text(PLAIN, encoding="utf-8")
    return git


@cache
def _version(git: str) -> tuple[int, ...]:
    """Returns the version of this git, such as (2, 39)."""
    done = subprocess.run([git, "version"], capture_output=True, text=True, check=False)
    match = re.search(r"(\d+)\.(\d+)", done.stdout)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _sort(
    tree: Path,
    name: str,
    links: dict[str, bool],
    stored: list[str],
    gone: list[str],
    skipped: list[str],
) -> None:
    """Sorts a path into kept, missing, or too large.

    `links` caches the folders that are links, for one pass over the tree.
    """
    if name.endswith("/"):
        return  # another repository, whose files are not part of this one
    try:
        status = os.lstat(f"{tree}/{name}")
    except OSError:
        gone.append(name)
        return
    if _below_link(tree, name.rpartition("/")[0], links):
        gone.append(name)
    elif stat.S_ISLNK(status.st_mode) or (
        stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST
    ):
        stored.append(name)
    elif stat.S_ISREG(status.st_mode):
        skipped.append(name)
    else:
        gone.append(name)


def _below_link(tree: Path, folder: str, links: dict[str, bool]) -> bool:
    """Returns whether the folder is a link, or lies in one."""
    if folder not in links:
        above, slash, _ = folder.rpartition("/")
        links[folder] = os.path.islink(f"{tree}/{folder}") or (  # noqa: PTH114 - asked often
            bool(slash) and _below_link(tree, above, links)
        )
    return links[folder]


def write(tree: Path, path: str, mode: str, data: bytes) -> None:
    """Writes one file or link, without following links on the way."""
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
    # Written through descriptors: no link on the way is followed, even one created concurrently.
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
        # Git stores only the executable bit of the mode; the other bits stay.
        old = stat.S_IMODE(os.fstat(fd).st_mode)
        os.fchmod(fd, old | 0o111 if mode.endswith("755") else old & ~0o111)
        os.close(fd)


def _remove(tree: Path, path: str) -> None:
    parts = path.split("/")
    with suppress(OSError, ValueError), Jail(tree, (), ()).directory(tuple(parts[:-1])) as folder:
        os.unlink(parts[-1], dir_fd=folder)
    for parent in list((tree / path).parents)[: len(parts) - 1]:
        with suppress(OSError):
            # Git has no empty folders: one that held only removed files is removed too.
            parent.rmdir()


def _empty(top: Path) -> None:
    """Removes a directory in the place of a file. It may hold only empty directories."""
    # The innermost first; `rmdir` fails on anything that is not empty.
    for folder, _, _ in sorted(os.walk(top), reverse=True):
        Path(folder).rmdir()


def _made_again(name: str) -> bool:
    *folders, last = name.rstrip("/").split("/")
    if last in _NAMES or last.endswith(".pyc"):
        return True
    inside = not _NAMES.isdisjoint(folders)
    return inside or any([folder in name for folder in _BUILT])
