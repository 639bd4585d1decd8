"""JSON values: where a pointer leads, what is no number of JSON, and copies that share nothing."""

import json
from math import inf, nan
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taofold.core.json_values import (
    at_pointer,
    copied,
    is_array,
    is_finite,
    is_object,
    is_sequence,
    not_finite,
    plain,
)
from taofold.core.values import Action, Observation

NAMES = st.text(alphabet="ab~/#$ 01é", min_size=1, max_size=5)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(NAMES, inner, max_size=3)
    ),
    max_leaves=8,
)
DOCUMENT = {"$defs": {"a/b": {"~": 1}, "list": [{"x": 2}], "": 3}, "x": None}


@pytest.mark.parametrize(
    ("pointer", "target"),
    [
        ("#", DOCUMENT),
        ("", DOCUMENT),
        ("#/", DOCUMENT),
        ("#/$defs/a~1b", {"~": 1}),
        ("#/$defs/a~1b/~0", 1),
        ("#/$defs/a~1b/~01", None),
        ("/$defs/list", [{"x": 2}]),
        ("#/$defs/list/0", None),
        ("#/$defs/nothing", None),
        ("#/$defs/nothing/more", None),
        ("#/x/y", None),
        ("#//$defs//list/", [{"x": 2}]),
    ],
)
def test_where_a_pointer_leads(pointer: str, target: Any) -> None:
    assert at_pointer(DOCUMENT, pointer) == target


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_every_name_can_be_pointed_at(names: list[str]) -> None:
    document: Any = "here"
    for name in reversed(names):
        document = {name: document, "other~": 0}
    pointer = "/".join(["#", *[name.replace("~", "~0").replace("/", "~1") for name in names]])
    assert at_pointer(document, pointer) == "here"


def holds(value: Any) -> bool:
    """Returns whether JSON can represent the value."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


@given(VALUES)
def test_what_is_no_number_of_json_is_found_wherever_it_stands(value: Any) -> None:
    assert is_finite(value) == holds(value)
    assert bool(list(not_finite(value))) != holds(value)


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        (nan, [""]),
        (1.5, []),
        ([1, inf], ["1"]),
        ({"data": {"prices": (1.0, -inf), "a": nan}}, ["data/prices/1", "data/a"]),
        ([[inf]], ["0/0"]),
        ("nan", []),
    ],
)
def test_the_paths_of_what_is_no_number(value: Any, paths: list[str]) -> None:
    assert list(not_finite(value)) == paths


def shared(value: Any) -> set[int]:
    members = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return set()
    return {id(value)}.union(*[shared(member) for member in members])


@given(VALUES)
def test_a_copy_is_equal_and_shares_no_container(value: Any) -> None:
    copy = copied(value)
    assert not shared(copy) & shared(value)
    assert repr(copied(copy)) == repr(copy)
    if holds(value):
        assert json.dumps(copy) == json.dumps(value)


def test_a_copy_has_lists_for_tuples_at_every_depth() -> None:
    assert copied(((1, {"a": (2,)}),)) == [[1, {"a": [2]}]]
    assert copied("(text)") == "(text)"


def test_a_value_is_plain_with_its_defaults() -> None:
    observation = plain(Observation("done", "success"))
    assert observation == msgspec.to_builtins(observation)
    assert list(observation) == list(Observation.__struct_fields__)
    assert (observation["status"], observation["refused"]) == ("success", "")
    step = plain(({"call": Action("look", {"at": (1, [2])})}, 7, None))
    assert step[1:] == [7, None]
    assert step[0]["call"]["tool"] == "look"
    assert step[0]["call"]["parameters"] == {"at": [1, [2]]}
    assert plain({1: "a"}) == {"1": "a"}


@pytest.mark.parametrize(
    ("value", "kinds"),
    [({}, "object"), ([], "array sequence"), ((), "sequence"), ("", ""), (None, ""), (0, "")],
)
def test_what_is_an_object_and_what_an_array(value: Any, kinds: str) -> None:
    guards = {"object": is_object, "array": is_array, "sequence": is_sequence}
    assert [name for name, guard in guards.items() if guard(value)] == kinds.split()
