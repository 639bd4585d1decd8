"""The tools that an MCP server declares (`Definition`) and the accepted ones (`Pins`).

`read` checks a server's list and returns definitions; `tool_of` makes a tool of one. Definitions
are a server's data: bounded, shown, and able to raise a tier, but never to lower a decision of the
agent's developer.

Pins work like ssh's known hosts. At the first contact with a server its definitions are accepted
and stored in the operator's folder, outside the agent's work root. Later the model sees only
accepted definitions; a changed definition or a new tool needs the user's approval. Knows nothing
about connections or calls.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from taofold.bridges.foreign_tools import NAMED, PROSE, hidden_text, shown_schema
from taofold.bridges.mcp.client.address import ServerAddress
from taofold.bridges.mcp.client.leniency import UNUSABLE
from taofold.core.errors import ConfigError
from taofold.core.json_values import is_object, render
from taofold.core.text import clip, visible, visible_line
from taofold.core.values import Sideeffect, Tier
from taofold.reserved_places import make_folder, operator_folder, read_file, write_file
from taofold.tools import RunContext, Tool, external
from taofold.tools.schema_check import SchemaCheck

DESCRIPTION: Final = 4_000
"""Maximum characters of a description shown to a model."""
LARGEST: Final = 64_000
"""Maximum bytes of a definition."""
UNACCEPTED: Final = "New at this server: a person is asked before it is called the first time."
_PROSE: Final = (*PROSE, "examples", "default")

Call = Callable[[RunContext[Any], dict[str, Any]], Awaitable[Any]]


@dataclass(frozen=True)
class Definition:
    """One tool as described by its server."""

    name: str
    description: str = ""
    schema: dict[str, Any] = field(default_factory=dict[str, Any], hash=False)
    output: dict[str, Any] | None = field(default=None, hash=False)
    hints: dict[str, bool] = field(default_factory=dict[str, bool], hash=False)
    tier: int = 0
    """The tier that the server proposes; 0 = none."""

    @cached_property
    def digest(self) -> str:
        """A digest of the whole definition."""
        encoded = msgspec.json.encode(asdict(self), order="sorted")
        return blake2b(encoded, digest_size=16).hexdigest()

    @cached_property
    def misshapen(self) -> Callable[[Any], str]:
        """A check that returns why a structured result violates the output schema, or ""."""
        if self.output is None:
            return lambda _: ""
        promised = SchemaCheck(self.output, checked_again=True)
        return lambda value: "there is none" if value is None else "; ".join(promised.faults(value))


def read(listed: Any) -> "Definition | str":
    """Returns the definition of a listed tool, or why it cannot be offered."""
    name, schema = str(listed.name), listed.input_schema
    if not name.strip():
        return "a tool without a name"
    meta: Any = listed.meta
    if is_object(meta) and isinstance(meta.get(UNUSABLE), str):
        return f"{name[:80]!r}: {meta[UNUSABLE]}"
    if not is_object(schema) or schema.get("type", "object") != "object":
        return f"{name[:80]!r}: its schema is no object"
    output = listed.output_schema
    definition = Definition(
        name,
        str(listed.description or listed.title or ""),
        schema,
        output if is_object(output) else None,
        _hints(listed.annotations),
        _proposed(meta),
    )
    try:
        size = len(msgspec.json.encode(asdict(definition)))
    except (TypeError, ValueError, RecursionError) as error:
        return f"{name[:80]!r}: its definition is not JSON ({error})"
    if size > LARGEST:
        return f"{name[:80]!r}: its definition has {size} bytes, at most {LARGEST}"
    hidden = hidden_text(schema)
    if hidden:
        return f"{name[:80]!r}: {visible_line(hidden)[:80]!r} in its schema hides characters"
    flaw = SchemaCheck(schema).flaw
    return f"{name[:80]!r}: its schema cannot be used ({flaw})" if flaw else definition


def _hints(listed: Any) -> dict[str, bool]:
    names = ("read_only_hint", "destructive_hint", "idempotent_hint", "open_world_hint")
    hints = {name: getattr(listed, name, None) for name in names}
    return {name: value for name, value in hints.items() if isinstance(value, bool)}


def _proposed(meta: Any) -> int:
    tier: Any = meta.get("tier") if is_object(meta) else None
    return tier if isinstance(tier, int) and tier in (1, 2, 3, 4) else 0


def tier_and_effect(definition: Definition, *, trusted: bool) -> tuple[Tier, Sideeffect]:
    """Returns tier and effect by a server's hints. Hints that lower them need `trusted` (D8)."""
    destroys = definition.hints.get("destructive_hint", False)
    # If two hints conflict, the one that raises the tier applies.
    reads = trusted and not destroys and definition.hints.get("read_only_hint", False)
    effect: Sideeffect = "read" if reads else "once"
    if trusted and not reads and definition.hints.get("idempotent_hint", False):
        effect = "idempotent"
    tier = Tier.AUTO if reads else Tier.CARD
    # A destructive hint applies without trust, because it only raises the tier.
    if destroys:
        tier = Tier.CONFIRM
    return Tier(max(tier, definition.tier)), effect


