"""The states of a work root, stored by content in a git store outside of it.

`Snapshots` takes them, compares and restores them; `shadow` opens the store. Files that the project
ignores are neither kept nor removed. Links are kept as links and never followed. A snapshot costs
as much as the changes since the last one. `git` runs the commands.
"""

import os
import re
import secrets
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from taofold import reserved_places, trusted_code
from taofold.core.errors import ConfigError, RunError
from taofold.core.text import excerpt
from taofold.core.values import Value
from taofold.reserved_places import is_same_name
from taofold.tools.jail import Jail
from taofold.workspace.git import Git, nul

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
_TOGETHER: Final = 64_000_000
"""About the most bytes that are read from the store at once."""
_EMPTY: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
LINK: Final = "120000"
"""The mode of a link in a tree of git."""
_SUBMODULE: Final = "160000 "
"""The beginning of the line of a submodule in the index."""
_PACKS: Final = (2, 39)
"""The first version of git known to write all contents of a command into one pack."""


class TreeSnapshot(Value, frozen=True):
    """A state of the tree. Equal trees have equal ids."""

    id: str
    label: str = ""
    files: int = 0
    skipped: tuple[str, ...] = ()
    """Files that were too large to keep."""


class TreeEntry(NamedTuple):
    """A file or link of a snapshot."""

    mode: str
    blob: str
    size: int
    name: str


