"""TAgent's core architecture: the document's snippets as programs, with our import only."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from taofold import Agent, Limits, tool
from taofold.compat.tagent import (
    LLM_PROVIDERS,
    SYSTEM_ACTIONS,
    AgentState,
    Store,
    StructuredResponse,
    build_decision_prompt,
    detect_action_loop,
    evaluate_goal_achievement,
    format_conversation_as_chat,
    format_final_output,
    get_tool_documentation,
    integrate_custom_llm,
    llm_client,
    query_llm,
    register_custom_action,
    run_agent,
)
from taofold.core import events
from taofold.core.errors import ConfigError, RunError
from taofold.core.state import fold
from taofold.core.values import Profile
from taofold.log.sqlite.log import SqliteLog
from taofold.reasoning import tagent
from taofold.testing import FunctionModel, ScriptedModel
from taofold.tools.discovery import DiscoveryWarning
from tests.server.live import serving
from tests.terminal import Taofold, enter, taofold

__all__ = ["taofold"]

State = dict[str, Any]


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    SYSTEM_ACTIONS.clear()
    LLM_PROVIDERS.clear()


def my_custom_tool(state: State, args: State) -> tuple[str, Any] | None:
    """Join two parameters."""
    if "param1" not in args:
        return None
    return ("tool_result", f"{args['param1']}-{args.get('param2')}")


def decide(action: str, reasoning: str = "it is the next step", **params: Any) -> str:
    return json.dumps({"action": action, "params": params, "reasoning": reasoning})


def verdict(achieved: bool) -> str:
    return json.dumps({"achieved": achieved, "feedback": "judged", "missing": []})


EXECUTE = decide("execute", tool="my_custom_tool", args={"param1": "a", "param2": "b"})
TOOLS = {"my_custom_tool": my_custom_tool}


@pytest.mark.document_item(
    "002.state.central",
    "002.state.immutable",
    "002.agent-state",
    "002.store.init",
    "002.store.state",
    "002.store.dispatch",
    "002.store.dispatch.none",
    "002.action.signature",
    "002.action.example",
    "002.action.pure",
    "002.store.serializable",
)
def test_the_state_changes_only_by_what_an_action_returns() -> None:
    def example_action(state: State) -> tuple[str, Any] | None:
        data = state.get("input_data")
        state["input_data"] = "spoilt"
        return ("processed_result", data * 2) if data else None

    store = Store({"input_data": 21})
    assert isinstance(store.state, AgentState)
    assert isinstance(store.state, BaseModel)
    store.dispatch(example_action)
    store.dispatch(lambda state: None)
    store.dispatch(lambda state: False)  # type: ignore[arg-type, return-value]
    store.state.data["input_data"] = 0
    assert store.state.data == {"input_data": 21, "processed_result": 42}
    assert json.loads(json.dumps(store.state.data)) == store.state.data


@pytest.mark.document_item("002.state.deterministic", "002.state.travel", "002.errors.rollback")
def test_the_same_actions_give_the_same_states_and_earlier_ones_come_back() -> None:
    def counted() -> Store:
        store = Store({"n": 0})
        for _ in range(3):
            store.dispatch(lambda state: ("n", state["n"] + 1))
        return store

    one, two = counted(), counted()
    assert [one.travel(seq).data["n"] for seq in (-1, 0, 1, 2)] == [0, 1, 2, 3]
    assert one.state.data == two.state.data
    assert one.rewind(0).data == {"n": 1}


@pytest.mark.document_item("002.agent-state.default", "002.agent-state.validation")
def test_a_state_is_validated_and_empty_by_default() -> None:
    assert AgentState().data == {}
    with pytest.raises(ValidationError):
        AgentState(data="no dictionary")  # type: ignore[arg-type]


@pytest.mark.document_item(
    "002.store.tools", "002.store.history", "002.store.reducer", "002.store.register"
)
def test_a_store_begins_empty_and_takes_tools_messages_and_pairs() -> None:
    store = Store({})
    assert (store.tools, store.conversation_history) == ({}, [])
    store.register_tool("my_custom_tool", my_custom_tool)
    assert store.tools == TOOLS
    store.conversation_history.append({"role": "user", "content": "hi"})
    assert len(store.conversation_history) == 1
    store._apply_reducer(("key", 1))  # pyright: ignore[reportPrivateUsage]
    assert store.state.data == {"key": 1}


@pytest.mark.document_item("002.store.dispatch.verbose")
def test_dispatch_is_quiet_unless_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    Store({}).dispatch(lambda state: ("answer", 42))
    assert capsys.readouterr().err == ""
    Store({}).dispatch(lambda state: ("answer", 42), verbose=True)
    assert "answer = 42" in capsys.readouterr().err


@pytest.mark.document_item("002.tools.signature")
def test_a_function_with_another_signature_is_no_tool() -> None:
    store = Store({})
    with pytest.raises(Exception, match="parameter"):
        store.register_tool("odd", lambda *args: None)
    assert store.tools == {}


@pytest.mark.document_item(
    "002.run.signature",
    "002.run.returns",
    "002.run.execute",
    "002.tool.signature",
    "002.tool.example",
    "002.tools.state",
    "002.flow.dispatch",
    "002.action.tool",
    "002.output.any-model",
)
def test_a_decision_calls_its_tool_and_the_pair_enters_the_state() -> None:
    text_only = Profile(window=100_000, window_known=True, native_tools=False)
    finish = json.dumps({"action": "finish", "params": {"answer": "joined"}})
    model = ScriptedModel([EXECUTE, finish], profile=text_only)
    result = run_agent("Join them", model, TOOLS)
    assert result.output == "joined"
    assert result.state.data == {"tool_result": "a-b"}
    assert not any(request.tools for request in model.requests)


@pytest.mark.document_item("002.output.no-function-calling")
@pytest.mark.parametrize("native", [True, False])
def test_function_calling_is_used_only_if_the_model_has_it(native: bool) -> None:
    profile = Profile(window=100_000, window_known=True, native_tools=native)
    finish = json.dumps({"action": "finish", "params": {"answer": "joined"}})
    model = ScriptedModel([EXECUTE, finish], profile=profile)
    assert run_agent("Join them", model, TOOLS).state.data == {"tool_result": "a-b"}
    offered = [offer.name for offer in model.requests[0].tools]
    assert offered == (["my_custom_tool", "plan", "evaluate", "summarize"] if native else [])
    assert ("- my_custom_tool(" in model.requests[0].text) is not native


@pytest.mark.document_item("002.run.args-default")
def test_a_decision_without_args_calls_its_tool_with_none() -> None:
    seen: list[State] = []

    def look(state: State, args: State) -> None:
        """Look around."""
        seen.append(args)

    finish = json.dumps({"action": "finish", "params": {"answer": "x"}})
    run_agent("g", ScriptedModel([decide("execute", tool="look"), finish]), {"look": look})
    assert seen == [{}]


@pytest.mark.document_item(
    "002.run.initial", "002.tool.state.goal", "002.tool.state.own", "002.state.central"
)
def test_a_tool_sees_the_goal_the_results_and_the_used_tools() -> None:
    seen: list[State] = []

    def look(state: State, args: State) -> None:
        """Look around."""
        seen.append(state)

    script = [decide("execute", tool="look"), EXECUTE, decide("execute", "again", tool="look")]
    model = [*script, json.dumps({"action": "finish", "params": {"answer": "x"}})]
    run_agent("Look", ScriptedModel(model), {"look": look, **TOOLS})
    first, second = seen
    assert (first["goal"], first["results"], first["achieved"]) == ("Look", [], False)
    assert second["used_tools"] == ["look", "my_custom_tool"]
    assert "a-b" in second["results"]
    run_agent("Look", ScriptedModel(model), {"look": look, **TOOLS}, data={"results": ["mine"]})
    assert seen[2]["results"] == ["mine"]


@pytest.mark.document_item(
    "002.loop", "002.run.evaluate", "002.run.achieved", "002.action.system", "002.run.output-format"
)
def test_the_loop_plans_executes_and_evaluates_until_the_goal() -> None:
    class Joined(BaseModel):
        text: str

    script = [decide("plan", steps=["join"]), EXECUTE, decide("evaluate"), verdict(True)]
    model = ScriptedModel([*script, '{"text": "a-b"}', EXECUTE])
    result = run_agent("Join", model, TOOLS, output_format=Joined)
    assert (result.success, result.output) == (True, Joined(text="a-b"))
    assert result.state.data["achieved"] is True
    assert result.state.data["plan"] == ["join"]
    assert len(model.requests) == 5


@pytest.mark.document_item("002.run.evaluate.default", "002.run.judge")
def test_a_goal_is_judged_by_the_state_and_no_verdict_is_no_success() -> None:
    model = ScriptedModel([verdict(True), verdict(False), *['{"feedback": "?"}'] * 4])
    assert evaluate_goal_achievement({"results": ["r1"]}, "Join", model)["achieved"] is True
    assert "r1" in model.requests[0].text
    assert "Join" in model.requests[0].text
    assert evaluate_goal_achievement({}, "Join", model)["achieved"] is False
    with pytest.raises(RunError, match="achieved is missing"):
        evaluate_goal_achievement({}, "Join", model)


@pytest.mark.document_item("002.run.default", "002.run.limit")
def test_a_loop_makes_twenty_decisions_unless_another_number_is_given() -> None:
    asked: list[int] = []

    def reply(request: Any) -> str:
        asked.append(1)
        args = {"param1": f"n{len(asked)}"}
        return decide("execute", f"go on {len(asked)}", tool="my_custom_tool", args=args)

    result = run_agent("g", FunctionModel(reply), TOOLS)
    assert not result.success
    assert 20 <= len(asked) <= 21
    assert result.state.tool_calls in (19, 20)
    asked.clear()
    run_agent("g", FunctionModel(reply), TOOLS, max_iterations=3)
    assert 3 <= len(asked) <= 4


@pytest.mark.document_item("002.run.last")
@pytest.mark.parametrize("achieved", [True, False])
def test_an_evaluate_in_the_last_iteration_is_carried_out(achieved: bool) -> None:
    model = ScriptedModel([EXECUTE, decide("evaluate"), verdict(achieved), "a-b", "a-b"])
    result = run_agent("g", model, TOOLS, max_iterations=2)
    assert result.state.data["achieved"] is achieved
    assert result.success is achieved
    assert result.iterations_used == 2
    assert ("not achieved: judged" in result.error) is not achieved


def test_an_unreadable_verdict_in_the_last_iteration_is_the_reason() -> None:
    model = ScriptedModel([EXECUTE, decide("evaluate"), *["Well done."] * 3])
    result = run_agent("g", model, TOOLS, max_iterations=2)
    assert (result.status, result.stop_reason) == ("limited", "max_steps")
    assert "not achieved: the evaluator gave no verdict" in result.error


PROGRAM = """
from taofold import Agent
from taofold.reasoning import tagent
from taofold.testing import ScriptedModel

