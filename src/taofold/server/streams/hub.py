"""Who watches which run: one channel for each (`Hub`); the response that each watcher gets
(`stream`), for as long as he may and is there; and a reply while it arrives (`PartialAnswer`).

`Hub` has the channels, however many clients there are. Runs that this process drives report what
became durable. Where the log can broadcast (PostgreSQL), other processes tell of the runs that they
drive (`relay`); where it cannot, or nobody tells, the log is looked at a few times a second, and
only while somebody watches. A stream lasts longer than a request, so it is checked again and again
whether its token still holds. `PartialAnswer` is a reply of this process while it arrives.

`stream` is the response: heartbeats, slow clients, and what leaving means for the run. A run
outlives its connection. Only who asked for `on_disconnect: cancel` cancels it by being gone, and
then only if nobody came back within the grace.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from pydantic_core import from_json
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from taofold.agent.result import Delta, Happening, Progress
from taofold.core import events as e
from taofold.core.errors import LogError, TaofoldError
from taofold.core.json_values import is_object
from taofold.core.state import ENDED
from taofold.core.values import Principal
from taofold.log.log import Log
from taofold.parsing import ReplyStream
from taofold.runtime import control
from taofold.server.endpoint import ApiCall, Problem
from taofold.server.streams.channel import ChannelReader, RunChannel, read_already
from taofold.server.streams.events import Position, parse_position
from taofold.server.streams.relay import NoRelay

if TYPE_CHECKING:
    from taofold.server.server import Server

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


SHARE: Final = 2
"""One principal may have this part of all streams: the others come in too."""


class Watching:
    """The open streams of one server, `most` at once."""

    def __init__(self, most: int) -> None:
        self._most, self._open = most, Counter[str]()

    @property
    def total(self) -> int:
        """How many streams are open."""
        return self._open.total()

    def room(self, who: str) -> None:
        """Is there a place for one more stream of the principal `who`?

        Raises:
            Problem: 503.
        """
        if self.total >= self._most or self._open[who] >= max(1, self._most // SHARE):
            raise Problem(503, "busy", "too many streams are open", headers={"Retry-After": "5"})

    @contextmanager
    def place(self, who: str) -> Generator[None]:
        """Hold a place while the stream is open."""
        self._open[who] += 1
        try:
            yield
        finally:
            self._open[who] -= 1
            # Names that watch nothing are forgotten, so the counter does not grow.
            if not self._open[who]:
                del self._open[who]


async def while_allowed(
    call: ApiCall, run: str, frames: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    """`frames` of the run, until its watcher may not see it any more.

    It is asked before a frame, at most every `look_again_s` seconds: nothing is told later.
    """
    clock = asyncio.get_running_loop().time
    checked_at = clock()
    async for frame in frames:
        if clock() - checked_at >= call.server.settings.look_again_s:
            checked_at = clock()
            if not await _may(call, run):
                return
        yield frame


async def _may(call: ApiCall, run: str) -> bool:
    request = call.request
    client = request.client.host if request.client else ""
    try:
        # With the headers of the request that opened the stream: a revoked token ends it here.
        caller = call.server.authenticator.authenticate(request.headers, client, unsafe=False)
        row = await call.server.log.row(run)
    # Also where the log cannot be read now: the client comes back and goes on at its cursor.
    except (Problem, TaofoldError):
        return False
    if caller is None or call.server.settings.policy.lacks(caller.principal, "read"):
        return False
    return await call.server.sees(caller.principal, row)


RETRY_MS = 1000
"""How long a browser waits before it comes back."""

# asyncio keeps only weak references to tasks: without this set one may vanish half way.
_leaving: set["asyncio.Task[None]"] = set()


async def stream(call: ApiCall, run: str, after: str, *, cancel: bool) -> Response:
    """The run's events behind `after`; 204 if it has ended and the client has read it all.

    Raises:
        Problem: 400 the position is none, 503 too many streams.
    """
    server = call.server
    server.watching.room(call.principal.id)
    try:
        position = parse_position(after)
    except ValueError as error:
        raise Problem(400, "position", str(error)) from None
    # 204 tells a browser's EventSource not to connect again; any other end makes it come back.
    if position and await _finished(server, run, position):
        return Response(status_code=204)
    return event_response(server, _frames(call, run, position, cancel=cancel))


def event_response(server: "Server", frames: AsyncIterator[bytes]) -> Response:
    """The response of a stream; a client that takes nothing of it for too long is dropped."""
    return _Events(
        frames,
        ping=server.settings.ping_s,
        ping_message_factory=lambda: ServerSentEvent(comment="still here", sep="\n"),
        send_timeout=server.settings.send_s,
        sep="\n",
        cleanup_timeout=2.0,
    )


class _Events(EventSourceResponse):
    """A stream whose client may stop reading: it is then dropped, which is no error of ours."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            await super().__call__(scope, receive, send)
        except* SendTimeoutError:
            _logger.info("a client took nothing for too long and was dropped")


