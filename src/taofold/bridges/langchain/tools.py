"""LangChain's tools as ours, and what must never come from a model.

LangChain marks injected parameters (`InjectedToolArg`, `ToolRuntime`, `RunnableConfig` …) and
leaves them out of the schema that a model is shown, but takes them from a call that has them
anyway. Here their names, aliases included, are refused.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_args

from pydantic import BaseModel, create_model

from taofold.bridges.foreign import foreign_tool, foreign_tools
from taofold.bridges.langchain.call import call
from taofold.core.errors import ConfigError
from taofold.core.values import Sideeffect
from taofold.tools import Outcome, RunContext, Tool, Toolset

# LangChain's tools are read by their shape; they have no types here.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false


SINGLE: Final[dict[str, Any]] = {"tool_input": {"type": "string"}}
"""`Tool.args` of the old kind of tool that takes one string and has no schema."""
_SUPPLIED: Final = frozenset({"callbacks", "config", "run_manager"})
"""What LangChain gives to a function by name."""
_CALL_ID: Final = "InjectedToolCallId"
_MARKS: Final = ("Injected", "ToolRuntime")
"""In an annotation that LangChain could not resolve: it would show the parameter to the model."""


@dataclass(frozen=True, slots=True)
class LangChainParameters:
    """The parameters of one LangChain tool.

    `offered` is a Pydantic model or a JSON Schema without anything injected. `injected` are the
    parameters that no model may write, each with the name under which it is passed; `forbidden`
    are these and all their aliases. Without those in `needed` the tool cannot run.
    """

    offered: Any
    injected: Mapping[str, str] = field(default_factory=dict[str, str])
    forbidden: frozenset[str] = frozenset()
    needed: tuple[str, ...] = ()


def parameters_of(thing: Any) -> LangChainParameters:
    """Read the schema of a LangChain tool.

    Raises:
        ConfigError: a parameter within a parameter is injected, which LangChain shows to the model.
    """
    if thing.args_schema is None and dict(thing.args) == SINGLE:
        return LangChainParameters(
            {"type": "object", "properties": SINGLE, "required": ["tool_input"]}
        )
    schema = thing.tool_call_schema
    return _of_schema(thing, schema) if isinstance(schema, dict) else _of_model(thing, schema)


def _of_schema(thing: Any, shown: dict[str, Any]) -> LangChainParameters:
    marked = _marked(thing)
    properties: Mapping[str, Any] = shown.get("properties", {})
    return LangChainParameters(
        _without(shown, marked & properties.keys()),
        {name: name for name in marked},
        # A schema may have a parameter called `config` of its own; then the model may write it.
        frozenset(marked | (_SUPPLIED - properties.keys())),
        tuple(sorted(name for name in marked if _required(thing, name))),
    )


def _of_model(thing: Any, shown: Any) -> LangChainParameters:
    fields: Mapping[str, Any] = getattr(thing.get_input_schema(), "model_fields", {})
    own: Mapping[str, Any] = getattr(shown, "model_fields", {})
    configured = {name for name, field in fields.items() if _is_config(field.annotation)}
    # LangChain hides a field by leaving it out of the
    # schema that it shows; that is no protection.
    hidden = {*_marked(thing), *configured, *(fields.keys() - own.keys())}
    _refuse_nested(thing, own, hidden)
    needed = [
        name
        for name in sorted(hidden - configured)
        if (name in fields and fields[name].is_required() and _CALL_ID not in repr(fields[name]))
        or (name not in fields and _required(thing, name))
    ]
    return LangChainParameters(
        _subset(shown, hidden),
        {name: getattr(fields.get(name), "alias", None) or name for name in hidden},
        frozenset(_aliased(hidden, fields)),
        tuple(needed),
    )


def _marked(thing: Any) -> set[str]:
    """Parameters of the function that are injected: LangChain's list, and what it cannot read."""
    names: set[str] = {str(name) for name in getattr(thing, "_injected_args_keys", ())}
    for name, parameter in _signature(thing).items():
        if isinstance(parameter.annotation, str) and any(
            mark in parameter.annotation for mark in _MARKS
        ):
            names.add(name)
    return names


def _required(thing: Any, name: str) -> bool:
    parameter = _signature(thing).get(name)
    if parameter is None or _CALL_ID in repr(parameter.annotation):
        return False
    return parameter.default is inspect.Parameter.empty


def _signature(thing: Any) -> Mapping[str, inspect.Parameter]:
    function = getattr(thing, "func", None) or getattr(thing, "coroutine", None) or thing._run
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def _is_config(annotation: Any) -> bool:
    """Is it LangChain's `RunnableConfig`, or that or None? It is given with the call."""
    if getattr(annotation, "__name__", "") == "RunnableConfig":
        return str(getattr(annotation, "__module__", "")).startswith("langchain_core.")
    return any(_is_config(option) for option in get_args(annotation))


