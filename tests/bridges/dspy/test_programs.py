"""Features that work without DSPy: programs, versions, fallbacks, hints, actions of flows."""

import contextlib
import importlib.util
import json
from datetime import date
from typing import Any, Literal

import msgspec
import pytest
from pydantic import BaseModel, Field, TypeAdapter

from taofold import Agent, Limits, tool
from taofold.actions import build_actions_registry
from taofold.bridges import dspy
from taofold.bridges.dspy.compilation import MetricScore, metric_of, read_score
from taofold.bridges.dspy.program import plain_program
from taofold.bridges.dspy.signature import written_of
from taofold.core.errors import ConfigError, ModelError
from taofold.files.types import type_of
from taofold.log.memory import MemoryLog
from taofold.runtime.control import steer
from taofold.testing.models import FunctionModel, ScriptedModel
from tests.files.flow.kit import faults, flow

pytestmark = pytest.mark.anyio
OWN = dspy.signature("question -> answer: int", "Add the numbers.")
DEMOS = ({"question": "1 + 1", "reasoning": "one and one", "answer": 2},)


def made(demos: tuple[dict[str, Any], ...] = DEMOS) -> dspy.Program:
    base = plain_program(OWN, "cot")
    predictor = msgspec.structs.replace(base.predictors[0], demos=demos)
    return msgspec.structs.replace(base, predictors=(predictor,), teleprompter="by hand")


def said(**values: Any) -> str:
    return json.dumps(values)


def test_this_environment_has_no_dspy():
    assert importlib.util.find_spec("dspy") is None


# Signatures ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("question", "no single '->'"),
        ("a -> b -> c", "no single '->'"),
        ("-> answer", "1 to 50 fields"),
        ("a -> ", "1 to 50 fields"),
        ("a -> a", "two fields 'a'"),
        ("a=1 -> b", "no list of fields"),
        ("*a -> b", "no list of fields"),
        ("a b -> c", "no list of fields"),
        ("a): pass #-> b", "no list of fields"),
        ("a -> b: Nothing", "unknown type 'Nothing'"),
        ("a: __import__('os').system('true') -> b", "unknown type"),
        ("a -> model_dump", "cannot be the name"),
        ("lm -> a", "cannot be the name"),
        ("_a -> b", "cannot be the name"),
    ],
)
def test_what_is_no_signature_is_refused_and_nothing_in_it_runs(text, why):
    with pytest.raises(ConfigError, match=why.replace("(", r"\(")):
        dspy.signature(text)


def test_a_signature_has_types_and_says_itself():
    own = dspy.signature("q, n: int -> kind: Literal['a', 'b'], rows: list[int], note: str | None")
    assert str(own) == "q, n: int -> kind: Literal['a', 'b'], rows: list[int], note: str | null"
    assert own.task == "Given the fields `q`, `n`, produce the fields `kind`, `rows`, `note`."
    assert own.outputs[0].type == {"type": "string", "enum": ["a", "b"]}


def test_types_come_back_from_their_written_form_or_are_any():
    class Row(BaseModel):
        name: str = Field(description="of the row")
        kinds: list[Literal["a", "b"]]

    class Endless(BaseModel):
        inner: "Endless | None"

    types = (str, int, dict[str, Any], int | None, Endless, int | list[int], date)
    assert [written_of(one) for one in types] == [
        "str", "integer", "object", {"type": ["integer", "null"]}, "any", "any", "string",
    ]  # fmt: skip
    assert written_of(list[int]) == {"type": "array", "items": "integer"}
    kept = written_of(Row | None)
    assert kept == "any"
    again = TypeAdapter(type_of(written_of(Row))).validate_python({"name": "x", "kinds": ["a"]})
    assert again.model_dump() == {"name": "x", "kinds": ["a"]}
    assert written_of(Row)["properties"]["name"]["description"] == "of the row"


# Programs ------------------------------------------------------------------------------


@pytest.mark.scenario("TEA-30")
def test_export_and_import_keep_the_version_however_often():
    program = made()
    once = program.export()
    again = dspy.imported(json.dumps(once))
    assert again == program
    assert again.export() == once
    assert once["version"] == program.version == again.version
    assert len(program.version) == 12
    assert json.loads(json.dumps(once)) == once, "plain JSON"


