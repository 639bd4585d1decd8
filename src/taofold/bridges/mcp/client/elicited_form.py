"""Reads the form of an elicitation: flat fields of primitive types, as MCP allows.

`plain_form` rebuilds the form from the protocol's keys. Other parts of a server's schema (nested
objects, references, extensions) are dropped, so they reach no user and no other program. Knows
nothing about the meaning of fields.
"""

from collections.abc import Mapping
from typing import Any, Final

from taofold.core.json_values import is_array, is_object
from taofold.core.text import visible_line

_NUMBER: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "integer": _NUMBER,
    "number": _NUMBER,
    "boolean": (),
    "array": ("minItems", "maxItems", "uniqueItems"),
}
"""Allowed keys of each type (MCP 2025-11-25, `PrimitiveSchemaDefinition`), and bounds."""
_PROSE: Final = ("title", "description", "default")


def plain_form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the form with the protocol's keys only.

    Raises:
        ValueError: A field is no text, number, boolean or choice.
    """
    properties: Any = schema.get("properties", {})
    if not is_object(properties):
        raise ValueError("its fields have no names")
    form: dict[str, Any] = {"type": "object", "properties": {}}
    for name, rules in properties.items():
        field = _field(rules) if is_object(rules) else None
        if field is None:
            raise ValueError(
                f"its field {visible_line(str(name))[:100]!r} is none that the protocol has: a "
                "text, a number, yes or no, or a choice of values"
            )
        form["properties"][str(name)] = field
    required: Any = schema.get("required")
    if is_array(required):
        form["required"] = [name for name in form["properties"] if name in required]
    return form


def options(field: Mapping[str, Any]) -> list[Any]:
    """Returns the allowed values of a field of a plain form; [] if it accepts any value."""
    field = field.get("items", field)
    titled = field.get("oneOf", field.get("anyOf", ()))
    return [option["const"] for option in titled] or list(field.get("enum", ()))


def option_names(field: Mapping[str, Any]) -> list[str]:
    """Returns the displayed names of a field's options."""
    inner = field.get("items", field)
    titled = inner.get("oneOf", inner.get("anyOf", ()))
    names = [*[option.get("title", "") for option in titled], *field.get("enumNames", ())]
    return [str(name) for name in (*names, *options(field))]


def _field(rules: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the field with only the keys of its type; None if the type is unknown."""
    alternatives: Any = rules.get("anyOf")
    if is_array(alternatives):
        # Pydantic's form of an optional field.
        types = [each for each in alternatives if each != {"type": "null"}]
        if len(types) != 1 or len(alternatives) != 2 or not is_object(types[0]):
            return None
        rules = {**{key: rules[key] for key in _PROSE if key in rules}, **types[0]}
    kind: Any = rules.get("type", "string" if "enum" in rules or "oneOf" in rules else None)
    keys = _KEYS.get(kind) if isinstance(kind, str) else None
    if keys is None:
        return None
    field = {key: rules[key] for key in (*_PROSE, *keys) if rules.get(key) is not None}
    items: Any = rules.get("items") if kind == "array" else rules
    choice = _choice(items) if is_object(items) else None
    if choice is None or (kind == "array" and not choice):
        return None
    names: Any = rules.get("enumNames")
    if is_array(names):
        field["enumNames"] = list(map(str, names))
    chosen = {"items": {"type": "string", **choice}} if kind == "array" else choice
    return {"type": kind, **field, **chosen}


def _choice(rules: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the allowed values with titles; {} if there are none, None if they are invalid."""
    if "const" in rules:
        return {"enum": [rules["const"]]}
    if "enum" in rules:
        values: Any = rules["enum"]
        plain = is_array(values) and values and not any(map(_nests, values))
        return {"enum": list(values)} if plain else None
    for key in ("oneOf", "anyOf"):
        if key not in rules:
            continue
        offers: Any = rules[key]
        if not is_array(offers) or not offers:
            return None
        if not all([is_object(each) and not _nests(each.get("const", {})) for each in offers]):
            return None
        return {key: [{k: each[k] for k in ("const", "title") if k in each} for each in offers]}
    return {}


def _nests(value: Any) -> bool:
    return is_object(value) or is_array(value)
