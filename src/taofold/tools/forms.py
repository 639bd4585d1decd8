"""The forms with which tools ask people, filled with answers.

A form is a JSON Schema from a tool, perhaps from an MCP server. An answer is a text: JSON with the
fields of the form, or the plain value where the form has one field.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from taofold.core.json_values import is_array, is_object
from taofold.tools.schema_check import SchemaCheck

_TRUE: Final = frozenset({"y", "yes", "true", "1", "on"})
_FALSE: Final = frozenset({"n", "no", "false", "0", "off"})


def filled_form(form: Mapping[str, Any], text: str) -> tuple[dict[str, Any], str]:
    """The form filled with an answer, and what is wrong with the answer.

    Args:
        form: A JSON Schema of an object.
        text: JSON, or the plain value if the form has one field, or one that is required. "" takes
            the defaults.

    Returns:
        The fields, with defaults where the answer has none, and a sentence, "" if they fit.
    """
    values = _field_values(form, text.strip())
    if values is None:
        return {}, f"Answer with JSON that holds {', '.join(_fields(form))}."
    return checked_form(form, values)


def checked_form(form: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The form filled with the values of its fields, and what is wrong with them."""
    fields = _fields(form)
    content = {name: rules["default"] for name, rules in fields.items() if "default" in rules}
    content |= {str(name): value for name, value in values.items()}
    odd = [name for name in content if name not in fields]
    if odd:
        return {}, f"The form has no {odd[0]!r}, only {', '.join(fields)}."
    # The tool reads the answer, too: a rule of the form that is none is left to it.
    check = SchemaCheck({**form, "required": _required(form)}, checked_again=True)
    wrong = "; ".join(check.faults(content))
    return content, f"That does not fit: {wrong}." if wrong else ""


def _fields(form: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The rules of each field. A form may be wrong in any way."""
    properties: Any = form.get("properties")
    if not is_object(properties):
        return {}
    return {name: rules if is_object(rules) else {} for name, rules in properties.items()}


def _required(form: Mapping[str, Any]) -> list[str]:
    """The fields of the form that an answer must have."""
    names: Any = form.get("required")
    return [name for name in _fields(form) if name in names] if is_array(names) else []


def _field_values(form: Mapping[str, Any], text: str) -> Mapping[str, Any] | None:
    """The values of the fields; None if several fields could take what is no object."""
    if not text:
        return {}
    try:
        document: Any = json.loads(text)
    except ValueError:
        document = text
    fields, required = _fields(form), _required(form)
    single = required if len(required) == 1 else list(fields)
    if is_object(document):
        # For one field that takes objects an object without its name is the value.
        is_value = (
            len(fields) == 1
            and fields[single[0]].get("type", "object") == "object"
            and single[0] not in document
        )
        return {single[0]: document} if is_value else document
    return {single[0]: _valued(fields[single[0]], text)} if len(single) == 1 else None


def _valued(rules: Mapping[str, Any], text: str) -> Any:
    match rules.get("type"):
        case "boolean" if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        case "integer" | "number" | "array" | "boolean":
            try:
                return json.loads(text)
            except ValueError:
                return text
        case _:
            return text
