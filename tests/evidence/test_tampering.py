"""Every forgery of a run is noticed, and no untouched run raises an alarm.

By default two runs are forged, and 30 untouched runs are verified: ten each in memory, SQLite and
PostgreSQL. A third of them has masks in the place of secrets. A third is deleted by retention, and
then the rest is verified again; SQLite and PostgreSQL are also migrated to each other. The large
number takes minutes:

    TAOFOLD_EVIDENCE_ALL=1 TAOFOLD_EVIDENCE_RUNS=2000 pytest tests/evidence/test_tampering.py
"""

import asyncio
import json
import os
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from taofold.agent import Agent
from taofold.core.content import MediaPart, blob_digest
from taofold.core.errors import ConfigError
from taofold.core.events import Event, Noted, Record, RunFinished, RunStarted
from taofold.evidence import chain as chains
from taofold.evidence.verifier import (
    BROKEN,
    NO_KEY,
    OK,
    UNSIGNED,
    EvidenceReport,
    canonical,
    read_json,
    verify,
)
from taofold.log.formats.ndjson import dumps_chain, load_blobs, loads
from taofold.log.memory import MemoryLog
from taofold.log.postgres import PostgresLog
from taofold.log.signed import SignedLog, chain_of
from taofold.log.sqlite.log import SqliteLog
from taofold.log.sqlite.open import open_existing
from taofold.log.transfer import migrate
from taofold.policy.redaction import MARK
from taofold.testing import ScriptedModel
from taofold.tools import tool
from tests import postgres
from tests.evidence import forgery
from tests.evidence.forgery import exported, kit_records, new_key, store
from tests.runtime.kit import act, finish

KEY = new_key()
ALL = bool(os.environ.get("TAOFOLD_EVIDENCE_ALL"))
FORGED = forgery.NAMES if ALL else ("approval_edited", "flow_group")
UNTOUCHED = int(os.environ.get("TAOFOLD_EVIDENCE_RUNS", "30"))


def export_of(name: str, *, signed: bool, run: str = "r1") -> str:
    async def main() -> str:
        log = MemoryLog()
        await store(log, kit_records(name, run))
        if not signed:
            # As a log with rows stores it: a head without a signature.
            await log.store_head(run)
        return await exported(log, run, KEY if signed else None)

    return asyncio.run(main())


def forgeries(text: str) -> Iterator[tuple[str, str]]:
    lines = text.split("\n")
    for place, line in enumerate(lines):
        if line.startswith('{"run":'):
            for what, changed in forgery.edited(json.loads(line)):
                yield (
                    f"record {place - 1}: {what}",
                    "\n".join([*lines[:place], json.dumps(changed), *lines[place + 1 :]]),
                )
    for what, changed in forgery.moved(lines):
        yield what, "\n".join(changed)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("name", FORGED)
def test_each_forgery_of_an_export_is_noticed(name: str, signed: bool) -> None:
    text, count = export_of(name, signed=signed), 0
    keys = [KEY.public] if signed else []
    assert verify(text, keys).code == (OK if signed else UNSIGNED)
    for what, forged in forgeries(text):
        report, count = verify(forged, keys), count + 1
        assert report.code == BROKEN, f"{name}: {what}: {report}"
    assert count > 200


def rechained(text: str) -> str:
    """The export with links and heads that a forger without the key has computed again."""
    lines = text.split("\n")
    header = json.loads(lines[0])
    records = [json.loads(line) for line in lines if line.startswith('{"run":')]
    place = next(n for n, line in enumerate(lines) if line.startswith('{"evidence":'))
    evidence = json.loads(lines[place])["evidence"]
    previous, links = chains.genesis(evidence["log"], evidence["run"]), []
    for record in records:
        whole = {key: record[key] for key in ("run", "seq", "at", "event")}
        whole["schema"] = header["schema"]
        form = canonical(read_json(json.dumps(whole))).encode()
        previous = chains.sha256(previous + chains.sha256(form).digest()).digest()
        links.append(previous.hex())
    evidence["links"] = links
    for head in evidence["heads"]:
        head["link"] = links[min(head["seq"], len(links) - 1)]
    lines[place] = json.dumps({"evidence": evidence})
    return "\n".join(lines)


