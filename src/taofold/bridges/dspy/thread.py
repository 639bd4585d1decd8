"""`run_in_thread`: a function in a thread of its own that asks, seen as a generator that yields.

DSPy's programs and teleprompters call a model and wait; a strategy yields an effect and is sent the
result. So while the program works the strategy waits for its next request: one of both is always
asleep. If it asks the same things in the same order it can be replayed; that is why it may not ask
from two threads at once. What its threads print can be hushed. Knows nothing about DSPy.
"""

import io
import logging
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

T = TypeVar("T")
THREAD: Final = "taofold-dspy"
_log = logging.getLogger("taofold.dspy")
_context: ContextVar[bool] = ContextVar("taofold_dspy_hushed", default=False)


class Closed(BaseException):
    """Nobody will answer any more. No `except Exception` of the program's must stop it."""


@dataclass(frozen=True, slots=True)
class _Ended(Generic[T]):
    value: T | None = None
    error: BaseException | None = None


class EffectChannel:
    """The program's end: `ask` blocks until the strategy was sent an answer."""

    def __init__(self) -> None:
        self.requests: SimpleQueue[Any] = SimpleQueue()
        self.threads: WeakSet[threading.Thread] = WeakSet()
        """Those in which the program works: its own, and those in which it asked something."""
        self._answers: SimpleQueue[Any] = SimpleQueue()
        self._busy = threading.Lock()
        self._closed = False

    def ask(self, request: Any) -> Any:
        """What the strategy answers.

        Raises:
            RuntimeError: another thread is asking: its order could not be replayed.
            Closed: the run was stopped.
        """
        # Refused instead of queued: two threads would
        # take turns in an order that no replay repeats.
        if not self._busy.acquire(blocking=False):
            raise RuntimeError(
                "the program asks from several threads at once, which cannot be replayed: "
                "run it with num_threads=1"
            )
        try:
            # Under the lock, so `close` either is seen here
            # or finds this question waiting for its answer.
            if self._closed:
                raise Closed
            self.threads.add(threading.current_thread())
            self.requests.put(request)
            answer = self._answers.get()
        finally:
            self._busy.release()
        if isinstance(answer, Closed):
            raise answer
        return answer

    def answer(self, answer: Any) -> None:
        """Wake the program up."""
        self._answers.put(answer)

    def close(self) -> None:
        """End the program at its next question, or where it waits."""
        self._closed = True
        self._answers.put(Closed())


class _Stream(io.TextIOBase):
    """A standard stream that takes what hushed threads print to our debug log.

    Everybody else's output goes where it went before: a server's other threads go on printing
    while something is compiled. What is not writing is the real stream's.
    """

    def __init__(self, real: Any, hushed: "_Hushed") -> None:
        self.real, self._hushed = real, hushed

    def write(self, text: str, /) -> int:
        if not self._hushed.here():
            return int(self.real.write(text))
        if text.strip():
            _log.debug(text.strip())
        return len(text)

    def flush(self) -> None:
        self.real.flush()

    def isatty(self) -> bool:
        """No progress bar for a hushed thread."""
        return not self._hushed.here() and bool(self.real.isatty())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class _Hushed:
    """Who prints progress bars to the terminal? The threads of teleprompters.

    Standard output belongs to the caller's result. Several programs may be compiled at once; the
    last one to end puts the streams back, unless somebody replaced them meanwhile.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channels: list[EffectChannel] = []
        self._streams: tuple[_Stream, _Stream] | None = None

    def here(self) -> bool:
        """Is this a thread of a hushed program, or one that was started in its context?"""
        thread = threading.current_thread()
        # The context reaches threads that copy it; the list those that asked something.
        return _context.get() or any(thread in channel.threads for channel in self._channels)

    @contextmanager
    def __call__(self, channel: EffectChannel) -> Generator[None]:
        _context.set(True)  # in the program's own thread, whose context ends with it
        with self._lock:
            self._channels = [*self._channels, channel]
            if self._streams is None:
                # Replaced once for all programs; each write decides by its thread whose it is.
                self._streams = _Stream(sys.stdout, self), _Stream(sys.stderr, self)
                sys.stdout, sys.stderr = self._streams
        try:
            yield
        finally:
            with self._lock:
                self._channels = [
                    open_channel for open_channel in self._channels if open_channel is not channel
                ]
                if not self._channels:
                    self._restore()

    def _restore(self) -> None:
        if self._streams is None:
            return
        out, err = self._streams
        sys.stdout = out.real if sys.stdout is out else sys.stdout
        sys.stderr = err.real if sys.stderr is err else sys.stderr
        self._streams = None


_hushed: Final = _Hushed()


def run_in_thread(
    program: Callable[[EffectChannel], T], *, hushed: bool = False
) -> Generator[Any, Any, T]:
    """Run `program` in a thread: yields its requests, is sent the answers, returns its value.

    What the program raises is raised here. Closing the generator ends the program. What its
    threads print is not shown if it is `hushed`.
    """
    channel = EffectChannel()

    def work() -> None:
        channel.threads.add(threading.current_thread())
        try:
            if hushed:
                with _hushed(channel):
                    value = program(channel)
            else:
                value = program(channel)
        except BaseException as error:  # noqa: BLE001 - handed on to whoever drives it
            channel.requests.put(_Ended(error=error))
        else:
            channel.requests.put(_Ended(value))

    # A daemon: a program that never asks again must not keep the process from ending.
    thread = threading.Thread(target=work, name=THREAD, daemon=True)
    thread.start()
    try:
        while True:
            # Blocks this loop's thread until the program
            # asks: a strategy is pure, it cannot await.
            request = channel.requests.get()
            if isinstance(request, _Ended):
                if request.error is not None:
                    raise request.error
                return request.value  # type: ignore[return-value]
            channel.answer((yield request))
    finally:
        # Wakes the program with `Closed`, whatever ended this generator.
        channel.close()
