"""Logs chain their records, and the chain of an untouched run holds."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from taofold.core.errors import Conflict
from taofold.core.events import Record, RunFinished, RunStarted, Updated
from taofold.evidence.chain import ChainHead, RunChain, StoredRecord, genesis, leaf
from taofold.evidence.verifier import UNSIGNED, verify
from taofold.log.formats.ndjson import dumps_chain
from taofold.log.log import RunRow
from taofold.log.memory import MemoryLog
from taofold.log.postgres import PostgresLog
from taofold.log.sqlite.log import SqliteLog
from taofold.log.transfer import migrate
from tests import postgres

AnyLog = Any
KINDS = ["memory", "sqlite", "postgres"]


def holds(chain: RunChain) -> bool:
    return verify(dumps_chain(chain), []).code == UNSIGNED


def opened(kind: str, folder: Path) -> AnyLog:
    """A new log of this kind."""
    if kind == "memory":
        return MemoryLog()
    if kind == "sqlite":
        return SqliteLog(folder / "runs.db", sync=lambda _: None)
    return PostgresLog(postgres.server().url())


def events(run: str, first: int, *values: Any) -> list[Record]:
    return [
        Record(run, seq, 1_769_337_000_000 + seq, Updated(name="x", value=value))
        for seq, value in enumerate(values, first)
    ]


async def write(log: AnyLog, run: str = "r1") -> None:
    """A run of five records in three writes that rests at its end."""
    await log.create(
        RunRow(run, "running"), records=[Record(run, 0, 5, RunStarted(goal="go"))], owner="me"
    )
    await log.append(run, 1, events(run, 1, 1.0, {"é": 1e30, "\U00010000": "\uffff"}))
    await log.append(run, 1, events(run, 3, [2**70, 0.1]))
    end = RunFinished(status="finished", stop_reason="finish", success=True)
    await log.append(run, 1, [Record(run, 4, 9, end)], status="finished")


def with_log(kind: str, folder: Path, work: Callable[[AnyLog], Awaitable[None]]) -> None:
    async def main() -> None:
        log = opened(kind, folder)
        await work(log)
        await log.close()

    asyncio.run(main())


@pytest.mark.parametrize("kind", KINDS)
def test_each_record_is_linked_when_it_is_written(kind: str, tmp_path: Path) -> None:
    async def work(log: AnyLog) -> None:
        await write(log)
        chain: RunChain = await log.chain("r1")
        assert len(chain.records) == 5
        assert holds(chain)
        previous = genesis(chain.log, "r1")
        for record in chain.records:
            body = rfc8785.dumps(json.loads(record.body, parse_int=float))
            place = {"run": "r1", "seq": record.seq, "at": record.at, "schema": record.schema}
            if b"1180591620717411303424" not in record.body:  # the library would round it
                form = rfc8785.dumps({**place, "event": json.loads(body)})
                assert sha256(form).digest() == leaf("r1", record)
            previous = sha256(previous + leaf("r1", record)).digest()
            assert record.link == previous
        if kind != "memory":
            assert [(head.seq, head.link) for head in chain.heads] == [(4, previous)]

    with_log(kind, tmp_path, work)


@pytest.mark.parametrize("at", ["5", 5.0, None])
def test_a_record_whose_time_is_no_number_has_no_leaf(at: Any) -> None:
    with pytest.raises(TypeError, match="is not a time"):
        leaf("r1", StoredRecord(0, at, 2, b"{}"))


@pytest.mark.parametrize("kind", KINDS)
def test_chains_differ_by_run_and_by_log(kind: str, tmp_path: Path) -> None:
    async def work(log: AnyLog) -> None:
        await write(log)
        await write(log, "r2")
        first, second = await log.chain("r1"), await log.chain("r2")
        assert first.log == second.log
        assert {each.link for each in first.records}.isdisjoint(
            {each.link for each in second.records}
        )
        other = MemoryLog()
        await write(other)
        assert (await other.chain("r1")).records[0].link != first.records[0].link

    with_log(kind, tmp_path, work)


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_holds_what_was_attested(kind: str, tmp_path: Path) -> None:
    """Mutant: the envelope that is replaced is not compared."""

    async def work(log: AnyLog) -> None:
        await write(log)
        chain = await log.store_head("r1")
        head = chain.heads[-1]
        await log.attest("r1", ChainHead(head.seq, head.link, envelope=b"{}", stamp=b"t"), b"")
        kept = (await log.chain("r1")).heads[-1]
        assert (kept.seq, kept.link, kept.envelope, kept.stamp) == (4, head.link, b"{}", b"t")
        with pytest.raises(Conflict, match="no head at record 3"):
            await log.attest("r1", ChainHead(3, b""), b"")
        # Another process may have signed it since it was read.
        with pytest.raises(Conflict, match="sign again"):
            await log.attest("r1", ChainHead(head.seq, head.link, envelope=b"[]"), b"")
        assert (await log.chain("r1")).heads[-1] == kept

    with_log(kind, tmp_path, work)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_another_object_continues_the_chain(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        log = opened(kind, tmp_path)
        await log.create(RunRow("r1", "running"), records=events("r1", 0, 1), owner="me")
        await log.append("r1", 1, events("r1", 1, 2))
        again = SqliteLog(log.path) if kind == "sqlite" else PostgresLog(log.database)
        await again.append("r1", 1, events("r1", 2, 3))
        await log.append("r1", 1, events("r1", 3, 4))
        chain = await again.chain("r1")
        assert len(chain.records) == 4
        assert holds(chain)
        await log.close()
        if kind == "sqlite":
            await again.close()

    asyncio.run(main())


def test_a_refused_append_leaves_the_chain_valid(tmp_path: Path) -> None:
    async def main() -> None:
        log = opened("sqlite", tmp_path)
        await log.create(RunRow("r1", "running"), records=events("r1", 0, 1), owner="me")
        await log.append("r1", 1, events("r1", 1, 2))
        # The third record fails inside the transaction, after its link was computed.
        with pytest.raises(Conflict):
            await log.append("r1", 1, [*events("r1", 2, 3), *events("r1", 2, 3)])
        other = SqliteLog(log.path)
        await other.append("r1", 1, events("r1", 2, "other"))
        await log.append("r1", 1, events("r1", 3, 4))
        assert holds(await log.chain("r1"))
        await log.close()
        await other.close()

    asyncio.run(main())


@pytest.mark.parametrize("source", ["sqlite", "postgres"])
@pytest.mark.parametrize("target", ["sqlite", "postgres"])
def test_a_moved_log_keeps_its_chains(source: str, target: str, tmp_path: Path) -> None:
    def new(kind: str, name: str) -> str:
        return f"sqlite:{tmp_path / name}" if kind == "sqlite" else postgres.server().url()

    def made(spec: str) -> AnyLog:
        return SqliteLog(spec[7:]) if spec.startswith("sqlite:") else PostgresLog(spec)

    old, fresh = new(source, "old.db"), new(target, "new.db")

    async def fill() -> RunChain:
        log = made(old)
        await write(log)
        before = await log.store_head("r1")
        await log.close()
        return before

    async def check(before: RunChain) -> None:
        log = made(fresh)
        assert await log.chain("r1") == before
        assert holds(before)
        await write(log, "r2")
        assert holds(await log.chain("r2"))
        await log.close()

    before = asyncio.run(fill())
    migrate(old, fresh)
    asyncio.run(check(before))


@pytest.mark.parametrize("kind", KINDS)
def test_deleting_a_run_leaves_the_chains_of_others_valid(kind: str, tmp_path: Path) -> None:
    async def work(log: AnyLog) -> None:
        await write(log)
        await write(log, "r2")
        await log.delete("r1")
        assert holds(await log.chain("r2"))
        await write(log)
        chain = await log.chain("r1")
        assert holds(chain)
        assert len(chain.records) == 5

    with_log(kind, tmp_path, work)
