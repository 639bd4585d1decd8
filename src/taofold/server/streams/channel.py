"""The stream of a run and its child runs, merged: read once, delivered to all who watch it.

Records come from this process's own runs as they become durable, and from the log where another
process drives. Events are kept in one list that every client walks at its own pace, so a client
that does not read costs nobody anything. Text of an answer that is still arriving is not an event:
it has no id, is not stored, and starts again at offset 0 for a client that comes back.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from taofold.core import events as e
from taofold.core.call_ids import child_id
from taofold.core.happenings import Progress
from taofold.core.state import ENDED
from taofold.core.text import iso
from taofold.core.values import FINISH
from taofold.log.log import Log
from taofold.server.streams.events import (
    EventProjection,
    Position,
    SeqPart,
    WireEvent,
    covers,
    further,
    position_text,
)

BATCH: Final = 500
"""Records read at once."""
REPORT_S: Final = 0.1
"""Seconds between two reports of tools: of what comes faster the last is told."""


class DeliveredEvent(NamedTuple):
    """An event as it was told: where the stream was then, and its frame."""

    event: WireEvent
    sequence: int
    frame: bytes


class RunChannel:
    """The stream of `run` and its child runs."""

    def __init__(self, log: Log, run: str) -> None:
        self.run, self._log = run, log
        self.delivered: list[DeliveredEvent] = []
        self.answer = ""
        """What is known of the answer's text."""
        self._since = 0
        """The run's records before this one were there when the reply of `answer` began."""
        self.thought = ""
        """What the model thought before it, as the reply that is still arriving says."""
        self.generation = 0
        """Rises when `answer` is something else than a longer version of itself."""
        self.live = False
        """Is `answer` of a reply that is still arriving?"""
        self.progress: Progress | None = None
        """What a tool said last of its work. It is told to whoever watches then, and not kept."""
        self.reports = 0
        self._reporting: asyncio.TimerHandle | None = None
        self.watchers = 0
        self.change = asyncio.Event()
        self._runs: dict[str, EventProjection] = {run: EventProjection()}
        self._heads: dict[str, int] = {run: 0}
        self._at: dict[str, SeqPart] = {}
        self._closed: dict[str, int] = {}
        self._pulling = asyncio.Lock()
        self.poked = asyncio.Event()
        self.poked_at = float("-inf")

    @property
    def ended(self) -> bool:
        """Has the run ended, as far as its records were read?"""
        return self._runs[self.run].state.status in ENDED

    @property
    def waits(self) -> bool:
        """Does nobody drive the run, nor a child run, as far as their records were read?"""
        idle = ENDED | {"waiting"}
        return all(projection.state.status in idle for projection in self._runs.values())

    @property
    def head(self) -> int:
        """The number of records that were read of the run itself."""
        return self._heads[self.run]

    def knows(self, run: str) -> bool:
        """Is it the run, or one of its child runs?"""
        return run in self._runs

    def publish(self, record: e.Record) -> None:
        """Take in a record that has just become durable in this process."""
        if not self.knows(record.run):
            event = record.event
            if not isinstance(event, e.RunStarted) or not self.knows(event.parent):
                return
            self._adopt(record.run)
        # A record that leaves a gap is not taken: `pull` reads the missing ones from the log first.
        if record.seq == self._heads[record.run] and not self._waits_for_child(record):
            self._project(record)
            self._wake()
        elif record.seq >= self._heads[record.run]:
            self.poked.set()

    def answer_so_far(self, answer: str, thought: str = "", *, since: int) -> None:
        """More of the answer has arrived: `answer` is all of it.

        `thought` is what the reply says before it, "" if that is not known here; `since` how many
        records the run had when the reply began.
        """
        self._set_answer(answer)
        self._since = since
        self.thought = thought
        self.live = True
        self._wake()

    def show_progress(self, progress: Progress) -> None:
        """A tool says how far it is."""
        if not self.knows(progress.run):
            return
        self.progress = progress
        if self._reporting is None:
            later = asyncio.get_running_loop().call_later
            self._reporting = later(REPORT_S, self._reported)

    def _reported(self) -> None:
        self._reporting = None
        self.reports += 1
        self._wake()

    async def pull(self) -> None:
        """Read what the log has beyond what is known."""
        async with self._pulling:
            before = len(self.delivered)
            # A copy: `_drain` adopts child runs while it goes on.
            for run in list(self._runs):
                await self._drain(run)
            if len(self.delivered) != before:
                self._wake()

    async def _drain(self, run: str) -> None:
        while True:
            records = await self._log.read(run, after=self._heads[run] - 1, limit=BATCH)
            for record in records:
                if self._waits_for_child(record):
                    await self._find_children(run)
                    if self.knows(_child(record)):  # a fork has the results, not the child runs
                        # Before the result, as it happened: a client
                        # gets a child's events before what they led to.
                        await self._drain(_child(record))
                # `publish` may have taken it while this coroutine waited for the log.
                if record.seq == self._heads[run]:
                    self._project(record)
            if self._runs[run].state.open:
                await self._find_children(run)
            if len(records) < BATCH:
                return
            # A long run is read in batches, and other clients get their turn between them.
            await asyncio.sleep(0)

    async def _find_children(self, run: str) -> None:
        for row in await self._log.rows(parent=run, limit=0):
            # The fork of a child run keeps its parent, but
            # has an id of its own: it is another stream.
            if row.run not in self._runs and row.events and row.run.startswith(f"{self.run}."):
                self._adopt(row.run)
                await self._drain(row.run)

    def _adopt(self, run: str) -> None:
        self._runs[run] = EventProjection(child=True)
        self._heads[run] = 0

    def _waits_for_child(self, record: e.Record) -> bool:
        """Is it the result of a child run whose own records were not all read yet?"""
        if not isinstance(record.event, e.Observed) or record.event.calls is None:
            return False
        projection = self._runs.get(_child(record))
        return projection is None or projection.state.status not in ENDED

    def _project(self, record: e.Record) -> None:
        self._heads[record.run] = record.seq + 1
        name = self._name(record.run)
        event = record.event
        called = isinstance(event, e.Proposed) and not _answers(event)
        if name == "" and self.live and called and record.seq >= self._since:
            # What arrived were words before a call: they are its thought, and no answer.
            self._set_answer("")
        for delivered in self._runs[record.run](record):
            self._at[name] = (delivered.seq, delivered.part)
            if isinstance(event, e.Observed) and event.calls is not None:
                child = self._name(_child(record))
                # From here on a client that has this record
                # has the child's too, without naming it.
                self._closed[child] = record.seq
                self._forget(child)
            self._append(delivered)

    def _forget(self, child: str) -> None:
        """The caller's result covers its child runs: they need no place of their own."""
        for name in [
            suffix for suffix in self._at if suffix == child or suffix.startswith(f"{child}.")
        ]:
            del self._at[name]

    def _append(self, event: WireEvent) -> None:
        sequence = len(self.delivered)
        if event.type == "answer":
            self._set_answer(str(event.data["text"]))
            self.live = False
        self.delivered.append(
            DeliveredEvent(event, sequence, event.frame(sequence, position_text(self._place())))
        )

    def _place(self) -> Position:
        """Where the stream is. A child's event may come before any of the run's own."""
        return self._at if "" in self._at else {"": (0, 0), **self._at}

    def _set_answer(self, text: str) -> None:
        if not text.startswith(self.answer):
            self.generation += 1
        self.answer = text

    def _wake(self) -> None:
        # A new event for the next change: whoever waits on the old one wakes exactly once.
        woken, self.change = self.change, asyncio.Event()
        woken.set()

    def _name(self, run: str) -> str:
        return run[len(self.run) + 1 :]

    def covered(self, event: WireEvent, position: Position) -> bool:
        """Was `event` told to a client that is at `position`?"""
        name = self._name(event.run)
        if name in position and covers(position[name], event):
            return True
        # Up the chain of callers: any result that the client has covers everything below it.
        while name and "" in position:
            if name in self._closed:
                caller = self._name_of_caller(name)
                reached = position.get(caller)
                if reached is not None and reached[0] >= self._closed[name]:
                    return True
            name = self._name_of_caller(name)
        return False

    def _name_of_caller(self, name: str) -> str:
        return name.rpartition(".")[0]

    def entry(self, position: Position) -> "ResumePoint":
        """Where a client that is at `position` goes on, once everything was pulled."""
        if not position:
            return ResumePoint(0, None)
        # The usual case is a suffix of the list. Another server may have seen the runs'
        # records in another order: then the client's own position decides, event by event.
        fresh = [not self.covered(event.event, position) for event in self.delivered]
        begin = fresh.index(True) if True in fresh else len(fresh)
        if all(fresh[begin:]):
            return ResumePoint(begin, None)
        return ResumePoint(begin, dict(position))

    def own(self, delivered: DeliveredEvent, position: dict[str, SeqPart]) -> bytes:
        """The frame for a client whose server saw the runs in another order."""
        name = self._name(delivered.event.run)
        position[name] = further(position.get(name), (delivered.event.seq, delivered.event.part))
        return delivered.event.frame(delivered.sequence, position_text(position))


