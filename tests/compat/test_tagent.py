"""TAgent's document, snippet by snippet, in a reduced form of our own: only the import differs."""

import inspect
import json
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ValidationError

from taofold import Agent, Limits, Policy
from taofold.compat import tagent
from taofold.compat.tagent import (
    LLM_PROVIDERS,
    SYSTEM_ACTIONS,
    AgentState,
    OverIterations,
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
from taofold.core.errors import ConfigError, ModelError, RunError
from taofold.runtime import providers as registry
from taofold.testing import FunctionModel, ScriptedModel
from taofold.tools.toolset import forget_action
from tests.runtime.kit import Memo, act, batch, finish

State = dict[str, Any]


class Found(BaseModel):
    name: str
    count: int


def hello(state: State, args: State) -> tuple[str, str] | None:
    """Say hello."""
    return "greeting", f"hello {args['name']}"


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    SYSTEM_ACTIONS.clear()
    LLM_PROVIDERS.clear()


def decision(action: str, reasoning: str = "it is next", **params: Any) -> str:
    """A reply in TAgent's own form."""
    return StructuredResponse(action=action, params=params, reasoning=reasoning).model_dump_json()


def verdict(achieved: bool, feedback: str = "", *missing: str) -> str:
    return json.dumps({"achieved": achieved, "feedback": feedback, "missing": missing})


# Snippet 1: the state and its store ---------------------------------------------------


@pytest.mark.scenario("TAG-20")
def test_a_store_has_state_tools_and_history_and_changes_by_dispatch() -> None:
    store = Store({"input": 2})
    assert isinstance(store.state, AgentState)
    assert (store.tools, store.conversation_history) == ({}, [])
    store.dispatch(lambda state: ("result", state["input"] * 2))
    store.dispatch(lambda state: None)
    assert store.state.data == {"input": 2, "result": 4}
    assert AgentState().data == {}


@pytest.mark.scenario("TAG-20")
def test_nobody_changes_a_store_behind_its_back() -> None:
    store = Store({"list": [1]})

    def sneaky(state: State) -> tuple[str, int]:
        state["list"].append(2)
        return "seen", len(state["list"])

    store.dispatch(sneaky)
    store.state.data["list"].append(3)
    assert store.state.data == {"list": [1], "seen": 2}


def test_a_verbose_dispatch_tells_the_update_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    def answer(state: State) -> tuple[str, int]:
        return "answer", 42

    Store().dispatch(answer)
    assert capsys.readouterr().err == ""
    Store().dispatch(answer, verbose=True)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "answer: answer = 42\n")


@pytest.mark.scenario("TAG-19", "TAG-21")
def test_a_store_travels_and_rewinds() -> None:
    store = Store({"n": 0})
    for _ in range(3):
        store.dispatch(lambda state: ("n", state["n"] + 1))
    assert [store.travel(seq).data["n"] for seq in (-1, 0, 1, 2)] == [0, 1, 2, 3]
    assert store.rewind(0).data == {"n": 1}


def test_the_reducer_takes_pairs_and_nothing_else() -> None:
    store = Store()
    store._apply_reducer(("key", 1))  # pyright: ignore[reportPrivateUsage]
    store._apply_reducer(None)  # pyright: ignore[reportPrivateUsage]
    assert store.state.data == {"key": 1}
    with pytest.raises(ConfigError):
        store._apply_reducer("key")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def test_only_what_a_model_can_be_offered_is_registered_as_a_tool() -> None:
    store = Store()
    store.register_tool("greet", hello)
    assert store.tools == {"greet": hello}
    with pytest.raises(ConfigError):
        store.register_tool("any", lambda *args: None)
    assert "any" not in store.tools


# Snippets 2 and 3: actions and tools ----------------------------------------------------


