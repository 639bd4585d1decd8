"""The crashing process of a flow with every kind of node, on one SQLite log."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from taofold import Agent, Decision
from taofold.core.errors import UnknownRun
from taofold.core.values import Principal
from taofold.files import Config, build, read_agent
from taofold.log.sqlite.log import SqliteLog
from taofold.runtime.control import decide, pending
from taofold.testing.models import FunctionModel
from tests.crash.points import CrashLog, CrashModel, Points, crashing
from tests.crash.worker import RUN, Side, tools
from tests.files.flow.kit import with_model
from tests.files.flow.test_resuming import FLOW, say

SHOTS = """
  - {name: fire, uses: tool.fire, with: {at: 1}}
  - {name: shoot, uses: tool.shoot, with: {at: 2}}
  - {name: pay, uses: tool.pay, with: {amount: 3}}
"""
TEXT = FLOW.replace("tools: [files]", "tools: [files, 'tests.crash.flow_worker:SHOOTING']").replace(
    "\nresult:", f"{SHOTS}result:"
)
SHOOTING: list[Any] = []
"""The tools that the file names. They get their folder when a process starts."""


def agent(folder: Path, points: Points, log: SqliteLog) -> Agent[Any, Any]:
    SHOOTING[:] = [
        crashing(one, points)
        for one in tools(Side(folder), folder)
        if one.name in ("fire", "shoot", "pay")
    ]
    (folder / "a.txt").write_text("one")
    (folder / "b.txt").write_text("two")
    path = folder / "flow.yaml"
    path.write_text(TEXT)
    file, found = read_agent(path, root=folder)
    assert file is not None, [str(one) for one in found]
    made = with_model(build(file, Config(), folder), CrashModel(FunctionModel(say), points))
    return replace(made, log=CrashLog(log, points), limits=replace(made.limits, steps=None))


async def go(folder: Path, at: int) -> str:
    """Starts or resumes the flow and approves until it ends. Dies at point `at`."""
    points = Points(at)
    log = SqliteLog(folder / "log.db", sync=lambda _: None)
    one = agent(folder, points, log)
    try:
        row = await log.row(RUN)
        begun, ended = row.events > 0, row.status not in ("running", "waiting", "new")
    except UnknownRun:
        begun = ended = False
    if ended:
        return "ended"
    data = {"files": ["a.txt", "b.txt", "none.txt"]}
    result = await (one.resume(RUN) if begun else one.run("do it all", run_id=RUN, data=data))
    while result.status == "waiting":
        for request in await pending(log, RUN):
            doubt = "may already have happened" in request.reason
            shot = any(kind == "shoot" for kind, _ in Side(folder).lines())
            paid = any(kind == "pay" for kind, _ in Side(folder).lines())
            happened = {"shoot": shot, "pay": paid}.get(request.action.tool, False)
            verdict = "done" if doubt and happened else "approve"
            await decide(log, request.id, Decision(verdict), by=Principal())
        result = await one.resume(RUN)
    (folder / "points").write_text(str(points.passed))
    await log.close()
    return result.status


def main(folder: str, at: int) -> None:
    """The whole life of a process."""
    status = asyncio.run(go(Path(folder), at))
    os._exit(0 if status in ("finished", "ended") else 7)
