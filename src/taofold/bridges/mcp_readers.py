"""Tools that read what an MCP server has besides tools: its resources and prompts."""

from collections.abc import Callable
from typing import Any, Final, Protocol

from taofold.bridges.mcp_options import Options
from taofold.core.values import Tier
from taofold.tools import Tool, external

_URI: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"uri": {"type": "string"}},
    "required": ["uri"],
    "additionalProperties": False,
}
_NOTHING: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {},
    "additionalProperties": False,
}
_PROMPT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["name"],
    "additionalProperties": False,
}


class Readable(Protocol):
    """A server whose resources and prompts can be read."""

    label: str

    async def resources(self) -> list[dict[str, Any]]:
        """As it lists them."""
        ...

    async def prompts(self) -> list[dict[str, Any]]:
        """As it lists them."""
        ...

    async def read(self, uri: str) -> str:
        """The contents of a resource."""
        ...

    async def prompt(self, name: str, /, **arguments: str) -> str:
        """A prompt, filled in."""
        ...


def readers(server: Readable, prefix: str, options: Options) -> list[Tool]:
    """The tools that the options ask for. What an untrusted server is asked, a person sees."""
    tier = Tier.AUTO if options.get("trust", False) else Tier.CARD

    async def resources(_: dict[str, Any]) -> Any:
        return await server.resources()

    async def prompts(_: dict[str, Any]) -> Any:
        return await server.prompts()

    async def read(said: dict[str, Any]) -> str:
        return await server.read(said["uri"])

    async def fill(said: dict[str, Any]) -> str:
        return await server.prompt(said["name"], **said.get("arguments", {}))

    def made(name: str, text: str, schema: dict[str, Any], call: Callable[..., Any]) -> Tool:
        told = f"{text} (MCP server {server.label})"
        return external(prefix + name, told, schema, call, tier=tier, effect="read")

    found: list[Tool] = []
    if options.get("resources", False):
        found.append(made("list_resources", "List what can be read", _NOTHING, resources))
        found.append(made("read_resource", "Read a resource", _URI, read))
    if options.get("prompts", False):
        found.append(made("list_prompts", "List the prompts", _NOTHING, prompts))
        found.append(made("get_prompt", "Fill in a prompt", _PROMPT, fill))
    return found
