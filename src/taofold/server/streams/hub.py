"""`Hub`: who watches which run, with one channel for each, however many clients there are.

Runs that this process drives report what became durable. Where the log can broadcast (PostgreSQL),
other processes tell of the runs that they drive (`relay`); where it cannot, or nobody tells, the
log is looked at a few times a second, and only while somebody watches. What a watcher is answered
with is made by `response`.
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
"""Seconds between two looks at a run that another process drives."""
CHECK_S: Final = 2.0
"""The same for a run of this process: a safety net, for nothing is missed."""
CALM_S: Final = 15.0
"""The same for a run of which is told when it changes."""

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
        """Runs that are driven here and of which each reply may be the answer: their tools."""
        self._heads: dict[str, int] = {}
        """How many records the runs have that are driven here."""
        self.relay = NoRelay()
        """To and from other processes, where the log can broadcast."""
        self.hears_changes = False
        """Is `poke` called for each change of a status or an inbox, by whomever?"""

    @property
    def watchers(self) -> int:
        """How many clients watch a run now."""
        return sum(channel.watchers for channel in self._channels.values())

    def watched(self, run: str) -> bool:
        """Does anybody watch the run?"""
        channel = self._channels.get(run)
        return channel is not None and channel.watchers > 0

    def hear(self, root: str, happening: Happening) -> None:
        """What happens in a run of this process or its child runs, durable or a delta."""
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
        # The reply is complete and in the log: what arrives next belongs to another one.
        if own and isinstance(record.event, e.Replied):
            self._replies.pop(root, None)
            self.relay.answered(root)
        if (channel := self._channels.get(root)) is not None:
            channel.publish(record)
        self.relay.wrote(root, record.seq + 1 if own else None)

    def begin(self, root: str, head: int, tools: ToolNames | None) -> None:
        """The run, which has `head` records, is driven here from now on.

        `tools` gives the names on offer; None: its replies may be plans or critiques, and are not
        shown as they arrive.
        """
        self._heads[root] = head
        if tools is not None:
            self._answering[root] = tools
        self.relay.begin(root, head)

    def forget(self, root: str) -> None:
        """The run is not driven here any more."""
        self._replies.pop(root, None)
        self._answering.pop(root, None)
        self._heads.pop(root, None)
        self.relay.end(root)

    def show(self, root: str, text: str, head: int) -> None:
        """Take in the answer of a run of another process, as it was when it had `head` records."""
        channel = self._channels.get(root)
        # What the log already has the end of is not begun again.
        if channel is not None and head >= channel.head and not self._driven(root):
            channel.answer_so_far(text, since=head)

    def report(self, root: str, progress: Progress) -> None:
        """Take in what a tool reports in a run of another process."""
        channel = self._channels.get(root)
        if channel is not None and not self._driven(root):
            channel.show_progress(progress)

    def poke(self, run: str) -> None:
        """Something was written to the run, or to a child run ("" = to any): look now."""
        channels = [] if run else list(self._channels.values())
        while run:
            if run in self._channels:
                channels.append(self._channels[run])
            # The id of a child run begins with its caller's.
            run = run.rpartition(".")[0]
        now = asyncio.get_running_loop().time()
        for channel in channels:
            channel.poked_at = now
            channel.poked.set()

    @asynccontextmanager
    async def watch(self, run: str) -> AsyncGenerator[RunChannel]:
        """The run's channel, up to date, for as long as the client stays."""
        channel = self._channels.get(run)
        if channel is None:
            channel = self._channels[run] = RunChannel(self._log, run)
            reply = self._replies.get(run)
            if reply is not None and reply.text:
                channel.answer_so_far(reply.text, reply.thought, since=reply.since)
            self.relay.watch(run)
        # Counted before the first await: a leaving client must not close a channel that is wanted.
        channel.watchers += 1
        try:
            await channel.pull()
            # After the first `pull`, and once: the tailer is shared by all who watch the run.
            if run not in self._tailers:
                self._tailers[run] = asyncio.create_task(self._tail(channel))
            yield channel
        finally:
            channel.watchers -= 1
            if channel.watchers == 0:
                await self._close(run)

    async def close(self) -> None:
        """Let all channels go."""
        for run in list(self._channels):
            await self._close(run)
        self.relay.close()

    async def _close(self, run: str) -> None:
        # Popped before the await: who comes meanwhile gets a new channel, not one that closes.
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
            # Cleared before the log is read: a poke during the reading causes another one.
            channel.poked.clear()
            try:
                await channel.pull()
            except LogError as error:
                _logger.warning("run %s cannot be read now: %s", channel.run, error)

    def _patience(self, channel: RunChannel) -> float:
        """Seconds until the log is looked at although nothing was told."""
        if self._driven(channel.run):
            return CHECK_S
        # Whatever ends the waiting changes the status first; the records come somewhat later.
        poked = asyncio.get_running_loop().time() - channel.poked_at < CALM_S
        announced = self.hears_changes and channel.waits and not poked
        if announced or self.relay.follows(channel.run):
            return max(CALM_S, self._look_s)
        return self._look_s
