"""The Thought–Action–Observation rules, as a user of an agent sees them."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from taofold import Agent, Limits, MemoryLog, Outcome, RunContext, RunResult, tool
from taofold.cli.render.story import PlainVoice
from taofold.core import events
from taofold.core.checklist import check
from taofold.core.state import fold
from taofold.core.trace import turns
from taofold.log.formats.export import export, read
from taofold.testing import ScriptedModel
from tests.terminal import Taofold, enter, taofold

__all__ = ["taofold"]

FOUND = (
    "src/auth/authenticate.ts:42: export function authenticate\n"
    "src/auth/middleware.ts:15: import authenticate\n"
)
GOOD = (
    "The error message indicates a token expiration issue. I should check the token TTL "
    "configuration in the auth module because the default TTL is likely too short."
)


@tool(effect="read")
def grep(pattern: str, path: str) -> str:
    """Search a folder."""
    return FOUND


@tool(effect="read")
def look(at: str = "config") -> str:
    """Look at a file."""
    if at == "nowhere":
        raise FileNotFoundError("nowhere is missing")
    return f"TTL_{at} = 60"


@tool(effect="read")
def half() -> Outcome:
    """Do a half of the work."""
    return Outcome("3 of 6 files", status="partial")


@tool(effect="read", timeout=0.01)
async def slow() -> str:
    """Wait for a lock."""
    await asyncio.Event().wait()
    return ""


def reply(name: str, /, thought: str | None = "", kind: str = "reasoning", **more: Any) -> str:
    """Returns a reply with one action. A thought of None is left out."""
    action = {"tool": name, "parameters": more.pop("parameters", {}), "rationale": "it is needed"}
    whole = {"thought": thought or f"I use {name} to learn the TTL", "thought_type": kind, **more}
    if thought is None:
        del whole["thought"]
    return json.dumps({**whole, "action": action})


END = reply("finish", "TTL_config is 60", "synthesis", parameters={"answer": "60"}, learned="60")


def run(*script: str, **options: Any) -> RunResult[Any]:
    options.setdefault("tools", [grep, look, half, slow])
    return Agent(ScriptedModel([*script, END]), log=MemoryLog(), **options).run_sync("Find the TTL")


def broken(result: RunResult[Any]) -> list[tuple[str, bool]]:
    found = [record.event for record in result.records]
    return [(one.rule, one.refused) for one in found if isinstance(one, events.Violated)]


def failing(records: Any) -> dict[str, tuple[int, ...]]:
    return {item.name: item.steps for item in check(records) if not item.passed}


def written(result: RunResult[Any]) -> dict[str, Any]:
    made: dict[str, Any] = YAML(typ="safe").load(export(result.records, "tao-yaml"))
    return made["ralph_tao_log"]


SEARCH = reply(
    "grep",
    "I need to find the authentication module to fix the token issue",
    confidence=0.85,
    parameters={"pattern": "authenticate", "path": "src/"},
)


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        pytest.param(
            "thought", "type", "reasoning", marks=pytest.mark.document_item("000.thought.type")
        ),
        pytest.param(
            "thought",
            "content",
            "I need to find the authentication module to fix the token issue",
            marks=pytest.mark.document_item("000.thought.content", "000.thought.express"),
        ),
        pytest.param(
            "thought", "confidence", 0.85, marks=pytest.mark.document_item("000.thought.confidence")
        ),
        pytest.param("action", "tool", "grep", marks=pytest.mark.document_item("000.action.tool")),
        pytest.param(
            "action",
            "parameters",
            {"pattern": "authenticate", "path": "src/"},
            marks=pytest.mark.document_item("000.action.parameters"),
        ),
        pytest.param(
            "action",
            "rationale",
            "it is needed",
            marks=pytest.mark.document_item("000.action.rationale"),
        ),
        pytest.param(
            "observation",
            "result",
            FOUND,
            marks=pytest.mark.document_item(
                "000.observation.result",
                "000.observation.must.result",
                "000.observation.capture",
            ),
        ),
        pytest.param(
            "observation",
            "status",
            "success",
            marks=pytest.mark.document_item("000.observation.status", "000.observation.success"),
        ),
    ],
)
def test_a_run_is_exported_with_the_fields_of_the_detailed_format(
    part: str, field: str, value: Any
) -> None:
    (first, _) = written(run(SEARCH))["iterations"]
    assert first[part][field] == value


@pytest.mark.document_item(
    "000.thought.timestamp",
    "000.action.timestamp",
    "000.observation.timestamp",
    "000.observation.duration",
    "000.action.timing",
    "000.order",
)
def test_the_times_of_an_iteration_are_in_order_and_in_milliseconds() -> None:
    (first, _) = written(run(SEARCH))["iterations"]
    assert list(first)[-3:] == ["thought", "action", "observation"]
    times = [first[part]["timestamp"] for part in ("thought", "action", "observation")]
    assert all(len(time) == len("2026-01-25T10:30:01.150Z") for time in times)
    assert times == sorted(times)
    assert first["observation"]["duration_ms"] > 0


@pytest.mark.document_item(
    "000.iteration.number", "000.log.loop_id", "000.log.task", "000.log.iterations", "000.log.all"
)
def test_the_log_has_its_loop_its_task_and_every_iteration() -> None:
    result = run(SEARCH, reply("look"), reply("half"))
    log = written(result)
    assert (log["loop_id"], log["task"]) == (result.run_id, "Find the TTL")
    assert [one["iteration"] for one in log["iterations"]] == [1, 2, 3, 4]
    tools = [one["action"]["tool"] for one in log["iterations"]]
    assert tools == ["grep", "look", "half", "finish"]
    assert all({"thought", "action", "observation"} <= set(one) for one in log["iterations"])


@pytest.mark.document_item("000.thought.types", "000.metric.thought_type_distribution")
def test_each_of_the_six_types_is_accepted_and_counted_and_no_other_is() -> None:
    kinds = ("goal", "progress", "extraction", "reasoning", "exception", "synthesis")
    result = run(*[reply("look", kind=kind, parameters={"at": kind}) for kind in kinds])
    assert broken(result) == []
    distribution = result.metrics.thought_type_distribution
    assert distribution == {**dict.fromkeys(kinds, 1), "synthesis": 2}
    other = run(reply("look", kind="musing"))
    assert broken(other) == [("thought_type", False)]


@pytest.mark.document_item("000.thought.must.type", "000.thought.classify", "000.check.typed")
def test_a_missing_type_is_inferred_marked_and_found_by_the_checklist() -> None:
    untyped = json.loads(reply("look"))
    del untyped["thought_type"]
    result = run(json.dumps(untyped))
    assert result.steps[0].thought.type == "reasoning"
    assert result.steps[0].thought.inferred
    assert failing(result.records)["typed_thoughts"] == (1,)
    assert "typed_thoughts" not in failing(run(reply("look")).records)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        pytest.param("half", "partial", marks=pytest.mark.document_item("000.observation.partial")),
        pytest.param("slow", "timeout", marks=pytest.mark.document_item("000.observation.timeout")),
        pytest.param(
            "look",
            "failure",
            marks=pytest.mark.document_item("000.observation.failure", "000.failure.logged"),
        ),
    ],
)
@pytest.mark.document_item("000.observation.classify")
def test_the_status_follows_from_the_end_of_the_call(name: str, status: str) -> None:
    parameters = {"at": "nowhere"} if name == "look" else {}
    result = run(reply(name, parameters=parameters))
    assert result.steps[0].observations[0].status == status
    assert written(result)["iterations"][0]["observation"]["status"] == status


@pytest.mark.parametrize(
    ("thought", "fails"),
    [
        pytest.param(GOOD, False, marks=pytest.mark.document_item("000.thought.good")),
        pytest.param(
            "Looking at the code.",
            True,
            marks=pytest.mark.document_item("000.thought.bad", "000.thought.must.intent"),
        ),
        pytest.param(
            "The build failed. Continuing.",
            True,
            marks=pytest.mark.document_item("000.thought.must.intent"),
        ),
    ],
)
def test_the_examples_of_a_thought(thought: str, fails: bool) -> None:
    assert ("typed_thoughts" in failing(run(reply("look", thought)).records)) is fails


@pytest.mark.parametrize(
    ("rationale", "fails"),
    [
        pytest.param(
            "Checking TTL configuration value",
            False,
            marks=pytest.mark.document_item("000.action.good"),
        ),
        pytest.param("Reading the file", True, marks=pytest.mark.document_item("000.action.bad")),
        pytest.param("", True, marks=pytest.mark.document_item("000.action.must.rationale")),
    ],
)
def test_the_examples_of_an_action(rationale: str, fails: bool) -> None:
    made = json.loads(reply("look"))
    made["action"]["rationale"] = rationale
    point = "actions_with_tool_and_parameters"
    assert (point in failing(run(json.dumps(made)).records)) is fails


@pytest.mark.parametrize(
    ("result", "fails"),
    [
        pytest.param(
            "TOKEN_TTL = 60 // seconds",
            False,
            marks=pytest.mark.document_item("000.observation.good"),
        ),
        pytest.param(
            "Got the result", True, marks=pytest.mark.document_item("000.observation.bad")
        ),
    ],
)
def test_the_examples_of_an_observation(result: str, fails: bool) -> None:
    @tool(effect="read")
    def peek() -> str:
        """Peek."""
        return result

    records = run(reply("peek"), tools=[peek]).records
    assert ("observations_with_status_and_result" in failing(records)) is fails


@pytest.mark.document_item("000.action.must.tool", "000.action.select")
def test_an_action_without_a_tool_or_with_an_unknown_one_runs_nothing() -> None:
    result = run(reply(""), reply("glance"))
    texts = [str(step.observations[0].result) for step in result.steps[:2]]
    assert "tool" in texts[0]
    assert "available tools: grep, half, look, slow" in texts[1]
    assert result.state.tool_calls == 0


@pytest.mark.document_item("000.action.must.parameters", "000.action.validate")
def test_every_missing_parameter_is_named_and_nothing_runs() -> None:
    result = run(reply("grep"))
    observation = result.steps[0].observations[0]
    assert observation.status == "failure"
    assert "pattern" in str(observation.result)
    assert "path" in str(observation.result)
    assert result.state.tool_calls == 0


@pytest.mark.document_item("000.rule1.strict", "000.thought.validate")
def test_a_strict_run_asks_for_a_thought_before_the_action() -> None:
    result = run(reply("look", None), reply("look"), strict=True)
    assert broken(result) == [("R1", True)]
    assert result.steps[0].thought.content == "I use look to learn the TTL"
    assert result.state.tool_calls == 1


@pytest.mark.document_item("000.rule1.lenient", "000.rule1.checked", "000.check.triplets")
def test_a_lenient_run_records_and_the_checklist_finds_a_missing_thought() -> None:
    result = run(reply("look", None))
    assert broken(result) == [("R1", False)]
    assert result.steps[0].thought.synthesized
    assert failing(result.records)["complete_triplets"] == (1,)


@pytest.mark.document_item("000.rule2")
@pytest.mark.parametrize("strict", [True, False])
def test_a_thought_without_an_action_is_asked_again(strict: bool) -> None:
    bare = '{"thought": "I should check the config file.", "thought_type": "reasoning"}'
    result = run(bare, END, strict=strict)
    assert broken(result)[0] == ("R2", True)
    assert len(result.steps) == 1


@pytest.mark.document_item("000.rule2.end", "000.rule3", "000.scope.agents")
def test_every_iteration_is_a_triplet_and_the_last_action_is_finish() -> None:
    result = run(SEARCH, reply("look"))
    assert [len(step.actions) == len(step.observations) == 1 for step in result.steps] == [True] * 3
    assert all(step.thought.content for step in result.steps)
    assert result.steps[-1].actions[0].tool == "finish"


@pytest.mark.document_item("000.rule2.imported", "000.text.read")
def test_the_labels_of_the_canonical_format_are_read_in_a_reply() -> None:
    thought = "THOUGHT: I check the config file for the TTL value."
    text = f'{thought}\nACTION: look\nACTION INPUT: {{"at": "b"}}'
    result = run(text)
    assert result.steps[0].actions[0].tool == "look"
    assert result.steps[0].actions[0].parameters == {"at": "b"}
    forbidden = """
