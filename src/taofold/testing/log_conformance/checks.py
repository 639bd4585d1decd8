"""Shared parts of the log contracts: records to write, and checks of facts and errors.

`Broken` is raised if a contract is not kept. Knows nothing about any contract.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from taofold.core.events import Record, Updated
from taofold.log.log import Log, RunRow

Opener: TypeAlias = Callable[[], Log]
Contract: TypeAlias = Callable[[Opener], Awaitable[None]]

RUN: Final = "run-1"
_NUMBERED: Final = re.compile(r"c(\d\d)_")


class Broken(AssertionError):
    """A log does not keep a contract."""


def numbered(*modules: Mapping[str, Any]) -> dict[int, Any]:
    """Returns the contracts among the names of modules (`c01_…`), by their numbers in order."""
    names = {name: thing for module in modules for name, thing in module.items()}
    found = [(int(match[1]), name) for name in names if (match := _NUMBERED.match(name))]
    return {number: names[name] for number, name in sorted(found)}


def updates(run: str, first: int, count: int, value: Any = None) -> list[Record]:
    """Returns `count` records of `run` from sequence number `first`."""
    return [
        Record(run, seq, 1_000 + seq, Updated(name="n", value=seq if value is None else value))
        for seq in range(first, first + count)
    ]


def same(got: object, wanted: object, what: str) -> None:
    """Checks one fact; also under `python -O`."""
    # No `assert`: `python -O` removes them, and a log would pass untested.
    if got != wanted:
        raise Broken(f"{what}: {wanted!r} wanted, not {got!r}")


async def expect_error(kind: type[Exception], call: Awaitable[object], what: str) -> None:
    """Checks that `call` raises `kind`."""
    try:
        result = await call
    except kind as error:
        same(bool(str(error)), True, f"{what}: a message in the error")
        return
    raise Broken(f"{what}: {kind.__name__} wanted, not {result!r}")


async def create_owned(log: Log, run: str = RUN, **fields: Any) -> int:
    """Creates `run` and claims it. Returns the epoch."""
    await log.create(RunRow(run, **fields))
    return (await log.claim(run, "first")).epoch


async def seqs(log: Log, run: str = RUN) -> list[int]:
    """Returns the sequence numbers of the run."""
    return [record.seq for record in await log.read(run)]
