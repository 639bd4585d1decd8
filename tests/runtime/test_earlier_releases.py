"""Logs of an earlier release open, fold to the same state, replay and resume."""

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from taofold import Decision
from taofold.core.state import fold
from taofold.log.formats.export import export, read
from taofold.log.memory import MemoryLog
from taofold.log.sqlite.journal import SqliteJournal
from taofold.log.sqlite.log import SqliteLog
from taofold.log.sqlite.origin import mark_as_ours
from taofold.loop.lifecycle import resume
from taofold.loop.stream import load
from taofold.runtime.control import decide, pending
from taofold.testing.replay import assert_replays
from tests.fixtures.release_0_1_0.cast import HERE, PAID, SCRIPTS, worker
from tests.fixtures.release_0_1_0.digests import digest_of_loop, digest_of_run
from tests.loop import kit as loops

from .kit import finish, planted

pytestmark = pytest.mark.anyio
DIGESTS = json.loads((HERE / "digests.json").read_text())


def unpacked(name: str, folder: Path) -> Path:
    """The file as if this user had written it here: a log from elsewhere is history only."""
    path = folder / name
    path.write_bytes(gzip.decompress((HERE / f"{name}.gz").read_bytes()))
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executemany("insert or replace into meta values(?, ?)", mark_as_ours(path).items())
    return path


@pytest.fixture
def log(tmp_path: Path) -> SqliteLog:
    PAID.clear()
    return SqliteLog(unpacked("runs.db", tmp_path))


@pytest.mark.parametrize("run", SCRIPTS)
async def test_each_run_folds_to_the_stored_digest_and_replays(log: SqliteLog, run: str) -> None:
    records = await log.read(run)
    assert digest_of_run(records) == DIGESTS[run]
    await assert_replays(worker([], log=log), run)
    assert read(export(records), "ndjson") == records
    await log.close()


async def test_a_waiting_run_goes_on_once_it_is_approved(log: SqliteLog) -> None:
    agent = worker(SCRIPTS["waiting"][2:], log=log)
    (request,) = await pending(log, "waiting")
    await decide(log, request.id, Decision("approve"))
    result = await agent.resume("waiting")
    assert (result.success, result.output, PAID) == (True, "paid 5", [5])
    await assert_replays(agent, "waiting")
    await log.close()


async def test_a_fork_goes_on_where_it_was_cut(log: SqliteLog) -> None:
    result = await worker([finish("another way")], log=log).resume("forked")
    assert (result.output, len(result.steps)) == ("another way", 1)
    await log.close()


async def test_a_session_goes_on_with_its_picture_and_its_answer(log: SqliteLog) -> None:
    agent = worker([finish("still here")], log=log)
    result = await agent.run("And now?", session="talk")
    assert result.success
    conversation = agent.model.asked[0]  # type: ignore[union-attr]
    assert "looked" in str(conversation)
    assert any(message.media for message in conversation)
    await log.close()


async def test_a_run_exported_from_memory_comes_back_as_history() -> None:
    text = (HERE / "memory.ndjson").read_text()
    records = read(text, "ndjson")
    assert read(export(records), "ndjson") == records
    state = fold(records)
    assert (state.status, state.waiting_for) == ("waiting", "awaiting_approval")
    log = await planted(records, MemoryLog())
    await assert_replays(worker([], log=log), "memory")


@pytest.mark.parametrize("loop", ["done", "paused"])
async def test_each_loop_folds_to_the_stored_digest_and_a_paused_one_goes_on(
    loop: str, tmp_path: Path
) -> None:
    earlier = (HERE / "root.txt").read_text()
    path = unpacked("loops.db", tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(
            "update facts set body = cast(replace(body, ?, ?) as text)", (earlier, str(tmp_path))
        )
    root = tmp_path / loop
    root.mkdir()
    snapshots = json.loads((HERE / f"{loop}.json").read_text())
    for name, content in list(snapshots.values())[-1].items():
        (root / name).write_text(content)
    log, journal = SqliteLog(path), SqliteJournal(path)
    assert await digest_of_loop(journal, loop, str(tmp_path)) == DIGESTS[loop]
    script = [loops.write("a.py", "good"), loops.done()]
    means = loops.means(root, script, loops.contains("good"), journal=journal, log=log)  # type: ignore[arg-type]
    loops.ground_of(means).kept.update(snapshots)
    state = (await load(journal, loop)).state  # type: ignore[arg-type]
    if loop == "done":
        assert state.status == "completed"
    else:
        assert state.status == "paused"
        state = await resume(means, loop)
        assert (state.status, len(state.iterations)) == ("completed", 2)
    await journal.close()
    await log.close()