def look(state, args):
    "Look around."
    return "seen", "the room"

agent = Agent(ScriptedModel({replies!r}), tools=[look], approve="all", strategy=tagent)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return enter(tmp_path / "project", monkeypatch)


@pytest.mark.document_item("002.run.last.program")
@pytest.mark.parametrize("achieved", [True, False])
def test_the_program_carries_out_an_evaluate_in_the_last_step(
    project: Path, taofold: Taofold, achieved: bool
) -> None:
    replies = [decide("execute", tool="look"), decide("evaluate"), verdict(achieved), "the room"]
    (project / "one.py").write_text(PROGRAM.format(replies=replies))
    ran = taofold("run", "one.py:agent", "Look", "--steps", "2")
    assert ran.code == (0 if achieved else 1), ran.err
    assert ("the room" in ran.out) is achieved
    assert ("goal achieved" if achieved else "not achieved yet") in ran.err


@pytest.mark.document_item("002.run.last.program")
@pytest.mark.parametrize("achieved", [True, False])
def test_the_server_carries_out_an_evaluate_in_the_last_step(
    tmp_path: Path, achieved: bool
) -> None:
    replies = [decide("execute", tool="look"), decide("evaluate"), verdict(achieved), "the room"]

    @tool(effect="read")
    def look() -> str:
        """Look around."""
        return "the room"

    options = {"tools": [look], "strategy": tagent, "limits": Limits(steps=2)}
    agent: Agent[Any, Any] = Agent(ScriptedModel(replies), **options)

    async def play() -> dict[str, Any]:
        async with serving(agent, tmp_path / "runs.db") as client:
            run = await client.start("Look")
            await client.until(run, "finished", "limited", "failed")
            return (await client.http.get(f"/runs/{run}")).json()

    ended = asyncio.run(play())
    assert ended["success"] is achieved
    assert ended["stop_reason"] == ("criteria_met" if achieved else "max_steps")


