"""Compiles a type or a JSON schema into a `ReadingPlan`: a shape and its folded names.

A shape holds what coercion and the reader need: field names, kinds, options. Constraints such as
bounds and patterns are left to the validator. `fold` removes case and punctuation from a name.
Knows nothing about text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, cast

from pydantic import PydanticUserError, TypeAdapter

from taofold.core.json_values import at_pointer, is_array, is_object

Kind = Literal[
    "any", "object", "array", "string", "integer", "number", "boolean", "null", "enum", "union"
]
Schema = Mapping[str, Any]
_DEPTH = 64
_PLAIN = frozenset({"string", "integer", "number", "boolean", "null"})


@lru_cache(maxsize=4096)
def fold(name: str) -> str:
    """Returns a name without case, spaces and punctuation: `BIRTH_YEAR` -> `birthyear`."""
    return "".join([each for each in name if not _is_blank(each)]).casefold()


def _is_blank(char: str) -> bool:
    """Returns whether a character is a blank or punctuation; invisible ones and accents are not."""
    return char.isspace() or unicodedata.category(char)[0] in "PSZ"


@dataclass(slots=True, eq=False)
class TypeShape:
    """The required form of a value; a tree that may hold cycles.

    Attributes:
        fields: The declared keys of an object.
        required: The keys that must be present.
        format: The format of a string, such as `date`.
        closed: True if undeclared keys are forbidden.
        extra: The shape of the values of undeclared keys, `None` if the schema has none.
        item: The shape of a list's items; `prefix` those of its first items.
        values: The members of an enumeration.
        options: The alternatives of a union; `tag` is the key that decides, `tags` maps its values.
        folded: Declared keys by their folded name, if that is unique.
    """

    kind: Kind
    title: str = ""
    format: str = ""
    fields: dict[str, TypeShape] = field(default_factory=dict[str, "TypeShape"])
    required: frozenset[str] = frozenset()
    closed: bool = False
    extra: TypeShape | None = None
    item: TypeShape | None = None
    prefix: tuple[TypeShape, ...] = ()
    values: tuple[Any, ...] = ()
    options: tuple[TypeShape, ...] = ()
    tag: str = ""
    tags: dict[str, TypeShape] = field(default_factory=dict[str, "TypeShape"])
    folded: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class ReadingPlan:
    """A compiled type.

    Attributes:
        names: The folded names of all keys at any depth.
        open: True if some part of it takes undeclared keys.
        lenient: True if the validator may drop an undeclared key while a declared one is absent.
    """

    shape: TypeShape
    names: frozenset[str]
    open: bool
    lenient: bool


ANY = TypeShape("any")
ANYTHING = ReadingPlan(ANY, frozenset(), open=True, lenient=False)


def plan_of_schema(schema: Schema) -> ReadingPlan:
    """Compiles a JSON schema; parts that it does not understand become `any`."""
    compiler = _Compiler(schema)
    shape = compiler.shape(schema, 0)
    return ReadingPlan(shape, frozenset(compiler.names), compiler.open, compiler.lenient)


def plan_of_type(adapter: TypeAdapter[Any]) -> ReadingPlan:
    """Compiles a type; one without a JSON schema is left entirely to its validator."""
    try:
        schema = adapter.json_schema(mode="validation")
    except (PydanticUserError, TypeError, ValueError):
        return ANYTHING
    return plan_of_schema(schema)


class _Compiler:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._done: dict[str, TypeShape] = {}
        self.names: set[str] = set()
        self.open = False
        self.lenient = False

    def shape(self, schema: Any, depth: int) -> TypeShape:
        if not isinstance(schema, Mapping) or depth > _DEPTH:
            self.open = True
            return ANY
        return self._shape(cast("Schema", schema), depth)

    def _shape(self, node: Schema, depth: int) -> TypeShape:
        if "$ref" in node:
            return self._reference(str(node["$ref"]), depth)
        if "const" in node:
            return TypeShape("enum", values=(node["const"],))
        if isinstance(node.get("enum"), list):
            return TypeShape("enum", values=tuple(node["enum"]), title=str(node.get("title", "")))
        for key in ("oneOf", "anyOf", "allOf"):
            parts = node.get(key)
            if is_array(parts) and len(parts) == 1:
                return self.shape(parts[0], depth + 1)
            if is_array(parts) and parts and key != "allOf":
                return self._union(node, parts, depth)
        kind = node.get("type")
        if is_array(kind):
            return self._union(node, [{**node, "type": each} for each in kind], depth)
        return self._typed(node, kind, depth)

    def _typed(self, node: Schema, kind: Any, depth: int) -> TypeShape:
        if kind == "object" or "properties" in node:
            return self._object(TypeShape("object"), node, depth)
        if kind == "array":
            prefix = tuple(self.shape(each, depth + 1) for each in node.get("prefixItems", ()))
            item = self.shape(node.get("items", {}), depth + 1)
            return TypeShape("array", item=item, prefix=prefix)
        if kind in _PLAIN:
            return TypeShape(kind, format=str(node.get("format", "")))
        self.open = True
        return ANY

    def _reference(self, reference: str, depth: int) -> TypeShape:
        if reference in self._done:
            return self._done[reference]
        target = at_pointer(self._root, reference)
        # Registered before it is filled: a type that refers to itself finds this object.
        shape = self._done[reference] = TypeShape("any")
        if isinstance(target, Mapping) and "properties" in target:
            shape.kind = "object"
            return self._object(shape, cast("Schema", target), depth + 1)
        resolved = self.shape(target, depth + 1)
        for name in TypeShape.__slots__:
            setattr(shape, name, getattr(resolved, name))
        return shape

    def _union(self, node: Schema, parts: list[Any], depth: int) -> TypeShape:
        options = tuple(self.shape(each, depth + 1) for each in parts)
        discriminator = node.get("discriminator")
        tag = ""
        tags: dict[str, TypeShape] = {}
        if is_object(discriminator):
            tag = str(discriminator.get("propertyName", ""))
            mapping: dict[str, Any] = discriminator.get("mapping") or {}
            for name, reference in mapping.items():
                tags[name] = self._reference(str(reference), depth + 1)
        return TypeShape("union", options=options, tag=tag, tags=tags)

    def _object(self, shape: TypeShape, node: Schema, depth: int) -> TypeShape:
        shape.title = str(node.get("title", ""))
        properties: Mapping[str, Any] = node.get("properties") or {}
        shape.required = frozenset(node.get("required", ()))
        spellings: dict[str, list[str]] = {}
        for name, each in properties.items():
            shape.fields[name] = self.shape(each, depth + 1)
            spellings.setdefault(fold(name), []).append(name)
        # Two keys that fold to the same name are ambiguous: neither is used.
        shape.folded = {key: names[0] for key, names in spellings.items() if len(names) == 1}
        self.names.update(spellings)
        extra = node.get("additionalProperties")
        shape.closed = extra is False
        if extra is not False and (extra is not None or not properties):
            self.open = True
            shape.extra = ANY if extra is True or extra is None else self.shape(extra, depth + 1)
        if len(shape.required) < len(properties) and not shape.closed:
            self.lenient = True
        return shape
