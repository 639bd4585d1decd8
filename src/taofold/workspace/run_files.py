"""The states of a folder, tied to the steps of runs: taken, restored, compared and removed.

`RunFiles` keeps one store for each folder, in the user's state folder, for all runs that work in
the folder. A state is a tree with two entries: the files, and those permissions that git does not
keep. Each run has a reference to each of its states; what no reference leads to is removed. A
folder into which a state was restored shares the store of its source. Knows nothing about events.
"""

import ast
import itertools
import os
import shutil
import stat
import time
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from taofold import reserved_places, trusted_code
from taofold.core.errors import ConfigError, Refused, RunError
from taofold.core.values import Value
from taofold.parsing.untrusted_text import first_names
from taofold.shared_document import lock_file
from taofold.workspace.merging import Merged, StoredFile, merge
from taofold.workspace.snapshots import LINK, Snapshots, Staged, TreeEntry, change_mode, open_store

MOST_STORED: Final = 4_000_000_000
"""About the most bytes of the states of one folder, compressed, before the next one is refused."""
MOST_DIFF: Final = 100_000
"""The most characters of the differences that are shown."""
FEW: Final = 100
"""The most changed files that are stored one by one: a run has many steps, and packs are slow."""
_COUNT_AGAIN: Final = 40_000_000
"""The bytes after which the store is counted again: it grows, and a count reads all its names."""
_FOLDERS: Final = 4_000
"""About the most bytes that the folders of a changed file take."""
_REFS: Final = "refs/runs"
_WORK: Final = "work"
_USUAL: Final = (0o644, 0o755)
"""Permissions that a tree of git keeps. Others are stored beside it."""
_SETTLED_S: Final = 2.0
"""Seconds after which git sees each change of a file by its times, which it keeps in seconds."""
_USUAL_FILES: Final = frozenset([stat.S_IFREG | mode for mode in _USUAL])


class _Last(Value, frozen=True):
    """The last state of a folder, and its unusual permissions."""

    blob: str = ""
    tree: str = ""
    modes: dict[str, int] = {}
    """By `ascii` of the path: a name may be no valid text."""
    recent: tuple[str, ...] = ()
    """Files whose permissions are read again: they may change without a difference for git."""
    index: str = ""
    """The checksum of the index that belongs to this state."""
    counted: int = -1
    """The bytes of the store when they were counted last; -1 before the first time."""
    added: int = 0
    """About the bytes that were added since."""


class FileState(NamedTuple):
    """A stored state of a folder."""

    tree: str
    """Identifies contents, links and permissions. Equal states have equal ids."""
    files: int
    left_out: tuple[str, ...]
    """Paths in the folder that the state does not hold: ignored, too large, nested repositories."""