@pytest.mark.document_item("002.run.last.tool")
def test_a_tool_is_not_called_in_the_last_iteration() -> None:
    model = ScriptedModel([EXECUTE, decide("execute", "again", tool="my_custom_tool"), "late", "x"])
    result = run_agent("g", model, TOOLS, max_iterations=2)
    assert (result.success, result.stop_reason) == (False, "max_steps")
    assert result.state.tool_calls == 1


@pytest.mark.document_item("002.run.achieved.tool")
def test_a_tool_that_sets_achieved_does_not_end_the_run() -> None:
    def claim(state: State, args: State) -> tuple[str, Any]:
        """Claim the goal."""
        return "achieved", True

    finish = json.dumps({"action": "finish", "params": {"answer": "x"}})
    model = ScriptedModel([decide("execute", tool="claim"), EXECUTE, finish])
    result = run_agent("g", model, {"claim": claim, **TOOLS}, data={"achieved": True})
    assert result.state.data == {"achieved": True, "tool_result": "a-b"}
    assert result.stop_reason == "final_answer"


@pytest.mark.document_item("002.run.no-tool")
@pytest.mark.parametrize(
    ("decision", "fault"), [(decide("execute"), "'execute'"), (decide("think"), "'think'")]
)
def test_a_decision_without_a_known_action_is_an_observation(decision: str, fault: str) -> None:
    finish = json.dumps({"action": "finish", "params": {"answer": "x"}})
    result = run_agent("g", ScriptedModel([decision, finish]), TOOLS)
    (observation,) = result.steps[0].observations
    assert observation.status == "failure"
    assert fault in str(observation.result)
    assert "my_custom_tool" in str(observation.result)


