"""Names and JSON Schemas of tools from other frameworks and servers.

`foreign_tool` makes a tool from a schema and a function. A foreign tool does not declare what it
changes, so it counts as a write that must not be repeated (tier 2, effect "once"), unless the
developer sets other values.

A schema is foreign data: `shown_schema` returns the form that a model sees. Each bridge knows the
attributes of its framework's tools; `own_arun` covers several frameworks. `require` imports a
framework's package or raises an error with the install command.
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
"""Bytes of the marks that distinguish names. Names with the same short mark are easy to construct,
so there is a long one."""
_ODD: Final = re.compile(r"[^A-Za-z0-9_-]+")
RENAMED: Final = f"{RESERVED_PARAMETER}_of_tool"
"""Shown name of a server's parameter that has taofold's reserved name."""
ForeignCall = Callable[[RunContext[Any], dict[str, Any]], Awaitable[Any]]


def require(module: str, extra: str) -> Any:
    """Imports a module of an optional package.

    Raises:
        ConfigError: The package is not installed; the message has the install command.
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
    """Makes a tool with the parameters of `schema`, a Pydantic model or a JSON Schema.

    `call` is async and takes a `RunContext` and the checked parameters. A parameter in `forbidden`
    is refused as unknown, even if the schema allows additional properties.

    Raises:
        ConfigError: The schema cannot be shown to a model.
    """
    offered = shown_schema(_plain(name, schema))

    async def perform(ctx: RunContext[Any], parameters: dict[str, Any]) -> Any:
        # A parameter with a reserved name was shown under another name; its own is restored here.
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
    """Returns the tools of a toolkit or a list. Tools named in `reads` have the effect "read".

    Raises:
        ConfigError: `reads` names an unknown tool.
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
    """Returns whether a tool defines `_arun` itself instead of inheriting it from `package`."""
    owner = next((kind for kind in type(thing).__mro__ if "_arun" in vars(kind)), None)
    return owner is not None and not owner.__module__.startswith(package)


def _plain(name: str, schema: object) -> dict[str, Any]:
    """Returns the JSON Schema without titles, which cost tokens and add no information."""
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
    plain.pop("description", None)  # repeats the tool's description
    return plain


def _check(
    schema: dict[str, Any], model: type[BaseModel] | None, forbidden: frozenset[str]
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Makes the check of a call's parameters: by the schema, then by its Pydantic model.

    It runs before an approval is requested and before the tool runs. Pydantic drops unknown
    parameters silently; here they are an error, so that the language model learns of them.
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
        # The JSON Schema is checked first, because its messages are written for models.
        check(parameters)
        if model is not None:
            model.model_validate(plain)
        return parameters

    return checked


def name_forms(name: str, prefix: str = "") -> tuple[str, ...]:
    """Returns the possible names of a foreign tool, the plainest first."""
    plain = prefix + (_ODD.sub("_", name).strip("_-") or "tool")
    plain = plain if plain[0].isalpha() or plain[0] == "_" else f"_{plain}"
    marked = [
        # The mark is a hash of the original name, so it is the same at every start.
        f"{plain[: LONGEST_NAME - 1 - len(mark)]}_{mark}"
        for mark in [_mark(name, size) for size in MARK_BYTES]
    ]
    fits = len(plain) <= LONGEST_NAME and plain not in RESERVED
    return (plain, *marked) if fits else tuple(marked)


def safe_names(names: Iterable[str], prefix: str = "") -> dict[str, str]:
    """Maps the original names of one source's tools to their names here, in any order.

    Each tool gets its plainest form that is no form of another tool, so that no tool can take
    another's name.
    """
    forms = {name: name_forms(name, prefix) for name in names}
    shared = Counter(form for own in forms.values() for form in own)
    return {
        # The longest mark is unique: equal ones would be a collision of the hash.
        name: next((form for form in own if shared[form] == 1), own[-1])
        for name, own in forms.items()
    }


def _mark(name: str, size: int) -> str:
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()


def shown_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema for a model: without reserved parameter names and without hidden
    characters in prose.
    """
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
"""Keywords of a schema that only describe it."""
NAMED: Final = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
"""Keywords whose keys are names instead of keywords."""


def _seen(schema: Any) -> Any:
    """Returns the schema with hidden characters in its prose made visible."""
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
    """Returns a name or value in `schema` with hidden characters; "" if there is none.

    Names and values must be sent unchanged, so they cannot be shown in another form.
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
    """Returns the parameters under the server's names."""
    return {RESERVED_PARAMETER if k == RENAMED else k: v for k, v in parameters.items()}
