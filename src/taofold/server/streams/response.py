"""The response that each watcher of a run gets (`stream`), and how many there may be (`Watching`).

It has heartbeats, drops a client that takes nothing, and lasts longer than a request: so it is
checked again and again whether its token still holds. A run outlives its connection. Only who asked
for `on_disconnect: cancel` cancels it by being gone, and then only if nobody came back within the
grace.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from taofold.core.errors import TaofoldError
from taofold.core.state import ENDED
from taofold.core.values import Principal
from taofold.runtime import control
from taofold.server.endpoint import ApiCall, Problem
from taofold.server.streams.channel import ChannelReader, read_already
from taofold.server.streams.events import Position, parse_position

if TYPE_CHECKING:
    from taofold.server.server import Server

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
        caller = call.server.authenticator.authenticate(request.headers, client)
        row = await call.server.log.row(run)
    # Also where the log cannot be read now: the client comes back and goes on at its cursor.
    except (Problem, TaofoldError):
        return False
    if caller is None or call.server.settings.policy.lacks(caller.principal, "read"):
        return False
    return await call.server.sees(caller.principal, row)


_logger = logging.getLogger(__name__)

RETRY_MS: Final = 1000
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
            await control.request_cancel(server.log, run, by=principal, redactor=server.redactor)
            server.audit("cancel", principal.id, run=run, detail="its client went away")
            server.hub.poke(run)
    except TaofoldError as error:
        _logger.info("run %s was not cancelled: %s", run, error)