class Staged(NamedTuple):
    """The differences between an index and its tree."""

    stored: tuple[str, ...]
    """New and changed files and links."""
    gone: tuple[str, ...]
    skipped: tuple[str, ...]
    """Files that are too large to keep."""
    left_out: tuple[str, ...]
    """Nested repositories, and names that git does not keep."""
    indexed: frozenset[str]
    """The files in the index that differ."""

    @property
    def changes(self) -> bool:
        """True if the index is not the state of the tree."""
        return bool(self.stored or not self.indexed.isdisjoint((*self.gone, *self.skipped)))


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
        tracked: Sequence[str] = ()
        if project is not None:  # tracked although ignored
            with suppress(RunError):
                at = ["-C", str(self.tree)]
                tracked = project.names(*at, "ls-files", "-z", "-c", "-i", "--exclude-standard")
        staged = self.staged(tracked)
        self.add(staged)
        return TreeSnapshot(self.text("write-tree"), label, self.count(), staged.skipped)

    def staged(self, more: Sequence[str] = ()) -> Staged:
        """Returns the differences between the index and the tree; `more` are further paths.

        Raises:
            RunError: There are too many files, or git failed.
        """
        # Files in the index that are now ignored are kept too: `--others` does not list them.
        with ThreadPoolExecutor(1) as pool:
            differing = pool.submit(self.names, "diff-files", "-z", "--name-only")
            new = self.names("ls-files", "-z", "--others", "--exclude-standard")
        indexed = frozenset(differing.result())
        names = dict.fromkeys((*differing.result(), *new, *more))
        stored: list[str] = []
        gone: list[str] = []
        skipped: list[str] = []
        left_out: list[str] = []
        links: dict[str, bool] = {}
        for name in names:
            if name.endswith("/") or _is_unkept(name):
                left_out.append(name)
            elif not reserved_places.holds(self.tree, self.tree / name):
                _sort(self.tree, name, links, stored, gone, skipped)
        known = indexed.union(self.tracked() if more else ())
        files = self.count() + len({*stored} - known) - len(indexed & {*gone, *skipped})
        if files > MOST_FILES:
            raise RunError(f"{str(self.tree)!r} has {files:,} files; snapshots keep {MOST_FILES:,}")
        return Staged(tuple(stored), tuple(gone), tuple(skipped), tuple(left_out), indexed)

    def add(self, staged: Staged, *, few: int = 0) -> None:
        """Brings the index to the state of the tree.

        Up to `few` changed files are stored one by one, more of them in one pack.

        Raises:
            RunError: Git failed.
        """
        gone = (*staged.gone, *staged.skipped)
        if gone:
            # Removed first: where a file replaced a folder the index cannot hold both.
            self.run("update-index", "-z", "--force-remove", "--stdin", stdin=nul(gone))
        if staged.stored:
            self.run(
                *("update-index", "-z", "--add", "--remove", "--replace", "--stdin"),
                stdin=nul(staged.stored),
                more=self._one_pack() if len(staged.stored) > few else None,
            )
        if not staged.indexed.issuperset(staged.stored):
            self._remove_repositories()

    def _remove_repositories(self) -> None:
        """Removes repositories from the index that replaced a file while it was stored.

        Git would keep one as a submodule, and run its status, with its filters, at the next state.
        """
        entries = self.names("ls-files", "-s", "-z")
        found = [entry.partition("\t")[2] for entry in entries if entry.startswith(_SUBMODULE)]
        if found:
            self.run("update-index", "-z", "--force-remove", "--stdin", stdin=nul(found))

    def tracked(self) -> tuple[str, ...]:
        """Returns the files in the index."""
        return self.names("ls-files", "-z", "--cached")

    def count(self) -> int:
        """Returns the number of files in the index."""
        # The header of an index: a signature, the version, the number of entries (gitformat-index).
        try:
            with (self.index or self.store / "index").open("rb") as file:
                return int.from_bytes(file.read(12)[8:])
        except FileNotFoundError:
            return 0

    def checksum(self) -> str:
        """Returns the checksum of the index; "" if there is none."""
        try:
            with (self.index or self.store / "index").open("rb") as file:
                file.seek(-20, os.SEEK_END)
                return file.read().hex()
        except FileNotFoundError:
            return ""

    def _one_pack(self) -> dict[str, str]:
        """Returns variables with which git writes new contents into one pack.

        Git does so for files that it considers large: here all of them. An older git would write
        one pack per file.
        """
        if _version(trusted_code.program("git", self.tree)) < _PACKS:
            return {}
        setting = {"GIT_CONFIG_KEY_0": "core.bigFileThreshold", "GIT_CONFIG_VALUE_0": "1"}
        return {"GIT_CONFIG_COUNT": "1", **setting}

    def composed(
        self, base: str, source: str, paths: Sequence[str], texts: Mapping[str, str]
    ) -> str:
        """Returns a snapshot of `base` with `paths` as in `source`, or with the given texts."""
        self.run("read-tree", base)
        entries = {it.name: (it.mode, it.blob) for it in self.entries(source, paths)}
        lines: list[str] = []
        for path in paths:
            mode, blob = entries.get(path, ("0", "0" * 40))
            if path in texts:
                data = texts[path].encode("utf-8", "surrogateescape")
                blob = self.run("hash-object", "-w", "--stdin", stdin=data).decode().strip()
                mode = mode if mode != "0" else "100644"
            lines.append(f"{mode} {blob}\t{path}")
        self.run("update-index", "-z", "--index-info", stdin=nul(lines))
        return self.text("write-tree")

    def changed(self, a: str, b: str) -> tuple[str, ...]:
        """Returns the paths that differ between two snapshots."""
        return self.names("diff-tree", "-r", "-z", "--name-only", "--no-renames", a or _EMPTY, b)

    def diff(
        self, a: str, b: str, limit: int = DIFF, *, more: Mapping[str, str] | None = None
    ) -> str:
        """Returns the unified diff between two snapshots, shortened to about `limit` characters."""
        flags = ["--no-renames", "--no-color", "--no-ext-diff", "--no-textconv", "-p"]
        raw = self.run("diff-tree", "-r", *flags, a or _EMPTY, b, more=more)
        return excerpt(raw.decode("utf-8", "replace"), limit)

    def content(self, snapshot: str, path: str) -> bytes | None:
        """Returns a file of a snapshot; None if it was missing, or is a link."""
        found = self.files(snapshot, [path])[path]
        return None if found is None else found[1]

    def files(self, snapshot: str, paths: Sequence[str]) -> dict[str, tuple[int, bytes] | None]:
        """Returns mode and content of these files of a snapshot; None if missing, or a link."""
        found: dict[str, tuple[int, bytes] | None] = dict.fromkeys(paths)
        for entry, data in self.contents(self.entries(snapshot, paths)):
            if entry.mode != LINK:
                found[entry.name] = (int(entry.mode[-3:], 8), data)
        return found

    def restore(self, snapshot: str, now: str, only: Sequence[str] | None = None) -> list[str]:
        """Changes the tree from the state `now` to `snapshot`; returns the touched paths.

        `only` limits the paths. Files that snapshots do not keep stay unchanged.
        """
        wanted = None if only is None else set(only)
        paths = [p for p in self.changed(now, snapshot) if wanted is None or p in wanted]
        entries = self.entries(snapshot, paths)
        remaining = {entry.name for entry in entries}
        for path in paths:
            if path not in remaining:
                remove(self.tree, path)
        for entry, data in self.contents(entries):
            write(self.tree, entry.name, entry.mode, data)
        return paths

    def entries(self, snapshot: str, paths: Sequence[str] | None = None) -> list[TreeEntry]:
        """Returns the entries of a snapshot, or those of these paths."""
        if paths is not None and not paths:
            return []
        names = None if paths is None else set(paths)
        found: list[TreeEntry] = []
        for line in self.names("ls-tree", "-r", "-l", "-z", snapshot):
            head, _, name = line.partition("\t")
            if names is None or name in names:
                mode, _, blob, size = head.split()
                found.append(TreeEntry(mode, blob, int(size), name))
        return found

    def contents(self, entries: Iterable[TreeEntry]) -> Iterator[tuple[TreeEntry, bytes]]:
        """Yields each entry with its content, reading a bounded amount at a time."""
        group: list[TreeEntry] = []
        for entry in (*entries, None):
            if group and (entry is None or sum([it.size for it in group]) > _TOGETHER):
                raw = self.run(
                    *("cat-file", "--batch"),
                    stdin=b"".join([f"{it.blob}\n".encode() for it in group]),
                )
                at = 0
                for each in group:
                    # A line with id, type and size; the content; a line feed.
                    at = raw.index(b"\n", at) + 1
                    yield each, raw[at : at + each.size]
                    at += each.size + 1
                group = []
            if entry is not None:
                group.append(entry)

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

    def uncovered(self) -> list[str]:
        """Returns ignored files and folders that no snapshot has, without caches and the like."""
        flags = ("--others", "--ignored", "--exclude-standard", "--directory")
        names = self.names("ls-files", "-z", *flags)
        own = reserved_places.holds
        return [it for it in names if not (_made_again(it) or own(self.tree, self.tree / it))]