def test_the_version_is_of_what_a_model_is_sent():
    program = made()
    assert made(()).version != program.version
    scored = msgspec.structs.replace(program, scores={"after": 1.0}, teleprompter="another")
    assert scored.version == program.version


def test_a_program_that_was_changed_is_refused_unless_its_version_is_dropped():
    changed = made().export()
    changed["predictors"][0]["demos"][0]["answer"] = 3
    with pytest.raises(ConfigError, match="it was changed"):
        dspy.imported(changed)
    changed.pop("version")
    assert dspy.imported(changed).predictors[0].demos[0]["answer"] == 3


@pytest.mark.parametrize(
    "bad",
    [
        None, 3, "no JSON", "[]", {}, {"format": "taofold.dspy/2"},
        {**made().export(), "module": "custom"},
        {**made().export(), "predictors": []},
        {**made().export(), "pickle": "x"},
        {**made().export(), "module": "react", "version": ""},
    ],
)  # fmt: skip
def test_what_is_no_program_is_refused(bad):
    with pytest.raises(ConfigError, match="program"):
        dspy.imported(bad)


def test_a_file_that_dspy_saved_is_read():
    state = {
        "predict": {
            "traces": [], "train": [],
            "demos": [{"augmented": True, "question": "1 + 1", "reasoning": "r", "answer": 2}],
            "signature": {"instructions": "Add.", "fields": []}, "lm": None,
        },
        "metadata": {"dependency_versions": {"dspy": "3.4.1"}},
    }  # fmt: skip
    program = dspy.from_dspy(state, OWN, "cot")
    assert program.predictors[0].signature.instructions == "Add."
    assert program.predictors[0].demos == ({"question": "1 + 1", "reasoning": "r", "answer": 2},)
    with pytest.raises(ConfigError, match="missing"):
        dspy.from_dspy({}, OWN, "cot")


# Running without DSPy -------------------------------------------------------------------


@pytest.mark.scenario("TEA-30")
@pytest.mark.document_item("004.dspy.prompts")
async def test_a_compiled_program_is_asked_with_its_instructions_and_demos():
    model = ScriptedModel([said(reasoning="I add", answer=5)])
    result = await dspy.cot("2 + 3", program=made().export(), model=model)
    assert result.answer == 5
    assert result.thinking == "I add"
    system, *shown, last = model.requests[0].messages
    assert system.content.startswith("Add the numbers.")
    assert [m.role for m in shown] == ["user", "assistant"]
    assert json.loads(shown[1].content) == {"reasoning": "one and one", "answer": 2}
    assert last.content == "question:\n2 + 3"


async def test_a_reply_that_does_not_fit_is_corrected_and_the_run_replays():
    wrong, right = said(reasoning="I add", answer="five"), said(reasoning="", answer=5)
    model = ScriptedModel(["no idea", wrong, right])
    agent = Agent(model, strategy=dspy.Compiled(program=made()), output=Any)
    result = await agent.run("2 + 3")
    assert result.output == 5
    assert [record.event.rule for record in result.records if hasattr(record.event, "rule")] == [
        "unreadable", "unreadable",
    ]  # fmt: skip
    assert (await agent.replay(result)).output == 5


@pytest.mark.scenario("TEA-27")
async def test_a_compiled_program_leaves_a_trace_of_spans():
    model = ScriptedModel([said(reasoning="I add", answer=5)])
    result = await dspy.cot("2 + 3", program=made(), model=model)
    entries = [json.loads(json.dumps(entry)) for entry in result.trace]
    ids = {entry["id"] for entry in entries}
    assert [entry["type"] for entry in entries].count("model") == 1
    for entry in entries:
        wanted = {"version", "id", "parent", "step", "timestamp", "name", "type", "input", "output"}
        assert wanted | {"usage", "start", "end"} <= entry.keys()
        assert entry["parent"] in ids or entry["type"] == "run"


async def test_a_model_that_never_fits_is_an_error_not_an_answer():
    result = await dspy.cot("2 + 3", program=made(), model=FunctionModel(lambda _: "no idea"))
    assert not result.success
    assert "no usable reply" in result.error