def tool_of(
    definition: Definition, name: str, call: Call, *, trusted: bool, toolset: str, timeout: float
) -> Tool:
    """Makes the tool that calls the server's tool."""
    tier, effect = tier_and_effect(definition, trusted=trusted)
    text = visible(definition.description)
    return external(
        name,
        text if len(text) <= DESCRIPTION else f"{text[:DESCRIPTION]}…",
        shown_schema(definition.schema),
        call,
        context=True,
        checked_again=True,
        tier=tier,
        effect=effect,
        timeout=timeout,
        toolset=toolset,
    )


def without_prose(definition: Definition) -> Definition:
    """Returns the definition of an unaccepted tool for a model: its call, without prose.

    Only hints that raise the tier are kept.
    """
    raising = {name: True for name in ("destructive_hint",) if definition.hints.get(name)}
    return Definition(
        definition.name,
        UNACCEPTED,
        _wordless(definition.schema),
        definition.output,
        raising,
        definition.tier,
    )


def _wordless(schema: Any) -> Any:
    """Returns the schema without prose. Names of parameters stay."""
    if isinstance(schema, list):
        items: list[Any] = schema  # pyright: ignore[reportUnknownVariableType]
        return [_wordless(subschema) for subschema in items]
    if not is_object(schema):
        return schema
    stripped: dict[str, Any] = {}
    for name, value in schema.items():
        if name in _PROSE:
            continue
        if name in NAMED and is_object(value):
            stripped[name] = {inner: _wordless(subschema) for inner, subschema in value.items()}
        else:
            # `enum` and `const` values must be sent unchanged, so they stay.
            stripped[name] = value if name in ("enum", "const") else _wordless(value)
    return stripped


def summary(definition: Definition) -> str:
    """Describes a tool for the user who approves it."""
    hints = [
        f"{name.removesuffix('_hint')}: {_hint(value)}" for name, value in definition.hints.items()
    ]
    parameters = ", ".join(map(repr, definition.schema.get("properties", {}))) or "none"
    sentences = [
        f"its description is {_short(definition.description)}",
        f"its parameters are {parameters}",
    ]
    return "; ".join([*sentences, *hints])


def differences(old: Definition, new: Definition) -> list[str]:
    """Describes the changes for the user who approves them."""
    sentences: list[str] = []
    if old.description != new.description:
        sentences.append(
            f"its description was {_short(old.description)}, is {_short(new.description)}"
        )
    sentences += _parameter_differences(
        old.schema.get("properties", {}), new.schema.get("properties", {})
    )
    for name in {**old.hints, **new.hints}:
        was, is_ = old.hints.get(name), new.hints.get(name)
        if was != is_:
            sentences.append(f"{name.removesuffix('_hint')} was {_hint(was)}, is {_hint(is_)}")
    if old.output != new.output:
        sentences.append("the form of its result changed")
    if old.tier != new.tier:
        sentences.append(f"its proposed tier was {old.tier or 'none'}, is {new.tier or 'none'}")
    rest = {**old.schema, "properties": 0} != {**new.schema, "properties": 0}
    return [*sentences, "what it requires changed"] if rest else sentences


