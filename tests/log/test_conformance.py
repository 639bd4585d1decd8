"""Both logs keep every contract, and the contracts notice a log that does not."""

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from taofold.core.errors import Conflict
from taofold.core.events import Record
from taofold.core.state import ENDED
from taofold.log.log import Claim, RunRow, Signal
from taofold.log.memory import MemoryLog
from taofold.log.spending import Charge, charges
from taofold.log.sqlite.log import SqliteLog
from taofold.testing.log_conformance import (
    Broken,
    Contract,
    Medium,
    contracts,
    durability,
    leases,
    records,
)


def title(contract: Contract) -> str:
    return getattr(contract, "__name__", "")


@pytest.mark.parametrize("contract", contracts(persistent=False), ids=title)
def test_the_memory_log_keeps(contract: Contract) -> None:
    async def main() -> None:
        await contract(MemoryLog)

    asyncio.run(main())


@pytest.mark.parametrize("contract", contracts(persistent=True), ids=title)
def test_the_sqlite_log_keeps(contract: Contract, tmp_path: Path) -> None:
    """Its opener can be sent to another process, and its syncs are watched."""

    async def main() -> None:
        await contract(partial(SqliteLog, tmp_path / "log.db"))

    asyncio.run(main())


class SqliteMedium:
    """A disk that holds what was synced: after a power cut the files are as they were then."""

    def __init__(self, folder: Path, kind: type[SqliteLog] = SqliteLog) -> None:
        self.folder, self.kind, self.cuts = folder, kind, 0
        self.now = folder / "0"
        self.now.mkdir()
        (folder / "medium").mkdir()

    def __call__(self) -> SqliteLog:
        # After a cut the files are copies. On a real disk they are the marked ones.
        return self.kind(self.now / "log.db", sync=self._synced, adopt=self.cuts > 0)

    def _synced(self, descriptor: int) -> None:
        shutil.copytree(self.now, self.folder / "medium", dirs_exist_ok=True)

    def cut_power(self) -> None:
        self.cuts += 1
        self.now = self.folder / str(self.cuts)
        shutil.copytree(self.folder / "medium", self.now)
        (self.now / "log.db-shm").unlink(missing_ok=True)


def test_what_the_sqlite_log_was_asked_to_keep_survives_a_power_cut(tmp_path: Path) -> None:
    async def main() -> None:
        medium = SqliteMedium(tmp_path)
        assert isinstance(medium, Medium)
        await durability.c36_what_was_asked_to_be_on_disk_survives_a_power_cut(medium)

    asyncio.run(main())


class Unfenced(MemoryLog):
    """Mutant: accepts any epoch."""

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


class Memory(MemoryLog):
    """A log that lets other tasks run at each call, like a log behind a network."""

    async def row(self, run: str) -> RunRow:
        row = await super().row(run)
        await asyncio.sleep(0)
        return row

    async def inbox(self, run: str) -> list[Signal]:
        messages = await super().inbox(run)
        await asyncio.sleep(0)
        return messages


class LooseMemory(Memory):
    """Mutant: looks for messages, and then writes."""

    async def append(self, run: str, *args: Any, if_quiet: bool = False, **named: Any) -> bool:
        if if_quiet and await self.inbox(run):
            return False
        return await super().append(run, *args, **named)


class LooseSqlite(SqliteLog):
    """The same, in a file."""

    async def append(self, run: str, *args: Any, if_quiet: bool = False, **named: Any) -> bool:
        if if_quiet and await self.inbox(run):
            return False
        return await super().append(run, *args, **named)


class RereadingMemory(Memory):
    """Mutant: compares the epoch, and writes under the one that it reads after that."""

    async def append(self, run: str, epoch: int, *args: Any, **named: Any) -> bool:
        if (await self.row(run)).epoch != epoch:
            raise Conflict("overtaken")
        return await super().append(run, (await super().row(run)).epoch, *args, **named)


class RereadingSqlite(SqliteLog):
    """The same, in a file."""

    async def append(self, run: str, epoch: int, *args: Any, **named: Any) -> bool:
        if (await self.row(run)).epoch != epoch:
            raise Conflict("overtaken")
        return await super().append(run, (await self.row(run)).epoch, *args, **named)


class Volatile(SqliteLog):
    """Mutant: `disk` means nothing."""

    async def append(self, *args: Any, disk: bool = False, **named: Any) -> bool:
        return await super().append(*args, **named)


class Hasty(SqliteLog):
    """Mutant: confirms a message before it is on disk."""

    async def post(self, run: str, signal: Signal) -> bool:
        settle, self._file.settle = self._file.settle, self._soon  # type: ignore[method-assign]
        try:
            return await super().post(run, signal)
        finally:
            self._file.settle = settle  # type: ignore[method-assign]

    async def _soon(self) -> None:
        pass


class Crowded(SqliteLog):
    """Mutant: looks whether a session is free, and then registers the run."""

    async def create(self, row: RunRow, **named: Any) -> Claim:
        others = await self.rows(session=row.session) if row.session else []
        if any(other.status not in ENDED for other in others):
            raise Conflict("the session is busy")
        claim = await super().create(replace(row, session=""), **named)
        await self._file.write(
            lambda db: db.execute(
                "update runs set session = ? where run = ?", (row.session, row.run)
            )
        )
        return claim