@pytest.mark.scenario("TAG-05")
def test_a_tool_sees_the_goal_the_results_the_used_tools_and_whether_it_is_achieved() -> None:
    seen: list[State] = []

    def look(state: State, args: State) -> None:
        """Look around."""
        seen.append(state)

    script = [act("look"), act("greet", name="Ann"), act("look", n=2), finish()]
    result = run_agent("Greet Ann", Memo(script), {"look": look, "greet": hello})
    first, second = seen
    assert first == {"goal": "Greet Ann", "results": [], "used_tools": ["look"], "achieved": False}
    assert second["results"][1:] == ["hello Ann"]
    assert second["used_tools"] == ["look", "greet"]
    assert second["greeting"] == "hello Ann"
    assert result.state.data == {"greeting": "hello Ann"}


@pytest.mark.scenario("TAG-05")
@pytest.mark.scenario("TAG-07", "TEA-31")
def test_a_tool_that_raises_leaves_the_state_as_it_was_and_the_run_goes_on() -> None:
    def spoil(state: State, args: State) -> None:
        """Change the state, then fail."""
        state["greeting"] = "nobody"
        state["results"].clear()
        raise ValueError("no such thing")

    failed = act("greet", "it failed: no such thing", "exception", name="Ann")
    result = run_agent(
        "Greet Ann", Memo([act("spoil"), failed, finish()]), {"spoil": spoil, "greet": hello}
    )
    first, second = result.steps[0].observations[0], result.steps[1].observations[0]
    assert (first.status, second.status) == ("failure", "success")
    assert "no such thing" in str(first.result)
    assert result.success
    assert result.state.data == {"greeting": "hello Ann"}


def test_what_a_program_put_into_the_state_is_not_hidden() -> None:
    seen: list[Any] = []

    def look(state: State, args: State) -> None:
        """Look around."""
        seen.append(state["results"])

    run_agent("g", Memo([act("look"), finish()]), {"look": look}, data={"results": ["mine"]})
    assert seen == [["mine"]]


# Snippets 4 and 5: decisions and the main loop ------------------------------------------


def test_a_decision_is_asked_for_and_a_broken_reply_is_corrected() -> None:
    model = ScriptedModel(["{not json", decision("execute", tool="greet", args={"name": "Ann"})])
    asked = query_llm("What next?", model)
    assert asked.action == "execute"
    assert asked.params == {"tool": "greet", "args": {"name": "Ann"}}
    assert len(model.requests) == 2
    assert "What next?" in model.requests[0].text
    with pytest.raises(RunError, match="no usable reply in 3 attempts"):
        query_llm("What next?", ScriptedModel(["no", "not", "never"]))


@pytest.mark.scenario("TAG-10")
def test_the_correction_names_what_is_wrong_with_the_reply() -> None:
    model = ScriptedModel(['{"params": {}}', '{"action": "plan", "params": 3}', decision("plan")])
    assert query_llm("?", model).action == "plan"
    assert "action" in model.requests[1].last
    assert "params" in model.requests[2].last


def test_a_decision_may_be_a_custom_action() -> None:
    register_custom_action("celebrate", lambda state: ("party", True))
    assert query_llm("?", ScriptedModel([decision("celebrate")])).action == "celebrate"
    assert '"celebrate"' in build_decision_prompt({"goal": "g"}, {"greet": hello})


def test_a_decision_prompt_says_goal_state_tools_and_actions() -> None:
    prompt = build_decision_prompt({"goal": "Greet Ann", "results": ["hi"]}, {"greet": hello})
    assert "Goal: Greet Ann" in prompt
    assert '"hi"' in prompt
    assert "- greet(state" in prompt
    assert all(f'"{name}"' in prompt for name in ("plan", "execute", "summarize", "evaluate"))
    assert len(build_decision_prompt({"x": "y" * 100_000}, {})) < 10_000


def test_a_goal_is_judged_by_the_state() -> None:
    model = ScriptedModel([verdict(False, "nobody was greeted", "a greeting"), verdict(True)])
    first = evaluate_goal_achievement({"results": ["some result"]}, "Greet Ann", model)
    assert (first["achieved"], first["missing"]) == (False, ["a greeting"])
    assert "some result" in model.requests[0].text
    assert "Greet Ann" in model.requests[0].text
    assert evaluate_goal_achievement({}, "g", model)["achieved"] is True


