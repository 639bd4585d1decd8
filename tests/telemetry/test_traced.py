"""A traced log is a log: it keeps every contract of one."""

import pytest

from taofold.core.events import Record, RunFinished, RunStarted
from taofold.log.log import RunRow, Signal
from taofold.log.memory import MemoryLog
from taofold.telemetry.traced_log import TracedLog
from taofold.testing.log_conformance import contracts

pytestmark = pytest.mark.anyio


class Kept:
    """An exporter that stores its spans."""

    def __init__(self):
        self.spans = []
        self.closed = False

    def export(self, spans):
        self.spans += spans

    def close(self):
        self.closed = True


@pytest.mark.parametrize("contract", contracts(persistent=False), ids=lambda c: c.__name__)
async def test_a_traced_log_keeps(contract):
    await contract(lambda: TracedLog(MemoryLog(), Kept()))


@pytest.mark.parametrize("contract", contracts(persistent=True), ids=lambda c: c.__name__)
async def test_a_traced_sqlite_log_keeps(contract, tmp_path):
    from taofold.log.sqlite.log import SqliteLog

    def opened():
        return TracedLog(SqliteLog(tmp_path / "runs.db", sync=lambda _: None), Kept())

    await contract(opened)


async def test_what_the_log_did_not_write_is_not_told():
    """`if_quiet`: a message waits, so the end of the run is not yet its end."""
    log = TracedLog(MemoryLog(), Kept())
    await log.create(RunRow("r", "running"))
    claim = await log.claim("r", "me")
    await log.append("r", claim.epoch, [Record("r", 0, 1, RunStarted(goal="x"))])
    await log.post("r", Signal("s1", "steer", data={"text": "wait"}))
    end = Record("r", 1, 2, RunFinished(status="finished", stop_reason="done", success=True))
    assert not await log.append("r", claim.epoch, [end], if_quiet=True)
    assert log.exporter.spans == []
    assert await log.append("r", claim.epoch, [end], consume=["s1"], if_quiet=True)
    assert [type(one).__name__ for one in log.exporter.spans] == ["AgentSpan"]


async def test_nothing_of_a_run_is_kept_once_it_has_ended_or_waits():
    from tests.telemetry.kit import calculator

    log = TracedLog(MemoryLog(), Kept())
    assert (await calculator(log=log).run("add")).status == "waiting"
    assert log._runs == {}
    assert (await calculator(log=log, approve="all").run("add")).success
    assert (log._runs, log._roots) == ({}, {})
    await log.close()
    assert log.exporter.closed