@pytest.mark.parametrize("name", FORGED)
def test_a_chain_that_was_computed_again_does_not_fit_its_signature(name: str) -> None:
    text = export_of(name, signed=True)
    lines = text.split("\n")
    assert verify(rechained(text), [KEY.public]).code == OK
    for place, line in enumerate(lines):
        if line.startswith('{"run":'):
            changed = json.loads(line)
            changed["event"]["by"] = "mallory"
            forged = rechained(
                "\n".join([*lines[:place], json.dumps(changed), *lines[place + 1 :]])
            )
            assert verify(forged, [KEY.public]).code == BROKEN


def with_heads(text: str, heads: list[Any]) -> str:
    lines = text.split("\n")
    place = next(n for n, line in enumerate(lines) if line.startswith('{"evidence":'))
    evidence = json.loads(lines[place])["evidence"]
    lines[place] = json.dumps({"evidence": {**evidence, "heads": heads}})
    return "\n".join(lines)


def heads_of(text: str) -> list[Any]:
    line = next(line for line in text.split("\n") if line.startswith('{"evidence":'))
    heads: list[Any] = json.loads(line)["evidence"]["heads"]
    return heads


def test_heads_of_others_and_changed_heads_are_noticed() -> None:
    text = export_of("approval_edited", signed=True)
    keys = [KEY.public]
    (head,) = heads_of(text)
    # A head of another run and of another log, signed with the right key.
    for other in (export_of("steered", signed=True), export_of("approval_edited", signed=True)):
        assert verify(with_heads(text, heads_of(other)), keys).code == BROKEN
        envelope = {**head, "envelope": heads_of(other)[0]["envelope"]}
        assert verify(with_heads(text, [envelope]), keys).code == BROKEN
    for path in forgery.leaves(head):
        for value in forgery.other_values(forgery.at(head, path)):
            changed = json.loads(json.dumps(head))
            forgery.at(changed, path[:-1])[path[-1]] = value
            report = verify(with_heads(text, [changed]), keys)
            # The key's name is a hint only: any given key that fits counts.
            assert report.code != OK or path[-1] == "keyid", (path, value)
    assert verify(with_heads(text, []), keys).code == UNSIGNED
    assert verify(text, []).code == NO_KEY


def test_an_unsigned_head_binds_the_records_up_to_it() -> None:
    """Mutant: a head that is not compared with the links."""
    text = export_of("approval_edited", signed=False)
    (head,) = heads_of(text)
    assert verify(with_heads(text, [{**head, "link": "00" * 32}]), []).code == BROKEN
    lines = text.split("\n")
    last = max(n for n, line in enumerate(lines) if line.startswith('{"run":'))
    shorter = rechained("\n".join([*lines[:last], *lines[last + 1 :]]))
    assert verify(shorter, []).code == BROKEN


def test_a_forger_with_another_key_is_noticed() -> None:
    async def main() -> str:
        log = MemoryLog()
        records = kit_records("approval_edited", "r1")
        await store(log, records)
        return await exported(log, "r1", new_key())

    assert verify(asyncio.run(main()), [KEY.public]).code == NO_KEY


def test_records_after_the_last_signature_are_named() -> None:
    async def main() -> EvidenceReport:
        log = SignedLog(MemoryLog(), KEY)
        records = kit_records("approval_edited", "r1")
        await store(log, records)
        more = Record("r1", len(records), records[-1].at, Noted(key="1", kind="x"))
        await log.append("r1", 1, [more])
        return verify(dumps_chain(await chain_of(log, "r1")), [KEY.public])

    report = asyncio.run(main())
    assert report.code == UNSIGNED
    assert (report.signed, report.records) == (report.records - 1, report.records)


def test_a_withheld_record_leaves_its_hash_and_cannot_be_replaced() -> None:
    async def main() -> str:
        log = SignedLog(MemoryLog(), KEY)
        await store(log, kit_records("approval_edited", "r1"))
        return dumps_chain(await chain_of(log, "r1"), withheld=[2, 5])

    text = asyncio.run(main())
    report = verify(text, [KEY.public])
    assert (report.code, report.withheld) == (OK, 2)
    for what, forged in forgeries(text):
        # Records that are moved to the number of a withheld one are the same forgery.
        assert verify(forged, [KEY.public]).code == BROKEN, what