def test_the_output_is_made_of_the_state() -> None:
    state = {"name": "Ann", "count": 1, "goal": "g"}
    assert format_final_output(state) == state
    assert format_final_output(state, Found) == Found(name="Ann", count=1)
    assert format_final_output(state, lambda data: data["name"]) == "Ann"
    with pytest.raises(ValidationError):
        format_final_output({"name": "Ann"}, Found)


def test_a_loop_of_ones_own_is_made_of_these_parts() -> None:
    """The document's main loop, with its names and in its order."""
    tools = {"greet": hello}
    model = ScriptedModel(
        [
            decision("execute", tool="greet", args={"name": "Ann"}),
            decision("evaluate"),
            verdict(True),
        ]
    )
    store = Store({"goal": "Greet Ann", "results": [], "used_tools": []})
    for name, function in tools.items():
        store.register_tool(name, function)
    for _ in range(20):
        if store.state.data.get("achieved", False):
            break
        chosen = query_llm(build_decision_prompt(store.state.data, tools), model)
        if chosen.action == "execute":
            result = store.tools[chosen.params["tool"]](store.state.data, chosen.params["args"])
            store._apply_reducer(result)  # pyright: ignore[reportPrivateUsage]
        elif chosen.action == "evaluate":
            judged = evaluate_goal_achievement(store.state.data, "Greet Ann", model)
            store._apply_reducer(("achieved", judged["achieved"]))  # pyright: ignore[reportPrivateUsage]
    assert format_final_output(store.state.data)["greeting"] == "hello Ann"


@pytest.mark.scenario("TAG-05", "TAG-18")
def test_run_agent_takes_names_and_functions() -> None:
    script = [act("greet", name="Ann"), finish({"name": "Ann", "count": 1})]
    result = run_agent("greet Ann", Memo(script), {"greet": hello}, output_format=Found)
    assert result.success
    assert result.output == Found(name="Ann", count=1)
    assert result.state.data["greeting"] == "hello Ann"


def test_run_agent_reads_decisions_in_tagents_own_form() -> None:
    script = [decision("execute", tool="greet", args={"name": "Ann"}), finish("greeted")]
    result = run_agent("greet Ann", Memo(script), {"greet": hello})
    assert result.steps[0].actions[0].tool == "greet"
    assert result.state.data["greeting"] == "hello Ann"


@pytest.mark.scenario("TAG-13")
def test_the_evaluator_that_says_yes_ends_the_run_but_for_the_formatting() -> None:
    model = Memo(
        [decision("execute", tool="greet", args={"name": "Ann"}), decision("evaluate")], name="m:1"
    )
    judge = ScriptedModel([verdict(True)])
    scribe = ScriptedModel(['{"name": "Ann", "count": 1}'])
    models = {"evaluator": judge, "finalizer": scribe}
    result = run_agent("g", model, {"greet": hello}, output_format=Found, models=models)
    assert (result.success, result.stop_reason) == (True, "criteria_met")
    assert result.output == Found(name="Ann", count=1)
    assert result.state.data["achieved"] is True
    assert [len(model.asked), len(judge.requests), len(scribe.requests)] == [2, 1, 1]
    assert "hello Ann" in judge.requests[0].text


@pytest.mark.scenario("TAG-14")
def test_an_evaluator_that_says_no_is_heard_and_the_third_no_ends_the_run() -> None:
    said: list[str] = []

    def reply(request: Any) -> str:
        said.append(request.conversation[-1].text)
        return verdict(False, "too short", "a name") if request.role == "evaluator" else again()

    def again() -> str:
        return decision("evaluate", f"judge number {len(said)}", n=len(said))

    result = run_agent("g", FunctionModel(reply), {"greet": hello})
    assert not result.success
    assert "not achieved after 3 rejections: too short; a name" in result.error
    assert "too short" in said[2]
    assert "a name" in said[2]
    assert result.state.data["achieved"] is False