ralph_tao_log:
  iterations:
  - thought: {type: reasoning, content: I should check the config file.}
  - thought: {type: reasoning, content: Maybe I should look at logs too.}
"""
    assert failing(read(forbidden, "tao-yaml"))["complete_triplets"] == (1, 2)


@pytest.mark.document_item("000.rule3.interrupted")
def test_an_interrupted_iteration_is_recorded_and_found() -> None:
    records = run(SEARCH, reply("look")).records
    first = next(n for n, one in enumerate(records) if isinstance(one.event, events.Observed))
    cut = records[:first]
    assert failing(cut)["complete_triplets"] == (1,)
    assert YAML(typ="safe").load(export(cut, "tao-yaml"))["ralph_tao_log"]["iterations"][0][
        "interrupted"
    ]


@pytest.mark.document_item("000.rule3.human", "000.timeout.escalate")
def test_a_run_waits_for_a_humans_answer_after_a_timeout() -> None:
    ask = reply("ask_user", "slow timed out", "exception", parameters={"question": "Go on?"})
    result = run(reply("slow"), ask, ask_user=True)
    assert (result.status, result.stop_reason) == ("waiting", "awaiting_input")


@pytest.mark.document_item("000.rule4.strict")
def test_a_strict_run_refuses_no_thought_for_its_grounding_and_the_checklist_finds_it() -> None:
    vague = reply("look", "I look once more to be sure of it", learned="it", parameters={"at": "b"})
    good = reply(
        "look", "TTL_config is short, so I look at b", learned="60", parameters={"at": "b"}
    )
    result = run(reply("look"), vague, good, strict=True)
    assert broken(result) == []
    assert failing(result.records) == {"thoughts_reference_observations": (2,)}


GROUNDED = (
    "Based on the TTL value of 60 seconds found in the config, I need to increase it to 3600 for "
    "production use."
)


@pytest.mark.parametrize(
    ("thought", "fails"),
    [
        pytest.param(GROUNDED, False, marks=pytest.mark.document_item("000.rule4.good")),
        pytest.param(
            "I'll update the lifetime to some larger value.",
            True,
            marks=pytest.mark.document_item("000.rule4.checked", "000.check.grounding"),
        ),
        pytest.param(
            "I'll update the TTL to some larger value.",
            True,
            marks=pytest.mark.document_item("000.rule4.bad", "000.rule4.judgement"),
        ),
        pytest.param(
            "The TTL value found in the config is 900 seconds, so I need to lower it.",
            True,
            marks=pytest.mark.document_item("000.rule4.judgement"),
        ),
    ],
)
def test_the_examples_of_grounding(thought: str, fails: bool) -> None:
    @tool(effect="read")
    def config() -> str:
        """Read the config."""
        return "TTL = 60 seconds"

    first = reply("config", "I find out how long tokens live")
    result = run(first, reply("config", thought), tools=[config])
    point = failing(result.records).get("thoughts_reference_observations", ())
    assert (2 in point) is fails


@pytest.mark.document_item("000.text.written")
def test_a_run_is_written_as_text_in_the_canonical_format() -> None:
    text = export(run(SEARCH).records, "tao-text")
    assert text.startswith(
        "THOUGHT [Reasoning]: I need to find the authentication module to fix the token issue\n\n"
        "ACTION: grep\n  pattern: authenticate\n  path: src/\n  rationale: it is needed\n\n"
        "OBSERVATION [Success]:\n  Result: src/auth/authenticate.ts:42: export"
    )
    labels = [line.split()[0].strip(":") for line in text.splitlines() if line[:1].strip()]
    assert labels == ["THOUGHT", "ACTION", "OBSERVATION"] * 2


@pytest.mark.document_item("000.iteration.written")
def test_a_run_is_exported_as_iterations_and_imported_again() -> None:
    text = export(run(SEARCH).records, "tao-iteration")
    first, last = [one["tao_iteration"] for one in YAML(typ="safe").load_all(text)]
    assert list(first) == ["iteration_number", "thought", "action", "observation"]
    assert (first["iteration_number"], last["iteration_number"]) == (1, 2)
    assert first["observation"]["status"] == "success"
    assert export(read(text, "tao-iteration"), "tao-iteration") == text


@pytest.mark.document_item("000.log.inline", "000.log.example", "000.iteration.read")
def test_both_examples_of_a_log_are_imported() -> None:
    log = """
