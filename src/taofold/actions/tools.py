"""The tools behind our actions that need no web: memory, waiting, asking for a go-ahead."""

import asyncio
from typing import Any, Final

from taofold.tools import Outcome, RunContext, Tool
from taofold.tools.tool import make

WAIT: Final = "flow.wait"
APPROVE: Final = "flow.approve"
LONGEST: Final = 600.0
"""Seconds that a flow may wait before it tries again."""


def store(ctx: RunContext[Any], key: str, value: Any) -> Outcome:
    """Keep a value under a name for the rest of the run.

    Args:
        ctx: Of the call.
        key: The name.
        value: Any JSON value.
    """
    return Outcome(f"stored {key!r}", extraction=key, update=(f"memory.{key}", value))


def recall(ctx: RunContext[Any], key: str, default: Any = None) -> Outcome:
    """Get what was kept under a name.

    Args:
        ctx: Of the call.
        key: The name.
        default: What to return if nothing was kept.
    """
    place = f"memory.{key}"
    if place in ctx.data:
        return Outcome(ctx.data[place])
    if default is not None:
        return Outcome(default)
    known = [name[7:] for name in ctx.data if name.startswith("memory.")]
    return Outcome(f"nothing is kept as {key!r}; kept are {known}", "failure")


async def _wait(seconds: float) -> str:
    """Wait before the next attempt.

    Args:
        seconds: How long.
    """
    await asyncio.sleep(min(seconds, LONGEST))
    return f"waited {seconds:g} s"


def _approve(node: str, question: str = "") -> str:
    """Ask a person for a go-ahead.

    Args:
        node: The node that wants to go on.
        question: What the person should know.
    """
    return f"{node} may go on"


def memory() -> tuple[Tool, ...]:
    """`memory.store` and `memory.recall`: values in the run's state."""
    return (
        make(store, name="memory.store", effect="idempotent", tier=1, reversible=True,
             thread=False, toolset="memory"),
        make(recall, name="memory.recall", effect="read", thread=False, toolset="memory"),
    )  # fmt: skip


def wait() -> Tool:
    """Lets a flow wait between attempts; on resume it does not wait again."""
    return make(_wait, name=WAIT, effect="read", timeout=LONGEST + 1, toolset="flow")


def approve() -> Tool:
    """Stops until a person said yes: tier 3, so no dial skips it."""
    return make(
        _approve, name=APPROVE, effect="read", tier=3, thread=False, toolset="flow",
        preview=lambda p: f"{p.get('node')}: {p.get('question') or 'go on?'}",
    )  # fmt: skip
