"""Renders a type or a JSON schema for a prompt in few tokens, in the notation of TypeScript.

Knows nothing about models or tools.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from taofold.core.json_values import is_array
from taofold.parsing.schema.target import target_of

Schema = Mapping[str, Any]
_DEPTH = 12
_WORD = re.compile(r"[A-Za-z_]\w*")
_BOUNDS = (
    ("minimum", ">="),
    ("maximum", "<="),
    ("exclusiveMinimum", ">"),
    ("exclusiveMaximum", "<"),
    ("minLength", "length >="),
    ("maxLength", "length <="),
    ("pattern", "matches"),
    ("minItems", "items >="),
    ("maxItems", "items <="),
    ("format", ""),
)


def render_schema(schema_or_type: Any) -> str:
    """Renders a schema: `{path: string, mode?: "r" | "w", tags: string[]}`.

    Descriptions and bounds follow as comments, defaults as ` = value`. The second occurrence of a
    recursive type is only its name.

    Args:
        schema_or_type: A JSON schema, or any type that Pydantic can validate.
    """
    if isinstance(schema_or_type, Mapping):
        schema = cast("Schema", schema_or_type)
    else:
        schema = target_of(schema_or_type).adapter.json_schema()
    return _render(schema, schema, (), 0)


def _render(node: Any, root: Schema, trail: tuple[str, ...], indent: int) -> str:
    if not isinstance(node, Mapping) or indent > _DEPTH:
        return "any"
    schema = cast("Schema", node)
    if "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[-1]
        # Only along the path: a type that is used twice side by side is written out twice.
        if name in trail:
            return name
        definitions: Schema = root.get("$defs") or root.get("definitions") or {}
        return _render(definitions.get(name), root, (*trail, name), indent)
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False, default=str)
    if isinstance(schema.get("enum"), list):
        return " | ".join(
            json.dumps(each, ensure_ascii=False, default=str) for each in schema["enum"]
        )
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            parts = [_render(each, root, trail, indent) for each in schema[key]]
            return (" & " if key == "allOf" else " | ").join(dict.fromkeys(parts))
    return _typed(schema, root, trail, indent)


def _typed(schema: Schema, root: Schema, trail: tuple[str, ...], indent: int) -> str:
    kind = schema.get("type")
    if is_array(kind):
        return " | ".join(_typed({**schema, "type": each}, root, trail, indent) for each in kind)
    if kind == "object" or "properties" in schema:
        return _object(schema, root, trail, indent)
    if kind == "array":
        if schema.get("prefixItems"):
            parts = [_render(each, root, trail, indent) for each in schema["prefixItems"]]
            return f"[{', '.join(parts)}]"
        item = _render(schema.get("items", True), root, trail, indent)
        return f"({item})[]" if " | " in item else f"{item}[]"
    names = {"integer": "int", "number": "number", "string": "string", "boolean": "boolean"}
    return names.get(str(kind), "null" if kind == "null" else "any")


def _object(schema: Schema, root: Schema, trail: tuple[str, ...], indent: int) -> str:
    properties = cast("Schema", schema.get("properties") or {})
    extra = schema.get("additionalProperties")
    if not properties:
        inner = _render(extra, root, trail, indent) if isinstance(extra, Mapping) else "any"
        return f"{{[key: string]: {inner}}}"
    required = schema.get("required") or ()
    fields: list[str] = []
    commented = False
    for name, each in properties.items():
        label = name if _WORD.fullmatch(name) else json.dumps(name, ensure_ascii=False)
        mark = "" if name in required else "?"
        text = f"{label}{mark}: {_render(each, root, trail, indent + 1)}"
        if isinstance(each, Mapping):
            field = cast("Schema", each)
            if field.get("default") is not None:
                text += f" = {json.dumps(field['default'], ensure_ascii=False, default=str)}"
            note = _note(field)
            commented = commented or bool(note)
            text += f"  // {note}" if note else ""
        fields.append(text)
    if not commented:
        return "{" + ", ".join(fields) + "}"
    margin = "  " * (indent + 1)
    return "{\n" + "".join(f"{margin}{each}\n" for each in fields) + "  " * indent + "}"


def _note(schema: Schema) -> str:
    words = [" ".join(str(schema["description"]).split())] if schema.get("description") else []
    for key, sign in _BOUNDS:
        if key in schema:
            words.append(f"{sign} {schema[key]}".strip())
    return ", ".join(words)