def random_events(number: int) -> list[Event]:
    rng = random.Random(number)
    values = [1.0, 0.1, 1e-7, 2**60, -5, "é\U0001f600\uffff", None, True, [], {}, {"\ue000": {}}]
    middle = [
        Noted(
            key=str(n), kind="state", data={rng.choice("abc\U00010000\uffff"): rng.choice(values)}
        )
        for n in range(rng.randint(0, 4))
    ]
    # Retention deletes those that failed.
    status = "finished" if number % 3 else "failed"
    end = RunFinished(status=status, stop_reason="x", success=number % 3 > 0, output=number)
    return [RunStarted(goal=f"goal {number}", data={"n": rng.random()}), *middle, end]


SECRET = "hunter2hunter2"


@tool(effect="read")
def look(what: str) -> str:
    """Returns `what` with a secret."""
    return f"{what} {SECRET}"


async def run_with_masks(log: Any, run: str) -> None:
    """Writes a run as an agent does that knows a secret, and has it in goal, calls and results."""
    script = [act("look", f"about {SECRET}", what=SECRET), finish(f"it is {SECRET}")]
    agent = Agent(ScriptedModel(script), tools=[look], log=log, secrets=[SECRET])
    await agent.run(f"find {SECRET}", run_id=run)


async def fill(log: Any, runs: int) -> None:
    """Writes runs `r0`, `r1` …; every third, from `r1`, has masks."""
    for number in range(runs):
        if number % 3 == 1:
            await run_with_masks(log, f"r{number}")
            continue
        events = random_events(number)
        records = [Record(f"r{number}", seq, 5 + seq, each) for seq, each in enumerate(events)]
        await store(log, records)


async def verified(log: Any, numbers: list[int]) -> None:
    for number in numbers:
        text = await exported(log, f"r{number}")
        report = verify(text, [KEY.public])
        assert report.code == OK, f"r{number}: {report.text}"
        assert (text.count(MARK) > 4) == (number % 3 == 1)
        assert SECRET not in text


async def forget_failed(log: Any, runs: int) -> None:
    """Applies retention, or deletes the same runs in a log without it."""
    failed = [f"r{number}" for number in range(0, runs, 3)]
    if isinstance(log.log, MemoryLog):
        for run in failed:
            await log.delete(run)
    else:
        assert sorted(await log.prune(2**52, keep=["finished"])) == sorted(failed)


