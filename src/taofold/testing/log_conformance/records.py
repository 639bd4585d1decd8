"""Contracts 1 to 20, 37 to 39 of a log: records, owners, messages, blobs, rows, payloads, costs."""

import asyncio
import math
from typing import Any

from msgspec.structs import replace

from taofold.core.errors import Conflict, LogError, UnknownRun
from taofold.core.events import Noted, Observed, Record, Replied
from taofold.core.values import Observation, Usage
from taofold.log.log import Log, RunRow, Signal, Spending, Window
from taofold.log.spending import HOUR_MS
from taofold.testing.log_conformance.checks import (
    RUN,
    Broken,
    Opener,
    create_owned,
    expect_error,
    same,
    seqs,
    updates,
)


async def c01_records_come_back_as_written_and_in_order(opened: Opener) -> None:
    log = opened()
    epoch = await create_owned(log)
    records = updates(RUN, 0, 5)
    same(await log.append(RUN, epoch, records[:3]), True, "append returns")
    same(await log.append(RUN, epoch, records[3:], disk=True), True, "append to disk returns")
    same(await log.read(RUN), records, "what was written")
    await log.close()


async def c02_read_starts_after_and_stops_at_a_limit(opened: Opener) -> None:
    log = opened()
    epoch = await create_owned(log)
    await create_owned(log, "run-2")
    # More than any batch in which a log may read.
    records = updates(RUN, 0, 1200)
    await log.append(RUN, epoch, records)
    await log.append("run-2", 1, updates("run-2", 0, 3))
    same(await log.read(RUN), records, "a long run")
    same(await log.read(RUN, after=1), records[2:], "after=1")
    same(await log.read(RUN, after=1, limit=2), records[2:4], "after=1, limit=2")
    same(await log.read(RUN, limit=700), records[:700], "limit=700")
    same(await log.read(RUN, after=1199), [], "after the last one")
    same(await log.read(RUN, after=2**40), [], "long after the last one")
    await log.close()


async def c03_a_sequence_number_that_is_not_the_next_is_a_conflict(opened: Opener) -> None:
    log = opened()
    epoch = await create_owned(log)
    await log.append(RUN, epoch, updates(RUN, 0, 2))
    for first in (0, 1, 3):
        await expect_error(Conflict, log.append(RUN, epoch, updates(RUN, first, 1)), f"seq {first}")
    gap = [*updates(RUN, 2, 1), *updates(RUN, 4, 1)]
    await expect_error(Conflict, log.append(RUN, epoch, gap), "a gap in a batch")
    await expect_error(
        Conflict, log.append(RUN, epoch, updates("run-2", 2, 1)), "another run's record"
    )
    same(await seqs(log), [0, 1], "after refused appends")
    await log.close()


async def c04_who_was_overtaken_gets_a_conflict(opened: Opener) -> None:
    log = opened()
    old = await create_owned(log)
    await log.append(RUN, old, updates(RUN, 0, 1))
    claim = await log.claim(RUN, "second")
    same((claim.epoch > old, claim.previous_owner), (True, "first"), "the second claim")
    await expect_error(Conflict, log.append(RUN, old, updates(RUN, 1, 1)), "the old owner's append")
    await expect_error(
        Conflict, log.append(RUN, claim.epoch + 1, updates(RUN, 1, 1)), "epoch ahead"
    )
    await expect_error(
        Conflict, log.append(RUN, old, [], status="finished"), "an old owner's status"
    )
    same((await log.row(RUN)).status, "new", "the status after that")
    same(await log.append(RUN, claim.epoch, updates(RUN, 1, 1)), True, "the new owner's append")
    same(await seqs(log), [0, 1], "the records")
    await log.close()