class StateChange(NamedTuple):
    """A difference between two states. `kind`: added, changed, removed, or mode."""

    kind: str
    path: str


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The states of the files below `root`. All methods block.

    Example: `RunFiles.of(Path(".")).take("run-1").tree`.
    """

    root: Path
    place: Path
    """The folder of the store, outside of what an agent can reach."""

    @classmethod
    def of(cls, root: Path | str) -> "RunFiles":
        """Returns the states of a folder, which may be gone by now."""
        path, base = Path(os.path.realpath(root)), _base()
        if path.is_relative_to(base):
            inner = path.relative_to(base).parts
            if len(inner) == 3 and inner[1] == _WORK:
                return cls(path, base / inner[0])
        return cls(path, base / _digest(os.fsencode(path)))

    def check(self) -> None:
        """Checks that states of the folder can be stored.

        Raises:
            ConfigError: It is no folder, or git is missing.
        """
        if not self.root.is_dir():
            raise ConfigError(f"{str(self.root)!r} is not a folder", path="snapshots")
        if not trusted_code.program("git", self.root):
            raise ConfigError(
                "states of files are kept with git, and git is not installed", path="snapshots"
            )

    def folder_for(self, run: str) -> Path:
        """Returns the folder of `run` below the store."""
        return self.place / _WORK / _digest(run.encode("utf-8", "surrogateescape"))

    def free_folder_for(self, run: str) -> Path:
        """Returns a new or empty folder of `run`: another one for each restored state."""
        names = (f"{run}.{number}" if number else run for number in itertools.count())
        return next(it for it in map(self.folder_for, names) if _is_free(it))

    def take(self, run: str) -> FileState:
        """Stores the current state for `run`.

        Raises:
            RunError: There are too many or too large files, or git failed.
        """
        with self._locked():
            state = self._current()
            self._refer(run, [state.tree])
            return state

    def _current(self) -> FileState:
        # Its reference is written, and flushed, after all of it.
        git = replace(self._git(), flushes=False)
        with ThreadPoolExecutor(1) as pool:
            uncovered = pool.submit(git.uncovered)
            staged = git.staged()
        last, path = _Last(), self._own("last")
        with suppress(FileNotFoundError, msgspec.DecodeError):
            last = msgspec.json.decode(reserved_places.read_file(path), type=_Last)
        counted, added = self._check_size(staged, last)
        modes, recent = self._modes(git, staged, last)
        blob, tree = last.blob, last.tree
        if modes != last.modes or not blob:
            body = msgspec.json.encode(modes, order="sorted")
            blob = git.run("hash-object", "-w", "--stdin", stdin=body).decode().strip()
        # Another index: a process was killed before it stored the state.
        is_new = blob != last.blob or staged.changes or last.index != git.checksum()
        if is_new or not tree or not self.has(tree):
            git.add(staged, few=FEW)
            listing = f"040000 tree {git.text('write-tree')}\tfiles\n100644 blob {blob}\tmodes\n"
            tree = git.run("mktree", stdin=listing.encode()).decode().strip()
        now = _Last(blob, tree, modes, recent, git.checksum(), counted, added)
        if now != last:
            reserved_places.write_file(path, msgspec.json.encode(now))
        left_out = (*staged.skipped, *staged.left_out, *uncovered.result())
        return FileState(tree, git.count(), left_out)

    def _check_size(self, staged: Staged, last: _Last) -> tuple[int, int]:
        """Returns the bytes of the store when they were counted last, and those added since.

        Raises:
            RunError: The store would become too large.
        """
        if not staged.stored:
            return last.counted, last.added
        coming = _FOLDERS * len(staged.stored)
        for name in staged.stored:
            with suppress(OSError):
                coming += os.lstat(f"{self.root}/{name}").st_size
        stored, added = last.counted, last.added + coming
        if stored < 0 or added > _COUNT_AGAIN or stored + added > MOST_STORED:
            stored, added = sum(_sizes(self.place / "snapshots.git" / "objects")), coming
        if stored + added > MOST_STORED:
            raise RunError(
                f"the states of {str(self.root)!r} would need more than {MOST_STORED / 1e9:g} GB "
                f"({stored / 1e9:.1f} GB are stored, {coming / 1e9:.1f} GB are new or changed): "
                "delete old runs, or add large files to .gitignore"
            )
        return stored, added

    def _modes(
        self, git: Snapshots, staged: Staged, last: _Last
    ) -> tuple[dict[str, int], tuple[str, ...]]:
        """Returns the permissions that a tree does not keep, and the files to read again."""
        known = last.index == git.checksum()
        modes = last.modes.copy() if known else {}
        again = map(ast.literal_eval, last.recent) if known else git.tracked()
        gone, recent = {*staged.gone, *staged.skipped}, dict.fromkeys(map(ascii, staged.stored))
        for name in gone:
            modes.pop(ascii(name), None)
        lstat, root, settled = os.lstat, f"{self.root}/", time.time() - _SETTLED_S
        for name in {*again, *staged.stored} - gone:
            key = ascii(name)
            modes.pop(key, None)
            try:
                status = lstat(root + name)
            except OSError:
                recent[key] = None
                continue
            if status.st_mode not in _USUAL_FILES and stat.S_ISREG(status.st_mode):
                modes[key] = status.st_mode & 0o777
            if status.st_ctime > settled:
                recent[key] = None
        return modes, tuple(sorted(recent))

    def restore_beside(self, tree: str, folder: Path, run: str) -> None:
        """Restores a state into a new or empty folder, for `run`.

        A folder with a store of its own stores the state there, too: it is found by its folder.

        Raises:
            ConfigError: The folder is not empty.
            RunError: The state is not stored any more, or the folder cannot be written. A folder
                that was new is removed.
        """
        with self._locked():
            self.check_beside(tree, folder)
            is_new = not folder.exists()
            try:
                folder.parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileExistsError):
                    folder.mkdir(mode=0o700)
            except OSError as error:
                raise ConfigError(f"{str(folder)!r} cannot be created: {error}") from error
            try:
                self._fill(tree, folder)
            except (RunError, OSError) as error:
                free = shutil.disk_usage(folder).free
                if is_new:
                    shutil.rmtree(folder, ignore_errors=True)
                raise RunError(
                    f"the files cannot be restored in {str(folder)!r}, where {free:,} bytes were "
                    f"free: {error}"
                ) from error
            own = RunFiles.of(folder)
            if own.place == self.place:
                self._refer(run, [tree])
                return
        own.take(run)

    def _fill(self, tree: str, folder: Path) -> None:
        git = RunFiles(folder, self.place)._git()
        git.run("read-tree", f"{tree}:files")
        # Links are created, never followed: git checks each folder on the way.
        git.run("checkout-index", "--all", "--force", "--quiet", "--index")
        modes = self._stored_modes(tree)
        for entry in git.entries(f"{tree}:files"):
            if entry.mode != LINK:
                usual = _USUAL[entry.mode.endswith("755")]
                change_mode(folder, entry.name, modes.get(entry.name, usual))

    def restore(self, tree: str, run: str) -> tuple[str, ...]:
        """Restores a state in the folder itself; returns the changed paths.

        Raises:
            Refused: The folder holds changes that no stored state holds.
            RunError: The state is not stored any more, or a file cannot be written.
        """
        with self._locked():
            git, now = self._restorable(tree, run)
            before, after = f"{now.tree}:files", f"{tree}:files"
            try:
                touched = git.restore(after, before)
                old, new = self._stored_modes(now.tree), self._stored_modes(tree)
                entries = {entry.name: entry for entry in git.entries(after)}
                for name in {*touched, *dict(old.items() ^ new.items())} & entries.keys():
                    if entries[name].mode != LINK:
                        usual = _USUAL[entries[name].mode.endswith("755")]
                        change_mode(self.root, name, new.get(name, usual))
                        touched.append(name)
            except (OSError, ValueError) as error:
                raise RunError(
                    f"the files of {str(self.root)!r} were restored only in part: {error}. The "
                    "state before is stored: remove the cause, and restore again"
                ) from error
            self._refer(run, [tree, now.tree])
            return tuple(dict.fromkeys(touched))

    def merge(self, base: str, ours: str, theirs: str) -> Merged:
        """Merges the changes between two states into the folder, whose state was `ours`.

        Args:
            base: The state with which the other folder began.
            ours: The state of this folder. A file that differs from it now is not changed.
            theirs: The state of the other folder.

        Raises:
            RunError: A state is not stored any more, or git failed.
        """
        with self._locked():
            for tree in (base, ours, theirs):
                self._require(tree)
            states = self._stored(base), self._stored(ours), self._stored(theirs)
            return merge(self._git(), states)

    def _stored(self, tree: str) -> dict[str, StoredFile]:
        """Returns the files and links of a state, by path."""
        git, _ = self._reader(None)
        modes = self._stored_modes(tree)
        found: dict[str, StoredFile] = {}
        for it in git.entries(f"{tree}:files"):
            usual = _USUAL[it.mode.endswith("755")]
            mode = stat.S_IFLNK if it.mode == LINK else modes.get(it.name, usual)
            found[it.name] = StoredFile(it.blob, mode, it.size)
        return found

    def discard(self) -> None:
        """Removes the folder, if it is one of the store's own."""
        if self.root.parent != self.place / _WORK:
            return
        shutil.rmtree(self.root, ignore_errors=True)
        for kind in ("index", "last"):
            self._own(kind).unlink(missing_ok=True)

    def check_restore(self, tree: str, run: str) -> None:
        """Raises what `restore` would raise, and changes nothing."""
        with self._locked():
            self._restorable(tree, run)

    def _restorable(self, tree: str, run: str) -> tuple[Snapshots, FileState]:
        """Returns the store and the state of the folder now, if no change would be lost."""
        self._require(tree)
        known = self._known()
        now = self._current()
        if now.tree not in known:
            raise Refused(
                f"{str(self.root)!r} holds changes that no step of a run has stored"
                f"{self._since(run, now.tree)}: they would be lost. Restore into another folder, "
                "or move them away"
            )
        git = self._git()
        before, after = f"{now.tree}:files", f"{tree}:files"
        lost = self._unknown(git, before, git.entries(after, git.changed(before, after)))
        if lost:
            raise Refused(
                f"{first_names(lost)} would be overwritten in {str(self.root)!r}, and no stored "
                "state holds it: restore into another folder, or move it away"
            )
        return git, now

    def check_beside(self, tree: str, folder: Path) -> None:
        """Checks that a state is stored, and that the folder is new or empty.

        Raises:
            ConfigError: The folder is in use.
            RunError: The state is not stored any more.
        """
        self._require(tree)
        if not _is_free(folder):
            raise ConfigError(f"{str(folder)!r} is not a new or empty folder: name another one")

    def _since(self, run: str, now: str) -> str:
        """Returns the files that differ from the nearest state of the run, in brackets, or ""."""
        git = self._git()
        words = ("for-each-ref", "--format=%(objectname)", f"{_REFS}/{_name(run)}")
        states = git.text(*words).split()
        if not states:
            return ""
        pairs = "".join([f"{state} {now}\n" for state in states]).encode()
        found = git.run("diff-tree", "--stdin", "-r", "--name-only", stdin=pairs)
        # Each pair is repeated before its paths, which begin with `files/` or are `modes`.
        counts, state = dict.fromkeys(states, 0), ""
        for line in found.decode("ascii", "replace").splitlines():
            first = line.split(" ", 1)[0]
            state, more = (first, 0) if first in counts else (state, 1)
            counts[state] += more
        changed = self.changes(min(states, key=counts.__getitem__), now)
        return f" ({first_names([each.path for each in changed])})" if changed else ""

    def _unknown(self, git: Snapshots, before: str, entries: Iterable[TreeEntry]) -> list[str]:
        """Returns files in the place of these entries that the state `before` does not hold."""
        held = {entry.name for entry in git.entries(before)}
        lost: dict[str, None] = {}
        for entry in entries:
            parts = entry.name.split("/")
            for count in range(1, len(parts) + 1):
                name = "/".join(parts[:count])
                path = self.root / name
                if not os.path.lexists(path):
                    break
                if path.is_dir() and not path.is_symlink():
                    if count == len(parts):
                        lost |= dict.fromkeys(_inside(self.root, name, held))
                else:  # a file or a link, in whose place there will be a folder or another file
                    lost |= {} if name in held else {name: None}
                    break
        return list(lost)

    def changes(self, a: str, b: str, other: "RunFiles | None" = None) -> list[StateChange]:
        """Returns the differences between two states; `b` may be in the store of `other`.

        Raises:
            RunError: A state is not stored any more.
        """
        git, more = self._reader(other)
        for tree in (a, b):
            self._require(tree, more)
        flags = ("-r", "-z", "--name-status", "--no-renames")
        raw = git.run("diff-tree", *flags, f"{a}:files", f"{b}:files", more=more)
        fields = [os.fsdecode(part) for part in raw.split(b"\0") if part]
        kinds = {"A": "added", "D": "removed"}
        found = {
            path: StateChange(kinds.get(kind, "changed"), path)
            for kind, path in zip(fields[::2], fields[1::2], strict=True)
        }
        old, new = self._stored_modes(a, more), self._stored_modes(b, more)
        for path in dict(old.items() ^ new.items()):
            if path not in found:
                found[path] = StateChange("mode", path)
        return sorted(found.values(), key=lambda change: change.path)

    def patch(self, a: str, b: str, other: "RunFiles | None" = None) -> str:
        """Returns the unified diff between two states, of about `MOST_DIFF` characters."""
        git, more = self._reader(other)
        return git.diff(f"{a}:files", f"{b}:files", MOST_DIFF, more=more)

    def has(self, tree: str) -> bool:
        """Returns whether the state is stored."""
        with suppress(RunError):
            self._require(tree)
            return True
        return False

    def share(self, run: str, trees: Sequence[str]) -> None:
        """Keeps these states for `run`, too; those that are gone are left out."""
        with self._locked():
            self._refer(run, [tree for tree in trees if self.has(tree)])

    def forget(self, runs: Iterable[str]) -> None:
        """Removes the states that only these runs have."""
        if not (self.place / "snapshots.git").is_dir():
            return
        with self._locked():
            git, _ = self._reader(None)
            names = [f"{_REFS}/{_name(run)}/" for run in runs]
            found = git.text("for-each-ref", "--format=%(refname)", *names).split()
            if not found:
                return
            lines = "".join([f"delete {name}\n" for name in found])
            git.run("update-ref", "--stdin", stdin=lines.encode())
            git.run("repack", "-a", "-d", "-q")
            git.run("prune", "--expire=now")

    def _require(self, tree: str, more: "dict[str, str] | None" = None) -> None:
        git, _ = self._reader(None)
        try:
            if not (self.place / "snapshots.git").is_dir():
                raise RunError("there is no store")
            git.run("cat-file", "-e", f"{tree}:files", more=more)
        except RunError:
            raise RunError(
                f"the state {tree[:12]} of {str(self.root)!r} is not stored on this machine: its "
                "run was deleted, or is from another machine"
            ) from None

    def _stored_modes(self, tree: str, more: "dict[str, str] | None" = None) -> dict[str, int]:
        git, _ = self._reader(None)
        raw = git.run("cat-file", "blob", f"{tree}:modes", more=more)
        modes = msgspec.json.decode(raw, type=dict[str, int])
        return {ast.literal_eval(name): mode for name, mode in modes.items()}

    def _known(self) -> frozenset[str]:
        git, _ = self._reader(None)
        return frozenset(git.text("for-each-ref", "--format=%(objectname)", _REFS).split())

    def _refer(self, run: str, trees: Iterable[str]) -> None:
        """Keeps the states for a run: what has no reference is removed with other runs."""
        git, _ = self._reader(None)
        store = self.place / "snapshots.git"
        names = {tree: f"{_REFS}/{_name(run)}/{tree}" for tree in trees}
        lines = [
            f"update {name} {tree}\n" for tree, name in names.items() if not (store / name).exists()
        ]
        if lines:
            git.run("update-ref", "--stdin", stdin="".join(lines).encode())

    def _reader(self, other: "RunFiles | None") -> "tuple[Snapshots, dict[str, str]]":
        """Returns the store without its folder, which may be gone, and variables to read both."""
        store = self.place / "snapshots.git"
        more: dict[str, str] = {}
        if other is not None and other.place != self.place:
            more = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": f"{other.place}/snapshots.git/objects"}
        return Snapshots(store, self.place, self.place / "unused.index"), more

    def _own(self, kind: str) -> Path:
        """Returns a file that belongs to the folder, not to others that share the store."""
        return self.place / f"{_digest(os.fsencode(self.root))}.{kind}"

    def _git(self) -> Snapshots:
        return open_store(self.place, self.root, self._own("index"))

    @contextmanager
    def _locked(self) -> Generator[None]:
        """Lets one process at a time use the index, and removes nothing while others store."""
        reserved_places.make_folder(self.place)
        descriptor = lock_file(self.place / "lock")
        try:
            yield
        finally:
            os.close(descriptor)


def _base() -> Path:
    return Path(os.path.realpath(reserved_places.state_folder() / "snapshots"))


def _digest(name: bytes) -> str:
    return blake2b(name, digest_size=8).hexdigest()


def _name(run: str) -> str:
    """Returns the run's name in references. Its id may hold any character."""
    return blake2b(run.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def _sizes(folder: Path) -> Iterable[int]:
    for where, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                yield os.lstat(f"{where}/{name}").st_size


def _inside(root: Path, folder: str, held: "set[str]") -> list[str]:
    """Returns the files below a folder that are not held."""
    found: list[str] = []
    for where, _, names in os.walk(root / folder):
        above = os.path.relpath(where, root)
        found += [f"{above}/{name}" for name in names if f"{above}/{name}" not in held]
    return found


def _is_free(folder: Path) -> bool:
    """Returns whether the folder is new or empty."""
    is_folder = folder.is_dir() and not folder.is_symlink()
    return not (any(folder.iterdir()) if is_folder else os.path.lexists(folder))
