"""Tools of an agent file: commands with placeholders for parameters, and MCP servers.

A command is a list of arguments, never a shell line. A model's values fill placeholders, and can
neither add an argument nor begin an option. Servers are checked without starting them. The bridge
is referenced by name and imported when an agent is made.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

from pydantic import BaseModel, Field

from taofold.core.errors import ConfigError
from taofold.core.json_values import is_array, is_object
from taofold.files.checked_yaml import Fault, KeyPath, Strict, YamlDocument, check
from taofold.files.expressions.template import Template, Unrenderable, is_template
from taofold.files.types import NoType, record
from taofold.network import http_parts
from taofold.policy.redaction import Redactor, is_named_secret
from taofold.tools import Outcome, RunContext, Tool
from taofold.tools.command import command_tool
from taofold.tools.container_network import Reach
from taofold.tools.tool import check_name, external

_TIMEOUT: Final = 60.0


class InlineKeys(Strict):
    """The keys of an inline tool."""

    name: str
    description: Annotated[str, Field(min_length=1)]
    parameters: dict[str, Any] = {}
    """Names and types, as in `{path: str, lines?: bool}`."""
    command: Annotated[list[str], Field(min_length=1)]
    tier: Annotated[int, Field(ge=2, le=4)] = 2
    """The tier can only be raised. Commands that are not contained are tier 3 in any case."""
    timeout: Annotated[float, Field(gt=0, le=3600)] = _TIMEOUT


@dataclass(frozen=True, slots=True)
class InlineTool:
    """An inline tool without faults."""

    keys: InlineKeys
    parameters: type[BaseModel]
    command: tuple[str | Template, ...]


def read_inline(
    document: YamlDocument, value: Any, key_path: KeyPath
) -> tuple[InlineTool | None, list[Fault]]:
    """Returns the tool, or all of its faults."""
    keys, faults = check(document, InlineKeys, value, key_path)
    if keys is None:
        return None, faults
    parameters: type[BaseModel] | None = None
    try:
        check_name(keys.name)
    except ConfigError as error:
        faults.append(document.fault((*key_path, "name"), str(error)))
    try:
        parameters = record(keys.parameters, "Parameters")
    except NoType as error:
        faults.append(document.fault((*key_path, "parameters", *error.path), str(error)))
    names: set[str] = set() if parameters is None else set(parameters.model_fields)
    command: list[str | Template] = []
    for number, part in enumerate(keys.command):
        try:
            piece = Template(part) if is_template(part) else part
        except Unrenderable as error:
            faults.append(document.fault((*key_path, "command", number), str(error)))
            continue
        command.append(piece)
        strange = sorted(piece.names - names) if isinstance(piece, Template) else []
        if strange and parameters is not None:
            text = f"{strange[0]!r} is not among the parameters"
            faults.append(document.fault((*key_path, "command", number), text))
    # A model must never choose the program.
    if command and isinstance(command[0], Template):
        text = "the program must stand there as it is"
        faults.append(document.fault((*key_path, "command", 0), text))
    if faults or parameters is None:
        return None, faults
    return InlineTool(keys, parameters, tuple(command)), []


def make_inline(tool: InlineTool, root: Path, reach: Reach = Reach()) -> Tool:
    """Returns the tool, whose command runs in `root` as with `run_command`."""
    keys = tool.keys
    shell = command_tool(root, network=reach, timeout=keys.timeout)
    made = external(
        keys.name,
        keys.description,
        tool.parameters.model_json_schema(),
        partial(_call, tool, shell),
        context=True,
        # If commands are not contained, `run_command` is tier 3, and this tool too.
        tier=max(keys.tier, int(shell.tier)),
        effect="once",
        timeout=keys.timeout,
        sequential=True,
        toolset="inline",
        preview=partial(_preview, tool, shell),
    )

    def place(folder: Path) -> Tool:
        return make_inline(tool, folder, reach)

    return replace(made, root=shell.root, place=place)


async def _call(
    tool: InlineTool, shell: Tool, ctx: RunContext[Any], parameters: dict[str, Any]
) -> Outcome:
    try:
        command = arguments(tool, parameters)
    except ValueError as error:
        return Outcome(str(error), "failure")
    function: Any = shell.function
    return cast("Outcome", await function(ctx, command=command))


def _preview(tool: InlineTool, shell: Tool, parameters: dict[str, Any]) -> str:
    assert shell.preview is not None
    return shell.preview({"command": arguments(tool, parameters)})


def arguments(tool: InlineTool, parameters: Mapping[str, Any]) -> list[str]:
    """Returns the command with its placeholders filled.

    Raises:
        ValueError: A placeholder cannot be filled, or its value would be an option.
    """
    values = tool.parameters.model_validate(parameters).model_dump()
    filled: list[str] = []
    for part in tool.command:
        if isinstance(part, str):
            filled.append(part)
            continue
        value = part.render(values)
        text = value if isinstance(value, str) else str(value)
        # Allowed if the file itself begins the argument with "-", as in `--name={{ name }}`.
        if text.startswith("-") and not part.source.startswith("-"):
            raise ValueError(f"{text!r} begins with '-': it would be an option of the program")
        filled.append(text)
    return filled


BRIDGE: Final = "taofold.bridges.mcp"
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,30}")
_REFERENCE: Final = "${"


class McpOAuthKeys(Strict):
    """Registration of this client at the server's authorization server."""

    client_id: str = ""
    """Without it the client registers itself at the sign-in."""
    client_secret: str = ""
    """`${NAME}`, from taofold's own environment."""
    scope: str = ""
    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    issuer: str = ""
    """Issuer of the authorization server at which the client is registered."""
    per_principal: bool = False
    """Each principal signs in separately, in the console or with `--principal`."""