def database(spec: str) -> Any:
    return SqliteLog(spec, sync=lambda _: None) if spec.endswith("db") else PostgresLog(spec)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_untouched_runs_raise_no_alarm(kind: str, tmp_path: Path) -> None:
    runs = max(UNTOUCHED // 3, 2)
    kept = [number for number in range(runs) if number % 3]

    async def main(inner: Any) -> None:
        log = SignedLog(inner, KEY)
        await fill(log, runs)
        await verified(log, list(range(runs)))
        await forget_failed(log, runs)
        await verified(log, kept)
        await log.close()

    async def after_move(log: Any) -> None:
        await verified(log, kept)
        await log.close()

    if kind == "memory":
        asyncio.run(main(MemoryLog()))
        return
    specs = [str(tmp_path / "runs.db"), postgres.server().url()]
    source, target = specs if kind == "sqlite" else reversed(specs)
    asyncio.run(main(database(source)))
    migrate(source, target)
    asyncio.run(after_move(database(target)))


ROWS = (
    "update events set body = replace(body, 'ann', 'bob') where body like '%ann%'",
    "update events set at = at + 1 where id & 4294967295 = 2",
    "delete from events where id & 4294967295 = 3",
    "delete from events where id = (select max(id) from events)",
    "update events set link = x'00' where id & 4294967295 = 4",
    "update events set link = x'' where id & 4294967295 = 4",
    "insert into events select max(id) + 1, at, body, version, x'' from events",
    "update events set version = 1 where id & 4294967295 = 4",
    "update events set body = '{' where id & 4294967295 = 4",
    "update events set at = 'noon' where id & 4294967295 = 4",
    "update heads set link = x'0000'",
    "update heads set envelope = x'7b7d'",
    "update meta set value = 'ff' where key = 'chain'",
    "update runs set run = 'r2'",
)


@pytest.mark.parametrize("statement", ROWS)
def test_a_change_of_rows_is_noticed(statement: str, tmp_path: Path) -> None:
    async def main() -> EvidenceReport:
        log = SignedLog(SqliteLog(tmp_path / "runs.db", sync=lambda _: None), KEY)
        await store(log, kit_records("approval_edited", "r1"))
        assert verify(await exported(log, "r1"), [KEY.public]).code == OK
        with closing(open_existing(tmp_path / "runs.db", "rw", 5)) as db:
            assert db.execute(statement).rowcount > 0
        run = "r2" if "r2" in statement else "r1"
        return verify(await exported(log, run), [KEY.public])

    assert asyncio.run(main()).code == BROKEN


def test_a_run_of_another_log_is_noticed(tmp_path: Path) -> None:
    """Its rows are replaced by those of a run with the same id in another log."""

    async def fill(name: str, run: str) -> None:
        log = SignedLog(SqliteLog(tmp_path / name, sync=lambda _: None), KEY)
        await store(log, kit_records(run, "r1"))
        await log.close()

    async def check() -> EvidenceReport:
        log = SqliteLog(tmp_path / "a.db")
        text = dumps_chain(await chain_of(log, "r1"))
        await log.close()
        return verify(text, [KEY.public])

    asyncio.run(fill("a.db", "approval_allowed"))
    asyncio.run(fill("b.db", "approval_denied"))
    with closing(open_existing(tmp_path / "a.db", "rw", 5)) as db:
        db.execute("attach ? as other", (str(tmp_path / "b.db"),))
        for table in ("events", "heads"):
            db.execute(f"delete from {table}")
            db.execute(f"insert into {table} select * from other.{table}")
    assert asyncio.run(check()).code == BROKEN


def misplaced(text: str) -> list[str]:
    """The export with its lines in other orders, or with lines of two kinds."""
    header, *lines = text.split("\n")[:-1]
    place = next(n for n, line in enumerate(lines) if line.startswith('{"evidence":'))
    evidence, records, blobs = lines[place], lines[:place], lines[place + 1 :]
    assert blobs
    both = json.dumps({**json.loads(records[-1]), **json.loads(evidence)})
    orders = [
        [*records[:2], evidence, *records[2:], *blobs],
        [evidence, *records, *blobs],
        [*records, *blobs, evidence],
        [*records[:-1], blobs[0], records[-1], evidence],
        [*blobs, *records, evidence],
        [*records, evidence, evidence, *blobs],
        [*records, evidence, *blobs, records[-1]],
        [*records, " " + evidence, *blobs],
        [*records[:-1], both, *blobs],
        [*records, "", evidence, *blobs],
    ]
    return ["\n".join([header, *each, ""]) for each in orders] + [
        "\n".join([json.dumps(json.loads(header) | json.loads(evidence)), *records, ""])
    ]


def with_blob() -> str:
    async def main() -> str:
        log = SignedLog(MemoryLog(), KEY)
        content = b"a large result"
        digest = blob_digest(content)
        image = MediaPart("image", "image/png", digest=digest, size=len(content))
        records = kit_records("approval_edited", "r1")
        started = replace(records[0].event, parts=(image,))
        records[0] = replace(records[0], event=started)
        await store(log, records)
        return dumps_chain(await chain_of(log, "r1"), {digest: content})

    return asyncio.run(main())


def test_the_lines_of_an_export_have_one_order() -> None:
    """Mutants: a kind before another one is accepted; the reader stops at the evidence."""
    text = with_blob()
    assert verify(text, [KEY.public]).code == OK
    records = loads(text)
    assert len(load_blobs(text, records)) == 1
    for forged in misplaced(text):
        assert verify(forged, [KEY.public]).code == BROKEN, forged
        with pytest.raises(ConfigError):
            load_blobs(forged, loads(forged))
