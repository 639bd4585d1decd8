"""What every log must do, as numbered contracts. A log that passes them is a log.

    @pytest.mark.parametrize("contract", contracts(persistent=True), ids=lambda c: c.__name__)
    def test_my_log(contract, tmp_path):
        asyncio.run(contract(lambda: MyLog(tmp_path / "log")))

A contract is given a function that opens the log of one, at first empty, store: a
persistent one twice at the same time if need be. It raises `Broken` if the contract
is not kept. Nothing here knows how a log stores things.

Stated about payloads: text may hold any Unicode scalar value, NUL included, and be
megabytes long. What JSON cannot say (a lone surrogate) a log may keep or refuse with
`LogError`, then as a whole; a NaN may come back as None.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from taofold.core.errors import Conflict, LogError, UnknownRun
from taofold.core.events import Noted, Observed, Record, RunFinished, Updated
from taofold.core.values import Observation
from taofold.store.log import Log, RunRow, Signal

Opener: TypeAlias = Callable[[], Log]
Contract: TypeAlias = Callable[[Opener], Awaitable[None]]

_RUN: Final = "run-1"


class Broken(AssertionError):
    """A log does not keep a contract."""


def updates(run: str, first: int, count: int, value: Any = None) -> list[Record]:
    """`count` records of `run` from sequence number `first`."""
    return [
        Record(run, seq, 1_000 + seq, Updated(name="n", value=seq if value is None else value))
        for seq in range(first, first + count)
    ]


def same(got: object, wanted: object, what: str) -> None:
    """Check one fact; also under `python -O`."""
    if got != wanted:
        raise Broken(f"{what}: {wanted!r} wanted, not {got!r}")


async def refused(kind: type[Exception], call: Awaitable[object], what: str) -> None:
    """Check that `call` raises `kind`."""
    try:
        result = await call
    except kind as error:
        same(bool(str(error)), True, f"{what}: a message in the error")
        return
    raise Broken(f"{what}: {kind.__name__} wanted, not {result!r}")


async def _owned(log: Log, run: str = _RUN, **fields: Any) -> int:
    await log.create(RunRow(run, **fields))
    return (await log.claim(run, "first")).epoch


async def _seqs(log: Log, run: str = _RUN) -> list[int]:
    return [record.seq for record in await log.read(run)]


async def c01_records_come_back_as_written_and_in_order(opened: Opener) -> None:
    log = opened()
    epoch = await _owned(log)
    records = updates(_RUN, 0, 5)
    same(await log.append(_RUN, epoch, records[:3]), True, "append returns")
    same(await log.append(_RUN, epoch, records[3:], disk=True), True, "append to disk returns")
    same(await log.read(_RUN), records, "what was written")
    await log.close()


async def c02_read_starts_after_and_stops_at_a_limit(opened: Opener) -> None:
    log = opened()
    epoch = await _owned(log)
    await _owned(log, "run-2")
    records = updates(_RUN, 0, 1200)
    await log.append(_RUN, epoch, records)
    await log.append("run-2", 1, updates("run-2", 0, 3))
    same(await log.read(_RUN), records, "a long run")
    same(await log.read(_RUN, after=1), records[2:], "after=1")
    same(await log.read(_RUN, after=1, limit=2), records[2:4], "after=1, limit=2")
    same(await log.read(_RUN, limit=700), records[:700], "limit=700")
    same(await log.read(_RUN, after=1199), [], "after the last one")
    same(await log.read(_RUN, after=2**40), [], "long after the last one")
    await log.close()


async def c03_a_sequence_number_that_is_not_the_next_is_a_conflict(opened: Opener) -> None:
    log = opened()
    epoch = await _owned(log)
    await log.append(_RUN, epoch, updates(_RUN, 0, 2))
    for first in (0, 1, 3):
        await refused(Conflict, log.append(_RUN, epoch, updates(_RUN, first, 1)), f"seq {first}")
    gap = [*updates(_RUN, 2, 1), *updates(_RUN, 4, 1)]
    await refused(Conflict, log.append(_RUN, epoch, gap), "a gap in a batch")
    await refused(Conflict, log.append(_RUN, epoch, updates("run-2", 2, 1)), "another run's record")
    same(await _seqs(log), [0, 1], "after refused appends")
    await log.close()


async def c04_who_was_overtaken_gets_a_conflict(opened: Opener) -> None:
    log = opened()
    old = await _owned(log)
    await log.append(_RUN, old, updates(_RUN, 0, 1))
    claim = await log.claim(_RUN, "second")
    same((claim.epoch > old, claim.previous_owner), (True, "first"), "the second claim")
    await refused(Conflict, log.append(_RUN, old, updates(_RUN, 1, 1)), "the old owner's append")
    await refused(Conflict, log.append(_RUN, claim.epoch + 1, updates(_RUN, 1, 1)), "epoch ahead")
    await refused(Conflict, log.append(_RUN, old, [], status="finished"), "an old owner's status")
    same((await log.row(_RUN)).status, "new", "the status after that")
    same(await log.append(_RUN, claim.epoch, updates(_RUN, 1, 1)), True, "the new owner's append")
    same(await _seqs(log), [0, 1], "the records")
    await log.close()


async def c05_one_of_many_owners_wins_each_record(opened: Opener) -> None:
    log = opened()
    await log.create(RunRow(_RUN))
    claims = await asyncio.gather(*(log.claim(_RUN, f"owner-{i}") for i in range(8)))
    same(len({claim.epoch for claim in claims}), 8, "different epochs")
    outcomes = await asyncio.gather(
        *(log.append(_RUN, claim.epoch, updates(_RUN, 0, 2)) for claim in claims),
        return_exceptions=True,
    )
    same(outcomes.count(True), 1, "winners")
    same(sum(isinstance(outcome, Conflict) for outcome in outcomes), 7, "conflicts")
    same(await _seqs(log), [0, 1], "the records")
    await log.close()


async def c06_a_refused_append_leaves_nothing_behind(opened: Opener) -> None:
    log = opened()
    epoch = await _owned(log)
    await log.post(_RUN, Signal("s1", "steer"))
    bad = [*updates(_RUN, 0, 3), *updates(_RUN, 5, 1)]
    call = log.append(
        _RUN, epoch, bad, consume=["s1"], blobs={"d1": b"x"}, status="running", waiting_for="w"
    )
    await refused(Conflict, call, "a bad batch")
    row = await log.row(_RUN)
    same((row.status, row.waiting_for, row.events), ("new", "", 0), "the row")
    same([signal.id for signal in await log.inbox(_RUN)], ["s1"], "the inbox")
    await refused(LogError, log.blob("d1"), "the blob")
    await log.close()


async def c07_an_id_is_taken_once(opened: Opener) -> None:
    log = opened()
    await log.create(RunRow(_RUN, goal="first"))
    await refused(Conflict, log.create(RunRow(_RUN, goal="second")), "the same id")
    same((await log.row(_RUN)).goal, "first", "the goal")
    await log.close()


async def c08_a_session_has_one_run_at_a_time(opened: Opener) -> None:
    log = opened()
    for number, status in enumerate(("finished", "limited", "failed", "cancelled")):
        run = f"run-{number}"
        epoch = await _owned(log, run, session="s")
        await refused(Conflict, log.create(RunRow("other", session="s")), "a second run")
        await log.append(run, epoch, [], status="waiting", waiting_for="approval")
        await refused(Conflict, log.create(RunRow("other", session="s")), "beside a waiting run")
        await log.append(run, epoch, [], status=status)
    await log.create(RunRow("else", session="t"))
    await log.create(RunRow("none-1"))
    await log.create(RunRow("none-2"))
    same(len(await log.rows(session="s")), 4, "runs of the session")
    await log.close()


async def c09_a_signal_is_taken_once_and_consumed_with_its_events(opened: Opener) -> None:
    log = opened()
    epoch = await _owned(log)
    await _owned(log, "run-2")
    first = Signal("s1", "steer", by="ann", at=5, data={"text": "héllo\0", "seq": 3})
    same(await log.post(_RUN, first), True, "the first post")
    same(await log.post(_RUN, first), False, "the second post")
    same(await log.post(_RUN, Signal("s0", "cancel")), True, "another id")
    same(await log.post("run-2", first), True, "the same id in another run")
    same(await log.inbox(_RUN), [first, Signal("s0", "cancel")], "the inbox in order of arrival")
    await log.append(_RUN, epoch, updates(_RUN, 0, 1), consume=["s1", "unknown"])
    same([signal.id for signal in await log.inbox(_RUN)], ["s0"], "what is left")
    same(await log.post(_RUN, first), False, "a post after consumption")
    same(len(await log.inbox("run-2")), 1, "the other run's inbox")
    await log.close()


async def c10_if_quiet_writes_nothing_while_messages_wait(opened: Opener) -> None:
    log = opened()
    epoch = await _owned(log)
    records = updates(_RUN, 0, 1)
    await log.post(_RUN, Signal("s1", "steer"))
    await log.post(_RUN, Signal("s2", "steer"))
    call = log.append(_RUN, epoch, records, consume=["s1"], status="waiting", if_quiet=True)
    same(await call, False, "append while s2 waits")
    same(await _seqs(log), [], "the records")
    same((await log.row(_RUN)).status, "new", "the status")
    same(len(await log.inbox(_RUN)), 2, "messages")
    done = await log.append(_RUN, epoch, records, consume=["s1", "s2"], if_quiet=True)
    same(done, True, "append that takes them all")
    same(await log.append(_RUN, epoch, updates(_RUN, 1, 1), if_quiet=True), True, "an empty inbox")
    await log.close()


async def c11_blobs_come_back_and_may_be_written_twice(opened: Opener) -> None:
    log = opened()
    epoch = await _owned(log)
    content = bytes(range(256)) * 5000
    await log.append(_RUN, epoch, [], blobs={"d1": content, "d0": b""})
    await log.append(_RUN, epoch, updates(_RUN, 0, 1), blobs={"d1": content})
    same(await log.blob("d1") == content, True, "the content of a blob")
    same(await log.blob("d0"), b"", "an empty blob")
    await refused(LogError, log.blob("d2"), "an unknown blob")
    await log.close()


async def c12_rows_show_what_was_written(opened: Opener) -> None:
    log = opened()
    given = RunRow(
        _RUN, goal="g", agent="a", session="s", parent="p", principal="ann",
        created_at=7, updated_at=7, epoch=9, events=9, owner="nobody",
    )  # fmt: skip
    await log.create(given)
    row = await log.row(_RUN)
    same((row.epoch, row.events, row.owner, row.updated_at), (0, 0, "", 7), "a new row")
    epoch = (await log.claim(_RUN, "me")).epoch
    await log.append(_RUN, epoch, updates(_RUN, 0, 2), status="waiting", waiting_for="approval")
    wanted = RunRow(
        _RUN, "waiting", "g", "a", "s", "p", "ann", 7, 1_001, 2, epoch, "me", "approval"
    )
    same(await log.row(_RUN), wanted, "the row")
    await log.append(_RUN, epoch, updates(_RUN, 2, 1))
    same((await log.row(_RUN)).waiting_for, "approval", "waiting_for without a status")
    await log.append(_RUN, epoch, [], status="running")
    same((await log.row(_RUN)).waiting_for, "", "waiting_for with a status")
    await log.close()


async def c13_rows_are_filtered_and_newest_first(opened: Opener) -> None:
    log = opened()
    for number in range(120):
        odd = number % 2
        await log.create(RunRow(f"r{number}", parent="p" if odd else "", session=f"s{number}"))
    epoch = (await log.claim("r7", "me")).epoch
    await log.append("r7", epoch, [], status="running")
    same([row.run for row in await log.rows(limit=2)], ["r119", "r118"], "the newest two")
    same(len(await log.rows()), 100, "the default limit")
    same(len(await log.rows(limit=0)), 120, "no limit")
    same(len(await log.rows(parent="p")), 60, "children of p")
    same([row.run for row in await log.rows(status="running")], ["r7"], "running ones")
    same([row.run for row in await log.rows(session="s8")], ["r8"], "a session's")
    same(await log.rows(parent="p", session="s8"), [], "both")
    await log.close()


async def c14_an_unknown_run_is_said_to_be_unknown(opened: Opener) -> None:
    log = opened()
    await refused(UnknownRun, log.claim("x", "me"), "claim")
    await refused(UnknownRun, log.append("x", 0, updates("x", 0, 1)), "append")
    await refused(UnknownRun, log.read("x"), "read")
    await refused(UnknownRun, log.row("x"), "row")
    await refused(UnknownRun, log.post("x", Signal("s", "steer")), "post")
    await refused(UnknownRun, log.inbox("x"), "inbox")
    await refused(UnknownRun, log.delete("x"), "delete")
    await log.close()