@pytest.mark.document_item("002.run.unknown-tool")
def test_an_unknown_tool_is_an_observation_with_the_tools() -> None:
    finish = json.dumps({"action": "finish", "params": {"answer": "x"}})
    result = run_agent("g", ScriptedModel([decide("execute", tool="nope"), finish]), TOOLS)
    assert "unknown tool 'nope'" in str(result.steps[0].observations[0].result)
    assert "my_custom_tool" in str(result.steps[0].observations[0].result)


@pytest.mark.document_item("002.tools.isolation", "002.errors.degrade")
def test_a_tool_that_raises_is_an_observation_and_the_run_goes_on() -> None:
    def broken(state: State, args: State) -> None:
        """Fail."""
        raise ValueError("no route")

    finish = json.dumps({"action": "finish", "params": {"answer": "x"}})
    script = [decide("execute", tool="broken"), EXECUTE, finish]
    result = run_agent("g", ScriptedModel(script), {"broken": broken, **TOOLS})
    assert "no route" in str(result.steps[0].observations[0].result)
    assert result.state.data == {"tool_result": "a-b"}
    assert result.success


@pytest.mark.document_item(
    "002.response.action",
    "002.response.params",
    "002.response.reasoning",
    "002.output.schema",
    "002.errors.validation",
)
def test_a_response_has_its_fields_and_defaults() -> None:
    made = StructuredResponse(action="plan")
    assert (made.action, made.params, made.reasoning) == ("plan", {}, "")
    with pytest.raises(ValidationError):
        StructuredResponse.model_validate_json('{"params": {}}')
    with pytest.raises(ValidationError):
        StructuredResponse.model_validate_json('{"action": "plan", "params": 3}')


@pytest.mark.document_item(
    "002.query.call", "002.query.prompt", "002.query.schema", "002.output.fallback"
)
def test_a_decision_is_asked_for_with_its_schema_and_a_broken_one_again() -> None:
    model = ScriptedModel(["{not json", EXECUTE])
    made = query_llm("What next?", model)  # type: ignore[arg-type]
    assert isinstance(made, StructuredResponse)
    assert made.params["args"] == {"param1": "a", "param2": "b"}
    asked = model.requests[0].text
    assert "What next?" in asked
    assert all(field in asked for field in ("action", "params", "reasoning"))
    assert "{action: string, params?: {[key: string]: any} = {}, reasoning?: string" in asked


