"""The seam of the store: what a log must do. Anything that passes
`taofold.testing.log_conformance` is a log.

The whole concurrency model is here: a run has one owner at a time, known by its
`epoch`; an append carries the epoch and the next sequence numbers, so whoever was
overtaken gets `Conflict` and nothing is written twice.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol

from taofold.core.events import Record
from taofold.core.values import Value

SignalKind = Literal["decide", "answer", "steer", "cancel", "refused"]

ENDED: Final = frozenset({"finished", "limited", "failed", "cancelled"})
"""Statuses after which another run of the same session may begin."""


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

    Every method may raise `LogError`; `UnknownRun` where the run does not exist.
    """

    async def create(self, row: RunRow) -> None:
        """Register a run (`epoch` 0, no records).

        Raises:
            Conflict: the id is taken, or another run of `row.session` has not ended.
        """
        ...

    async def claim(self, run: str, owner: str, *, epoch: int | None = None) -> Claim:
        """Become the owner: the epoch rises by one and older owners are locked out.

        Raises:
            Conflict: `epoch` is given and is not the run's: somebody else was quicker.
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
        if_quiet: bool = False,
    ) -> bool:
        """Write `records` in one transaction, or nothing.

        `disk` waits until a power cut cannot undo it; without it a killed process
        cannot. Inbox messages `consume` are taken out, `blobs` (digest to bytes) put in
        and the run's row updated (if `status` is given) in the same transaction.
        With `if_quiet` nothing is written and False returned while the inbox holds
        anything beyond `consume`.

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
        self, *, status: str = "", session: str = "", parent: str = "", limit: int = 100
    ) -> list[RunRow]:
        """Runs, newest first."""
        ...

    async def post(self, run: str, signal: Signal) -> bool:
        """Put `signal` in the inbox. False if a signal with its id was ever posted."""
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


def overtaken(row: RunRow, epoch: int) -> str:
    """What a log tells a worker whose `epoch` is not the run's."""
    return (
        f"run {row.run!r} is at epoch {row.epoch}, owned by {row.owner!r}; this worker has "
        f"epoch {epoch}. Nothing was written: stop here, the owner goes on"
    )


def misplaced(run: str, head: int, record: Record) -> str:
    """What a log tells the writer of a record that is not the one at `head` of `run`."""
    return (
        f"the next record of run {run!r} is {head}, not {record.seq} of run {record.run!r}. "
        "Nothing was written: read the run again"
    )
