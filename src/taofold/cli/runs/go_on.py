"""`resume_command`: the command that continues a run, ready to paste.

A child run is continued through its root run, an iteration through its loop. A fork of a child run
has no caller that waits for it: it is continued itself.
"""

from shlex import quote
from typing import TYPE_CHECKING

from taofold.cli.output import invocation
from taofold.core.errors import UnknownRun

if TYPE_CHECKING:
    from taofold.log.log import Log, RunRow

PLACEHOLDER = "FILE.py:NAME"
"""Placeholder for the agent of a run that does not record it."""


async def resume_command(log: "Log", run: str, agent: str = "", model: str = "") -> str:
    """Returns the command that continues `run`.

    `agent` and `model` are the options of the current command, which are needed again.
    """
    from taofold.cli.agent_argument import is_recorded
    from taofold.core.state import opening

    row = await _to_resume(log, run)
    loop = await _loop_of(log, row.run)
    if loop:
        return f"{invocation()} loops resume {quote(loop)}"
    words = f"{invocation()} runs resume {quote(row.run)}"
    started = opening(await log.read(row.run, limit=1))
    if agent or not is_recorded(started):
        words += f" --agent {quote(agent) if agent else PLACEHOLDER}"
    return words + (f" --model {quote(model)}" if model else "")


async def _to_resume(log: "Log", run: str) -> "RunRow":
    """Returns the nearest run above `run`, or itself, that is a fork or has no caller."""
    from taofold.core.events import Forked

    row = await log.row(run)
    while row.parent and not any(isinstance(it.event, Forked) for it in await log.read(row.run)):
        try:
            row = await log.row(row.parent)
        except UnknownRun:
            break
    return row


async def _loop_of(log: "Log", run: str) -> str:
    """Returns the loop of the iteration `run`; "" if it is no iteration."""
    from taofold.log.open import journal_beside
    from taofold.loop.stream import load

    loop, _, number = run.rpartition(".")
    if not loop or not number.isdecimal():
        return ""
    journal = journal_beside(log)
    try:
        iterations = (await load(journal, loop)).state.iterations
    except UnknownRun:
        return ""
    finally:
        await journal.close()
    return loop if 0 < int(number) <= len(iterations) else ""
