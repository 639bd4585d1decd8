"""Schemas of others in the form that providers accept, and the way back."""

import json
import re
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field, TypeAdapter

from taofold.models.wire_names import (
    ANTHROPIC_ID,
    ANTHROPIC_TOOLS,
    ANY_TOOLS,
    MISTRAL_ID,
    OPENAI_TOOLS,
    RESPONSES_ID,
    UNNAMED,
    original_arguments,
    wire_name,
    wire_tools,
)
from taofold.models.wire_schema import (
    ANSWER,
    ANTHROPIC_FORM,
    GEMINI_FORM,
    OPENAI_FORM,
    Unsupported,
    UnwrappedText,
    adapt_form,
    adapt_parameters,
)
from taofold.runtime.model import ToolSpec
from tests.models import law

NAMES = st.text(min_size=1, max_size=80) | st.sampled_from(["$filter", "a[]", "x-y.z", "a b"])


def objects(schema: Any) -> list[dict[str, Any]]:
    """Every object of a schema."""
    if isinstance(schema, list):
        return [found for each in schema for found in objects(each)]
    if not isinstance(schema, dict):
        return []
    inner = [found for each in schema.values() for found in objects(each)]
    return [schema, *inner] if isinstance(schema.get("properties"), dict) else inner


def test_a_union_at_the_root_becomes_one_object() -> None:
    schema = {
        "type": "object",
        "anyOf": [
            {"properties": {"content": {"type": "string"}}, "required": ["content"]},
            {"properties": {"source_url": {"type": "string"}}, "required": ["source_url"]},
        ],
    }
    adapted, hint = adapt_parameters(schema, {})
    text = {"type": "string"}
    assert adapted == {"type": "object", "properties": {"content": text, "source_url": text}}
    assert hint == "Arguments: give content or source_url."


@pytest.mark.parametrize("key", ["anyOf", "oneOf", "allOf", "enum", "not", "const", "$ref"])
def test_no_root_holds_what_openai_and_anthropic_refuse_there(key: str) -> None:
    member = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    value: Any = {"$ref": "#/$defs/A", "enum": [{"a": 1}], "not": {}, "const": {"a": 1}}.get(key)
    schema = {key: value or [member, {"$ref": "#/$defs/A"}], "$defs": {"A": member}}
    adapted, _ = adapt_parameters(schema, {})
    assert adapted["type"] == "object"
    assert key not in adapted
    if value is None or key == "$ref":
        assert set(adapted["properties"]) == {"a"}
        assert adapted["required"] == ["a"]


def test_all_of_demands_what_each_member_demands() -> None:
    members = [
        {"properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"properties": {"b": {"type": "string"}}, "required": ["b"]},
    ]
    adapted, _ = adapt_parameters({"type": "object", "allOf": members}, {})
    assert sorted(adapted["required"]) == ["a", "b"]


def test_old_drafts_and_odd_values_become_a_valid_schema() -> None:
    properties = {
        "list": {"type": "array"},
        "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
        "low": {"type": "number", "minimum": 1, "exclusiveMinimum": True},
        "needed": {"type": "string", "required": True},
        "file": {"type": "file", "title": 5},
        "text": "a string",
        "lost": {"$ref": "#/$defs/Nowhere"},
    }
    adapted, _ = adapt_parameters({"type": "object", "properties": properties}, {})
    assert adapted["properties"] == {
        "list": {"type": "array", "items": {}},
        "pair": {
            "type": "array",
            "prefixItems": [{"type": "string"}, {"type": "integer"}],
            "items": {},
        },
        "low": {"type": "number", "exclusiveMinimum": 1},
        "needed": {"type": "string"},
        "file": {},
        "text": {},
        "lost": {},
    }


def test_a_tool_whose_schema_fits_no_provider_is_left_out_with_a_note() -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(2_000):
        deep = {"type": "object", "properties": {"a": deep}}
    tools = [
        ToolSpec("good", "", {"type": "object"}),
        ToolSpec("array", "", {"type": "array"}),
        ToolSpec("deep", "", deep),
    ]
    wire = wire_tools(tools, ANTHROPIC_TOOLS)
    assert [tool.name for tool in wire.tools] == ["good"]
    assert len(wire.notes) == 2
    assert "'array' is left out: its arguments are no object but 'array'" in wire.notes[0]
    assert wire.allowed(["array", "good"]) == ["good"]


def test_more_tools_than_the_vendor_takes_are_left_out_with_a_note() -> None:
    tools = [ToolSpec(f"t{number}", "", {"type": "object"}) for number in range(130)]
    wire = wire_tools(tools, OPENAI_TOOLS)
    assert (len(wire.tools), len(wire.notes)) == (128, 2)
    assert len(wire_tools(tools, ANY_TOOLS).tools) == 130


@given(st.dictionaries(NAMES, st.dictionaries(NAMES, st.integers(), max_size=3), max_size=5))
def test_arguments_come_back_under_their_own_names(arguments: dict[str, dict[str, int]]) -> None:
    leaf = {"type": "integer"}
    schema = {
        "type": "object",
        "properties": {
            name: {"type": "object", "properties": dict.fromkeys(value, leaf)}
            for name, value in arguments.items()
        },
        "required": list(arguments),
    }
    wire = wire_tools([ToolSpec("t", "", schema)], ANTHROPIC_TOOLS)
    sent = wire.tools[0].parameters
    for each in objects(sent):
        for name in each["properties"]:
            assert re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name)
    there = wire.arguments("t", arguments)
    assert set(there) == set(sent["properties"]) == set(sent.get("required", ()))
    for name, value in there.items():
        assert set(value) == set(sent["properties"][name]["properties"])
    back = original_arguments(json.dumps(there), wire.properties.get("t", {}))
    assert json.loads(back) == arguments


