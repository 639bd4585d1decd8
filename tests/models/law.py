"""The documented rules of the providers for schemas, names and ids, as checks.

Strict fakes call them, so that no test shows more than the real provider allows. Each rule has the
source in which the provider states it, or the words in which it refuses.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator

Body = Mapping[str, Any]
VALIDATOR = Draft202012Validator(Draft202012Validator.META_SCHEMA)
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
    for error in VALIDATOR.iter_errors(schema):
        at_key = "/".join(map(str, error.absolute_path))
        expect(None, f"{where}: JSON schema is invalid: {at_key}: {error.message}"[:300])
    for node in nodes(schema):
        kinds = node.get("type", [])
        kinds = kinds if isinstance(kinds, list) else [kinds]
        expect(set(kinds) <= TYPES, f"{where}: {kinds} is no type")
        expect("array" not in kinds or "items" in node, f"{where}: array schema missing items")
        # "Invalid schema for function": "enum value A does not validate against {'type': 'null'}".
        odd = [each for each in node.get("enum", ()) if kinds == ["null"] and each is not None]
        odd += [e for e in node.get("enum", ()) if kinds == ["array"] and not isinstance(e, list)]
        expect(not odd, f"{where}: enum value {odd} does not validate against {kinds}")
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


# --- parameters and pairs ------------------------------------------------------------------------

THINKING_GPT = ("gpt-5", "gpt-6", "o1", "o3", "o4")
NEVER_OFF = ("gpt-6-astra", "gpt-6.1", "gpt-6.2", "o1", "o3", "o4")
CLAUDE_WITHOUT_SAMPLING = (
    *("claude-fable-5", "claude-mythos-5", "claude-opus-4-7", "claude-opus-4-8"),
    *("claude-opus-5", "claude-sonnet-5", "claude-haiku-5-5"),
)
CLAUDE_ALWAYS_THINKING = ("claude-fable-5", "claude-mythos-5", "claude-opus-5-5")
CLAUDE_UNFORCED = ("claude-fable-5-1", "claude-fable-5-2", "claude-mythos-5-1", "claude-mythos-5-2",
                   "claude-opus-5-5", "claude-sonnet-5-5")  # fmt: skip


def thinking_gpt(body: Body, effort: Any) -> None:
    """OpenAI: "Unsupported parameter: 'temperature' is not supported with this model", "Unsupported
    value: 'none' is not supported with the 'gpt-6.1-sol' model".
    """
    model = str(body.get("model", ""))
    if not model.startswith(THINKING_GPT) or "chat" in model:
        expect(not effort, "Unsupported parameter: 'reasoning.effort'")
        return
    if effort != "none":
        for name in ("temperature", "top_p"):
            expect(body.get(name) in (None, 1), f"Unsupported parameter: {name!r}")
    expect(effort != "none" or not model.startswith(NEVER_OFF), "Unsupported value: 'none'")
    late = model.startswith(("gpt-5.6", "gpt-6"))
    expect(effort != "minimal" or not late, "Unsupported value: 'minimal'")


def paired(calls: Sequence[str], results: Sequence[str]) -> None:
    """OpenAI: "No tool output found for function call …", "No tool call found for function call
    output with call_id …".
    """
    expect(set(calls) <= set(results), f"No tool output found for {set(calls) - set(results)}")
    expect(set(results) <= set(calls), f"No tool call found for {set(results) - set(calls)}")


def chat_pairs(messages: Sequence[Any]) -> None:
    """OpenAI: "An assistant message with 'tool_calls' must be followed by tool messages responding
    to each 'tool_call_id'".
    """
    due: list[str] = []
    for message in [*messages, {"role": "end"}]:
        if message["role"] == "tool":
            expect(message["tool_call_id"] in due, "role 'tool' must be a response to a call")
            due.remove(message["tool_call_id"])
            continue
        expect(not due, f"tool_call_ids did not have response messages: {due}")
        due = [call["id"] for call in message.get("tool_calls") or ()]


def messages_parameters(body: Body) -> None:
    """Anthropic: "`temperature` is deprecated for this model", "`temperature` and `top_p` cannot
    both be specified for this model", "tool_choice: type \"tool\" and \"any\" are not supported
    for this model", "A maximum of 4 blocks with cache_control may be provided".
    """
    model = body["model"]
    sampled = [name for name in ("temperature", "top_p", "top_k") if name in body]
    expect(not sampled or not model.startswith(CLAUDE_WITHOUT_SAMPLING), f"{sampled}: deprecated")
    both = {"temperature", "top_p"} <= set(sampled)
    expect(not both or model.startswith("claude-3"), "temperature and top_p cannot both be given")
    thinking = body.get("thinking") or {}
    kind, new = thinking.get("type"), model.startswith(CLAUDE_WITHOUT_SAMPLING)
    expect(kind != "enabled" or not new, '"thinking.type.enabled" is not supported for this model')
    if kind == "enabled":
        small = thinking["budget_tokens"] < body["max_tokens"]
        expect(small, "`max_tokens` must be greater than `thinking.budget_tokens`")
    off = kind in ("disabled", "between_tools")
    expect(not off or not model.startswith(CLAUDE_ALWAYS_THINKING), f"thinking {kind!r}")
    choice = (body.get("tool_choice") or {}).get("type")
    if choice in ("any", "tool"):
        expect(not model.startswith(CLAUDE_UNFORCED), f"tool_choice: type {choice!r}")
        expect(kind != "enabled", "Thinking may not be enabled when tool_choice forces tool use.")
    marks = json.dumps([body.get("system"), body.get("tools"), body["messages"]])
    count = marks.count('"cache_control":') + ("cache_control" in body)
    expect(count <= 4, "A maximum of 4 blocks with cache_control may be provided")


def messages_pairs(messages: Sequence[Any]) -> None:
    """Anthropic: "`tool_use` ids were found without `tool_result` blocks immediately after",
    "text content blocks must be non-empty", "The conversation must end with a user message".
    """
    talk = [each for each in messages if each["role"] != "system"]
    expect(talk, "messages: at least one message is required")
    expect(talk[-1]["role"] == "user", "The conversation must end with a user message.")
    for at, message in enumerate(talk):
        blocks = message["content"] if isinstance(message["content"], list) else ()
        empty = [each for each in blocks if each["type"] == "text" and not each["text"]]
        expect(not empty, "text content blocks must be non-empty")
        after = talk[at + 1]["content"] if at + 1 < len(talk) else ()
        results = [each.get("tool_use_id") for each in after if isinstance(each, dict)]
        calls = [each["id"] for each in blocks if each["type"] == "tool_use"]
        expect(set(calls) <= set(results), f"`tool_use` ids without `tool_result`: {calls}")


def gemini_parameters(body: Body) -> None:
    """Google: "You can only set only one of thinking budget and thinking level", "Function calling
    config allowed_function_names contains functions not provided in tools".
    """
    config = body.get("generationConfig", {})
    thinking = config.get("thinkingConfig", {})
    expect(not {"thinkingLevel", "thinkingBudget"} <= set(thinking), "thinking budget and level")
    level = thinking.get("thinkingLevel", "LOW")
    expect(str(level).upper() in LEVELS, f"Invalid value at 'thinking_level': {level!r}")
    schema = "responseJsonSchema" in config or "responseSchema" in config
    is_json = config.get("responseMimeType") == "application/json"
    expect(is_json or not schema, "a schema is only allowed with application/json")
    declared = {
        each["name"] for group in body.get("tools", ()) for each in group["functionDeclarations"]
    }
    calling = body.get("toolConfig", {}).get("functionCallingConfig", {})
    allowed = calling.get("allowedFunctionNames", ())
    expect(set(allowed) <= declared, "allowed_function_names contains functions not provided")
    modes = ("ANY", "VALIDATED")
    expect(not allowed or calling.get("mode") in modes, "allowed_function_names needs mode ANY")


def gemini_pairs(contents: Sequence[Any]) -> None:
    """Google: "contents.parts must not be empty", "the number of function response parts is equal
    to the number of function call parts of the function call turn".
    """
    asked: list[str] = []
    for content in contents:
        expect(content["parts"], "contents.parts must not be empty")
        answers = [
            part["functionResponse"]["name"]
            for part in content["parts"]
            if "functionResponse" in part
        ]
        expect(sorted(asked) == sorted(answers), "function responses do not match the calls")
        asked = [
            part["functionCall"]["name"] for part in content["parts"] if "functionCall" in part
        ]
    expect(not asked, "function call turn must be followed by a function response turn")


# --- media and signatures ------------------------------------------------------------------------

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
LEVELS = ("MINIMAL", "LOW", "MEDIUM", "HIGH")


def picture_address(url: Any) -> None:
    """OpenAI: "Invalid 'image_url'. Expected a base64-encoded data URL with an image MIME type"."""
    expect(isinstance(url, str), "Invalid type for 'image_url': expected a string")
    if not url.startswith(("http://", "https://")):
        kind, _, data = url.removeprefix("data:").partition(";base64,")
        expect(url.startswith("data:") and kind in PICTURES, f"Invalid 'image_url': {url[:30]!r}")
        base64_data(data)


def base64_data(data: Any) -> None:
    """Google: "Invalid value at 'contents[0].parts[0].inline_data.data' (TYPE_BYTES), Base64
    decoding failed"; Anthropic: "messages.0.content.0.image.source.base64: invalid base64 data".
    """
    try:
        whole = b64decode(data, validate=True)
    except ValueError:
        whole = b""
    expect(whole, "Base64 decoding failed")


def messages_media(block: Mapping[str, Any]) -> None:
    """Anthropic: "image.source.base64.media_type: Input should be 'image/jpeg', 'image/png',
    'image/gif' or 'image/webp'".
    """
    source = block["source"]
    if source["type"] == "base64":
        kinds = PICTURES if block["type"] == "image" else ("application/pdf", "text/plain")
        expect(source["media_type"] in kinds, f"media_type: Input should be one of {kinds}")
        base64_data(source["data"])


def messages_signatures(blocks: Sequence[Any]) -> None:
    """Anthropic: "messages.1.content.0.thinking.signature: Field required", "When thinking is
    enabled, a final assistant message must start with a thinking block".
    """
    kinds = [block["type"] for block in blocks]
    for block in blocks:
        if block["type"] == "thinking":
            expect(block.get("signature"), "thinking.signature: Field required")
    thoughts = ("thinking", "redacted_thinking")
    expect(not set(kinds) & {*thoughts} or kinds[0] in thoughts, "Expected `thinking` first")


def gemini_signatures(content: Mapping[str, Any]) -> None:
    """Google: "Function call is missing a thought_signature in functionCall parts"; the first call
    of a step carries it (guide "Thought signatures").
    """
    calls = [part for part in content["parts"] if "functionCall" in part]
    for part in calls[:1]:
        expect(part.get("thoughtSignature"), "Function call is missing a thought_signature")
        base64_data(part["thoughtSignature"])


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
        pattern = r"[A-Za-z0-9_-]{1,64}"
        expect(re.fullmatch(pattern, form["name"]), "Invalid 'text.format.name'")
    thinking_gpt(body, (body.get("reasoning") or {}).get("effort"))
    choice: Any = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "function":
        expect(choice["name"] in [tool["name"] for tool in tools], "Tool choice not found")
    expect(choice != "required" or tools, "Tool choice 'required' must be specified with 'tools'")
    kinds = ("function_call", "function_call_output")
    calls, results = [
        [item["call_id"] for item in body["input"] if item.get("type") == kind] for kind in kinds
    ]
    paired(calls, results)
    for item in body["input"]:
        if item.get("type") in ("function_call", "function_call_output"):
            call_id(item["call_id"], RESPONSES_ID)
        if item.get("type") == "function_call":
            tool_name(item["name"])
        for part in item["content"] if isinstance(item.get("content"), list) else ():
            if part["type"] == "input_image":
                picture_address(part["image_url"])
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
    chat_pairs(body["messages"])
    if str(body.get("model", "")).startswith(THINKING_GPT):
        expect("max_tokens" not in body, "Unsupported parameter: 'max_tokens'")
        thinking_gpt(body, body.get("reasoning_effort"))
    for message in body["messages"]:
        roles = ("system", "developer", "user", "assistant", "tool")
        expect(message["role"] in roles, f"invalid role {message['role']!r}")
        for part in message["content"] if isinstance(message.get("content"), list) else ():
            if part["type"] == "image_url":
                expect(message["role"] == "user", "image_url is only allowed in user messages")
                picture_address(part["image_url"]["url"])
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
    messages_parameters(body)
    messages_pairs(body["messages"])
    for message in body["messages"]:
        expect(message["role"] in ("user", "assistant", "system"), "invalid role")
        blocks = message["content"] if isinstance(message["content"], list) else ()
        messages_signatures(blocks)
        for block in blocks:
            if block["type"] in ("image", "document"):
                messages_media(block)
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
    gemini_parameters(body)
    gemini_pairs(body["contents"])
    for content in body["contents"]:
        expect(content["role"] in ("user", "model"), "Please use a valid role: user, model.")
        gemini_signatures(content)
        for part in content["parts"]:
            if "inlineData" in part:
                base64_data(part["inlineData"]["data"])
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
