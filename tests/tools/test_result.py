"""Whatever a tool returns becomes JSON."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from taofold.tools import Outcome
from taofold.tools.result import NODES, jsonable, outcome_of, stateful


class Model(BaseModel):
    n: int


@dataclass
class Point:
    x: int
    deep: Any = None


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class HostileMapping(dict[str, int]):
    def items(self) -> Any:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Model(n=1), {"n": 1}),
        (Point(1, Point(2)), {"x": 1, "deep": {"x": 2, "deep": None}}),
        ((1, [2, {"a": (3,)}]), [1, [2, {"a": [3]}]]),
        ({1: "a", None: "b"}, {"1": "a", "None": "b"}),
        ({"b", "a"}, ["a", "b"]),
        (b"text", "text"),
        (b"\xff\x00", "<2 bytes, not text: ff 00>"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (2**70, str(2**70)),
        ("\ud800", "\\ud800"),
        (Decimal("1.50"), "1.50"),
        (Path("a/b"), "a/b"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
        (Hostile(), "<Hostile without a readable repr>"),
        (HostileMapping(a=1), "{'a': 1}"),
        ([ValueError("x")], ["ValueError: x"]),
    ],
)
def test_values_become_json(value: object, expected: object) -> None:
    assert jsonable(value) == expected


def test_cycles_and_shared_structures_end() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    shared: list[Any] = [1]
    for _ in range(60):
        shared = [shared, shared]
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (cycle, shared, deep):
        assert len(json.dumps(jsonable(value))) < 20 * NODES


def test_a_result_is_a_copy() -> None:
    kept: dict[str, Any] = {"a": [1]}
    plain = jsonable(kept)
    kept["a"].append(2)
    assert plain == {"a": [1]}


def test_a_returned_exception_is_a_failure() -> None:
    assert outcome_of(ValueError("x")) == Outcome("ValueError: x", "failure")


def test_other_results_of_a_tagent_tool_have_a_key_of_their_own() -> None:
    assert stateful(Model(n=1), "find").update == ("model", {"n": 1})
    assert stateful(5, "find").update == ("find_output", 5)
    assert stateful({"success": False}, "find").update is None
    assert stateful(Outcome(1), "find").update is None


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates(),
    lambda inner: st.lists(inner) | st.dictionaries(st.integers() | st.text(), inner),
)


@given(anything)
def test_every_value_survives_the_log_unchanged(value: object) -> None:
    plain = jsonable(value)
    assert msgspec.json.decode(msgspec.json.encode(plain)) == plain
    assert jsonable(plain) == plain


@pytest.mark.parametrize("update", [("cart", [1]), ["cart", [1]], {"cart": [1]}])
def test_a_state_update_is_a_pair_or_a_dict_with_one_key(update: Any) -> None:
    assert outcome_of(Outcome("ok", update=update)).update == ("cart", [1])


@pytest.mark.parametrize("update", [{"a": 1, "b": 2}, {}, "cart", ("a", 1, 2)])
def test_another_update_is_an_error_that_says_what_is_wanted(update: Any) -> None:
    with pytest.raises(ValueError, match="one key with its value"):
        outcome_of(Outcome("ok", update=update))
