"""What tools of other frameworks and servers share: names and JSON Schemas.

`foreign_tool` makes a tool of a schema and a function to call. A foreign tool says nothing about
what it changes, so it is taken for one that writes and must not be repeated (tier 2, effect "once")
unless the programmer says otherwise.

A schema is foreign data: `shown_schema` is what a model sees of it. What shape a
framework's tools have is in its own bridge; that several have tools with an `_arun` is known here
(`own_arun`). `require` loads a framework's package or says how to install it.
"""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from hashlib import blake2b
from importlib import import_module
from typing import Any, Final, cast

from pydantic import BaseModel

from taofold.core.errors import ConfigError
from taofold.core.json_values import is_object
from taofold.core.text import visible, visible_line
from taofold.core.values import RESERVED, Sideeffect
from taofold.tools import BadArguments, RunContext, Tool, Toolset, external
from taofold.tools.arguments import unknown
from taofold.tools.schema_check import SchemaCheck
from taofold.tools.signature import RESERVED_PARAMETER, FunctionSignature, tidy

LONGEST_NAME: Final = 64
MARK_BYTES: Final = (4, 16)
"""Of the marks that tell names apart; anybody finds two names with the same short one."""
_ODD: Final = re.compile(r"[^A-Za-z0-9_-]+")
RENAMED: Final = f"{RESERVED_PARAMETER}_of_tool"
"""What a server's own parameter is called that has our reserved name."""
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
        name_forms(name)[0],
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
    check = SchemaCheck(schema)
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


def name_forms(name: str, prefix: str = "") -> tuple[str, ...]:
    """What a tool that its maker calls `name` may be called here, the plainest form first."""
    plain = prefix + (_ODD.sub("_", name).strip("_-") or "tool")
    plain = plain if plain[0].isalpha() or plain[0] == "_" else f"_{plain}"
    marked = [
        # The mark is of the maker's own name, so it is the same at the next start.
        f"{plain[: LONGEST_NAME - 1 - len(mark)]}_{mark}"
        for mark in [_mark(name, size) for size in MARK_BYTES]
    ]
    fits = len(plain) <= LONGEST_NAME and plain not in RESERVED
    return (plain, *marked) if fits else tuple(marked)


def safe_names(names: Iterable[str], prefix: str = "") -> dict[str, str]:
    """What the tools of one maker are called here, by his names, in whatever order they come.

    Each has its plainest form that is no form of another's, so that none can take another's name.
    """
    forms = {name: name_forms(name, prefix) for name in names}
    shared = Counter(form for own in forms.values() for form in own)
    return {
        # The longest mark is shared by nobody: equal ones would break the hash.
        name: next((form for form in own if shared[form] == 1), own[-1])
        for name, own in forms.items()
    }


def _mark(name: str, size: int) -> str:
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()


def shown_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema as a model sees it: no parameter has our reserved name, no prose hides a text."""
    schema = _seen(schema)
    properties: dict[str, Any] = schema.get("properties", {})
    schema = {**schema, "type": "object", "properties": properties}
    if RESERVED_PARAMETER not in properties:
        return schema
    names = {name: RENAMED if name == RESERVED_PARAMETER else name for name in properties}
    required = [names.get(name, name) for name in schema.get("required", ())]
    renamed = {names[name]: value for name, value in properties.items()}
    return {**schema, "properties": renamed, "required": required}


PROSE: Final = ("description", "title", "$comment")
"""Keywords of a schema that only a reader needs."""
NAMED: Final = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
"""Keywords whose keys are names, not keywords."""


def _seen(schema: Any) -> Any:
    """The schema with its prose made visible."""
    if isinstance(schema, list):
        items: list[Any] = schema  # pyright: ignore[reportUnknownVariableType]
        return [_seen(item) for item in items]
    if not is_object(schema):
        return schema
    seen: dict[str, Any] = {}
    for name, value in schema.items():
        if name in NAMED and is_object(value):
            seen[name] = {inner: _seen(subschema) for inner, subschema in value.items()}
        elif name in PROSE and isinstance(value, str):
            seen[name] = visible(value)
        else:
            seen[name] = value if name in ("enum", "const", "default") else _seen(value)
    return seen


def hidden_text(schema: Any) -> str:
    """A name or a value in `schema` that looks like another one; "" if there is none.

    Both must be written exactly so, and cannot be shown to a model in another way.
    """
    if isinstance(schema, str):
        return schema if visible(schema, prose=True) != schema else ""
    if isinstance(schema, list):
        items: list[Any] = schema  # pyright: ignore[reportUnknownVariableType]
        found = [text for item in items if (text := hidden_text(item))]
        return found[0] if found else ""
    if not is_object(schema):
        return ""
    for name, value in schema.items():
        is_prose = name in PROSE and isinstance(value, str)
        hidden = name if visible_line(name) != name else "" if is_prose else hidden_text(value)
        if hidden:
            return hidden
    return ""


def server_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters as the server calls them."""
    return {RESERVED_PARAMETER if k == RENAMED else k: v for k, v in parameters.items()}