async def c05_one_of_many_owners_wins_each_record(opened: Opener) -> None:
    log = opened()
    await log.create(RunRow(RUN))
    claims = await asyncio.gather(*(log.claim(RUN, f"owner-{i}") for i in range(8)))
    same(len({claim.epoch for claim in claims}), 8, "different epochs")
    outcomes = await asyncio.gather(
        *(log.append(RUN, claim.epoch, updates(RUN, 0, 2)) for claim in claims),
        return_exceptions=True,
    )
    newest = max(range(8), key=lambda i: claims[i].epoch)
    same([i for i in range(8) if outcomes[i] is True], [newest], "winners")
    same(sum(isinstance(outcome, Conflict) for outcome in outcomes), 7, "conflicts")
    same(await seqs(log), [0, 1], "the records")
    await log.close()


async def c06_a_refused_append_leaves_nothing_behind(opened: Opener) -> None:
    log = opened()
    epoch = await create_owned(log)
    await log.post(RUN, Signal("s1", "steer"))
    # Three good records and a gap: none of the four may stay.
    bad = [*updates(RUN, 0, 3), *updates(RUN, 5, 1)]
    call = log.append(
        RUN, epoch, bad, consume=["s1"], blobs={"d1": b"x"}, status="running", waiting_for="w"
    )
    await expect_error(Conflict, call, "a bad batch")
    row = await log.row(RUN)
    same((row.status, row.waiting_for, row.events), ("new", "", 0), "the row")
    same([signal.id for signal in await log.inbox(RUN)], ["s1"], "the inbox")
    await expect_error(LogError, log.blob("d1"), "the blob")
    await log.close()


async def c07_an_id_is_taken_once(opened: Opener) -> None:
    log = opened()
    await log.create(RunRow(RUN, goal="first"))
    await expect_error(Conflict, log.create(RunRow(RUN, goal="second")), "the same id")
    same((await log.row(RUN)).goal, "first", "the goal")
    await log.close()


async def c08_a_session_has_one_run_at_a_time(opened: Opener) -> None:
    log = opened()
    for number, status in enumerate(("finished", "limited", "failed", "cancelled")):
        run = f"run-{number}"
        epoch = await create_owned(log, run, session="s")
        await expect_error(Conflict, log.create(RunRow("other", session="s")), "a second run")
        await log.append(run, epoch, [], status="waiting", waiting_for="approval")
        await expect_error(
            Conflict, log.create(RunRow("other", session="s")), "beside a waiting run"
        )
        await log.append(run, epoch, [], status=status)
    await log.create(RunRow("else", session="t"))
    await log.create(RunRow("none-1"))
    await log.create(RunRow("none-2"))
    same(len(await log.rows(session="s")), 4, "runs of the session")
    await log.close()


async def c09_a_signal_is_taken_once_and_consumed_with_its_events(opened: Opener) -> None:
    log = opened()
    epoch = await create_owned(log)
    await create_owned(log, "run-2")
    first = Signal("s1", "steer", by="ann", at=5, data={"text": "héllo\0", "seq": 3})
    same(await log.post(RUN, first), True, "the first post")
    same(await log.post(RUN, first), False, "the second post")
    same(await log.post(RUN, Signal("s0", "cancel")), True, "another id")
    same(await log.post("run-2", first), True, "the same id in another run")
    same(await log.inbox(RUN), [first, Signal("s0", "cancel")], "the inbox in order of arrival")
    await log.append(RUN, epoch, updates(RUN, 0, 1), consume=["s1", "unknown"])
    same([signal.id for signal in await log.inbox(RUN)], ["s0"], "what is left")
    # Ids are remembered after consumption: a repeated post is taken once.
    same(await log.post(RUN, first), False, "a post after consumption")
    same(len(await log.inbox("run-2")), 1, "the other run's inbox")
    await log.close()


async def c10_if_quiet_writes_nothing_while_messages_wait(opened: Opener) -> None:
    log = opened()
    epoch = await create_owned(log)
    records = updates(RUN, 0, 1)
    await log.post(RUN, Signal("s1", "steer"))
    await log.post(RUN, Signal("s2", "steer"))
    call = log.append(RUN, epoch, records, consume=["s1"], status="waiting", if_quiet=True)
    same(await call, False, "append while s2 waits")
    same(await seqs(log), [], "the records")
    same((await log.row(RUN)).status, "new", "the status")
    same(len(await log.inbox(RUN)), 2, "messages")
    done = await log.append(RUN, epoch, records, consume=["s1", "s2"], if_quiet=True)
    same(done, True, "append that takes them all")
    same(await log.append(RUN, epoch, updates(RUN, 1, 1), if_quiet=True), True, "an empty inbox")
    await log.close()


