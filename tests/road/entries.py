"""The ways to have an agent do something: each gives the id of the run that it made.

All of them run the agent of one row with its log in a file, so that another reader can look at what
came of it.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Limits, tool
from taofold.agent import RunResult
from taofold.cli.app import main
from taofold.compat import tagent
from taofold.evals import Case, evaluate
from tests.road.conftest import MODELS
from tests.road.mind import goal_for
from tests.road.types import Kind
from tests.server.live import serving

NOTHING = object()
"""The entry point gives no typed value: it is read from the log alone."""


class Look:
    """The tool `look`: it reads, or ends as the test requires."""

    end: Callable[[], Any] | None = None

    def __call__(self, at: str) -> Any:
        return f"seen {at}" if self.end is None else self.end()


LOOK = Look()


@tool(effect="read")
def look(at: str) -> str:
    """Look at something."""
    seen: str = LOOK(at)  # may be an awaitable, which is awaited as for any tool
    return seen


@dataclass(frozen=True)
class Road:
    """One row of the matrix."""

    kind: Kind
    protocol: str
    strategy: str
    entry: str
    provider: str
    steps: int = 30

    def __str__(self) -> str:
        parts = (self.kind.name, self.protocol, self.strategy, self.entry, self.provider)
        return "-".join(parts)

    @property
    def model(self) -> str:
        return f"{MODELS[self.provider]}-{self.protocol}"

    @property
    def goal(self) -> str:
        return goal_for(self.kind.wire, text=self.kind.type is str)

    def agent(self, log: Path, **more: Any) -> Agent[Any, Any]:
        options: dict[str, Any] = {
            "tools": [look], "output": self.kind.type, "strategy": self.strategy,
            "limits": Limits(steps=self.steps), "log": str(log), "name": "road", **more,
        }  # fmt: skip
        return Agent(self.model, **options)


@dataclass(frozen=True)
class Ended:
    """The run of an entry point, the value that it gave, an agent that can read the log."""

    run: str
    value: Any
    agent: Agent[Any, Any]
    replays: bool = True


def finished(result: RunResult[Any], agent: Agent[Any, Any], *, replays: bool = True) -> Ended:
    assert result.success, f"{result.status} {result.stop_reason}: {result.error}"
    return Ended(result.run_id, result.output, agent, replays)


async def run(road: Road, log: Path) -> Ended:
    agent = road.agent(log)
    return finished(await agent.run(road.goal), agent)


def run_sync(road: Road, log: Path) -> Ended:
    agent = road.agent(log)
    return finished(agent.run_sync(road.goal), agent)


async def stream(road: Road, log: Path) -> Ended:
    agent = road.agent(log)
    live = agent.stream(road.goal)
    async for _ in live:
        pass
    return finished(live.result, agent)


async def map_(road: Road, log: Path) -> Ended:
    agent = road.agent(log)
    batch = await agent.map([road.goal, road.goal], name="survey")
    # The same name again: what has ended is read from the log.
    again = await agent.map([road.goal, road.goal], name="survey")
    results = [*batch.results, *again.results]
    for result in results:
        assert isinstance(result, RunResult), result
        assert same(result.output, road.kind.expected), result.output
    return finished(results[0], agent)  # type: ignore[arg-type]


async def as_tool(road: Road, log: Path) -> Ended:
    """The child's value reaches its parent as JSON, and from the log as the type."""
    child = road.agent(log, name="child", description="Knows the value.")
    parent = road.agent(log, tools=[child])
    ended = finished(await parent.run(road.goal), parent)
    records = await parent.opened_log.rows(parent=ended.run, limit=0)  # type: ignore[union-attr]
    for row in records:
        inner = await child.result(row.run)
        assert inner.success, inner.error
        assert same(inner.output, road.kind.expected), inner.output
    uses = road.strategy in ("react", "plan")
    assert len(records) == (1 if uses else 0)
    return ended


def program(*arguments: str) -> str:
    """Runs the command line in this process. Returns its standard output."""
    out = StringIO()
    with redirect_stdout(out), pytest.raises(SystemExit) as ended:
        main(arguments)
    assert not ended.value.code
    return out.getvalue()


def write_agent_file(road: Road, folder: Path) -> None:
    where = Path(__file__).parents[2]
    (folder / "road_here.py").write_text(
        f"import sys\nsys.path.insert(0, {str(where)!r})\n"
        "from tests.road.entries import look\nfrom tests.road.types import *\n"
    )
    (folder / "agent.yaml").write_text(json.dumps({
        "name": "road", "model": road.model, "strategy": road.strategy,
        "output": f"road_here.py:T_{road.kind.name}", "tools": ["road_here.py:look"],
        "limits": {"steps": road.steps},
    }))  # fmt: skip


def command_line(road: Road, log: Path) -> Ended:
    folder = log.parent
    write_agent_file(road, folder)
    told = json.loads(program("run", "agent.yaml", road.goal, "--json"))
    assert told["success"] is True, told
    return Ended(told["id"], NOTHING, road.agent(folder / ".taofold" / "runs.db"))


async def server(road: Road, log: Path) -> Ended:
    agent = road.agent(log)
    async with serving(agent, agent.opened_log) as client:  # type: ignore[arg-type]
        told = await client.until(await client.start(road.goal), "finished", "failed", "limited")
    assert told["success"] is True, told
    return Ended(told["id"], NOTHING, agent)


async def evaluation(road: Road, log: Path) -> Ended:
    agent = road.agent(log)
    report = await evaluate(agent, [Case(road.goal)])
    (trial,) = report.trials
    assert trial.passed, trial.reason
    assert trial.result is not None
    return finished(trial.result, agent)


def run_agent(road: Road, log: Path) -> Ended:
    """TAgent's own strategy has no name, so only runs with another one are replayed here."""
    own = road.strategy == "react"
    result = tagent.run_agent(
        road.goal, road.model, {"look": look}, road.steps, road.kind.type,
        log=str(log), **({} if own else {"strategy": road.strategy}),
    )  # fmt: skip
    return finished(result, road.agent(log, name="agent"), replays=not own)


Entry = Callable[[Road, Path], Ended | Awaitable[Ended]]

ENTRIES: Mapping[str, Entry] = {
    "run": run,
    "run_sync": run_sync,
    "stream": stream,
    "map": map_,
    "tool": as_tool,
    "cli": command_line,
    "server": server,
    "eval": evaluation,
    "run_agent": run_agent,
}


def same(one: Any, other: Any) -> bool:
    """Returns whether the values are equal and of one type."""
    return type(one) is type(other) and bool(one == other)
