"""Agent files: an `Agent` in YAML, with its models, its tools (`ToolUse`) and its output type.

Reading finds every fault and imports nothing. **`build` imports what the file names.**

The keys are the arguments of `Agent`. `NOT_IN_FILES` lists the exceptions: arguments that only code
can pass, and those with which a project's file could act for the user who runs it.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, NewType, cast, get_origin

from pydantic import BeforeValidator, Field
from typing_extensions import TypeAliasType

from taofold.agent import Agent
from taofold.agent.strategies import STRATEGIES, StrategyName
from taofold.core.errors import ConfigError
from taofold.core.json_values import is_array, is_object
from taofold.core.text import near
from taofold.core.values import Effort, PromptCache
from taofold.files import python_references
from taofold.files.checked_yaml import Fault, Strict, YamlDocument, check, load, refuse
from taofold.files.config import Config, LimitKeys
from taofold.files.policy import PolicyFile, tighten
from taofold.files.tools import (
    InlineTool,
    McpKeys,
    make_inline,
    make_server,
    read_inline,
    read_servers,
)
from taofold.files.types import NoType, type_of
from taofold.policy import Limits, Policy
from taofold.runtime.providers import is_provider, providers
from taofold.tools.command import command_tool
from taofold.tools.container_network import Reach
from taofold.tools.files import file_tools

NOT_IN_FILES: Final = {
    "deps_type": "for type checkers",
    "approve": "the person at the command line decides who approves",
    "secrets": "secrets do not belong in files",
    "raise_on_limit": "for code",
    "log": "runs are kept in .taofold",
    "base_url": "where keys are sent is set by the environment (OPENAI_BASE_URL, "
    "OPENAI_COMPATIBLE_BASE_URL, …), never by a file",
    "hooks": "code of the program that runs it",
}
OUTPUTS: Final = {"str": str, "int": int, "float": float, "bool": bool, "dict": dict, "list": list}
"""Types of answers that need no class."""
ROLES: Final = ("planner", "executor", "evaluator", "finalizer", "critic")


# A single model or folder needs no list.
def _several(value: Any) -> Any:
    return [value] if isinstance(value, str | dict) else value


class ModelKeys(Strict):
    """A model with its own settings, which override the agent's."""

    elsewhere = {"base_url": NOT_IN_FILES["base_url"]}

    model: Annotated[str, Field(min_length=1)]
    effort: Effort | None = None
    temperature: Annotated[float, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=0)] = 0
    prompt_cache: PromptCache = ""
    service_tier: str = ""
    extra: dict[str, Any] = {}


def specs(models: list[str | ModelKeys]) -> list[str | dict[str, Any]]:
    """Returns the models as `Agent` accepts them."""
    return [
        model if isinstance(model, str) else model.model_dump(exclude_unset=True)
        for model in models
    ]


Models = Annotated[
    list[str | ModelKeys],
    BeforeValidator(_several, json_schema_input_type=str | ModelKeys | list[str | ModelKeys]),
    Field(min_length=1),
]


