"""Forms with which tools ask users, filled with answers.

A form is a JSON Schema from a tool or an MCP server. It is untrusted data and may be invalid. An
answer is a text: JSON with the fields of the form, or the plain value if the form has one field.
Answers from every source (terminal, HTTP, AG-UI, MCP, Python) are checked here.
"""

from collections.abc import Mapping
from typing import Any, Final

from taofold.core.json_values import decoded, is_array, is_object
from taofold.tools.schema_check import SchemaCheck, SchemaFault

_TRUE: Final = frozenset({"y", "yes", "true", "1", "on"})
_FALSE: Final = frozenset({"n", "no", "false", "0", "off"})
_PLAIN: Final = ("string", "integer", "number", "boolean", "array")


def filled_form(form: Mapping[str, Any], text: str) -> tuple[dict[str, Any], str]:
    """Fills a form with an answer and checks it.

    Args:
        form: A JSON Schema of an object.
        text: JSON, or the plain value if the form has one field or one required field. An empty
            string takes the defaults.

    Returns:
        The fields, with defaults for missing ones, and an error message or "".
    """
    values = form_values(form, text)
    if values is None:
        return {}, wanted(form)
    return checked_form(form, values)


def checked_form(form: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Fills a form with the values of its fields. Returns the fields and an error message or ""."""
    wrong = "; ".join(fault.sentence for fault in form_faults(form, values))
    return _content(form, values), f"That does not fit: {wrong}." if wrong else ""


def _content(form: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values, with defaults for missing fields."""
    fields = form_fields(form)
    defaults = {name: rules["default"] for name, rules in fields.items() if "default" in rules}
    return defaults | {str(name): value for name, value in values.items()}


def form_faults(form: Mapping[str, Any], values: Mapping[str, Any]) -> list[SchemaFault]:
    """Returns the rules that the values break. A value without a field is a fault too."""
    fields, content = form_fields(form), _content(form, values)
    schema = {**form, "required": _required(form), "additionalProperties": False}
    # The tool checks the answer too, so invalid rules of the form are left to it.
    check = SchemaCheck(schema, checked_again=True)
    if not check.flaw:
        return check.faults_with_paths(content)
    # Checked field by field: an invalid rule of one field must not hide the others' faults.
    names = {"properties": dict.fromkeys(fields, True), "required": _required(form)}
    checks: list[dict[str, Any]] = [{"properties": {name: rules}} for name, rules in fields.items()]
    return [
        fault
        for rules in ({**names, "additionalProperties": False}, *checks)
        for fault in SchemaCheck(rules, checked_again=True).faults_with_paths(content)
    ]


def plain_faults(form: Mapping[str, Any], text: str) -> list[SchemaFault]:
    """Returns the rules that an answer to a form without fields breaks."""
    kind: Any = form.get("type")
    if kind not in _PLAIN and "enum" not in form:
        return []
    value = text if kind in (None, "string") else _valued(form, text.strip())
    return SchemaCheck(form, checked_again=True).faults_with_paths(value)


def wanted(form: Mapping[str, Any]) -> str:
    """Returns the message for an answer that names no field of a form with several."""
    return f"Answer with JSON that holds {', '.join(form_fields(form))}."


def form_fields(form: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the rules of each field."""
    properties: Any = form.get("properties")
    if not is_object(properties):
        return {}
    return {str(name): rules if is_object(rules) else {} for name, rules in properties.items()}


def _required(form: Mapping[str, Any]) -> list[str]:
    """Returns the fields that an answer must have."""
    names: Any = form.get("required")
    return [name for name in form_fields(form) if name in names] if is_array(names) else []


def form_values(form: Mapping[str, Any], text: str) -> Mapping[str, Any] | None:
    """Returns the values of the fields. None if several fields could take a plain value."""
    text = text.strip()
    if not text:
        return {}
    document = _decoded(text)
    fields, required = form_fields(form), _required(form)
    single = required if len(required) == 1 else list(fields)
    if is_object(document):
        # For a single field that accepts objects, an object without its name is the value.
        is_value = (
            len(fields) == 1
            and fields[single[0]].get("type", "object") == "object"
            and single[0] not in document
        )
        return {single[0]: document} if is_value else document
    return {single[0]: _valued(fields[single[0]], text)} if len(single) == 1 else None


def _decoded(text: str) -> Any:
    """Returns the decoded JSON, or the text if it is not JSON."""
    try:
        return decoded(text)
    except (ValueError, RecursionError):
        return text


def _valued(rules: Mapping[str, Any], text: str) -> Any:
    match rules.get("type"):
        case "boolean" if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        case "integer" | "number" | "array" | "boolean":
            return _decoded(text)
        case _:
            return text
