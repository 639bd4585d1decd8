"""Where a loop works, and who judges it: a workspace and the gates, as the driver needs them.

`LoopEnvironment` is the interface; `LocalEnvironment` has real files and real commands behind it.
`open_environment` opens it, and finds out before the loop whether its iterations can be committed.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any, Final, Protocol

from msgspec.structs import replace

from taofold.core.errors import ConfigError, Refused
from taofold.core.values import Value
from taofold.loop.gates.criteria import gates
from taofold.loop.gates.judge import Judge
from taofold.loop.gates.verdict_texts import observation
from taofold.loop.git import repository
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

UNDONE: Final = 4000
"""Characters of a diff of what was put back."""


class Judged(Value, frozen=True):
    """A verdict, the tree that it is about, and why it may not be returned ("" = it may)."""

    verdict: Verdict
    snapshot: str
    blocked: str = ""
    undone: str = ""
    """The diff of the changes of protected files that were put back."""


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
        """Do the gates run in a container?"""
        ...

    @property
    def leftovers(self) -> tuple[str, ...]:
        """Folders of earlier loops of this name that are not in the journal. None is used."""
        ...

    def observation(self, verdict: Verdict, limit: int) -> str:
        """What a model is told of a verdict: data, bounded, without secrets."""
        ...

    async def begin(self) -> tuple[Judged, str]:
        """Judge the untouched files and keep the baseline; with its digest."""
        ...

    async def snapshot(self, label: str) -> str:
        """Keep the files as they are now."""
        ...

    async def judge(self, label: str, seconds: float) -> Judged:
        """Put protected files back, run the gates for at most `seconds`, keep what was judged."""
        ...

    async def touched(self) -> Mapping[str, str]:
        """Protected paths that are not as the baseline has them, with a mark of what is there."""
        ...

    async def settle(self, paths: Collection[str], *, keep: bool, seconds: float) -> Settled:
        """A person's word about such files: they hold from now on, or they are put back.

        What holds is run by the gates once, for at most `seconds`.
        """
        ...

    async def packages(self) -> tuple[str, ...]:
        """Packages outside the work root that changed since the baseline, a line for each."""
        ...

    async def retake(self, seconds: float) -> tuple[Verdict, Settled]:
        """Take the baseline again on the files of the start, with the packages of now.

        The gates may take `seconds` together.
        """
        ...

    async def changed(self, a: str, b: str) -> tuple[str, ...]:
        """Paths that differ between two snapshots."""
        ...

    async def diff(self, a: str, b: str, limit: int) -> str:
        """The unified diff between two snapshots."""
        ...

    async def digests(self, paths: Sequence[str]) -> Mapping[str, str]:
        """SHA-256 of each file as it is now, "" if it is gone."""
        ...

    async def text(self, snapshot: str, path: str) -> str | None:
        """A file of a snapshot; None if it was not there or is no text."""
        ...

    async def restore(self, snapshot: str) -> tuple[str, ...]:
        """Put the files of a snapshot in place."""
        ...

    async def commit(self, number: int, body: str, branch: str) -> str:
        """Commit the files as they are; "" if there is nothing to commit."""
        ...

    async def deliver(self) -> tuple[str, ...]:
        """Bring what was made to the project, if the work was done elsewhere.

        Returns:
            The files that were merged with changes made there.
        """
        ...

    async def leave(self, *, keep: bool, force: bool = False) -> tuple[str, ...]:
        """Give the work up: keep the files as they are, or put back the ones of the start."""
        ...

    async def release(self, *, ended: bool) -> None:
        """Free what gates need only while they run; if the loop `ended`, what no gate needs."""
        ...

    async def clear(self, *, keep: str = "") -> Left:
        """Remove a worktree or a copy if nothing would be lost; `keep` is a reason not to."""
        ...


OpenEnvironment = Callable[[str, LoopState], LoopEnvironment]
"""Opens the place of a loop (blocking): made at its start, found again later."""


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
        """Has the loop ended, with its work in the project?"""

    @property
    def root(self) -> Path:
        """The work root."""
        return self._space.root

    @property
    def contained(self) -> bool:
        """Whether bubblewrap holds the gates."""
        return self._judge.contained

    @property
    def leftovers(self) -> tuple[str, ...]:
        """Those that were there at the start."""
        return self._leftovers

    def observation(self, verdict: Verdict, limit: int) -> str:
        """The gates' own words."""
        return observation(verdict, limit)

    async def begin(self) -> tuple[Judged, str]:
        """The verdict before anything was done."""
        verdict = await self._judge.begin()
        baseline = self._judge.baseline
        if baseline is None:
            raise ConfigError("the baseline could not be taken")
        return Judged(verdict, self._space.first.id), baseline.digest

    async def snapshot(self, label: str) -> str:
        """Keep the files."""
        return (await asyncio.to_thread(self._space.snapshot, label)).id

    async def judge(self, label: str, seconds: float) -> Judged:
        """The verdict on the files as they are; what has not ended after `seconds` has not passed.

        What a gate itself changes was not judged: then it is run once more, and if that changes
        files again there is no record of execution for what would be returned.
        """
        until = monotonic() + seconds
        # Before anything runs git in the work root: a planted repository
        # could run its own programs.
        planted = await self._judge.disarm()
        before = made = await self.snapshot(label)
        verdict = await self._verdict(before, until)
        after = await self.snapshot(label)
        work = {*await self.changed(self._space.first.id, before)}
        # A formatter among the gates changed work that it had judged before it changed it.
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
        return Judged(verdict, after, blocked, undone)

    async def _verdict(self, snapshot: str, until: float) -> Verdict:
        """The verdict on what the snapshot keeps: what is not delivered proves nothing."""
        names = await asyncio.to_thread(self._space.names, snapshot)
        return await self._judge.verdict(tree=snapshot, snapshot=names, until=until)

    async def _touched(self, before: str, after: str, work: set[str]) -> bool:
        """Did the gate change a file that is part of the work (not only leave one of its own)?"""
        return before != after and bool(work & {*await self.changed(before, after)})

    async def touched(self) -> Mapping[str, str]:
        """Protected paths that are not as they were."""
        return await self._judge.touched()

    async def settle(self, paths: Collection[str], *, keep: bool, seconds: float) -> Settled:
        """They hold from now on, or they are put back."""
        if not keep:
            return await self._judge.restore(paths)
        return await self._judge.keep(paths, until=monotonic() + seconds)

    async def packages(self) -> tuple[str, ...]:
        """Packages that changed."""
        return await self._judge.packages()

    async def retake(self, seconds: float) -> tuple[Verdict, Settled]:
        """The verdict on the files of the start, and what later ones are compared with."""
        return await self._judge.retake(until=monotonic() + seconds)

    async def changed(self, a: str, b: str) -> tuple[str, ...]:
        """Paths that differ."""
        return await asyncio.to_thread(self._space.changed, a, b)

    async def diff(self, a: str, b: str, limit: int) -> str:
        """The unified diff."""
        return await asyncio.to_thread(lambda: self._space.diff(a, b, limit=limit))

    async def digests(self, paths: Sequence[str]) -> Mapping[str, str]:
        """SHA-256 of each file."""
        return await asyncio.to_thread(lambda: {path: _digest(self.root / path) for path in paths})

    async def text(self, snapshot: str, path: str) -> str | None:
        """A file of a snapshot."""
        return await asyncio.to_thread(self._space.text, snapshot, path)

    async def restore(self, snapshot: str) -> tuple[str, ...]:
        """Put the files in place."""
        return await asyncio.to_thread(self._space.restore, snapshot)

    async def commit(self, number: int, body: str, branch: str) -> str:
        """A commit on a branch of its own."""
        return await asyncio.to_thread(lambda: self._space.commit(number, body, branch=branch))

    async def deliver(self) -> tuple[str, ...]:
        """From the worktree or the copy to the project."""
        return (await asyncio.to_thread(self._space.bring_back))[1]

    async def leave(self, *, keep: bool, force: bool = False) -> tuple[str, ...]:
        """Keep or revert."""
        if self._over:
            return () if keep else await asyncio.to_thread(self._space.take_back, force=force)
        return await asyncio.to_thread(lambda: self._space.abort(keep=keep, force=force))

    async def release(self, *, ended: bool) -> None:
        """The tree of the gates, and the baseline's contents."""
        await asyncio.to_thread(lambda: self._judge.release(ended=ended))

    async def clear(self, *, keep: str = "") -> Left:
        """Remove it, or say why not."""
        return await asyncio.to_thread(lambda: self._space.close(keep=keep))


