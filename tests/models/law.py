"""The documented rules of the providers for schemas, names and ids, as checks.

Strict fakes call them, so that no test shows more than the real provider allows. Each rule has the
source in which the provider states it, or the words in which it refuses.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Body = Mapping[str, Any]
TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}


class Unlawful(Exception):
    """The provider refuses the request."""


def expect(holds: object, why: str) -> None:
    if not holds:
        raise Unlawful(why)


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema inside of a schema, and the schema itself."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key, value in schema.items():
        if key in ("properties", "$defs", "definitions", "patternProperties"):
            for each in value.values():
                yield from nodes(each)
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            for each in value:
                yield from nodes(each)
        elif key in ("items", "additionalProperties", "not", "if", "then", "else", "contains"):
            yield from nodes(value)


def at(root: Any, reference: str) -> Any:
    here = root
    for step in reference.removeprefix("#").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        here = here[int(step)] if isinstance(here, list) else here[step]
    return here


def valid_schema(schema: Any, where: str) -> None:
    """Anthropic: "JSON schema is invalid. It must match JSON Schema draft 2020-12". OpenAI:
    "array schema missing items", "is not valid under any of the given schemas".
    """
    for node in nodes(schema):
        kinds = node.get("type", [])
        kinds = kinds if isinstance(kinds, list) else [kinds]
        expect(set(kinds) <= TYPES, f"{where}: {kinds} is no type")
        expect("array" not in kinds or "items" in node, f"{where}: array schema missing items")
        expect(not isinstance(node.get("items"), list), f"{where}: items is a list (draft 7)")
        required = node.get("required", [])
        expect(isinstance(required, list), f"{where}: required is no list")
        expect(all(isinstance(n, str) for n in required), f"{where}: required holds no names")
        for flag in ("exclusiveMinimum", "exclusiveMaximum"):
            expect(not isinstance(node.get(flag), bool), f"{where}: {flag} is a flag (draft 4)")
        if "$ref" in node:
            try:
                at(schema, node["$ref"])
            except (KeyError, IndexError, ValueError, TypeError):
                expect(None, f"{where}: reference {node['$ref']!r} leads nowhere")


def object_root(schema: Any, where: str) -> None:
    """OpenAI: "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at
    the top level". Anthropic: "input_schema does not support oneOf, allOf, or anyOf at the top
    level".
    """
    expect(schema.get("type") == "object", f"{where}: schema must have type 'object'")
    odd = {"anyOf", "oneOf", "allOf", "enum", "not", "$ref"} & set(schema)
    expect(not odd, f"{where}: {sorted(odd)} at the top level")


def tool_name(name: str) -> None:
    """OpenAI, API reference, `tools[].function.name`, and Anthropic, `tools[].name`: letters,
    digits, underscores and dashes, at most 64 characters.
    """
    expect(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name), f"invalid tool name {name!r}")


def gemini_name(name: str) -> None:
    """Google, API reference, `FunctionDeclaration.name`: begins with a letter or underscore."""
    pattern = r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"
    expect(re.fullmatch(pattern, name), f"Invalid function name {name!r}")


def distinct(names: Sequence[str]) -> None:
    """Anthropic: "tools: Tool names must be unique"."""
    expect(len(set(names)) == len(names), "tool names must be unique")


def call_id(identifier: str, pattern: str) -> None:
    expect(re.fullmatch(pattern, identifier), f"invalid call id {identifier!r}")


CHAT_ID = r"(?s).{1,40}"
"""OpenAI: "Invalid 'messages[n].tool_calls[0].id': string too long. Expected a string with maximum
length 40" (microsoft/autogen issue 6377, agno issue 5382)."""
RESPONSES_ID = r"[a-zA-Z0-9_-]{1,64}"
"""OpenAI: "Invalid 'input[n].call_id': string too long. Expected a string with maximum length
64"."""
MISTRAL_ID = r"[a-zA-Z0-9]{9}"
"""Mistral: "Tool call id was … but must be a-z, A-Z, 0-9, with a length of 9"."""
MESSAGES_ID = r"[a-zA-Z0-9_-]+"
"""Anthropic: "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"."""
PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Anthropic: "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"."""
MOST_TOOLS = 128
"""OpenAI, API reference, chat completions, `tools`: "A max of 128 functions are supported"."""


def strict_form(schema: Any, where: str) -> None:
    """OpenAI, guide "Structured model outputs", "Supported schemas"."""
    object_root(schema, where)
    known = {"type", "properties", "required", "additionalProperties", "items", "anyOf", "enum"}
    known |= {"const", "$ref", "$defs", "definitions", "title", "description", "pattern", "format"}
    known |= {"minItems", "maxItems", "multipleOf", "minimum", "maximum"}
    known |= {"exclusiveMinimum", "exclusiveMaximum"}
    count = 0
    for node in nodes(schema):
        expect(set(node) <= known, f"{where}: {sorted(set(node) - known)} is not permitted")
        if node.get("type") == "object" or "properties" in node:
            closed(node, where)
            properties = node.get("properties", {})
            count += len(properties)
            missing = set(properties) - set(node.get("required", ()))
            expect(not missing, f"{where}: 'required' lacks {sorted(missing)}")
    expect(count <= 5_000, f"{where}: more than 5,000 properties")


def closed(node: Mapping[str, Any], where: str) -> None:
    """OpenAI and Anthropic: "additionalProperties: false must always be set"."""
    expect(node.get("additionalProperties") is False, f"{where}: 'additionalProperties' not false")


def messages_form(schema: Any, where: str) -> None:
    """Anthropic, "Structured outputs", "JSON Schema limitations"."""
    refused = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    refused |= {"minLength", "maxLength", "maxItems", "oneOf", "patternProperties"}
    optional = unions = 0
    for node in nodes(schema):
        optional += len(set(node.get("properties", {})) - set(node.get("required", ())))
        unions += "anyOf" in node or isinstance(node.get("type"), list)
        odd = refused & set(node)
        expect(not odd, f"{where}: {sorted(odd)} is not supported")
        expect(node.get("minItems", 0) <= 1, f"{where}: minItems above 1")
        if node.get("type") == "object" or "properties" in node:
            closed(node, where)
    # "Schemas contains too many optional parameters (87) … (limit: 24)" (elie222/inbox-zero issue
    # 2323); "at most 16 union-typed parameters" (guide "Structured outputs").
    expect(optional <= 24, f"{where}: too many optional parameters ({optional})")
    expect(unions <= 16, f"{where}: too many union-typed parameters ({unions})")


# --- the formats ---------------------------------------------------------------------------------


def responses(body: Body) -> None:
    """OpenAI's Responses API."""
    tools = body.get("tools", ())
    expect(len(tools) <= MOST_TOOLS, "too many tools")
    distinct([tool["name"] for tool in tools])
    for tool in tools:
        tool_name(tool["name"])
        object_root(tool["parameters"], tool["name"])
        valid_schema(tool["parameters"], tool["name"])
        if tool["strict"]:
            strict_form(tool["parameters"], tool["name"])
    form = body.get("text", {}).get("format")
    if form:
        object_root(form["schema"], "text.format.schema")
        valid_schema(form["schema"], "text.format.schema")
        if form["strict"]:
            strict_form(form["schema"], "text.format.schema")
    for item in body["input"]:
        if item.get("type") in ("function_call", "function_call_output"):
            call_id(item["call_id"], RESPONSES_ID)
        if item.get("type") == "function_call":
            tool_name(item["name"])
        if "role" in item:
            roles = ("user", "assistant", "developer", "system")
            expect(item["role"] in roles, f"invalid role {item['role']!r}")