def shadow(folder: Path, root: Path) -> Snapshots:
    """Opens or creates our store in `folder` for the tree at `root`.

    Raises:
        ConfigError: Git is not installed.
    """
    if not trusted_code.program("git", root):
        raise ConfigError("a loop keeps snapshots with git, and git is not installed")
    return open_store(folder, root, folder / "snapshots.git" / "index")


def open_store(folder: Path, root: Path, index: Path) -> Snapshots:
    """Opens or creates our store in `folder` for the tree at `root`, with its own `index`.

    Raises:
        RunError: Git failed, or is not installed.
    """
    store = folder / "snapshots.git"
    git = Snapshots(store, root, index)
    if not (store / "HEAD").exists():
        folder.mkdir(parents=True, exist_ok=True)
        git.run("init", "--quiet", "--template=", str(root))
    (store / "info").mkdir(exist_ok=True)
    _set(store / "info" / "exclude", "\n".join(MADE_AGAIN) + "\n")
    _set(store / "info" / "attributes", PLAIN)
    return git


def _set(path: Path, text: str) -> None:
    # To write a file is slower than to read it, and most of the time it is right.
    with suppress(FileNotFoundError, UnicodeDecodeError):
        if path.read_text(encoding="utf-8") == text:
            return
    path.write_text(text, encoding="utf-8")


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


def _is_unkept(name: str) -> bool:
    """Returns whether git ignores the path, because some file system takes it for `.git`."""
    if "git" not in name.lower() and name.isascii():
        return False
    return any([is_same_name(part, ".git") for part in name.split("/")])


def _below_link(tree: Path, folder: str, links: dict[str, bool]) -> bool:
    """Returns whether the folder is a link, or lies in one."""
    if folder not in links:
        above, slash, _ = folder.rpartition("/")
        links[folder] = os.path.islink(f"{tree}/{folder}") or (  # noqa: PTH114 - asked often
            bool(slash) and _below_link(tree, above, links)
        )
    return links[folder]


