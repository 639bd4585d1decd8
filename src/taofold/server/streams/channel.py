"""The merged stream of a run and its child runs, read once for all watchers.

Records come from runs of this process as they become durable, and from the log for runs of other
processes. Events are in one list that each client reads at its own pace, so a slow client does not
affect others. The text of an arriving answer is not an event: it has no id, is not stored, and
starts at offset 0 for a reconnecting client.
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
"""Number of records read at once."""
REPORT_S: Final = 0.1
"""Minimum seconds between two tool reports; of faster ones the last is sent."""


class DeliveredEvent(NamedTuple):
    """A sent event with the position of the stream and its frame."""

    event: WireEvent
    sequence: int
    frame: bytes


class RunChannel:
    """The stream of `run` and its child runs."""

    def __init__(self, log: Log, run: str) -> None:
        self.run, self._log = run, log
        self.delivered: list[DeliveredEvent] = []
        self.answer = ""
        """The text of the answer so far."""
        self._since = 0
        """Number of the run's records when the reply of `answer` began."""
        self.thought = ""
        """The thought before the answer in the arriving reply."""
        self.generation = 0
        """Increases when `answer` is replaced instead of extended."""
        self.live = False
        """True if `answer` belongs to an arriving reply."""
        self.progress: Progress | None = None
        """The last tool report. It is sent to current watchers and not stored."""
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
        """True if the run has ended, by the records read so far."""
        return self._runs[self.run].state.status in ENDED

    @property
    def waits(self) -> bool:
        """True if no process drives the run or a child run, by the records read so far."""
        idle = ENDED | {"waiting"}
        return all(projection.state.status in idle for projection in self._runs.values())

    @property
    def head(self) -> int:
        """The number of records read of the run itself."""
        return self._heads[self.run]

    def knows(self, run: str) -> bool:
        """Returns whether `run` is this run or one of its child runs."""
        return run in self._runs

    def publish(self, record: e.Record) -> None:
        """Adds a record that has just become durable in this process."""
        if not self.knows(record.run):
            event = record.event
            if not isinstance(event, e.RunStarted) or not self.knows(event.parent):
                return
            self._adopt(record.run)
        # A record after a gap is skipped: `pull` first reads the missing ones from the log.
        if record.seq == self._heads[record.run] and not self._waits_for_child(record):
            self._project(record)
            self._wake()
        elif record.seq >= self._heads[record.run]:
            self.poked.set()

    def answer_so_far(self, answer: str, thought: str = "", *, since: int) -> None:
        """Sets the text of the arriving answer; `answer` is the whole text so far.

        `thought` is the thought before it in the reply, "" if unknown; `since` is the number of the
        run's records when the reply began.
        """
        self._set_answer(answer)
        self._since = since
        self.thought = thought
        self.live = True
        self._wake()

    def show_progress(self, progress: Progress) -> None:
        """Sets the last tool report."""
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
        """Reads new records from the log."""
        async with self._pulling:
            before = len(self.delivered)
            # A copy, because `_drain` adds child runs.
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
                    if self.knows(_child(record)):  # a fork has the results without the child runs
                        # A child's events come before the result of its call.
                        await self._drain(_child(record))
                # `publish` may have added it while this coroutine waited for the log.
                if record.seq == self._heads[run]:
                    self._project(record)
            if self._runs[run].state.open:
                await self._find_children(run)
            if len(records) < BATCH:
                return
            # Other clients get their turn between the batches of a long run.
            await asyncio.sleep(0)

    async def _find_children(self, run: str) -> None:
        for row in await self._log.rows(parent=run, limit=0):
            # The fork of a child run has the same parent but its own id: it is another stream.
            if row.run not in self._runs and row.events and row.run.startswith(f"{self.run}."):
                self._adopt(row.run)
                await self._drain(row.run)

    def _adopt(self, run: str) -> None:
        self._runs[run] = EventProjection(child=True)
        self._heads[run] = 0

    def _waits_for_child(self, record: e.Record) -> bool:
        """Returns whether it is the result of a child run with unread records."""
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
            # The arrived text was the thought before a call, not an answer.
            self._set_answer("")
        for delivered in self._runs[record.run](record):
            self._at[name] = (delivered.seq, delivered.part)
            if isinstance(event, e.Observed) and event.calls is not None:
                child = self._name(_child(record))
                # A position after this record covers the child's events, too.
                self._closed[child] = record.seq
                self._forget(child)
            self._append(delivered)

    def _forget(self, child: str) -> None:
        """Drops the positions of child runs that their caller's result covers."""
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
        """Returns the position of the stream. A child's event may come before the run's first."""
        return self._at if "" in self._at else {"": (0, 0), **self._at}

    def _set_answer(self, text: str) -> None:
        if not text.startswith(self.answer):
            self.generation += 1
        self.answer = text

    def _wake(self) -> None:
        # A new event for the next change, so that each waiter wakes exactly once.
        woken, self.change = self.change, asyncio.Event()
        woken.set()

    def _name(self, run: str) -> str:
        return run[len(self.run) + 1 :]

    def covered(self, event: WireEvent, position: Position) -> bool:
        """Returns whether a client at `position` has received `event`."""
        name = self._name(event.run)
        if name in position and covers(position[name], event):
            return True
        # Up the chain of callers: a received result covers all runs below it.
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
        """Returns where a client at `position` continues; call it after `pull`."""
        if not position:
            return ResumePoint(0, None)
        # Usually a suffix of the list. If another server read the runs in another order, the
        # client's own position decides for each event.
        fresh = [not self.covered(event.event, position) for event in self.delivered]
        begin = fresh.index(True) if True in fresh else len(fresh)
        if all(fresh[begin:]):
            return ResumePoint(begin, None)
        return ResumePoint(begin, dict(position))

    def own(self, delivered: DeliveredEvent, position: dict[str, SeqPart]) -> bytes:
        """Returns the frame for a client whose server read the runs in another order."""
        name = self._name(delivered.event.run)
        position[name] = further(position.get(name), (delivered.event.seq, delivered.event.part))
        return delivered.event.frame(delivered.sequence, position_text(position))


