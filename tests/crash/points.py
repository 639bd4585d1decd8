"""The crash-point harness: kill a process at any point of a run, and see what is left.

A `Points` counts the places where a process may die: before and after every write to the
log, every model call and every tool call. At the chosen one it sends itself SIGKILL, so
nothing is cleaned up. Wrap log, model and tools of an agent with it, in a process of its own.
"""

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

from taofold.core.events import Record
from taofold.core.values import Profile, Reply
from taofold.log.log import Claim, Log, RunRow, Signal, WrappedLog
from taofold.runtime.model import Model, OnText, Request
from taofold.tools import Tool


class Points:
    """Counts points and dies at number `at` (from 1; 0 is never)."""

    def __init__(self, at: int = 0) -> None:
        self.at, self.passed = at, 0

    def __call__(self) -> None:
        """Counts one point."""
        self.passed += 1
        if self.passed == self.at:
            # SIGKILL cannot be handled: no `finally` runs and no buffer is flushed.
            os.kill(os.getpid(), signal.SIGKILL)


class CrashModel:
    """A model with a point on either side of every call."""

    def __init__(self, model: Model, points: Points) -> None:
        self._model, self._points = model, points
        self.name, self.profile = model.name, model.profile

    name: str
    profile: Profile

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Ask the model, or die."""
        self._points()
        # Before: the request was never sent. After: it was paid for, and its answer is lost.
        reply = await self._model.complete(request, on_text)
        self._points()
        return reply

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Price of the model."""
        return self._model.price(input_tokens, output_tokens)


def crashing(tool: Tool, points: Points) -> Tool:
    """The synchronous `tool` with a point on either side of every call."""
    function: Callable[..., Any] | None = tool.function
    assert function is not None

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        points()
        # Between the two, the effect has happened and the log does not record it.
        value = function(*args, **kwargs)
        points()
        return value

    return replace(tool, function=call)


class CrashLog(WrappedLog):
    """A log with a point on either side of everything that writes."""

    def __init__(self, log: Log, points: Points) -> None:
        super().__init__(log)
        self._points = points

    async def create(self, row: RunRow, **named: Any) -> Claim:
        """Write, or die."""
        self._points()
        claim = await super().create(row, **named)
        self._points()
        return claim

    async def claim(self, run: str, owner: str, **named: Any) -> Claim:
        """Write, or die."""
        self._points()
        claim = await super().claim(run, owner, **named)
        self._points()
        return claim

    async def append(self, run: str, epoch: int, records: Sequence[Record], **named: Any) -> bool:
        """Write, or die."""
        self._points()
        written = await super().append(run, epoch, records, **named)
        self._points()
        return written

    async def post(self, run: str, signal: Signal) -> bool:
        """Write, or die."""
        self._points()
        posted = await super().post(run, signal)
        self._points()
        return posted
