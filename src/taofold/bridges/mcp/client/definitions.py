"""The tools that an MCP server declares: each `Definition`, and `Pins`, those that are let in.

`read` checks what a server listed and returns definitions; `tool_of` makes a tool of one. All of it
is a server's word: data that is bounded and shown, and that may raise a tier, but never lowers what
the person who wrote the agent decided.

Pins are like ssh's known hosts: the first time a server is met its definitions are taken as they
are, and kept in the operator's folder, out of reach of the agent's work root. From then on that is
what a model is shown; a definition that changed, or a tool that is new, counts only when a person
has accepted it. Knows nothing about connections or calls.
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
"""Characters of a description that a model is shown."""
LARGEST: Final = 64_000
"""Bytes that a definition may have."""
UNACCEPTED: Final = "New at this server: a person is asked before it is called the first time."
_PROSE: Final = (*PROSE, "examples", "default")

Call = Callable[[RunContext[Any], dict[str, Any]], Awaitable[Any]]


@dataclass(frozen=True)
class Definition:
    """One tool, as its server describes it."""

    name: str
    description: str = ""
    schema: dict[str, Any] = field(default_factory=dict[str, Any], hash=False)
    output: dict[str, Any] | None = field(default=None, hash=False)
    hints: dict[str, bool] = field(default_factory=dict[str, bool], hash=False)
    tier: int = 0
    """What the server proposes; 0 = nothing."""

    @cached_property
    def digest(self) -> str:
        """Changes when anything of it does."""
        encoded = msgspec.json.encode(asdict(self), order="sorted")
        return blake2b(encoded, digest_size=16).hexdigest()

    @cached_property
    def misshapen(self) -> Callable[[Any], str]:
        """Says why a structured result does not fit what the server promised, or ""."""
        if self.output is None:
            return lambda _: ""
        promised = SchemaCheck(self.output, checked_again=True)
        return lambda value: "there is none" if value is None else "; ".join(promised.faults(value))


def read(listed: Any) -> "Definition | str":
    """The definition in what a server listed, or why its tool cannot be offered."""
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
    """Tier and effect by a server's hints: believed where they raise, else if `trusted` (D8)."""
    destroys = definition.hints.get("destructive_hint", False)
    # Where one hint contradicts the other, the one that raises the tier counts.
    reads = trusted and not destroys and definition.hints.get("read_only_hint", False)
    effect: Sideeffect = "read" if reads else "once"
    if trusted and not reads and definition.hints.get("idempotent_hint", False):
        effect = "idempotent"
    tier = Tier.AUTO if reads else Tier.CARD
    # A destructive hint counts without trust: it can only raise the tier.
    if destroys:
        tier = Tier.CONFIRM
    return Tier(max(tier, definition.tier)), effect


def tool_of(
    definition: Definition, name: str, call: Call, *, trusted: bool, toolset: str, timeout: float
) -> Tool:
    """The tool that calls it."""
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
    """What a model is shown of a tool that no person has accepted: how to call it, no prose.

    Nothing of it lowers a tier: without hints it is what a server says nothing about.
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
    """The schema without what it says to a reader. Names of parameters stay."""
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
            # Values that must be written exactly so are no prose.
            stripped[name] = value if name in ("enum", "const") else _wordless(value)
    return stripped


def summary(definition: Definition) -> str:
    """What a server says of its tool, in words for the person who is asked about it."""
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
    """What changed, in words for the person who is asked about it."""
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
    """What was accepted of one server, as it is kept."""

    name: str
    """Of the file, without its ending."""
    server: str
    """Where the server is, in words; "" in a file that cannot be read."""
    tools: tuple[str, ...]
    path: Path


class Pins:
    """Of one server. Without a `path` they last as long as the process.

    `server` says in the file, to people, whose tools they are.
    """

    def __init__(self, path: Path | None = None, server: str = "") -> None:
        self._path, self._server = path, server
        self._known: dict[str, Definition] = {}
        self._read = path is None
        self._met = False
        self.changes = 0
        """How often something was taken in or read: what was made of it before may be out of date.
        """

    @staticmethod
    def file(address: ServerAddress, folder: Path | None = None) -> Path:
        """Where the pins of the server at `address` are kept."""
        name = f"{address.label}-{address.digest}.json"
        return (operator_folder() / FOLDER if folder is None else folder) / name

    @staticmethod
    def files(folder: Path | None = None) -> list[PinFile]:
        """All that are kept in `folder`, by name; left out: the operator's folder."""
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
        """Was the server met before, whatever it offered?

        Raises:
            ConfigError: as `known`.
        """
        self.known()
        return self._met

    def known(self, *, fresh: bool = False) -> dict[str, Definition]:
        """By the names that the server gives them. `fresh` looks again.

        Raises:
            ConfigError: the file is damaged: nobody can say any more what was accepted.
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
        """Take these in: met for the first time, or accepted by a person."""
        self._known = {
            # Read again: another process may have accepted something meanwhile.
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
            # Whole or not at all; of two writers at once the last one's file stays.
            write_file(self._path, msgspec.json.format(msgspec.json.encode(body)))
        except OSError as error:
            raise ConfigError(
                f"what was accepted of a server's tools cannot be kept: {error}",
                path=str(self._path),
            ) from error


def offered_definition(
    accepted: dict[str, Definition], listed: Iterable[Definition]
) -> list[Definition]:
    """What a model may be shown: of what is listed now, the definition that was accepted.

    Of a tool that nobody has accepted, the bare form of its call.
    """
    return [accepted.get(definition.name) or without_prose(definition) for definition in listed]
