"""Names and ids in the form that a provider accepts, and their originals.

Models and servers invent tool names, property names and call ids. Another provider may refuse every
later request of the conversation because of them. Valid names are sent unchanged. Others are
replaced by stand-ins that depend only on the name, so a history keeps its bytes. `WireTools` is a
list of tools for one provider. Pure and independent of HTTP.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final

import msgspec

from taofold.core.json_values import is_object, is_sequence
from taofold.core.values import Searcher
from taofold.models.wire_schema import Unsupported, adapt_parameters, property_names
from taofold.runtime.model import ToolSpec

_LONGEST: Final = 64
_VALID: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""Tool names for all vendors. OpenAI and Anthropic document 64 letters, digits, `_` and `-`.
Gemini's `FunctionDeclaration.name` must begin with a letter or `_`.
"""
_OUTSIDE: Final = re.compile(r"[^A-Za-z0-9_.-]")
UNNAMED: Final = "unnamed"
"""Stand-in for a missing name of a call."""


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _escaped(name: str) -> str:
    """Replaces invalid characters by their code point, and a long rest by a digest."""
    # Escaped, not dropped, so that names which differ in one character stay different.
    escaped = _OUTSIDE.sub(lambda match: f"_x{ord(match[0]):x}_", name)
    if len(escaped) <= _LONGEST:
        return escaped
    return f"{escaped[: _LONGEST - 17]}_{_digest(name)}"


def wire_name(name: str) -> str:
    """Returns a tool's name in the alphabet and length that every provider accepts."""
    if _VALID.fullmatch(name):
        return name
    if not name:
        return UNNAMED
    plain = _escaped(name.replace(".", "__"))
    if _VALID.fullmatch(plain):
        return plain
    return f"_{plain}" if len(plain) < _LONGEST else f"_{plain[:46]}_{_digest(name)}"


@dataclass(frozen=True, slots=True)
class IdRule:
    """A provider's rule for call ids. Ids not in `valid` become `prefix` and a digest."""

    valid: re.Pattern[str]
    prefix: str = "call_"
    digits: int = 16

    def apply(self, call_id: str) -> str:
        """Returns the id itself if it is valid, else a stand-in that depends only on it."""
        if self.valid.fullmatch(call_id):
            return call_id
        return self.prefix + _digest(call_id)[: self.digits] if call_id else "call00000"


ANY_ID: Final = IdRule(re.compile(r"(?s).+"))
"""A server without a known rule: it accepts the ids that it made."""
RESPONSES_ID: Final = IdRule(re.compile(r"[A-Za-z0-9_-]{1,64}"))
"""OpenAI, Responses API, `input[].call_id`: at most 64 letters, digits, `_` and `-`."""
OPENAI_CHAT_ID: Final = IdRule(re.compile(r"[A-Za-z0-9_.:-]{1,40}"))
"""OpenAI, chat completions, `messages[].tool_calls[].id`: at most 40 characters."""
MISTRAL_ID: Final = IdRule(re.compile(r"[A-Za-z0-9]{9}"), "", 9)
"""Mistral, function calling: "a-z, A-Z, 0-9, with a length of 9"."""
ANTHROPIC_ID: Final = IdRule(re.compile(r"[A-Za-z0-9_-]{1,64}"))
"""Anthropic, Messages API, `tool_use.id`: `^[a-zA-Z0-9_-]+$`. The length is our own bound."""


@dataclass(frozen=True, slots=True)
class ToolRules:
    """A provider's rules for a list of tools.

    Args:
        properties: Accepted names of properties. None = all.
        most: Maximum number of tools. 0 = no documented maximum.
    """

    properties: re.Pattern[str] | None = None
    most: int = 0


ANY_TOOLS: Final = ToolRules()
ANTHROPIC_TOOLS: Final = ToolRules(re.compile(r"[a-zA-Z0-9_.-]{1,64}"))
"""Anthropic, `tools[].input_schema`: "Property keys should match `^[a-zA-Z0-9_.-]{1,64}$`"."""
OPENAI_TOOLS: Final = ToolRules(most=128)
"""OpenAI, API reference, chat completions, `tools`: "A max of 128 functions are supported"."""


