"""The `mcp` section of an agent file: servers by reference, checked without starting any.

Knows where the bridge is, by name only: it is imported when an agent is made.
"""

import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import Field

from taofold.core.errors import ConfigError
from taofold.core.value import is_array, is_object
from taofold.policy.redaction import Redactor, named
from taofold.spec.document import Document, Strict
from taofold.spec.faults import Fault

BRIDGE: Final = "taofold.bridges.mcp"
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,30}")
_REFERENCE: Final = "${"


class McpKeys(Strict):
    """One server: a program to start, or an address."""

    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    """For the program; `${NAME}` is taken from taofold's own environment."""
    cwd: str = ""
    """Below the work root; by default the work root."""
    url: str = ""
    headers: dict[str, str] = {}
    transport: Literal["http", "sse"] = "http"
    tools: list[str] | None = None
    """Only these, by the server's names."""
    trust: bool = False
    """Believe what the server says of its tools: read-only ones need no approval then."""
    elicitation: Literal["auto", "legacy"] = "auto"
    """`legacy` for servers that ask people things in the older way only."""
    timeout: Annotated[float, Field(gt=0, le=3600)] = 60.0
    connect_timeout: Annotated[float, Field(gt=0, le=600)] = 30.0
    resources: bool = False
    prompts: bool = False
    required: bool = True
    """Whether the agent is of no use without it."""


def read_servers(document: Document) -> list[Fault]:
    """What is wrong with the section beyond the form of its keys."""
    section: Any = document.value.get("mcp")
    faults: list[Fault] = []
    for key, value in (section if is_object(section) else {}).items():
        name = str(key)
        if _NAME.fullmatch(name) is None:
            hint = "small letters, digits and _, as it becomes the beginning of its tools' names"
            faults.append(document.fault(("mcp", name), f"{name!r} is no server name", hint))
        if is_object(value):
            faults += _server(document, name, value)
    return faults


def _server(document: Document, name: str, value: Mapping[str, Any]) -> list[Fault]:
    faults: list[Fault] = []

    def fault(key: str, text: str, hint: str = "") -> None:
        faults.append(document.fault(("mcp", name, *([key] if key else [])), text, hint))

    command, url = value.get("command"), value.get("url")
    if bool(command) == bool(url):
        fault("", "a server has either a command or a url")
    for key in ("args", "env", "cwd") if url else ("headers", "transport"):
        if key in value:
            fault(key, f"{key!r} belongs to a {'command' if url else 'url'}")
    if isinstance(url, str) and url:
        wrong, hint = _flaw(url)
        if wrong:
            fault("url", wrong, hint)
    return faults + _secrets(document, name, value)


def _flaw(url: str) -> tuple[str, str]:
    """Why `url` is no address of a server, and a hint."""
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not close, a port that is none
        return f"{url!r} is no http(s) address", ""
    if not fine:
        return f"{url!r} is no http(s) address", ""
    if parts.username or parts.password:
        return "credentials do not belong in a url", "use headers with ${NAME}"
    return "", ""


def _secrets(document: Document, name: str, value: Mapping[str, Any]) -> list[Fault]:
    """Secrets that stand in the file instead of the environment."""
    said = "secrets do not belong in files"
    faults: list[Fault] = []
    for key, texts in (("args", value.get("args")), ("url", [value.get("url")])):
        for text in texts if is_array(texts) else ():
            shown = isinstance(text, str) and not (key == "url" and _flaw(text)[0])
            if shown and Redactor().text(text) != text:
                hint = "a program reads them from its env, an address from its headers: ${NAME}"
                faults.append(document.fault(("mcp", name, key), said, hint))
    for key in ("env", "headers"):
        held: Any = value.get(key)
        for inner, text in (held if is_object(held) else {}).items():
            if not isinstance(text, str) or _REFERENCE in text:
                continue
            if named(str(inner), text):
                hint = f"write ${{NAME}} and set the variable NAME, as in {inner}: ${{TOKEN}}"
                faults.append(document.fault(("mcp", name, key, str(inner)), said, hint))
    return faults


def make_server(name: str, keys: McpKeys, root: Path) -> Any:
    """The toolset of the server. It is started at its first use.

    Raises:
        ConfigError: its folder leads out of the work root.
    """
    bridge: Any = import_module(BRIDGE).McpServer
    options: dict[str, Any] = {
        "name": name,
        "tools": keys.tools,
        "trust": keys.trust,
        "mode": keys.elicitation,
        "timeout": keys.timeout,
        "connect_timeout": keys.connect_timeout,
        "resources": keys.resources,
        "prompts": keys.prompts,
        "required": keys.required,
    }
    if keys.url:
        make = bridge.sse if keys.transport == "sse" else bridge.http
        return make(keys.url, headers=keys.headers, **options)
    base = root.resolve()
    place = (base / keys.cwd).resolve()
    if not place.is_relative_to(base):
        raise ConfigError(f"cwd {keys.cwd!r} leads out of the work root {str(base)!r}")
    return bridge.stdio(keys.command, *keys.args, env=keys.env, cwd=place, **options)
