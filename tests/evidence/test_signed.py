"""A signed log signs each rest of a run, and its cost does not grow with the run.

Mutants: `_sign` calls `sign_run`; `SqliteLog.tip` and `PostgresLog.tip` read all records up to the
number; the epoch is not compared; an end is signed without its record.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from taofold.core.errors import ConfigError
from taofold.core.events import Parked, Record, RunFinished, RunStarted, Updated
from taofold.evidence.chain import RunChain
from taofold.evidence.statement import keys_of
from taofold.evidence.verifier import BROKEN, OK, verify
from taofold.learning.exchange.exports import RunHash
from taofold.log import memory
from taofold.log.formats.ndjson import dumps_chain
from taofold.log.log import RunRow, WrappedLog
from taofold.log.memory import MemoryLog
from taofold.log.patterns.licences import run_hashes
from taofold.log.postgres import PostgresLog
from taofold.log.postgres import log as postgres_log
from taofold.log.signed import SignedLog, sign_run
from taofold.log.sqlite.log import SqliteLog
from tests import postgres
from tests.evidence.keys import signer

AnyLog = Any
KEY = signer()
KINDS = ["memory", "sqlite", "postgres"]
END = RunFinished(status="finished", stop_reason="finish", success=True)


def with_log(kind: str, folder: Path, work: Callable[[AnyLog], Awaitable[None]]) -> None:
    """Calls `work` with a new log of this kind."""

    async def main() -> None:
        log: AnyLog = MemoryLog()
        if kind == "sqlite":
            log = SqliteLog(folder / "runs.db", sync=lambda _: None)
        if kind == "postgres":
            log = PostgresLog(postgres.server().url())
        await work(log)
        await log.close()

    asyncio.run(main())


async def begin(log: AnyLog, count: int = 1, run: str = "r") -> int:
    """Creates a run with this number of records, and returns it."""
    updates = [Record(run, seq, seq, Updated(name="x", value=seq)) for seq in range(1, count)]
    started = Record(run, 0, 0, RunStarted(goal="go"))
    await log.create(RunRow(run, "running"), records=[started, *updates], owner="me")
    return count


def parked(seq: int, run: str = "r") -> list[Record]:
    return [Record(run, seq, 10_000, Parked(reason="approval"))]


async def signed_as(log: AnyLog, run: str = "r") -> tuple[int, str]:
    """The number of records that the key signed, and the status there."""
    report = verify(dumps_chain(await log.chain(run)).encode(), [KEY.public])
    assert report.code != BROKEN, report.text
    return report.signed, report.rest


@pytest.mark.parametrize("kind", KINDS)
def test_each_rest_is_signed_without_reading_the_run(kind: str, tmp_path: Path) -> None:
    async def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("the run was read")

    async def work(inner: AnyLog) -> None:
        log = SignedLog(inner, KEY)
        await begin(log)
        inner.chain = inner.read = refused
        await log.append("r", 1, parked(1), status="waiting")
        del inner.chain
        assert await signed_as(inner) == (2, "waiting")
        inner.chain = refused
        await log.append("r", 1, [], status="waiting", waiting_for="answer")
        await log.append("r", 1, [Record("r", 2, 10_001, END)], status="finished")
        del inner.chain
        assert await signed_as(inner) == (3, "finished")

    with_log(kind, tmp_path, work)


def test_the_cost_of_a_rest_in_sqlite_does_not_depend_on_the_run(tmp_path: Path) -> None:
    """Counts the instructions of SQLite's virtual machine."""
    counts: dict[int, int] = {}

    async def work(inner: AnyLog) -> None:
        log = SignedLog(inner, KEY)
        for count in (20, 2_000):
            run = f"r{count}"
            head, steps = await begin(log, count, run), 0

            def count_step() -> int:
                nonlocal steps
                steps += 1
                return 0

            inner._file._connection.set_progress_handler(count_step, 1)
            await log.append(run, 1, parked(head, run), status="waiting")
            inner._file._connection.set_progress_handler(None, 0)
            counts[count] = steps
            assert await signed_as(log, run) == (count + 1, "waiting")

    with_log("sqlite", tmp_path, work)
    assert 0 < counts[2_000] <= counts[20] * 1.1


def test_the_tip_in_postgres_reads_one_record(tmp_path: Path) -> None:
    url = postgres.server().url()

    async def work() -> None:
        log = PostgresLog(url)
        await begin(log, 2_000)
        await log.close()

    asyncio.run(work())
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("analyze taofold_events")
        plan = db.execute(
            "explain (analyze, format json) " + postgres_log._TIP, (2**31 - 1, b"r")
        ).fetchone()
    assert plan is not None
    scans = [it for it in nodes(plan[0][0]["Plan"]) if it.get("Relation Name") == "taofold_events"]
    assert [scan["Actual Rows"] for scan in scans] == [1]
    assert "Rows Removed by Filter" not in scans[0]


def nodes(plan: Any) -> list[Any]:
    return [plan, *[node for inner in plan.get("Plans", []) for node in nodes(inner)]]


