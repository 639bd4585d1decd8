"""Between async code and code that blocks: `WORKERS` runs blocking functions, `run_now` coroutines.

Each blocking function runs in a thread, and its result comes back to the event loop. It differs
from `asyncio.to_thread` in three ways: threads are daemons and grow on demand, so that tools that
hang neither starve the others nor keep the process from ending; and a call that was cancelled
before it began never begins. Calls that were given up while they ran are counted: a thread cannot
be ended, only waited for. Knows nothing about tools.
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
"""A thread that has had nothing to do for so long ends."""
MAX_THREADS: Final = 512
"""Beyond it calls wait for a thread."""
_LOOK_S: Final = 0.1
"""How often a caller that waits for a thread looks whether it was cancelled itself."""


class Exhausted(RuntimeError):
    """Every thread hangs in a call that was given up: no call can begin."""


class ThreadCall:
    """One call under way. `future` belongs to `loop`."""

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
        """Do it, in the worker thread."""
        # Given up while it was in the queue: it must not begin any more.
        if self.future.cancelled():
            return
        result, error = None, None
        try:
            # Context variables of the task that asked, not of the thread.
            result = self.context.run(self.function)
        except Exception as caught:  # noqa: BLE001 - it is handed to whoever awaits
            error = _sendable(caught)
        except BaseException as caught:  # noqa: BLE001 - sys.exit() in a tool ends the tool only
            error = foreign_exit(caught)
            error.__cause__ = caught
        try:
            self.loop.call_soon_threadsafe(_settle, self.future, result, error)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more


def _sendable(error: Exception) -> Exception:
    # A future refuses StopIteration: it would end the generator that awaits it.
    return RuntimeError(f"the tool raised {error!r}") if isinstance(error, StopIteration) else error


def _settle(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class Workers:
    """A pool of daemon threads that grows whenever all of them are busy."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS, most: int = MAX_THREADS) -> None:
        self._idle_seconds, self._most = idle_seconds, most
        self.reset()

    def reset(self) -> None:
        """Forget the threads: after a fork the child process has none of them."""
        self._queue: SimpleQueue[ThreadCall] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._free = 0  # idle threads minus queued calls
        self._hanging = 0

    @property
    def threads(self) -> int:
        """How many threads exist."""
        return self._threads

    @property
    def hanging(self) -> int:
        """How many calls go on although nobody waits for them any more."""
        return self._hanging

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `function` in a thread, with this task's context variables.

        Raises:
            Exhausted: no thread is left that could ever do it.
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
                # Under the lock: the worker may be ending at this moment, and
                # would not count it down.
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
            # More calls than idle threads: this call gets one of its own.
            if self._free < 0 and self._threads < self._most:
                # The new thread is idle for a moment, until it takes the call.
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
                return False  # a call was promised to this thread: it is in the queue
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
    """Runs `work` to its end. Inside a running loop it gets a thread and a loop of its own.

    Raises:
        KeyboardInterrupt: on Ctrl-C, once `work` is cancelled. Its traceback is short.
    """
    if _in_loop():
        # Two loops cannot run in one thread, so inside a loop another thread gets its own.
        return _InThread(work).result()
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        # Without the frames of the cancelled tasks: they tell the caller nothing.
        raise KeyboardInterrupt from None


class _InThread(Generic[T]):
    """Runs `work` in a thread and a loop of its own, while the caller's thread waits."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._values: list[T] = []
        self._errors: list[BaseException] = []
        self._cancelled = False
        self._ended = threading.Event()
        # A thread begins with an empty context: the caller's trace and settings go along.
        context = copy_context()
        self._thread = threading.Thread(
            target=lambda: context.run(self._drive), name="taofold-run-sync", daemon=True
        )

    def result(self) -> T:
        """Returns or raises what `work` does. It is cancelled if the caller is."""
        caller = asyncio.current_task()
        before = 0 if caller is None else caller.cancelling()
        try:
            self._thread.start()  # Ctrl-C may come while it starts
            # Blocks the caller's loop: that is what a call that is not async does. Ctrl-C under
            # `asyncio.run` only cancels the task, which does not notice while it is blocked here.
            while not self._ended.wait(_LOOK_S):
                if caller is not None and caller.cancelling() > before:
                    self._cancel()
        except BaseException:  # Ctrl-C in a notebook: nothing may go on behind the caller's back
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
        if self._cancelled:  # looked at after `_running` is set: `_cancel` goes the other way round
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
