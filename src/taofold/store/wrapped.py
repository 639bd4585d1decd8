"""A log in front of another log: it hands everything on.

Whoever watches or disturbs what a log does subclasses it and says only what differs.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from taofold.core.events import Record
from taofold.store.log import Claim, Log, RunRow, Signal


class WrappedLog:
    """`log`, unchanged."""

    def __init__(self, log: Log) -> None:
        self.log = log

    @property
    def identity(self) -> str:
        """That of the log behind it."""
        return self.log.identity

    def on_request(self, run: str, key: str, request: Any) -> None:
        """Hear what a model is about to be sent: for a log below that wants to know."""
        hear = getattr(self.log, "on_request", None)
        if hear is not None:
            hear(run, key, request)

    async def create(
        self,
        row: RunRow,
        *,
        records: Sequence[Record] = (),
        blobs: Mapping[str, bytes] | None = None,
        owner: str = "",
        lease_ms: int = 0,
        disk: bool = False,
    ) -> Claim:
        """Register a run with its first records."""
        return await self.log.create(
            row, records=records, blobs=blobs, owner=owner, lease_ms=lease_ms, disk=disk
        )

    async def claim(
        self,
        run: str,
        owner: str,
        *,
        epoch: int | None = None,
        lease_ms: int = 0,
        force: bool = False,
    ) -> Claim:
        """Become the owner of the run."""
        return await self.log.claim(run, owner, epoch=epoch, lease_ms=lease_ms, force=force)

    def renew(self, owner: str, runs: Collection[str], lease_ms: int) -> set[str]:
        """Make the leases of `runs` end in `lease_ms` from now."""
        return self.log.renew(owner, runs, lease_ms)

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
        wake_at: int = 0,
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
            wake_at=wake_at,
            if_quiet=if_quiet,
        )

    async def read(self, run: str, *, after: int = -1, limit: int = 0) -> list[Record]:
        """Records of a run."""
        return await self.log.read(run, after=after, limit=limit)

    async def row(self, run: str) -> RunRow:
        """The run's row."""
        return await self.log.row(run)

    async def rows(
        self,
        *,
        status: str = "",
        session: str = "",
        parent: str = "",
        principal: str = "",
        agent: str = "",
        before: int = 0,
        limit: int = 100,
    ) -> list[RunRow]:
        """Runs, newest first."""
        return await self.log.rows(
            status=status,
            session=session,
            parent=parent,
            principal=principal,
            agent=agent,
            before=before,
            limit=limit,
        )

    async def ids(self, prefix: str, *, limit: int = 10) -> list[str]:
        """Ids of runs that begin with `prefix`."""
        return await self.log.ids(prefix, limit=limit)

    async def due(self, now: int, *, limit: int = 100, after: RunRow | None = None) -> list[RunRow]:
        """Runs that somebody should look at."""
        return await self.log.due(now, limit=limit, after=after)

    async def count(self, *, principal: str | None = None) -> dict[str, int]:
        """How many runs there are by status."""
        return await self.log.count(principal=principal)

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