async def test_several_inputs_are_given_by_name_or_as_json_and_none_may_be_missing():
    own = dspy.signature("question, context -> answer")
    model = FunctionModel(lambda r: said(reasoning="", answer=r.conversation[-1].content))
    result = await dspy.cot({"question": "q", "context": "c"}, signature=own, model=model)
    assert result.answer == "question:\nq\n\ncontext:\nc"
    program = plain_program(own, "cot")
    agent = Agent(model, strategy=dspy.Compiled(program=program), output=Any)
    assert (await agent.run('{"question": "q", "context": "c"}')).success
    lost = await agent.run("q")
    assert "'question' is missing" in lost.error
    odd = await dspy.cot({"question": "q", "context": "c", "x": 1}, program=program, model=model)
    assert "no input 'x'" in odd.error
    with pytest.raises(ConfigError, match="several inputs"):
        await dspy.cot("q", signature=own, model=model)


async def test_what_a_person_says_meanwhile_and_the_agents_instructions_are_in_the_prompt():
    model = ScriptedModel([said(reasoning="", answer=5)])
    agent = Agent(
        model, strategy=dspy.Compiled(program=made()), output=int, instructions="Be kind."
    )
    result = await agent.run("2 + 3")
    assert result.output == 5
    assert model.requests[0].messages[0].content.startswith("Be kind.\n\nAdd the numbers.")


# Fallback and hints ---------------------------------------------------------------------

FALLBACK = """
nodes:
  - name: think
    uses: reason.dspy.cot
    with: {problem: "{{ goal }}", signature: "question -> answer: int"}
  - name: act
    action: actions.reason_dspy_react
    with: {goal: "{{ goal }}", tools: [look]}
result: "{{ [state.think, state.act] }}"
"""


@pytest.mark.scenario("TEA-29")
@pytest.mark.document_item("004.dspy.fallback", "004.dspy.optional")
async def test_without_dspy_cot_and_react_run_natively_and_say_so(tmp_path):
    looked: list[str] = []

    @tool(effect="read")
    def look(where: str) -> str:
        """Look somewhere."""
        looked.append(where)
        return "a key"

    calls = [("look", {"where": "here"}), ("finish", {"answer": "key"})]
    acted = [
        {"thought": "go on", "thought_type": "progress", "action": {"tool": t, "parameters": p}}
        for t, p in calls
    ]
    script = iter([said(reasoning="I add", answer=5), *map(json.dumps, acted)])
    document = FALLBACK.replace("nodes:", "tools: []\nnodes:")
    agent = flow(document.replace(", tools: [look]", ""), tmp_path, lambda _: next(script))
    result = await agent.replace(tools=[*agent.tools, look]).run("2 + 3")
    assert result.success, result.error
    think, act = result.output
    assert (think["answer"], think["thinking"]) == (5, "I add")
    assert think["dspy_module"] == act["dspy_module"] == "native_fallback"
    assert (act["final_answer"], act["total_steps"]) == ("key", 1)
    assert looked == ["here"]
    assert act["react_steps"][0]["action_input"] == {"where": "here"}
    assert result.state.data["reasoning_thinking"] == "I add"


COMPILE = """
settings: {{dspy: {{teleprompter: GEPA}}}}
nodes:
  - name: learn
    uses: reason.dspy.{0}
    with: {{training_data: {1}}}
"""


@pytest.mark.scenario("TEA-29")
@pytest.mark.parametrize("verb", ["compile", "optimize"])
async def test_without_dspy_compiling_says_how_to_install_it(tmp_path, verb):
    data = '[{question: "1 + 1", answer: "2"}]'
    result = await flow(COMPILE.format(verb, data), tmp_path).run("go")
    assert not result.success
    assert "pip install 'taofold[dspy]'" in result.error
    assert result.state.model_calls == 0
    with pytest.raises(ConfigError, match=r"pip install 'taofold\[dspy\]'"):
        await dspy.compile("question -> answer", [{"question": "a", "answer": "b"}],
                           model=ScriptedModel([]))  # fmt: skip


