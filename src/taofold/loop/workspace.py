"""The place of a loop's work: the project itself, a git worktree of it, or a copy.

A workspace is opened, found again, delivered to the project and removed. Uncommitted work is never
lost. A worktree and a copy start with the project's current files, every state is stored outside
the work root, and commits do not touch the user's branch, index and files. Any overwrite of another
change is refused. A worktree or a copy is removed only if nothing in it would be lost: snapshots
keep their files, and caches and installed packages can be created again.
"""

import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from filecmp import cmp
from pathlib import Path
from typing import Final, Literal

import msgspec

from taofold import reserved_places
from taofold.core.errors import ConfigError, Refused, RunError
from taofold.loop.values import Left
from taofold.parsing.untrusted_text import first_names
from taofold.tools.containment import why_not
from taofold.tools.jail import Jail
from taofold.workspace.git import Git, repository
from taofold.workspace.merging import merged_lines
from taofold.workspace.snapshots import DIFF, INSTALLED, Snapshots, TreeSnapshot, shadow


def remove(project: Path, top: Path, *, worktree: bool) -> None:
    """Removes the folder, and the record of it in the project's repository.

    Raises:
        RunError: Git refuses, as for a worktree that is locked.
        OSError: Something in it cannot be removed.
    """
    home = repository(project) if worktree else None
    if home is not None and top.exists():
        home.run("worktree", "remove", "--force", str(top))
    if top.exists():
        shutil.rmtree(top)
    if home is not None:
        with suppress(RunError):
            home.run("worktree", "prune")


def command(project: Path, top: Path, *, worktree: bool) -> str:
    """Returns the command that removes it."""
    if worktree:
        return shlex.join(["git", "-C", str(project), "worktree", "remove", "--force", str(top)])
    return shlex.join(["rm", "-rf", str(top)])


def _same(project: Path, root: Path, name: str) -> bool:
    try:
        return cmp(project / name, root / name, shallow=False)
    except OSError:
        return False


def _commits(project: Path, top: Path) -> int:
    """Returns the number of commits of the worktree's HEAD that no other reference leads to."""
    home, there = repository(project), repository(top)
    if home is None or there is None or there.tree != top:
        return 0
    others = ["--branches", "--tags", "--remotes", home.text("rev-parse", "HEAD")]
    return int(there.text("rev-list", "--count", "HEAD", "--not", *others))


Mode = Literal["place", "worktree", "copy"]
FILE: Final = "workspace.json"