class ResumePoint(NamedTuple):
    """A place in the list, with the client's own position if the order differs."""

    begin: int
    position: dict[str, SeqPart] | None


def _answers(event: e.Proposed) -> bool:
    """Returns whether the step is the answer, not a call."""
    return all(action.tool == FINISH for action in event.actions)


def _child(record: e.Record) -> str:
    """Returns the id of the child run of an observed call."""
    event = record.event
    assert isinstance(event, e.Observed)
    return child_id(record.run, event.key, event.index)


MOST_BYTES: Final = 65_536
"""Maximum bytes of frames sent together."""
LONGEST_REPORT: Final = 2_000
"""Maximum characters of a tool report."""


class ChannelReader:
    """One client's reader of a channel."""

    def __init__(self, channel: RunChannel, entry: ResumePoint, now: Callable[[], int]) -> None:
        self._channel, self._now = channel, now
        self._index, self._position = entry
        self._sent, self._generation = 0, channel.generation
        self._reports = channel.reports
        self._last = 0
        """Sequence number of the last sent event."""
        self.done = False

    async def frames(self) -> AsyncIterator[bytes]:
        """Yields all frames until the end of the run."""
        channel = self._channel
        while not self.done:
            # Taken before the list is read, so that later changes set this event.
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
                    continue  # the run continued after this end
                # A resumed run has an earlier `done`; only the last one ends the stream.
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
        """Returns the unsent rest of `text`, in one chunk."""
        channel = self._channel
        # The answer was replaced (a retry of the reply): offset 0 makes the client start over.
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
        """Returns the frame of the last tool report."""
        self._reports, progress = self._channel.reports, self._channel.progress
        if progress is None:
            return []
        text = progress.text[:LONGEST_REPORT]
        return [self._passing("progress", progress.run, {"tool": progress.tool, "text": text})]

    def _passing(self, name: str, run: str, said: dict[str, Any]) -> bytes:
        """Returns the frame of output that is not in the log, without an id."""
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
    """Returns whether the run has ended and all its events were read."""
    return channel.ended and entry.begin >= len(channel.delivered)
