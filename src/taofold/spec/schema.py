"""The JSON Schema of agent and flow files, for editors: made from what also checks them."""

from typing import Any, Final

from taofold.actions import Actions, build_actions_registry
from taofold.actions.registry import alias
from taofold.spec.flow_keys import FlowKeys, NodeKeys

TITLE: Final = "taofold agent file"
_NODE: Final = {"$ref": "#/$defs/NodeKeys"}


def published(actions: Actions | None = None) -> dict[str, Any]:
    """The schema. A file without `nodes` is an agent, one with them a flow."""
    actions = build_actions_registry() if actions is None else actions
    schema = FlowKeys.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
    node = NodeKeys.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
    definitions: dict[str, Any] = schema.setdefault("$defs", {})
    definitions |= node.pop("$defs", {})
    definitions["NodeKeys"] = node
    nodes = {"type": "array", "items": _NODE}
    schema["properties"]["nodes"] |= nodes
    node["properties"]["steps"] |= nodes
    branches = definitions["Parallel"]["properties"]["branches"]
    branches["additionalProperties"] = {"anyOf": [nodes, {"type": "object"}]}
    names = [*actions, *(alias(name) for name in actions)]
    for key in ("uses", "action"):
        open_ = {"type": "string", "pattern": "^(actions\\.tool_|tool\\.|agent\\.|flow\\.)"}
        node["properties"][key] = {"anyOf": [{"enum": names}, open_]}
    node["allOf"] = [_keyed(name, actions, definitions) for name in actions]
    schema.pop("required", None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": TITLE,
    }


def _keyed(name: str, actions: Actions, definitions: dict[str, Any]) -> dict[str, Any]:
    """What `with` may hold when the node uses this action."""
    kind = actions[name]
    keys = kind.keys.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
    definitions |= keys.pop("$defs", {})
    known = {"enum": [name, alias(name)]}
    used = [{"properties": {key: known}, "required": [key]} for key in ("uses", "action")]
    shown = {key: _or_template(value) for key, value in keys.get("properties", {}).items()}
    return {
        "if": {"anyOf": used},
        "then": {"properties": {"with": {**keys, "properties": shown}}},
    }


def _or_template(schema: dict[str, Any]) -> dict[str, Any]:
    """Any value may also be a template."""
    if schema.get("type") == "string" or not schema:
        return schema
    template = {"type": "string", "pattern": "\\{[{%]"}
    kept = {key: value for key, value in schema.items() if key in ("title", "description")}
    return {**kept, "anyOf": [schema, template]}
