import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from taofold.core import events as e
from taofold.core.checklist import check
from taofold.core.errors import ConfigError
from taofold.core.metrics import measure
from taofold.core.rules import recorded_violations
from taofold.core.state import fold
from taofold.core.trace import turns
from taofold.core.values import FINISH, Action, Observation, Thought, Usage
from taofold.log.formats.export import FORMATS, export, read
from tests.core.judging import violations
from tests.log.generated import runs

many = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def problem(text, form) -> str:
    """Returns the `ConfigError` for `text`. Any other exception fails the test."""
    try:
        read(text, form, source="f.txt")
    except ConfigError as error:
        return str(error)
    return ""


def tao(records):
    """All that the TAO form promises to keep."""
    told = [
        (t.number, t.at, t.thought,
         [(c.action, c.observation, c.started, c.started_at, c.effect,
           c.observed_at if c.observation else 0) for c in t.calls])
        for t in turns(records)
    ]  # fmt: skip
    ends = [r.event for r in records if isinstance(r.event, e.RunFinished)]
    broken = sorted((v.rule, v.detail, v.steps) for v in recorded_violations(records))
    return told, ends, broken, records[0].at, records[0].event.goal


@pytest.mark.scenario("TAO-17")
@many
@given(runs())
def test_ndjson_gives_back_the_same_records(records):
    text = export(records, "ndjson")
    assert read(text, "ndjson") == records
    assert export(read(text, "ndjson"), "ndjson") == text


@pytest.mark.scenario("TAO-17")
@many
@given(runs())
def test_tao_yaml_gives_back_every_field_of_every_triplet(records):
    text = export(records, "tao-yaml")
    again = read(text, "tao-yaml")
    assert tao(again) == tao(records)
    assert export(again, "tao-yaml") == text
    fold(again)


@many
@given(runs())
def test_tao_iterations_give_back_every_field_of_every_triplet(records):
    text = export(records, "tao-iteration")
    assume(text)
    again = read(text, "tao-iteration")
    assert tao(again)[0] == tao(records)[0]
    assert export(again, "tao-iteration") == text
    assert read(text, "tao-yaml") == again


@many
@given(runs())
def test_react_json_gives_back_what_it_can_say(records):
    text = export(records, "react-json")
    again = read(text, "react-json")
    fold(again)
    trace = msgspec.json.decode(text)
    kept = msgspec.json.decode(export(again, "react-json"))
    assert [s["observation"] for s in kept["steps"]][: len(trace["steps"])] == [
        s["observation"] for s in trace["steps"]
    ]
    assert kept["final_answer"] == trace["final_answer"]


@many
@given(runs(), st.sampled_from(FORMATS))
def test_imported_runs_can_be_checked_and_measured(records, form):
    text = export(records, form)
    # A run without a turn has no `tao_iteration`.
    assume(text)
    again = read(text, form, run="copy")
    assert {record.run for record in again} == {"copy"}
    assert [record.seq for record in again] == list(range(len(again)))
    measure(again)
    violations(again)
    assert len(check(again)) == 7
    assert read(export(again, "ndjson"), "ndjson") == again


@settings(max_examples=100, deadline=None)
@given(
    st.text(max_size=60) | st.binary(max_size=60).map(lambda b: b.decode("latin-1")),
    st.sampled_from(FORMATS),
)
def test_any_other_text_is_a_clear_error(text, form):
    said = problem(text, form)
    assert not said or said.startswith("f.txt")


@many
@given(runs(), st.data())
def test_a_damaged_export_is_read_or_refused_but_never_crashes(records, data):
    form = data.draw(st.sampled_from(FORMATS))
    text = export(records, form)
    assume(text)
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = (
        text[:at]
        + data.draw(st.sampled_from(["", "x", '"', "{", "\n", ": ", "-1", "\0"]))
        + text[at + 1 :]
    )
    said = problem(damaged, form)
    assert not said or said.startswith("f.txt")


