"""The forms with which tools ask: does what a person wrote fit?

A form is a JSON Schema from a tool, perhaps from an MCP server: data. Its types, choices and bounds
are checked here, one level deep like the form; patterns, formats and what is nested are the tool's
to check.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic import create_model as model_of

from taofold.core.json_values import decoded, is_array, is_object
from taofold.server.endpoint import Problem, invalid

_STRICT: Final = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
_TYPES: Final[Mapping[str, Any]] = {"string": str, "integer": int, "number": float, "boolean": bool}
_BOUNDS: Final = {
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
}
_LENGTHS: Final = {"string": ("minLength", "maxLength"), "array": ("minItems", "maxItems")}


def answer(form: Mapping[str, Any], text: str) -> str:
    """`text` as the tool gets it: JSON that fits the form, where the form is of fields.

    Like for an MCP server the plain value will do for a form of one field.

    Raises:
        Problem: 422 with the path of everything that does not fit.
    """
    fields = _fields(form)
    if not fields:
        kind = form.get("type")
        _check("answer", _type(form), text if kind in (None, "string") else _decoded(text))
        return text
    filled: Any = _decoded(text) if text.strip() else {}
    if not is_object(filled):
        if len(fields) != 1:
            raise Problem(422, "invalid", f"answer: JSON with {', '.join(fields)} is wanted")
        ((name, rules),) = fields.items()
        # `42` typed into a text field is the text "42", not the number that JSON reads.
        filled = {name: text if rules.get("type") == "string" else filled}
    check(form, filled, "answer")
    return msgspec.json.encode(filled).decode()


def check(form: Mapping[str, Any], filled: Mapping[str, Any], where: str) -> None:
    """Refuse what does not fit the form.

    Raises:
        Problem: 422 with the path of everything that does not fit, under `where`.
    """
    fields = _fields(form)
    if fields:
        _check(where, _model(form, fields), filled)


def _check(where: str, kind: Any, filled: Any) -> None:
    try:
        TypeAdapter[Any](kind).validate_python(filled)
    except ValidationError as error:
        raise invalid(error, "body", where) from None


def _decoded(text: str) -> Any:
    """The JSON that the text is, else the text: then it is of the wrong type."""
    try:
        return decoded(text.strip())
    except (ValueError, RecursionError):
        return text


def _fields(form: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    properties: Any = form.get("properties")
    if not is_object(properties):
        return {}
    return {str(name): rules if is_object(rules) else {} for name, rules in properties.items()}


def _model(form: Mapping[str, Any], fields: Mapping[str, Mapping[str, Any]]) -> type[BaseModel]:
    """What a filled form must be: the fields that it names, and no others."""
    required: Any = form.get("required")
    mandatory = set(map(str, required)) if is_array(required) else set[str]()
    definitions: dict[str, Any] = {
        # A field's name is the tool's and may be anything, so it is only the alias.
        f"f{number}": (
            _type(rules),
            # None is no default that is validated: a field
            # that is left out passes whatever its type.
            Field(... if name in mandatory and "default" not in rules else None, alias=name),
        )
        for number, (name, rules) in enumerate(fields.items())
    }
    return model_of("Form", __config__=_STRICT, **definitions)


def _type(rules: Mapping[str, Any]) -> Any:
    """The type of one field; `Any` where the rules say nothing that we know."""
    options = _options(rules)
    if options is not None:
        return Annotated[Any, AfterValidator(_chosen(options))]
    declared: Any = rules.get("type")
    # A list of types (`["string", "null"]`) is left to the tool, like everything unknown.
    kind = declared if isinstance(declared, str) else ""
    if kind == "array":
        items: Any = rules.get("items")
        inner: Any = _type(items) if is_object(items) else Any
        return Annotated[list[inner], Field(strict=True, **_lengths(rules, kind))]
    if kind not in _TYPES:
        return Any
    bounds: dict[str, Any] = _lengths(rules, kind)
    if kind in ("integer", "number"):
        bounds = {ours: rules[name] for name, ours in _BOUNDS.items() if _number(rules.get(name))}
    return Annotated[_TYPES[kind], Field(strict=True, **bounds)]


def _options(rules: Mapping[str, Any]) -> list[Any] | None:
    listed: Any = rules.get("enum")
    if is_array(listed):
        return listed
    for word in ("oneOf", "anyOf"):
        alternatives: Any = rules.get(word)
        if (
            is_array(alternatives)
            and alternatives
            and all(
                is_object(alternative) and "const" in alternative for alternative in alternatives
            )
        ):
            return [alternative["const"] for alternative in alternatives]
    return None


def _chosen(options: list[Any]) -> Any:
    allowed = {_json(option) for option in options}

    def check(value: Any) -> Any:
        if _json(value) not in allowed:
            # Cut: the options are a tool's, perhaps a foreign MCP server's, and may be long.
            raise ValueError(f"choose one of {', '.join(map(str, options))[:300]}")
        return value

    return check


def _json(value: Any) -> bytes:
    """Tells `1` from `true`, which Python does not."""
    return msgspec.json.encode(value, order="sorted")


def _lengths(rules: Mapping[str, Any], kind: str) -> dict[str, Any]:
    limits = zip(("min_length", "max_length"), _LENGTHS.get(kind, ()), strict=False)
    sizes = {ours: rules.get(name) for ours, name in limits}
    # `type(…) is`: True is an int to isinstance, and Pydantic would take it as a bound.
    return {ours: size for ours, size in sizes.items() if type(size) is int and size >= 0}


def _number(value: Any) -> bool:
    return type(value) in (int, float)