async def _finished(server: "Server", run: str, position: Position) -> bool:
    async with server.hub.watch(run) as channel:
        delivered = channel.delivered
        # A cursor of another run would otherwise silently skip events of this one.
        if position[""][0] >= max(channel.head, 1):
            raise Problem(400, "position", "the run has no such event yet")
        return bool(delivered) and read_already(channel, channel.entry(position))


async def _frames(
    call: ApiCall, run: str, position: Position, *, cancel: bool
) -> AsyncIterator[bytes]:
    server, principal = call.server, call.principal
    done = False
    try:
        with server.watching.place(principal.id):
            async with server.hub.watch(run) as channel:
                yield f"retry: {RETRY_MS}\n\n".encode()
                reader = ChannelReader(channel, channel.entry(position), server.now)
                async for frame in while_allowed(call, run, reader.frames()):
                    yield frame
                done = reader.done
    finally:
        # A `finally`: Starlette closes the generator when the client disconnects.
        if cancel and not done:
            leave(server, run, principal)


def leave(server: "Server", run: str, principal: Principal) -> None:
    """Cancel the run if nobody watches it when the grace is over."""
    # All streams end when the server stops; that is no wish of their clients.
    if server.engine.stopping:
        return
    task = asyncio.get_running_loop().create_task(_left(server, run, principal))
    _leaving.add(task)
    task.add_done_callback(_leaving.discard)


async def _left(server: "Server", run: str, principal: Principal) -> None:
    # A page that is reloaded is gone for a moment; its run must not be cancelled by that.
    await asyncio.sleep(server.settings.grace_s)
    if server.engine.stopping or server.hub.watched(run):
        return
    try:
        if (await server.log.row(run)).status not in ENDED:
            await control.cancel(server.log, run, by=principal, redactor=server.redactor)
            server.audit("cancel", principal.id, run=run, detail="its client went away")
            server.hub.poke(run)
    except TaofoldError as error:
        _logger.info("run %s was not cancelled: %s", run, error)


class PartialAnswer:
    """Hears the pieces of one reply. `text` is the answer as far as it arrived.

    It is what the one scanner of replies shows of it: prose of models with native calls, or the
    answer inside an envelope. `thought` is what an envelope says before the answer, `since` how
    many records the run had when the reply began.
    """

    def __init__(self, tools: Collection[str] = (), since: int = 0) -> None:
        self.text, self.thought, self.since = "", "", since
        self._reply = ReplyStream(tools)
        self._before = ""

    def feed(self, piece: str) -> bool:
        """Hear the next piece. True if `text` changed."""
        fresh = self._reply.feed(piece)
        if not self.text:
            self._before += piece
            if fresh:
                self.thought = _thought(self._before)
        self.text += fresh
        return bool(fresh)


def _thought(reply: str) -> str:
    """The thought in the beginning of a reply that is a JSON object, "" if it is none."""
    begin = reply.find("{")
    if begin < 0:
        return ""
    try:
        document: object = from_json(reply[begin:], allow_partial="trailing-strings")
    except ValueError:
        return ""
    thought = document.get("thought") if is_object(document) else None
    content = thought.get("content") if is_object(thought) else thought
    return content if isinstance(content, str) else ""
