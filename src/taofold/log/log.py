"""`Log`, the interface of the storage of runs, and the rules and texts that all logs share.

Any class that passes `taofold.testing.log_conformance` is a log; `WrappedLog` is the base of logs
that wrap another.

The whole concurrency model is here. A run has one owner at a time, known by its `epoch`. An append
carries the epoch and the next sequence numbers, so an overtaken owner gets `Conflict` and nothing
is written twice. The maximum silence of an owner is its *lease*, a time by the log's own clock:
while it lasts no other process becomes the owner, and afterwards any may. Other processes send
messages to the run's inbox (`Signal`). Lists show a run as a `RunRow`; `forgettable` returns the
runs that are old enough to be deleted.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Literal, Protocol

from taofold.core.events import Record
from taofold.core.state import ENDED
from taofold.core.values import Value

SignalKind = Literal["decide", "answer", "steer", "cancel", "refused"]

LONGEST_LEASE_MS: Final = 60_000
"""Maximum lease in milliseconds. A lease that ends later than this from now was set by another
clock (which was set back since) and counts as expired.
"""

NOTHING_SAVED: Final = "Nothing of this write was saved; what was written before it is safe."
"""Part of every log's error about a failed write."""

AT_ONCE: Final = 1
"""A `wake_at` that is always past: the run is due now."""


class RunRow(Value, frozen=True):
    """The row of a run in lists. Times are milliseconds since the epoch."""

    run: str
    status: str = "new"
    goal: str = ""
    agent: str = ""
    session: str = ""
    parent: str = ""
    principal: str = ""
    created_at: int = 0
    updated_at: int = 0
    events: int = 0
    epoch: int = 0
    owner: str = ""
    waiting_for: str = ""
    lease_until: int = 0
    """The end of the owner's lease, by the log's clock; 0 = no lease."""
    wake_at: int = 0
    """The time when a waiting run is due; 0 = when a message arrives."""
    held: bool = False
    """True if it is running under a lease that was valid when the row was read."""
    place: int = 0
    """Its number in the order of registration."""
    tags: dict[str, str] = {}
    """Tags given by its caller, for filters of lists."""


class Signal(Value, frozen=True):
    """A message from outside to one run. An `id` is accepted only once."""

    id: str
    kind: SignalKind
    by: str = ""
    at: int = 0
    data: dict[str, Any] = {}


class Claim(Value, frozen=True):
    """Ownership of a run: the fencing token, and the previous owner."""

    epoch: int
    previous_owner: str = ""


class Spending(Value, frozen=True):
    """Tokens and billionths of a dollar that replies cost. `unpriced` tokens have no known price.

    >>> Spending(100, 0, 5) + Spending(20, 20, 0)
    Spending(tokens=120, unpriced=20, nano_usd=5)
    """

    tokens: int = 0
    unpriced: int = 0
    nano_usd: int = 0

    def __add__(self, other: "Spending") -> "Spending":
        return Spending(
            self.tokens + other.tokens,
            self.unpriced + other.unpriced,
            self.nano_usd + other.nano_usd,
        )

    @property
    def usd(self) -> float:
        """US dollars."""
        return self.nano_usd / 1_000_000_000


class Window(Value, frozen=True):
    """A scope of spending (`log.spending`) and its hours: from `since` to before `until`.

    Hours are counted since the epoch, in UTC.
    """

    scope: str
    since: int
    until: int


