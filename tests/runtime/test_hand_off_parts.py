"""Hand-offs beside the other parts of a run: memory, projects, children, streams, spans, files."""

import json
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, ConfigError, Hook, MemoryLog, Policy, RunContext, Tier, tool
from taofold.backtest.stored_agents import muted
from taofold.cli.agent_argument import with_model
from taofold.core import events as e
from taofold.core.rules import derived_violations
from taofold.files import Config, build, read_agent
from taofold.runtime.control import asked_tool
from taofold.server.streams.events import project
from taofold.telemetry.projection import spans_of
from taofold.telemetry.spans import AgentSpan, ModelSpan, ToolSpan
from taofold.testing import ScriptedModel
from taofold.testing.replay import assert_replays
from taofold.tools import Toolset

from .kit import Memo, act, finish
from .test_hand_off import THERE_AND_BACK, desk, handed, refund, to

pytestmark = pytest.mark.anyio


def instructions(context: RunContext[Any]) -> str:
    return f"You work for {context.principal.id}."


async def test_the_next_agent_has_its_own_notebook_project_and_instructions(
    tmp_path: Path,
) -> None:
    (tmp_path / "AGENTS.md").write_text("Amounts are in cents.")
    log = MemoryLog()
    agent, first, second = desk(
        ("a", to("billing")),
        ("b", act("remember", text="Ada wants receipts.")),
        ("b", finish("noted")),
        billing={
            "memory": True,
            "project_instructions": tmp_path,
            "instructions": instructions,
        },
        log=log,
    )
    result = await agent.run("Ada wants receipts.")
    assert result.output == "noted"
    texts = [message.text for message in second.asked[0]]
    assert "You work for" in texts[0]
    assert any("Amounts are in cents." in text for text in texts)
    assert not any("Amounts are in cents." in m.text for m in first.asked[0])
    await agent.replay(result)

    # A later run sees it; the first agent has no notebook.
    agent, first, second = desk(
        ("a", to("billing")), ("b", finish("yes")), billing={"memory": True}, log=log
    )
    result = await agent.run("Does Ada want receipts?")
    assert any("Ada wants receipts." in message.text for message in second.asked[0])
    assert not any("Ada wants receipts." in message.text for message in first.asked[0])
    assert handed(result)[0].settings["memory"]["position"] >= 0
    await agent.replay(result)


async def test_a_notebook_of_the_next_agent_needs_a_log_before_the_run() -> None:
    model = Memo([finish()])
    billing = Agent(model, name="billing", memory=True)
    with pytest.raises(ConfigError, match="notebook"):
        await Agent(model, name="desk", handoffs=[billing]).run("Hello.")
    assert model.asked == []


async def test_hooks_of_the_first_agent_see_calls_of_the_next_and_its_own_are_added() -> None:
    class Watch(Hook):
        def __init__(self) -> None:
            self.seen = list[str]()

        def before_tool(self, context: Any, action: Any) -> None:
            self.seen.append(action.tool)

    outer, inner = Watch(), Watch()
    agent, _, _ = desk(*THERE_AND_BACK, billing={"hooks": [inner]}, hooks=[outer])
    await agent.run("Refund order 7.")
    assert outer.seen == ["find", "transfer_to_billing", "refund", "transfer_to_triage"]
    assert inner.seen == ["refund", "transfer_to_triage"]


async def test_tools_get_the_deps_of_the_run_and_a_missing_one_is_noticed_at_the_start() -> None:
    @tool(effect="read")
    def who(context: RunContext[str]) -> str:
        """Return the name."""
        return context.deps

    model = ScriptedModel([act("transfer_to_b"), act("who"), finish()])
    second = Agent(model, name="b", tools=[who], deps_type=str)
    agent: Agent[Any, Any] = Agent(model, name="a", handoffs=[second])
    with pytest.raises(ConfigError, match="deps_type=str"):
        await agent.run("x")
    result = await agent.run("x", deps="Ada")
    assert result.steps[1].observations[0].result == "Ada"