def test_an_unknown_format_is_refused_with_the_known_ones():
    for call in (lambda: export([], "xml"), lambda: read("", "xml")):
        with pytest.raises(
            ConfigError, match=r"'xml'.*ndjson, tao-yaml, tao-iteration, react-json"
        ):
            call()


# ndjson ------------------------------------------------------------------


def small() -> list[e.Record]:
    events: list[e.Event] = [
        e.RunStarted(goal="g"),
        e.Proposed(key="1", thought=Thought("go"), actions=(Action("look", {}, "w"),)),
        e.Started(key="1"),
        e.Observed(key="1", observation=Observation("a\nb\n", duration_ms=1.25)),
    ]
    return [e.Record("r1", seq, 1769337001150 + seq, event) for seq, event in enumerate(events)]


@pytest.mark.scenario("TAO-17", "RCT-20")
def test_each_line_has_its_type_iso_time_and_sequence():
    lines = export(small()).splitlines()
    assert msgspec.json.decode(lines[0]) == {"format": "taofold-ndjson", "version": 1, "schema": 2}
    first = msgspec.json.decode(lines[1])
    assert first["time"] == "2026-01-25T10:30:01.150Z"
    assert first["at"] == 1769337001150
    assert [msgspec.json.decode(line)["seq"] for line in lines[1:]] == [0, 1, 2, 3]
    assert first["event"]["e"] == "run_started"


def edited(line: int, old: str, new: str) -> str:
    lines = export(small()).split("\n")
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new)
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("", "f:1", "no end|cut off|not a taofold export"),
        ("hello\n", "f:1", "not a taofold export"),
        (edited(1, "taofold-ndjson", "other"), "f:1", "'other'"),
        (edited(1, '"schema":2', '"schema":99'), "f:1", "schema 99"),
        (edited(2, "run_started", "run_begun"), "f:2", "run_begun"),
        (edited(3, '"seq":1', '"seq":2'), "f:3", "seq 2 where 1"),
        (edited(3, '"run":"r1"', '"run":"r2"'), "f:3", "'r2'"),
        (edited(4, ".152Z", ".153Z"), "f:4", "is not at"),
        (edited(5, '"key":"1"', '"key":"7"'), "f:5", "no open step"),
        (edited(5, '"key":"1"', '"key":"1","index":3'), "f:5", "no open step"),
        (edited(5, '"key":"1"', '"key":1'), "f:5", "str"),
        (export(small())[:-1], "f:5", "cut off"),
        (export(small()[:0]), "f:2", "no records"),
        (export(small()).replace("\n", "\n\n", 1), "f:2", "not a record"),
    ],
)
def test_a_bad_ndjson_line_is_named(text, where, why):
    with pytest.raises(ConfigError, match=why) as caught:
        read(text, "ndjson", source="f")
    assert caught.value.path == where


def test_line_separators_inside_text_do_not_end_a_line():
    records = [e.Record("r", 0, 0, e.RunStarted(goal="a\u2028b\x85c"))]
    assert read(export(records)) == records


# react-json --------------------------------------------------------------

TRACE = """{
  "steps": [
    {"step": 1, "thought": "find it", "action": "web.search",
     "action_input": {"query": "x"}, "observation": "Found 5 results"},
    {"step": 2, "thought": "both", "action": "a", "action_input": "bare", "observation": {"n": 1}},
    {"step": 2, "thought": "both", "action": "b", "action_input": null, "observation": null}
  ],
  "final_answer": 42
}
"""


@pytest.mark.scenario("TAO-19")
def test_a_react_trace_becomes_a_run_that_ends_with_a_triplet():
    records = read(TRACE, "react-json", at=5000)
    state = fold(records)
    assert (state.output, state.success, state.stop_reason) == (42, True, "final_answer")
    first, both, last = state.steps
    assert first.actions == (Action("web.search", {"query": "x"}),)
    assert [action.parameters for action in both.actions] == [{"input": "bare"}, {}]
    assert last.actions[0] == Action(FINISH, {"answer": 42})
    assert not [v for v in violations(records) if v.rule in ("R1", "R2", "R3")]
    assert ("typed_thoughts", False) in [(item.name, item.passed) for item in check(records)]