@dataclass(slots=True)
class Workspace:
    """The work root of one loop and its states. All methods block.

    `folder` holds the record of it, by which it is found again, and its snapshots.
    """

    project: Path
    folder: Path
    root: Path
    mode: Mode
    first: TreeSnapshot
    last: TreeSnapshot
    loop_id: str = ""
    top: str = ""
    """The worktree, of which the root may be a part."""
    whole: str = ""
    """Snapshot of the whole worktree at its beginning, if the root is a part of it."""
    closed: bool = False
    """True if the worktree or the copy was removed. Its snapshots can still be read."""
    repository: tuple[str, str] = ("", "")
    """Git's directory and the top of its tree around the root, as found before any agent worked;
    empty = there was none.
    """

    @classmethod
    def read(cls, folder: Path) -> "Workspace":
        """Reads the record in the folder of a loop.

        Raises:
            OSError: It cannot be read.
            msgspec.DecodeError: It is not a record.
        """
        body = reserved_places.read_file(folder / FILE)
        space = msgspec.json.decode(body, type=cls, dec_hook=lambda kind, text: kind(text))
        space.folder = folder.resolve()
        return space

    @classmethod
    def load(cls, project: Path | str, folder: Path | str) -> "Workspace":
        """Finds the workspace that was opened in `folder`.

        Raises:
            ConfigError: There is none, or its work root is gone.
        """
        try:
            space = cls.read(Path(folder))
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(f"there is no workspace in {str(folder)!r}: {error}") from error
        home = Path(project).resolve()
        if space.project != home:
            raise ConfigError(f"this loop belongs to {str(space.project)!r}, not to {str(home)!r}")
        if not space.closed and not space.root.is_dir():
            raise ConfigError(f"the work root {str(space.root)!r} is gone")
        return space

    @property
    def git(self) -> Snapshots:
        """The store of the snapshots."""
        return shadow(self.folder, self.folder if self.closed else self.root)

    @property
    def own(self) -> Git | None:
        """The project's repository around the root."""
        store, tree = self.repository
        return Git(Path(store), Path(tree), own=False) if store else None

    def snapshot(self, label: str = "") -> TreeSnapshot:
        """Takes a snapshot of the current files."""
        self.last = self.git.take(self.own, label)
        self._save()
        return self.last

    def names(self, snapshot: str) -> frozenset[str]:
        """Returns the paths of a snapshot."""
        return frozenset(self.git.names("ls-tree", "-r", "-z", "--name-only", snapshot))

    def changed(self, a: str, b: str) -> tuple[str, ...]:
        """Returns the paths that differ between two snapshots."""
        return self.git.changed(a, b)

    def composed(
        self, base: str, source: str, paths: Sequence[str], texts: Mapping[str, str]
    ) -> str:
        """Returns a snapshot of `base` with `paths` as in `source`, or with the given texts."""
        store = Snapshots(self.git.store, self.git.tree, self.folder / "composed.index")
        return store.composed(base, source, paths, texts)

    def files(self, snapshot: str) -> dict[str, tuple[int, bytes] | None]:
        """Returns mode and content of the files that differ from the first snapshot.

        None = the file is gone, or is a link.
        """
        return self.git.files(snapshot, self.changed(self.first.id, snapshot))

    def diff(self, a: str, b: str, *, limit: int = DIFF) -> str:
        """Returns the unified diff between two snapshots, of at most about `limit` characters."""
        return self.git.diff(a, b, limit)

    def text(self, snapshot: str, path: str) -> str | None:
        """Returns a file of a snapshot; None if it was missing or is not text."""
        data = self.git.content(snapshot, path)
        try:
            return None if data is None else data.decode("utf-8")
        except UnicodeDecodeError:
            return None

    def restore(self, snapshot: str) -> tuple[str, ...]:
        """Restores the files of a snapshot; returns the changed paths."""
        # So that nothing is lost: the state before is kept even without a request.
        now = self.snapshot("before restoring")
        touched = self.git.restore(snapshot, now.id)
        self.snapshot("restored")
        return tuple(touched)

    def commit(self, number: int, body: str = "", *, branch: str = "") -> str:
        """Commits the current files on a separate branch of the loop.

        The user's branch, index and files are not touched, no hook runs.

        Returns:
            The commit; "" if the project is no git repository or nothing changed.

        Raises:
            Refused: The branch is checked out somewhere.
        """
        project = self.own
        if project is None:
            return ""
        name = branch or f"ralph/{self.loop_id or 'loop'}"
        title = f"ralph: iteration {number}"
        index = self.folder / "commit.index"
        now = self.git.take(project, "committed")
        changed = self.changed(self.first.id, now.id)
        return project.committed(self.root, index, name, title, body, changed)

    def bring_back(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Delivers the work to the project.

        A file that was also changed there is merged, if the edits do not overlap.

        Returns:
            The paths that this changed there, and those of them that were merged.

        Raises:
            Refused: The same lines were changed in the project.
        """
        if self.mode == "place":
            return (), ()
        result = self.snapshot("brought back")
        paths, merged, clash = self._carry(self.first.id, result.id)
        if clash:
            raise Refused(
                f"also changed in {str(self.project)!r}: {first_names(clash)}. The "
                f"loop's files are in {str(self.root)!r}; merge them manually"
            )
        return paths, merged

    def take_back(self, *, force: bool = False) -> tuple[str, ...]:
        """Reverts delivered work in the project; returns the changed paths there.

        Later changes there stay, if the edits do not overlap.

        Raises:
            Refused: The same lines were changed since (unless `force`: then those edits are lost).
        """
        paths, _, clash = self._carry(self.last.id, self.first.id, force=force)
        if clash and not force:
            raise Refused(
                f"changed since in {str(self.project)!r}, not by the loop: {first_names(clash)}. "
                "Keep the changes, or force the way back"
            )
        return paths

    def _carry(
        self, before: str, after: str, *, force: bool = False
    ) -> tuple[tuple[str, ...], tuple[str, ...], list[str]]:
        """Applies the change from the snapshot `before` to `after` to the project.

        Only their differences are touched. If files clash, nothing is, unless `force`.

        Returns:
            The paths that this changed, those of them that were merged, and those that clash.
        """
        paths = self.changed(before, after)
        home = Snapshots(self.git.store, self.project, self.folder / "project.index")
        now = home.take(repository(self.project), "project")
        changed_by_others = set(home.changed(before, now.id))
        unlike_ours = set(home.changed(after, now.id))
        # The same change on both sides is no clash: it is already done.
        both = sorted(changed_by_others & unlike_ours & set(paths))
        texts = {path: self._merged(path, now.id, before, after) for path in both}
        clash = [path for path, text in texts.items() if text is None]
        if clash and not force:
            return (), (), clash
        merged = {path: text for path, text in texts.items() if text is not None}
        touched = home.restore(after, now.id, [path for path in paths if path not in merged])
        for path, text in merged.items():
            Jail(self.project, (), ()).write(path, text)
        return (*touched, *merged), tuple(merged), clash

    def _merged(self, path: str, theirs: str, before: str, after: str) -> bytes | None:
        """Returns a text file with both sides' edits; None if they overlap, or it is not text."""
        found = [self.git.content(state, path) for state in (theirs, before, after)]
        sides = [side for side in found if side is not None and b"\0" not in side]
        return merged_lines(self.git, *sides) if len(sides) == len(found) else None

    def abort(self, *, keep: bool = True, force: bool = False) -> tuple[str, ...]:
        """Abandons the work: keeps the files, or restores those of the start.

        Raises:
            Refused: Files were changed after the last snapshot (unless `force`).
        """
        if keep:
            return ()
        before = self.last
        now = self.snapshot("before reverting")
        others = self.changed(before.id, now.id)
        if others and not force:
            # Refused: the snapshot just taken must not count as the loop's last state.
            self.last = before
            self._save()
            raise Refused(
                f"changed after the loop's last iteration, not by it: {first_names(list(others))}. "
                "Keep the changes, or force the way back"
            )
        touched = self.git.restore(self.first.id, now.id)
        self.snapshot("reverted")
        return tuple(touched)

    def close(self, *, keep: str = "") -> Left:
        """Removes the worktree or the copy, unless something would be lost. Its states stay.

        `keep` is a reason to leave it in any case. The last delivered or restored state is no loss,
        so call this after `bring_back` or `abort`.
        """
        top = Path(self.top or self.root)
        if self.mode == "place":
            return Left(str(top), why=keep)
        worktree = self.mode == "worktree"
        how = command(self.project, top, worktree=worktree)
        try:
            why = keep
            if not why and not self.closed:
                now = self.git.take(self.own, "closed")
                why = self._losses(now)
            if why:
                return Left(str(top), why=why, remove=how)
            self.closed = True
            # before the removal, so that a process that dies here leaves a consistent record
            self._save()
            remove(self.project, top, worktree=worktree)
        except (OSError, RunError) as error:
            return Left(str(top), why=f"it could not be removed: {error}", remove=how)
        return Left(str(top), removed=True)

    def _losses(self, now: TreeSnapshot) -> str:
        """Returns what would be lost with the worktree or the copy, which is at `now`; "" =
        nothing.

        Compared with the last delivered or restored state.

        Raises:
            RunError: Git failed.
        """
        git, top = self.git, Path(self.top or self.root)
        large = [path for path in now.skipped if not _same(self.project, self.root, path)]
        findings: list[tuple[str, list[str]]] = [
            ("changed since", list(git.changed(self.last.id, now.id))),
            ("too large to be kept", large),
            ("ignored, and only there", git.ignored(self.root)),
            ("repositories of their own", git.repositories()),
        ]
        if self.whole:
            inner = self.root.relative_to(top).as_posix()
            changed = git.changed(self.whole, git.whole(top))
            beyond = [path for path in changed if not path.startswith(f"{inner}/")]
            findings.append(("changed beside the work root", beyond))
        reasons = [f"{what}: {first_names(names)}" for what, names in findings if names]
        alone = _commits(self.project, top)
        if alone:
            reasons.append(f"commits on no branch: {alone}")
        return "; ".join(reasons)

    def _save(self) -> None:
        reserved_places.write_file(self.folder / FILE, msgspec.json.encode(self, enc_hook=str))


def open_workspace(
    project: Path | str, folder: Path | str, *, mode: Mode = "place", loop_id: str = ""
) -> Workspace:
    """Opens a workspace for a new loop and takes its first snapshot.

    Args:
        project: The user's files.
        folder: A directory outside the project that lasts as long as the loop is known.
        mode: "place" works on them; "worktree" and "copy" beside them.
        loop_id: Names the branch of the commits.

    Raises:
        ConfigError: The project is no directory, or no git repository for a worktree.
        RunError: Git failed.
    """
    home, state = Path(project).resolve(), Path(folder).resolve()
    if not home.is_dir():
        raise ConfigError(f"{str(project)!r} is not a directory")
    if state.is_relative_to(home):
        raise ConfigError(f"{str(folder)!r} lies in the project; an agent could write there")
    # The unresolved path: a link on the way would be missing in the resolved one.
    reserved_places.make_folder(Path(folder))
    store = shadow(state, home).store
    share(home, state)
    # The store's index belongs to the work root, which may be elsewhere.
    index = store / "index" if mode == "place" else state / "project.index"
    own = Snapshots(store, home, index)
    first = own.take(repository(home), "before iteration 1")
    root, top, whole = home, "", ""
    if mode == "worktree":
        root, top = _worktree(home, state / "work")
    elif mode == "copy":
        root = state / "work"
        root.mkdir()
    if mode != "place":
        git = shadow(state, root)
        whole = git.whole(Path(top)) if top and Path(top) != root else ""
        now = git.take(None)
        git.restore(first.id, now.id)
        # Without a container, an agent could install packages into the project through the link.
        if not why_not():
            link_packages(home, root, Path(top or root))
    # Found once, before an agent has worked: later, a repository could be the agent's.
    around = repository(root)
    location = (str(around.store), str(around.tree)) if around is not None else ("", "")
    space = Workspace(
        home, state, root, mode, first, first, loop_id, top, whole, repository=location
    )
    space.snapshot("before iteration 1")
    return space


SHARED: Final = ("snapshots.git/objects", "objects")
"""Data shared by loops of a project: files named by their content and never written again."""
_STORED: Final = re.compile(r"[0-9a-f]+|pack-[0-9a-f]+\.(?:pack|idx|rev)")
_MOST_PACKS: Final = 50
"""The most packs that a loop takes over: git searches all of them."""


def share(project: Path, folder: Path) -> None:
    """Links the data of the project's newest other loop into the folder of a new one.

    Each folder is complete by itself, so that it can be read and removed independently: a file is
    gone with its last link.
    """
    found: list[tuple[float, Path]] = []
    for other in folder.parent.iterdir():
        # A folder that is being removed, or was written by another release, is skipped.
        with suppress(OSError, ConfigError, msgspec.DecodeError):
            if other != folder and Workspace.read(other).project == project:
                found.append(((other / FILE).stat().st_mtime, other))
    if found:
        _link_files(max(found)[1], folder)


def _link_files(source: Path, target: Path) -> None:
    packs = list((source / SHARED[0] / "pack").glob("*.pack"))
    for part in SHARED if len(packs) <= _MOST_PACKS else SHARED[1:]:
        for where, _, names in os.walk(source / part):
            there = target / Path(where).relative_to(source)
            there.mkdir(parents=True, exist_ok=True)
            # A pack comes before its index: an index without a pack would corrupt the store.
            # Incomplete files have another name.
            for name in sorted(filter(_STORED.fullmatch, names), reverse=True):
                # The other loop may continue, or be removed: missing files are stored again.
                with suppress(OSError):
                    os.link(f"{where}/{name}", there / name)


def link_packages(project: Path, root: Path, top: Path) -> None:
    """Links the installed packages of the project into a worktree or a copy of it.

    Git does not have them, and gates such as `.venv/bin/python -m pytest` need them. Folders above
    the root count, too, up to the worktree's `top`: a workspace of Node has its packages there.
    """
    above = [(project, root)]
    while above[-1][1] != top:
        above.append((above[-1][0].parent, above[-1][1].parent))
    for folder, there in above[1:]:
        _link(folder, there)
    for walked, inner, _ in os.walk(project):
        inner[:] = [name for name in inner if name not in (*INSTALLED, ".git", ".taofold")]
        there = root / Path(walked).relative_to(project)
        if there.is_dir() and not there.is_symlink():
            _link(Path(walked), there)


def _link(folder: Path, there: Path) -> None:
    for name in INSTALLED:
        if (folder / name).is_dir() and not os.path.lexists(there / name):
            (there / name).symlink_to((folder / name).resolve(), target_is_directory=True)


def state_folder(project: Path | str, home: Path | str, loop_id: str, place: str) -> Path:
    """Returns the folder for data that a loop's agent may not reach: in `home` unless inside the
    project.

    `place` is in the loop's first fact: another loop of the same name has another folder.
    """
    name = f"{loop_id}.{place}" if place else loop_id
    root, state_home = Path(project).resolve(), Path(home).resolve()
    if not state_home.is_relative_to(root):
        return state_home / "loops" / name
    # The digest of the project's path: two projects may have loops of the same name.
    mark = hashlib.sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return reserved_places.state_folder() / "loops" / mark / name


def leftovers(folder: Path, loop_id: str) -> tuple[str, ...]:
    """Returns folders of earlier loops of this name beside `folder`, unknown to any journal."""
    found: list[str] = []
    for other in sorted(folder.parent.glob(f"{loop_id}*")):
        with suppress(OSError, msgspec.DecodeError):
            kept = Workspace.read(other)
            if other != folder and kept.loop_id == loop_id:
                found.append(str(other))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class KeptFolder:
    """The data of a loop outside the project: snapshots, and perhaps a worktree or a copy."""

    path: Path
    loop_id: str
    size: int
    """Bytes."""
    mode: Mode
    has_work: bool
    """True if its worktree or copy exists."""

    def remove(self, project: Path) -> None:
        """Removes it, with git's record of a worktree."""
        discard(project, self.path, self.mode)


def kept_folders(project: Path | str, home: Path | str) -> tuple[KeptFolder, ...]:
    """Returns the folders that loops of the project keep, sorted by path."""
    root = Path(project).resolve()
    above = state_folder(root, home, "loop", "").parent
    found: list[KeptFolder] = []
    for path in sorted(above.iterdir()) if above.is_dir() else ():
        with suppress(OSError, ConfigError, msgspec.DecodeError):
            kept = Workspace.read(path)
            if kept.project == root:
                work = kept.mode != "place" and (path / "work").is_dir()
                found.append(KeptFolder(path, kept.loop_id, _size(path), kept.mode, work))
    return tuple(found)


def _size(folder: Path) -> int:
    files = [Path(where) / name for where, _, names in os.walk(folder) for name in names]
    found = [file.lstat() for file in files]
    # A file that other loops share counts only in proportion.
    return sum([status.st_blocks * 512 // status.st_nlink for status in found])


def discard(project: Path, folder: Path, mode: Mode) -> None:
    """Removes the folder of a loop without any work, with git's record of it."""
    if mode != "place":
        with suppress(OSError, RunError):
            remove(project, folder / "work", worktree=mode == "worktree")
    shutil.rmtree(folder, ignore_errors=True)


def _worktree(project: Path, target: Path) -> tuple[Path, str]:
    """Creates a worktree of the project's repository at its commit; returns the work root in it."""
    git = repository(project)
    if git is None:
        raise ConfigError(f"{str(project)!r} is not a git repository: use a copy")
    with suppress(RunError):
        # A worktree whose folder is gone would block its name.
        git.run("worktree", "prune")
    try:
        git.run("worktree", "add", "--quiet", "--detach", str(target))
    except RunError as error:
        raise ConfigError(f"no worktree can be made: {error}") from error
    inner = target / project.relative_to(git.tree)
    inner.mkdir(parents=True, exist_ok=True)
    return inner, str(target)
