"""Values of a TAO log that are out of bounds are reported, and improve no run."""

from typing import Any

import pytest

from taofold.core.errors import ConfigError
from taofold.core.events import Observed, Proposed, Record, RunFinished, Violated
from taofold.log.formats.tao_yaml import dumps, loads


def log(thought: str = "", observation: str = "", top: str = "") -> str:
    return (
        f"ralph_tao_log:\n  loop_id: a\n  task: x\n{top}  iterations:\n  - iteration: 1\n"
        f"    thought: {{type: goal, content: I look{thought}}}\n"
        "    action: {tool: t, parameters: {a: 1}, rationale: r}\n"
        f"    observation: {{status: success, result: ok{observation}}}\n"
    )


def details(records: list[Record]) -> list[str]:
    return [each.event.detail for each in records if isinstance(each.event, Violated)]


def only(records: list[Record], kind: type[Any]) -> Any:
    (found,) = [each.event for each in records if isinstance(each.event, kind)]
    return found


@pytest.mark.parametrize("key", ["confidence", "duration_ms"])
@pytest.mark.parametrize("value", ["9" * 400, "-" + "9" * 400, ".inf", "1e999", ".nan"])
def test_a_number_without_a_finite_form_is_a_fault_with_its_place(key: str, value: str) -> None:
    added = f", {key}: {value}"
    text = log(added) if key == "confidence" else log(observation=added)
    with pytest.raises(ConfigError, match=rf"tao-yaml:\d+: .*{key} must be a"):
        loads(text)


@pytest.mark.parametrize("value", ["99", "-0.5", "1.01"])
def test_a_confidence_out_of_bounds_is_reported_and_left_out(value: str) -> None:
    text = log(f", confidence: {value}")
    records = loads(text)
    assert only(records, Proposed).thought.confidence is None
    (detail,) = details(records)
    assert detail.startswith("confidence must be from 0 to 1, got")
    assert details(loads(dumps(records))) == [detail], "reported once after a round trip"
    with pytest.raises(ConfigError, match="confidence must be from 0 to 1"):
        loads(text, strict=True)


def test_a_negative_duration_is_reported_and_left_out() -> None:
    records = loads(log(observation=", duration_ms: -5"))
    assert only(records, Observed).observation.duration_ms == 0
    assert details(records) == ["duration_ms must be 0 or more, got -5"]


@pytest.mark.parametrize(
    ("outcome", "status", "detail"),
    [
        ("status: invented, success: true", "failed", "outcome: unknown status 'invented'"),
        ("success: true", "failed", "outcome: no status"),
        (
            *("status: failed, success: true", "failed"),
            "outcome: success contradicts the status 'failed'",
        ),
    ],
)
def test_an_outcome_that_is_no_success_is_none(outcome: str, status: str, detail: str) -> None:
    text = log() + f"  outcome: {{{outcome}, stop_reason: final_answer}}\n"
    records = loads(text)
    ended = only(records, RunFinished)
    assert (ended.status, ended.success) == (status, False)
    assert details(records) == [detail]
    with pytest.raises(ConfigError, match="outcome"):
        loads(text, strict=True)


def test_a_true_success_stays() -> None:
    text = log() + "  outcome: {status: finished, success: true, stop_reason: final_answer}\n"
    records = loads(text)
    assert only(records, RunFinished).success
    assert details(records) == []


@pytest.mark.parametrize("setting", ["instructions: {a: [1]}", "research: 'yes'"])
def test_a_setting_of_another_type_is_a_fault(setting: str) -> None:
    with pytest.raises(ConfigError, match=f"{setting.partition(':')[0]} must be"):
        loads(log(top=f"  {setting}\n"))