class Log(Protocol):
    """An append-only sequence of records per run, with an inbox and blobs beside it.

    Every method may raise `LogError`, `UnknownRun` if the run does not exist, and `OutcomeUnknown`
    if a write may have happened and its answer was lost (`CertainLog` resolves this).

        claim = await log.create(RunRow("r1", "running"), owner="me", lease_ms=10_000)
        await log.append("r1", claim.epoch, [Record("r1", 0, now, RunStarted(goal="…"))])
        await log.append("r1", claim.epoch, [...], status="finished", disk=True)
    """

    @property
    def identity(self) -> str:
        """Equal for two objects that are one log: the same file, the same database."""
        ...

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
        """Registers a run with its first `records` and the `blobs` (digest to bytes) they
        reference, in one transaction.

        With an `owner` the run is owned from the start (epoch 1), for `lease_ms`; without one it
        has epoch 0. The epoch, the events, the owner and the lease in `row` are ignored.

        Raises:
            Conflict: The id is taken, or another run of `row.session` has not ended.
        """
        ...

    async def claim(
        self,
        run: str,
        owner: str,
        *,
        epoch: int | None = None,
        lease_ms: int = 0,
        force: bool = False,
    ) -> Claim:
        """Makes `owner` the owner: the epoch rises by one and older owners are locked out.

        With `lease_ms` the run is claimed to be driven, and its status becomes `running`. `force`
        ignores the lease: the caller knows that its owner has ended.

        Raises:
            Conflict: Another owner's lease is valid, or `epoch` is given and is not the run's,
                because another process claimed it first.
        """
        ...

    def renew(self, owner: str, runs: Collection[str], lease_ms: int) -> set[str]:
        """Makes the leases of the `runs` that `owner` drives end in `lease_ms` from now.

        0 ends them at once. Returns the runs that it still owns. It blocks, and is called from a
        thread of its own while others use the log: renewal must not depend on a blocked event loop.
        """
        ...

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
        """Writes `records` in one transaction, or nothing.

        In the same transaction, inbox messages `consume` are removed, `blobs` (digest to bytes)
        added, and the run's row updated if `status` is given. Any status but `running` ends the
        lease.

        Args:
            run: The id of the run.
            epoch: The fencing token of the owner.
            records: The next records.
            disk: Waits until a power failure cannot undo the write. Without it, a killed process
                cannot.
            consume: Ids of inbox messages to remove.
            blobs: Contents by digest.
            status: The new status of the run; "" keeps it.
            waiting_for: The reason of waiting.
            wake_at: The time when the run is due, in milliseconds since the epoch.
            if_quiet: Writes nothing and returns False if the inbox holds messages beyond `consume`.

        Raises:
            Conflict: `epoch` is not the current one, or a sequence number is not the next.
        """
        ...

    async def read(self, run: str, *, after: int = -1, limit: int = 0) -> list[Record]:
        """Returns records with `seq > after`, in order; at most `limit` (0 = all)."""
        ...

    async def row(self, run: str) -> RunRow:
        """Returns the run's row."""
        ...

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
        """Returns the runs that match all filters, newest first; a `limit` of 0 means all.

        `tag` is `name=value`. Combined with other filters, the runs with the tag are scanned,
        newest first, until there are enough. `before` is a `place`: only runs registered before it.
        The cost depends on the number of returned runs, not on the size of the log.
        """
        ...

    async def ids(self, prefix: str, *, limit: int = 10) -> list[str]:
        """Returns ids of runs that begin with `prefix`, in alphabetical order."""
        ...

    async def due(self, now: int, *, limit: int = 100, after: RunRow | None = None) -> list[RunRow]:
        """Returns due runs, the longest due first, after the row `after`.

        These are running ones with an expired lease (by the log's clock), and waiting ones whose
        `wake_at` is not later than `now`. The cost depends on the number of due runs.
        """
        ...

    async def count(self, *, principal: str | None = None) -> dict[str, int]:
        """Returns the number of runs by status; with a `principal`, of its runs without a parent.

        The cost does not depend on the number of runs.
        """
        ...

    async def spent(self, windows: Sequence[Window]) -> list[Spending]:
        """Returns what was spent in each window.

        `append` counts every reply in its own transaction, for all scopes of the run. A reply that
        names an agent counts for this one, others for the run's. `create` counts none. The cost
        depends on the hours, not on the size of the log.
        """
        ...

    async def spenders(self, prefix: str, since: int, until: int) -> dict[str, Spending]:
        """Returns the scopes that begin with `prefix` and spent in these hours, in order."""
        ...

    async def post(self, run: str, signal: Signal) -> bool:
        """Puts `signal` in the inbox, durably. False if a signal with its id was ever posted.

        The run is due from now on, unless the signal is only for its record (`refused`).
        """
        ...

    async def inbox(self, run: str) -> list[Signal]:
        """Returns the messages not yet consumed, in order of arrival."""
        ...

    async def blob(self, digest: str) -> bytes:
        """Returns the content with this BLAKE2b-160 hex digest."""
        ...

    async def delete(self, run: str) -> None:
        """Deletes the run: records, inbox, and blobs without other references."""
        ...

    async def close(self) -> None:
        """Flushes and releases resources. Further calls raise `LogError`."""
        ...


def lease_lasts(lease_until: int, now: int) -> bool:
    """Returns whether a lease is valid. `now` is the log's clock, in milliseconds."""
    # The upper bound is for clocks that were set back: such a lease would never end.
    return now < lease_until <= now + LONGEST_LEASE_MS


def due_at(row: RunRow) -> int:
    """Returns the time since when a row of `Log.due` has been due."""
    return row.lease_until if row.status == "running" else row.wake_at


