"""`ServerConnection`: a session with one MCP server, opened on demand and reopened after a failure.

All connections run on one thread with its own event loop, each in the task that opened it, so that
they outlast the event loops of runs. `submit` and `on_loop` schedule work there.
"""

import asyncio
import atexit
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, TypeVar

from taofold.bridges.mcp.client.address import ServerAddress
from taofold.bridges.mcp.client.session import (
    ABSENT,
    CLOSED,
    LOST,
    REFUSED,
    McpSession,
    SessionHandlers,
    open_session,
)
from taofold.bridges.mcp.sdk import code, innermost
from taofold.core.errors import ConfigError
from taofold.core.text import clip
from taofold.policy.redaction import Redactor

T = TypeVar("T")

PATIENCE: Final = 5.0
"""Seconds that servers have to stop when the process ends."""
LINES: Final = 3
"""Number of stored lines of a program's standard error."""
GRACE: Final = 0.5
"""Extra seconds after the deadline in which opening may fail with a better reason."""
_STARTING: Final = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_open: Final[set["ServerConnection"]] = set()


class Unreachable(Exception):
    """The server could not be reached, or went away. `maybe`: during a call."""

    def __init__(self, message: str, *, maybe: bool = False) -> None:
        super().__init__(message)
        self.maybe = maybe


class _Lost(Exception):
    """The server does not know the session, for instance after a restart."""


def loop() -> asyncio.AbstractEventLoop:
    """Returns the event loop of all connections; started at the first use."""
    global _loop
    with _STARTING:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            # Not `run_forever`: anyio keeps worker threads as long as the loop's root task lives.
            # Without one, each call of a server in this process would start a new thread.
            threading.Thread(
                target=_loop.run_until_complete, args=(_alive(),), name="taofold-mcp", daemon=True
            ).start()
            atexit.register(_end)
        return _loop


async def _alive() -> None:
    await asyncio.get_running_loop().create_future()


