"""Bridges async and blocking code: `WORKERS` runs blocking functions, `run_now` coroutines.

Each blocking function runs in a thread, and its result returns to the event loop. Unlike
`asyncio.to_thread`, threads are daemons and grow on demand. Hanging tools therefore neither starve
others nor keep the process from ending. A call that is cancelled before it begins never begins.
Calls that were abandoned while running are counted, because a thread cannot be killed. This module
does not depend on tools.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeVar

from taofold.foreign_code import foreign_exit

IDLE_SECONDS: Final = 30.0
"""Seconds after which an idle thread ends."""
MAX_THREADS: Final = 512
"""Maximum number of threads. Further calls wait for one."""
_LOOK_S: Final = 0.1
"""Interval in seconds at which a caller that waits for a thread checks if it was cancelled."""


class Exhausted(RuntimeError):
    """Every thread hangs in an abandoned call, so no call can begin."""


class ThreadCall:
    """One call in progress. `future` belongs to `loop`."""

    __slots__ = ("context", "function", "future", "hangs", "loop", "running")

    def __init__(
        self,
        function: Callable[[], Any],
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[Any],
        context: Context,
    ) -> None:
        self.function, self.loop, self.future, self.context = function, loop, future, context
        self.running = self.hangs = False

    def run(self) -> None:
        """Runs the call in the worker thread."""
        # Cancelled while it was queued, so it must not begin.
        if self.future.cancelled():
            return
        result, error = None, None
        try:
            # Context variables of the calling task, not of the thread.
            result = self.context.run(self.function)
        except Exception as caught:  # noqa: BLE001 - raised again in the awaiting task
            error = _sendable(caught)
        except BaseException as caught:  # noqa: BLE001 - sys.exit() in a tool ends the tool only
            error = foreign_exit(caught)
            error.__cause__ = caught
        try:
            self.loop.call_soon_threadsafe(_settle, self.future, result, error)
        except RuntimeError:
            return  # the loop is closed


def _sendable(error: Exception) -> Exception:
    # A future refuses StopIteration, which would end the generator that awaits it.
    return RuntimeError(f"the tool raised {error!r}") if isinstance(error, StopIteration) else error


def _settle(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class Workers:
    """A pool of daemon threads that grows when all of them are busy."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS, most: int = MAX_THREADS) -> None:
        self._idle_seconds, self._most = idle_seconds, most
        self.reset()

    def reset(self) -> None:
        """Forgets the threads, because a forked child process has none of them."""
        self._queue: SimpleQueue[ThreadCall] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._free = 0  # idle threads minus queued calls
        self._hanging = 0

    @property
    def threads(self) -> int:
        """The number of threads."""
        return self._threads

    @property
    def hanging(self) -> int:
        """The number of abandoned calls that still run."""
        return self._hanging

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls `function` in a thread, with this task's context variables.

        Raises:
            Exhausted: No thread is left that could run it.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        bound = partial(function, *args, **kwargs)
        call = ThreadCall(bound, loop, future, copy_context())
        self._submit(call)
        try:
            return await future
        except asyncio.CancelledError:
            with self._lock:
                # Under the lock: a worker that is just ending would not count it down.
                if call.running:
                    call.hangs = True
                    self._hanging += 1
            raise

    def _submit(self, call: ThreadCall) -> None:
        with self._lock:
            if self._hanging >= self._most:
                raise Exhausted(
                    f"all {self._most} threads for tools hang in calls that ran out of time; "
                    "nothing can be called until one returns: the process must be restarted"
                )
            self._free -= 1
            # With more calls than idle threads, this call gets a new one.
            if self._free < 0 and self._threads < self._most:
                # The new thread counts as idle until it takes the call.
                self._free += 1
                self._threads += 1
                threading.Thread(target=self._work, name="taofold-tool", daemon=True).start()
        self._queue.put(call)

    def _work(self) -> None:
        while True:
            try:
                call = self._queue.get(timeout=self._idle_seconds)
            except Empty:
                if self._retire():
                    return
                continue
            with self._lock:
                call.running = True
            call.run()
            with self._lock:
                call.running = False
                self._hanging -= call.hangs
                self._free += 1
            del call  # an idle thread must not keep the last result alive

    def _retire(self) -> bool:
        with self._lock:
            if self._free <= 0:
                return False  # a queued call was assigned to this thread
            self._free -= 1
            self._threads -= 1
            return True


WORKERS: Final = Workers()
"""The process's pool for synchronous tools."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=WORKERS.reset)


T = TypeVar("T")


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` to its end. Inside a running loop it gets its own thread and loop.

    Raises:
        KeyboardInterrupt: Ctrl-C, once `work` is cancelled. Its traceback is short.
    """
    if _in_loop():
        # Two loops cannot run in one thread, so inside a loop another thread is used.
        return _InThread(work).result()
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        # Without the frames of the cancelled tasks, which do not help the caller.
        raise KeyboardInterrupt from None


class _InThread(Generic[T]):
    """Runs `work` in its own thread and loop, while the caller's thread waits."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._values: list[T] = []
        self._errors: list[BaseException] = []
        self._cancelled = False
        self._ended = threading.Event()
        # A thread begins with an empty context, so the caller's trace and settings are copied.
        context = copy_context()
        self._thread = threading.Thread(
            target=lambda: context.run(self._drive), name="taofold-run-sync", daemon=True
        )

    def result(self) -> T:
        """Returns or raises the result of `work`. It is cancelled with the caller."""
        caller = asyncio.current_task()
        before = 0 if caller is None else caller.cancelling()
        try:
            self._thread.start()  # Ctrl-C may come while it starts
            # Blocks the caller's loop, as a synchronous call does. Ctrl-C under `asyncio.run` only
            # cancels the task, which does not notice while it is blocked here.
            while not self._ended.wait(_LOOK_S):
                if caller is not None and caller.cancelling() > before:
                    self._cancel()
        except BaseException:  # Ctrl-C in a notebook: no work may go on in the background
            self._cancel()
            raise
        if self._errors:
            raise self._errors[0]
        return self._values[0]

    def _drive(self) -> None:
        try:
            self._values.append(asyncio.run(self._main()))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            self._errors.append(error)
        finally:
            self._ended.set()

    async def _main(self) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._running = asyncio.get_running_loop(), task
        if self._cancelled:  # checked after `_running` is set, in the reverse order of `_cancel`
            self._work.close()
            raise asyncio.CancelledError
        return await self._work

    def _cancel(self) -> None:
        """Cancels the work and waits for its end. Work that has not begun never begins."""
        self._cancelled = True
        if self._running is not None:
            loop, task = self._running
            with suppress(RuntimeError):  # the loop is closed: the work has ended
                loop.call_soon_threadsafe(task.cancel)
            self._ended.wait()
