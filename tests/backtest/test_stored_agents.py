"""The muted agent of a stored run has the same tools, whichever option of the agent adds them.

Mutants it catches: the tools of `memory=`, `handoffs=`, `skills=` or of the search are listed
twice; an agent of the team keeps its model.
"""

from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Toolset, tool
from taofold.backtest.stored_agents import muted
from taofold.core.errors import TaofoldError
from taofold.runtime.model import ReplayModel
from taofold.testing import ScriptedModel, TestModel
from taofold.testing.replay import assert_replays
from taofold.tools import external

pytestmark = pytest.mark.anyio


@tool(effect="read")
def look(at: str) -> str:
    """Look at it."""
    return f"saw {at}"


def agent(option: str, folder: Path) -> Agent[Any, Any]:
    skill = folder / "reports"
    skill.mkdir()
    (skill / "SKILL.md").write_text("---\nname: reports\ndescription: Reports.\n---\nRound.\n")
    (folder / "taofold_tools.py").write_text(
        "from taofold import tool\n\n\n@tool(effect='read')\n"
        "def found() -> str:\n    'Finds.'\n    return 'x'\n"
    )
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    many = Toolset([external(f"job_{n}", "A job.", schema, dict, effect="read") for n in range(60)])
    other = Agent(ScriptedModel([]), name="other", tools=[look], handoffs=lambda: [made])
    options: dict[str, dict[str, Any]] = {
        "memory": {"memory": True},
        "search": {"tools": [look, many]},
        "skills": {"skills": [skill]},
        "discover": {"discover": folder},
        "handoffs": {"handoffs": [other]},
    }
    given: dict[str, Any] = {"tools": [look], **options[option]}
    first = "search_tools" if option == "search" else "look"
    made: Agent[Any, Any] = Agent(TestModel(call=[first]), name="first", log="memory", **given)
    return made


OPTIONS = ["memory", "search", "skills", "discover", "handoffs"]


@pytest.mark.filterwarnings("ignore::taofold.tools.discovery.DiscoveryWarning")
@pytest.mark.parametrize("option", OPTIONS)
async def test_a_muted_agent_has_the_same_tools(option: str, tmp_path: Path) -> None:
    loud = agent(option, tmp_path)
    quiet = muted(loud)
    assert list(quiet.toolset) == list(loud.toolset)
    assert quiet.offers == loud.offers
    function = quiet.toolset["look"].function
    assert function is not None
    with pytest.raises(TaofoldError, match="while a run was replayed"):
        function("x")
    models = [quiet.model, *[each.model for each in quiet.team.values()]]
    assert all(isinstance(model, ReplayModel) for model in models)


@pytest.mark.filterwarnings("ignore::taofold.tools.discovery.DiscoveryWarning")
@pytest.mark.parametrize("option", OPTIONS)
async def test_a_run_replays_whichever_option_adds_tools(option: str, tmp_path: Path) -> None:
    loud = agent(option, tmp_path)
    result = await loud.run("go")
    await assert_replays(loud, result)