@pytest.mark.document_item("002.query.kwargs")
def test_further_parameters_reach_the_model() -> None:
    model = ScriptedModel([EXECUTE])
    query_llm("What next?", model, temperature=0.5, seed=7)  # type: ignore[arg-type]
    settings = model.requests[0].request.asked()
    assert settings.temperature == 0.5
    assert settings.extra == {"seed": 7}


@pytest.mark.document_item("002.response.actions", "002.flow.context", "002.run.prompt")
def test_the_decision_prompt_holds_the_goal_the_state_the_tools_and_the_actions() -> None:
    prompt = build_decision_prompt({"goal": "Join", "results": ["r1"]}, TOOLS)
    assert "Join" in prompt
    assert "r1" in prompt
    assert "my_custom_tool" in prompt
    assert all(name in prompt for name in ("plan", "execute", "summarize", "evaluate"))


@pytest.mark.document_item("002.query.client")
def test_the_documents_client_asks_a_model() -> None:
    messages = [
        {"role": "system", "content": "You are an AI assistant that outputs JSON."},
        {"role": "user", "content": "ping"},
    ]
    assert llm_client.completion(model=ScriptedModel(["pong"]), messages=messages).content == "pong"


@pytest.mark.document_item("002.run.own-loop", "002.run.final")
def test_the_documents_loop_runs_as_a_program() -> None:
    model: Any = ScriptedModel([EXECUTE, decide("evaluate"), verdict(True), EXECUTE])

    def main(goal: str, tools: dict[str, Any], **kwargs: Any) -> Any:
        store = Store({"goal": goal, "results": [], "used_tools": []})
        for name, tool_func in tools.items():
            store.register_tool(name, tool_func)
        iteration = 0
        max_iterations = kwargs.get("max_iterations", 20)
        while not store.state.data.get("achieved", False) and iteration < max_iterations:
            iteration += 1
            prompt = build_decision_prompt(store.state.data, tools)
            decision = query_llm(prompt, model)
            if decision.action == "execute" and decision.params.get("tool"):
                name, args = decision.params["tool"], decision.params.get("args", {})
                if name in store.tools:
                    result = store.tools[name](store.state.data, args)
                    store._apply_reducer(result)  # pyright: ignore[reportPrivateUsage]
            elif decision.action == "evaluate":
                judged = evaluate_goal_achievement(store.state.data, goal, model)
                store._apply_reducer(  # pyright: ignore[reportPrivateUsage]
                    ("achieved", judged.get("achieved", False))
                )
        return format_final_output(store.state.data, kwargs.get("output_format"))

    made = main("Join", TOOLS)
    assert (made["tool_result"], made["achieved"]) == ("a-b", True)
    assert len(model.requests) == 3


@pytest.mark.parametrize(
    ("actions", "looping"),
    [
        pytest.param(["a"], False, marks=pytest.mark.document_item("002.detect.short")),
        pytest.param(["b", "a", "a"], True, marks=pytest.mark.document_item("002.detect.twice")),
        pytest.param(["a", "a", "a"], True, marks=pytest.mark.document_item("002.detect.recent")),
        pytest.param(["a", "b", "a"], False, marks=pytest.mark.document_item("002.detect.other")),
    ],
)
def test_loops_of_actions_are_found_as_the_document_finds_them(
    actions: list[str], looping: bool
) -> None:
    assert detect_action_loop(actions) is looping
    assert detect_action_loop(actions, max_recent=3) is looping


@pytest.mark.document_item("002.detect.run")
def test_a_run_repeats_a_tool_with_other_arguments_and_is_stopped_with_the_same() -> None:
    def say(request: Any) -> str:
        turn = sum(message.role == "assistant" for message in request.conversation)
        return decide(
            "execute", f"turn {turn}", tool="my_custom_tool", args={"param1": f"{turn % size}"}
        )

    size = 50
    free = run_agent("g", FunctionModel(say), TOOLS, max_iterations=8)
    size = 1
    stuck = run_agent("g", FunctionModel(say), TOOLS, max_iterations=8)
    refused = [
        [one.refused for step in result.steps for one in step.observations if one.refused]
        for result in (free, stuck)
    ]
    assert refused[0] == []
    assert refused[1] or stuck.stop_reason == "loop_detected"


