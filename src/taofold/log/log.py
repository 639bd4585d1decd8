"""`Log`, the interface of what keeps runs, and the rules and words that all logs share.

Anything that passes `taofold.testing.log_conformance` is a log; `WrappedLog` is the base of those
that stand in front of another.

The whole concurrency model is here. A run has one owner at a time, known by its `epoch`: an append
carries the epoch and the next sequence numbers, so whoever was overtaken gets `Conflict` and
nothing is written twice. How long an owner may be silent is its *lease*, a time by the log's own
clock: while it lasts nobody else becomes the owner, and once it is over anybody may. Whoever is not
the owner leaves a message for the run in its inbox (`Signal`). Lists show a run as a `RunRow`;
`forgettable` are the runs that are old enough to be deleted.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Literal, Protocol

from taofold.core.events import Record
from taofold.core.state import ENDED
from taofold.core.values import Value

SignalKind = Literal["decide", "answer", "steer", "cancel", "refused"]

LONGEST_LEASE_MS: Final = 60_000
"""No lease is longer. One that ends later than this from now was taken by another clock (it was
set back since) and counts as over."""

NOTHING_SAVED: Final = "Nothing of this write was saved; what was written before it is safe."
"""What the error of every log says of a write that failed."""

AT_ONCE: Final = 1
"""A `wake_at` that is always over: somebody should look at the run now."""


class RunRow(Value, frozen=True):
    """What a list of runs shows. Times are milliseconds since the epoch."""

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
    """When the owner's lease ends, by the log's clock; 0 = there is none."""
    wake_at: int = 0
    """When a waiting run is due; 0 = when a message comes."""
    held: bool = False
    """Is it running, under a lease that was not over when the row was read?"""
    place: int = 0
    """Its number in the order in which runs were registered."""
    tags: dict[str, str] = {}
    """What its caller filters lists by."""


class Signal(Value, frozen=True):
    """A message from outside for one run. The same `id` is taken once."""

    id: str
    kind: SignalKind
    by: str = ""
    at: int = 0
    data: dict[str, Any] = {}


class Claim(Value, frozen=True):
    """Ownership of a run: the fencing token, and who held it before."""

    epoch: int
    previous_owner: str = ""


class Log(Protocol):
    """An append-only sequence of records per run, with an inbox and blobs beside it.

    Every method may raise `LogError`; `UnknownRun` where the run does not exist;
    `OutcomeUnknown` where a write may have happened and its answer was lost (`CertainLog` finds
    out which).

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
        """Register a run with its first `records` and the `blobs` (digest to bytes) that they
        speak of, in one transaction or not at all.

        With an `owner` the run is its from the start (epoch 1), for `lease_ms`; without one it
        has epoch 0. Of `row` the epoch, the events, the owner and the lease do not count.

        Raises:
            Conflict: the id is taken, or another run of `row.session` has not ended.
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
        """Become the owner: the epoch rises by one and older owners are locked out.

        With `lease_ms` it is claimed to be driven: its status is `running` from now on. `force`
        claims it whatever the lease says: the caller knows that its owner is gone.

        Raises:
            Conflict: another owner's lease is not over; or `epoch` is given and is not the
                run's: somebody else was quicker.
        """
        ...

    def renew(self, owner: str, runs: Collection[str], lease_ms: int) -> set[str]:
        """Make the leases of those of `runs` that `owner` drives end in `lease_ms` from now.

        0 ends them at once. Returns the runs that are still its own. It blocks, and is called
        from a thread of its own while others use the log: signs of life must not depend on an
        event loop that somebody holds up.
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
        """Write `records` in one transaction, or nothing.

        `disk` waits until a power cut cannot undo it; without it a killed process
        cannot. Inbox messages `consume` are taken out, `blobs` (digest to bytes) put in
        and the run's row updated (if `status` is given) in the same transaction: any status
        but `running` ends the lease. With `if_quiet` nothing is written and False returned
        while the inbox holds anything beyond `consume`.

        Raises:
            Conflict: `epoch` is not the current one, or a sequence number is not the next.
        """
        ...

    async def read(self, run: str, *, after: int = -1, limit: int = 0) -> list[Record]:
        """Records with `seq > after`, in order; at most `limit` (0 = all)."""
        ...

    async def row(self, run: str) -> RunRow:
        """The run's row."""
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
        """Runs that have all of these, newest first; a `limit` of 0 means all.

        `tag` is `name=value`. With other filters beside it the runs that have the tag are looked
        at, newest first, until there are enough.

        `before` is a `place`: only runs registered before it. What it costs depends on the runs
        that are returned, not on how many there are.
        """
        ...

    async def ids(self, prefix: str, *, limit: int = 10) -> list[str]:
        """Ids of runs that begin with `prefix`, in their alphabetical order."""
        ...

    async def due(self, now: int, *, limit: int = 100, after: RunRow | None = None) -> list[RunRow]:
        """Runs that somebody should look at, the longest due first, behind `after`.

        These are running ones whose lease is over (by the log's clock), and waiting ones whose
        `wake_at` is not later than `now`. What it costs depends on how many are due.
        """
        ...

    async def count(self, *, principal: str | None = None) -> dict[str, int]:
        """How many runs there are by status; with a `principal`, of its runs without a parent.

        It costs the same however many there are.
        """
        ...

    async def post(self, run: str, signal: Signal) -> bool:
        """Put `signal` in the inbox, on disk. False if a signal with its id was ever posted.

        The run is due from now on, unless the signal is only for its record (`refused`).
        """
        ...

    async def inbox(self, run: str) -> list[Signal]:
        """Messages not yet consumed, in order of arrival."""
        ...

    async def blob(self, digest: str) -> bytes:
        """The content with this BLAKE2b-160 hex digest."""
        ...

    async def delete(self, run: str) -> None:
        """Forget the run: records, inbox, and blobs that nothing else refers to."""
        ...

    async def close(self) -> None:
        """Flush and let go. Further calls raise `LogError`."""
        ...