def _aliased(names: set[str], fields: Mapping[str, Any]) -> Iterator[str]:
    """The names, and every other name under which Pydantic takes a value for them."""
    for name in names:
        yield name
        info = fields.get(name)
        for alias in (getattr(info, "alias", None), getattr(info, "validation_alias", None)):
            for choice in getattr(alias, "choices", None) or [alias]:
                path = getattr(choice, "path", None)
                first = path[0] if path else choice
                if isinstance(first, str):
                    yield first


def _refuse_nested(thing: Any, fields: Mapping[str, Any], hidden: set[str]) -> None:
    for name, info in fields.items():
        if name not in hidden and (within := _nested(info.annotation, set())):
            raise ConfigError(
                f"the LangChain tool {thing.name!r} has the injected parameter {within!r} within "
                f"{name!r}, where LangChain shows it to the model: make it one of the tool's own"
            )


def _nested(annotation: Any, seen: set[int]) -> str:
    """The name of an injected field within a type, "" if there is none."""
    # Models may refer to themselves.
    if id(annotation) in seen:
        return ""
    seen.add(id(annotation))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, info in annotation.model_fields.items():
            if any(mark in repr(info.metadata) for mark in _MARKS):
                return name
            if path := _nested(info.annotation, seen):
                return path
        return ""
    return next((path for part in get_args(annotation) if (path := _nested(part, seen))), "")


def _subset(model: Any, hidden: set[str]) -> Any:
    """The model without these fields, or its JSON Schema where it is none of Pydantic 2."""
    fields: Mapping[str, Any] = getattr(model, "model_fields", {})
    if not hidden & set(fields):
        return model
    subset: dict[str, Any] = {
        name: (info.annotation, info) for name, info in fields.items() if name not in hidden
    }
    return create_model(model.__name__, __doc__=model.__doc__, **subset)


def _without(schema: dict[str, Any], hidden: set[str]) -> dict[str, Any]:
    if not hidden:
        return schema
    properties = {k: v for k, v in schema.get("properties", {}).items() if k not in hidden}
    required = [name for name in schema.get("required", ()) if name not in hidden]
    return {**schema, "properties": properties, "required": required}


Inject = Mapping[str, Callable[[RunContext[Any]], Any]]


def tool_of(
    thing: Any,
    *,
    name: str = "",
    tier: int | None = None,
    effect: Sideeffect | None = None,
    inject: Inject | None = None,
    **options: Any,
) -> Tool:
    """A LangChain tool as ours. Its arguments are checked here, also those of a dict schema.

    What it raises (`ToolException`) or handles (`handle_tool_error`) is a failed observation, and
    LangGraph's `interrupt()` a question to a person.

    Args:
        thing: the tool.
        name: another name than its own.
        tier: how much say a person has; by default 1 for reads, 2 for the rest.
        effect: "once" unless said otherwise.
        inject: Values for its injected parameters, made from the call's context, as
            `{"user": lambda ctx: ctx.principal.id}`. No model can write these parameters.
        **options: those of `taofold.tool`.

    Raises:
        ConfigError: it needs an injected parameter that nobody supplies, or it wants to end the
            agent's run itself (`return_direct`).
    """
    parameters = parameters_of(thing)
    supplied = dict(inject or {})
    _refuse(thing, parameters, supplied)

    async def perform(ctx: RunContext[Any], given: dict[str, Any]) -> Outcome:
        injected = {parameters.injected[key]: value(ctx) for key, value in supplied.items()}
        return await call(thing, ctx, {**given, **injected})

    return foreign_tool(
        name or str(thing.name),
        str(thing.description or ""),
        parameters.offered,
        perform,
        toolset="langchain",
        forbidden=parameters.forbidden,
        tier=tier,
        effect=effect,
        **options,
    )


def tools_of(
    things: object, *, reads: Iterable[str] = (), prefix: str = "", **options: Any
) -> Toolset:
    """The tools of a toolkit, or several; those named in `reads` only read."""
    return foreign_tools(things, tool_of, reads, prefix, **options)


def _refuse(thing: Any, parameters: LangChainParameters, supplied: Mapping[str, object]) -> None:
    if odd := supplied.keys() - parameters.injected.keys():
        raise ConfigError(
            f"inject: the LangChain tool {thing.name!r} has no injected parameter "
            f"{', '.join(map(repr, sorted(odd)))}"
        )
    if missing := [name for name in parameters.needed if name not in supplied]:
        raise ConfigError(
            f"the LangChain tool {thing.name!r} needs {', '.join(map(repr, missing))} injected, "
            f"as LangGraph does: give tool_of(…, inject={{{missing[0]!r}: lambda ctx: …}})"
        )
    if getattr(thing, "return_direct", False):
        raise ConfigError(
            f"the LangChain tool {thing.name!r} has return_direct=True: it would end the run with "
            "its own output as the answer. Here the agent answers: set return_direct to False"
        )
