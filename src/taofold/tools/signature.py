"""How a function is read once, and the parameters that a model wrote become its arguments.

`declare` reads parameters, hints and docstring (Google, NumPy, Sphinx and Epydoc style; one that no
style fits is a plain description) when the tool is made, and never calls the function;
`signature_of_schema` is for one mapping that a JSON Schema describes. Per call,
`FunctionSignature.fitted` converts what loses nothing, with a receipt of each repair, and
`arguments` what JSON has no type for. Knows nothing about tiers, runs or prompts.
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
"""`typed`: parameters by name; `stateful`: TAgent's `(state, args)`; `mapping`: one dict."""
Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]

RESERVED_PARAMETER: Final = "timeout_s"
"""Bounds any call, in seconds; no tool may have a parameter of this name (D3)."""
OPEN: Final[dict[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": True}
"""The schema of a tool that takes any mapping."""


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """What a tool takes, and the compiled check of it."""

    schema: dict[str, Any]
    validate: Callable[[Any], dict[str, Any]] | None = None
    """Checks the parameters other than the model's fields; None = there are none."""
    style: Style = "typed"
    context: bool = False
    """The function takes a `RunContext` first."""
    positional: tuple[inspect.Parameter, ...] = ()
    """Parameters that cannot be passed by name."""
    blocking: bool = False
    """The function is synchronous."""
    model: type[BaseModel] | None = None
    strict: bool | None = True
    """Whether `model` is read strictly; None = as its author declared."""
    model_name: str = ""
    """The parameter that takes `model`, whose fields are parameters of the tool."""
    model_fields: frozenset[str] = field(default_factory=frozenset[str])
    untyped: tuple[str, ...] = ()
    """Parameters without an annotation: a model may send any JSON for them."""

    def fitted(self, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Repair, ...]]:
        """Parameters in the types of the schema, by conversions without loss; pure.

        As they were, without a receipt, if they do not fit.
        """
        from taofold.parsing.schema.coercion import Coercion, Misfit
        from taofold.parsing.schema.reading_plan import plan_of_schema

        coercion = Coercion(keeps=True)
        unchanged = dict(parameters)
        # The second: of a server's schema that is none.
        with suppress(Misfit, TypeError, AttributeError, RecursionError):
            fitted = coercion.fit(unchanged, plan_of_schema(self.schema).shape, ("parameters",))
            # Of a number a text would be a guess: it may have been `02134`.
            if all(each.kind != "number_to_text" for each in coercion.repairs):
                return fitted, tuple(coercion.repairs)
        return unchanged, ()

    def overlooks(self, parameters: Mapping[str, Any]) -> bool:
        """Whether an object in the parameters has a declared key in another case."""
        is_nested = "$defs" in self.schema
        return is_nested and any(each.kind == "key_case" for each in self.fitted(parameters)[1])

    def arguments(self, parameters: Mapping[str, Any]) -> Arguments:
        """Positional and keyword arguments; nothing is converted but what JSON has no type for.

        Raises:
            BadArguments: naming every parameter that is missing, unknown or wrong.
        """
        # The action on record must stay as proposed, whatever the tool does to it.
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
        # A model that allows extra fields takes whatever the function has no parameter for.
        if self.validate is None and model.model_config.get("extra") == "allow":
            fields, rest = fields | rest, {}
        faults: list[str] = []
        named: dict[str, Any] = {}
        try:
            if self.validate is not None:
                # Both parts are checked before anything is raised: the model
                # hears of all faults at once.
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
    """A value by the rules for JSON, where a date is a text; `True` is no number, nor is `"5"`."""
    try:
        taken = validator.validate_json(to_json(value), strict=strict)
    except PydanticSerializationError as error:
        raise BadArguments([f"the parameters are no JSON ({error})"]) from None
    # A `Literal[1]` takes `true`, which to Python is equal.
    faults = list(misread(value, taken)) if strict else []
    if faults:
        raise BadArguments(faults)
    return taken


def _strictness(schema: object) -> bool | None:
    """How a validator is called: strictly, unless an author declared `strict=False` in a schema."""
    return None if _LAX in _kinds(schema) else True


def _values(validator: Any, value: dict[str, Any]) -> Any:
    """`_strictly` for a validator of `_JSON_KINDS`; no text is made of values that fit."""
    try:
        return validator.validate_python(value, strict=True)
    except ValidationError:
        return _strictly(validator, True, value)  # which says what is wrong in JSON's words


_LAX: Final = "lax"
_JSON_KINDS: Final = frozenset(
    {"typed-dict", "typed-dict-field", "str", "int", "float", "bool", "list", "nullable", "default"}
)
"""Kinds of core schemas that take the same from values as from JSON."""


def _kinds(schema: object) -> set[str]:
    """The kinds of a core schema and of all in it, and `_LAX` if one of them is not strict."""
    if not is_object(schema):
        parts = cast("Iterable[object]", schema) if isinstance(schema, list | tuple) else ()
        return set[str]().union(*map(_kinds, parts))
    parts = [part for key, part in schema.items() if key != "metadata"]
    kind = schema.get("type")
    own = {kind} if isinstance(kind, str) else set[str]()
    return own.union({_LAX} if schema.get("strict") is False else (), *map(_kinds, parts))


UNREAD: Final = FunctionSignature({})
"""Stands for the signature of a tool made by hand until its schema is read."""


def signature_of_schema(
    schema: Mapping[str, Any],
    function: Callable[..., Any] | None,
    *,
    context: bool = False,
    checked_again: bool = False,
) -> FunctionSignature:
    """The signature of a function that takes one mapping described by a JSON Schema."""
    blocking = function is not None and is_blocking(function)
    check = SchemaCheck(schema, checked_again=checked_again)
    return FunctionSignature(dict(schema), check, "mapping", context, blocking=blocking)


def is_blocking(function: Callable[..., Any]) -> bool:
    """Is calling `function` synchronous work?"""
    inner = bare(function)
    if not inspect.isroutine(inner):
        # An object that can be called: what counts is its method, which may be async.
        inner = getattr(inner, "__call__", inner)  # noqa: B004 - we want the method itself
    return not inspect.iscoroutinefunction(inner)


def bare(function: Callable[..., Any]) -> Any:
    """The function below any `functools.partial`."""
    return bare(function.func) if _is_partial(function) else function


def _is_partial(function: Any) -> TypeGuard["partial[Any]"]:
    return isinstance(function, partial)


@dataclass(frozen=True, slots=True)
class Docstring:
    """A description without the parameter sections, and what is said of each parameter."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict[str, str])


def read(text: str | None) -> Docstring:
    """Reads one docstring; never raises."""
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
_record: Any = TypedDict  # called at run time, which the type checkers do not follow
_STARS: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_CONTEXT: Final = re.compile(r"(?:\w+\.)*RunContext\b")


def declare(function: Callable[..., Any], doc: Docstring) -> FunctionSignature:
    """The signature of `function`.

    Raises:
        ConfigError: the function cannot be offered to a model; the message says why.
    """
    return replace(_declared(function, doc), blocking=is_blocking(function))


def _declared(function: Callable[..., Any], doc: Docstring) -> FunctionSignature:
    parameters = _parameters(function)
    if [p.name for p in parameters[:2]] == ["state", "args"]:
        return _stateful(function, parameters)
    context = bool(parameters) and _is_context(parameters[0])
    parameters = parameters[context:]
    for parameter in parameters:
        _acceptable(parameter)
    hints = _hints(function, parameters)
    # One model without a default is flattened: its fields are the tool's
    # parameters, a level less to nest.
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
    # What a partial fixed, no model may change.
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
        # Not evaluated: its argument is often imported for type checkers only.
        return _CONTEXT.match(hint) is not None
    return (get_origin(hint) or hint) is RunContext


def _hints(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> dict[str, Any]:
    inner = inspect.unwrap(bare(function))
    if not inspect.isroutine(inner):
        inner = inspect.unwrap(inner.__call__)
    scope: dict[str, Any] = dict(getattr(inner, "__globals__", {}))
    names = getattr(getattr(inner, "__code__", None), "co_freevars", ())
    for name, cell in zip(names, getattr(inner, "__closure__", None) or (), strict=False):
        with suppress(ValueError):  # not assigned yet: a function that mentions itself
            scope[name] = cell.cell_contents
    hints: dict[str, Any] = {}
    for parameter in parameters:
        hint = Any if parameter.annotation is _NONE else parameter.annotation
        # get_type_hints takes a class or function: one hint at a time, so that the
        # error names its parameter.
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
    hint = _hints(function, parameters[1:2])["args"]
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
    # The model's docstring is about the class; the tool has a description of its own.
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
    # A TypedDict, because pydantic then gives a dict of the parameters and no object.
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
        # `x: int = None` means that None is allowed, whatever the hint says.
        hint = hint | None if not isinstance(hint, str) else hint
    has_description = any(isinstance(a, FieldInfo) and a.description for a in get_args(hint)[1:])
    extra: dict[str, Any] = {}
    if optional:
        try:
            extra["default"] = to_jsonable_python(parameter.default)
        except ValueError:  # a default without a JSON form is still a default
            extra = {}
    text = None if has_description else doc.parameters.get(parameter.name)
    if text or extra:
        hint = Annotated[hint, Field(description=text, json_schema_extra=extra or None)]
    return NotRequired[hint] if optional else hint


def _json_schema(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    return adapter.json_schema()


def tidy(schema: dict[str, Any]) -> dict[str, Any]:
    """Without the titles that pydantic derives from names: they cost tokens and say nothing."""
    tidy: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        if key in ("properties", "$defs"):
            tidy[key] = {name: _tidied(inner) for name, inner in value.items()}
        # Values, not schemas: a `title` in there is data.
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