ralph_tao_log:
  loop_id: "ralph-001"
  task: "Fix authentication tests"
  iterations:
    - iteration: 1
      thought: {type: goal, content: "Fix the failing authentication tests"}
      action: {tool: bash, command: "npm test -- --grep auth"}
      observation: {status: failure, result: "3 tests failed"}
    - iteration: 2
      thought: {type: extraction, content: "From test output, token expiration is the issue"}
      action: {tool: read, path: "src/auth/config.ts"}
      observation: {status: success, result: "TOKEN_TTL = 60"}
"""
    records = read(log, "tao-yaml")
    calls = [call for turn in turns(records) for call in turn.calls]
    assert records[0].run == "ralph-001"
    assert [call.action.parameters for call in calls] == [
        {"command": "npm test -- --grep auth"},
        {"path": "src/auth/config.ts"},
    ]
    assert [call.observation and call.observation.result for call in calls] == [
        "3 tests failed", "TOKEN_TTL = 60",
    ]  # fmt: skip
    iteration = """
tao_iteration:
  iteration_number: 1
  thought: {type: reasoning, content: I look, confidence: 0.85}
  action: {tool: grep, parameters: {path: src/}, rationale: it is needed}
  observation: {result: found, status: success, duration_ms: 150}
"""
    (turn,) = turns(read(iteration, "tao-yaml"))
    (call,) = turn.calls
    assert (turn.thought.confidence, call.action.tool) == (0.85, "grep")
    assert call.observation is not None
    assert call.observation.duration_ms == 150


@pytest.mark.document_item(
    "000.observation.must.status", "000.check.observations", "000.action.must.rationale"
)
def test_an_imported_step_without_a_status_a_result_or_a_rationale_is_a_fault() -> None:
    log = """