def open_environment(
    loop: str,
    state: LoopState,
    home: Path,
    *,
    reach: Reach = Reach(),
    redact: Redactor | None = None,
) -> LocalEnvironment:
    """The real place of a loop. Blocks.

    Raises:
        ConfigError: a criterion is no runnable command, or what was kept is gone or changed.
    """
    wish = state.wish
    project = Path(wish.root)
    folder = state_folder(project, home, loop, state.place)
    # Found out before an agent has worked for an hour.
    if state.baseline is None and wish.commit:
        _committable(project, wish.branch)
    options: dict[str, Any] = {
        "reach": reach,
        "redact": redact or Redactor(),
        "second": wish.second_judge,
    }
    if state.baseline is not None:
        space = _found(project, folder, loop)
        judge = Judge.resume(space.root, folder, state.baseline.baseline, **options)
        is_there = wish.mode == "in-place" or (state.ended is not None and state.ended.delivered)
        return LocalEnvironment(space, judge, over=state.status in ENDED and is_there)
    options |= {"allow_edit": wish.allow_edit, "scope": wish.scope}
    mode: Mode = _SPACES[wish.mode]
    try:
        space = _found_or_new(project, folder, mode, loop)
        judge = Judge(space.root, folder, gates(wish.commands, space.root), **options)
    except BaseException:
        discard(project, folder, mode)  # a start that is refused leaves nothing
        raise
    return LocalEnvironment(space, judge, leftovers(folder, loop))


def _committable(project: Path, branch: str) -> None:
    """Find out before the loop whether its iterations can be committed.

    Raises:
        ConfigError: they cannot, and why.
    """
    git = repository(project)
    if git is None:
        raise ConfigError(f"{str(project)!r} is no git repository", path="--commit")
    try:
        if branch:
            git.usable(branch)
    except Refused as refused:
        raise ConfigError(str(refused), path="--branch") from refused


def _found_or_new(project: Path, folder: Path, mode: Mode, loop: str) -> Workspace:
    """The workspace of a loop without a baseline: its process may have died before it took one."""
    try:
        return Workspace.load(project, folder)
    except (ConfigError, OSError):
        discard(project, folder, mode)
        return open_workspace(project, folder, mode=mode, loop_id=loop)


def _found(project: Path, folder: Path, loop: str) -> Workspace:
    """The workspace of a loop that has begun: never replaced, its snapshots would be lost."""
    try:
        return Workspace.load(project, folder)
    except (ConfigError, OSError) as error:
        raise ConfigError(f"the workspace of {loop} cannot be used any more: {error}") from error


def _digest(path: Path) -> str:
    if path.is_symlink() or not path.is_file():
        return ""
    return sha256(path.read_bytes()).hexdigest()
