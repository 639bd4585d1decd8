import re

import pytest
from inline_snapshot import snapshot
from ruamel.yaml import YAML

from taofold.core import events as e
from taofold.core.checklist import check
from taofold.core.errors import ConfigError
from taofold.core.metrics import measure
from taofold.core.state import fold
from taofold.core.text import milliseconds
from taofold.core.trace import turns
from taofold.core.values import Action, Observation, Thought
from taofold.log.formats import tao_yaml as tao_yaml
from taofold.log.formats.export import export, read
from tests.core.judging import violations

RALPH = """\
ralph_tao_log:
  loop_id: "ralph-001"
  task: "Fix authentication tests"
  iterations:
    - iteration: 1
      thought:
        type: goal
        content: "Fix the failing authentication tests"
      action:
        tool: bash
        command: "npm test -- --grep auth"
      observation:
        status: failure
        result: "3 tests failed"
    - iteration: 2
      thought:
        type: extraction
        content: "From test output, token expiration is the issue"
      action:
        tool: read
        path: "src/auth/config.ts"
      observation:
        status: success
        result: "TOKEN_TTL = 60"
"""

ITERATION = """\
tao_iteration:
  iteration_number: 1
  thought:
    type: reasoning # goal, progress, extraction, reasoning, exception, synthesis
    content: "I need to find the authentication module to fix the token issue"
    confidence: 0.85
    timestamp: "2026-01-25T10:30:00Z"
  action:
    tool: grep
    parameters:
      pattern: "authenticate"
      path: "src/"
    rationale: "Searching for authentication-related code"
    timestamp: 2026-01-25T10:30:01Z
  observation:
    result: |
      src/auth/authenticate.ts:42: export function authenticate(token: string)
      src/auth/middleware.ts:15: import { authenticate } from './authenticate'
    status: success
    duration_ms: 150
    timestamp: "2026-01-25T10:30:01.150Z"
"""


def test_the_seeds_ralph_log_is_read_checked_and_measured():
    records = tao_yaml.loads(RALPH, at=7)
    assert {record.run for record in records} == {"ralph-001"}
    state = fold(records)
    assert state.goal == "Fix authentication tests"
    assert state.steps[0].actions[0] == Action("bash", {"command": "npm test -- --grep auth"})
    assert measure(records).thought_type_distribution == {"goal": 1, "extraction": 1}
    broken = {(v.rule, v.steps) for v in violations(records)}
    assert broken == {
        ("missing_rationale", (1,)), ("missing_rationale", (2,)), ("exception", (1, 2)),
        ("R4", (2,)),
    }  # fmt: skip
    failed = {item.name: item.steps for item in check(records) if not item.passed}
    assert failed["error_protocol_followed"] == (2,)


@pytest.mark.scenario("TAO-17")
def test_the_seeds_iteration_is_read_with_its_milliseconds_and_lines():
    records = tao_yaml.loads(ITERATION)
    (turn,) = turns(records)
    (call,) = turn.calls
    assert turn.thought.confidence == 0.85
    assert (call.started_at - turn.at, call.observed_at - call.started_at) == (1000, 150)
    assert call.observation is not None
    assert call.observation.result.count("\n") == 2
    assert call.observation.duration_ms == 150.0


def test_several_iteration_documents_make_one_run():
    text = ITERATION + "---\n" + ITERATION.replace("number: 1", "number: 2")
    assert [step.number for step in fold(tao_yaml.loads(text)).steps] == [1, 2]


def test_a_document_without_a_time_of_its_own_begins_with_its_first_iteration():
    dated = """
tao_iteration:
  thought: {type: goal, content: c, timestamp: "2026-01-25T10:30:00Z"}
  action: {tool: t, rationale: w, timestamp: "2026-01-25T10:30:01Z"}
  observation: {result: r, status: success, timestamp: "2026-01-25T10:30:01.150Z"}
"""
    inner = dated.replace("tao_iteration:", "ralph_tao_log:\n iterations:\n -").replace(
        "\n  ", "\n   "
    )
    later = milliseconds("2027-01-01T00:00:00Z")
    for text in (dated, inner):
        metrics = measure(tao_yaml.loads(text, at=later))
        assert (metrics.wall_ms, metrics.active_ms) == (1150, 1150)
    undated = "ralph_tao_log: {iterations: [{action: {tool: t}}]}"
    assert {record.at for record in tao_yaml.loads(undated, at=later)} == {later}
    begun = "ralph_tao_log:\n timestamp: '2026-01-25T10:29:00Z'\n iterations:\n -"
    records = tao_yaml.loads(inner.replace("ralph_tao_log:\n iterations:\n -", begun), at=later)
    assert measure(records).wall_ms == 61_150


