"""Reads a function's signature once, and converts a model's parameters to its arguments.

`declare` reads parameters, hints and docstring (Google, NumPy, Sphinx or Epydoc style, else a plain
description) when the tool is made. It never calls the function. `signature_of_schema` is for
functions of one mapping with a JSON Schema. For each call, `FunctionSignature.fitted` makes
lossless conversions and records each repair. `arguments` then converts types that JSON lacks. This
module does not depend on tiers, runs or prompts.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,
    TypeAlias,
    TypeGuard,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python
from typing_extensions import TypedDict

from taofold.core.errors import ConfigError
from taofold.core.json_values import copied, is_array, is_object
from taofold.parsing.outcome import Repair
from taofold.tools.arguments import BadArguments, explain, misread, unknown
from taofold.tools.context import RunContext
from taofold.tools.schema_check import SchemaCheck

Style: TypeAlias = Literal["typed", "stateful", "mapping"]
"""`typed`: parameters by name. `stateful`: TAgent's `(state, args)`. `mapping`: one dict."""
Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]

RESERVED_PARAMETER: Final = "timeout_s"
"""Bounds any call, in seconds. No tool may have a parameter of this name (D3)."""
OPEN: Final[dict[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": True}
"""The schema of a tool that accepts any mapping."""


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """The parameters of a tool and their compiled check."""

    schema: dict[str, Any]
    validate: Callable[[Any], dict[str, Any]] | None = None
    """Checks the parameters other than the model's fields. None if there are none."""
    style: Style = "typed"
    context: bool = False
    """True if the function takes a `RunContext` first."""
    positional: tuple[inspect.Parameter, ...] = ()
    """Parameters that cannot be passed by name."""
    blocking: bool = False
    """True if the function is synchronous."""
    model: type[BaseModel] | None = None
    strict: bool | None = True
    """Strictness for `model`. None uses its author's declaration."""
    model_name: str = ""
    """The parameter that takes `model`, whose fields are parameters of the tool."""
    model_fields: frozenset[str] = field(default_factory=frozenset[str])
    untyped: tuple[str, ...] = ()
    """Parameters without an annotation, for which any JSON is accepted."""

    def fitted(self, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Repair, ...]]:
        """Returns the parameters in the schema's types, by lossless conversions, with the repairs.
        Pure.

        Returns them unchanged, without repairs, if they do not fit.
        """
        from taofold.parsing.schema.coercion import Coercion, Misfit
        from taofold.parsing.schema.reading_plan import plan_of_schema

        coercion = Coercion(keeps=True)
        unchanged = dict(parameters)
        # The other errors come from a server's invalid schema.
        with suppress(Misfit, TypeError, AttributeError, RecursionError):
            fitted = coercion.fit(unchanged, plan_of_schema(self.schema).shape, ("parameters",))
            # Numbers are not converted to strings: leading zeros would be lost (`02134`).
            if all(each.kind != "number_to_text" for each in coercion.repairs):
                return fitted, tuple(coercion.repairs)
        return unchanged, ()

    def overlooks(self, parameters: Mapping[str, Any]) -> bool:
        """Returns True if an object in the parameters has a declared key in another case."""
        is_nested = "$defs" in self.schema
        return is_nested and any(each.kind == "key_case" for each in self.fitted(parameters)[1])

    def arguments(self, parameters: Mapping[str, Any]) -> Arguments:
        """Returns positional and keyword arguments. Converts only types that JSON lacks.

        Raises:
            BadArguments: Names every parameter that is missing, unknown or wrong.
        """
        # Copied, because the recorded action must not change with the tool's arguments.
        arguments: dict[str, Any] = copied(dict(parameters))
        if self.model is not None:
            return self._modelled(self.model, arguments)
        named = arguments
        if self.validate is not None:
            try:
                named = self.validate(arguments)
            except ValidationError as error:
                raise BadArguments(explain(error, self.schema)) from None
        if self.style != "typed":
            return (named,), {}
        return self._place(named) if self.positional else ((), named)

    def _place(self, named: dict[str, Any]) -> Arguments:
        first = tuple(named.pop(p.name, p.default) for p in self.positional)
        return first, named

    def _modelled(self, model: type[BaseModel], rest: dict[str, Any]) -> Arguments:
        fields = {name: rest.pop(name) for name in list(rest) if name in self.model_fields}
        # A model that allows extra fields takes all values without a parameter.
        if self.validate is None and model.model_config.get("extra") == "allow":
            fields, rest = fields | rest, {}
        faults: list[str] = []
        named: dict[str, Any] = {}
        try:
            if self.validate is not None:
                # Both parts are checked before raising, so that the model reads all faults at once.
                named = self.validate(rest)
            else:
                faults += unknown(rest, self.schema)
        except ValidationError as error:
            faults += explain(error, self.schema)
        try:
            built: Any = _strictly(model.__pydantic_validator__, self.strict, fields)
        except ValidationError as error:
            raise BadArguments(faults + explain(error, self.schema)) from None
        if faults:
            raise BadArguments(faults)
        if self.style == "stateful":
            return (built,), {}
        return self._place(named | {self.model_name: built})


def _strictly(validator: Any, strict: bool | None, value: dict[str, Any]) -> Any:
    """Validates by JSON's rules: a date is a text, and neither `True` nor `"5"` is a number."""
    try:
        taken = validator.validate_json(to_json(value), strict=strict)
    except PydanticSerializationError as error:
        raise BadArguments([f"the parameters are no JSON ({error})"]) from None
    # `Literal[1]` accepts `true`, which equals it in Python.
    faults = list(misread(value, taken)) if strict else []
    if faults:
        raise BadArguments(faults)
    return taken


def _strictness(schema: object) -> bool | None:
    """Returns the strictness for a validator. Strict, unless a schema has `strict=False`."""
    return None if _LAX in _kinds(schema) else True


def _values(validator: Any, value: dict[str, Any]) -> Any:
    """Validates like `_strictly`, for validators of `_JSON_KINDS`, without encoding the values."""
    try:
        return validator.validate_python(value, strict=True)
    except ValidationError:
        return _strictly(validator, True, value)  # raises with JSON's terms


_LAX: Final = "lax"
_JSON_KINDS: Final = frozenset(
    {"typed-dict", "typed-dict-field", "str", "int", "float", "bool", "list", "nullable", "default"}
)
"""Kinds of core schemas that treat values and JSON alike."""


def _kinds(schema: object) -> set[str]:
    """Returns the kinds of all parts of a core schema, with `_LAX` if one of them is not strict."""
    if not is_object(schema):
        parts = cast("Iterable[object]", schema) if isinstance(schema, list | tuple) else ()
        return set[str]().union(*map(_kinds, parts))
    parts = [part for key, part in schema.items() if key != "metadata"]
    kind = schema.get("type")
    own = {kind} if isinstance(kind, str) else set[str]()
    return own.union({_LAX} if schema.get("strict") is False else (), *map(_kinds, parts))


UNREAD: Final = FunctionSignature({})
"""Placeholder for the signature of a tool made without a function, until its schema is read."""


def signature_of_schema(
    schema: Mapping[str, Any],
    function: Callable[..., Any] | None,
    *,
    context: bool = False,
    checked_again: bool = False,
) -> FunctionSignature:
    """Returns the signature of a function that takes one mapping with a JSON Schema."""
    blocking = function is not None and is_blocking(function)
    check = SchemaCheck(schema, checked_again=checked_again)
    return FunctionSignature(dict(schema), check, "mapping", context, blocking=blocking)


def is_blocking(function: Callable[..., Any]) -> bool:
    """Returns True if calling `function` is synchronous work."""
    inner = bare(function)
    if not inspect.isroutine(inner):
        # The method of a callable object decides. It may be async.
        inner = getattr(inner, "__call__", inner)  # noqa: B004 - the method itself is needed
    return not inspect.iscoroutinefunction(inner)


def bare(function: Callable[..., Any]) -> Any:
    """Returns the function inside any `functools.partial`."""
    return bare(function.func) if _is_partial(function) else function


def _is_partial(function: Any) -> TypeGuard["partial[Any]"]:
    return isinstance(function, partial)


@dataclass(frozen=True, slots=True)
class Docstring:
    """A description without the parameter sections, and the text for each parameter."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict[str, str])


def read(text: str | None) -> Docstring:
    """Reads one docstring. Never raises."""
    clean = inspect.cleandoc(text or "")
    if not clean:
        return Docstring()
    from docstring_parser import ParseError, parse

    try:
        parsed = parse(clean)
    except ParseError:
        return Docstring(clean)
    parts = (parsed.short_description, parsed.long_description)
    documented = {
        parameter.arg_name.lstrip("*"): " ".join(parameter.description.split())
        for parameter in parsed.params
        if parameter.description
    }
    return Docstring("\n\n".join(part.strip() for part in parts if part), documented)


_NONE: Final = inspect.Parameter.empty
_record: Any = TypedDict  # called at run time, which type checkers do not follow
_STARS: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_CONTEXT: Final = re.compile(r"(?:\w+\.)*RunContext\b")


def declare(function: Callable[..., Any], doc: Docstring) -> FunctionSignature:
    """Returns the signature of `function`.

    Raises:
        ConfigError: A model cannot use the function. The message has the reason.
    """
    return replace(_declared(function, doc), blocking=is_blocking(function))


def _declared(function: Callable[..., Any], doc: Docstring) -> FunctionSignature:
    parameters = _parameters(function)
    if [p.name.lstrip("_") for p in parameters[:2]] == ["state", "args"]:
        return _stateful(function, parameters)
    context = bool(parameters) and _is_context(parameters[0])
    parameters = parameters[context:]
    for parameter in parameters:
        _acceptable(parameter)
    hints = _hints(function, parameters)
    # A single model without a default is flattened: its fields become the tool's parameters.
    models = [p for p in parameters if _model(hints[p.name]) and p.default is _NONE]
    positional = tuple(p for p in parameters if p.kind is inspect.Parameter.POSITIONAL_ONLY)
    untyped = tuple(p.name for p in parameters if p.annotation is _NONE)
    if len(models) == 1:
        signature = _flattened(models[0], parameters, hints, doc, context, positional)
        return replace(signature, untyped=untyped)
    validator, schema = _compiled(parameters, hints, doc)
    return FunctionSignature(schema, validator, "typed", context, positional, untyped=untyped)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise ConfigError(f"its signature cannot be read ({error}); wrap it") from None
    bound = set(function.keywords) if isinstance(function, partial) else set[str]()
    # A model cannot change arguments that a partial has fixed.
    return [p for p in parameters if p.name not in bound]


def _acceptable(parameter: inspect.Parameter) -> None:
    if parameter.name == "self":
        raise ConfigError(
            "it is a method; make a tool of the method of an object: tool(obj.method)"
        )
    if parameter.kind in _STARS:
        raise ConfigError(
            f"parameter {parameter.name!r} takes any number of arguments; declare each one"
        )
    if _is_context(parameter):
        raise ConfigError(f"parameter {parameter.name!r} is a RunContext, which must come first")
    if parameter.name == RESERVED_PARAMETER:
        raise ConfigError(f"parameter {RESERVED_PARAMETER!r} is reserved: it bounds every call")
    if isinstance(parameter.default, FieldInfo):
        raise ConfigError(
            f"parameter {parameter.name!r} has a Field as its default; "
            "write Annotated[type, Field(...)] = default"
        )


def _is_context(parameter: inspect.Parameter) -> bool:
    hint = parameter.annotation
    if isinstance(hint, str):
        # Not evaluated, because its argument is often imported for type checkers only.
        return _CONTEXT.match(hint) is not None
    return (get_origin(hint) or hint) is RunContext


def _hints(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> dict[str, Any]:
    inner = inspect.unwrap(bare(function))
    if not inspect.isroutine(inner):
        inner = inspect.unwrap(inner.__call__)
    scope: dict[str, Any] = dict(getattr(inner, "__globals__", {}))
    names = getattr(getattr(inner, "__code__", None), "co_freevars", ())
    for name, cell in zip(names, getattr(inner, "__closure__", None) or (), strict=False):
        with suppress(ValueError):  # not assigned yet: a function that refers to itself
            scope[name] = cell.cell_contents
    hints: dict[str, Any] = {}
    for parameter in parameters:
        hint = Any if parameter.annotation is _NONE else parameter.annotation
        # get_type_hints takes a class or function. One hint at a time names the parameter in
        # errors.
        holder = type("Hint", (), {"__annotations__": {"hint": hint}})
        try:
            hints |= {parameter.name: get_type_hints(holder, scope, include_extras=True)["hint"]}
        except Exception as error:
            raise ConfigError(
                f"the type {hint!r} of parameter {parameter.name!r} cannot be resolved ({error}); "
                "define or import it at the top of its module"
            ) from error
    return hints


def _model(hint: Any) -> type[BaseModel] | None:
    return hint if isinstance(hint, type) and issubclass(hint, BaseModel) else None


def _stateful(
    function: Callable[..., Any], parameters: list[inspect.Parameter]
) -> FunctionSignature:
    more = [p.name for p in parameters[2:] if p.default is _NONE and p.kind not in _STARS]
    if more:
        raise ConfigError(f"a (state, args) tool takes nothing else, but this one needs {more}")
    if any(p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters[:2]):
        raise ConfigError("state and args must be positional parameters")
    hint = _hints(function, parameters[1:2])[parameters[1].name]
    model = _model(hint)
    if model is not None:
        schema = tidy(_json_schema(TypeAdapter(model)))
        schema.setdefault("additionalProperties", False)
        return FunctionSignature(
            schema,
            None,
            "stateful",
            model=model,
            strict=_strictness(model.__pydantic_core_schema__),
            model_fields=_names(model),
        )
    if hint is Any or _is_mapping(hint):
        return FunctionSignature(dict(OPEN), None, "stateful")
    raise ConfigError(f"args must be a mapping or a Pydantic model, not {hint!r}")


def _is_mapping(hint: Any) -> bool:
    origin = get_origin(hint) or hint
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _flattened(
    parameter: inspect.Parameter,
    parameters: list[inspect.Parameter],
    hints: dict[str, Any],
    doc: Docstring,
    context: bool,
    positional: tuple[inspect.Parameter, ...],
) -> FunctionSignature:
    model = cast("type[BaseModel]", hints[parameter.name])
    fields = _names(model)
    others = [p for p in parameters if p is not parameter]
    clash = sorted(fields & {p.name for p in others} | (fields & {RESERVED_PARAMETER}))
    if clash:
        raise ConfigError(f"fields {clash} of {model.__name__} collide with other parameters")
    schema = tidy(_json_schema(TypeAdapter(model)))
    schema.setdefault("additionalProperties", False)
    # The docstring of the model describes the class. The tool has its own description.
    schema.pop("description", None)
    validate = None
    if others:
        validate, rest = _compiled(others, hints, doc)
        for word in ("properties", "$defs"):
            if rest.get(word):
                schema[word] = schema.get(word, {}) | rest[word]
        required = [*schema.get("required", ()), *rest.get("required", ())]
        schema |= {"required": required} if required else {}
    return FunctionSignature(
        schema,
        validate,
        "typed",
        context,
        positional,
        model=model,
        strict=_strictness(model.__pydantic_core_schema__),
        model_name=parameter.name,
        model_fields=fields,
    )


def _names(model: type[BaseModel]) -> frozenset[str]:
    properties = set(_json_schema(TypeAdapter(model)).get("properties", ()))
    config = model.model_config
    by_name = config.get("validate_by_name") or config.get("populate_by_name")
    return frozenset(properties | set(model.model_fields) if by_name else properties)


def _compiled(
    parameters: list[inspect.Parameter], hints: dict[str, Any], doc: Docstring
) -> tuple[Callable[[Any], dict[str, Any]], dict[str, Any]]:
    fields = {p.name: _field(p, hints[p.name], doc) for p in parameters}
    # For a TypedDict Pydantic returns a dict of the parameters, not an object.
    record = _record("Parameters", fields)
    record.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)
    try:
        adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(record)
        schema = tidy(_json_schema(adapter))
    except (PydanticUserError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"a model cannot write one of its parameters: {reason}") from error
    schema.setdefault("properties", {})
    if _kinds(adapter.core_schema) <= _JSON_KINDS:
        return partial(_values, adapter.validator), schema
    return partial(_strictly, adapter.validator, _strictness(adapter.core_schema)), schema


def _field(parameter: inspect.Parameter, hint: Any, doc: Docstring) -> Any:
    optional = parameter.default is not _NONE
    if optional and parameter.default is None:
        # `x: int = None` allows None, whatever the hint.
        hint = hint | None if not isinstance(hint, str) else hint
    has_description = any(isinstance(a, FieldInfo) and a.description for a in get_args(hint)[1:])
    extra: dict[str, Any] = {}
    if optional:
        try:
            extra["default"] = to_jsonable_python(parameter.default)
        except ValueError:  # a default without a JSON form
            extra = {}
    text = None if has_description else doc.parameters.get(parameter.name)
    if text or extra:
        hint = Annotated[hint, Field(description=text, json_schema_extra=extra or None)]
    return NotRequired[hint] if optional else hint


def _json_schema(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    return adapter.json_schema()


def tidy(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema without titles derived from names, which cost tokens."""
    tidy: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        if key in ("properties", "$defs"):
            tidy[key] = {name: _tidied(inner) for name, inner in value.items()}
        # These hold values, not schemas, so their `title` is data.
        elif key in ("default", "const", "enum", "examples"):
            tidy[key] = value
        else:
            tidy[key] = _tidied(value)
    return tidy


def _tidied(value: Any) -> Any:
    if is_object(value):
        return tidy(value)
    if is_array(value):
        return [_tidied(item) for item in value]
    return value