async def test_an_agent_that_hands_over_can_be_a_tool_and_one_that_is_handed_to_can_have_one() -> (
    None
):
    inner = Memo([finish("it is 7")], name="memo:inner")
    helper = Agent(inner, name="helper", description="Knows numbers.")
    second = Memo([act("helper", goal="which order?"), finish("order 7")], name="memo:b")
    billing = Agent(second, name="billing", tools=[helper, refund])
    first = Memo([to("billing")], name="memo:a")
    front = Agent(first, name="front", handoffs=[billing])
    outer = Memo([act("front", goal="Find it."), finish("done")], name="memo:outer")
    log = MemoryLog()
    agent = Agent(outer, name="outer", tools=[front], log=log)
    # The tool may reach all that the other agents can do.
    assert agent.toolset["front"].effect == "idempotent"
    result = await agent.run("Go.")
    if result.status == "waiting":
        result = await agent.replace(approve="all").resume(result)
    assert result.output == "done"
    rows = await log.rows(limit=10)
    assert {row.agent for row in rows} == {"outer", "front", "helper"}
    await assert_replays(agent, result)


async def test_an_agent_cannot_be_a_tool_of_one_to_which_it_hands_over() -> None:
    agents: dict[str, Agent[Any, Any]] = {}
    agents["a"] = Agent(Memo(), name="a", handoffs=lambda: [agents["b"]])
    agents["b"] = Agent(Memo(), name="b", tools=[agents["a"]])
    with pytest.raises(ConfigError, match="among its own tools"):
        _ = agents["b"].toolset


async def test_a_policy_that_asks_about_the_next_agents_tool_is_answered_from_elsewhere() -> None:
    agent, _, _ = desk(
        ("a", to("billing")),
        ("b", act("refund", order="7", amount=30)),
        ("b", finish("refunded")),
        billing={"policy": Policy(tiers={"refund": Tier.CONFIRM})},
    )
    result = await agent.run("Refund order 7.")
    [request] = result.pending
    assert request.action.tool == "refund"
    found = asked_tool(request, agent.toolset)
    assert found is not None
    assert found.name == "refund"


async def test_streams_show_the_hand_off() -> None:
    agent, _, _ = desk(*THERE_AND_BACK)
    result = await agent.run("Refund order 7.")
    events = list(project(result.records))
    shown = [event for event in events if event["type"] == "handed_off"]
    assert [(one["before"], one["agent"], one["reason"]) for one in shown] == [
        ("triage", "billing", "refund order 7"),
        ("billing", "triage", "it is refunded"),
    ]
    assert result.agent == "triage"


async def test_spans_name_the_active_agent() -> None:
    agent, _, _ = desk(*THERE_AND_BACK)
    result = await agent.run("Refund order 7.")
    spans = spans_of(result.records)
    models = [(span.agent, span.model) for span in spans if isinstance(span, ModelSpan)]
    assert models == [
        ("triage", "memo:a"),
        ("triage", "memo:a"),
        ("billing", "memo:b"),
        ("billing", "memo:b"),
        ("triage", "memo:a"),
    ]
    tools = {span.tool: span.agent for span in spans if isinstance(span, ToolSpan)}
    assert tools["refund"] == tools["transfer_to_triage"] == "billing"
    [root] = [span for span in spans if isinstance(span, AgentSpan)]
    assert root.agent == "triage"
    marks = [mark for mark in root.marks if mark.name == "handed_off"]
    assert [mark.facts["to"] for mark in marks] == ["billing", "triage"]


async def test_one_model_for_all_reaches_the_next_agents_too() -> None:
    agent, first, second = desk(*THERE_AND_BACK)
    model = ScriptedModel([reply for _, reply in THERE_AND_BACK])
    result = await with_model(agent, model).run("Refund order 7.")
    assert result.output == "refunded"
    assert first.asked == second.asked == []


@pytest.mark.parametrize("options", [{}, {"memory": True}])
async def test_a_stored_run_is_replayed_by_agents_whose_models_and_tools_are_muted(
    options: dict[str, Any],
) -> None:
    agent, _, _ = desk(*THERE_AND_BACK, billing=options, **options)
    result = await agent.run("Refund order 7.")
    again = await muted(agent).replay(result)
    assert again.output == "refunded"


async def test_the_prompts_of_a_run_with_hand_offs_are_shown() -> None:
    agent, _, second = desk(*THERE_AND_BACK)
    result = await agent.run("Refund order 7.")
    prompts = await agent.prompts(result)
    assert [prompt.missing for prompt in prompts] == [""] * 5
    assert "You refund." in prompts[2].system
    assert [m.text for m in prompts[2].messages] == [m.text for m in second.asked[0]]