@pytest.mark.scenario("TAO-18")
def test_both_shapes_of_an_action_become_the_same_record():
    inline = "ralph_tao_log: {iterations: [{action: {tool: t, a: 1, b: [x], rationale: w}}]}"
    mapping = "ralph_tao_log: {iterations: [{action: "
    mapping += "{tool: t, parameters: {a: 1, b: [x]}, rationale: w}}]}"
    assert tao_yaml.loads(inline) == tao_yaml.loads(mapping)


def test_an_export_looks_like_the_seeds_log():
    at = 1769337000000
    batch = (Action("read", {"path": "a"}, "why"), Action("read", {"path": "b"}, "why"))
    events: list[tuple[int, e.Event]] = [
        (0, e.RunStarted(goal="Fix it", model="m")),
        (1, e.Proposed(key="1", thought=Thought("go", "goal"), actions=(Action("bash", {}, "w"),))),
        (2, e.StartedOnce(key="1")),
        (
            152,
            e.Observed(
                key="1", observation=Observation("a\n  b\n", "failure", "b", duration_ms=150)
            ),
        ),
        (160, e.Violated(key="2", rule="R2", detail="no action")),
        (200, e.Proposed(key="3", thought=Thought("both", because=(1,)), actions=batch)),
        (201, e.Started(key="3")),
        (202, e.Observed(key="3", observation=Observation("x"))),
    ]
    records = [e.Record("r1", seq, at + ms, event) for seq, (ms, event) in enumerate(events)]
    assert tao_yaml.dumps(records) == snapshot("""\
ralph_tao_log:
  loop_id: r1
  task: Fix it
  timestamp: '2026-01-25T10:30:00.000Z'
  agent: agent
  model: m
  iterations:
  - iteration: 1
    thought:
      type: goal
      content: go
      timestamp: '2026-01-25T10:30:00.001Z'
    action:
      tool: bash
      parameters: {}
      rationale: w
      effect: once
      timestamp: '2026-01-25T10:30:00.002Z'
    observation:
      result: |
        a
          b
      status: failure
      extraction: b
      duration_ms: 150
      timestamp: '2026-01-25T10:30:00.152Z'
  - iteration: 2
    thought:
      type: reasoning
      content: both
      because:
      - 1
      timestamp: '2026-01-25T10:30:00.200Z'
    interrupted: true
    actions:
    - tool: read
      parameters:
        path: a
      rationale: why
      timestamp: '2026-01-25T10:30:00.201Z'
    - tool: read
      parameters:
        path: b
      rationale: why
      started: false
      timestamp: '2026-01-25T10:30:00.200Z'
    observations:
    - result: x
      status: success
      duration_ms: 0.0
      timestamp: '2026-01-25T10:30:00.202Z'
    - null
  violations:
  - rule: R2
    detail: no action
    steps:
    - 2
""")


@pytest.mark.scenario("TAO-03", "TAO-15")
def test_broken_iterations_are_read_and_found():
    text = """
ralph_tao_log:
  iterations:
  - thought: I should check the config
  - thought: {type: reasoning, content: I read the logs because they may show more}
    action: {tool: read, parameters: {path: log}, rationale: w}
  - action: {tool: read, parameters: {path: x}, rationale: w}
    observation: got it
  - thought: {type: musing, content: hm}
    action: Reading the file
    observation: {result: x, status: great}
"""
    records = tao_yaml.loads(text)
    found = {(v.rule, v.steps) for v in violations(records)}
    assert {
        ("R2", (1, 2)), ("R3", (2,)), ("R1", (3,)), ("status", (3,)),
        ("thought_type", (1,)), ("thought_type", (4,)), ("status", (4,)),
    } <= found  # fmt: skip
    failed = {item.name: item.steps for item in check(records) if not item.passed}
    assert failed["complete_triplets"] == (1, 2, 3)
    assert failed["typed_thoughts"] == (1, 4)
    assert failed["actions_with_tool_and_parameters"] == (4,)
    assert failed["observations_with_status_and_result"] == (3, 4)
    assert measure(records).iterations_count == 2
    assert measure(records).observation_success_rate == 0.0