def test_arguments_that_are_no_json_yet_come_back_under_their_own_names() -> None:
    assert original_arguments('{"_x24_a": 1,}', {"$a": "_x24_a"}) == '{"$a": 1,}'


@given(NAMES | st.just(""))
def test_each_name_and_id_becomes_one_that_every_provider_accepts(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", wire_name(name))
    assert wire_name(wire_name(name)) == wire_name(name)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", RESPONSES_ID.apply(name))
    assert re.fullmatch(r"[A-Za-z0-9_-]+", ANTHROPIC_ID.apply(name))
    assert re.fullmatch(r"[A-Za-z0-9]{9}", MISTRAL_ID.apply(name))


def test_valid_names_and_ids_are_left_alone_and_distinct_ones_stay_distinct() -> None:
    assert wire_name("read_file-2") == "read_file-2"
    assert wire_name("") == UNNAMED
    assert wire_name("x" * 120 + "a") != wire_name("x" * 120 + "b")
    assert RESPONSES_ID.apply("call_1") == "call_1"
    assert ANTHROPIC_ID.apply("f.add:0") != ANTHROPIC_ID.apply("f_add:0")


class Pet(BaseModel):
    name: str = Field(max_length=3)
    age: int = 0


class Tree(BaseModel):
    name: str
    kids: list["Tree"] = []


TYPES: list[tuple[Any, Any]] = [
    (int, 3),
    (list[int], [1]),
    (Literal["a", "b"], "a"),
    (int | str, "x"),
    (Pet | None, None),
    (list[Pet], [{"name": "Rex", "age": 1}]),
    (Tree, {"name": "a", "kids": [{"name": "b", "kids": []}]}),
    (list[Tree], [{"name": "a", "kids": []}]),
    (tuple[int, str], [1, "a"]),
    (dict[str, int], {"a": 1}),
    (Pet, {"name": "Rex", "age": 1}),
]


@pytest.mark.parametrize(("kind", "value"), TYPES)
def test_openai_gets_an_object_and_the_answer_comes_back_out_of_it(kind: Any, value: Any) -> None:
    form = adapt_form(TypeAdapter(kind).json_schema(), OPENAI_FORM)
    assert form.schema["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "$ref"} & set(form.schema)
    if not form.reason:
        for each in objects(form.schema):
            assert each["additionalProperties"] is False
            assert set(each["required"]) == set(each["properties"])
    sent = json.dumps({ANSWER: value} if form.wrapped else value)
    assert TypeAdapter(kind).validate_json(form.unwrap(sent)) is not ...
    assert json.loads(form.unwrap(sent)) == value
    assert json.loads(form.unwrap(json.dumps(value))) == value


@pytest.mark.parametrize(("kind", "reason"), [(Pet, ""), (list[Pet], ""), (Tree, "itself")])
def test_anthropic_enforces_ordinary_models_and_is_asked_no_recursive_one(
    kind: Any, reason: str
) -> None:
    form = adapt_form(TypeAdapter(kind).json_schema(), ANTHROPIC_FORM)
    assert reason in form.reason
    assert bool(form.reason) == bool(reason)
    if not reason:
        assert all(each["additionalProperties"] is False for each in objects(form.schema))
        assert "maxLength: 3" in json.dumps(form.schema)
        assert '"maxLength"' not in json.dumps(form.schema)


def test_gemini_gets_constants_as_enumerations() -> None:
    assert adapt_form({"const": "a"}, GEMINI_FORM).schema == {"enum": ["a"]}


def test_a_schema_of_free_keys_is_not_called_enforced() -> None:
    form = adapt_form(TypeAdapter(dict[str, int]).json_schema(), OPENAI_FORM)
    assert "free keys" in form.reason


def test_parameters_that_are_no_object_are_unsupported() -> None:
    with pytest.raises(Unsupported):
        adapt_parameters({"type": ["array", "null"]}, {})


def test_a_root_of_unions_within_each_other_is_left_out_before_it_takes_long() -> None:
    levels: dict[str, Any] = {"a20": {"type": "object", "properties": {"q": {}}}}
    for level in range(20):
        levels[f"a{level}"] = {"anyOf": [{"$ref": f"#/$defs/a{level + 1}"}] * 3}
    schema = {"$ref": "#/$defs/a0", "$defs": levels}
    sent = wire_tools([ToolSpec("t", "", schema)], ANY_TOOLS)
    assert not sent.tools
    assert "combines more than 1000 schemas" in sent.notes[0]


@given(
    st.sampled_from(
        [
            ('{"answer": [1, 2]}', "[1, 2]"),
            ('\n{ "answer" :"a}b" }\n', '"a}b"'),
            ('{"answer":{"answer":1}}', '{"answer":1}'),
            ('{"answers": 1}', '{"answers": 1}'),
            ("[1, 2]", "[1, 2]"),
            ("plain", "plain"),
            ('{"ans', '{"ans'),
            ("", ""),
        ]
    ),
    st.lists(st.integers(1, 5), min_size=1, max_size=30),
)
def test_readers_of_a_stream_never_see_the_wrapper(texts: tuple[str, str], cuts: list[int]) -> None:
    text, expected = texts
    heard: list[str] = []
    unwrapped = UnwrappedText(heard.append)
    at = 0
    for size in cuts:
        unwrapped(text[at : at + size])
        at += size
    unwrapped(text[at:])
    unwrapped.end()
    assert "".join(heard) == expected


def test_choices_that_the_type_rules_out_are_dropped() -> None:
    """Reported of can1357/oh-my-pi 2652: one such tool and each request is refused."""
    schema: Any = {
        "type": "object",
        "properties": {
            "x": {"anyOf": [{"enum": ["A"], "type": "string"}, {"enum": ["A"], "type": "null"}]},
            "y": {"type": "array", "enum": [0, 1], "items": {"type": "integer"}},
            "z": {"type": ["integer", "null"], "enum": [1, None, "one", True]},
        },
    }
    adapted, _ = adapt_parameters(schema, {})
    assert adapted["properties"] == {
        "x": {"anyOf": [{"enum": ["A"], "type": "string"}, {"type": "null"}]},
        "y": {"type": "array", "items": {"type": "integer"}},
        "z": {"type": ["integer", "null"], "enum": [1, None]},
    }


ODD_NODES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"type": "string", "minLength": -1, "maxLength": "7"}, {"type": "string"}),
    ({"type": "string", "minLength": 2.0, "maxLength": 3}, {"minLength": 2, "maxLength": 3}),
    ({"type": "integer", "minimum": "0", "multipleOf": 0}, {"type": "integer"}),
    ({"type": "number", "maximum": float("inf"), "minimum": float("nan")}, {"type": "number"}),
    ({"type": "array", "items": True, "minItems": 1.5}, {"type": "array", "items": {}}),
    ({"type": "array", "items": False, "uniqueItems": "true"}, {"type": "array", "items": {}}),
    ({"examples": "5", "readOnly": "no", "$anchor": 5}, {}),
    ({"$anchor": "3", "$dynamicAnchor": "a b"}, {}),
    ({"$anchor": "a-3", "$dynamicAnchor": "_b.c"}, {"$anchor": "a-3", "$dynamicAnchor": "_b.c"}),
    ({"$ref": "#/properties/a~1b"}, {}),
    ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
]