async def test_the_rules_judge_each_agents_turns_by_its_own_tools() -> None:
    agent, _, _ = desk(*THERE_AND_BACK)
    result = await agent.run("Refund order 7.")
    started = result.state.started
    assert started is not None
    assert started.settings.get("effects") is None
    assert handed(result)[0].settings["effects"] == {"refund": "once"}
    assert not [v for v in derived_violations(result.records) if v.rule == "rationale"]


def written(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)


async def test_agent_files_hand_over_to_each_other(tmp_path: Path) -> None:
    written(
        tmp_path,
        triage="name: triage\nhandoffs: billing.yaml\nlimits: {steps: 5}",
        billing="name: billing\ndescription: Refunds.\nhandoffs: [triage.yaml]",
    )
    file, faults = read_agent(tmp_path / "triage.yaml")
    assert file is not None, faults
    model = ScriptedModel([to("billing"), to("triage"), finish("done")])
    agent = with_model(build(file, Config(model="test:answer"), tmp_path), model)
    assert agent.toolset["transfer_to_billing"].description.endswith("Refunds.")
    result = await agent.run("Go.")
    assert [event.agent for event in handed(result)] == ["billing", "triage"]
    assert result.output == "done"


@pytest.mark.parametrize(
    ("triage", "billing", "words"),
    [
        ("handoffs: [none.yaml]", "", "'none.yaml' has faults"),
        ("handoffs: [../billing.yaml]", "", "leads out of"),
        ("handoffs: [billing.yaml]", "name: billing\ntool: x", "unknown key 'tool'"),
        ("handoffs: [billing.yaml]", "nodes: [{name: a, uses: llm.call}]", "flow"),
        ("nodes: [{name: a, uses: llm.call}]\nhandoffs: [billing.yaml]", "name: b", "a flow hands"),
    ],
)
def test_faults_of_files_are_found_without_a_run(
    tmp_path: Path, triage: str, billing: str, words: str
) -> None:
    written(tmp_path, triage=f"name: triage\n{triage}", billing=billing)
    file, faults = read_agent(tmp_path / "triage.yaml")
    assert file is None
    assert any(words in fault.message for fault in faults), faults


@pytest.mark.parametrize(
    ("billing", "words"),
    [
        ("description: x", "needs a name"),
        ("name: b\nstrategy: cot", "strategy"),
        ("name: b\noutput: int", "same output"),
    ],
)
def test_agents_of_files_that_cannot_share_a_run_are_refused(
    tmp_path: Path, billing: str, words: str
) -> None:
    written(tmp_path, triage="name: triage\nhandoffs: [billing.yaml]", billing=billing)
    file, _ = read_agent(tmp_path / "triage.yaml")
    assert file is not None
    with pytest.raises(ExceptionGroup) as refused:
        build(file, Config(model="test:answer"), tmp_path)
    assert words in str(refused.value.exceptions)


async def test_a_server_is_asked_for_its_tools_once_and_before_the_first_model_call() -> None:
    """Mutant: the toolset of the next agent is made at the hand-off."""
    asked: list[str] = []

    class Remote(Toolset):
        remote = True

        def __iter__(self) -> Any:
            asked.append("tools")
            return super().__iter__()

    first = Memo([to("billing"), finish("ok")], name="memo:a")

    def choose(request: Any) -> None:
        asked.append("model")

    first.choose = choose
    second = Memo([act("refund", order="7", amount=1), to("desk")], name="memo:b")
    agents: dict[str, Agent[Any, Any]] = {}
    agents["b"] = Agent(
        second, name="billing", tools=[Remote([refund])], handoffs=lambda: [agents["a"]]
    )
    agents["a"] = Agent(first, name="desk", handoffs=[agents["b"]])
    result = await agents["a"].run("Go.")
    assert result.output == "ok"
    assert asked.index("tools") < asked.index("model")
    assert "tools" not in asked[asked.index("model") :]


def test_a_hand_off_is_recorded_as_json() -> None:
    event = e.HandedOff(key="4", agent="b", before="a", reason="r", settings={"strict": True})
    assert e.decode(e.encode(event)) == event
    assert json.loads(e.encode(event))["e"] == "handed_off"
