"""Finds the run that a person means, and closes the log behind a command."""

import asyncio
from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeVar

from taofold.cli.program import invocation
from taofold.core.errors import ConfigError, UnknownRun

if TYPE_CHECKING:
    from taofold.core.events import Record
    from taofold.store.log import Log

T = TypeVar("T")


def with_log(work: "Callable[[Log], Awaitable[T]]", *, create: bool = False) -> T:
    """Do `work` with the project's log and close it."""
    from taofold.cli.place import open_store

    log = open_store(create=create)

    async def done() -> T:
        try:
            return await work(log)
        finally:
            await log.close()

    return asyncio.run(done())


async def find(log: "Log", said: str) -> str:
    """The id that `said` is, or begins; `last` is the newest run's.

    Raises:
        UnknownRun: there is none, with what is near.
        ConfigError: several begin so.
    """
    rows = await log.rows(limit=0)
    ids = [row.run for row in rows]
    if said in ids:
        return said
    if said == "last" and ids:
        return next((row.run for row in rows if not row.parent), ids[0])
    found = [run for run in ids if said and run.startswith(said)]
    if len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(found[:5]) + (", …" if len(found) > 5 else "")
        raise ConfigError(f"{said!r} is the beginning of {len(found)} runs: {shown}")
    near = get_close_matches(said, ids, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else f"see `{invocation()} runs list`"
    raise UnknownRun(f"no run {said!r}; {hint}")


async def records_of(log: "Log", said: str, at: int | None = None) -> "tuple[str, list[Record]]":
    """The run's id and its records, up to `at`."""
    run = await find(log, said)
    records = await log.read(run)
    if at is None:
        return run, records
    if not 0 <= at < len(records):
        raise ConfigError(
            f"run {run!r} has the events 0 to {len(records) - 1}, not {at}", path="--at"
        )
    return run, [record for record in records if record.seq <= at]