def submit(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Schedules `work` on the connections' loop. Do not wait for it on that same loop."""
    return asyncio.run_coroutine_threadsafe(work, loop())


async def on_loop(work: Coroutine[Any, Any, T]) -> T:
    """Awaits `work` on the connections' loop. Cancelling this call cancels `work`."""
    here = asyncio.get_running_loop()
    # Waiting for work on the current loop would block forever.
    if here is _loop:
        return await work
    # Implemented directly: a future of `concurrent.futures` costs more than the switch itself.
    there = loop()
    outcome: asyncio.Future[T] = here.create_future()
    tasks: list[asyncio.Task[T]] = []

    def begin() -> None:
        tasks.append(there.create_task(work))
        tasks[0].add_done_callback(ended)

    def ended(task: asyncio.Task[T]) -> None:
        error = None if task.cancelled() else task.exception()
        with suppress(RuntimeError):  # the waiting loop is closed, so the result is not needed
            here.call_soon_threadsafe(tell, task, error)

    def tell(task: asyncio.Task[T], error: BaseException | None) -> None:
        if outcome.done():
            return
        if task.cancelled():
            outcome.cancel()
        elif error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(task.result())

    there.call_soon_threadsafe(begin)
    try:
        return await outcome
    except asyncio.CancelledError:
        there.call_soon_threadsafe(lambda: tasks[0].cancel())
        raise


def _end() -> None:
    with suppress(Exception):  # the process ends, so an error cannot be reported
        submit(close_all()).result(PATIENCE)


async def close_all() -> None:
    """Closes every connection of this process."""
    await asyncio.gather(
        *[connection.close() for connection in tuple(_open)], return_exceptions=True
    )


class ServerConnection:
    """The connection to one server. Every method runs on the connections' loop."""

    def __init__(
        self,
        address: ServerAddress,
        mode: str,
        seconds: float,
        handlers: SessionHandlers,
    ) -> None:
        self._address, self._mode, self._seconds = address, mode, seconds
        self._handlers = handlers
        self._owner: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[McpSession] | None = None
        self._stop = asyncio.Event()
        self._greeting: asyncio.Timeout | None = None
        self._retired: dict[asyncio.Task[None], asyncio.Event] = {}
        self._tail = deque[str](maxlen=LINES)
        self.opened = 0
        """Number of times it was opened."""

    async def session(self) -> McpSession:
        """Returns the open session; opens one if needed.

        Raises:
            Unreachable: It could not be opened within the deadline.
            ConfigError: The address cannot be used.
        """
        ready = self._ready
        if ready is not None and ready.done() and (ready.exception() or ready.result().closed):
            await self._drop(ready)
            ready = self._ready
        if ready is None:
            # Set before the first await, so that concurrent calls share one opening.
            self._ready = ready = asyncio.get_running_loop().create_future()
            self._stop = asyncio.Event()
            self._owner = asyncio.create_task(self._own(ready, self._stop))
            _open.add(self)
        try:  # a killed program may end slowly; the caller does not wait for it
            async with asyncio.timeout(self._seconds + GRACE):
                # Shielded: a caller that gives up must not cancel the opening for others.
                return await asyncio.shield(ready)
        except TimeoutError:
            raise self._told(TimeoutError(), late=True) from None

    async def use(self, work: Callable[[McpSession], Awaitable[T]]) -> T:
        """Returns the result of `work` with the open session.

        Raises:
            Unreachable: The session could not be opened, or ended during the call.
        """
        try:
            return await self._used(work)
        except _Lost:  # the server did not process the call, so it is repeated in a new session
            try:
                return await self._used(work)
            except _Lost as error:
                raise Unreachable(f"{self._address.words} forgets its sessions: {error}") from error

    async def _used(self, work: Callable[[McpSession], Awaitable[T]]) -> T:
        session = await self.session()
        ready = self._ready
        try:
            with session.busy():
                return await work(session)
        except Exception as error:
            number = code(error)
            # The server did not process the call, so it may be repeated with any effect.
            if number == LOST:
                self._retire(ready, session)
                raise _Lost(str(error)) from error
            if number in (ABSENT, REFUSED):
                raise Unreachable(f"{self._address.words}: {error}") from error
            if number != CLOSED and not session.closed:
                raise
            # A broken HTTP response ends only its call, not the session.
            if session.closed or self._address.kind != "http":
                await self._drop(ready)
            detail = f": {clip(Redactor(guesses=True).text(str(error)), 300)}" if str(error) else ""
            text = f"{self._address.words} went away in the middle of a call{detail}{self._last()}"
            raise Unreachable(text, maybe=True) from error

    def retire(self) -> None:
        """Ends the session after its calls; a later call opens another one."""
        ready = self._ready
        if ready is not None and ready.done() and not ready.exception():
            self._retire(ready, ready.result())
            _open.discard(self)

    def _retire(self, ready: "asyncio.Future[McpSession] | None", session: McpSession) -> None:
        """Makes the next call open a new session; this session ends after its calls."""
        if ready is None or self._ready is not ready or self._owner is None:
            return
        owner, stop = self._owner, self._stop
        self._owner = self._ready = None

        async def end() -> None:
            # Running calls finish in the old session.
            await session.idle.wait()
            stop.set()
            await asyncio.wait([owner])

        task = asyncio.create_task(end())
        self._retired[task] = stop
        task.add_done_callback(lambda task: self._retired.pop(task, None))

    async def close(self) -> None:
        """Ends the session and stops its program."""
        owner, ready = self._owner, self._ready
        self._owner = self._ready = None
        self._stop.set()
        _open.discard(self)
        if owner is not None:
            self._hurry(ready)
            await asyncio.wait([owner])
        for task in tuple(self._retired):
            task.cancel()
            self._retired[task].set()

    def _hurry(self, ready: "asyncio.Future[McpSession] | None") -> None:
        """Stops waiting for the handshake, unless it has already timed out and cleans up."""
        greeting = self._greeting
        if ready is None or ready.done() or greeting is None or greeting.expired():
            return
        with suppress(RuntimeError):  # it has ended
            greeting.reschedule(asyncio.get_running_loop().time())

    async def _drop(self, ready: "asyncio.Future[McpSession] | None") -> None:
        """Closes the session of `ready`, unless a new one is open."""
        if ready is not None and self._ready is ready:
            await self.close()

    async def _own(self, ready: "asyncio.Future[McpSession]", stop: asyncio.Event) -> None:
        """Opens the session, waits for the end, and closes it, all in one task."""
        self._greeting = greeting = asyncio.timeout(self._seconds)
        try:
            async with greeting:
                # Entered and left explicitly: anyio's task groups must be closed by the task that
                # opened them.
                leaving = open_session(self._address, self._mode, self._handlers, self._tail)
                session = await leaving.__aenter__()
        except BaseException as error:  # noqa: BLE001 - all are reported alike
            if not ready.done():
                ready.set_exception(self._told(error, late=greeting.expired()))
                ready.exception()  # marks it as retrieved: the waiting caller may be gone
            return
        self.opened += 1
        ready.set_result(session)
        try:
            await stop.wait()
        finally:
            with suppress(Exception, BaseExceptionGroup):  # errors at the end are ignored
                await leaving.__aexit__(None, None, None)

    def _told(self, error: BaseException, *, late: bool) -> Exception:
        cause = innermost(error)
        if isinstance(cause, ConfigError):
            return cause
        if isinstance(cause, FileNotFoundError | PermissionError):
            return Unreachable(f"{self._address.words} cannot be started: {cause}")
        if late or isinstance(cause, TimeoutError):
            reason = f"it did not answer within {self._seconds:g} s"
        else:
            reason = f"{type(cause).__name__}: {clip(Redactor(guesses=True).text(str(cause)), 300)}"
        return Unreachable(f"{self._address.words} cannot be reached: {reason}{self._last()}")

    def _last(self) -> str:
        """Returns the last lines of the program's standard error, for error messages."""
        return f"; its last words: {clip(' | '.join(self._tail), 300)}" if self._tail else ""