def write(tree: Path, path: str, mode: str, data: bytes) -> None:
    """Writes one file or link, without following links on the way.

    All of it goes through descriptors: no link is followed, even one created concurrently.
    """
    jail, parts = Jail(tree, (), ()), tuple(path.split("/"))
    _make_way(jail, parts)
    if mode == LINK:
        with jail.directory(parts[:-1], create=True) as folder:
            with suppress(FileNotFoundError):
                os.unlink(parts[-1], dir_fd=folder)
            os.symlink(os.fsdecode(data), parts[-1], dir_fd=folder)
        return
    with jail.directory(parts[:-1], create=True) as folder:
        _replace(folder, parts[-1], data, executable=mode.endswith("755"))


def _replace(folder: int, name: str, data: bytes, *, executable: bool) -> None:
    """Replaces or creates a regular file in an open folder, atomically."""
    # Not by `Jail.write`: its names are for models, and a snapshot holds all names.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    temporary = f".{secrets.token_hex(8)}.taofold"
    fd = os.open(temporary, flags, 0o666, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            mode = stat.S_IMODE(os.fstat(fd).st_mode)
            with suppress(FileNotFoundError):
                # Without setuid and setgid bits, which new content must not inherit.
                mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode & 0o777
            # Git stores only the executable bit of the mode; the other bits stay.
            os.fchmod(fd, mode | 0o111 if executable else mode & ~0o111)
            file.write(data)
            file.flush()
            # Before the rename: a power cut could otherwise leave an empty file.
            os.fsync(fd)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def change_mode(tree: Path, path: str, mode: int) -> None:
    """Sets the permissions of a regular file, without following links on the way."""
    parts = path.split("/")
    with Jail(tree, (), ()).directory(tuple(parts[:-1])) as folder:
        status = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or stat.S_IMODE(status.st_mode) == mode:
            return
        # O_PATH, where there is one: a file without read permission is opened, too.
        path_only = getattr(os, "O_PATH", 0)
        flags = path_only or os.O_RDONLY | os.O_NONBLOCK
        fd = os.open(parts[-1], flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                os.chmod(f"/proc/self/fd/{fd}" if path_only else fd, mode)  # noqa: PTH101
        finally:
            os.close(fd)


def _make_way(jail: Jail, parts: tuple[str, ...]) -> None:
    """Removes a link or a file on the way to a path, and an empty folder in its place."""
    for count in range(len(parts)):
        try:
            with jail.directory(parts[:count]) as folder:
                kind = os.stat(parts[count], dir_fd=folder, follow_symlinks=False).st_mode
                is_last = count == len(parts) - 1
                if is_last and stat.S_ISDIR(kind):
                    _empty(folder, parts[count])
                elif stat.S_ISLNK(kind) or not (is_last or stat.S_ISDIR(kind)):
                    os.unlink(parts[count], dir_fd=folder)
                    return  # nothing is behind it now
        except FileNotFoundError:
            return


def remove(tree: Path, path: str) -> None:
    """Removes one file or link, and folders that are empty then, without following links."""
    jail, parts = Jail(tree, (), ()), tuple(path.split("/"))
    with suppress(OSError, ValueError), jail.directory(parts[:-1]) as folder:
        os.unlink(parts[-1], dir_fd=folder)
    # Git has no empty folders: one that held only removed files is removed too.
    for count in range(len(parts) - 1, 0, -1):
        with suppress(OSError, ValueError), jail.directory(parts[: count - 1]) as folder:
            os.rmdir(parts[count - 1], dir_fd=folder)


def _empty(folder: int, name: str) -> None:
    """Removes a directory in the place of a file. It may hold only empty directories."""
    # The innermost first; `rmdir` fails on anything that is not empty.
    for _, inner, _, at in os.fwalk(name, topdown=False, dir_fd=folder):
        for each in inner:
            os.rmdir(each, dir_fd=at)
    os.rmdir(name, dir_fd=folder)


def _made_again(name: str) -> bool:
    *folders, last = name.rstrip("/").split("/")
    if last in _NAMES or last.endswith(".pyc"):
        return True
    inside = not _NAMES.isdisjoint(folders)
    return inside or any([folder in name for folder in _BUILT])