def test_the_seeds_pseudo_tool_closes_the_trace_and_is_not_added_again():
    trace = (
        '{"steps": [{"step": 1, "thought": "t", "action": "final_answer", '
        '"action_input": {"answer": 1}, "observation": "Goal achieved."}], "final_answer": 1}'
    )
    (only,) = fold(read(trace, "react-json")).steps
    assert only.actions[0].tool == FINISH


def test_an_entry_without_an_action_or_an_observation_is_a_broken_triplet():
    whole = {"thought": "w", "action": "read", "action_input": {"path": "a"}, "observation": None}
    entries = [
        whole,
        {"thought": "only this"},
        {"thought": "t", "action": "read", "action_input": {"path": "b"}},
        {"thought": "t", "observation": "from nowhere"},
    ]
    records = read(msgspec.json.encode({"steps": entries}).decode(), "react-json")
    (item,) = [item for item in check(records) if item.name == "complete_triplets"]
    assert item.steps == (2, 3, 4)
    assert ("R3", (4,)) in {(v.rule, v.steps) for v in violations(records)}
    measured = measure(records)
    assert (measured.iterations_count, measured.observation_success_rate) == (1, 100.0)
    kept = msgspec.json.decode(export(records, "react-json"))["steps"]
    assert kept == [{"step": 1, **whole}]
    assert "from nowhere" in export(records, "tao-yaml")


def test_a_trace_without_an_answer_is_not_finished():
    assert fold(read('{"steps": [], "final_answer": null}', "react-json")).status == "running"


@pytest.mark.parametrize(
    ("old", "new", "where", "why"),
    [
        ('"find it"', "7", "f:3", r"steps\[0\].thought must be text, got 7"),
        ('"step": 2', '"step": "two"', "f:5", r"steps\[1\].step"),
        ('"observation": null', '"obs": null', "f:6", r"steps\[2\].obs unknown field"),
        ("[\n", "3, [\n", "f", "not readable JSON"),
        ('"steps": [', '"steps": {}, "x": [', "f:2", "steps must be a list"),
        ("42", r'"\\ud800"'.replace("\\\\", "\\"), "f", "."),
    ],
)
def test_a_bad_react_trace_is_refused_with_path_and_line(old, new, where, why):
    with pytest.raises(ConfigError, match=why) as caught:
        read(TRACE.replace(old, new, 1), "react-json", source="f")
    assert caught.value.path.startswith(where)


LESS_THAN_NOTHING = {
    '"usd":0.5': '"usd":-0.5',
    '"input_tokens":3': '"input_tokens":-3',
    '"calls":[2,1]': '"calls":[2,-1]',
    '"tools":{"look":1}': '"tools":{"look":-1}',
    '"elapsed":7': '"elapsed":-7',
}


@pytest.mark.parametrize(("honest", "lie"), LESS_THAN_NOTHING.items())
def test_a_file_that_spent_less_than_nothing_is_refused(honest, lie):
    """Negative usage would lift the limits of a resumed run."""
    action = Action("look", {})
    events = [
        e.RunStarted(goal="x", agent="a"),
        e.Proposed(key="0", thought=Thought("I look", "progress"), actions=(action,)),
        e.Started(key="0"),
        e.Observed(
            key="0", observation=Observation("seen"), usage=Usage(3, 0, usd=0.5), calls=(2, 1),
            tools={"look": 1}, elapsed=7,
        ),
    ]  # fmt: skip
    text = export([e.Record("r", n, 1000 + n, event) for n, event in enumerate(events)], "ndjson")
    assert problem(text, "ndjson") == ""
    assert honest in text
    assert ">= 0" in problem(text.replace(honest, lie), "ndjson")
