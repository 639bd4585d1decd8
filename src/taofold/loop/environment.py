"""The environment of a loop: a workspace and the gates, in the form that the driver needs.

`LoopEnvironment` is the interface; `LocalEnvironment` uses real files and real commands.
`open_environment` opens it, and checks before the loop that its iterations can be committed.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Final, Protocol

from msgspec.structs import replace

from taofold.core.errors import ConfigError, Refused
from taofold.core.values import Value
from taofold.loop.gates.criteria import gates
from taofold.loop.gates.judge import Judge, JudgeOptions
from taofold.loop.gates.verdict_texts import observation
from taofold.loop.state import LoopState
from taofold.loop.values import ENDED, Left
from taofold.loop.verdict import Settled, Verdict, unexecuted
from taofold.loop.workspace import (
    Mode,
    Workspace,
    discard,
    leftovers,
    open_workspace,
    state_folder,
)
from taofold.policy.redaction import Redactor
from taofold.tools.container_network import Reach
from taofold.workspace.git import repository

UNDONE: Final = 4000
"""The most characters of a diff of reverted changes."""


class Judged(Value, frozen=True):
    """A verdict, the judged tree, and why it may not be delivered ("" = it may)."""

    verdict: Verdict
    snapshot: str
    blocked: str = ""
    made: str = ""
    """The tree before the gates ran, with the protected files as they were found."""
    undone: str = ""
    """The diff of the changes of protected files that were reverted."""


class LoopEnvironment(Protocol):
    """A place to work in, with snapshots and gates.

    Example of one iteration:

        before = await environment.snapshot("before iteration 1")
        ...  # the agent works in `environment.root`
        judged = await environment.judge("iteration 1", seconds=600)
        if not judged.verdict.passed:
            await environment.restore(before)
    """

    @property
    def root(self) -> Path:
        """The work root of the agent's tools."""
        ...

    @property
    def contained(self) -> bool:
        """True if the gates run in a container."""
        ...

    @property
    def leftovers(self) -> tuple[str, ...]:
        """Unused folders of earlier loops of this name that are not in the journal."""
        ...

    def observation(self, verdict: Verdict, limit: int) -> str:
        """Renders a verdict for a model: data, bounded, without secrets."""
        ...

    async def begin(self) -> tuple[Judged, str]:
        """Judges the untouched files and stores the baseline; returns its digest too."""
        ...

    async def snapshot(self, label: str) -> str:
        """Takes a snapshot of the current files."""
        ...

    async def judge(self, label: str, seconds: float) -> Judged:
        """Reverts protected files, runs the gates for at most `seconds`, takes a snapshot."""
        ...

    async def touched(self) -> Mapping[str, str]:
        """Returns protected paths that differ from the baseline, with a mark of their content."""
        ...

    async def settle(self, paths: Collection[str], *, keep: bool, seconds: float) -> Settled:
        """Accepts such files on a user's decision, or reverts them.

        The gates run once on accepted files, for at most `seconds`.
        """
        ...

    async def packages(self) -> tuple[str, ...]:
        """Returns packages outside the work root that changed since the baseline, one line each."""
        ...

    async def retake(self, seconds: float) -> tuple[Verdict, Settled]:
        """Takes the baseline again on the files of the start, with the current packages.

        The gates may take `seconds` together.
        """
        ...

    async def changed(self, a: str, b: str) -> tuple[str, ...]:
        """Returns the paths that differ between two snapshots."""
        ...

    async def diff(self, a: str, b: str, limit: int) -> str:
        """Returns the unified diff between two snapshots."""
        ...

    async def composed(
        self, base: str, source: str, paths: Sequence[str], texts: Mapping[str, str]
    ) -> str:
        """Takes a snapshot of `base` with `paths` as in `source`, or with the given texts."""
        ...

    async def trial(self, snapshot: str, seconds: float) -> Verdict:
        """Runs the gates on a snapshot for at most `seconds`; the work root stays as it is."""
        ...

    async def digests(self, paths: Sequence[str]) -> Mapping[str, str]:
        """Returns the SHA-256 of each current file, "" if it is gone."""
        ...

    async def text(self, snapshot: str, path: str) -> str | None:
        """Returns a file of a snapshot; None if it was missing or is not text."""
        ...

    async def restore(self, snapshot: str) -> tuple[str, ...]:
        """Restores the files of a snapshot."""
        ...

    async def commit(self, number: int, body: str, branch: str) -> str:
        """Commits the current files; returns "" if there is nothing to commit."""
        ...

    async def deliver(self) -> tuple[str, ...]:
        """Delivers the work to the project, if it was done elsewhere.

        Returns:
            The files that were merged with changes made there.
        """
        ...

    async def leave(self, *, keep: bool, force: bool = False) -> tuple[str, ...]:
        """Abandons the work: keeps the current files, or restores those of the start."""
        ...

    async def release(self, *, ended: bool) -> None:
        """Frees the resources of running gates; if the loop `ended`, also their stored data."""
        ...

    async def clear(self, *, keep: str = "") -> Left:
        """Removes a worktree or a copy if nothing would be lost; `keep` is a reason not to."""
        ...