async def c11_blobs_come_back_and_may_be_written_twice(opened: Opener) -> None:
    log = opened()
    epoch = await create_owned(log)
    content = bytes(range(256)) * 5000
    await log.append(RUN, epoch, [], blobs={"d1": content, "d0": b""})
    await log.append(RUN, epoch, updates(RUN, 0, 1), blobs={"d1": content})
    same(await log.blob("d1") == content, True, "the content of a blob")
    same(await log.blob("d0"), b"", "an empty blob")
    await expect_error(LogError, log.blob("d2"), "an unknown blob")
    await log.close()


async def c12_rows_show_what_was_written(opened: Opener) -> None:
    log = opened()
    initial = RunRow(
        RUN,
        goal="g",
        agent="a",
        session="s",
        parent="p",
        principal="ann",
        created_at=7,
        updated_at=7,
        epoch=9,
        events=9,
        owner="nobody",
    )
    await log.create(initial)
    row = await log.row(RUN)
    same((row.epoch, row.events, row.owner, row.updated_at), (0, 0, "", 7), "a new row")
    epoch = (await log.claim(RUN, "me")).epoch
    await log.append(RUN, epoch, updates(RUN, 0, 2), status="waiting", waiting_for="approval")
    expected = RunRow(
        RUN, "waiting", "g", "a", "s", "p", "ann", 7, 1_001, 2, epoch, "me", "approval"
    )
    # `place` is the log's own number.
    same(replace(await log.row(RUN), place=0), expected, "the row")
    await log.append(RUN, epoch, updates(RUN, 2, 1))
    same((await log.row(RUN)).waiting_for, "approval", "waiting_for without a status")
    await log.append(RUN, epoch, [], status="running")
    same((await log.row(RUN)).waiting_for, "", "waiting_for with a status")
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
    await _tags_are_kept_and_filtered_by(log)
    await log.close()


async def _tags_are_kept_and_filtered_by(log: Log) -> None:
    tags = {"team": "x=y", "stage": "%"}
    await log.create(RunRow("t1", "running", agent="a", tags=tags))
    await log.create(RunRow("t2", agent="b", tags={"team": "x=y"}))
    await log.create(RunRow("t3", agent="b", tags={"team": "z"}))
    same((await log.row("t1")).tags, tags, "the tags of a run")
    same((await log.row("r1")).tags, {}, "a run without tags")
    tagged = await log.rows(tag="team=x=y")
    same([row.run for row in tagged], ["t2", "t1"], "runs with a tag, the newest first")
    same([row.run for row in await log.rows(tag="team=x=y", limit=1)], ["t2"], "the newest one")
    before = await log.rows(tag="team=x=y", before=tagged[0].place)
    same([row.run for row in before], ["t1"], "runs with a tag before another")
    both = await log.rows(tag="team=x=y", agent="a", status="running", limit=2)
    same([row.run for row in both], ["t1"], "a tag, an agent and a status")
    same(await log.rows(tag="team=x=y", session="s8"), [], "a tag and a session without it")
    same(await log.rows(tag="team=x"), [], "a part of a value")
    same([row.run for row in await log.rows(tag="stage=%")], ["t1"], "no patterns in tags")
    await log.delete("t2")
    same([row.run for row in await log.rows(tag="team=x=y")], ["t1"], "runs that were not deleted")


