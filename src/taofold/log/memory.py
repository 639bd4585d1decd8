"""A log in this process's memory: for tests, for short runs, and as the simplest example.

It keeps records as objects that are never encoded: a NaN stays a NaN. It knows nothing about files;
`disk` has no effect here.
"""

import importlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn, cast

from msgspec.structs import replace

from taofold.clocks import clock
from taofold.core.errors import Conflict, LogError, UnknownRun
from taofold.core.events import SCHEMA_VERSION, Record, encode
from taofold.core.state import ENDED
from taofold.log.journal import Journal, MemoryJournal
from taofold.log.log import (
    AT_ONCE,
    Claim,
    RunRow,
    Signal,
    Spending,
    Window,
    due_at,
    lease_lasts,
    misplaced_text,
    overtaken,
    still_leased,
)
from taofold.log.spending import Charge, charges, scopes, total

if TYPE_CHECKING:
    from taofold.evidence.chain import ChainHead, RunChain


def _chains() -> Any:
    # Not loaded with the package: only a reader of the chain needs it.
    return importlib.import_module("taofold.evidence.chain")


class _Run:
    """One run's row, records and messages."""

    __slots__ = ("blobs", "heads", "inbox", "links", "records", "rests", "row", "seen")

    def __init__(self, row: RunRow) -> None:
        self.row = row
        self.records: list[Record] = []
        self.inbox: dict[str, Signal] = {}
        self.seen: set[str] = set()
        self.blobs: set[str] = set()
        self.heads: dict[int, ChainHead] = {}
        self.links: list[bytes] = []
        """The links that were computed so far: of the first records."""
        self.rests: dict[int, int] = {}
        """The last record of each write that let the run rest, and the time."""

    def current_row(self, now: int) -> RunRow:
        """Returns the row completed from the records and the clock."""
        row, last = self.row, self.records[-1].at if self.records else 0
        # Computed when it is shown, so that an append writes no row.
        return replace(
            row,
            events=len(self.records),
            updated_at=max(row.updated_at, last),
            held=row.status == "running" and lease_lasts(row.lease_until, now),
        )


