"""`assert_replays`: a recorded run replays identically, without model, tools or writing."""

from dataclasses import replace
from typing import Any, NoReturn

from taofold.agent import Agent, RunResult
from taofold.agent.result import settle_log
from taofold.agent.team import changed_team
from taofold.core.errors import ReplayDiverged
from taofold.runtime.model import ReplayModel
from taofold.runtime.providers import resolve
from taofold.tools import Toolset


async def assert_replays(agent: Agent[Any, Any], run: "str | RunResult[Any]") -> None:
    """Replays `run` offline with this `agent`.

    Raises:
        AssertionError: An event differs, a model or a tool is called, or the log is written to.
    """
    log, run_id = settle_log(agent.opened_log, run)
    # Compared afterwards: a replay that writes is an error, even if every event was equal.
    before = await log.read(run_id)
    try:
        await _mute(agent).replace(log=log).replay(run_id)
    except ReplayDiverged as difference:
        raise AssertionError(str(difference)) from difference
    after = await log.read(run_id)
    assert after == before, f"the replay wrote to run {run_id!r}"


def _mute(agent: Agent[Any, Any]) -> Agent[Any, Any]:
    """Returns the same agent with models that refuse and tools that must not be called."""
    return changed_team(agent, _without_world)


def _without_world(agent: Agent[Any, Any]) -> Agent[Any, Any]:
    model = resolve(agent.model)
    return agent.replace(
        model=ReplayModel(model.name, model.profile),
        models={role: ReplayModel(resolve(spec).name) for role, spec in agent.models.items()},
        tools=[Toolset([replace(tool, function=_refuse) for tool in agent.lasting_tools])],
        discover=(),
        skills=(),
    )


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise AssertionError(f"a tool was called while a run was replayed: {args!r} {kwargs!r}")
