"""`runs diff`: differences between two runs, with any parameter names."""

import pytest

from taofold.cli.render.runs import compare
from taofold.core import events as e
from taofold.core.values import Action, Observation, Thought


def proposed(at: int, parameters: dict[str, object]) -> e.Record:
    action = Action("look", parameters)
    return e.Record("r", 0, at, e.Proposed(key="0", thought=Thought("t"), actions=(action,)))


@pytest.mark.parametrize("name", ["at", "run", "session", "parent", "settings", "ms", "place"])
def test_a_parameter_counts_whatever_its_name(name: str) -> None:
    assert not compare([proposed(1, {name: "a"})], [proposed(1, {name: "b"})]).same
    assert compare([proposed(1, {name: "a"})], [proposed(2, {name: "a"})]).same


def test_how_long_a_call_took_makes_no_difference() -> None:
    def observed(duration: float) -> list[e.Record]:
        seen = Observation("x", duration_ms=duration)
        return [proposed(1, {}), e.Record("r", 1, 1, e.Observed(key="0", observation=seen))]

    assert compare(observed(1.0), observed(2.0)).same