@pytest.mark.document_item("002.chat.heading", "002.chat.roles", "002.chat.other")
def test_a_conversation_is_shown_with_roles_and_numbers() -> None:
    history = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
        {"role": "system", "content": "be brief"},
    ]
    shown = format_conversation_as_chat(history)
    assert shown.startswith("=== CONVERSATION HISTORY ===\n")
    assert "USER [1]: hi" in shown
    assert "ASSISTANT [2]: hello" in shown
    assert "SYSTEM [3]: be brief" in shown


@pytest.mark.document_item("002.docs.heading", "002.docs.row", "002.docs.none")
def test_tools_are_documented_with_signature_and_docstring() -> None:
    def mute(state: State, args: State) -> None: ...

    lines = get_tool_documentation({**TOOLS, "mute": mute}).splitlines()
    assert lines[0] == "Available tools:"
    assert lines[1].startswith("- my_custom_tool(state")
    assert lines[1].endswith(": Join two parameters.")
    assert lines[2].endswith(": No documentation available")


@pytest.mark.document_item("002.action.custom", "002.custom.register", "002.custom.registry")
def test_a_custom_action_is_dispatched_with_the_state() -> None:
    register_custom_action("count", lambda state: ("count", state.get("count", 0) + 1))
    assert list(SYSTEM_ACTIONS) == ["count"]
    finish = json.dumps({"action": "finish", "params": {"answer": "x"}})
    model = ScriptedModel([decide("count"), decide("count", "once more"), finish])
    assert run_agent("g", model, {}).state.data == {"count": 2}


@pytest.mark.document_item("002.format.custom", "002.format.function")
def test_a_model_and_a_function_are_output_formats() -> None:
    class CustomOutputFormat(BaseModel):
        results: list[dict[str, Any]]
        metadata: dict[str, str]
        confidence: float

    def format_custom_output(state: State) -> CustomOutputFormat:
        return CustomOutputFormat(
            results=state.get("results", []),
            metadata=state.get("metadata", {}),
            confidence=state.get("confidence", 0.0),
        )

    state: State = {"results": [{"a": 1}], "metadata": {"b": "c"}, "confidence": 0.5}
    made = CustomOutputFormat(results=[{"a": 1}], metadata={"b": "c"}, confidence=0.5)
    assert format_final_output(state, CustomOutputFormat) == made
    assert format_final_output(state, format_custom_output) == made


@pytest.mark.document_item("002.format.function.run")
def test_a_function_is_no_output_format_of_a_run() -> None:
    with pytest.raises(ConfigError, match=r"output_format: a type, not a function: use format_fin"):
        run_agent("g", ScriptedModel([]), TOOLS, output_format=lambda state: state)  # type: ignore[arg-type]


@pytest.mark.document_item("002.provider.register", "002.provider.registry")
def test_a_client_class_is_a_provider_under_its_name() -> None:
    class Client:
        def completion(self, model: str, messages: list[dict[str, str]], **more: Any) -> Any:
            answer = json.dumps({"action": "finish", "params": {"answer": f"from {model}"}})
            return SimpleNamespace(content=answer)

    integrate_custom_llm("mine", Client)
    assert LLM_PROVIDERS["mine"] is Client
    assert run_agent("g", "mine:large", {}).output == "from large"


DISCOVERED = '''
def greet(state, args):
    """Greet."""
    return "greeting", "hello " + args["name"]

def odd(*things):
    """Odd."""
'''


@pytest.mark.document_item(
    "002.tools.discovery",
    "002.discovery.scan",
    "002.discovery.extract",
    "002.discovery.validate",
    "002.discovery.register",
    "002.discovery.offer",
)
def test_tools_of_a_folder_are_found_and_offered(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "tagent.tools.py").write_text(DISCOVERED)
    (tmp_path / "below" / "other.py").write_text(DISCOVERED.replace("greet", "hidden"))
    act = {"tool": "greet", "parameters": {"name": "Ann"}, "rationale": "it greets"}
    first = json.dumps({"thought": "I greet", "thought_type": "goal", "action": act})
    end = json.dumps({"thought": "Done", "action": {"tool": "finish", "parameters": {"answer": 1}}})
    model = ScriptedModel([first, end])
    agent = Agent(model, discover=[tmp_path], approve="all")
    with pytest.warns(DiscoveryWarning, match=r"odd: its parameters are \(things\)"):
        result = agent.run_sync("g")
    assert result.state.data == {"greeting": "hello Ann"}
    assert "greet" in model.requests[0].text
    assert "hidden" not in model.requests[0].text
    assert "- odd" not in model.requests[0].text


