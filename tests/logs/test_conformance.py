"""Both logs keep every contract, and the contracts notice a log that does not."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from taofold.core.events import Record
from taofold.logs import SqliteLog
from taofold.store.log import Signal
from taofold.store.memory import MemoryLog
from taofold.testing import log_lasting, log_writing
from taofold.testing.log_conformance import Broken, Contract, contracts


def title(contract: Contract) -> str:
    return getattr(contract, "__name__", "")


@pytest.mark.parametrize("contract", contracts(persistent=False), ids=title)
def test_the_memory_log_keeps(contract: Contract) -> None:
    async def main() -> None:
        await contract(MemoryLog)

    asyncio.run(main())


@pytest.mark.parametrize("contract", contracts(persistent=True), ids=title)
def test_the_sqlite_log_keeps(contract: Contract, tmp_path: Path) -> None:
    async def main() -> None:
        await contract(lambda: SqliteLog(tmp_path / "log.db"))

    asyncio.run(main())


class Unfenced(MemoryLog):
    """Mutant: takes whatever epoch it is given."""

    async def append(self, run: str, epoch: int, *args: Any, **named: Any) -> bool:
        return await super().append(run, (await self.row(run)).epoch, *args, **named)


class Renumbering(MemoryLog):
    """Mutant: puts records where there is room."""

    async def append(self, run: str, epoch: int, records: Sequence[Record], **named: Any) -> bool:
        head = (await self.row(run)).events
        moved = [replace(record, seq=head + i) for i, record in enumerate(records)]
        return await super().append(run, epoch, moved, **named)


class Forgetful(MemoryLog):
    """Mutant: takes a message again once it was consumed."""

    async def post(self, run: str, signal: Signal) -> bool:
        if signal.id not in {known.id for known in await self.inbox(run)}:
            self._find(run).seen.discard(signal.id)
        return await super().post(run, signal)


class Restless(MemoryLog):
    """Mutant: parks although a message waits."""

    async def append(self, *args: Any, if_quiet: bool = False, **named: Any) -> bool:
        return await super().append(*args, **named)


class Hoarding(MemoryLog):
    """Mutant: keeps blobs of deleted runs."""

    async def delete(self, run: str) -> None:
        blobs = dict(self._blobs)
        await super().delete(run)
        self._blobs = blobs


class Halving(MemoryLog):
    """Mutant: takes the message out even when the records are refused."""

    async def append(self, run: str, *args: Any, consume: Sequence[str] = (), **named: Any) -> bool:
        for message in consume:
            self._find(run).inbox.pop(message, None)
        return await super().append(run, *args, consume=consume, **named)


@pytest.mark.parametrize(
    ("mutant", "contract"),
    [
        (Unfenced, log_writing.c04_who_was_overtaken_gets_a_conflict),
        (Unfenced, log_writing.c05_one_of_many_owners_wins_each_record),
        (Renumbering, log_writing.c03_a_sequence_number_that_is_not_the_next_is_a_conflict),
        (Forgetful, log_writing.c09_a_signal_is_taken_once_and_consumed_with_its_events),
        (Restless, log_writing.c10_if_quiet_writes_nothing_while_messages_wait),
        (Halving, log_writing.c06_a_refused_append_leaves_nothing_behind),
        (Hoarding, log_lasting.c16_a_blob_stays_while_a_run_speaks_of_it),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_contracts_notice_a_log_that_is(mutant: type[MemoryLog], contract: Contract) -> None:
    async def main() -> None:
        await contract(mutant)

    with pytest.raises(Broken):
        asyncio.run(main())