ralph_tao_log:
  iterations:
  - thought: {type: goal, content: I look at the TTL}
    action: {tool: look, at: config, rationale: it is needed}
    observation: {result: TTL = 60, status: great}
"""
    point = "observations_with_status_and_result"
    assert failing(read(log, "tao-yaml"))[point] == (1,)
    assert point not in failing(read(log.replace("great", "success"), "tao-yaml"))
    bare = log.replace(", rationale: it is needed", "")
    assert "actions_with_tool_and_parameters" in failing(read(bare, "tao-yaml"))
    assert "actions_with_tool_and_parameters" not in failing(read(log, "tao-yaml"))
    empty = log.replace("great", "success").replace("TTL = 60", '""')
    assert failing(read(empty, "tao-yaml"))[point] == (1,)


@pytest.mark.document_item("000.observation.extract", "000.observation.must.extraction")
def test_the_key_line_is_extracted_and_a_strict_run_asks_what_was_learned() -> None:
    observation = run(reply("look")).steps[0].observations[0]
    assert observation.extraction == "TTL_config = 60"
    silent = reply("finish", "TTL_config is 60", "synthesis", parameters={"answer": "60"})
    assert broken(run(reply("look"), silent, strict=True)) == [("missing_extraction", True)]


@pytest.mark.document_item("000.observation.must.extraction")
def test_what_the_model_learned_is_asked_for_in_strict_mode_recorded_and_shown() -> None:
    end = reply(
        "finish",
        "TTL_config is 60",
        "synthesis",
        learned="tokens live a minute",
        parameters={"answer": "60"},
    )
    result = run(reply("look"), end, strict=True)
    assert broken(result) == []
    assert result.steps[1].thought.learned == "tokens live a minute"
    shown = io.StringIO()
    PlainVoice(shown).thought(2, result.steps[1].thought, child=False)
    assert "  learned: tokens live a minute\n" in shown.getvalue()


@pytest.mark.document_item(
    "000.metric.iterations_count",
    "000.metric.action_tool_distribution",
    "000.metric.observation_success_rate",
    "000.metric.thought_to_action_ratio",
    "000.metric.grounding_score",
    "000.check.metrics",
)
def test_the_metrics_of_a_run_have_the_documents_names() -> None:
    script = [
        reply("look", "I look at the configuration"),
        reply("look", "TTL_config is 60, so I look at another", parameters={"at": "b"}),
        reply("look", "On we go", parameters={"at": "nowhere"}),
        reply("half", "I go on", "exception"),
    ]
    made = run(*script).metrics.as_dict()
    assert made["iterations_count"] == 5
    assert made["action_tool_distribution"] == {"look": 3, "half": 1, "finish": 1}
    assert made["observation_success_rate"] == 60.0
    assert made["thought_to_action_ratio"] == 1.0
    assert made["grounding_score"] == 50.0


@pytest.mark.document_item(
    "000.failure.exception", "000.timeout.exception", "000.failure.proceed", "000.check.errors"
)
@pytest.mark.parametrize("failed", [reply("look", parameters={"at": "nowhere"}), reply("slow")])
def test_after_a_failure_or_a_timeout_the_next_thought_must_be_an_exception(failed: str) -> None:
    calm = reply("look", "nowhere and slow brought nothing, so I look at b", learned="no")
    alarmed = calm.replace('"reasoning"', '"exception"')
    strict = run(failed, calm, alarmed, strict=True)
    assert strict.steps[1].thought.type == "exception"
    assert ("exception", True) in broken(strict)
    lenient = run(failed, calm)
    assert failing(lenient.records)["error_protocol_followed"] == (2,)
    assert "error_protocol_followed" not in failing(run(failed, alarmed).records)


@pytest.mark.document_item(
    "000.failure.repeat", "000.failure.recovery", "000.failure.continue", "000.timeout.alternative"
)
def test_the_same_action_is_refused_and_another_one_goes_on() -> None:
    wrong = reply("look", "I try again", "exception", parameters={"at": "nowhere"})
    other = reply("look", "nowhere is missing, so I take b", "exception", parameters={"at": "b"})
    result = run(wrong, wrong, other)
    seen = [step.observations[0] for step in result.steps]
    assert [one.refused for one in seen[:3]] == ["", "repeat_same_action_unchanged", ""]
    assert seen[2].status == "success"
    assert result.success


@pytest.mark.document_item("000.timeout.retry", "000.timeout.partial")
def test_a_timeout_keeps_the_partial_result_and_allows_more_time() -> None:
    calls: list[int] = []

    @tool(effect="read", timeout=0.01)
    async def wait(context: RunContext) -> str:
        """Wait."""
        calls.append(1)
        context.report("half of it")
        if len(calls) == 1:
            await asyncio.Event().wait()
        return "all of it"

    longer = reply("wait", "half of it came", "exception", parameters={"timeout_s": 60})
    result = run(reply("wait"), longer, tools=[wait])
    first, second = [step.observations[0] for step in result.steps[:2]]
    assert "half of it" in first.result
    assert any("longer timeout_s" in option for option in first.options)
    assert any("alternative" in option for option in first.options)
    assert (second.status, second.result) == ("success", "all of it")


@pytest.mark.document_item("000.pre.termination", "000.post.complete")
def test_a_bound_is_checked_before_each_iteration_and_a_finished_run_asks_no_more() -> None:
    model = ScriptedModel([reply("look"), END, reply("look")])
    assert Agent(model, tools=[look]).run_sync("g").success
    assert len(model.requests) == 2
    endless = ScriptedModel([reply("look", parameters={"at": str(n)}) for n in range(9)])
    result = Agent(endless, tools=[look], limits=Limits(steps=3)).run_sync("g")
    assert result.stop_reason == "max_steps"
    assert len(endless.requests) <= 4


@pytest.mark.document_item("000.pre.context", "000.post.prepare", "000.action.execute")
def test_the_next_prompt_holds_the_last_iteration_and_the_tool_ran_once() -> None:
    ran: list[int] = []

    @tool(effect="read")
    def count() -> str:
        """Count."""
        ran.append(1)
        return "alpha_17"

    model = ScriptedModel([reply("count", "I count the files"), END])
    Agent(model, tools=[count]).run_sync("g")
    assert ran == [1]
    assert "alpha_17" not in model.requests[0].text
    assert "I count the files" in model.requests[1].text
    assert "alpha_17" in model.requests[1].text


@pytest.mark.document_item("000.observation.log", "000.post.progress")
def test_the_observation_is_recorded_before_the_next_thought() -> None:
    records = run(SEARCH, reply("look")).records
    order = [
        type(one.event).__name__
        for one in records
        if isinstance(one.event, events.Proposed | events.Observed)
    ]
    assert order == ["Proposed", "Observed"] * 3
    after = [
        len(fold(records[: n + 1]).steps)
        for n, one in enumerate(records)
        if isinstance(one.event, events.Observed)
    ]
    assert after == [1, 2, 3]


@pytest.mark.document_item("000.check.actions")
def test_the_checklist_finds_an_action_without_its_tool() -> None:
    assert "actions_with_tool_and_parameters" in failing(run(reply(" ")).records)
    assert "actions_with_tool_and_parameters" not in failing(run(SEARCH).records)


@pytest.mark.document_item("000.check.actions")
def test_the_checklist_finds_a_call_without_its_parameters() -> None:
    (point,) = [
        item
        for item in check(run(reply("grep", parameters={"path": "src/"})).records)
        if item.name == "actions_with_tool_and_parameters"
    ]
    assert (point.passed, point.demanded, point.steps) == (False, True, (1,))
    assert "pattern" in point.detail


AGENT = '''
from taofold import Agent, tool
from taofold.testing import ScriptedModel

@tool(effect="read")
def look() -> str:
    """Look."""
    return "TTL_config = 60"

agent = Agent(ScriptedModel(%r), tools=[look])
'''


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return enter(tmp_path / "project", monkeypatch)


@pytest.mark.document_item("000.monitoring")
def test_a_user_sees_checks_and_measures_a_run_in_a_terminal(
    project: Path, taofold: Taofold
) -> None:
    (project / "one.py").write_text(AGENT % [reply("look"), END])
    ran = taofold("run", "one.py:agent", "Find the TTL")
    assert ran.code == 0, ran.err
    shown = taofold("runs", "show", "last").out
    assert "I use look to learn the TTL" in shown
    assert "TTL_config = 60" in shown
    assert taofold("runs", "check", "last").code == 0
    assert "grounding_score" in taofold("runs", "metrics", "last", "--json").out


LOG = """
ralph_tao_log:
  loop_id: ralph-001
  task: Fix authentication tests
  iterations:
    - iteration: 1
      thought: {type: goal, content: Fix the failing authentication tests}
      observation: {status: failure, result: 3 tests failed}
    - iteration: 2
      thought: {type: extraction, content: Token expiration is the issue}
      action: {tool: read, path: src/auth/config.ts, rationale: it has the TTL}
      observation: {status: success, result: TOKEN_TTL = 60}