@pytest.mark.document_item("002.debug.log", "002.debug.metrics", "002.performance.serialize")
def test_a_run_is_logged_measured_and_read_again(tmp_path: Path) -> None:
    finish = json.dumps({"action": "finish", "params": {"answer": "x"}})
    log = tmp_path / "runs.db"
    result = run_agent("g", ScriptedModel([EXECUTE, finish]), TOOLS, log=str(log))
    kinds = [type(record.event) for record in result.records]
    assert {events.Proposed, events.Observed, events.RunFinished} <= set(kinds)
    updates = [getattr(record.event, "update", None) for record in result.records]
    assert [one for one in updates if one] == [("tool_result", "a-b")]
    measured = result.metrics.as_dict()
    assert measured["observation_success_rate"] == 100.0
    assert measured["model_calls"] == 2
    assert measured["wall_ms"] >= 0

    async def stored() -> Any:
        opened = SqliteLog(log)
        try:
            return fold(await opened.read(result.run_id))
        finally:
            await opened.close()

    assert asyncio.run(stored()).data == {"tool_result": "a-b"}


@pytest.mark.document_item("002.debug.mode")
@pytest.mark.parametrize("verbose", [True, False])
def test_progress_is_printed_only_if_wanted(
    verbose: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    finish = json.dumps({"action": "finish", "params": {"answer": "x"}})
    run_agent("g", ScriptedModel([EXECUTE, finish]), TOOLS, verbose=verbose)
    printed = capsys.readouterr().err
    assert ("my_custom_tool" in printed) is verbose


@pytest.mark.document_item("002.performance.cache")
def test_an_agent_with_a_cache_asks_the_same_question_once() -> None:
    model = ScriptedModel(["forty-two", "forty-three"])
    agent = Agent(model, cache=True)
    assert [agent.run_sync("g").output for _ in range(2)] == ["forty-two"] * 2
    assert len(model.requests) == 1


@pytest.mark.document_item("002.debug.inspect")
def test_the_state_can_be_inspected_at_each_event() -> None:
    finish = json.dumps({"action": "finish", "params": {"answer": "x"}})
    records = run_agent("g", ScriptedModel([EXECUTE, finish]), TOOLS).records
    states = [fold(records[:n]).data for n in range(1, len(records) + 1)]
    first = states.index({"tool_result": "a-b"})
    assert all(state == {} for state in states[:first])
    assert all(state == {"tool_result": "a-b"} for state in states[first:])


@pytest.mark.document_item("002.errors.timeout")
def test_a_tool_that_hangs_is_stopped_and_the_run_goes_on() -> None:
    @tool(effect="read", timeout=0.01)
    async def hang() -> str:
        """Hang."""
        await asyncio.Event().wait()
        return ""

    finish = json.dumps({"action": "finish", "params": {"answer": "x"}})
    script = [decide("execute", tool="hang"), finish]
    result = run_agent("g", ScriptedModel(script), [hang])
    assert result.steps[0].observations[0].status == "timeout"
    assert result.success


@pytest.mark.document_item("002.performance.parallel")
def test_two_independent_calls_of_a_turn_run_at_the_same_time() -> None:
    both = asyncio.Barrier(2)

    @tool(effect="read", timeout=30)
    async def meet(name: str) -> str:
        """Wait for the other."""
        await both.wait()
        return name

    calls = [{"tool": "meet", "parameters": {"name": n}, "rationale": "to meet"} for n in "ab"]
    first = json.dumps({"thought": "I call both", "thought_type": "goal", "actions": calls})
    end = json.dumps({"thought": "Done", "action": {"tool": "finish", "parameters": {"answer": 1}}})
    agent = Agent(ScriptedModel([first, end]), tools=[meet], limits=Limits(steps=3))
    result = agent.run_sync("g")
    assert [one.result for one in result.steps[0].observations] == ["a", "b"]