def lease_lasts(lease_until: int, now: int) -> bool:
    """Is a lease not over? `now` is the log's clock, in milliseconds."""
    # The upper bound is for clocks that were set back: such a lease would never end.
    return now < lease_until <= now + LONGEST_LEASE_MS


def due_at(row: RunRow) -> int:
    """Since when a row of `Log.due` has been due."""
    return row.lease_until if row.status == "running" else row.wake_at


def overtaken(run: str, current: int, epoch: int) -> str:
    """What a log tells a worker whose `epoch` is not the `current` one of the run."""
    return (
        f"run {run!r} is at epoch {current}, and this worker has epoch {epoch}: somebody else took "
        "it over. Nothing was written: stop here, its owner goes on"
    )


def still_leased(run: str, left_ms: int) -> str:
    """What a log tells whoever wants a run whose lease lasts."""
    return (
        f"run {run!r} is driven by somebody else, whose lease lasts {left_ms / 1000:.1f} s more "
        "unless it is renewed. Nothing was written: try again then"
    )


def misplaced_text(run: str, head: int, record: Record) -> str:
    """What a log tells the writer of a record that is not the one at `head` of `run`."""
    return (
        f"the next record of run {run!r} is {head}, not {record.seq} of run {record.run!r}. "
        "Nothing was written: read the run again"
    )


async def forgettable(log: Log, before_ms: int, keep: Collection[str]) -> list[str]:
    """Ids of the runs that ended, in a status not in `keep`, and saw nothing since `before_ms`."""
    old: list[str] = []
    for status in sorted(ENDED - {*keep}):
        rows = await log.rows(status=status, limit=0)
        old += [row.run for row in rows if row.updated_at < before_ms]
    return old


class WrappedLog:
    """A log that passes every call on to `log`: the base of those that change some of them.

    `named` are the arguments that `Log` has by name.
    """

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

    def during_call(self, run: str, key: str, index: int) -> AbstractContextManager[Any]:
        """Returns the context in which a tool runs: for a log below that traces it."""
        enter = getattr(self.log, "during_call", None)
        return nullcontext() if enter is None else enter(run, key, index)

    async def create(self, row: RunRow, **named: Any) -> Claim:
        """Register a run with its first records."""
        return await self.log.create(row, **named)

    async def claim(self, run: str, owner: str, **named: Any) -> Claim:
        """Become the owner of the run."""
        return await self.log.claim(run, owner, **named)

    def renew(self, owner: str, runs: Collection[str], lease_ms: int) -> set[str]:
        """Make the leases of `runs` end in `lease_ms` from now."""
        return self.log.renew(owner, runs, lease_ms)

    async def append(self, run: str, epoch: int, records: Sequence[Record], **named: Any) -> bool:
        """Write the records."""
        return await self.log.append(run, epoch, records, **named)

    async def read(self, run: str, *, after: int = -1, limit: int = 0) -> list[Record]:
        """Records of a run."""
        return await self.log.read(run, after=after, limit=limit)

    async def row(self, run: str) -> RunRow:
        """The run's row."""
        return await self.log.row(run)

    async def rows(self, **named: Any) -> list[RunRow]:
        """Runs, newest first."""
        return await self.log.rows(**named)

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