def test_plan_writes_down_the_models_steps_or_the_planners() -> None:
    given = run_agent("g", Memo([decision("plan", steps=["a", "b"]), finish()]), [hello])
    assert given.state.data["plan"] == ["a", "b"]
    planner = ScriptedModel(['{"steps": ["look", "greet"]}'])
    script = [decision("plan"), finish()]
    asked = run_agent("g", Memo(script), {"greet": hello}, models={"planner": planner})
    assert asked.state.data["plan"] == ["look", "greet"]
    assert "- greet(" in planner.requests[0].text


def test_summarize_puts_a_summary_into_the_state() -> None:
    scribe = ScriptedModel(["Ann was greeted."])
    script = [act("hello", name="Ann"), decision("summarize"), finish()]
    result = run_agent("g", Memo(script), [hello], models={"finalizer": scribe})
    assert result.state.data["summary"] == "Ann was greeted."
    assert "hello Ann" in scribe.requests[0].text


def test_a_system_action_beside_others_is_refused_with_the_reason() -> None:
    script = [batch(("hello", {"name": "Ann"}), ("evaluate", {})), finish()]
    result = run_agent("g", Memo(script), [hello])
    seen = result.steps[0].observations
    assert seen[0].result == "hello Ann"
    assert "alone" in str(seen[1].result)


def test_a_tool_of_a_system_actions_name_takes_its_place() -> None:
    def evaluate(state: State, args: State) -> tuple[str, str]:
        """Evaluate in the program's own way."""
        return "mine", "yes"

    result = run_agent("g", Memo([decision("evaluate"), finish()]), [evaluate])
    assert result.state.data == {"mine": "yes"}


@pytest.mark.scenario("TAG-12")
@pytest.mark.parametrize("iterations", [1, 4])
def test_run_agent_makes_exactly_so_many_decisions(iterations: int) -> None:
    asked: list[int] = []

    def reply(request: Any) -> str:
        asked.append(1)
        if "last turn" in request.conversation[-1].content:
            return finish("as far as I got")
        return act("greet", name=f"n{len(asked)}")

    result = run_agent("g", FunctionModel(reply), {"greet": hello}, max_iterations=iterations)
    assert len(asked) == iterations
    assert (result.stop_reason, result.success) == ("final_answer", True)
    assert result.output == "as far as I got"
    partial = {"greeting": f"hello n{iterations - 1}"} if iterations > 1 else {}
    assert result.state.data == partial
    more = [act("hello", name=f"m{number}") for number in range(iterations)]
    model = Memo([*more, finish("as far as I got")])
    with pytest.raises(OverIterations) as caught:
        run_agent("g", model, [hello], iterations, crash_if_over_iterations=True)
    assert caught.value.result.output == "as far as I got"


@pytest.mark.scenario("TAG-12")
@pytest.mark.parametrize(
    ("achieved", "ending"),
    [(True, ("criteria_met", True, "all done")), (False, ("max_steps", False, None))],
)
def test_evaluate_is_carried_out_in_the_last_iteration(
    achieved: bool, ending: tuple[str, bool, str | None]
) -> None:
    verdict = json.dumps({"reasoning": "r", "achieved": achieved, "feedback": "more"})
    model = Memo([act("hello", name="x"), act("evaluate"), verdict, "all done"])
    result = run_agent("g", model, [hello], max_iterations=2)
    assert result.state.data["achieved"] is achieved
    assert (result.stop_reason, result.success, result.output_or_none) == ending
    assert achieved or "all 2 steps were used: raise max_iterations" in result.error