@pytest.mark.scenario("TEA-29")
async def test_an_old_dspy_is_as_good_as_none_and_the_hint_says_so(tmp_path, monkeypatch):
    # A package on disk. The test imports none of it.
    info = tmp_path / "dspy-2.6.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dspy\nVersion: 2.6.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    data = '[{question: "1 + 1", answer: "2"}]'
    result = await flow(COMPILE.format("compile", data), tmp_path).run("go")
    assert "DSPy 2.6.0 is installed, this needs 3.4" in result.error
    answer = lambda _: said(reasoning="r", answer="yes")  # noqa: E731
    text = "nodes: [{name: a, uses: reason.dspy.cot, with: {problem: x}}]"
    result = await flow(text, tmp_path, answer).run("go")
    assert result.output["dspy_module"] == "native_fallback"


@pytest.mark.scenario("TEA-30")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("[]", "compiling needs worked examples"),
        ("[{answer: x}]", "lacks the input 'question'"),
        ("[{question: x}]", "none of the outputs"),
    ],
)
async def test_compiling_without_usable_data_is_an_error(tmp_path, data, why):
    result = await flow(COMPILE.format("compile", data), tmp_path).run("go")
    assert why in result.error
    assert result.state.model_calls == 0


KEPT = """
nodes:
  - name: taken
    uses: reason.dspy.import
    with: {program: "{{ variables.program }}", compiled_key: sums}
  - name: listed
    uses: reason.dspy.list_compiled
  - name: given
    uses: reason.dspy.export
    with: {compiled_key: sums}
  - name: ask
    uses: reason.dspy.cot
    with: {problem: "{{ goal }}", compiled_key: sums}
result: "{{ [state.taken, state.listed, state.given, state.ask] }}"
variables: {program: PROGRAM}
"""


@pytest.mark.scenario("TEA-30")
@pytest.mark.document_item("004.compile.persist")
async def test_a_flow_imports_lists_exports_and_uses_a_program(tmp_path):
    program = made()
    asked: list[str] = []

    def say(request: Any) -> str:
        asked.append("\n".join(m.content for m in request.conversation))
        return said(reasoning="r", answer=5)

    text = KEPT.replace("PROGRAM", json.dumps(program.export()))
    result = await flow(text, tmp_path, say).run("2 + 3")
    assert result.success, result.error
    taken, listed, given, ask = result.output
    assert taken["version"] == listed[0]["version"] == ask["version"] == program.version
    assert listed[0]["compiled_key"] == "sums"
    assert (listed[0]["module"], listed[0]["demos"]) == ("cot", 1)
    assert dspy.imported(given) == program
    assert ask["answer"] == 5
    assert "one and one" in asked[0]
    assert dspy.list_compiled(result.records) == {"sums": program}


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ("{name: a, uses: reason.dspy.cot, with: {problem: x, compiled_key: none}}",
         "nothing is compiled as 'none'; there are: none"),
        ("{name: a, uses: reason.dspy.export, with: {compiled_key: none}}", "nothing is compiled"),
        ("{name: a, uses: reason.dspy.import, with: {program: 3}}", "is no compiled program"),
        ("{name: a, uses: reason.dspy.cot, with: {problem: x, signature: nothing}}", "no single"),
        ("{name: a, uses: reason.dspy.cot}", "needs 'problem' or 'inputs'"),
        ("{name: a, uses: reason.dspy.cot, with: {problem: x, signature: 'a, b -> c'}}", "several"),
    ],
)  # fmt: skip
async def test_faults_of_a_node_are_told_without_asking_a_model(tmp_path, node, why):
    result = await flow(f"nodes: [{node}]", tmp_path).run("go")
    assert why in result.error
    assert result.state.model_calls == 0


def test_settings_stand_in_for_keys_and_unknown_ones_are_faults(tmp_path):
    found = faults("settings: {dspy: {colour: red}}\nnodes: [{name: a, set: {b: 1}}]", tmp_path)
    assert "colour" in str(found[0])
    found = faults("settings: {dspy: {adapter: xml}}\nnodes: [{name: a, set: {b: 1}}]", tmp_path)
    assert found


@pytest.mark.parametrize(
    "given",
    ["metric: '{{ state.x }}'", "teleprompter: '{{ state.x }}'", "options: {a: '{{ goal }}'}"],
)
def test_what_names_code_cannot_come_from_a_model(tmp_path, given):
    data = "training_data: [{question: a, answer: b}]"
    text = f"nodes: [{{name: a, uses: reason.dspy.compile, with: {{{data}, {given}}}}}]"
    assert "a setting is read once" in str(faults(text, tmp_path)[0])


