"""Signatures as people write them: `question, context -> answer: int`. Nothing is evaluated.

A signature is names and types, kept as JSON so that a compiled program can be stored; the Python
types are made from it where they are needed. Knows nothing about DSPy.
"""

# Values here are JSON of any shape, or come from a library without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import ast
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter

from taofold.actions.types import NoType, type_of
from taofold.core.errors import ConfigError
from taofold.core.values import JSON, Value

REASONING: Final = "reasoning"
"""The output that a chain of thought puts before the others."""
_MOST: Final = 50
_NONE: Final = re.compile(r"\bNone\b")


class Slot(Value, frozen=True, forbid_unknown_fields=True):
    """A field: its name, its type as `taofold.actions.types` reads it, what it is."""

    name: str
    type: JSON = "str"
    description: str = ""


class Signature(Value, frozen=True, forbid_unknown_fields=True):
    """What a program is given and what it gives back."""

    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    instructions: str = ""

    def __str__(self) -> str:
        return f"{_listed(self.inputs)} -> {_listed(self.outputs)}"

    @property
    def task(self) -> str:
        """The instructions, or what the names alone say."""
        if self.instructions:
            return self.instructions
        given, wanted = (", ".join([one.name for one in side]) for side in self._sides)
        return f"Work out {wanted} from {given}."

    @property
    def _sides(self) -> tuple[tuple[Slot, ...], tuple[Slot, ...]]:
        return self.inputs, self.outputs


def signature(written: "str | Signature", instructions: str = "") -> Signature:
    """The signature that a text describes.

    Raises:
        ConfigError: it is none; the message says where.
    """
    if isinstance(written, Signature):
        return written
    left, arrow, right = written.partition("->")
    if not arrow or "->" in right:
        raise ConfigError(f"{written!r} has no single '->' between inputs and outputs", path=_AT)
    sides = tuple(_slots(left, written)), tuple(_slots(right, written))
    names = [slot.name for side in sides for slot in side]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ConfigError(f"{written!r} has two fields {twice[0]!r}", path=_AT)
    return Signature(*sides, instructions)


_AT: Final = "signature"


def _slots(text: str, whole: str) -> Iterable[Slot]:
    try:
        tree = ast.parse(f"def signature({text.strip()}): ...", mode="exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ConfigError(f"{text.strip()!r} in {whole!r} is no list of fields", path=_AT) from None
    first = tree.body[0]
    assert isinstance(first, ast.FunctionDef)
    given = first.args
    others = [*given.posonlyargs, *given.kwonlyargs, *given.defaults, *given.kw_defaults]
    whole_body = ast.unparse(ast.Module(first.body, [])) == "..."
    if len(tree.body) > 1 or not whole_body or others or given.vararg or given.kwarg:
        raise ConfigError(f"{text.strip()!r} in {whole!r} is no list of fields", path=_AT)
    if not 0 < len(given.args) <= _MOST:
        raise ConfigError(f"{whole!r} needs 1 to {_MOST} fields on each side", path=_AT)
    for one in given.args:
        yield Slot(name_of(one.arg), _type(one.annotation, one.arg))


def name_of(name: str) -> str:
    """A name that a field may have.

    Raises:
        ConfigError: it may not.
    """
    if not name.isidentifier() or name.startswith("_") or hasattr(BaseModel, name):
        raise ConfigError(f"{name!r} cannot be the name of a field", path=_AT)
    return name


def _type(annotation: ast.expr | None, name: str) -> JSON:
    if annotation is None:
        return "str"
    if isinstance(annotation, ast.Subscript) and _named(annotation.value) == "Literal":
        inner = annotation.slice
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        values = [part.value for part in parts if isinstance(part, ast.Constant)]
        if len(values) == len(parts) and all(isinstance(v, str | int | bool) for v in values):
            return {"type": "string", "enum": values}
    written = _NONE.sub("null", ast.unparse(annotation))
    try:
        type_of(written)
    except NoType as error:
        raise ConfigError(f"{name!r}: {error}", path=_AT) from None
    return written


def _named(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _listed(slots: Iterable[Slot]) -> str:
    return ", ".join([f"{s.name}{'' if s.type == 'str' else f': {_said(s.type)}'}" for s in slots])


def _said(type_: JSON) -> str:
    if isinstance(type_, Mapping) and "enum" in type_:
        return f"Literal{list(type_['enum'])!r}"
    return type_ if isinstance(type_, str) else "dict"


def written_of(annotation: Any) -> JSON:
    """A Python type as JSON that `type_of` reads back; "any" for what has no such form."""
    if annotation is str:
        return "str"
    try:
        schema = TypeAdapter(annotation).json_schema()
        kind = schema.get("type")
        if kind in _PLAIN and not {"items", "properties", "enum", "format"} & set(schema):
            return kind
        kept = {key: value for key, value in schema.items() if key not in ("title", "const")}
        if "const" in schema:
            kept["enum"] = [schema["const"]]
        if "enum" in kept:
            kept.setdefault("type", "string")
        type_of(kept)
    except (NoType, ValueError, TypeError):
        return "any"
    return kept


_PLAIN: Final = frozenset({"string", "integer", "number", "boolean", "object", "array"})