def chat(body: Body, ids: str = CHAT_ID, form_rules: bool = True) -> None:
    """OpenAI's chat completions."""
    tools = [tool["function"] for tool in body.get("tools", ())]
    expect(len(tools) <= MOST_TOOLS, "Invalid 'tools': array too long")
    distinct([tool["name"] for tool in tools])
    for tool in tools:
        tool_name(tool["name"])
        object_root(tool["parameters"], tool["name"])
        valid_schema(tool["parameters"], tool["name"])
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema" and form_rules:
        schema = form["json_schema"]["schema"]
        object_root(schema, "response_format")
        if form["json_schema"].get("strict"):
            strict_form(schema, "response_format")
    for message in body["messages"]:
        roles = ("system", "developer", "user", "assistant", "tool")
        expect(message["role"] in roles, f"invalid role {message['role']!r}")
        for call in message.get("tool_calls", ()):
            call_id(call["id"], ids)
            tool_name(call["function"]["name"])
        if message["role"] == "tool":
            call_id(message["tool_call_id"], ids)


def messages(body: Body) -> None:
    """Anthropic's Messages API."""
    tools = body.get("tools", ())
    distinct([tool["name"] for tool in tools])
    for tool in tools:
        tool_name(tool["name"])
        object_root(tool["input_schema"], tool["name"])
        valid_schema(tool["input_schema"], tool["name"])
        for node in nodes(tool["input_schema"]):
            odd = [name for name in node.get("properties", {}) if not PROPERTY.fullmatch(name)]
            expect(not odd, f"Property keys should match pattern: {odd}")
    form = body.get("output_config", {}).get("format")
    if form:
        messages_form(form["schema"], "output_config.format.schema")
    for message in body["messages"]:
        expect(message["role"] in ("user", "assistant", "system"), "invalid role")
        blocks = message["content"] if isinstance(message["content"], list) else ()
        for block in blocks:
            if block["type"] == "tool_use":
                call_id(block["id"], MESSAGES_ID)
                tool_name(block["name"])
                expect(isinstance(block["input"], dict), "tool_use.input must be an object")
            if block["type"] == "tool_result":
                call_id(block["tool_use_id"], MESSAGES_ID)


def gemini(body: Body) -> None:
    """Google's generateContent."""
    declared = [one for group in body.get("tools", ()) for one in group["functionDeclarations"]]
    distinct([one["name"] for one in declared])
    for one in declared:
        gemini_name(one["name"])
        valid_schema(one["parametersJsonSchema"], one["name"])
    for content in body["contents"]:
        expect(content["role"] in ("user", "model"), "Please use a valid role: user, model.")
        for part in content["parts"]:
            if "functionCall" in part:
                gemini_name(part["functionCall"]["name"])


def ollama(body: Body) -> None:
    """Ollama's chat: its template drops these before a model sees a tool."""
    for tool in body.get("tools", ()):
        for node in nodes(tool["function"]["parameters"]):
            lost = {"$ref", "oneOf", "allOf"} & set(node)
            expect(not lost, f"{sorted(lost)} is lost")


LAWS: Mapping[str, Callable[[Body], None]] = {
    "responses": responses,
    "chat": chat,
    "messages": messages,
    "gemini": gemini,
    "ollama": ollama,
}
