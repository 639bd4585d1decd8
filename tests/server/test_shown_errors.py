"""Guessed secrets that no view may show: in the error of a failed run, and where a title is cut."""

import json
from pathlib import Path

import pytest

from taofold import Agent, MemoryLog
from taofold.cli.runs.drive import as_json
from taofold.cli.runs.exchange import _take
from taofold.core import events as e
from taofold.runtime.run import row_of
from taofold.testing import FunctionModel
from tests.server.agents import finish, scripted
from tests.server.live import serving

pytestmark = pytest.mark.anyio
SECRET = "hunter2hunter2"


def broken() -> Agent[None, str]:
    def answer(request: object) -> str:
        raise RuntimeError(f"cannot sign in with password={SECRET}")

    return Agent(FunctionModel(answer), log=MemoryLog())


async def test_the_error_of_a_failed_run_is_masked_in_every_view() -> None:
    agent = broken()
    async with serving(agent, MemoryLog()) as client:
        run = await client.start()
        detail = await client.until(run)
    assert detail["status"] == "failed"
    assert "sign in with" in detail["error"]
    assert SECRET not in json.dumps(detail)

    result = await agent.run("go")
    assert SECRET in result.error, "a program has the text as it is"
    assert SECRET not in json.dumps(as_json(result))


def test_a_title_is_masked_before_it_is_cut() -> None:
    """Mutant: cut at 500 first."""
    goal = "x" * 485 + f" password={SECRET}"
    started = e.RunStarted(goal=goal)
    row = row_of(e.Record("r", 0, 1, started), started)
    assert len(row.goal) <= 500
    assert "hunt" not in row.goal


async def test_an_imported_run_has_the_tags_of_its_start(tmp_path: Path) -> None:
    log = MemoryLog()
    result = await Agent(scripted(finish()), log=log).run("go", tags={"team": "x"})
    records, other = await log.read(result.run_id), MemoryLog()
    await _take(other, list(records), {}, "file.ndjson")
    assert (await other.row(result.run_id)).tags == {"team": "x"}
