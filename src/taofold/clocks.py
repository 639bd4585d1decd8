"""The clocks that runs and leases are timed by. A `now` is `clock`, or a test's."""

import time
from collections.abc import Callable


def clock() -> int:
    """Milliseconds since the epoch, by a clock that people and time servers set."""
    return time.time_ns() // 1_000_000


def lap() -> int:
    """Milliseconds since some moment, by a clock that nobody sets."""
    return time.monotonic_ns() // 1_000_000


def steady(now: Callable[[], int], not_before: int = 0) -> Callable[[], int]:
    """A clock that begins with `now`, not before `not_before`, and cannot be set afterwards.

    Only the machine's clock can be set: any other `now` is returned as it is.
    """
    # A test's clock says when time passes; a steady one would run beside it.
    if now is not clock:
        return now
    begin = max(now(), not_before) - lap()
    return lambda: begin + lap()
