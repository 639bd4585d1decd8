"""A log in this process's memory: for tests, for short runs, and as the plainest example.

It keeps records as the objects they are, so what it gives back was never encoded: a NaN
stays a NaN. It knows nothing about files; `disk` means nothing here.
"""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from msgspec.structs import replace

from taofold.core.errors import Conflict, LogError, UnknownRun
from taofold.core.events import Record, blobs_of
from taofold.store.log import ENDED, Claim, RunRow, Signal, misplaced, overtaken


class _Run:
    """One run's row, records and messages."""

    __slots__ = ("blobs", "inbox", "records", "row", "seen")

    def __init__(self, row: RunRow) -> None:
        self.row = row
        self.records: list[Record] = []
        self.inbox: dict[str, Signal] = {}
        self.seen: set[str] = set()
        self.blobs: set[str] = set()

    def shown(self) -> RunRow:
        """The row with what is known from the records."""
        last = self.records[-1].at if self.records else 0
        return replace(
            self.row, events=len(self.records), updated_at=max(self.row.updated_at, last)
        )


class MemoryLog:
    """A `Log` that lives as long as the process."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}
        self._blobs: dict[str, bytes] = {}
        self._closed = False

    async def create(self, row: RunRow) -> None:
        """Register a run."""
        self._open()
        if row.run in self._runs:
            raise Conflict(f"there is already a run {row.run!r}; choose another id")
        if row.session:
            for other in self._runs.values():
                if other.row.session == row.session and other.row.status not in ENDED:
                    raise Conflict(
                        f"run {other.row.run!r} of session {row.session!r} has not ended "
                        f"({other.row.status}); finish or cancel it first"
                    )
        self._runs[row.run] = _Run(replace(row, epoch=0, events=0, owner=""))

    async def claim(self, run: str, owner: str, *, epoch: int | None = None) -> Claim:
        """Become the owner of the run."""
        entry = self._find(run)
        row = entry.row
        if epoch is not None and epoch != row.epoch:
            raise Conflict(overtaken(row, epoch))
        entry.row = replace(row, epoch=row.epoch + 1, owner=owner)
        return Claim(row.epoch + 1, row.owner)

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
        """Write all of `records`, or nothing."""
        entry = self._runs.get(run) or self._missing(run)
        if epoch != entry.row.epoch:
            raise Conflict(overtaken(entry.row, epoch))
        blobbed: list[str] = []
        for head, record in enumerate(records, len(entry.records)):
            if record.seq != head or record.run != run:
                raise Conflict(misplaced(run, head, record))
            blobbed += blobs_of(record.event)
        if if_quiet and not entry.inbox.keys() <= set(consume):
            return False
        entry.records += records
        for message in consume:
            entry.inbox.pop(message, None)
        if blobs:
            self._blobs.update(blobs)
            entry.blobs.update(blobs)
        if blobbed:
            entry.blobs.update(blobbed)
        if status:
            entry.row = replace(entry.row, status=status, waiting_for=waiting_for)
        return True

    async def read(self, run: str, *, after: int = -1, limit: int = 0) -> list[Record]:
        """Records with `seq > after`, in order."""
        records = self._find(run).records
        start = max(after + 1, 0)
        return records[start : start + limit] if limit else records[start:]

    async def row(self, run: str) -> RunRow:
        """The run's row."""
        return self._find(run).shown()

    async def rows(
        self, *, status: str = "", session: str = "", parent: str = "", limit: int = 100
    ) -> list[RunRow]:
        """Runs, newest first; a `limit` of 0 means all."""
        self._open()
        found = [
            entry.shown()
            for entry in reversed(self._runs.values())
            if (not status or entry.row.status == status)
            and (not session or entry.row.session == session)
            and (not parent or entry.row.parent == parent)
        ]
        return found[:limit] if limit else found

    async def post(self, run: str, signal: Signal) -> bool:
        """Put `signal` in the inbox, once."""
        entry = self._find(run)
        if signal.id in entry.seen:
            return False
        entry.seen.add(signal.id)
        entry.inbox[signal.id] = signal
        return True

    async def inbox(self, run: str) -> list[Signal]:
        """Messages not yet consumed."""
        return list(self._find(run).inbox.values())

    async def blob(self, digest: str) -> bytes:
        """The content with this digest."""
        self._open()
        if digest not in self._blobs:
            raise LogError(f"no blob {digest!r}: it was never written, or its run was deleted")
        return self._blobs[digest]

    async def delete(self, run: str) -> None:
        """Forget the run, and the blobs that no other run refers to."""
        gone = self._find(run).blobs
        del self._runs[run]
        for other in self._runs.values():
            gone -= other.blobs
        for digest in gone:
            self._blobs.pop(digest, None)

    async def close(self) -> None:
        """Let everything go."""
        self._closed = True
        self._runs, self._blobs = {}, {}

    def _find(self, run: str) -> _Run:
        return self._runs.get(run) or self._missing(run)

    def _open(self) -> None:
        if self._closed:
            raise LogError("this log is closed; open it again to use it")

    def _missing(self, run: str) -> NoReturn:
        self._open()
        raise UnknownRun(f"no run {run!r} in this log")
