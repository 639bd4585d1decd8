"""Where a loop works, and who judges it: a workspace and the gates, as the driver needs them.

Knows nothing about how files are kept or commands are run; `site` is the one with real files.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from taofold.core.values import Value
from taofold.loop.check import Verdict
from taofold.loop.state import LoopState
from taofold.loop.values import Left


class Judged(Value, frozen=True):
    """A verdict, the tree that it is about, and why it may not be returned ("" = it may)."""

    verdict: Verdict
    snapshot: str
    blocked: str = ""


class Settled(Value, frozen=True):
    """What became of protected files that a person edited.

    `baseline` is the digest of what verdicts are compared with from now on; `dropped` names some
    of the tests that need not be there any more, `lost` counts all of them.
    """

    baseline: str = ""
    dropped: tuple[str, ...] = ()
    lost: int = 0


class Ground(Protocol):
    """A place to work in, with snapshots and gates."""

    @property
    def root(self) -> Path:
        """The work root of the agent's tools."""
        ...

    @property
    def contained(self) -> bool:
        """Do the gates run in a container?"""
        ...

    def told(self, verdict: Verdict, limit: int) -> str:
        """What a model is told of a verdict: data, bounded, without secrets."""
        ...

    async def begin(self) -> tuple[Judged, str]:
        """Judge the untouched files and keep the baseline; with its digest."""
        ...

    async def snapshot(self, label: str) -> str:
        """Keep the files as they are now."""
        ...

    async def judge(self, label: str) -> Judged:
        """Put protected files back, run the gates, and keep what was judged."""
        ...

    async def touched(self) -> Mapping[str, str]:
        """Protected paths that are not as the baseline has them, with a mark of what is there."""
        ...

    async def settle(self, paths: Collection[str], *, keep: bool) -> Settled:
        """A person's word about such files: they hold from now on, or they are put back."""
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
        """Bring what was made to the project, if the work was done elsewhere."""
        ...

    async def leave(self, *, keep: bool, force: bool = False) -> tuple[str, ...]:
        """Give the work up: keep the files as they are, or put back the ones of the start."""
        ...

    async def clear(self, *, keep: str = "") -> Left:
        """Remove a worktree or a copy if nothing would be lost; `keep` is a reason not to."""
        ...


MakeGround = Callable[[str, LoopState], Ground]
"""Opens the place of a loop (blocking): made at its start, found again later."""