async def c14_an_unknown_run_is_said_to_be_unknown(opened: Opener) -> None:
    log = opened()
    await expect_error(UnknownRun, log.claim("x", "me"), "claim")
    await expect_error(UnknownRun, log.append("x", 0, updates("x", 0, 1)), "append")
    await expect_error(UnknownRun, log.read("x"), "read")
    await expect_error(UnknownRun, log.row("x"), "row")
    await expect_error(UnknownRun, log.post("x", Signal("s", "steer")), "post")
    await expect_error(UnknownRun, log.inbox("x"), "inbox")
    await expect_error(UnknownRun, log.delete("x"), "delete")
    await log.close()


async def c15_a_deleted_run_is_gone(opened: Opener) -> None:
    log = opened()
    epoch = await create_owned(log)
    await log.append(RUN, epoch, updates(RUN, 0, 3), blobs={"d1": b"x"})
    await log.post(RUN, Signal("s1", "steer"))
    await create_owned(log, "run-2")
    await log.append("run-2", 1, updates("run-2", 0, 2))
    await log.delete(RUN)
    await expect_error(UnknownRun, log.row(RUN), "its row")
    await expect_error(UnknownRun, log.append(RUN, epoch, updates(RUN, 3, 1)), "its owner's append")
    await expect_error(LogError, log.blob("d1"), "its blob")
    same([row.run for row in await log.rows()], ["run-2"], "the other run")
    same(await seqs(log, "run-2"), [0, 1], "the other run's records")
    await log.create(RunRow(RUN))
    same(await seqs(log), [], "records of a new run of the same id")
    same(len(await log.inbox(RUN)), 0, "messages to a new run of the same id")
    same(await log.post(RUN, Signal("s1", "steer")), True, "a message to the new run")
    await log.close()


async def c16_a_blob_stays_while_a_run_speaks_of_it(opened: Opener) -> None:
    log = opened()
    epoch = await create_owned(log)
    await create_owned(log, "fork")
    # A fork copies records, not blobs: both runs refer to one blob.
    observed = Observed(key="0", observation=Observation("excerpt", blob="d1"))
    await log.append(RUN, epoch, [Record(RUN, 0, 1, observed)], blobs={"d1": b"long"})
    await log.append("fork", 1, [Record("fork", 0, 1, observed)])
    await log.delete(RUN)
    same(await log.blob("d1"), b"long", "a blob that only the copied record speaks of")
    await log.delete("fork")
    await expect_error(LogError, log.blob("d1"), "a blob that nobody speaks of")
    await log.close()


async def _echoed(log: Log, epoch: int, seq: int, value: Any) -> Any:
    event = Noted(key="0", kind="n", data={"v": value})
    await log.append(RUN, epoch, [Record(RUN, seq, 1, event)])
    (record,) = await log.read(RUN, after=seq - 1)
    if not isinstance(record.event, Noted):
        raise Broken(f"a Noted event came back as {record.event!r}")
    return record.event.data["v"]


async def c17_any_text_and_json_value_comes_back(opened: Opener) -> None:
    log = opened()
    epoch = await create_owned(log)
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    values: tuple[Any, ...] = (
        "",
        "NUL \0 inside",
        "é ü 漢 \U0001f600 \u2028 \x7f \x1b[31m",
        "'; drop table runs; --",
        None,
        True,
        -(2**63),
        2**63,
        0.1,
        1e300,
        {},
        {"": {"a\0": []}},
        deep,
    )
    for seq, value in enumerate(values):
        same(await _echoed(log, epoch, seq, value), value, "a value")
    await log.close()


async def c18_megabytes_come_back(opened: Opener) -> None:
    log = opened()
    epoch = await create_owned(log)
    text = "0123456789é" * 500_000
    same(await _echoed(log, epoch, 0, text) == text, True, "5 MB of text")
    await log.close()


