"""Input of a caller to an agent: files, options, dependencies, and any text."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Decision, MemoryLog, Principal, RunContext, decide, tool
from taofold.core.errors import ConfigError
from taofold.testing import ScriptedModel, TestModel

pytestmark = pytest.mark.anyio

HALF = "a\ud83d"
"""Half of a surrogate pair: what JSON of a careless client may hold, and UTF-8 cannot."""


@tool(effect="once")
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


PAY = '{"thought": "I pay.", "action": {"tool": "pay", "parameters": {"amount": 1}}}'


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({}, {"goal": HALF}),
        ({}, {"goal": f"{HALF} and a longer text that is no secret"}),
        ({"instructions": HALF}, {}),
        ({}, {"data": {HALF: [HALF]}}),
        ({}, {"ui_context": HALF}),
        ({}, {"principal": Principal(HALF, (HALF,))}),
        ({}, {"history": [("user", HALF)]}),
        ({}, {"session": HALF}),
        ({}, {"settings": {"note": HALF}}),
    ],
)
async def test_half_a_surrogate_is_escaped_where_it_enters(
    fields: dict[str, Any], options: dict[str, Any], tmp_path: Path
) -> None:
    model = ScriptedModel(["done"])
    agent = Agent(model, log=str(tmp_path / "runs.db"), **fields)
    goal = options.pop("goal", "go")
    result = await agent.run(goal, **options)
    assert result.output == "done"
    str([message.content for message in model.requests[0].messages]).encode()
    assert (await agent.replay(result)).output == "done"


@pytest.mark.parametrize("in_process", [True, False])
async def test_half_a_surrogate_in_a_decision_is_escaped(in_process: bool, tmp_path: Path) -> None:
    decision = Decision("deny", by=HALF, reason=HALF)
    model = ScriptedModel([PAY, "denied"])
    agent = Agent(model, tools=[pay], log=str(tmp_path / "runs.db"))
    if in_process:
        result = await agent.replace(approve=lambda _: decision).run("go")
    else:
        waiting = await agent.run("go")
        assert agent.opened_log is not None
        await decide(agent.opened_log, waiting.pending[0].id, decision)
        await agent.steer(waiting, HALF, by=Principal(HALF))
        result = await agent.resume(waiting)
    assert result.output == "denied"


def test_an_agent_is_made_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAOFOLD_MODEL", "test:model")
    path = tmp_path / "agent.yaml"
    path.write_text("name: clerk\ninstructions: Be brief.\ntools: [files]\n", encoding="utf-8")
    (tmp_path / "note.txt").write_text("hello", encoding="utf-8")
    agent = Agent.from_file(path, root=tmp_path)
    assert (agent.name, agent.instructions) == ("clerk", "Be brief.")
    asks = agent.replace(model=TestModel(call=["list_files"]))
    assert "note.txt" in str(asks.run_sync("What is there?").steps[0].observations[0].result)


def test_a_flow_whose_nodes_name_their_models_needs_no_model_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: `load_agent` returns the agent as it was built."""
    monkeypatch.delenv("TAOFOLD_MODEL", raising=False)
    node = "nodes: [{name: ask, uses: llm.call, with: {prompt: hi, model: 'test:answer'}}]\n"
    path = tmp_path / "flow.yaml"
    path.write_text(node, encoding="utf-8")
    assert Agent.from_file(path).run_sync("go").success
    path.write_text(node.replace(", model: 'test:answer'", ""), encoding="utf-8")
    with pytest.raises(ConfigError, match="no model is named"):
        Agent.from_file(path).run_sync("go")


def test_a_file_that_is_absent_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no agent file '.*absent\.yaml'"):
        Agent.from_file(tmp_path / "absent.yaml")


def test_every_fault_of_a_file_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("nam: clerk\nlimits: {step: 3}\n", encoding="utf-8")
    with pytest.raises(ExceptionGroup) as raised:
        Agent.from_file(path)
    assert ["agent.yaml:1" in str(fault) or "agent.yaml:2" in str(fault)
            for fault in raised.value.exceptions] == [True, True]  # fmt: skip


def test_a_run_without_the_deps_that_its_agent_needs_does_not_start() -> None:
    @tool(effect="read")
    def look(ctx: RunContext[str]) -> str:
        """Looks."""
        return ctx.deps + "!"

    log = MemoryLog()
    model = TestModel()
    agent = Agent(model, deps_type=str, tools=[look], log=log)
    with pytest.raises(ConfigError, match="deps: the agent has deps_type=str: pass deps=…"):
        agent.run_sync("go")
    assert model.requests == []
    assert asyncio.run(log.rows()) == []
    assert agent.run_sync("go", deps="here").success


@pytest.mark.parametrize("verb", ["run_sync", "stream"])
@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("model", r"run\(\) has no option 'model': write agent.replace\(model=…\).run\(…\)"),
        ("limits", "agent.replace"),
        ("output", "agent.replace"),
        ("sesion", "did you mean 'session'"),
    ],
)
async def test_an_option_that_a_run_does_not_have_is_named(
    verb: str, option: str, words: str
) -> None:
    agent = Agent(ScriptedModel([]))
    started = getattr(agent, verb)
    with pytest.raises(TypeError, match=words):
        await anext(aiter(started("go", **{option: None})))


def test_an_unknown_argument_of_a_copy_is_named() -> None:
    changes: dict[str, Any] = {"modle": "test:x"}
    with pytest.raises(TypeError, match="Agent has no argument 'modle'; did you mean 'model'"):
        Agent("test:x").replace(**changes)


async def test_a_stream_that_was_left_names_its_run() -> None:
    agent = Agent(ScriptedModel(["One. Two. Three."]), log="memory")
    stream = agent.stream("go")
    async for _ in stream:
        break
    with pytest.raises(RuntimeError, match="leaving it early cancels the run") as raised:
        stream.result  # noqa: B018 - it raises
    run = str(raised.value).split("agent.result('")[1].split("'")[0]
    assert (await agent.result(run)).state.goal == "go"