class AgentKeys(Strict):
    """The keys of an agent file."""

    elsewhere = NOT_IN_FILES

    model: Models | None = None
    output: str | dict[str, Any] = "str"
    name: Annotated[str, Field(min_length=1)] = "agent"
    description: str = ""
    instructions: str = ""
    tools: list[Any] = []
    mcp: dict[str, McpKeys] = {}
    """MCP servers by name. The agent has their tools too."""
    discover: Annotated[
        list[str], BeforeValidator(_several, json_schema_input_type=str | list[str])
    ] = []
    strategy: str = "react"
    limits: LimitKeys = LimitKeys()
    policy: Any = None
    models: dict[str, Models] = {}
    ask_user: bool = False
    strict: bool = False
    research: bool = False
    on_denial: Annotated[str, Field(pattern="^(continue|stop)$")] = "continue"
    cache: bool = False
    max_tokens: Annotated[int, Field(ge=0)] = 0
    temperature: Annotated[float, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    effort: Effort | None = None
    prompt_cache: PromptCache = ""
    service_tier: str = ""
    extra: dict[str, Any] = {}


TRANSLATED: Final = frozenset(
    {
        "model",
        "output",
        "tools",
        "mcp",
        "discover",
        "strategy",
        "limits",
        "policy",
        "models",
        "strict",
    }
)
"""Keys whose form differs from Python's. They have code in `build` and in `export`."""
PLAIN: Final = tuple([name for name in AgentKeys.model_fields if name not in TRANSLATED])
"""Keys that are arguments of `Agent` without conversion."""


def inside(root: Path, relative: str) -> Path:
    """Returns `relative` below `root`. A project's file may narrow the work root, never leave it.

    Raises:
        ConfigError: The path leads out of `root`.
    """
    base = root.resolve()
    path = (base / relative).resolve()
    if not path.is_relative_to(base):
        raise ConfigError(f"{relative!r} leads out of {str(base)!r}")
    return path


class FilesOptions(Strict):
    """Options of the built-in file tools."""

    root: str = "."
    write: bool = True

    def tool(self, root: Path, reach: Reach) -> Any:
        """Returns the file tools, below the work root."""
        return file_tools(inside(root, self.root), self.write)


class CommandOptions(Strict):
    """Options of the built-in command tool, in seconds."""

    root: str = "."
    timeout: Annotated[float, Field(gt=0)] = 60.0
    longest: Annotated[float, Field(gt=0)] = 600.0

    def tool(self, root: Path, reach: Reach) -> Any:
        """Returns the command tool, below the work root."""
        target = inside(root, self.root)
        return command_tool(target, network=reach, timeout=self.timeout, longest=self.longest)


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One entry of `tools`: a built-in with its options, an inline tool, or a name."""

    name: str
    options: FilesOptions | CommandOptions | InlineTool | None = None


BUILT_IN: Final[dict[str, type[FilesOptions] | type[CommandOptions]]] = {
    "files": FilesOptions,
    "command": CommandOptions,
}


@dataclass(frozen=True, slots=True)
class AgentFile:
    """A file without faults. `policy` already includes the operator's."""

    document: YamlDocument
    keys: AgentKeys
    tools: tuple[ToolUse, ...]
    policy: Policy


def read_agent(
    path: Path, operator: Policy | None = None, source: str = ""
) -> tuple[AgentFile | None, list[Fault]]:
    """Returns the agent file at `path`, or all of its faults."""
    document, faults = load(path, source)
    return (None, faults) if document is None else read_document(document, operator)


def read_document(
    document: YamlDocument, operator: Policy | None = None, model: type[AgentKeys] = AgentKeys
) -> tuple[AgentFile | None, list[Fault]]:
    """Returns the agent that the document describes, with the keys of `model`."""
    keys, faults = check(document, model)
    # From the document, because each entry is checked in its own form.
    raw = document.value.get("tools")
    tools: list[ToolUse] = []
    for index, entry in enumerate(raw if is_array(raw) else ()):
        use, wrong = _tool(document, entry, index)
        faults += wrong
        tools += [use] if use is not None else []
    policy, wrong = _policy(document, operator or Policy())
    faults += [*wrong, *_names(document), *read_servers(document)]
    if faults or keys is None:
        return None, sorted(faults, key=lambda fault: fault.line)
    return AgentFile(document, keys, tuple(tools), policy), []


def _tool(document: YamlDocument, entry: Any, index: int) -> tuple[ToolUse | None, list[Fault]]:
    key_path = ("tools", index)
    # A tool with a name is inline. A mapping with one key is a built-in with options.
    if is_object(entry) and "name" in entry:
        tool, faults = read_inline(document, entry, key_path)
        return (None if tool is None else ToolUse(tool.keys.name, tool)), faults
    if is_object(entry) and len(entry) == 1:
        [(key, value)] = entry.items()
        name = str(key)
        if name in BUILT_IN:
            written: Any = {} if value is None else value
            options, faults = check(document, BUILT_IN[name], written, (*key_path, name))
            return (None if options is None else ToolUse(name, options)), faults
        if python_references.is_name(name):
            return None, [document.fault(key_path, f"{name!r} takes no options")]
        entry = name
    if not isinstance(entry, str):
        return None, [
            document.fault(key_path, "must be a name, or a built-in tool with its options")
        ]
    if entry in BUILT_IN:
        return ToolUse(entry, BUILT_IN[entry]()), []
    if python_references.is_name(entry):
        return ToolUse(entry), []
    hint = f"{near(entry, BUILT_IN)}; your own are module:attr"
    return None, [document.fault(key_path, f"unknown tool {entry!r}", hint)]


def _policy(document: YamlDocument, operator: Policy) -> tuple[Policy, list[Fault]]:
    value: Any = document.value.get("policy")
    if value is None:
        return operator, []
    if not isinstance(value, str):
        keys, faults = check(document, PolicyFile, value, ("policy",))
        if keys is None:
            return operator, faults
        return tighten(operator, keys, document, ("policy",))
    # Relative to the agent file, not to the working directory.
    path = document.folder / value
    other, faults = load(path)
    if other is None:
        here = f"the file is {str(path)!r}"
        # Reported at the key that names the file, because the fault has no line in this document.
        return operator, [document.fault(("policy",), fault.message, here) for fault in faults]
    keys, faults = check(other, PolicyFile)
    return (operator, faults) if keys is None else tighten(operator, keys, other)


def _names(document: YamlDocument) -> list[Fault]:
    """Returns faults of names that do not exist, as far as known without importing."""
    faults: list[Fault] = []
    value = document.value
    strategy = value.get("strategy", "react")
    if isinstance(strategy, str) and strategy not in STRATEGIES:
        hint = near(strategy, STRATEGIES)
        faults.append(document.fault(("strategy",), f"unknown strategy {strategy!r}", hint))
    output = value.get("output", "str")
    if is_object(output):
        try:
            type_of(output)
        except NoType as error:
            faults.append(document.fault(("output", *error.path), str(error)))
    if isinstance(output, str) and output not in OUTPUTS and not python_references.is_name(output):
        hint = f"use one of {', '.join(OUTPUTS)}, or module:Class"
        faults.append(document.fault(("output",), f"unknown type {output!r}", hint))
    faults += _models(document, ("model",), value.get("model"))
    roles = value.get("models")
    for key, spec in (roles if is_object(roles) else {}).items():
        role = str(key)
        key_path = ("models", role)
        if role not in ROLES:
            faults.append(document.fault(key_path, f"unknown role {role!r}", near(role, ROLES)))
        faults += _models(document, key_path, spec)
    return faults


def _models(document: YamlDocument, key_path: tuple[str, ...], value: Any) -> list[Fault]:
    faults: list[Fault] = []
    entries = _several(value)
    for entry in entries if is_array(entries) else ():
        spec = entry.get("model", "") if is_object(entry) else entry
        provider, colon, model = str(spec).partition(":")
        if colon and not is_provider(provider):
            hint = near(provider, providers())
            faults.append(document.fault(key_path, f"unknown provider {provider!r}", hint))
        elif colon and not model.strip():
            faults.append(document.fault(key_path, f"no model is named in {spec!r}"))
    return faults


def build(file: AgentFile, config: Config, root: Path, reach: Reach = Reach()) -> Agent[Any, Any]:
    """Returns the agent, whose built-in tools work below `root`.

    Raises:
        ExceptionGroup: Every tool or type that cannot be loaded.
    """
    keys, folder = file.keys, file.document.folder
    faults: list[Fault] = []
    tools = listed_tools(file, root, faults, [], reach)
    output: Any = str
    try:
        output = output_type(keys.output, folder)
    except ConfigError as error:
        faults.append(file.document.fault(("output",), str(error)))
    agent = Agent[Any, Any](
        specs(keys.model) if keys.model else config.model,
        output=output,
        tools=tuple(tools),
        discover=_folders(file, faults),
        strategy=cast("StrategyName", keys.strategy),
        # In rising precedence: defaults, configuration, file. Only written values count.
        limits=replace(Limits(), **{**config.limits.given(), **keys.limits.given()}),
        policy=file.policy,
        models={role: specs(models) for role, models in keys.models.items()},
        strict=keys.strict,
        **{option: getattr(keys, option) for option in PLAIN},
    )
    # Built only without faults, because the same mistake would be reported twice.
    if not faults:
        faults = _made(agent, file)
    if faults:
        refuse(faults, f"{file.document.source} cannot be used")
    return agent


def listed_tools(
    file: AgentFile, root: Path, faults: list[Fault], seen: list[Any], reach: Reach
) -> list[Any]:
    """Returns the listed tools and servers without those in `seen`, and adds them to it."""
    folder = file.document.folder
    tools: list[Any] = []
    for index, use in enumerate(file.tools):
        if _new((use, folder), seen):
            try:
                tools += _tools(use, root, folder, reach)
            except ConfigError as error:
                faults.append(file.document.fault(("tools", index), str(error)))
    for name, keys in file.keys.mcp.items():
        if _new((name, keys), seen):
            try:
                server = make_server(name, keys, root, folder)
                # Servers are started here, so not for a file with faults.
                if not faults:
                    len(server)  # asks for its tools now, so that faults are reported at its line
                tools.append(server)
            except ConfigError as error:
                faults.append(file.document.fault(("mcp", name), str(error)))
    return tools


def _folders(file: AgentFile, faults: list[Fault]) -> tuple[Path, ...]:
    """Returns the directories and files of `discover`, all below the file's own directory."""
    folders: list[Path] = []
    for index, name in enumerate(file.keys.discover):
        try:
            path = inside(file.document.folder, name)
        except ConfigError as error:
            faults.append(file.document.fault(("discover", index), str(error)))
            continue
        if not path.exists():
            faults.append(
                file.document.fault(("discover", index), f"there is no file or directory {name!r}")
            )
        folders.append(path)
    return tuple(folders)


def _new(one: Any, seen: list[Any]) -> bool:
    if one in seen:
        return False
    seen.append(one)
    return True


def output_type(name: str | dict[str, Any], folder: Path) -> Any:
    """Returns the type of the answer.

    Raises:
        ConfigError: It is not a type, or cannot be imported.
    """
    if not isinstance(name, str):
        return type_of(name)
    if name in OUTPUTS:
        return OUTPUTS[name]
    loaded = python_references.load(name, folder)
    # `list[int]` and `int | str` are not instances of `type`, but typing and Pydantic accept them.
    if not isinstance(loaded, type | NewType | TypeAliasType) and get_origin(loaded) is None:
        raise ConfigError(f"{name!r} is {loaded!r}, not a type")
    return loaded  # pyright: ignore[reportUnknownVariableType]


def _tools(use: ToolUse, root: Path, folder: Path, reach: Reach) -> list[Any]:
    if isinstance(use.options, InlineTool):
        return [make_inline(use.options, root, reach)]
    if use.options is not None:
        return [use.options.tool(root, reach)]
    loaded = python_references.load(use.name, folder)
    return list(loaded) if isinstance(loaded, list | tuple) else [loaded]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _made(agent: Agent[Any, Any], file: AgentFile) -> list[Fault]:
    try:
        names = agent.toolset.names
        agent.answer  # noqa: B018 - made here, so that its faults are found now
    except ExceptionGroup as group:
        return [file.document.fault(("tools",), str(error)) for error in group.exceptions]
    except ConfigError as error:
        return [file.document.fault((), str(error))]
    unknown = [name for name in file.keys.limits.per_tool if name not in names]
    return [
        file.document.fault(("limits", "per_tool", name), f"there is no tool {name!r}")
        for name in unknown
    ]
