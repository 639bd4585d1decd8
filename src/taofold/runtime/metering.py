"""Consumption of model calls that bring no reply: failed, repeated and cut-off attempts.

The runtime opens a `Meter` around each model call. An adapter reports the attempt of which it has
read a part. For models that report nothing, `model.ask` reports an estimate. Knows nothing about
events, budgets or providers.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from math import ceil
from typing import Final, NamedTuple

from taofold.core.values import Usage

BYTES_PER_TOKEN: Final = 4.0
"""For plain English and JSON: a text rarely has fewer tokens than this estimate."""


class Consumption(NamedTuple):
    """The usage of one attempt without a reply, and the name of the model that was asked."""

    model: str
    usage: Usage
    estimated: bool = False


class Meter:
    """The attempts of one model call that brought no reply.

    Args:
        estimates: True if attempts without a report of their usage are estimated.
    """

    def __init__(self, *, estimates: bool = True) -> None:
        self.estimates = estimates
        self.attempts: list[Consumption] = []


_METER: Final = ContextVar[Meter | None]("meter", default=None)


@contextmanager
def metered(meter: Meter) -> Generator[None]:
    """Collects reports in `meter`, also from tasks that the block starts."""
    token = _METER.set(meter)
    try:
        yield
    finally:
        _METER.reset(token)


def current_meter() -> Meter | None:
    """Returns the meter of the current model call, or None outside of one."""
    return _METER.get()


def report_consumption(model: str, usage: Usage, *, estimated: bool = False) -> None:
    """Reports what an attempt without a reply consumed, perhaps nothing. No-op outside of a call.

    Args:
        model: The name of the model that was asked.
        usage: The tokens and dollars.
        estimated: True if the provider did not report them.
    """
    meter = _METER.get()
    if meter is not None:
        meter.attempts.append(Consumption(model, usage, estimated))


def tokens_in(size: int) -> int:
    """Returns the estimated tokens of `size` bytes of text.

    >>> tokens_in(0), tokens_in(1), tokens_in(400)
    (0, 1, 100)
    """
    return ceil(size / BYTES_PER_TOKEN)
