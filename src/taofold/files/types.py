"""Types as files write them: `str`, `list[int]`, `{name: str}`, or JSON Schema. Pure."""

# Values here are any JSON, or come from an untyped library.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false

import re
import warnings
from collections.abc import Mapping
from typing import Any, Final, Literal, Optional

from pydantic import ConfigDict, Field, create_model

from taofold.core.values import JSON

PLAIN: Final[dict[str, Any]] = {
    "any": Any,
    "bool": bool,
    "boolean": bool,
    "dict": dict[str, Any],
    "float": float,
    "int": int,
    "integer": int,
    "list": list[Any],
    "null": type(None),
    "number": float,
    "object": dict[str, Any],
    "str": str,
    "string": str,
    "array": list[Any],
}
_LIST: Final = re.compile(r"(?:list|array)\[(.+)\]")
_DICT: Final = re.compile(r"dict\[\s*str\s*,(.+)\]")
_SCHEMA: Final = frozenset({"type", "properties", "enum", "items"})
_KNOWN: Final = _SCHEMA | {"required", "description", "title", "default", "additionalProperties"}


_DEEPEST: Final = 32
LONGEST: Final = 1_000
"""Maximum number of characters of a type."""


class NoType(ValueError):
    """The text is not a type. `path` is the position of the fault."""

    def __init__(self, message: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.path = path


class OversizedType(NoType):
    """The text is too long, or nested too deep, for a type."""


def type_of(written: JSON, name: str = "Answer", path: tuple[str, ...] = ()) -> Any:
    """Returns the Python type for Pydantic.

    Raises:
        NoType: `written` is not a type.
    """
    if len(path) > 2 * _DEEPEST:
        raise OversizedType("a type is nested too deep", path)
    if isinstance(written, str):
        return _named(written.strip(), path)
    if isinstance(written, list) and len(written) == 1:
        return list[type_of(written[0], name, (*path, "0"))]  # type: ignore[misc]
    if isinstance(written, dict):
        if _is_schema(written):
            return _of_schema(written, name, path)
        return record(written, name, path)
    raise NoType(f"{written!r} is no type; known are {', '.join(PLAIN)}, list[…], a mapping", path)


def record(fields: Mapping[Any, Any], name: str, path: tuple[str, ...] = ()) -> Any:
    """Returns a record of named, typed fields. A name that ends with `?` is optional."""
    annotations: dict[str, Any] = {}
    for key, inner in fields.items():
        key_text = str(key)
        optional, plain = key_text.endswith("?"), key_text.removesuffix("?")
        key_path = (*path, key_text)
        _check_name(plain, key_path)
        kind = type_of(inner, f"{name}_{plain}", key_path)
        annotations[plain] = (Optional[kind], None) if optional else (kind, ...)  # noqa: UP045 - a value
    return _model(name, annotations)


def _model(name: str, fields: Mapping[str, Any]) -> Any:
    with warnings.catch_warnings():
        # A field may be called `copy` or `json`: the model's own methods are not used.
        warnings.filterwarnings("ignore", "Field name", UserWarning)
        return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)


def _named(text: str, path: tuple[str, ...], depth: int = 0) -> Any:
    # Each step reads the whole text, and Pydantic builds each level.
    if depth > _DEEPEST:
        raise OversizedType(f"a type is nested more than {_DEEPEST} deep", path)
    if len(text) > LONGEST:
        raise OversizedType(f"a type has at most {LONGEST} characters", path)
    if text.endswith("?"):
        return Optional[_named(text[:-1].strip(), path, depth + 1)]  # noqa: UP045 - a value
    if " | " in text:
        kinds = [_named(part.strip(), path, depth + 1) for part in text.split(" | ")]
        return _union(kinds)
    if text in PLAIN:
        return PLAIN[text]
    if inner := _LIST.fullmatch(text):
        return list[_named(inner[1].strip(), path, depth + 1)]  # type: ignore[misc]
    if inner := _DICT.fullmatch(text):
        return dict[str, _named(inner[1].strip(), path, depth + 1)]  # type: ignore[misc]
    raise NoType(
        f"unknown type {text!r}; known are {', '.join(PLAIN)}, list[…], dict[str, …]", path
    )


def _union(kinds: list[Any]) -> Any:
    union = kinds[0]
    for kind in kinds[1:]:
        union = union | kind
    return union


def _is_schema(written: Mapping[Any, Any]) -> bool:
    return (
        isinstance(written.get("type"), str | list)
        and set(written) <= _KNOWN
        # `{type: str}` is a record with a field `type`. JSON Schema uses `string`.
        and (written["type"] not in ("str", "int", "float", "bool") or len(written) > 1)
    )


def _of_schema(schema: Mapping[str, Any], name: str, path: tuple[str, ...]) -> Any:
    if "enum" in schema:
        values = schema["enum"]
        plain = isinstance(values, list) and all(
            value is None or isinstance(value, str | int | float) for value in values
        )
        if not plain or not values:
            raise NoType("enum is a list of texts, numbers and booleans", (*path, "enum"))
        return Literal[tuple(values)]
    kind = schema["type"]
    if isinstance(kind, list):
        if not kind or not all(isinstance(member, str) for member in kind):
            raise NoType("type is the name of a type, or a list of names", (*path, "type"))
        return _union([_of_schema({**schema, "type": member}, name, path) for member in kind])
    if kind == "array" and "items" in schema:
        return list[type_of(schema["items"], name, (*path, "items"))]  # type: ignore[misc]
    if kind == "object" and "properties" in schema:
        required, properties = schema.get("required", []), schema["properties"]
        if not isinstance(properties, dict):
            raise NoType("must be a mapping of names to types", (*path, "properties"))
        if not isinstance(required, list):
            raise NoType("must be a list of names", (*path, "required"))
        fields: dict[str, Any] = {}
        for key, inner in properties.items():
            key_path = (*path, "properties", str(key))
            _check_name(str(key), key_path)
            type_ = type_of(inner, f"{name}_{key}", key_path)
            description = inner.get("description") if isinstance(inner, dict) else None
            # A missing optional field is None.
            default = ... if key in required else None
            fields[str(key)] = (
                type_ if key in required else Optional[type_],  # noqa: UP045 - a value
                Field(default, description=description),
            )
        return _model(name, fields)
    return _named(str(kind), path)


def _check_name(name: str, path: tuple[str, ...]) -> None:
    # Pydantic treats names that begin with _ as private, and reserves `model_`.
    if not name.isidentifier() or name.startswith(("_", "model_")):
        raise NoType(f"{name!r} cannot be the name of a field", path)
