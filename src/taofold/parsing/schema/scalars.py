"""Converts scalars without loss, by a table of allowed conversions and their prices.

Defines the texts that may be converted (`LooseText`, `TaggedText`). Knows nothing about containers.
Never rounds, clamps or picks one of two values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from pydantic_core import PydanticSerializationError, to_json

from taofold.parsing.jsonlike.tokens import LITERALS, MISSING, number_of, quantity_of
from taofold.parsing.schema.reading_plan import TypeShape, fold

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_NULL = frozenset({"null", "none", "nil", "undefined", ""})
_NAMESPACES = ("functions.", "default_api.", "tools.")
_EXACT = 2**53


class TaggedText(str):
    """Text whose tag declares it a string, `string="true"`; loose if the schema has no text."""

    __slots__ = ()


class LooseText(str):
    """A value from a form that writes everything as text (YAML, XML, TAO): any type may be read."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Conversion:
    """A converted scalar; `kind` is the name of the repair, empty if nothing changed."""

    value: Any
    kind: str = ""
    cost: int = 2


_REFUSED = Conversion(MISSING)


def convert(value: Any, shape: TypeShape) -> Conversion:
    """Converts a scalar to the kind of a shape; the value is `MISSING` if it does not fit."""
    return _TABLE[shape.kind](value, shape)


def plain(value: LooseText) -> Any:
    """Returns the JSON scalar that a text spells, or the text itself."""
    word = value.strip()
    if word[:1] == '"':
        try:
            return str(json.loads(word))
        except ValueError:
            return str(value)
    if word in LITERALS and word.lower() in ("true", "false", "null", "none"):
        return LITERALS[word]
    number, is_json = number_of(word) if word[:1] in tuple("-0123456789") else (MISSING, False)
    return number if is_json else str(value)


def expectation(shape: TypeShape) -> str:
    """Describes the expected value in a few words for the model."""
    if shape.kind == "enum":
        return "one of " + ", ".join(json.dumps(each, default=str) for each in shape.values[:12])
    if shape.kind == "union":
        return " or ".join(dict.fromkeys(_alternatives(shape)))
    return _WANTED.get(shape.kind, f"a {shape.kind}")


def _alternatives(shape: TypeShape) -> Iterator[str]:
    """Yields the descriptions of a union's options and of nested unions, each shape once."""
    waiting, seen = [*shape.options[:_ALTERNATIVES]], {id(shape)}
    while waiting and len(seen) <= _SHAPES:
        option = waiting.pop(0)
        if id(option) in seen:
            continue
        seen.add(id(option))
        if option.kind == "union":
            waiting[:0] = option.options[:_ALTERNATIVES]
        else:
            yield expectation(option)


_ALTERNATIVES: Final = 4
_SHAPES: Final = 40
"""The most shapes of a union that are visited."""


def _string(value: Any, shape: TypeShape) -> Conversion:
    if isinstance(value, str):
        # "null" is a valid name but not a valid date.
        is_null = shape.format and value.strip().lower() in _NULL
        return _REFUSED if is_null else Conversion(str(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return Conversion(str(value), "number_to_text")
    return _REFUSED


def _number(value: Any, shape: TypeShape) -> Conversion:
    number: Any = quantity_of(value) if isinstance(value, str) else value
    # `True` is an int in Python, but not a JSON number.
    if isinstance(number, bool) or not isinstance(number, int | float) or not isfinite(number):
        return _REFUSED
    is_same = isinstance(value, LooseText) or type(number) is type(value)
    if shape.kind == "integer" and isinstance(number, float):
        # From 2**53 on a float stands for several integers: the intended one is lost.
        if not number.is_integer() or abs(number) >= _EXACT:
            return _REFUSED
        number, is_same = int(number), isinstance(value, LooseText)
    elif isinstance(number, float) and number.is_integer() and abs(number) < _EXACT:
        number = int(number)  # in JSON `5.0` is the number 5, and a float field accepts either
    return Conversion(number, "" if is_same else "number_format")


def _boolean(value: Any, shape: TypeShape) -> Conversion:
    if isinstance(value, bool):
        return Conversion(value)
    word = str(value).strip().lower() if isinstance(value, str | int) else ""
    if word not in _TRUE and word not in _FALSE:
        return _REFUSED
    return Conversion(word in _TRUE, "" if isinstance(value, LooseText) else "boolean_word")


def _null(value: Any, shape: TypeShape) -> Conversion:
    if value is None:
        return Conversion(None)
    if isinstance(value, LooseText):
        return Conversion(None) if value in ("null", "~", "None") else _REFUSED
    if isinstance(value, str) and value.strip().lower() in _NULL:
        return Conversion(None, "null_word", 3)
    return _REFUSED


def _enum(value: Any, shape: TypeShape) -> Conversion:
    for each in shape.values:
        # `1`, `1.0` and `True` are equal in Python, and different members.
        if type(each) is type(value) and each == value:
            return Conversion(each)
    if not isinstance(value, str):
        return _REFUSED
    word = str(value)
    if word in shape.values:
        return Conversion(word)
    for namespace in _NAMESPACES:
        word = word.removeprefix(namespace)
    key = fold(word)
    match = [each for each in shape.values if isinstance(each, str) and fold(each) == key]
    # `fold` drops these signs, so "r|w", which names two choices, would match a member `rw`.
    if key and len(match) == 1 and not set("|/,") & set(word):
        return Conversion(match[0], "enum_case")
    number = quantity_of(word)
    if number is not MISSING and any(
        type(each) is type(number) and each == number for each in shape.values
    ):
        return Conversion(number, "number_format")
    return _REFUSED


_TABLE: dict[str, Callable[[Any, TypeShape], Conversion]] = {
    "string": _string,
    "integer": _number,
    "number": _number,
    "boolean": _boolean,
    "null": _null,
    "enum": _enum,
}
_WANTED = {
    "integer": "an integer",
    "array": "a list",
    "object": "an object",
    "any": "a value",
    "boolean": "true or false",
    "null": "null",
}


def same(left: Any, right: Any) -> bool:
    """Compares for equality, but keeps `True` and `1` apart."""
    try:
        return bool(left == right) and to_json(left) == to_json(right)
    except PydanticSerializationError:
        return False