def overtaken(run: str, current: int, epoch: int) -> str:
    """Returns the error for a worker whose `epoch` is not the `current` one of the run."""
    return (
        f"run {run!r} is at epoch {current}, and this worker has epoch {epoch}: another one "
        "took it over. Nothing was written: stop here, its owner continues"
    )


def still_leased(run: str, left_ms: int) -> str:
    """Returns the error for a claim on a run with a valid lease."""
    return (
        f"run {run!r} is driven by another process, whose lease lasts {left_ms / 1000:.1f} s "
        "more unless it is renewed. Nothing was written: try again after that"
    )


def misplaced_text(run: str, head: int, record: Record) -> str:
    """Returns the error for a record that is not the one at `head` of `run`."""
    return (
        f"the next record of run {run!r} is {head}, not {record.seq} of run {record.run!r}. "
        "Nothing was written: read the run again"
    )


async def forgettable(log: Log, before_ms: int, keep: Collection[str]) -> list[str]:
    """Returns ids of runs that ended, unchanged since `before_ms`, in a status not in `keep`."""
    old: list[str] = []
    for status in sorted(ENDED - {*keep}):
        rows = await log.rows(status=status, limit=0)
        old += [row.run for row in rows if row.updated_at < before_ms]
    return old


class WrappedLog:
    """A log that passes every call to `log`: the base of logs that change some calls.

    `named` are the arguments that `Log` has by name.
    """

    def __init__(self, log: Log) -> None:
        self.log = log

    @property
    def identity(self) -> str:
        """The identity of the wrapped log."""
        return self.log.identity

    def on_request(self, run: str, key: str, request: Any) -> None:
        """Passes on a model request, for a wrapped log that observes requests."""
        hear = getattr(self.log, "on_request", None)
        if hear is not None:
            hear(run, key, request)

    def during_call(self, run: str, key: str, index: int) -> AbstractContextManager[Any]:
        """Returns the context in which a tool runs, for a wrapped log that traces it."""
        enter = getattr(self.log, "during_call", None)
        return nullcontext() if enter is None else enter(run, key, index)

    async def create(self, row: RunRow, **named: Any) -> Claim:
        """Registers a run with its first records."""
        return await self.log.create(row, **named)

    async def claim(self, run: str, owner: str, **named: Any) -> Claim:
        """Makes `owner` the owner of the run."""
        return await self.log.claim(run, owner, **named)

    def renew(self, owner: str, runs: Collection[str], lease_ms: int) -> set[str]:
        """Makes the leases of `runs` end in `lease_ms` from now."""
        return self.log.renew(owner, runs, lease_ms)

    async def append(self, run: str, epoch: int, records: Sequence[Record], **named: Any) -> bool:
        """Writes the records."""
        return await self.log.append(run, epoch, records, **named)

    async def read(self, run: str, *, after: int = -1, limit: int = 0) -> list[Record]:
        """Returns records of a run."""
        return await self.log.read(run, after=after, limit=limit)

    async def row(self, run: str) -> RunRow:
        """Returns the run's row."""
        return await self.log.row(run)

    async def rows(self, **named: Any) -> list[RunRow]:
        """Returns runs, newest first."""
        return await self.log.rows(**named)

    async def ids(self, prefix: str, *, limit: int = 10) -> list[str]:
        """Returns ids of runs that begin with `prefix`."""
        return await self.log.ids(prefix, limit=limit)

    async def due(self, now: int, *, limit: int = 100, after: RunRow | None = None) -> list[RunRow]:
        """Returns due runs."""
        return await self.log.due(now, limit=limit, after=after)

    async def count(self, *, principal: str | None = None) -> dict[str, int]:
        """Returns the number of runs by status."""
        return await self.log.count(principal=principal)

    async def spent(self, windows: Sequence[Window]) -> list[Spending]:
        """Returns what was spent in each window."""
        return await self.log.spent(windows)

    async def spenders(self, prefix: str, since: int, until: int) -> dict[str, Spending]:
        """Returns the scopes that begin with `prefix` and spent in these hours."""
        return await self.log.spenders(prefix, since, until)

    async def post(self, run: str, signal: Signal) -> bool:
        """Puts a message in the run's inbox."""
        return await self.log.post(run, signal)

    async def inbox(self, run: str) -> list[Signal]:
        """Returns the messages not yet consumed."""
        return await self.log.inbox(run)

    async def blob(self, digest: str) -> bytes:
        """Returns a content by its digest."""
        return await self.log.blob(digest)

    async def delete(self, run: str) -> None:
        """Deletes the run."""
        await self.log.delete(run)

    async def close(self) -> None:
        """Closes the log."""
        await self.log.close()