@pytest.mark.parametrize("text", [RALPH, ITERATION])
@pytest.mark.parametrize("at", [0, 1769337000000])
def test_absent_times_stay_absent_and_stated_ones_stay(text, at):
    again = tao_yaml.dumps(tao_yaml.loads(text, at=at))
    assert again.count("timestamp") == text.count("timestamp")
    assert again.count("duration_ms") == text.count("duration_ms")
    assert "1970" not in again
    assert tao_yaml.dumps(tao_yaml.loads(again, at=at + 5)) == again


@pytest.mark.parametrize("field", ["thought", "action", "observation", "duration", "log", "end"])
def test_each_absent_time_is_absent_by_itself(field):
    whole = """
ralph_tao_log:
  loop_id: r
  timestamp: '2026-01-25T10:29:00.000Z'  # log
  iterations:
  - thought: {type: goal, content: c, timestamp: '2026-01-25T10:30:00.000Z'}  # thought
    actions:
    - {tool: t, parameters: {}, timestamp: '2026-01-25T10:30:01.000Z'}
    - {tool: u, parameters: {}, timestamp: '2026-01-25T10:30:01.000Z'}  # action
    observations:
    - {result: r, status: success, duration_ms: 1.0, timestamp: '2026-01-25T10:30:02.000Z'}
    - {result: r, status: success, duration_ms: 1.0, timestamp: '2026-01-25T10:30:03.000Z'}  # seen
  outcome: {status: finished, success: true, timestamp: '2026-01-25T10:30:04.000Z'}  # end
"""
    where = {"duration": "# seen", "observation": "# seen"}.get(field, f"# {field}")
    name = "duration_ms" if field == "duration" else "timestamp"
    lines = [
        re.sub(rf",? *{name}: [^,}}#]*", "", line) if where in line else line
        for line in whole.splitlines()
    ]
    text = "\n".join(lines)

    def stated(document):
        log = YAML(typ="safe").load(document)["ralph_tao_log"]
        (one,) = log["iterations"]
        parts = [log, one["thought"], *one["actions"], *one["observations"], log["outcome"]]
        return [[str(part.get(key)) for key in ("timestamp", "duration_ms")] for part in parts]

    assert stated(text) != stated(whole)
    assert stated(tao_yaml.dumps(tao_yaml.loads(text, at=7))) == stated(text)


def test_a_trace_without_times_gets_none_in_another_form():
    trace = '{"steps": [{"action": "t", "observation": "r"}], "final_answer": "a"}'
    records = read(trace, "react-json", at=1769337000000)
    for form in ("tao-yaml", "tao-iteration"):
        written = export(records, form)
        assert "timestamp" not in written
        assert "duration_ms" not in written


STRAY = """
ralph_tao_log:
  iterations:
  - thought: {type: goal, content: I test}
    observation: {status: failure, result: 3 tests failed}
  - thought: {type: exception, content: I read it}
    action: {tool: read, parameters: {path: x}, rationale: w}
    observations: [{status: success, result: one}, {status: musing, result: [two]}]
  - observation: only words
"""


@pytest.mark.scenario("TAO-03")
def test_an_observation_without_an_action_is_reported_and_kept():
    records = tao_yaml.loads(STRAY)
    assert ("R3", (1,)) in {(v.rule, v.steps) for v in violations(records)}
    items = {item.name: item for item in check(records)}
    assert items["complete_triplets"].steps == (1, 2, 3)
    assert "step 2: an observation without an action" in items["complete_triplets"].detail
    assert measure(records).iterations_count == 1
    assert measure(records).observation_success_rate == 100.0
    written = tao_yaml.dumps(records)
    log = YAML(typ="safe").load(written)["ralph_tao_log"]
    first, second, third = log["iterations"]
    assert first["observation"] == {"status": "failure", "result": "3 tests failed"}
    assert second["observations"][1] == {"status": "musing", "result": ["two"]}
    assert third["observation"] == "only words"
    assert tao_yaml.dumps(tao_yaml.loads(written)) == written
    with pytest.raises(ConfigError, match="an observation without an action") as caught:
        tao_yaml.loads(STRAY, strict=True, source="f")
    assert caught.value.path == "f:5"


