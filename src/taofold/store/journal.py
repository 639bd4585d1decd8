"""The seam for what is not a run but is kept like one: loops, and what was learnt.

A journal holds named streams of facts: append-only, numbered, JSON bodies that only their
owner can read. Whoever appends says what it has seen; if somebody else was quicker it gets
`Conflict`, reads on, and decides again. A stream's state is a fold of its facts.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from taofold.core.errors import Conflict


class Fact(msgspec.Struct, frozen=True, gc=False):
    """One entry of a stream. `at` is milliseconds since the epoch, `body` is JSON."""

    seq: int
    at: int
    body: bytes


class StreamRow(msgspec.Struct, frozen=True, gc=False):
    """What a list of streams shows: `head` is the number of its last fact."""

    stream: str
    head: int
    created_at: int
    updated_at: int


class Journal(Protocol):
    """Streams of facts. Every method may raise `LogError`."""

    async def write(
        self, stream: str, after: int, facts: Sequence[tuple[int, bytes]], *, disk: bool = False
    ) -> int:
        """Append `facts` (time and body) behind number `after` (-1 = a new stream).

        One transaction, or nothing; returns the number of the last fact. `disk` waits until a
        power cut cannot undo it.

        Raises:
            Conflict: the stream's last fact is not `after`. Nothing was written.
        """
        ...

    async def facts(self, stream: str, *, after: int = -1, limit: int = 0) -> list[Fact]:
        """Facts with `seq > after`, in order; at most `limit` (0 = all). None: no such stream."""
        ...

    async def streams(self, prefix: str = "") -> list[StreamRow]:
        """Streams whose name starts with `prefix`, newest first."""
        ...

    async def drop(self, stream: str) -> None:
        """Forget the stream. One that does not exist is no error."""
        ...


class MemoryJournal:
    """A `Journal` that lives as long as the process."""

    def __init__(self) -> None:
        self._streams: dict[str, list[Fact]] = {}

    async def write(
        self, stream: str, after: int, facts: Sequence[tuple[int, bytes]], *, disk: bool = False
    ) -> int:
        """Append behind number `after`."""
        del disk
        known = self._streams.get(stream, [])
        if len(known) - 1 != after:
            raise Conflict(outrun(stream, after, len(known) - 1))
        added = [Fact(after + 1 + n, at, body) for n, (at, body) in enumerate(facts)]
        if added:
            self._streams.setdefault(stream, known).extend(added)
        return after + len(added)

    async def facts(self, stream: str, *, after: int = -1, limit: int = 0) -> list[Fact]:
        """Facts with `seq > after`, in order."""
        found = self._streams.get(stream, [])[max(after, -1) + 1 :]
        return found[:limit] if limit > 0 else found

    async def streams(self, prefix: str = "") -> list[StreamRow]:
        """Streams whose name starts with `prefix`, newest first."""
        return [
            StreamRow(name, len(facts) - 1, facts[0].at, facts[-1].at)
            for name, facts in reversed(self._streams.items())
            if name.startswith(prefix)
        ]

    async def drop(self, stream: str) -> None:
        """Forget the stream."""
        self._streams.pop(stream, None)


def outrun(stream: str, seen: int, head: int) -> str:
    """What a journal tells a writer who has seen `seen` of a stream that is at `head`."""
    return (
        f"the last fact of {stream!r} is {head}, not {seen}: somebody else wrote. Nothing was "
        "written: read on and decide again"
    )
