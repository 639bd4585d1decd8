"""Containment of foreign code: tools, hooks, models, approvers and other code of users.

Foreign code fails its own call, never the process or another run. `contained` is a context manager
around one such call. Ordinary exceptions pass through it to the caller. Any other `BaseException`
(`SystemExit`, a foreign `CancelledError`, a panic of an extension) becomes a `ForeignExit`, which
is an `Exception`. Three things pass because they come from outside the call: the cancellation of
the task, Ctrl-C, and the end of the event loop. Knows nothing about runs.
"""

import asyncio
import dis
import signal
import traceback
from collections.abc import Awaitable, Iterator
from contextlib import suppress
from contextvars import copy_context
from inspect import iscoroutine
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")

_RAISES: Final = frozenset({dis.opmap["RAISE_VARARGS"], dis.opmap["RERAISE"]})
_LONGEST: Final = 500


class ForeignExit(RuntimeError):
    """Foreign code raised a `BaseException` that is no `Exception`; the message names it."""


def foreign_exit(error: BaseException) -> ForeignExit:
    """Returns the ordinary exception that stands for `error`."""
    kind = type(error).__name__
    try:
        text = repr(error)[:_LONGEST]
    except BaseException:  # noqa: BLE001 - a foreign __repr__
        text = kind
    if isinstance(error, SystemExit):
        return ForeignExit(f"{text}: it tried to end the process, which continues")
    if isinstance(error, asyncio.CancelledError):
        return ForeignExit(f"{text}: something inside of it was cancelled")
    return ForeignExit(f"{text}: {kind} is not an ordinary exception")


def original(error: Exception) -> BaseException:
    """Returns the exception raised by foreign code: the cause of a `ForeignExit`, else `error`."""
    cause = error.__cause__ if isinstance(error, ForeignExit) else None
    return cause or error


def place_of(error: BaseException) -> str:
    """Returns the place where `error` was raised, as ` (app.py:12)`; empty without a traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""


class contained:  # noqa: N801 - reads like the functions of contextlib
    """A guard that turns exceptions of foreign code into ones that `except Exception` catches.

        with contained():
            async with asyncio.timeout(60):  # inside: a deadline of ours is no cancellation
                result = await tool()

    Args:
        passing: Further classes that pass unchanged.
    """

    __slots__ = ("_cancelling", "_passing", "_task")

    def __init__(self, *passing: type[BaseException]) -> None:
        self._passing = passing
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0

    def __enter__(self) -> None:
        """Records the task and its pending requests to cancel."""
        self._task = _current_task()
        if self._task is not None:
            # A request that the task has not seen yet is raised at the first await inside. Tasks
            # have no public attribute for it.
            pending = bool(getattr(self._task, "_must_cancel", False))
            self._cancelling = self._task.cancelling() - pending

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Raises `ForeignExit`, or `CancelledError` if this task itself was cancelled."""
        if error is None or isinstance(error, (Exception, self._passing)):
            return
        task = _current_task()
        if isinstance(error, GeneratorExit) and (task is None or task is not self._task):
            return  # the coroutine is closed from outside: nothing can be awaited any more
        if any(map(_is_ctrl_c, _leaves(error))):
            return
        # The task counts requests to cancel: one more than at the start concerns this task.
        if task is not None and task is self._task and task.cancelling() > self._cancelling:
            if isinstance(error, asyncio.CancelledError):
                return
            raise asyncio.CancelledError from error
        raise foreign_exit(error) from error


async def in_own_task(work: Awaitable[T]) -> T:
    """Awaits `work` in a task of its own, so that its requests to cancel are not the caller's.

    Some code cancels its current task. A `TaskGroup` of Python 3.11 leaves a request behind when a
    child raises. Context variables that `work` sets are set for the caller, too.
    """
    context = copy_context()
    task = asyncio.get_running_loop().create_task(_contained(work), context=context)
    if iscoroutine(work):
        # A task that is cancelled before its first step never awaits its work.
        task.add_done_callback(lambda _: work.close())
    try:
        return await task
    finally:
        if task.done():
            for variable, value in context.items():
                if variable.get(None) is not value:
                    variable.set(value)
        else:
            with suppress(RuntimeError):  # the loop is closed
                task.cancel()


async def _contained(work: Awaitable[T]) -> T:
    # Inside the task: the event loop itself lets SystemExit and KeyboardInterrupt through.
    with contained():
        return await work


def _current_task() -> "asyncio.Task[Any] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop runs in this thread
        return None


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(each)
    else:
        yield error


def _is_ctrl_c(error: BaseException) -> bool:
    """Returns whether a signal handler, not a `raise` statement of foreign code, raised `error`."""
    if not isinstance(error, KeyboardInterrupt) or error.__traceback__ is None:
        return False
    handler = signal.getsignal(signal.SIGINT)
    frames = list(_frames(error.__traceback__))
    if handler is signal.default_int_handler:
        # Written in C: it has no frame, and interrupts the current instruction.
        frame, instruction = frames[-1]
        return frame.f_code.co_code[instruction] not in _RAISES
    code = _code_of(handler)
    return code is not None and any(frame.f_code is code for frame, _ in frames)


def _frames(traceback: "TracebackType | None") -> "Iterator[tuple[FrameType, int]]":
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lasti
        traceback = traceback.tb_next


def _code_of(handler: Any) -> "CodeType | None":
    # asyncio.run installs a partial of a method.
    function = getattr(handler, "func", handler)
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None