def test_a_record_in_memory_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Any] = []

    def encode(event: Any) -> bytes:
        encoded.append(event)
        return real(event)

    real = memory.encode
    monkeypatch.setattr(memory, "encode", encode)

    async def main() -> None:
        log = SignedLog(MemoryLog(), KEY)
        head = await begin(log, 50)
        for seq in range(head, head + 3):
            await log.append("r", 1, parked(seq), status="waiting")

    asyncio.run(main())
    assert len(encoded) == 53


@pytest.mark.parametrize("kind", KINDS)
def test_an_end_is_signed_only_with_its_record(kind: str, tmp_path: Path) -> None:
    async def work(inner: AnyLog) -> None:
        log = SignedLog(inner, KEY)
        await begin(log)
        await log.append("r", 1, [Record("r", 1, 5, END)])
        await log.append("r", 1, [], status="finished")
        assert await signed_as(log) == (2, "finished")
        await begin(log, run="s")
        await log.append("s", 1, [], status="failed")
        assert await signed_as(log, "s") == (1, "running")
        copied = [Record("t", 0, 5, RunStarted(goal="go")), Record("t", 1, 5, END)]
        await log.create(RunRow("t", "finished"), records=copied)
        assert await signed_as(log, "t") == (2, "finished")

    with_log(kind, tmp_path, work)


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_hash_of_a_run_is_read_alone(kind: str, tmp_path: Path) -> None:
    async def work(log: AnyLog) -> None:
        await begin(log, 3)
        await log.create(RunRow("empty", "running"), owner="me")
        last = (await log.chain("r")).records[-1]
        log.chain = log.read = None
        found = await run_hashes(log, {"loop": ["r", "gone"], "other": ["empty"]})
        assert found == {"loop": [RunHash("r", last.seq, last.link.hex())]}
        del log.chain

    with_log(kind, tmp_path, work)


def signers(chain: RunChain) -> list[str]:
    return keys_of(chain.heads[-1])


@pytest.mark.parametrize("kind", KINDS)
def test_two_keys_sign_one_statement(kind: str, tmp_path: Path) -> None:
    """Mutants: the second key replaces the first; each status may be signed beside another."""
    other = signer(2)

    async def work(log: AnyLog) -> None:
        await begin(log)
        await log.append("r", 1, [Record("r", 1, 10_001, END)], status="finished")
        await sign_run(log, "r", KEY)
        both = await sign_run(log, "r", other)
        assert signers(both) == [KEY.keyid, other.keyid]
        assert await sign_run(log, "r", KEY) == both == await log.chain("r")
        for trusted in ([KEY], [other], [KEY, other]):
            report = verify(dumps_chain(both), [each.public for each in trusted])
            assert (report.code, report.keys) == (OK, [each.keyid for each in trusted])
        for seed in range(3, 17):
            await sign_run(log, "r", signer(seed))
        full = await log.chain("r")
        assert verify(dumps_chain(full), [KEY.public]).code == OK
        with pytest.raises(ConfigError, match="by 16 keys"):
            await sign_run(log, "r", signer(17))
        assert await log.chain("r") == full

    with_log(kind, tmp_path, work)


@pytest.mark.parametrize("kind", KINDS)
def test_another_statement_is_not_signed_beside_the_first(kind: str, tmp_path: Path) -> None:
    async def work(log: AnyLog) -> None:
        await begin(log)
        await log.append("r", 1, parked(1), status="waiting")
        before = await sign_run(log, "r", KEY)
        await log.append("r", 1, [], status="running")
        with pytest.raises(ConfigError, match="as waiting; the run is running"):
            await sign_run(log, "r", signer(2))
        (head,) = before.heads[-1:]
        await log.attest("r", replace(head, envelope=b"{}"), head.envelope)
        with pytest.raises(ConfigError, match="damaged envelope"):
            await sign_run(log, "r", signer(2))
        await log.attest("r", replace(head, stamp=b"x"), b"{}")
        await log.append("r", 1, [], status="waiting")
        with pytest.raises(ConfigError, match="a time stamp, which covers one signature"):
            await sign_run(log, "r", signer(2))
        assert signers(await log.chain("r")) == [KEY.keyid]

    with_log(kind, tmp_path, work)


class OvertakenLog(WrappedLog):
    """A log in which another process takes the run over after each append, and ends it."""

    async def append(self, run: str, epoch: int, records: Any, **named: Any) -> bool:
        written = await self.log.append(run, epoch, records, **named)
        claim = await self.log.claim(run, "other")
        end = Record(run, (await self.log.row(run)).events, 20_000, END)
        await self.log.append(run, claim.epoch, [end], status="finished")
        return written


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("records", "expected"), [([], (0, "")), (parked(1), (2, "waiting"))])
def test_a_rest_of_another_owner_is_not_signed(
    kind: str, records: list[Record], expected: tuple[int, str], tmp_path: Path
) -> None:
    async def work(inner: AnyLog) -> None:
        log = SignedLog(OvertakenLog(inner), KEY)
        await begin(log)
        await log.append("r", 1, records, status="waiting")
        assert await signed_as(inner) == expected

    with_log(kind, tmp_path, work)