def _parameter_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    gone = [f"parameter {name!r} is gone" for name in old if name not in new]
    fresh = [f"parameter {name!r} is new" for name in new if name not in old]
    changed = [
        f"parameter {name!r} was {_short(rules)}, is {_short(new[name])}"
        for name, rules in old.items()
        if name in new and rules != new[name]
    ]
    return [*gone, *fresh, *changed]


def _hint(hint: bool | None) -> str:
    return "not said" if hint is None else str(hint).lower()


def _short(value: Any) -> str:
    text = render(value)
    return repr(clip(visible(text), 160))


FOLDER: Final = "mcp"
_FORMAT: Final = 1


class PinFile(NamedTuple):
    """The stored file with the accepted tools of one server."""

    name: str
    """Name of the file without its extension."""
    server: str
    """Description of the server's address; "" if the file cannot be read."""
    tools: tuple[str, ...]
    path: Path


class Pins:
    """The accepted definitions of one server. Without a `path` they last as long as the process.

    `server` is a description in the file for readers.
    """

    def __init__(self, path: Path | None = None, server: str = "") -> None:
        self._path, self._server = path, server
        self._known: dict[str, Definition] = {}
        self._read = path is None
        self._met = False
        self.changes = 0
        """Number of changes to the definitions. Toolsets made before the last change are stale."""

    @staticmethod
    def file(address: ServerAddress, folder: Path | None = None) -> Path:
        """Returns the path of the pins for the server at `address`."""
        name = f"{address.label}-{address.digest}.json"
        return (operator_folder() / FOLDER if folder is None else folder) / name

    @staticmethod
    def files(folder: Path | None = None) -> list[PinFile]:
        """Returns all pin files in `folder`, by name. Default: the operator's folder."""
        pins = operator_folder() / FOLDER if folder is None else folder
        files: list[PinFile] = []
        for path in sorted(pins.glob("*.json")):
            try:
                held = msgspec.json.decode(read_file(path))
                names = tuple([str(entry["name"]) for entry in held["tools"]])
                files.append(PinFile(path.stem, str(held.get("server", "")), names, path))
            except (ConfigError, OSError, ValueError, TypeError, KeyError, AttributeError):
                files.append(PinFile(path.stem, "", (), path))
        return files

    @property
    def met(self) -> bool:
        """True if there was an earlier contact with the server.

        Raises:
            ConfigError: As in `known`.
        """
        self.known()
        return self._met

    def known(self, *, fresh: bool = False) -> dict[str, Definition]:
        """Returns the accepted definitions by the server's names. `fresh` reads the file again.

        Raises:
            ConfigError: The file is damaged, so the accepted tools are unknown.
        """
        if self._read and not fresh:
            return self._known
        self._read = True
        if self._path is not None and self._path.exists():
            try:
                held = msgspec.json.decode(read_file(self._path))
                self._known = {entry["name"]: Definition(**entry) for entry in held["tools"]}
                self._met = True
                self.changes += 1
            except (OSError, ValueError, TypeError, KeyError) as error:
                raise ConfigError(
                    f"the tools that were accepted cannot be read ({error}): look at the file, "
                    "or delete it to accept the server's tools as they are now",
                    path=str(self._path),
                ) from error
        return self._known

    def add(self, definitions: Iterable[Definition]) -> None:
        """Accepts these definitions and stores them."""
        self._known = {
            # Read again: another process may have accepted other tools.
            **self.known(fresh=True),
            **{definition.name: definition for definition in definitions},
        }
        self._met = True
        self.changes += 1
        if self._path is None:
            return
        body = {
            "format": _FORMAT,
            "server": self._server,
            "tools": [asdict(definition) for definition in self._known.values()],
        }
        try:
            make_folder(self._path.parent)
            # Atomic. If two processes write at once, the last file stays.
            write_file(self._path, msgspec.json.format(msgspec.json.encode(body)))
        except OSError as error:
            raise ConfigError(
                f"what was accepted of a server's tools cannot be kept: {error}",
                path=str(self._path),
            ) from error


def offered_definition(
    accepted: dict[str, Definition], listed: Iterable[Definition]
) -> list[Definition]:
    """Returns the definitions for a model: of each listed tool the accepted one.

    An unaccepted tool is shown without prose.
    """
    return [accepted.get(definition.name) or without_prose(definition) for definition in listed]
