"""What the bridges to other frameworks' tools share: names, schemas, and the check of arguments.

A foreign tool says nothing about what it changes, so it is taken for one that writes and must
not be repeated (tier 2, effect "once") unless the programmer says otherwise.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any, cast

from pydantic import BaseModel

from taofold.bridges.mcp.client.definitions import safe, server_parameters, shown_schema
from taofold.core.errors import ConfigError
from taofold.core.text import visible
from taofold.core.values import Sideeffect
from taofold.tools import BadArguments, RunContext, Tool, Toolset, external
from taofold.tools.arguments import Checker, unknown
from taofold.tools.signature import FunctionSignature, tidy

ForeignCall = Callable[[RunContext[Any], dict[str, Any]], Awaitable[Any]]


def require(module: str, extra: str) -> Any:
    """A module of somebody else's package.

    Raises:
        ConfigError: it is not installed, with the way to install it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0].replace("_", "-")
        raise ConfigError(
            f"{package} is not installed ({error}): pip install 'taofold[{extra}]'"
        ) from error


def foreign_tool(
    name: str,
    description: str,
    schema: object,
    call: ForeignCall,
    *,
    toolset: str,
    forbidden: frozenset[str] = frozenset(),
    tier: int | None = None,
    effect: Sideeffect | None = None,
    **options: Any,
) -> Tool:
    """The tool that takes what `schema`, a Pydantic model or a JSON Schema, describes.

    `call` takes a `RunContext` and the checked parameters, and is async. A model that writes a
    parameter in `forbidden` is told that there is none, even where the schema is open.

    Raises:
        ConfigError: the schema cannot be shown to a model.
    """
    offered = shown_schema(_plain(name, schema))

    async def perform(ctx: RunContext[Any], parameters: dict[str, Any]) -> Any:
        # A parameter that bears a name of ours was shown
        # under another one; here it gets its own back.
        return await call(ctx, server_parameters(parameters))

    tool = external(
        safe(name, "", {}),
        visible(description),
        offered,
        perform,
        context=True,
        tier=tier,
        effect=effect,
        toolset=toolset,
        **options,
    )
    model = schema if isinstance(schema, type) and issubclass(schema, BaseModel) else None
    check = _check(offered, model, forbidden)
    signature = FunctionSignature(offered, check, "mapping", context=True)
    return replace(tool, signature=signature)


def foreign_tools(
    things: object, read: Callable[..., Tool], reads: Iterable[str], prefix: str, **options: Any
) -> Toolset:
    """The tools of a toolkit or a list; those named in `reads` change nothing.

    Raises:
        ConfigError: `reads` names a tool that there is not.
    """
    get = getattr(things, "get_tools", None)
    originals = cast("Iterable[object]", things if get is None else get())
    read_names = set(reads)
    tools: list[Tool] = []
    for thing in originals:
        own = str(getattr(thing, "name", ""))
        effect: Sideeffect | None = "read" if own in read_names else None
        read_names.discard(own)
        tools.append(read(thing, effect=effect, **options))
    if read_names:
        raise ConfigError(f"reads names no tool of these: {', '.join(sorted(read_names))}")
    toolset = Toolset(tools)
    return toolset.prefixed(prefix) if prefix else toolset


def own_arun(thing: object, package: str) -> bool:
    """Did the author of a tool write `_arun`, or is it the one that `package` gives to all?"""
    owner = next((kind for kind in type(thing).__mro__ if "_arun" in vars(kind)), None)
    return owner is not None and not owner.__module__.startswith(package)


def _plain(name: str, schema: object) -> dict[str, Any]:
    """The JSON Schema, without the titles that cost tokens and say nothing."""
    if isinstance(schema, Mapping):
        plain = dict(cast("Mapping[str, Any]", schema))
    else:
        make = getattr(schema, "model_json_schema", None) or getattr(schema, "schema", None)
        if make is None:
            raise ConfigError(f"the tool {name!r} has no schema that can be read: {schema!r}")
        try:
            plain = make()
        except Exception as error:
            reason = str(error).partition("\n")[0]
            raise ConfigError(f"a model cannot write a parameter of {name!r}: {reason}") from error
    plain = tidy(plain)
    plain.pop("description", None)  # the tool's, again
    return plain


def _check(
    schema: dict[str, Any], model: type[BaseModel] | None, forbidden: frozenset[str]
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Our check of the schema, and what else its Pydantic model demands: before anybody is
    asked and anything runs.

    Pydantic drops a parameter that its model does not have; the model that wrote it must hear
    that it has no effect.
    """
    check = Checker(schema)
    closed = model is not None and model.model_config.get("extra") != "allow"

    def checked(parameters: dict[str, Any]) -> dict[str, Any]:
        plain = server_parameters(parameters)
        odd = [name for name in plain if name in forbidden]
        if closed:
            odd += [name for name in parameters if name not in schema["properties"]]
        if odd:
            raise BadArguments(unknown(dict.fromkeys(odd), schema))
        # The JSON Schema first: its messages are written
        # for models. Pydantic's validators come after.
        check(parameters)
        if model is not None:
            model.model_validate(plain)
        return parameters

    return checked