@pytest.mark.scenario("TAG-27")
@pytest.mark.parametrize("verbose", [True, False])
def test_progress_goes_to_stderr_and_only_if_wanted(
    verbose: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    run_agent("g", Memo([act("hello", name="x"), finish()]), [hello], verbose=verbose)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert bool(captured.err) == verbose


# Snippets 6 to 8: loop detection, conversation, documentation ----------------------------


def test_repetition_is_found_as_the_document_finds_it() -> None:
    cases: list[tuple[list[str], bool]] = [
        ([], False),
        (["a"], False),
        (["a", "a"], True),
        (["a", "b"], False),
        (["b", "a", "a"], True),
        (["a", "b", "a"], False),
    ]
    for actions, looping in cases:
        assert detect_action_loop(actions) == looping, actions


def test_a_conversation_is_shown_with_its_roles_and_numbers() -> None:
    store = Store()
    store.conversation_history += [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
    ]
    shown = format_conversation_as_chat(store.conversation_history)
    assert shown.startswith("=== CONVERSATION HISTORY ===")
    assert "USER [1]: hi" in shown
    assert "ASSISTANT [2]: hello" in shown


def test_tools_are_documented_with_signature_and_docstring() -> None:
    said = get_tool_documentation({"greet": hello, "mute": lambda state, args: None})
    assert said.startswith("Available tools:")
    assert "Say hello." in said
    assert "No documentation available" in said


# Snippets 9 to 11: extension points -------------------------------------------------------


def counted(state: State) -> tuple[str, int]:
    """Count."""
    return "count", state.get("count", 0) + 1


async def counted_later(state: State) -> tuple[str, int]:
    """Count in its own time."""
    return counted(state)


@pytest.mark.scenario("TAG-24")
@pytest.mark.parametrize("action", [counted, counted_later])
def test_a_custom_action_is_a_function_of_the_state_and_its_update_is_applied(
    action: Callable[..., Any],
) -> None:
    register_custom_action("count", action)
    script = [decision("count"), decision("count", "once more", twice=True), finish()]
    result = run_agent("count", Memo(script), {})
    assert result.state.data == {"count": 2}
    assert [step.observations[0].status for step in result.steps[:2]] == ["success", "success"]


@pytest.mark.scenario("TAG-24")
def test_a_custom_action_works_in_every_agent_under_its_policy() -> None:
    SYSTEM_ACTIONS["count"] = counted
    assert list(SYSTEM_ACTIONS) == ["count"]
    agent = Agent(Memo([act("count"), finish()]), policy=Policy(autonomy="autonomous"))
    assert agent.run_sync("g").state.data == {"count": 1}
    asking = Agent(Memo([act("count"), finish()]))
    assert asking.run_sync("g").status == "waiting"


def test_a_typed_function_whose_parameter_is_called_state_stays_one() -> None:
    def tax(state: str) -> str:
        """The rate of a state."""
        return f"rate of {state}"

    register_custom_action("tax", tax)
    result = run_agent("g", Memo([act("tax", state="Ohio"), finish()]), {})
    assert result.steps[0].observations[0].result == "rate of Ohio"


def test_setting_an_action_again_replaces_it_and_a_bad_one_costs_nothing() -> None:
    SYSTEM_ACTIONS["count"] = counted
    SYSTEM_ACTIONS["count"] = lambda state: ("count", 10)
    with pytest.raises(ConfigError):
        SYSTEM_ACTIONS["count"] = 3  # type: ignore[assignment] # pyright: ignore[reportArgumentType]
    result = run_agent("g", Memo([decision("count"), finish()]), {})
    assert result.state.data == {"count": 10}
    del SYSTEM_ACTIONS["count"]
    assert "count" not in SYSTEM_ACTIONS
    with pytest.raises(KeyError):
        del SYSTEM_ACTIONS["count"]
    forget_action("count")


class MyClient:
    """A client as TAgent's programs write them."""

    asked: list[Any] = []

    def completion(self, model: str, messages: list[dict[str, str]], **options: Any) -> Any:
        MyClient.asked.append((model, messages))
        return SimpleNamespace(content=finish("from my client"))


class OpenAiLike:
    def __init__(self, model: str) -> None:
        self.model = model

    def completion(self, **request: Any) -> dict[str, Any]:
        return {"choices": [{"message": {"content": finish(f"from {self.model}")}}]}


class Silent:
    def completion(self, **request: Any) -> None: ...


class Broken:
    def completion(self, **request: Any) -> None:
        raise OSError("no route")


@pytest.mark.scenario("TAG-25")
def test_a_client_class_is_a_provider() -> None:
    MyClient.asked.clear()
    integrate_custom_llm("mine", MyClient)
    assert LLM_PROVIDERS["mine"] is MyClient
    assert run_agent("g", "mine:large", {}).output == "from my client"
    model, messages = MyClient.asked[0]
    assert model == "large"
    assert [one["role"] for one in messages] == ["system", "user"]
    LLM_PROVIDERS["other"] = OpenAiLike
    assert run_agent("g", "other:small", {}).output == "from small"
    del LLM_PROVIDERS["other"]
    with pytest.raises(ConfigError, match="unknown provider 'other'"):
        run_agent("g", "other:small", {})


@pytest.mark.scenario("TAG-25")
def test_a_client_that_fails_or_says_nothing_is_a_models_failure() -> None:
    LLM_PROVIDERS["silent"] = Silent
    LLM_PROVIDERS["broken"] = Broken
    LLM_PROVIDERS["odd"] = object
    assert "answered without text" in run_agent("g", "silent:x", {}).error
    assert "no route" in run_agent("g", "broken:x", {}).error
    with pytest.raises(ConfigError, match="neither complete nor completion"):
        run_agent("g", "odd:x", {})
    with pytest.raises(ConfigError, match="must be a class"):
        integrate_custom_llm("none", None)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def test_the_documents_client_asks_any_model() -> None:
    model = ScriptedModel(["pong"])
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "ping"}]
    assert llm_client.completion(model=model, messages=messages).content == "pong"
    assert [m.role for m in model.requests[0].messages] == ["system", "user"]
    with pytest.raises(ConfigError, match="'tool'"):
        llm_client.completion(model=model, messages=[{"role": "tool", "content": "x"}])
    with pytest.raises(ModelError):
        llm_client.completion(ScriptedModel([ModelError("down")]), messages)