async def test_settings_choose_the_model(tmp_path):
    text = (
        "settings: {dspy: {model: other}}\n"
        "nodes: [{name: a, uses: reason.dspy.cot, with: {problem: x}}]"
    )
    agent = flow(text, tmp_path, lambda _: said(reasoning="", answer="no"))
    other = FunctionModel(lambda _: said(reasoning="", answer="yes"), name="openai:other")
    result = await agent.replace(models={"other": other}).run("go")
    assert result.output["answer"] == "yes"
    assert result.output["model"] == "openai:other"


EXAMPLE = (
    "nodes: [{name: a, uses: reason.dspy.cot, with: {problem: 'what is 2 + 2', "
    "signature: 'question -> thinking, answer', few_shot_examples: [%s]}}]"
)


async def test_worked_cases_are_shown_and_several_outputs_are_keys(tmp_path):
    seen = []

    def reply(request):
        seen.append(request)
        return said(reasoning="r", thinking="counted", answer="4")

    text = EXAMPLE % "{question: q1, thinking: t1, answer: a1}, {problem: q2, answer: a2}"
    result = await flow(text, tmp_path, reply).run("go")
    assert result.output["answer"] == "4"
    assert result.output["thinking"] == "counted"
    assert result.output["reasoning_answer"] == {"thinking": "counted", "answer": "4"}
    shown = "\n".join(message.text for message in seen[0].conversation)
    assert all(text in shown for text in ("q1", "t1", "a1", "q2", "a2"))


async def test_a_worked_case_with_an_unknown_field_fails_the_node(tmp_path):
    result = await flow(EXAMPLE % "{colour: red}", tmp_path, lambda _: "").run("go")
    assert "few_shot_examples[0]: there is no field 'colour'" in result.error


async def test_a_compilation_that_fails_says_so_in_its_value(tmp_path):
    data = "training_data: [{question: a, answer: b}]"
    text = (
        f"nodes: [{{name: a, uses: reason.dspy.compile, with: {{{data}, enabled: false}}, "
        "on_error: {then: continue}}]"
    )
    result = await flow(text, tmp_path, lambda _: "").run("go")
    assert result.state.data["a"]["compiled"] is False
    assert "needs DSPy" in result.state.data["a"]["error"]


def test_every_action_has_both_names():
    actions = build_actions_registry()
    names = [name for name in actions if name.startswith("reason.dspy.")]
    assert names == [f"reason.dspy.{one}" for one in (
        "cot", "react", "compile", "optimize", "list_compiled", "export", "import")]  # fmt: skip
    assert actions["actions.reason_dspy_list_compiled"] is actions["reason.dspy.list_compiled"]


async def test_a_limit_stops_a_compiled_program(tmp_path):
    agent = Agent(ScriptedModel([]), strategy=dspy.Compiled(program=made()), output=Any)
    for name in ("model_calls", "steps"):
        result = await agent.replace(limits=Limits(**{name: 0})).run("2 + 3")
        assert result.stop_reason == f"max_{name}"
        assert not result.success


# Metrics --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected", "got", "value"),
    [
        ("exact_match", "Two", " two ", 1.0), ("exact_match", "2", "3", 0.0),
        ("exact_match", "two words", "two  words", 1.0), ("presence", "two", "It is Two.", 1.0),
        ("presence", "two", "three", 0.0),
    ],
)  # fmt: skip
def test_named_metrics(name, expected, got, value):
    own = dspy.signature("q -> answer")
    score = metric_of(name, own)({"q": "x", "answer": expected}, {"answer": got})
    assert score.value == value
    assert value == 1.0 or "should be" in score.feedback


def test_a_metric_may_say_why_and_what_is_no_score_is_refused():
    own = dspy.signature("q -> answer")
    assert metric_of(lambda case, made: (0.5, "half"), own)({}, {}) == MetricScore(0.5, "half")
    assert read_score(True) == MetricScore(1.0)
    for bad in ("x", None, float("nan")):
        with pytest.raises(ConfigError):
            read_score(bad)
    with pytest.raises(ConfigError, match="unknown metric 'best'"):
        metric_of("best", own)
    assert metric_of("tests.bridges.dspy.test_programs:half", own)({}, {}).value == 0.5


