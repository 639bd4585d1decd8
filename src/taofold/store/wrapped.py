"""A log in front of another log: it hands everything on.

Whoever watches or disturbs what a log does subclasses it and says only what differs.
"""

from collections.abc import Mapping, Sequence

from taofold.core.events import Record
from taofold.store.log import Claim, Log, RunRow, Signal


class WrappedLog:
    """`log`, unchanged."""

    def __init__(self, log: Log) -> None:
        self.log = log

    async def create(self, row: RunRow) -> None:
        """Register a run."""
        await self.log.create(row)

    async def claim(self, run: str, owner: str, *, epoch: int | None = None) -> Claim:
        """Become the owner of the run."""
        return await self.log.claim(run, owner, epoch=epoch)

    async def append(
        self,
        run: str,
        epoch: int,
        records: Sequence[Record],
        *,
        disk: bool = False,
        consume: Sequence[str] = (),
        blobs: Mapping[str, bytes] | None = None,
        status: str = "",
        waiting_for: str = "",
        if_quiet: bool = False,
    ) -> bool:
        """Write the records."""
        return await self.log.append(
            run,
            epoch,
            records,
            disk=disk,
            consume=consume,
            blobs=blobs,
            status=status,
            waiting_for=waiting_for,
            if_quiet=if_quiet,
        )

    async def read(self, run: str, *, after: int = -1, limit: int = 0) -> list[Record]:
        """Records of a run."""
        return await self.log.read(run, after=after, limit=limit)

    async def row(self, run: str) -> RunRow:
        """The run's row."""
        return await self.log.row(run)

    async def rows(
        self, *, status: str = "", session: str = "", parent: str = "", limit: int = 100
    ) -> list[RunRow]:
        """Runs, newest first."""
        return await self.log.rows(status=status, session=session, parent=parent, limit=limit)

    async def post(self, run: str, signal: Signal) -> bool:
        """Put a message in the run's inbox."""
        return await self.log.post(run, signal)

    async def inbox(self, run: str) -> list[Signal]:
        """Messages not yet consumed."""
        return await self.log.inbox(run)

    async def blob(self, digest: str) -> bytes:
        """A content by its digest."""
        return await self.log.blob(digest)

    async def delete(self, run: str) -> None:
        """Forget the run."""
        await self.log.delete(run)

    async def close(self) -> None:
        """Close the log."""
        await self.log.close()