@dataclass(frozen=True, slots=True)
class WireTools:
    """The tools of a request for one provider, and the original names.

    Args:
        tools: With wire names and adapted schemas, without tools that cannot be adapted.
        names: Tool to wire name, for the tools that are sent.
        properties: Properties with a stand-in, by tool.
        notes: Omitted tools, with reasons.
    """

    tools: tuple[ToolSpec, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    properties: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict[str, Mapping[str, str]]
    )
    notes: tuple[str, ...] = ()
    search: Searcher = ""
    """The side that searches the deferred tools; "" = the provider has no search."""
    deferred: frozenset[str] = frozenset()
    """The tools that a search loads."""

    @property
    def form(self) -> str:
        """Identifies what the form of a message depends on: stand-ins, and tools of a search."""
        own = {name: wire for name, wire in self.names.items() if wire != wire_name(name)}
        if not own and not self.properties and not self.search:
            return ""
        search = (self.search, sorted(self.deferred)) if self.search else ()
        return _digest(repr((sorted(own.items()), self.properties, *search)))

    def searched(self, search: Searcher, deferred: Iterable[str]) -> "WireTools":
        """Returns the tools with those that a search loads."""
        return replace(self, search=search, deferred=frozenset(deferred) & self.names.keys())

    def name(self, name: str) -> str:
        """Returns the wire name of any tool, offered or not."""
        return self.names.get(name) or wire_name(name)

    def allowed(self, names: Iterable[str]) -> list[str]:
        """Returns the wire names of those of `names` that are sent."""
        return [self.names[name] for name in names if name in self.names]

    def arguments(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Returns a call's arguments under the properties' wire names."""
        there = self.properties.get(tool)
        return _renamed(arguments, there) if there else arguments

    def original_names(self) -> dict[str, str]:
        """Returns wire names with their tools."""
        return {wire: name for name, wire in self.names.items()}


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if is_object(value):
        renamed = {names.get(key, key): _renamed(item, names) for key, item in value.items()}
        if len(renamed) == len(value):
            return renamed
        # A free key may equal a stand-in. It is then kept, so that no value is lost.
        return {key: _renamed(item, names) for key, item in value.items()}
    if is_sequence(value):
        return [_renamed(item, names) for item in value]
    return value


def original_arguments(arguments: str, names: Mapping[str, str]) -> str:
    """Returns the JSON of arguments with the properties' own names in place of stand-ins."""
    back = {wire: name for name, wire in names.items()}
    try:
        return msgspec.json.encode(_renamed(msgspec.json.decode(arguments), back)).decode()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        # Not JSON: the reader of arguments repairs it later, with the original names.
        for wire, name in back.items():
            arguments = arguments.replace(f'"{wire}"', msgspec.json.encode(name).decode())
        return arguments


def wire_tools(tools: Sequence[ToolSpec], rules: ToolRules) -> WireTools:
    """Adapts `tools` to a provider. Tools that cannot be adapted are omitted with a note."""
    sent: list[ToolSpec] = []
    notes: list[str] = []
    properties: dict[str, Mapping[str, str]] = {}
    names: dict[str, str] = {}
    own = {tool.name for tool in tools if wire_name(tool.name) == tool.name}
    taken: set[str] = set()
    for tool in tools:
        if rules.most and len(sent) == rules.most:
            notes.append(
                f"tool {tool.name!r} is left out: the provider takes at most {rules.most} tools"
            )
            continue
        try:
            known = property_names(tool.parameters)
            renames = _stand_ins(known, rules.properties)
            parameters, hint = adapt_parameters(tool.parameters, renames)
        except Unsupported as why:
            notes.append(f"tool {tool.name!r} is left out: {why}")
            continue
        wire = wire_name(tool.name)
        # A tool's own valid name takes precedence over another tool's stand-in.
        if wire in taken or (wire != tool.name and wire in own):
            wire = f"{wire[:47]}_{_digest(tool.name)}"
        taken.add(wire)
        names[tool.name] = wire
        if renames:
            properties[tool.name] = renames
        description = f"{tool.description}\n{hint}".strip() if hint else tool.description
        sent.append(ToolSpec(wire, description, parameters, tool.group))
    return WireTools(tuple(sent), names, properties, tuple(notes))


def _stand_ins(known: Iterable[str], valid: re.Pattern[str] | None) -> dict[str, str]:
    if valid is None:
        return {}
    names = sorted(known)
    renames: dict[str, str] = {}
    taken = set(names)
    for name in names:
        if valid.fullmatch(name):
            continue
        wire = _escaped(name) or "_x_"
        while wire in taken:
            wire = f"{wire[:47]}_{_digest(wire)}"
        taken.add(wire)
        renames[name] = wire
    return renames
