"""`Hub`: the channels of watched runs, one for each run.

Runs of this process report durable records. If the log can broadcast (PostgreSQL), other processes
report their runs (`relay`). Otherwise the log is polled a few times a second while a run has
watchers. `response` makes a watcher's response.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeAlias

from taofold.core import events as e
from taofold.core.errors import LogError
from taofold.core.happenings import Delta, Happening, Progress
from taofold.log.log import Log
from taofold.server.streams.channel import RunChannel
from taofold.server.streams.partial_answer import PartialAnswer
from taofold.server.streams.relay import NoRelay

LOOK_S: Final = 0.2
"""Seconds between two reads of a run that another process drives."""
CHECK_S: Final = 2.0
"""The same for a run of this process, as a safety net."""
CALM_S: Final = 15.0
"""The same for a run whose changes are reported."""

ToolNames: TypeAlias = Callable[[], Collection[str]]

_logger = logging.getLogger(__name__)


class Hub:
    """The channels of one process."""

    def __init__(
        self, log: Log, *, driven: Callable[[str], bool] = lambda run: False, look_s: float = LOOK_S
    ) -> None:
        self._log, self._driven, self._look_s = log, driven, look_s
        self._channels: dict[str, RunChannel] = {}
        self._tailers: dict[str, asyncio.Task[None]] = {}
        self._replies: dict[str, PartialAnswer] = {}
        self._answering: dict[str, ToolNames] = {}
        """Tools of the runs driven here whose replies may be the answer."""
        self._heads: dict[str, int] = {}
        """Number of records of the runs driven here."""
        self.relay = NoRelay()
        """Connection to other processes if the log can broadcast."""
        self.hears_changes = False
        """True if `poke` is called for each change of a status or an inbox by any process."""

    @property
    def watchers(self) -> int:
        """The number of current watchers."""
        return sum(channel.watchers for channel in self._channels.values())

    def watched(self, run: str) -> bool:
        """Returns whether the run has watchers."""
        channel = self._channels.get(run)
        return channel is not None and channel.watchers > 0

    def hear(self, root: str, happening: Happening) -> None:
        """Handles a record or a delta of a run of this process or its child runs."""
        match happening:
            case Delta():
                self._hear_delta(root, happening)
            case Progress():
                if (channel := self._channels.get(root)) is not None:
                    channel.show_progress(happening)
                self.relay.reported(root, happening)
            case _:
                self._hear_record(root, happening)

    def _hear_delta(self, root: str, delta: Delta) -> None:
        tools = self._answering.get(root)
        if delta.run != root or tools is None:
            return
        reply = self._replies.get(root) or PartialAnswer(tools(), self._heads.get(root, 0))
        self._replies[root] = reply
        if reply.feed(delta.text):
            if (channel := self._channels.get(root)) is not None:
                channel.answer_so_far(reply.text, reply.thought, since=reply.since)
            self.relay.arrived(root, reply.text)

    def _hear_record(self, root: str, record: e.Record) -> None:
        own = record.run == root
        if own:
            self._heads[root] = record.seq + 1
        # The reply is complete and in the log; the next text belongs to another one.
        if own and isinstance(record.event, e.Replied):
            self._replies.pop(root, None)
            self.relay.answered(root)
        if (channel := self._channels.get(root)) is not None:
            channel.publish(record)
        self.relay.wrote(root, record.seq + 1 if own else None)

    def begin(self, root: str, head: int, tools: ToolNames | None) -> None:
        """Registers a run with `head` records that this process drives.

        `tools` returns the names of its tools; None: its replies may be plans or critiques and are
        not shown while they arrive.
        """
        self._heads[root] = head
        if tools is not None:
            self._answering[root] = tools
        self.relay.begin(root, head)

    def forget(self, root: str) -> None:
        """Removes a run that this process no longer drives."""
        self._replies.pop(root, None)
        self._answering.pop(root, None)
        self._heads.pop(root, None)
        self.relay.end(root)

    def show(self, root: str, text: str, head: int) -> None:
        """Shows the answer of another process's run, at `head` records."""
        channel = self._channels.get(root)
        # An answer whose end is in the log is not started again.
        if channel is not None and head >= channel.head and not self._driven(root):
            channel.answer_so_far(text, since=head)

    def report(self, root: str, progress: Progress) -> None:
        """Shows a tool report of another process's run."""
        channel = self._channels.get(root)
        if channel is not None and not self._driven(root):
            channel.show_progress(progress)

    def poke(self, run: str) -> None:
        """Reads the run at once, because it or a child run changed ("" = any run)."""
        channels = [] if run else list(self._channels.values())
        while run:
            if run in self._channels:
                channels.append(self._channels[run])
            # The id of a child run begins with its caller's id.
            run = run.rpartition(".")[0]
        now = asyncio.get_running_loop().time()
        for channel in channels:
            channel.poked_at = now
            channel.poked.set()

    @asynccontextmanager
    async def watch(self, run: str) -> AsyncGenerator[RunChannel]:
        """Yields the run's current channel while the client watches."""
        channel = self._channels.get(run)
        if channel is None:
            channel = self._channels[run] = RunChannel(self._log, run)
            reply = self._replies.get(run)
            if reply is not None and reply.text:
                channel.answer_so_far(reply.text, reply.thought, since=reply.since)
            self.relay.watch(run)
        # Counted before the first await, so that a leaving client does not close a used channel.
        channel.watchers += 1
        try:
            await channel.pull()
            # After the first `pull`, and once: all watchers share the tailer.
            if run not in self._tailers:
                self._tailers[run] = asyncio.create_task(self._tail(channel))
            yield channel
        finally:
            channel.watchers -= 1
            if channel.watchers == 0:
                await self._close(run)

    async def close(self) -> None:
        """Closes all channels."""
        for run in list(self._channels):
            await self._close(run)
        self.relay.close()

    async def _close(self, run: str) -> None:
        # Popped before the await, so that a new watcher gets a new channel.
        self._channels.pop(run, None)
        self.relay.unwatch(run)
        tailer = self._tailers.pop(run, None)
        if tailer is not None:
            tailer.cancel()
            with suppress(asyncio.CancelledError):
                await tailer

    async def _tail(self, channel: RunChannel) -> None:
        while True:
            seconds = self._patience(channel)
            with suppress(TimeoutError):  # `wait_for` of Python 3.11 may swallow a cancellation
                async with asyncio.timeout(seconds):
                    await channel.poked.wait()
            # Cleared before the log is read, so that a poke during the read causes another one.
            channel.poked.clear()
            try:
                await channel.pull()
            except LogError as error:
                _logger.warning("run %s cannot be read now: %s", channel.run, error)

    def _patience(self, channel: RunChannel) -> float:
        """Returns the seconds until the log is read without a notification."""
        if self._driven(channel.run):
            return CHECK_S
        # The end of a wait changes the status first; the records follow later.
        poked = asyncio.get_running_loop().time() - channel.poked_at < CALM_S
        announced = self.hears_changes and channel.waits and not poked
        if announced or self.relay.follows(channel.run):
            return max(CALM_S, self._look_s)
        return self._look_s
