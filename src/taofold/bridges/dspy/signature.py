"""`Signature`: the inputs and outputs of a DSPy program, by name and type.

It is written as `question, context -> answer: int` or as a DSPy class. A text is parsed, never
evaluated. `files.types` makes Python types from it; `written_of` is the inverse. DSPy is not
imported: its classes are recognized by their attributes. DSPy types without a text form, such as
images, are refused (`refuse_media`).
"""

# Values are JSON of any shape or come from a library without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

import ast
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

from pydantic import TypeAdapter

from taofold.core.errors import ConfigError
from taofold.core.values import JSON, Value
from taofold.files.types import NoType, type_of

_MOST: Final = 50
_DEPTH: Final = 12
_AT: Final = "signature"
_NONE: Final = re.compile(r"\bNone\b")
_UNNAMED: Final = "${"
_TAKEN: Final = frozenset({"completions", "config", "demos", "lm", "self", "signature"})
"""Parameter names of DSPy's own functions, which also receive a program's inputs."""


class Slot(Value, frozen=True, forbid_unknown_fields=True):
    """A field: its name, its type in the notation of `taofold.files.types`, and its description."""

    name: str
    type: JSON = "str"
    description: str = ""


class Signature(Value, frozen=True, forbid_unknown_fields=True):
    """The inputs and outputs of a program, with its instructions."""

    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    instructions: str = ""

    def __str__(self) -> str:
        return f"{_listed(self.inputs)} -> {_listed(self.outputs)}"

    @property
    def task(self) -> str:
        """The instructions, or DSPy's default text with the names of the fields."""
        if self.instructions:
            return self.instructions
        inputs, outputs = (", ".join([f"`{slot.name}`" for slot in side]) for side in self._sides)
        return f"Given the fields {inputs}, produce the fields {outputs}."

    @property
    def _sides(self) -> tuple[tuple[Slot, ...], tuple[Slot, ...]]:
        return self.inputs, self.outputs


def signature(written: "str | Signature | type", instructions: str = "") -> Signature:
    """Reads the signature from a text or a `dspy.Signature` class.

    Raises:
        ConfigError: It is no signature; the message names the fault.
    """
    if isinstance(written, Signature):
        return written
    if not isinstance(written, str):
        return _of_class(written, instructions)
    left, arrow, right = written.partition("->")
    if not arrow or "->" in right:
        raise ConfigError(f"{written!r} has no single '->' between inputs and outputs", path=_AT)
    sides = tuple(_slots(left, written)), tuple(_slots(right, written))
    names = [slot.name for side in sides for slot in side]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ConfigError(f"{written!r} has two fields {twice[0]!r}", path=_AT)
    return Signature(*sides, instructions)


def is_class(written: object) -> bool:
    """Returns whether `written` is a `dspy.Signature` class."""
    names = ("input_fields", "output_fields", "instructions")
    return isinstance(written, type) and all(hasattr(written, name) for name in names)


def _of_class(written: Any, instructions: str) -> Signature:
    if not is_class(written):
        raise ConfigError(f"{written!r} is no signature: a text or a dspy.Signature", path=_AT)
    inputs, outputs = (
        tuple(
            [
                Slot(name_of(name), _annotated(name, field), field_description(field))
                for name, field in side
            ]
        )
        for side in (written.input_fields.items(), written.output_fields.items())
    )
    if not inputs or not outputs:
        raise ConfigError(f"{written.__name__} lacks inputs or outputs", path=_AT)
    return Signature(inputs, outputs, instructions or str(written.instructions))


def field_description(info: Any) -> str:
    """Returns the author's description of a DSPy field. DSPy's own default is `${name}`."""
    extra: Any = info.json_schema_extra
    text = str((extra if isinstance(extra, Mapping) else {}).get("desc") or "")
    return "" if text.startswith(_UNNAMED) else text


def _annotated(name: str, info: Any) -> JSON:
    refuse_media(name, info.annotation)
    return written_of(info.annotation)


