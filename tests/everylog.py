"""Runs tests of a log in memory over another one: `pytest --log postgres`, `--log sqlite`.

Every `MemoryLog` in a test, or of an agent without a log, is replaced by an empty log of that kind
on a real server. Two cases are excluded: a test that sets its log's clock is skipped (the others
have their own), and a subclass of `MemoryLog` is kept and counts as memory's.
"""

import asyncio
import itertools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from taofold.log.log import Log
from taofold.log.memory import MemoryLog
from tests import postgres

KINDS: Final = ("memory", "sqlite", "postgres")
_numbers = itertools.count()


class Substitute:
    """Makes logs of a kind, and closes them when their test has ended."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.made: list[Any] = []
        self.lent: dict[Any, str] = {}
        """The schemas of logs in PostgreSQL."""
        self.folder = Path(tempfile.mkdtemp(prefix="logs"))

    def open(self) -> Log:
        log: Any
        if self.kind == "sqlite":
            from taofold.log.sqlite.log import SqliteLog

            log = SqliteLog(self.folder / f"{next(_numbers)}.db", sync=lambda _: None)
        else:
            from taofold.log.postgres import PostgresLog

            self._give_back()
            server = postgres.server()
            schema = server.lend()
            log = PostgresLog(server.address(schema))
            self.lent[log] = schema
        self.made.append(log)
        return log

    @contextmanager
    def installed(self) -> Iterator[None]:
        """While a test runs."""
        original: Callable[..., Any] = object.__new__

        def new(cls: type[Any], *arguments: Any, **options: Any) -> Any:
            if cls is not MemoryLog:
                return original(cls)
            if arguments or options:
                pytest.skip(f"{self.kind} has a clock of its own")
            return self.open()

        MemoryLog.__new__ = new  # type: ignore[assignment,method-assign]
        try:
            yield
        finally:
            del MemoryLog.__new__
            asyncio.run(self._close())

    async def _close(self) -> None:
        """All logs of a test at once: each ends a connection and a thread."""
        await asyncio.gather(*[log.close() for log in self.made])
        self.made.clear()
        self._give_back()

    def _give_back(self) -> None:
        """Let other logs have the schemas of those that were closed."""
        closed = [log for log in self.lent if log.closed]
        if closed:
            postgres.server().give_back([self.lent.pop(log) for log in closed])