class Greedy(MemoryLog):
    """Mutant: every owner may claim a run at any time."""

    async def claim(self, run: str, owner: str, **named: Any) -> Claim:
        return await super().claim(run, owner, **{**named, "force": True})


class Eternal(MemoryLog):
    """Mutant: a lease never ends."""

    async def due(self, *args: Any, **named: Any) -> list[RunRow]:
        return [row for row in await super().due(*args, **named) if row.status == "waiting"]


class Sleepy(MemoryLog):
    """Mutant: a message wakes no run."""

    async def post(self, run: str, signal: Signal) -> bool:
        row = self._find(run).row
        new = await super().post(run, signal)
        self._find(run).row = row
        return new


class Forgiving(MemoryLog):
    """Mutant: registers a run, and then takes its first records."""

    async def create(self, row: RunRow, *, records: Sequence[Record] = (), **named: Any) -> Claim:
        claim = await super().create(row, **named)
        if records:
            self._take(self._find(row.run), row.run, records)
        return claim


class Leaking(MemoryLog):
    """Mutant: takes the blobs of a run, and then registers it."""

    async def create(
        self, row: RunRow, *, blobs: Mapping[str, bytes] | None = None, **named: Any
    ) -> Claim:
        self._blobs.update(blobs or {})
        return await super().create(row, **named)


class Recounting(MemoryLog):
    """Mutant: counts the replies that a run is registered with."""

    async def create(self, row: RunRow, *, records: Sequence[Record] = (), **named: Any) -> Claim:
        claim = await super().create(row, records=records, **named)
        for cost in charges(records):
            self._charge(row, cost)
        return claim


class Refunding(MemoryLog):
    """Mutant: gives back what a deleted run has spent."""

    async def delete(self, run: str) -> None:
        await super().delete(run)
        self._spend.clear()


class Founding(MemoryLog):
    """Mutant: charges the agent with which the run began."""

    def _charge(self, row: RunRow, charge: Charge) -> None:
        super()._charge(row, charge._replace(agent=""))


ATTEMPTS = 20
"""Races that a conforming log would always pass."""
RACES = {"c32", "c33", "c34", "c35"}


def starting(mutant: type[Any], folder: Path) -> Any:
    """An opener of the mutant."""
    return mutant if issubclass(mutant, MemoryLog) else partial(mutant, folder / "log.db")


@pytest.mark.parametrize(
    ("mutant", "contract"),
    [
        (LooseMemory, leases.c32_a_message_is_never_lost_to_a_run_that_parks),
        (LooseSqlite, leases.c32_a_message_is_never_lost_to_a_run_that_parks),
        (RereadingMemory, leases.c33_nothing_of_an_old_owner_arrives_behind_a_claim),
        (RereadingSqlite, leases.c33_nothing_of_an_old_owner_arrives_behind_a_claim),
        (Crowded, leases.c34_of_two_runs_that_begin_at_once_in_a_session_one_does),
        (Volatile, durability.c36_what_was_asked_to_be_on_disk_survives_a_power_cut),
        (Hasty, durability.c36_what_was_asked_to_be_on_disk_survives_a_power_cut),
        (Greedy, leases.c25_a_lease_keeps_others_out_until_it_is_over),
        (Eternal, leases.c27_what_is_due_is_listed_and_nothing_else),
        (Sleepy, leases.c27_what_is_due_is_listed_and_nothing_else),
        (Forgiving, leases.c24_a_run_begins_with_its_first_records_or_not_at_all),
        (Leaking, leases.c24_a_run_begins_with_its_first_records_or_not_at_all),
        (Unfenced, records.c04_who_was_overtaken_gets_a_conflict),
        (Unfenced, records.c05_one_of_many_owners_wins_each_record),
        (Renumbering, records.c03_a_sequence_number_that_is_not_the_next_is_a_conflict),
        (Forgetful, records.c09_a_signal_is_taken_once_and_consumed_with_its_events),
        (Restless, records.c10_if_quiet_writes_nothing_while_messages_wait),
        (Halving, records.c06_a_refused_append_leaves_nothing_behind),
        (Hoarding, records.c16_a_blob_stays_while_a_run_speaks_of_it),
        (Recounting, records.c38_appended_replies_are_spent_and_registered_ones_are_not),
        (Refunding, records.c38_appended_replies_are_spent_and_registered_ones_are_not),
        (Founding, records.c39_replies_are_charged_to_the_active_agent),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_contracts_notice_a_log_that_is(
    mutant: type[Any], contract: Contract, tmp_path: Path
) -> None:
    # A race that a busy machine does not run side by side shows nothing: it is run again.
    for attempt in range(ATTEMPTS if contract.__name__[:3] in RACES else 1):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        try:
            asyncio.run(contract(starting(mutant, folder)))
        except Broken:
            return
    pytest.fail("the contract lets this log pass")


@pytest.mark.parametrize("mutant", [Volatile, Hasty])
def test_a_power_cut_shows_what_was_not_kept(mutant: type[SqliteLog], tmp_path: Path) -> None:
    async def main() -> None:
        medium = SqliteMedium(tmp_path, mutant)
        await durability.c36_what_was_asked_to_be_on_disk_survives_a_power_cut(medium)

    with pytest.raises(Broken, match="power cut"):
        asyncio.run(main())