class McpKeys(Strict):
    """One server: a program to start, or an address."""

    command: str | list[str] = ""
    """The program, or the program and its first arguments."""
    args: list[str] = []
    """Arguments. A file beside the agent file is found in any working directory."""
    env: dict[str, str] = {}
    """Environment of the program. `${NAME}` comes from taofold's own environment."""
    cwd: str = ""
    """Working directory below the work root. Default: the work root."""
    url: str = ""
    headers: dict[str, str] = {}
    oauth: McpOAuthKeys | None = None
    """The server requires OAuth. `{}` if a user signs in (`taofold mcp login`)."""
    transport: Literal["http", "sse"] = "http"
    tools: list[str] | None = None
    """Names of the server's tools to use. None uses all."""
    trust: bool = False
    """Trusts the server's tool annotations: read-only tools then need no approval."""
    elicitation: Literal["auto", "legacy"] = "auto"
    """`legacy` for servers that ask users only in the older way."""
    timeout: Annotated[float, Field(gt=0, le=3600)] = 60.0
    connect_timeout: Annotated[float, Field(gt=0, le=600)] = 30.0
    resources: bool = False
    prompts: bool = False
    required: bool = True
    """True if the agent cannot work without it."""
    roots: list[str] = []
    """Folders of the work root that the server gets on request."""
    sampling: bool = False
    """Lets the server ask the run's own model, each time with a user's approval."""


def read_servers(document: YamlDocument) -> list[Fault]:
    """Returns the faults of the section beyond the form of its keys."""
    faults: list[Fault] = []
    for key, value in _object(document.value.get("mcp")).items():
        name = str(key)
        if _NAME.fullmatch(name) is None:
            hint = "small letters, digits and _, as it becomes the beginning of its tools' names"
            faults.append(document.fault(("mcp", name), f"{name!r} is no server name", hint))
        if is_object(value):
            faults += _server(document, name, value)
    return faults


def _server(document: YamlDocument, name: str, value: Mapping[str, Any]) -> list[Fault]:
    faults: list[Fault] = []

    def fault(key: str, text: str, hint: str = "") -> None:
        faults.append(document.fault(("mcp", name, *([key] if key else [])), text, hint))

    command, url = value.get("command"), value.get("url")
    # Both or neither.
    if bool(command) == bool(url):
        fault("", "a server has either a command or a url")
    for key in ("args", "env", "cwd") if url else ("headers", "oauth", "transport"):
        if key in value:
            fault(key, f"{key!r} belongs to a {'command' if url else 'url'}")
    if isinstance(url, str) and url:
        wrong, hint = _flaw(url)
        if wrong:
            fault("url", wrong, hint)
    for path, hint in _secrets(value):
        fault_path = ("mcp", name, *path)
        faults.append(document.fault(fault_path, "secrets do not belong in files", hint))
    return faults