def refuse_media(name: str, annotation: Any) -> None:
    """Raises `ConfigError` for a DSPy type without a text form, such as `dspy.Image`.

    Their JSON form would reach the model as text: kilobytes of base64.
    """
    for part in _parts(annotation):
        if isinstance(part, type) and part.__module__.startswith("dspy.adapters.types."):
            raise ConfigError(
                f"the field {name!r} has the type dspy.{part.__name__}, which our prompts do not "
                "hold; text types of DSPy's work with program_strategy(…, adapter='chat')",
                path=_AT,
            )


def _parts(annotation: Any) -> Iterable[Any]:
    yield annotation
    for inner in get_args(annotation):
        yield from _parts(inner)


def _slots(text: str, whole: str) -> Iterable[Slot]:
    try:
        # Parsed with Python's grammar of parameters, never executed.
        tree = ast.parse(f"def signature({text.strip()}): ...", mode="exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ConfigError(f"{text.strip()!r} in {whole!r} is no list of fields", path=_AT) from None
    first = tree.body[0]
    assert isinstance(first, ast.FunctionDef)
    arguments = first.args
    others = [
        *arguments.posonlyargs,
        *arguments.kwonlyargs,
        *arguments.defaults,
        *arguments.kw_defaults,
    ]
    # A text such as `a): pass` would close the list and add a function body.
    whole_body = ast.unparse(ast.Module(first.body, [])) == "..."
    if len(tree.body) > 1 or not whole_body or others or arguments.vararg or arguments.kwarg:
        raise ConfigError(f"{text.strip()!r} in {whole!r} is no list of fields", path=_AT)
    if not 0 < len(arguments.args) <= _MOST:
        raise ConfigError(f"{whole!r} needs 1 to {_MOST} fields on each side", path=_AT)
    for argument in arguments.args:
        yield Slot(name_of(argument.arg), _type(argument.annotation, argument.arg))


def name_of(name: str) -> str:
    """Returns `name` if it is a valid field name.

    Raises:
        ConfigError: The name is not valid.
    """
    if not name.isidentifier() or name.startswith(("_", "model_")) or name in _TAKEN:
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
    # `files.types` writes Python's `None` as `null`.
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
    """Returns a Python type as JSON for `type_of`; "any" for a type without such a form.

    Constraints that only Pydantic checks (bounds, patterns, validators) are dropped.
    """
    if annotation is str:
        return "str"
    try:
        schema = TypeAdapter(annotation).json_schema()
        trimmed = _kept(schema, schema.get("$defs", {}), _DEPTH)
        type_of(trimmed)
    except (NoType, ValueError, TypeError, KeyError):
        return "any"
    return trimmed


def _kept(schema: Mapping[str, Any], models: Mapping[str, Any], depth: int) -> JSON:
    """Returns the part of a JSON Schema that `type_of` supports, with references resolved.

    Raises:
        NoType: The schema is too deep, as for a recursive model.
    """
    if depth <= 0:
        raise NoType("a type within itself")
    if "$ref" in schema:
        return _kept(models[schema["$ref"].rpartition("/")[2]], models, depth - 1)
    if "const" in schema:
        return {"type": "string", "enum": [schema["const"]]}
    if "enum" in schema:
        return {"type": schema.get("type", "string"), "enum": schema["enum"]}
    if "anyOf" in schema:
        kinds = [_kept(option, models, depth - 1) for option in schema["anyOf"]]
        if not all(isinstance(kind, str) for kind in kinds):
            raise NoType("a choice between types that are not plain")
        return {"type": kinds}
    if "properties" in schema:
        trimmed: dict[str, Any] = {
            "type": "object",
            "properties": {
                name: _described(_kept(rules, models, depth - 1), rules)
                for name, rules in schema["properties"].items()
            },
            "required": schema.get("required", []),
        }
        return trimmed
    if schema.get("type") == "array" and "items" in schema:
        return {"type": "array", "items": _kept(schema["items"], models, depth - 1)}
    # Dates and paths are strings in JSON; only Pydantic checks their format.
    return schema.get("type", "any") if not schema.get("format") else "string"


def _described(kept: JSON, schema: Mapping[str, Any]) -> JSON:
    text = schema.get("description")
    if not text:
        return kept
    return {**(kept if isinstance(kept, dict) else {"type": kept}), "description": text}
