"""`Journal`, the interface of the storage of loops and lessons: streams of facts.

A journal holds named streams of facts: append-only, numbered, with JSON bodies that only their
owner reads. A writer passes the last fact it has seen. If another process wrote in between it gets
`Conflict`, reads the new facts, and decides again. A stream's state is a fold of its facts. A
stream's subject is driven under a lease, as with runs. `MemoryJournal` is the simplest
implementation; the durable ones are beside the logs.
"""

from collections.abc import Callable, Collection, Sequence
from threading import Lock
from typing import Protocol

import msgspec

from taofold.clocks import clock
from taofold.core.errors import Conflict
from taofold.log.log import lease_lasts


class Fact(msgspec.Struct, frozen=True, gc=False):
    """One entry of a stream. `at` is milliseconds since the epoch, `body` is JSON."""

    seq: int
    at: int
    body: bytes


class StreamRow(msgspec.Struct, frozen=True, gc=False):
    """The row of a stream in lists: `head` is the number of its last fact.

    `held`: `owner` had a lease that was valid when the row was read.
    """

    stream: str
    head: int
    created_at: int
    updated_at: int
    owner: str = ""
    lease_until: int = 0
    held: bool = False


class Journal(Protocol):
    """Streams of facts. Every method may raise `LogError`."""

    @property
    def identity(self) -> str:
        """Equal for two objects that are one journal."""
        ...

    async def write(
        self,
        stream: str,
        after: int,
        facts: Sequence[tuple[int, bytes]],
        *,
        disk: bool = False,
        owner: str = "",
        lease_ms: int = 0,
        alone: bool = False,
    ) -> int:
        """Appends `facts` (time and body) after number `after` (-1 = a new stream).

        One transaction, or nothing; returns the number of the last fact. `disk` waits until a power
        failure cannot undo it. With an `owner` it owns the stream from now on, for `lease_ms`.
        `alone` deletes all facts before these in the same transaction. The numbers continue.

        Raises:
            Conflict: The stream's last fact is not `after`. Nothing was written.
        """
        ...

    async def facts(self, stream: str, *, after: int = -1, limit: int = 0) -> list[Fact]:
        """Returns facts with `seq > after`, in order; at most `limit` (0 = all). May be empty."""
        ...

    async def streams(self, prefix: str = "") -> list[StreamRow]:
        """Returns streams whose name starts with `prefix`, newest first."""
        ...

    async def row(self, stream: str) -> StreamRow | None:
        """Returns the stream's row, or None if there is no such stream."""
        ...

    def renew(self, owner: str, streams: Collection[str], lease_ms: int) -> set[str]:
        """Makes the leases of the `streams` owned by `owner` end in `lease_ms` from now.

        0 ends them at once. Returns the streams that it still owns. It blocks, and is called from a
        thread of its own.
        """
        ...

    async def drop(self, stream: str) -> None:
        """Deletes the stream. A missing one is no error."""
        ...

    async def close(self) -> None:
        """Releases its own resources."""
        ...


class MemoryJournal:
    """A `Journal` that lives as long as the process."""

    def __init__(self, *, now: Callable[[], int] = clock) -> None:
        self._streams: dict[str, list[Fact]] = {}
        self._leases: dict[str, tuple[str, int]] = {}
        self._now, self._lock = now, Lock()

    @property
    def identity(self) -> str:
        """The identity of this object."""
        return f"memory-journal:{id(self)}"

    async def write(
        self,
        stream: str,
        after: int,
        facts: Sequence[tuple[int, bytes]],
        *,
        disk: bool = False,
        owner: str = "",
        lease_ms: int = 0,
        alone: bool = False,
    ) -> int:
        """Appends facts after number `after`."""
        del disk
        stored = self._streams.get(stream, [])
        last = stored[-1].seq if stored else -1
        # Optimistic: a writer that has not seen the last fact decided on outdated data.
        if last != after:
            raise Conflict(outrun(stream, after, last))
        added = [Fact(after + 1 + n, at, body) for n, (at, body) in enumerate(facts)]
        if added:
            kept = [] if alone else stored
            kept.extend(added)
            self._streams[stream] = kept
        # A stream exists from its first fact: before that it cannot be owned.
        if owner and stream in self._streams:
            with self._lock:
                self._leases[stream] = (owner, self._now() + lease_ms)
        return after + len(added)

    def renew(self, owner: str, streams: Collection[str], lease_ms: int) -> set[str]:
        """Makes the leases of `streams` end in `lease_ms` from now."""
        with self._lock:
            renewed = {name for name in streams if self._leases.get(name, ("", 0))[0] == owner}
            self._leases.update(dict.fromkeys(renewed, (owner, self._now() + lease_ms)))
        return renewed

    async def facts(self, stream: str, *, after: int = -1, limit: int = 0) -> list[Fact]:
        """Returns facts with `seq > after`, in order."""
        stored = self._streams.get(stream, [])
        # A stream whose facts were replaced does not begin with number 0.
        first = stored[0].seq if stored else 0
        facts = stored[max(after + 1 - first, 0) :]
        return facts[:limit] if limit > 0 else facts

    async def streams(self, prefix: str = "") -> list[StreamRow]:
        """Returns streams whose name starts with `prefix`, newest first."""
        return [self._row(name) for name in reversed(self._streams) if name.startswith(prefix)]

    async def row(self, stream: str) -> StreamRow | None:
        """Returns the stream's row."""
        return self._row(stream) if stream in self._streams else None

    def _row(self, name: str) -> StreamRow:
        facts, (owner, until) = self._streams[name], self._leases.get(name, ("", 0))
        held = lease_lasts(until, self._now())
        return StreamRow(name, facts[-1].seq, facts[0].at, facts[-1].at, owner, until, held)

    async def drop(self, stream: str) -> None:
        """Deletes the stream."""
        self._streams.pop(stream, None)
        self._leases.pop(stream, None)

    async def close(self) -> None:
        """Does nothing."""


def outrun(stream: str, seen: int, head: int) -> str:
    """Returns the error for a writer that has seen `seen` of a stream that is at `head`."""
    return (
        f"the last fact of {stream!r} is {head}, not {seen}: another process wrote. Nothing was "
        "written: read the new facts and decide again"
    )
