"""Any exception of a tool fails its own call only, from every entry point."""

import asyncio
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.road.conftest import MODELS, PROTOCOLS
from tests.road.entries import ENTRIES, LOOK, Road, same
from tests.road.providers import Providers
from tests.road.test_matrix import coroutine
from tests.road.types import KINDS


class Panic(BaseException):
    """Raised as by an extension in another language."""


def exits() -> None:
    sys.exit(3)


def interrupts() -> None:
    raise KeyboardInterrupt


def panics() -> None:
    raise Panic


def cancels() -> None:
    raise asyncio.CancelledError


async def exits_later() -> None:
    sys.exit(3)


async def interrupts_later() -> None:
    raise KeyboardInterrupt


async def panics_later() -> None:
    raise Panic


async def awaits_cancelled() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


ENDS: tuple[Callable[[], Any], ...] = (
    exits, exits_later, interrupts, interrupts_later, awaits_cancelled, cancels, panics,
    panics_later,
)  # fmt: skip
TEXT = next(kind for kind in KINDS if kind.type is str)


@dataclass(frozen=True)
class Row:
    """One entry point, and the end of its tool."""

    entry: str
    end: Callable[[], Any]

    def __str__(self) -> str:
        return f"{self.entry}-{self.end.__name__}"

    @property
    def road(self) -> Road:
        number = ENDS.index(self.end)
        protocol = tuple(PROTOCOLS)[number % len(PROTOCOLS)]
        return Road(TEXT, protocol, "react", self.entry, tuple(MODELS)[number % len(MODELS)])


ALL = [Row(entry, end) for entry, end in product(ENTRIES, ENDS)]
FEW = [Row(entry, ENDS[number % len(ENDS)]) for number, entry in enumerate(ENTRIES)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Selects all rows with `--road all`, as in `make test`; else each entry and end once."""
    if "row" in metafunc.fixturenames:
        everything = metafunc.config.getoption("--road") == "all"
        metafunc.parametrize("row", ALL if everything else FEW, ids=str)


def test_what_a_tool_raises_is_its_observation(
    row: Row, providers: Providers, tmp_path: Path
) -> None:
    LOOK.end = row.end
    try:
        entered = ENTRIES[row.entry](row.road, tmp_path / "runs.db")
        ended = asyncio.run(coroutine(entered)) if inspect.isawaitable(entered) else entered
    except BaseException as error:
        # An ordinary failure, because SystemExit and KeyboardInterrupt would end the tests.
        raise AssertionError(f"{error!r} left the run") from error
    finally:
        LOOK.end = None
    child = f"{ended.run}.2-0" if row.entry == "tool" else ended.run
    result = asyncio.run(ended.agent.result(child))
    observation = result.steps[0].observations[0]
    assert observation.status == "failure"
    assert type(raised(row.end)).__name__ in str(observation.result)
    assert same(result.output, TEXT.expected)
    assert not providers.refused


def raised(end: Callable[[], Any]) -> BaseException:
    """Returns the exception that `end` raises."""
    try:
        coming = end()
        if inspect.isawaitable(coming):
            loop = asyncio.new_event_loop()
            try:
                coming.__await__().send(None)
            finally:
                loop.close()
    except RuntimeError:
        return asyncio.CancelledError()
    except BaseException as error:
        return error
    raise AssertionError("it raises nothing")