async def c19_what_json_cannot_say_is_kept_or_refused_as_a_whole(opened: Opener) -> None:
    log = opened()
    epoch = await create_owned(log)
    head = 0

    # Each is written after a good record: refused as a whole means that neither is stored.
    for value in ("lone \ud800", 1j, object(), 2**70, {"\udfff": 1}):
        good = Record(RUN, head, 1, Noted(key="0", kind="n"))
        bad = Record(RUN, head + 1, 1, Noted(key="0", kind="n", data={"v": value}))
        try:
            await log.append(RUN, epoch, [good, bad])
        except LogError:
            same(await seqs(log), list(range(head)), f"records after {value!r} was refused")
        else:
            head += 2
            (_, rest) = await log.read(RUN, after=head - 3)
            same(rest.event, bad.event, f"a kept {value!r}")

    try:
        nan = await _echoed(log, epoch, head, math.nan)
    except LogError:
        same(await seqs(log), list(range(head)), "records after NaN was refused")
    else:
        same(nan is None or math.isnan(nan), True, "NaN as None or NaN")

    await log.close()


async def c20_names_are_data(opened: Opener) -> None:
    log = opened()
    for run in ("../x", "a b", "é", "'", "%", "x" * 1000, "NUL\0"):
        epoch = await create_owned(log, run)
        await log.append(run, epoch, updates(run, 0, 1))
        same((await log.read(run))[0].run, run, "a run's name")
    same(len(await log.rows(session="%")), 0, "no patterns in filters")
    await log.close()


async def c37_appends_happen_in_the_order_of_their_calls(opened: Opener) -> None:
    log = opened()
    epoch = await create_owned(log)
    # Branches of a run write concurrently, some of them to disk.
    written = await asyncio.gather(
        *(log.append(RUN, epoch, updates(RUN, n, 1), disk=n % 3 == 0) for n in range(40))
    )
    same(written, [True] * 40, "what each append returns")
    same(await seqs(log), list(range(40)), "the records")
    await log.close()


async def c38_appended_replies_are_spent_and_registered_ones_are_not(opened: Opener) -> None:
    log = opened()
    paid = [
        Record(RUN, seq, seq * HOUR_MS, Replied(key="0", prompt="p", usage=Usage(seq, 1, usd=0.5)))
        for seq in range(4)
    ]
    row = RunRow(RUN, principal="ann", agent="a", tags={"team": "x=y"})
    await log.create(row, records=paid[:1], owner="first")
    await log.append(RUN, 1, paid[1:3])
    await expect_error(Conflict, log.append(RUN, 1, paid[1:3]), "a repeated append")
    await log.append(RUN, 1, paid[3:])
    await log.delete(RUN)
    scopes = ("all", "principal:ann", "agent:a", "tag:team=x=y")
    whole, part = Spending(9, 0, 1_500_000_000), Spending(5, 0, 1_000_000_000)
    same(await log.spent([Window(scope, 0, 4) for scope in scopes]), [whole] * 4, "all hours")
    narrow = [Window("all", 1, 3), Window("all", 4, 9), Window("principal:bob", 0, 9)]
    same(await log.spent(narrow), [part, Spending(), Spending()], "some hours")
    same(await log.spenders("tag:", 1, 3), {"tag:team=x=y": part}, "scopes of tags")
    await log.close()


async def c39_replies_are_charged_to_the_active_agent(opened: Opener) -> None:
    log = opened()
    await log.create(RunRow(RUN, principal="ann", agent="a"), owner="first")
    # Of one hour, and of two in one append.
    agents = ("", "b", "é'\\", "b", "")
    replies = [
        Record(
            RUN,
            seq,
            seq // 3 * HOUR_MS,
            Replied(key="0", prompt="p", usage=Usage(10**seq, 0, usd=0.0), agent=agent),
        )
        for seq, agent in enumerate(agents)
    ]
    await log.append(RUN, 1, replies)
    charged = {
        f"agent:{name}": Spending(tokens)
        for name, tokens in (("a", 10_001), ("b", 1_010), ("é'\\", 100))
    }
    same(await log.spenders("agent:", 0, 9), charged, "the agents")
    same(
        await log.spenders("agent:", 1, 2),
        {"agent:a": Spending(10_000), "agent:b": Spending(1000)},
        "the agents of an hour",
    )
    others = [Window("all", 0, 9), Window("principal:ann", 0, 9)]
    same(await log.spent(others), [Spending(11_111)] * 2, "all and the principal")
    await log.close()
