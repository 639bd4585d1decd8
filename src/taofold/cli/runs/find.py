"""Resolves RUN arguments and reads records; closes the log after a command.

RUN is an id, its beginning, or `last`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, TypeVar

from taofold.cli.output import invocation
from taofold.core.errors import ConfigError, UnknownRun

if TYPE_CHECKING:
    from taofold.core.events import Record
    from taofold.log.log import Log


T = TypeVar("T")
_SHOWN: Final = 5
_RECENT: Final = 200
"""Number of recent runs searched for similar ids."""


def with_log(work: "Callable[[Log], Awaitable[T]]", *, create: bool = False) -> T:
    """Runs `work` with the project's log and closes it."""
    from taofold.cli.project import open_store

    log = open_store(create=create)

    async def done() -> T:
        try:
            return await work(log)
        finally:
            await log.close()

    return asyncio.run(done())


async def find(log: "Log", reference: str) -> str:
    """Resolves `reference` to a run id; `last` is the newest run.

    Raises:
        UnknownRun: No run matches; the message has similar ids.
        ConfigError: Several runs match.
    """
    # A complete id is matched first: it may be the beginning of others, and `last` may be an id.
    with suppress(UnknownRun):
        return (await log.row(reference)).run
    if reference == "last" and (newest := await _newest(log)):
        return newest
    # One more than shown, to detect further matches.
    ids = await log.ids(reference, limit=_SHOWN + 1) if reference else []
    if len(ids) == 1:
        return ids[0]
    if ids:
        many = f"more than {_SHOWN}" if len(ids) > _SHOWN else str(len(ids))
        some = ", ".join(ids[:_SHOWN]) + ", …" * (len(ids) > _SHOWN)
        raise ConfigError(f"{reference!r} is the beginning of {many} runs: {some}")
    recent = [row.run for row in await log.rows(limit=_RECENT)]
    near = get_close_matches(reference, recent, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else f"see `{invocation()} runs list`"
    raise UnknownRun(f"no run {reference!r}; {hint}")


async def _newest(log: "Log") -> str:
    """Returns the newest root run, else the newest run; "" if there is none."""
    first, before = "", 0
    # Child runs are newer than their caller, so the newest row is often a child.
    while rows := await log.rows(before=before):
        first = first or rows[0].run
        for row in rows:
            if not row.parent:
                return row.run
        before = rows[-1].place
    return first


async def records_of(
    log: "Log", reference: str, at: int | None = None
) -> "tuple[str, list[Record]]":
    """Returns the run's id and its records, up to `at`."""
    run = await find(log, reference)
    records = await log.read(run)
    if at is None:
        return run, records
    if not 0 <= at < len(records):
        raise ConfigError(
            f"run {run!r} has the events 0 to {len(records) - 1}, not {at}", path="--at"
        )
    return run, [record for record in records if record.seq <= at]
