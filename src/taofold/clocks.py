"""The clocks of runs and leases. A `now` is `clock`, or a test's clock."""

import time
from collections.abc import Callable


def clock() -> int:
    """Returns milliseconds since the epoch, by a clock that users and time servers may set."""
    return time.time_ns() // 1_000_000


def lap() -> int:
    """Returns milliseconds since an arbitrary moment, by a monotonic clock."""
    return time.monotonic_ns() // 1_000_000


def steady(now: Callable[[], int], not_before: int = 0) -> Callable[[], int]:
    """Returns a clock that starts with `now`, not before `not_before`, and cannot be set
    afterwards.

    Only the machine's clock can be set: any other `now` is returned unchanged.
    """
    # A test's clock controls the time; a steady one would deviate from it.
    if now is not clock:
        return now
    begin = max(now(), not_before) - lap()
    return lambda: begin + lap()