class MemoryLog:
    """A `Log` that lives as long as the process.

    Args:
        now: Its clock, in milliseconds since the epoch.

    Example:
        ```python
        from taofold import Agent, MemoryLog

        agent = Agent("openai:gpt-5", log=MemoryLog())
        ```
    """

    def __init__(self, *, now: Callable[[], int] = clock) -> None:
        self._runs: dict[str, _Run] = {}
        self._blobs: dict[str, bytes] = {}
        self._now = now
        self._closed = False
        self._places = 0
        # Leases are renewed from a thread of their own.
        self._lock = Lock()
        self._spend: dict[str, dict[int, Spending]] = {}
        """Spending by scope and hour. It stays when a run is deleted."""
        self._journal = MemoryJournal(now=now)
        self._chain = os.urandom(16).hex()

    @property
    def identity(self) -> str:
        """The identity of this object."""
        return f"memory:{id(self)}"

    def journal(self) -> Journal:
        """Returns the journal of this log."""
        return self._journal

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
        """Registers a run with its first records."""
        # No await until the end: on one event loop the method is one transaction.
        self._open()
        if row.run in self._runs:
            raise Conflict(f"there is already a run {row.run!r}; choose another id")
        # One run at a time per session: a second unended run would miss the first one's output.
        if row.session:
            for other in self._runs.values():
                if other.row.session == row.session and other.row.status not in ENDED:
                    raise Conflict(
                        f"run {other.row.run!r} of session {row.session!r} has not ended "
                        f"({other.row.status}); finish or cancel it first"
                    )

        entry = _Run(
            replace(
                row,
                epoch=1 if owner else 0,
                events=0,
                owner=owner,
                lease_until=self._now() + lease_ms if lease_ms else 0,
                held=False,
                place=self._places + 1,
            )
        )
        self._take(entry, row.run, records)
        self._keep(entry, blobs)
        self._rest(entry, row.status)
        self._places += 1
        self._runs[row.run] = entry
        return Claim(entry.row.epoch)

    async def claim(
        self,
        run: str,
        owner: str,
        *,
        epoch: int | None = None,
        lease_ms: int = 0,
        force: bool = False,
    ) -> Claim:
        """Makes `owner` the owner of the run."""
        entry, now = self._find(run), self._now()
        with self._lock:
            row = entry.row
            if epoch is not None and epoch != row.epoch:
                raise Conflict(overtaken(row.run, row.epoch, epoch))
            held = row.status == "running" and lease_lasts(row.lease_until, now)
            # The owner itself may claim again: it certainly is alive.
            if held and not force and owner != row.owner:
                raise Conflict(still_leased(run, row.lease_until - now))
            changes: dict[str, Any] = {"epoch": row.epoch + 1, "owner": owner, "lease_until": 0}
            if lease_ms:
                changes |= {"status": "running", "waiting_for": "", "wake_at": 0}
                changes["lease_until"] = now + lease_ms
            entry.row = replace(row, **changes)
        return Claim(row.epoch + 1, row.owner)

    def renew(self, owner: str, runs: Collection[str], lease_ms: int) -> set[str]:
        """Makes the leases of `runs` end in `lease_ms` from now."""
        self._open()
        until, renewed = self._now() + lease_ms, set[str]()
        with self._lock:
            for run in runs:
                entry = self._runs.get(run)
                if entry is None or entry.row.owner != owner or entry.row.status != "running":
                    continue
                entry.row = replace(entry.row, lease_until=until)
                renewed.add(run)
        return renewed

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
        """Writes all of `records`, or nothing."""
        entry = self._runs.get(run) or self._missing(run)
        if epoch != entry.row.epoch:
            raise Conflict(overtaken(run, entry.row.epoch, epoch))
        # Checked before any write, and the records too: False must still reject a wrong number.
        if if_quiet and not entry.inbox.keys() <= set(consume):
            self._take(entry, run, records, look=True)
            return False
        self._take(entry, run, records)
        for charge in charges(records):
            self._charge(entry.row, charge)
        for message in consume:
            entry.inbox.pop(message, None)
        self._keep(entry, blobs)
        if status:
            with self._lock:
                # Any status but running ends the lease in the same write, so others need not wait.
                lease = entry.row.lease_until if status == "running" else 0
                changes = {"status": status, "waiting_for": waiting_for, "wake_at": wake_at}
                entry.row = replace(entry.row, lease_until=lease, **changes)
            self._rest(entry, status)
        return True

    def _rest(self, entry: _Run, status: str) -> None:
        if status != "running" and entry.records:
            entry.rests.setdefault(len(entry.records) - 1, self._now())

    def _charge(self, row: RunRow, charge: Charge) -> None:
        spent = Spending(charge.tokens, charge.unpriced, charge.nano_usd)
        for scope in scopes(row, charge.agent):
            hours = self._spend.setdefault(scope, {})
            hours[charge.hour] = hours.get(charge.hour, Spending()) + spent

    async def spent(self, windows: Sequence[Window]) -> list[Spending]:
        """Returns what was spent in each window."""
        self._open()
        return [self._sum(window.scope, window.since, window.until) for window in windows]

    def _sum(self, scope: str, since: int, until: int) -> Spending:
        hours = self._spend.get(scope, {})
        # The shorter of both: a window of a month, or all hours in which anything was spent.
        asked = range(since, until) if until - since < len(hours) else sorted(hours)
        return total([hours[hour] for hour in asked if hour in hours and since <= hour < until])

    async def spenders(self, prefix: str, since: int, until: int) -> dict[str, Spending]:
        """Returns the scopes that begin with `prefix` and spent in these hours, in order."""
        self._open()
        return {
            scope: self._sum(scope, since, until)
            for scope, hours in sorted(self._spend.items())
            if scope.startswith(prefix) and any([since <= hour < until for hour in hours])
        }

    def _keep(self, entry: _Run, blobs: Mapping[str, bytes] | None) -> None:
        if blobs:
            self._blobs.update(blobs)
            entry.blobs.update(blobs)

    def _take(
        self, entry: _Run, run: str, records: Sequence[Record], *, look: bool = False
    ) -> None:
        """Adds the next records, with the blobs they reference; only checks them with `look`."""
        blobbed: list[str] = []
        for head, record in enumerate(records, len(entry.records)):
            if record.seq != head or record.run != run:
                raise Conflict(misplaced_text(run, head, record))
            blobbed += record.event.blobs()
        if not look:
            entry.records += records
            entry.blobs.update(blobbed)

    async def read(self, run: str, *, after: int = -1, limit: int = 0) -> list[Record]:
        """Returns records with `seq > after`, in order."""
        records = self._find(run).records
        start = max(after + 1, 0)
        return records[start : start + limit] if limit else records[start:]

    async def chain(self, run: str) -> "RunChain":
        """Returns the records of the run, encoded and linked now, and its heads."""
        entry, chains = self._find(run), _chains()
        heads = tuple([entry.heads[seq] for seq in sorted(entry.heads)])
        rows = [(record.seq, record.at, encode(record.event)) for record in entry.records]
        leaves = chains.leaves(run, SCHEMA_VERSION, rows)
        links = chains.links(chains.genesis(self._chain, run), leaves)
        records = [
            chains.StoredRecord(seq, at, SCHEMA_VERSION, body, link)
            for (seq, at, body), link in zip(rows, links, strict=True)
        ]
        done: RunChain = chains.RunChain(self._chain, run, tuple(records), heads)
        return done

    async def store_head(self, run: str) -> "RunChain":
        """Stores the link of the last record as a head. Returns the chain."""
        self._rest(self._find(run), "")
        await self.tip(run)
        return await self.chain(run)

    async def tip(self, run: str, seq: int = sys.maxsize) -> "RunChain":
        """Returns the chain with one head, that of the last record up to `seq`, and no records.

        The head is stored, or not: then its time is 0. A run without records has no head.
        """
        entry, chains = self._find(run), _chains()
        last = min(seq, len(entry.records) - 1)
        if last < 0:
            return cast("RunChain", chains.RunChain(self._chain, run))
        link = self._link(run, entry, last)
        if last in entry.rests:
            entry.heads.setdefault(last, chains.ChainHead(last, link, entry.rests[last]))
        head = entry.heads.get(last) or chains.ChainHead(last, link)
        return cast("RunChain", chains.RunChain(self._chain, run, heads=(head,)))

    def _link(self, run: str, entry: _Run, seq: int) -> bytes:
        """Returns the link of a record. Each record is encoded once."""
        chains, links = _chains(), entry.links
        new = entry.records[len(links) : seq + 1]
        rows = [(record.seq, record.at, encode(record.event)) for record in new]
        previous = links[-1] if links else chains.genesis(self._chain, run)
        links += chains.links(previous, chains.leaves(run, SCHEMA_VERSION, rows))
        return links[seq]

    async def attest(self, run: str, head: "ChainHead", replaced: bytes) -> None:
        """Stores the envelope and the time stamp of a head, whose envelope is `replaced` now."""
        heads = self._find(run).heads
        if head.seq not in heads or heads[head.seq].envelope != replaced:
            raise Conflict(
                f"run {run!r} has no head at record {head.seq}, or it was signed meanwhile: "
                "sign again"
            )
        changes = {"envelope": head.envelope, "stamp": head.stamp}
        heads[head.seq] = replace(heads[head.seq], **changes)

    async def row(self, run: str) -> RunRow:
        """Returns the run's row."""
        return self._find(run).current_row(self._now())

    async def rows(
        self,
        *,
        status: str = "",
        session: str = "",
        parent: str = "",
        principal: str = "",
        agent: str = "",
        tag: str = "",
        before: int = 0,
        limit: int = 100,
    ) -> list[RunRow]:
        """Returns runs, newest first; a `limit` of 0 means all."""
        self._open()
        now = self._now()
        filters = {"status": status, "session": session, "parent": parent}
        filters |= {"principal": principal, "agent": agent}
        equal = [(name, value) for name, value in filters.items() if value]
        matching = [
            entry.current_row(now)
            for entry in reversed(self._runs.values())
            if all(getattr(entry.row, name) == value for name, value in equal)
            and (not before or entry.row.place < before)
            and (not tag or tag in map("=".join, entry.row.tags.items()))
        ]
        return matching[:limit] if limit else matching

    async def ids(self, prefix: str, *, limit: int = 10) -> list[str]:
        """Returns ids of runs that begin with `prefix`, in order."""
        self._open()
        return sorted(run for run in self._runs if run.startswith(prefix))[:limit]

    async def clock(self) -> int:
        """Returns the time by the clock of leases, in milliseconds since the epoch."""
        return self._now()

    async def due(self, now: int, *, limit: int = 100, after: RunRow | None = None) -> list[RunRow]:
        """Returns due runs, the longest due first."""
        self._open()
        clock_now = self._now()
        behind = (due_at(after), after.place) if after is not None else (0, 0)
        rows = [entry.current_row(clock_now) for entry in self._runs.values()]
        matching = [
            row
            for row in rows
            # A running run without a lease was never claimed: its creator may be about to.
            if (row.status == "running" and row.lease_until and not row.held)
            or (row.status == "waiting" and 0 < row.wake_at <= now)
        ]
        matching.sort(key=lambda row: (due_at(row), row.place))
        return [row for row in matching if (due_at(row), row.place) > behind][:limit]

    async def count(self, *, principal: str | None = None) -> dict[str, int]:
        """Returns the number of runs by status."""
        self._open()
        return dict(
            Counter(
                entry.row.status
                for entry in self._runs.values()
                if principal is None or (entry.row.principal == principal and not entry.row.parent)
            )
        )

    async def post(self, run: str, signal: Signal) -> bool:
        """Puts `signal` in the inbox, once."""
        entry = self._find(run)
        # Permanently, not only while it is in the inbox: a POST repeated after the consumption is
        # not new.
        if signal.id in entry.seen:
            return False
        entry.seen.add(signal.id)
        entry.inbox[signal.id] = signal
        if signal.kind != "refused":
            with self._lock:
                entry.row = replace(entry.row, wake_at=AT_ONCE)
        return True

    async def inbox(self, run: str) -> list[Signal]:
        """Returns the messages not yet consumed."""
        return list(self._find(run).inbox.values())

    async def blob(self, digest: str) -> bytes:
        """Returns the content with this digest."""
        self._open()
        if digest not in self._blobs:
            raise LogError(f"no blob {digest!r}: it was never written, or its run was deleted")
        return self._blobs[digest]

    async def delete(self, run: str) -> None:
        """Deletes the run, and the blobs that no other run references."""
        gone = self._find(run).blobs
        del self._runs[run]
        for other in self._runs.values():
            # Blobs are shared by content: those referenced by a fork or another run stay.
            gone -= other.blobs
        for digest in gone:
            self._blobs.pop(digest, None)

    async def close(self) -> None:
        """Releases everything."""
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