OpenEnvironment = Callable[[str, LoopState], LoopEnvironment]
"""Opens the place of a loop (blocking): created at its start, found again later."""


_SPACES: Final[Mapping[str, Mode]] = {
    "in-place": "place",
    "worktree": "worktree",
    "copy": "copy",
}


class LocalEnvironment:
    """A `LoopEnvironment` of real files and real commands."""

    def __init__(
        self,
        space: Workspace,
        judge: Judge,
        leftovers: tuple[str, ...] = (),
        *,
        over: bool = False,
    ) -> None:
        self._space, self._judge, self._leftovers = space, judge, leftovers
        self._over = over
        """True if the loop has ended and its work is in the project."""

    @property
    def root(self) -> Path:
        """The work root."""
        return self._space.root

    @property
    def contained(self) -> bool:
        """True if bubblewrap contains the gates."""
        return self._judge.contained

    @property
    def leftovers(self) -> tuple[str, ...]:
        """The leftovers at the start."""
        return self._leftovers

    def observation(self, verdict: Verdict, limit: int) -> str:
        """Renders the gates' verdict."""
        return observation(verdict, limit)

    async def begin(self) -> tuple[Judged, str]:
        """Returns the verdict before any work."""
        verdict = await self._judge.begin()
        baseline = self._judge.baseline
        if baseline is None:
            raise ConfigError("the baseline could not be taken")
        return Judged(verdict, self._space.first.id), baseline.digest

    async def snapshot(self, label: str) -> str:
        """Takes a snapshot."""
        return (await asyncio.to_thread(self._space.snapshot, label)).id

    async def judge(self, label: str, seconds: float) -> Judged:
        """Returns the verdict on the current files; a gate without an end after `seconds` has not
        passed.

        Files that a gate itself changes were not judged, so the gates run once more. If that
        changes files again, there is no record of execution for the delivered files.
        """
        until = monotonic() + seconds
        # Before anything runs git in the work root: a planted repository could run its own
        # programs.
        planted = await self._judge.disarm()
        before = made = await self.snapshot(label)
        verdict = await self._verdict(before, until)
        after = await self.snapshot(label)
        work = {*await self.changed(self._space.first.id, before)}
        # A formatter among the gates changed work after judging it.
        if verdict.passed and await self._touched(before, after, work):
            before = after
            verdict = await self._verdict(before, until)
            after = await self.snapshot(label)
        verdict = replace(verdict, notes=(*planted, *verdict.notes))
        blocked = ""
        if verdict.passed:
            own = await self._touched(before, after, work)
            blocked = unexecuted(verdict, after if own else verdict.tree)
        undone = await self.diff(after, made, UNDONE) if verdict.tampered else ""
        return Judged(verdict, after, blocked, made, undone)

    async def _verdict(self, snapshot: str, until: float) -> Verdict:
        """Judges only files in the snapshot: files that are not delivered prove nothing."""
        names = await asyncio.to_thread(self._space.names, snapshot)
        return await self._judge.verdict(tree=snapshot, snapshot=names, until=until)

    async def _touched(self, before: str, after: str, work: set[str]) -> bool:
        """Returns whether the gate changed a file of the work, not only one of its own."""
        return before != after and bool(work & {*await self.changed(before, after)})

    async def touched(self) -> Mapping[str, str]:
        """Returns changed protected paths."""
        return await self._judge.touched()

    async def settle(self, paths: Collection[str], *, keep: bool, seconds: float) -> Settled:
        """Accepts or reverts changed files."""
        if not keep:
            return await self._judge.restore(paths)
        return await self._judge.keep(paths, until=monotonic() + seconds)

    async def packages(self) -> tuple[str, ...]:
        """Returns changed packages."""
        return await self._judge.packages()

    async def retake(self, seconds: float) -> tuple[Verdict, Settled]:
        """Returns the verdict on the files of the start, and the new baseline."""
        return await self._judge.retake(until=monotonic() + seconds)

    async def changed(self, a: str, b: str) -> tuple[str, ...]:
        """Returns the differing paths."""
        return await asyncio.to_thread(self._space.changed, a, b)

    async def diff(self, a: str, b: str, limit: int) -> str:
        """Returns the unified diff."""
        return await asyncio.to_thread(lambda: self._space.diff(a, b, limit=limit))

    async def composed(
        self, base: str, source: str, paths: Sequence[str], texts: Mapping[str, str]
    ) -> str:
        """Takes a snapshot of `base` with other contents of `paths`."""
        return await asyncio.to_thread(self._space.composed, base, source, paths, texts)

    async def trial(self, snapshot: str, seconds: float) -> Verdict:
        """Runs the gates on a snapshot."""
        files = await asyncio.to_thread(self._space.files, snapshot)
        return await self._judge.trial(files, until=monotonic() + seconds)

    async def digests(self, paths: Sequence[str]) -> Mapping[str, str]:
        """Returns the SHA-256 of each file."""
        return await asyncio.to_thread(lambda: {path: _digest(self.root / path) for path in paths})

    async def text(self, snapshot: str, path: str) -> str | None:
        """Returns a file of a snapshot."""
        return await asyncio.to_thread(self._space.text, snapshot, path)

    async def restore(self, snapshot: str) -> tuple[str, ...]:
        """Restores the files."""
        return await asyncio.to_thread(self._space.restore, snapshot)

    async def commit(self, number: int, body: str, branch: str) -> str:
        """Commits on a separate branch."""
        return await asyncio.to_thread(lambda: self._space.commit(number, body, branch=branch))

    async def deliver(self) -> tuple[str, ...]:
        """Delivers from the worktree or the copy to the project."""
        return (await asyncio.to_thread(self._space.bring_back))[1]

    async def leave(self, *, keep: bool, force: bool = False) -> tuple[str, ...]:
        """Keeps or reverts the files."""
        if self._over:
            return () if keep else await asyncio.to_thread(self._space.take_back, force=force)
        return await asyncio.to_thread(lambda: self._space.abort(keep=keep, force=force))

    async def release(self, *, ended: bool) -> None:
        """Frees the tree of the gates, and the baseline's contents."""
        await asyncio.to_thread(lambda: self._judge.release(ended=ended))

    async def clear(self, *, keep: str = "") -> Left:
        """Removes it, or returns why not."""
        return await asyncio.to_thread(lambda: self._space.close(keep=keep))