@pytest.mark.parametrize(("odd", "sent"), ODD_NODES)
def test_values_that_no_draft_allows_are_dropped(odd: dict[str, Any], sent: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"x": odd, "a/b": {"type": "string"}}}
    adapted, _ = adapt_parameters(schema, {})
    law.valid_schema(adapted, "x")
    kind = {"type": odd["type"]} if "type" in odd else {}
    assert adapted["properties"]["x"] == {**kind, **sent}


def test_a_reference_to_the_whole_schema_leads_to_a_definition() -> None:
    """llama.cpp: "unsupported $ref #"."""
    kids = {"type": "array", "items": {"$ref": "#"}}
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}, "kids": kids},
              "required": ["a"], "$defs": {"A": {"type": "integer"}}}  # fmt: skip
    adapted, _ = adapt_parameters(schema, {})
    law.valid_schema(adapted, "x")
    reference = adapted["properties"]["kids"]["items"]["$ref"]
    assert reference != "#"
    root = law.at(adapted, reference)
    assert root["required"] == ["a"]
    assert root["properties"] == adapted["properties"]
    deep = {"a": 1, "kids": [{"a": 2, "kids": [{"a": "x"}]}]}
    assert not Draft202012Validator(adapted).is_valid(deep)
    assert Draft202012Validator(adapted).is_valid({"a": 1, "kids": [{"a": 2, "kids": []}]})
