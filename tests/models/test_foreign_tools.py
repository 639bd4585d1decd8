"""Whatever schema a stranger's tool has: each provider takes the request, and calls come back."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taofold.core.content import Conversation, result_message
from taofold.core.values import Message, ToolCall
from taofold.models.endpoint import RetryPolicy
from taofold.models.limiter import Limiter
from taofold.runtime.model import Request, ToolSpec
from taofold.runtime.providers import resolve
from taofold.testing.cassette import Cassette
from tests.models import law

MODELS = {
    "responses": "openai:gpt-6.1-sol",
    "chat": "openai-chat:gpt-4o",
    "messages": "anthropic:claude-sonnet-5",
    "gemini": "gemini:gemini-3.7-flash",
    "ollama": "ollama:qwen3",
}
NAMES = st.text(min_size=1, max_size=12) | st.sampled_from(
    ["$filter", "a[]", "x-y.z", "ключ", "a" * 70, "type", "properties", "$ref", "", "a/b", "~1"]
)
WORDS = st.sampled_from(
    ["object", "array", "string", "integer", "number", "boolean", "null", "any", "file", 5, None]
)
LEAVES = st.one_of(
    st.fixed_dictionaries({"type": WORDS}),
    st.fixed_dictionaries({"type": st.lists(WORDS, max_size=3)}),
    st.fixed_dictionaries({"enum": st.lists(st.integers() | st.text(max_size=3), max_size=3)}),
    st.fixed_dictionaries({"const": st.integers() | st.text(max_size=3)}),
    st.fixed_dictionaries({"type": st.just("array")}),
    st.fixed_dictionaries(
        {"type": st.just("integer"), "minimum": st.integers(), "exclusiveMinimum": st.booleans()}
    ),
    st.fixed_dictionaries(
        {
            "$ref": st.sampled_from(
                ["#", "#/$defs/A", "#/definitions/A", "#/properties/a~1b", "#/none", "x.json", 5]
            )
        }
    ),
    st.dictionaries(
        st.sampled_from(
            [
                *("minLength", "maxItems", "minimum", "exclusiveMaximum", "multipleOf"),
                *("uniqueItems", "examples", "readOnly", "pattern", "dependentRequired"),
                *("$anchor", "items"),
            ]
        ),
        st.sampled_from([-1, 0, 1.5, 2.0, "3", True, False, None, [], {}, float("nan")]),
        min_size=1,
        max_size=3,
    ),
    st.just({}),
    st.just(True),
    st.just(False),
    st.just(None),
    st.just("string"),
)


def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)},
            optional={
                "required": st.lists(NAMES, max_size=2) | st.booleans(),
                "additionalProperties": st.booleans() | inner,
                "title": st.integers(),
            },
        ),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner | some}),
        st.fixed_dictionaries({"type": st.just("array"), "prefixItems": some}),
        *[st.fixed_dictionaries({key: some}) for key in ("anyOf", "oneOf", "allOf")],
        st.fixed_dictionaries({"not": inner}),
        st.fixed_dictionaries({"if": inner, "then": inner}),
    )


SCHEMAS = st.recursive(LEAVES, grown, max_leaves=8)
TOOLS = st.builds(
    lambda root, definition, key, union: (
        {**(root if isinstance(root, dict) else {"type": "object"}), key: {"A": definition}}
        | ({"anyOf": union} if union else {})
    ),
    grown(SCHEMAS) | SCHEMAS,
    SCHEMAS,
    st.sampled_from(["$defs", "definitions"]),
    st.none() | st.lists(SCHEMAS, min_size=1, max_size=2),
)
ANSWERS: Mapping[str, Any] = {
    "responses": {
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "ok"}]}],
    },
    "chat": {"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]},
    "messages": {"content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn"},
    "gemini": {"candidates": [{"content": {"parts": [{"text": "ok"}]}, "finishReason": "STOP"}]},
    "ollama": {"message": {"content": "ok"}, "done": True, "done_reason": "stop"},
}


def called(wire: str, name: str, arguments: Any) -> Any:
    """An answer that calls a tool."""
    text = json.dumps(arguments)
    function = {"name": name, "arguments": arguments if wire == "ollama" else text}
    match wire:
        case "responses":
            item = {"type": "function_call", "call_id": "c1", "name": name, "arguments": text}
            return {"status": "completed", "output": [item]}
        case "messages":
            block = {"type": "tool_use", "id": "c1", "name": name, "input": arguments}
            return {"content": [block], "stop_reason": "tool_use"}
        case "gemini":
            part = {"functionCall": {"name": name, "args": arguments}}
            return {"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]}
        case "ollama":
            message = {"content": "", "tool_calls": [{"function": function}]}
            return {"message": message, "done": True, "done_reason": "stop"}
        case _:
            call = {"id": "c1", "type": "function", "function": function}
            choice = {"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
            return {"choices": [choice]}


def connected(wire: str, *answers: Any) -> tuple[Any, Cassette]:
    cassette = Cassette([{"response": {"json": answer}} for answer in answers])
    model = resolve(
        MODELS[wire],
        api_key="k",
        transport=cassette,
        limiter=Limiter(),
        retry=RetryPolicy(first=0.0, draw=lambda: 0.0),
    )
    return model, cassette


def offered(wire: str, body: Any) -> list[tuple[str, Any]]:
    """Names and schemas of the tools in a request."""
    match wire:
        case "responses":
            return [(tool["name"], tool["parameters"]) for tool in body.get("tools", ())]
        case "messages":
            return [(tool["name"], tool["input_schema"]) for tool in body.get("tools", ())]
        case "gemini":
            return [
                (one["name"], one["parametersJsonSchema"])
                for group in body.get("tools", ())
                for one in group["functionDeclarations"]
            ]
        case _:
            tools = [tool["function"] for tool in body.get("tools", ())]
            return [(tool["name"], tool["parameters"]) for tool in tools]


@pytest.mark.anyio
@pytest.mark.parametrize("wire", MODELS)
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(schema=TOOLS, name=NAMES, call=st.text(min_size=1, max_size=90))
async def test_each_provider_takes_any_schema_and_a_call_comes_back_in_its_own_shape(
    wire: str, schema: Any, name: str, call: str
) -> None:
    good = ToolSpec("good", "", {"type": "object", "properties": {"x": {"type": "string"}}})
    strange = ToolSpec(name, "", schema)
    history = [
        Message("user", "hi"),
        Message("assistant", (ToolCall(name, '{"x": 1}', call),)),
        result_message(call, "done"),
    ]
    request = Request(Conversation(history), tools=(good, strange))
    model, cassette = connected(wire, ANSWERS[wire])
    await model.complete(request)
    body = cassette.requests[0]
    law.LAWS[wire](body)
    tools = offered(wire, body)
    assert "good" in dict(tools), "a stranger's tool costs no other"
    for wire_name, adapted in tools[1:]:
        arguments = {key: {"deep": {key: 1}} for key in adapted.get("properties", {})}
        model, cassette = connected(wire, called(wire, wire_name, arguments))
        (back,) = (await model.complete(msgspec.structs.replace(request))).calls
        assert back.name == name
        own = set(json.loads(back.arguments))
        assert len(own) == len(arguments)
        assert own <= names_in(schema)


def names_in(schema: Any) -> set[str]:
    """Names of properties anywhere in a schema."""
    if isinstance(schema, list):
        return set().union(*map(names_in, schema)) if schema else set()
    if not isinstance(schema, dict):
        return set()
    properties = schema.get("properties")
    named = set(properties) if isinstance(properties, dict) else set()
    return named.union(*map(names_in, schema.values()))


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.anyio
async def test_references_within_references_do_not_multiply_in_a_request(wire: str) -> None:
    levels: dict[str, Any] = {"a14": {"type": "integer"}}
    for level in range(14):
        levels[f"a{level}"] = {"anyOf": [{"$ref": f"#/$defs/a{level + 1}"}] * 3}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/a0"}}, "$defs": levels}
    model, cassette = connected(wire, ANSWERS[wire])
    request = Request(Conversation([Message("user", "hi")]), tools=(ToolSpec("t", "", schema),))
    await model.complete(request)
    law.LAWS[wire](cassette.requests[0])
    assert len(json.dumps(cassette.requests[0])) < 200_000