def open_environment(
    loop: str,
    state: LoopState,
    home: Path,
    *,
    reach: Reach = Reach(),
    redact: Redactor | None = None,
) -> LocalEnvironment:
    """Opens the real environment of a loop. Blocks.

    Raises:
        ConfigError: A criterion is not a runnable command, or stored data is missing or changed.
    """
    wish = state.wish
    project = Path(wish.root)
    folder = state_folder(project, home, loop, state.place)
    # Checked before an agent has worked for an hour.
    if state.baseline is None and wish.commit:
        _committable(project, wish.branch)
    options: JudgeOptions = {"reach": reach, "redact": redact, "second": wish.second_judge}
    if state.baseline is not None:
        space = _found(project, folder, loop)
        judge = Judge.resume(space.root, folder, state.baseline.baseline, **options)
        is_there = wish.mode == "in-place" or (state.ended is not None and state.ended.delivered)
        return LocalEnvironment(space, judge, over=state.status in ENDED and is_there)
    mode: Mode = _SPACES[wish.mode]
    try:
        space = _found_or_new(project, folder, mode, loop)
        judge = Judge(
            space.root,
            folder,
            gates(wish.commands, space.root),
            allow_edit=wish.allow_edit,
            scope=wish.scope,
            **options,
        )
    except BaseException:
        discard(project, folder, mode)  # a refused start leaves nothing
        raise
    return LocalEnvironment(space, judge, leftovers(folder, loop))


def _committable(project: Path, branch: str) -> None:
    """Checks before the loop that its iterations can be committed.

    Raises:
        ConfigError: They cannot, with the reason.
    """
    git = repository(project)
    if git is None:
        raise ConfigError(f"{str(project)!r} is not a git repository", path="--commit")
    try:
        if branch:
            git.usable(branch)
    except Refused as refused:
        raise ConfigError(str(refused), path="--branch") from refused


def _found_or_new(project: Path, folder: Path, mode: Mode, loop: str) -> Workspace:
    """Opens the workspace of a loop without a baseline, whose process may have died before taking
    it.
    """
    try:
        return Workspace.load(project, folder)
    except (ConfigError, OSError):
        discard(project, folder, mode)
        return open_workspace(project, folder, mode=mode, loop_id=loop)


def _found(project: Path, folder: Path, loop: str) -> Workspace:
    """Opens the workspace of a loop that has begun.

    It is never replaced: its snapshots would be lost.
    """
    try:
        return Workspace.load(project, folder)
    except (ConfigError, OSError) as error:
        raise ConfigError(f"the workspace of {loop} cannot be used any more: {error}") from error


def _digest(path: Path) -> str:
    if path.is_symlink() or not path.is_file():
        return ""
    return sha256(path.read_bytes()).hexdigest()
