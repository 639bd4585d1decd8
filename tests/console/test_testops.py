"""The demo toolset: names, tiers and roles of the seed, over an office that is really there."""

import json
from pathlib import Path
from typing import Any

import pytest

from taofold import (
    Agent,
    ConfigError,
    MemoryLog,
    Policy,
    Principal,
    RunContext,
    Tier,
    Toolset,
    tool,
)
from taofold.files import Config, build, read_agent
from taofold.server.api import responses
from taofold.testing.models import ScriptedModel
from taofold_testops.tools import READS, WRITES, toolset

pytestmark = pytest.mark.anyio

SEED_TIERS = {
    "github_create_branch": 1,
    "jira_link_issues": 1,
    "jira_add_label": 1,
    "jira_create_issue": 2,
    "jira_comment": 2,
    "github_create_pr": 2,
    "github_merge_pr": 2,
    "github_rerun_workflow": 2,
    "jenkins_trigger_build": 2,
    "testrun_retry": 2,
    "jira_transition_issue": 3,
    "github_update_file": 3,
    "testrun_cancel": 3,
}
EXAMPLES: dict[str, dict[str, Any]] = {
    "jira_search": {"jql": "text ~ refund"},
    "jira_get": {"key": "SHOP-101"},
    "github_get_commit": {"sha": "9f3c2e1"},
    "github_get_pr": {"number": 77},
    "confluence_search": {"cql": "text ~ rounding"},
    "jenkins_get_status": {"job": "checkout"},
    "dashboard_metrics": {},
    "github_create_branch": {"name": "fix"},
    "jira_link_issues": {"key": "SHOP-101", "other": "SHOP-117"},
    "jira_add_label": {"key": "SHOP-101", "label": "again"},
    "jira_create_issue": {"summary": "One cent is missing"},
    "jira_comment": {"key": "SHOP-117", "text": "Still slow."},
    "jira_assign_issue": {"key": "SHOP-117", "assignee": "Mara Lind"},
    "github_create_pr": {"title": "Round half up", "head": "refund-rounding"},
    "github_merge_pr": {"number": 78, "sha": "41d0b7a95ce2f83b6d17049a3be8c5f2d6a70918"},
    "github_comment": {"number": 78, "text": "Looks right."},
    "github_rerun_workflow": {"run": 9001},
    "github_dispatch_workflow": {"workflow": "e2e.yml"},
    "jenkins_trigger_build": {"job": "checkout"},
    "testrun_retry": {"run": 9001},
    "jira_transition_issue": {"key": "SHOP-101", "status": "Reopened"},
    "github_update_file": {
        "branch": "refund-rounding",
        "path": "a.py",
        "content": "x",
        "message": "Round",
    },
    "testrun_cancel": {"run": 9002},
}


@pytest.fixture
def office() -> Any:
    from testops.office import Office

    return Office()


@pytest.fixture
def tools(office: Any) -> Toolset:
    return toolset(office.accounts(), office)


async def call(tools: Toolset, name: str, effect: str = "e1", /, **parameters: Any) -> Any:
    context = RunContext(None, effect_id=effect)
    return (await tools[name].bind(parameters).run(context)).value


def act(name: str, **parameters: Any) -> str:
    action = {"tool": name, "parameters": parameters, "rationale": "needed"}
    return json.dumps({"thought": "I do it", "thought_type": "reasoning", "action": action})


@pytest.mark.scenario("RCT-26")
def test_the_registry_lists_seven_reads_that_ask_nobody_and_writes_that_ask(tools: Toolset) -> None:
    shown = {
        one.name: one for one in responses.agent("a", Agent(ScriptedModel([]), tools=[tools])).tools
    }
    reads = [name for name, one in tools.items() if one.effect == "read"]
    assert tuple(reads) == READS
    assert not any(shown[name].requires_confirmation for name in READS)
    asking = [name for name, one in shown.items() if one.requires_confirmation]
    assert len(asking) >= 6
    assert {name: shown[name].tier for name in SEED_TIERS} == SEED_TIERS
    assert set(shown) == {*READS, *WRITES}
    assert set(SEED_TIERS) < set(WRITES)
    assert all(tools[name].effect != "read" for name in WRITES)


