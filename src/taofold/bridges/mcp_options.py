"""The options of an MCP server: how it is reached does not matter for them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from typing_extensions import TypedDict

Mode = Literal["auto", "legacy"]


class Options(TypedDict, total=False):
    """What every way to make an `McpServer` takes."""

    name: str
    """In messages and as prefix; by default taken from the command or the host."""
    prefix: str | None
    """Before each tool's name; by default `name_`."""
    tools: Iterable[str]
    """Only these, by the server's names; by default all."""
    trust: bool
    """Believe what it says of its tools: what is read-only is tier 1 then."""
    timeout: float
    """Seconds that a call may take, if the model asks for no other time."""
    connect_timeout: float
    """Seconds that starting and connecting may take."""
    mode: Mode
    """`legacy` speaks the older protocol, for servers that ask while they work."""
    required: bool
    """Without the server there is no agent; else there are only no such tools."""
    resources: bool
    """Offer tools that list and read its resources."""
    prompts: bool
    """Offer tools that list and fill in its prompts."""
    pins: Path | bool
    """Folder of what was accepted; True = the operator's, False = forget it with the process."""
