"""The response of each watcher of a run (`stream`), and the limit of watchers (`Watching`).

It has heartbeats and drops a client that reads nothing. It lasts longer than a request, so its
token is checked repeatedly. A run outlives its connection. With `on_disconnect: cancel` a
disconnect cancels the run if no client reconnects within the grace period.
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
"""One principal may have at most 1/SHARE of all streams."""


class Watching:
    """The open streams of one server, at most `most`."""

    def __init__(self, most: int) -> None:
        self._most, self._open = most, Counter[str]()

    @property
    def total(self) -> int:
        """How many streams are open."""
        return self._open.total()

    def room(self, who: str) -> None:
        """Checks that the principal `who` may open another stream.

        Raises:
            Problem: 503, too many streams are open.
        """
        if self.total >= self._most or self._open[who] >= max(1, self._most // SHARE):
            raise Problem(503, "busy", "too many streams are open", headers={"Retry-After": "5"})

    @contextmanager
    def place(self, who: str) -> Generator[None]:
        """Counts a stream while it is open."""
        self._open[who] += 1
        try:
            yield
        finally:
            self._open[who] -= 1
            # Unused names are removed, so that the counter does not grow.
            if not self._open[who]:
                del self._open[who]


async def while_allowed(
    call: ApiCall, run: str, frames: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    """Yields `frames` of the run while its watcher may see it.

    The access is checked before a frame, at most every `look_again_s` seconds.
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
        # With the headers of the opening request, so that a revoked token ends the stream.
        caller = call.server.authenticator.authenticate(request.headers, client)
        row = await call.server.log.row(run)
    # Also if the log cannot be read: the client reconnects and continues at its cursor.
    except (Problem, TaofoldError):
        return False
    if caller is None or call.server.settings.policy.lacks(caller.principal, "read"):
        return False
    return await call.server.sees(caller.principal, row)


_logger = logging.getLogger(__name__)

RETRY_MS: Final = 1000
"""Milliseconds before a browser reconnects."""

# asyncio keeps only weak references to tasks, so this set keeps them alive.
_leaving: set["asyncio.Task[None]"] = set()


async def stream(call: ApiCall, run: str, after: str, *, cancel: bool) -> Response:
    """Streams the run's events after `after`; 204 if it has ended and the client has read all.

    Raises:
        Problem: 400, the position is malformed; 503, too many streams are open.
    """
    server = call.server
    server.watching.room(call.principal.id)
    try:
        position = parse_position(after)
    except ValueError as error:
        raise Problem(400, "position", str(error)) from None
    # 204 stops a browser's EventSource; after any other end it reconnects.
    if position and await _finished(server, run, position):
        return Response(status_code=204)
    return event_response(server, _frames(call, run, position, cancel=cancel))


def event_response(server: "Server", frames: AsyncIterator[bytes]) -> Response:
    """Makes the response of a stream. A client that reads nothing for too long is dropped."""
    return _Events(
        frames,
        ping=server.settings.ping_s,
        ping_message_factory=lambda: ServerSentEvent(comment="still here", sep="\n"),
        send_timeout=server.settings.send_s,
        sep="\n",
        cleanup_timeout=2.0,
    )


class _Events(EventSourceResponse):
    """A stream that drops a client that stops reading, without an error."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the events."""
        try:
            await super().__call__(scope, receive, send)
        except* SendTimeoutError:
            _logger.info("a client took nothing for too long and was dropped")


async def _finished(server: "Server", run: str, position: Position) -> bool:
    async with server.hub.watch(run) as channel:
        delivered = channel.delivered
        # A cursor of another run would silently skip events of this one.
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
        # In `finally`, because Starlette closes the generator when the client disconnects.
        if cancel and not done:
            leave(server, run, principal)


def leave(server: "Server", run: str, principal: Principal) -> None:
    """Cancels the run if it has no watchers after the grace period."""
    # When the server stops all streams end, which must not cancel runs.
    if server.engine.stopping:
        return
    task = asyncio.get_running_loop().create_task(_left(server, run, principal))
    _leaving.add(task)
    task.add_done_callback(_leaving.discard)


async def _left(server: "Server", run: str, principal: Principal) -> None:
    # A reload of a page disconnects briefly and must not cancel the run.
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
