"""Ends a process while an agent waits for its model."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import pytest

_DRIVING: ContextVar["asyncio.Task[object]"] = ContextVar("driving")
"""The task of the block that `kill` ends. Foreign code runs in tasks of its own."""


async def kill() -> None:
    """Cancels the task that drives the agent, as the end of a process does.

    A bare `CancelledError` does not suffice: without a request it is a failure of foreign code.
    """
    _DRIVING.get().cancel()
    await asyncio.sleep(0)


@contextmanager
def killed() -> Iterator[None]:
    """Ends the block by `kill`. The test continues."""
    task = asyncio.current_task()
    assert task is not None
    token = _DRIVING.set(task)
    with pytest.raises(asyncio.CancelledError):
        yield
    _DRIVING.reset(token)
    task.uncancel()