"""


@pytest.mark.document_item("000.rule3.imported", "000.log.times")
def test_an_imported_log_keeps_its_gaps_and_they_are_reported(
    project: Path, taofold: Taofold
) -> None:
    (project / "log.yaml").write_text(LOG)
    assert taofold("runs", "import", "log.yaml", "--as", "theirs").code == 0
    checked = taofold("runs", "check", "theirs")
    assert checked.code == 1
    assert "complete triplets: step 1: no action" in checked.out
    shown = taofold("runs", "show", "theirs").out
    assert "an observation without an action" in shown
    written = taofold("runs", "export", "theirs", "--format", "tao-yaml").out
    log = YAML(typ="safe").load(written)["ralph_tao_log"]
    first = {"status": "failure", "result": "3 tests failed"}
    assert log["iterations"][0]["observation"] == first
    assert "timestamp" not in written
    assert "duration_ms" not in written
    refused = taofold("runs", "import", "log.yaml", "--strict")
    assert (refused.code, refused.out) == (2, "")
    assert "log.yaml:8: " in refused.err
    assert "an observation without an action" in refused.err
    text = taofold("runs", "import", "log.yaml", "--format", "tao-text")
    assert (text.code, text.out) == (2, "")
    assert "tao-text is only written; --format is one of ndjson, tao-yaml" in text.err