def test_a_foreign_note_about_gaps_cannot_hide_anything_but_times():
    records = tao_yaml.loads(ITERATION)
    for data in ({"thought": "yes"}, {"actions": [0], "content": True}, {"stray": 3}):
        forged = [*records, e.Record("imported", 9, 0, e.Noted(key="1", kind="gaps", data=data))]
        assert "I need to find the authentication module" in tao_yaml.dumps(forged)
        assert "authenticate.ts:42" in tao_yaml.dumps(forged)


@pytest.mark.scenario("TAO-04")
@pytest.mark.parametrize(
    ("old", "new", "where"), [("goal", "musing", "f:7"), ("failure", "bad", "f:13")]
)
def test_strict_import_refuses_what_lenient_import_mends(old, new, where):
    text = RALPH.replace(old, new, 1)
    mended = tao_yaml.loads(text)
    assert sum(isinstance(record.event, e.Violated) for record in mended) == 1
    with pytest.raises(ConfigError, match=new) as caught:
        tao_yaml.loads(text, strict=True, source="f")
    assert caught.value.path == where


@pytest.mark.parametrize(
    ("old", "new", "where", "why"),
    [
        ("iteration: 2", "iteration: 5", "f:15", r"is iteration 5 where 2 must follow"),
        ("type: goal", "type: [goal]", "f:7", "thought.type must be text"),
        ("tool: bash", "tool: 3", "f:10", "action.tool must be text, got 3"),
        ("status: failure", "state: failure", "f:13", "state unknown field"),
        ("status: failure", "status: failure\n        duration_ms: .inf", "f:14", "finite"),
        ('"3 tests failed"', "!!binary aGk=", "f:14", "not JSON"),
        ('"3 tests failed"', '"\\uD800"', "f:14", "surrogate"),
        ('"3 tests failed"', "{1: 2}", "f:14", "key must be text"),
        ('"3 tests failed"', "!!python/object:os.system x", "f:14", "tag"),
        ("task:", "loop_id: x\n  task:", "f:3", "duplicate key"),
        ('task: "Fix', 'extra: 1\n  task: "Fix', "f:3", "extra unknown field"),
        ('content: "Fix the', 'timestamp: yesterday\n        content: "Fix the', "f:8", "ISO 8601"),
        ("iterations:", "iterations: 4\n  x:", "f:4", "must be a list"),
        ("ralph_tao_log:", "tao_log:", "f:1", "tao_log unknown field|tao_iteration"),
    ],
)
def test_a_bad_log_is_refused_with_path_and_line(old, new, where, why):
    assert old in RALPH
    with pytest.raises(ConfigError, match=why) as caught:
        tao_yaml.loads(RALPH.replace(old, new, 1), source="f")
    assert caught.value.path == where


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "4",
        "ralph_tao_log:",
        "a: &x [1]\nb: *x\n",
        "a: [" * 3000,
        "\0",
        "a: 1\n\t- b",
        "{}",
    ],
)
def test_what_is_no_log_is_refused_and_never_expanded(text):
    with pytest.raises(ConfigError):
        tao_yaml.loads(text)


def test_aliases_are_refused_and_never_expanded():
    bomb = RALPH.replace('"Fix the failing authentication tests"', "&a x").replace("bash", "*a")
    with pytest.raises(ConfigError, match="aliases are not read") as caught:
        tao_yaml.loads(bomb, source="f")
    assert caught.value.path == "f:10"


def test_an_imported_run_can_not_be_driven_on():
    start = tao_yaml.loads(RALPH)[0].event
    assert isinstance(start, e.RunStarted)
    assert start.strategy == "imported"