class ResumePoint(NamedTuple):
    """A place in the list; with the client's own position if the order was another one."""

    begin: int
    position: dict[str, SeqPart] | None


def _answers(event: e.Proposed) -> bool:
    """Is the step the answer, and no call?"""
    return all(action.tool == FINISH for action in event.actions)


def _child(record: e.Record) -> str:
    """The id of the child run that the call of an `Observed` started."""
    event = record.event
    assert isinstance(event, e.Observed)
    return child_id(record.run, event.key, event.index)


MOST_BYTES: Final = 65_536
"""Frames are sent together up to this size."""
LONGEST_REPORT: Final = 2_000
"""Characters of what a tool says of its work."""


class ChannelReader:
    """One client's way through a channel."""

    def __init__(self, channel: RunChannel, entry: ResumePoint, now: Callable[[], int]) -> None:
        self._channel, self._now = channel, now
        self._index, self._position = entry
        self._sent, self._generation = 0, channel.generation
        self._reports = channel.reports
        self._last = 0
        """Sequence number of the event that was told last."""
        self.done = False

    async def frames(self) -> AsyncIterator[bytes]:
        """Everything from here on, until the run's end was told."""
        channel = self._channel
        while not self.done:
            # Taken before the list is looked at: what is told meanwhile sets this very event.
            change = channel.change
            parts, size = list[bytes](), 0
            for part in self._events():
                parts.append(part)
                size += len(part)
                if size >= MOST_BYTES:
                    yield b"".join(parts)
                    parts, size = [], 0
            if channel.live and not self.done:
                parts += self._chunk(channel.answer)
            if self._reports != channel.reports and not self.done:
                parts += self._report()
            if parts:
                yield b"".join(parts)
            elif not self.done:
                await change.wait()

    def _events(self) -> Iterator[bytes]:
        channel = self._channel
        while self._index < len(channel.delivered):
            delivered = channel.delivered[self._index]
            self._index += 1
            if self._position is not None and channel.covered(delivered.event, self._position):
                continue
            if delivered.event.type == "done":
                if self._index < len(channel.delivered):
                    continue  # the run went on: it was no end
                # A resumed run has a `done` in the middle of its
                # records; only the last may end the stream.
                self.done = channel.ended
                if not self.done:
                    continue
            if delivered.event.type == "answer":
                yield from self._chunk(str(delivered.event.data["text"]))
            self._last = delivered.sequence
            yield self._frame(delivered)

    def _frame(self, delivered: DeliveredEvent) -> bytes:
        if self._position is None:
            return delivered.frame
        return self._channel.own(delivered, self._position)

    def _chunk(self, text: str) -> list[bytes]:
        """What the client has not yet got of `text`, in one piece."""
        channel = self._channel
        # The answer was replaced (a new attempt at the
        # reply): offset 0 tells the client to start over.
        if self._generation != channel.generation or not text.startswith(
            channel.answer[: self._sent]
        ):
            withdrawn = self._sent > 0 and not text
            self._generation, self._sent = channel.generation, 0
            if withdrawn:
                return [self._passing("answer_chunk", channel.run, {"text": "", "offset": 0})]
        if self._sent >= len(text):
            return []
        chunk = {"text": text[self._sent :], "offset": self._sent}
        self._sent = len(text)
        return [self._passing("answer_chunk", channel.run, chunk)]

    def _report(self) -> list[bytes]:
        """What a tool said last of its work."""
        self._reports, progress = self._channel.reports, self._channel.progress
        if progress is None:
            return []
        text = progress.text[:LONGEST_REPORT]
        return [self._passing("progress", progress.run, {"tool": progress.tool, "text": text})]

    def _passing(self, name: str, run: str, said: dict[str, Any]) -> bytes:
        """The frame of what no log holds: without an id, because nobody can come back to it."""
        body = {
            "type": name,
            "timestamp": iso(self._now()),
            "sequence": self._last,
            "run": run,
            "seq": None,
            "child": run != self._channel.run,
            **said,
        }
        return f"event: {name}\ndata: ".encode() + msgspec.json.encode(body) + b"\n\n"


def read_already(channel: RunChannel, entry: ResumePoint) -> bool:
    """Has the run ended, and was everything told?"""
    return channel.ended and entry.begin >= len(channel.delivered)
