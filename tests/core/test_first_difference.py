"""The first difference of two values: its place, and what stands there, bounded."""

from typing import Any

import pytest

from taofold.core import events as e
from taofold.core.difference import first_difference
from taofold.core.errors import ReplayDiverged
from taofold.core.values import Action, Thought


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ({"item": "tea"}, {"item": "milk"}, ("item", "'tea'", "'milk'")),
        ({"a": 1, "b": [1, 2]}, {"a": 1, "b": [1, 3]}, ("b.1", "2", "3")),
        ({"a": [1]}, {"a": [1, 2]}, ("a.1", "nothing", "2")),
        ({"a": 1}, {}, ("a", "1", "nothing")),
        ({"a": 1}, None, ("", "{'a': 1}", "None")),
        ([1], (1,), ("", "[1]", "(1,)")),
        ({"a": 1}, {"a": True}, ("", "{'a': 1}", "{'a': True}")),
        (None, e.Decided("2", "ask"), ("", "none", "decided: [0] ask (tier 1)")),
        (
            e.Started("2"),
            e.Decided("2", "deny"),
            ("", "started: [0]", "decided: [0] deny (tier 1)"),
        ),
    ],
)
def test_the_place_and_both_values_are_told(old: Any, new: Any, told: tuple[str, str, str]) -> None:
    assert first_difference(old, new) == told


def test_long_texts_are_shown_where_they_part() -> None:
    old, new = "same " * 1000 + "tea" + "x" * 9000, "same " * 1000 + "milk" + "y" * 9000
    place, one, other = first_difference({"text": old}, {"text": new})
    assert place == "text"
    assert "same tea" in one
    assert "same milk" in other
    assert len(one) <= 200
    assert len(other) <= 200


def test_a_divergence_names_the_argument_that_differs() -> None:
    def proposed(item: str) -> e.Proposed:
        actions = (Action("look"), Action("price", {"item": item, "amount": 2}))
        return e.Proposed(key="2", thought=Thought("t" * 5000), actions=actions)

    error = str(ReplayDiverged("2", proposed("tea"), proposed("milk")))
    assert "at effect '2', actions.1.parameters.item" in error
    assert "recorded  'tea'" in error
    assert "requested 'milk'" in error
    assert "ttt" not in error