def test_a_metric_of_dspys_gets_what_dspy_adds_and_one_of_two_arguments_does_not():
    own = dspy.signature("q -> answer")

    def grades(case: Any, made: Any, trace: Any = None) -> Any:
        return 0.4 if trace is None else False

    judge = metric_of(grades, own)
    assert judge({}, {}).value == 0.4
    assert judge({}, {}, trace=[], pred_name="x", pred_trace=[]).value == 0.0
    assert metric_of(half, own)({}, {}, trace=[]).value == 0.5
    assert metric_of("exact_match", own)({"items": 1}, {"items": 1}, trace=[]).value == 1.0


def half(case: Any, prediction: Any) -> float:
    return 0.5


def test_a_channel_is_answered_once_and_ends_with_its_generator():
    from taofold.bridges.dspy.effects import run_in_thread

    seen: list[Any] = []

    def program(channel: Any) -> int:
        try:
            seen.append(channel.ask(1))
            with contextlib.suppress(Exception):
                channel.ask(2)
            seen.append("went on")
            return 1
        finally:
            seen.append("ended")

    talk = run_in_thread(program)
    assert next(talk) == 1
    assert talk.send("one") == 2
    talk.close()
    ended(seen)
    failing = run_in_thread(lambda channel: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        next(failing)


def ended(seen: list[Any]) -> None:
    import threading

    for thread in threading.enumerate():
        if thread.name == "taofold-dspy":
            thread.join(10)
    assert seen == ["one", "ended"]


# ReAct without DSPy -----------------------------------------------------------------------

CHOOSE = dspy.Signature(
    (dspy.Slot("goal"), dspy.Slot("trajectory")),
    (
        dspy.Slot("next_thought"),
        dspy.Slot("next_tool_name", {"type": "string", "enum": ["look", "finish"]}),
        dspy.Slot("next_tool_args", "object"),
    ),
    "Use the tools, then finish.",
)
EXTRACT = dspy.Signature(
    (dspy.Slot("goal"), dspy.Slot("trajectory")),
    (dspy.Slot("reasoning"), dspy.Slot("answer")),
    "Answer from the trajectory.",
)
REACT = dspy.Program(
    module="react",
    predictors=(dspy.Predictor("react", CHOOSE), dspy.Predictor("extract.predict", EXTRACT)),
)


def chosen(tool: str, **given: Any) -> str:
    return said(next_thought="go", next_tool_name=tool, next_tool_args=given)


@tool(effect="read")
def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing in {where}"


def seeker(model: Any, **more: Any) -> Agent[Any, Any]:
    return Agent(model, strategy=dspy.Compiled(program=REACT), output=Any, tools=[look], **more)


async def test_the_oldest_steps_go_when_the_trajectory_does_not_fit():
    end = said(reasoning="I looked", answer="not there")
    too_long = ModelError("too long", kind="overflow")
    script = [chosen("look", where="a"), chosen("look", where="b"), too_long, chosen("finish"), end]
    model = ScriptedModel(script)
    result = await seeker(model).run("find it")
    assert (result.output, result.success) == ("not there", True)
    assert "nothing in a" in model.requests[2].last
    for later in model.requests[3:]:
        assert "nothing in a" not in later.last
        assert "nothing in b" in later.last


async def test_what_a_tool_refuses_is_told_to_the_program_and_it_goes_on():
    end = said(reasoning="r", answer="a")
    model = ScriptedModel([chosen("look", place="a"), chosen("finish"), end])
    result = await seeker(model).run("find it")
    assert result.success
    assert result.steps[0].observations[0].refused == "invalid"
    assert "[failure]" in model.requests[1].last


async def test_what_a_person_says_reaches_every_later_question():
    heard: list[str] = []
    run: list[str] = []

    async def say(request: Any) -> str:
        heard.append(request.conversation[-1].content)
        if len(heard) == 1:
            await steer(log, run[0], "look in the cellar")
            return chosen("look", where="a")
        if len(heard) == 2:
            return chosen("finish")
        return said(reasoning="r", answer="a")

    log = MemoryLog()
    run.append("steered")
    result = await seeker(FunctionModel(say), log=log).run("find it", run_id="steered")
    assert result.success
    assert "cellar" not in heard[0]
    assert "cellar" in heard[1]
    assert "cellar" in heard[2]
