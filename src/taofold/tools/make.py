"""Makes tools of functions: the decorator, and `as_tool` for what was not decorated.

Knows nothing about where functions come from.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypedDict, cast, overload

from typing_extensions import ParamSpec, TypeVar, Unpack

from taofold.core.errors import ConfigError
from taofold.core.values import Sideeffect, Tier
from taofold.tools.declare import declare
from taofold.tools.docstring import read as read_docstring
from taofold.tools.foreign import reader_of
from taofold.tools.signature import bare, described
from taofold.tools.tool import Tool, check_name

P = ParamSpec("P")
R = TypeVar("R")


class Options(TypedDict, total=False):
    """What the decorator takes besides name, description, tier and effect: see `Tool`."""

    role: str
    timeout: float
    longest: float
    retries: int
    sequential: bool
    thread: bool
    max_chars: int
    reversible: bool
    verify: Callable[[str], Any] | None
    loop_key: Callable[[dict[str, Any]], str] | None
    preview: Callable[[dict[str, Any]], str] | None
    extract: Callable[[Any], str] | None
    toolset: str


@overload
def tool(fn: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    fn: None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    tier: int | None = None,
    effect: Sideeffect | None = None,
    **options: Unpack[Options],
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    fn: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    tier: int | None = None,
    effect: Sideeffect | None = None,
    **options: Unpack[Options],
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a tool of a function; the result can still be called like it.

    An undeclared `effect` is "once"; an undeclared `tier` is 1 for reads, 2 for the rest (D8).

    Raises:
        ConfigError: a model cannot be offered this function; the message says why.
    """

    def made(function: Callable[P, R]) -> Tool[P, R]:
        return make(
            function, name=name, description=description, tier=tier, effect=effect, **options
        )

    return made if fn is None else made(fn)


def make(
    function: Callable[P, R],
    *,
    name: str | None = None,
    description: str | None = None,
    tier: int | None = None,
    effect: Sideeffect | None = None,
    **options: Unpack[Options],
) -> Tool[P, R]:
    """What the decorator does, as a plain function."""
    named = check_name(name or name_of(function))
    refusal = _refusal(function)
    if refusal:
        raise ConfigError(f"{named!r} cannot be a tool: {refusal}")
    doc = read_docstring(doc_of(function))
    try:
        signature = declare(function, doc)
    except ConfigError as error:
        raise ConfigError(f"{named!r} cannot be a tool: {error}") from error
    declared = effect or "once"
    return Tool(
        named,
        doc.description if description is None else inspect.cleandoc(description),
        signature.schema,
        _tier(tier, declared),
        declared,
        function=function,
        signature=signature,
        **options,
    )


def external(
    name: str,
    description: str,
    schema: Mapping[str, Any],
    call: Callable[..., Any],
    *,
    context: bool = False,
    tier: int | None = None,
    effect: Sideeffect | None = None,
    **options: Unpack[Options],
) -> Tool:
    """A tool that comes with a JSON Schema instead of a signature (MCP, LangChain, …).

    `call` takes the checked parameters as one dict, after a `RunContext` if `context`.
    """
    if schema.get("type", "object") != "object":
        raise ConfigError(f"tool {name!r}: the schema must be of type object, not {schema!r}")
    declared = effect or "once"
    return Tool(
        name,
        description,
        dict(schema),
        _tier(tier, declared),
        declared,
        function=call,
        signature=described(schema, call, context=context),
        **options,
    )


def as_tool(obj: object) -> Tool:
    """`obj` as a tool: a `Tool`, a function of any supported form, a callable object, or a
    tool of LangChain or CrewAI.

    Raises:
        ConfigError: with the reason why it cannot be one.
    """
    if isinstance(obj, Tool):
        return cast("Tool", obj)
    if (read := reader_of(obj)) is not None:
        return read(obj)
    if not callable(obj):
        raise ConfigError(f"{obj!r} cannot be a tool: it cannot be called")
    return make(obj)


def name_of(function: Callable[..., Any]) -> str:
    """The name a function was defined under; of an object, its class in snake_case."""
    inner = bare(function)
    name = getattr(inner, "__name__", "")
    if isinstance(name, str) and name:
        return name
    words = "".join(f"_{c.lower()}" if c.isupper() else c for c in type(inner).__name__)
    return words.lstrip("_") or "tool"


def doc_of(function: Callable[..., Any]) -> str:
    """The docstring, of the object or else of its `__call__`; a partial's own is not its."""
    inner = bare(function)
    if inspect.isroutine(inner):
        return inner.__doc__ or ""
    kind = cast("type[object]", type(inner))
    called = getattr(kind, "__call__", None)  # noqa: B004 - its docstring is wanted
    return getattr(called, "__doc__", "") or kind.__doc__ or ""


def _tier(tier: int | None, effect: Sideeffect) -> Tier:
    if tier is None:
        return Tier.AUTO if effect == "read" else Tier.CARD
    return cast("Tier", tier)  # Tool checks it


def _refusal(function: object) -> str:
    if inspect.isclass(function):
        return "it is a class; give an instance or a function"
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return "it is a generator; return the value, and use ctx.report() for progress"
    if not callable(function):
        return "it cannot be called"
    return ""