def _flaw(url: str) -> tuple[str, str]:
    """Returns the reason why `url` is not a server's address, and a hint."""
    try:
        parts = http_parts(url)
    except ValueError:
        return f"{url!r} is no http(s) address", ""
    if parts.username or parts.password:
        return "credentials do not belong in a url", "use headers with ${NAME}"
    return "", ""


def _secrets(value: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Yields the positions of secrets that should be variable references, each with a hint."""
    texts = [(key, text) for key in ("command", "args") for text in _array(value.get(key))]
    url = value.get("url")
    # A wrong address is reported as such, because its parts cannot be checked.
    texts += [("url", url)] if isinstance(url, str) and not _flaw(url)[0] else []
    for key, text in texts:
        if isinstance(text, str) and Redactor(guesses=True).text(text) != text:
            yield (key,), "a program reads them from its env, an address from its headers: ${NAME}"
    # A reference names the secret but does not contain it.
    secret = _object(value.get("oauth")).get("client_secret")
    if isinstance(secret, str) and secret and _REFERENCE not in secret:
        yield ("oauth", "client_secret"), "write ${NAME} and set the variable NAME"
    for key in ("env", "headers"):
        for name, text in _object(value.get(key)).items():
            plain = isinstance(text, str) and _REFERENCE not in text
            if plain and is_named_secret(str(name), text):
                hint = f"write ${{NAME}} and set the variable NAME, as in {name}: ${{TOKEN}}"
                yield (key, str(name)), hint


def _object(value: Any) -> Mapping[str, Any]:
    """Returns the mapping, or an empty one for values that the form check reports."""
    return value if is_object(value) else {}


def _array(value: Any) -> Sequence[Any]:
    return value if is_array(value) else ()


def make_server(name: str, keys: McpKeys, root: Path, folder: Path) -> Any:
    """Returns the toolset of the server, which starts at its first use.

    Args:
        name: Name of the server in the file.
        keys: Its keys in the file.
        root: The work root, where the program runs.
        folder: Folder of the agent file, for the program's files.

    Raises:
        ConfigError: Its folder leads out of the work root.
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
        "sampling": keys.sampling,
        "roots": [_below(root, folder, "root") for folder in keys.roots],
    }
    if keys.url:
        make = bridge.sse if keys.transport == "sse" else bridge.http
        oauth: Any = None
        if keys.oauth is not None:
            oauth = import_module(BRIDGE).OAuth(**keys.oauth.model_dump())
        return make(keys.url, headers=keys.headers, oauth=oauth, **options)
    target = _below(root, keys.cwd, "cwd")
    written = [keys.command] if isinstance(keys.command, str) else keys.command
    command, *args = [_beside(folder, word) for word in (*written, *keys.args)]
    return bridge.stdio(command, *args, env=keys.env, cwd=target, **options)


def _beside(folder: Path, word: str) -> str:
    """Returns an argument, with the whole path for a file beside the agent file."""
    # A bare name is a program of PATH or a text. A folder such as `.` is in the work root.
    named = "/" in word or Path(word).suffix != ""
    if not named or word.startswith("-") or Path(word).is_absolute():
        return word
    path = folder.absolute() / word
    try:
        return str(path) if path.is_file() else word
    except (OSError, ValueError):  # a long text that is no path
        return word


def _below(root: Path, folder: str, key: str) -> Path:
    """Returns the folder `folder` of the work root.

    Raises:
        ConfigError: It is not in the work root.
    """
    base = root.resolve()
    # Links are resolved first, because a folder inside the root may be a link out of it.
    target = (base / folder).resolve()
    if not target.is_relative_to(base):
        raise ConfigError(f"{key} {folder!r} leads out of the work root {str(base)!r}")
    return target
