"""A function in a thread of its own that asks, seen from outside as a generator that yields.

DSPy's programs and teleprompters call a model and wait; a strategy yields an effect and is sent
the result. So the program runs in a thread, and while it works the strategy waits for its next
request: one of both is always asleep. If it asks the same things in the same order it can be
replayed; that is why it may not ask from two threads at once. Knows nothing about models.
"""

import io
import logging
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
THREAD: Final = "taofold-dspy"
_log = logging.getLogger("taofold.dspy")


class HungUp(BaseException):
    """Nobody will answer any more. No `except Exception` of the program's must stop it."""


@dataclass(frozen=True, slots=True)
class _Ended(Generic[T]):
    value: T | None = None
    error: BaseException | None = None


class Line:
    """The program's end: `ask` blocks until the strategy was sent an answer."""

    def __init__(self) -> None:
        self.requests: SimpleQueue[Any] = SimpleQueue()
        self._answers: SimpleQueue[Any] = SimpleQueue()
        self._busy = threading.Lock()
        self._down = False

    def ask(self, request: Any) -> Any:
        """What the strategy answers.

        Raises:
            RuntimeError: another thread is asking: its order could not be replayed.
            HungUp: the run was stopped.
        """
        if not self._busy.acquire(blocking=False):
            raise RuntimeError(
                "the program asks from several threads at once, which cannot be replayed: "
                "run it with num_threads=1"
            )
        try:
            if self._down:
                raise HungUp
            self.requests.put(request)
            answer = self._answers.get()
        finally:
            self._busy.release()
        if isinstance(answer, HungUp):
            raise answer
        return answer

    def answer(self, answer: Any) -> None:
        """Wake the program up."""
        self._answers.put(answer)

    def hang_up(self) -> None:
        """End the program at its next question, or where it waits."""
        self._down = True
        self._answers.put(HungUp())


class _Sink(io.TextIOBase):
    """Takes what is printed."""

    def write(self, text: str, /) -> int:
        if text.strip():
            _log.debug(text.strip())
        return len(text)


class _Hushed:
    """Who prints to the terminal while the strategy waits? A teleprompter's progress bars.

    They go to our debug log: standard output belongs to the caller's result. Several may wait
    at once, so the last one puts the streams back.
    """

    def __init__(self) -> None:
        self._lock, self._count = threading.Lock(), 0
        self._kept: tuple[Any, Any] = (None, None)

    @contextmanager
    def __call__(self) -> Generator[None]:
        with self._lock:
            if not self._count:
                self._kept = sys.stdout, sys.stderr
                sys.stdout = sys.stderr = _Sink()
            self._count += 1
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1
                if not self._count:
                    sys.stdout, sys.stderr = self._kept


_hushed: Final = _Hushed()


@contextmanager
def _aloud() -> Generator[None]:
    yield


def spoken(program: Callable[[Line], T], *, hushed: bool = False) -> Generator[Any, Any, T]:
    """Run `program` in a thread: yields its requests, is sent the answers, returns its value.

    What the program raises is raised here. Closing the generator ends the program. What it
    prints is not shown if it is `hushed`.
    """
    line, waiting = Line(), _hushed if hushed else _aloud

    def work() -> None:
        try:
            line.requests.put(_Ended(program(line)))
        except BaseException as error:  # noqa: BLE001 - handed on to whoever drives it
            line.requests.put(_Ended(error=error))

    thread = threading.Thread(target=work, name=THREAD, daemon=True)
    thread.start()
    try:
        while True:
            with waiting():
                request = line.requests.get()
            if isinstance(request, _Ended):
                if request.error is not None:
                    raise request.error
                return request.value  # type: ignore[return-value]
            line.answer((yield request))
    finally:
        line.hang_up()