def test_every_name_is_there_and_the_front_door_is_the_same() -> None:
    import taofold

    assert all(hasattr(tagent, name) for name in tagent.__all__)
    assert taofold.run_agent is run_agent
    assert "taofold.compat.tagent" in sys.modules


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("query_llm", ["prompt", "model"]),
        ("run_agent", ["goal", "model", "tools"]),
        ("detect_action_loop", ["recent_actions", "max_recent"]),
        ("format_conversation_as_chat", ["conversation_history"]),
        ("get_tool_documentation", ["tools"]),
        ("register_custom_action", ["action_name", "action_func"]),
        ("integrate_custom_llm", ["provider_name", "client_class"]),
    ],
)
def test_parameters_have_the_documents_names(name: str, parameters: list[str]) -> None:
    """A program that passes them by name gets no warning."""
    signature = inspect.signature(getattr(tagent, name))
    assert list(signature.parameters)[: len(parameters)] == parameters
    signature.bind(**dict.fromkeys(parameters))


def test_limits_and_strategy_of_the_caller_are_kept() -> None:
    result = run_agent("g", Memo([finish("x")]), {}, strategy="react")
    assert result.output == "x"
    with pytest.raises(ConfigError, match="pass max_iterations"):
        run_agent("g", Memo([]), {}, limits=Limits(steps=1))


def test_a_key_of_the_caller_is_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []

    def connect(name: str, **options: Any) -> ScriptedModel:
        given.append(options)
        return ScriptedModel([decision("evaluate"), verdict(True), "Hello."])

    monkeypatch.setattr(registry, "_registered", {**registry._registered, "openai": connect})
    result = run_agent("Say hello.", "openai:gpt-5-mini", api_key="sk-of-the-caller")
    assert given[0]["api_key"] == "sk-of-the-caller"
    assert "sk-of-the-caller" not in str(result.records)


@pytest.mark.parametrize("kind", [str, Literal["yes", "no"]])
def test_a_text_of_a_given_type_is_exactly_of_it(kind: Any) -> None:
    result = run_agent("g", ScriptedModel([finish("no")]), output_format=kind)
    assert type(result.output) is str
    assert result.output == "no"