@pytest.mark.scenario("RCT-26")
def test_registering_a_name_twice_raises(tools: Toolset) -> None:
    @tool(effect="read")
    def jira_get(key: str) -> str:
        """Another one."""
        return key

    with pytest.raises(ConfigError, match="two tools are named 'jira_get'"):
        tools.merged(Toolset.of(jira_get))


@pytest.mark.scenario("RCT-27")
def test_a_write_that_would_ask_nobody_cannot_be_registered() -> None:
    def write(text: str) -> str:
        """Write."""
        return text

    with pytest.raises(ConfigError, match="tier 1 asks nobody"):
        tool(tier=1, effect="once")(write)
    assert tool(effect="once")(write).tier is Tier.CARD


@pytest.mark.parametrize("name", [*EXAMPLES])
async def test_every_tool_works_on_the_office(tools: Toolset, office: Any, name: str) -> None:
    result = await tools[name].bind(EXAMPLES[name]).run(RunContext(None, effect_id="e1"))
    assert (result.status, bool(result.value)) == ("success", True)
    assert office.faults == []


def test_every_tool_has_an_example(tools: Toolset) -> None:
    assert set(tools) == set(EXAMPLES)


@pytest.mark.scenario("RCT-07")
async def test_a_viewer_reads_and_may_not_write(tools: Toolset, office: Any) -> None:
    model = ScriptedModel(
        [
            act("jira_get", key="SHOP-101"),
            act("jira_add_label", key="SHOP-101", label="x"),
            act("finish", answer="done").replace('"reasoning"', '"exception"'),
        ]
    )
    agent = Agent(model, tools=[tools], log=MemoryLog())
    result = await agent.run("go", principal=Principal("eve", ("VIEWER",)))
    read, write, _ = result.steps
    assert read.observations[0].status == "success"
    assert write.observations[0].refused == "denied"
    assert "requires role EDITOR, has VIEWER" in str(write.observations[0].result)
    assert office.world["issues"]["SHOP-101"]["labels"] == ["rounding"]


@pytest.mark.scenario("RCT-12")
@pytest.mark.parametrize("autonomy", ["conservative", "balanced", "autonomous"])
async def test_a_production_build_asks_even_an_autonomous_run(
    tools: Toolset, autonomy: Any
) -> None:
    policy = Policy(
        autonomy=autonomy,
        production=True,
        production_tiers={"jenkins_trigger_build": Tier.CONFIRM},
    )
    agent = Agent(
        ScriptedModel([act("jenkins_trigger_build", job="checkout")]),
        tools=[tools],
        policy=policy,
        log=MemoryLog(),
    )
    result = await agent.run("go")
    assert result.stop_reason == "awaiting_approval"
    (one,) = result.pending
    assert (one.tier, one.preview) == (Tier.CONFIRM, "Build checkout")


async def test_tier_three_asks_at_every_autonomy_and_the_preview_says_what_happens(
    tools: Toolset,
) -> None:
    agent = Agent(
        ScriptedModel([act("jira_transition_issue", key="SHOP-101", status="Reopened")]),
        tools=[tools],
        policy=Policy(autonomy="autonomous"),
        log=MemoryLog(),
    )
    (one,) = (await agent.run("go")).pending
    assert one.preview == "Move SHOP-101 to Reopened"


def test_the_agent_file_is_without_faults_and_has_the_seeds_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from testops.served import variables

    from tests.console.conftest import TESTOPS

    for name, value in variables("http://127.0.0.1:8787").items():
        monkeypatch.setenv(name, value)
    file, faults = read_agent(TESTOPS / "copilot.yaml")
    assert file is not None, faults
    agent = build(file, Config(), tmp_path)
    assert (agent.limits.model_calls, agent.limits.tool_calls) == (8, 5)
    assert agent.policy.approve_seconds == 300
    assert set(agent.toolset) == {*READS, *WRITES}


async def test_the_rehearsal_plays_to_its_end_and_says_that_it_is_a_script() -> None:
    from testops.rehearsal import rehearsal

    agent = rehearsal(0.0)
    assert str(agent.model.name).startswith("script:")  # type: ignore[union-attr]
    result = await agent.replace(log=MemoryLog(), approve="all").run("Why is checkout red?")
    assert result.success, result.error
    assert "half to even" in str(result.output)
    assert result.metrics.observation_success_rate == 100.0
