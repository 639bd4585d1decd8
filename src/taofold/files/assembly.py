"""From an agent file to an `Agent`. **It imports what the file names**."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from taofold.agent import Agent
from taofold.core.errors import ConfigError
from taofold.files.actions.types import type_of
from taofold.files.agent import (
    OUTPUTS,
    PLAIN,
    AgentFile,
    CommandOptions,
    FilesOptions,
    ToolUse,
    specs,
)
from taofold.files.config import Config
from taofold.files.document import Fault, refuse
from taofold.files.references import load
from taofold.files.tools import InlineTool, make_inline, make_server
from taofold.policy import Limits
from taofold.tools.command import command_tool
from taofold.tools.files import file_tools


def build(file: AgentFile, config: Config, root: Path, *, network: bool = False) -> Agent[Any, Any]:
    """The agent, whose built-in tools work below `root`.

    Raises:
        ExceptionGroup: every tool or type that cannot be had.
    """
    keys, folder = file.keys, file.document.folder
    faults: list[Fault] = []
    tools = listed_tools(file, root, faults, [], network=network)
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
        strategy=keys.strategy,
        # From the far to the near: defaults, configuration, file. Only what was said counts.
        limits=replace(Limits(), **{**config.limits.given(), **keys.limits.given()}),
        policy=file.policy,
        models={role: specs(models) for role, models in keys.models.items()},
        strict=config.strict if keys.strict is None else keys.strict,
        **{option: getattr(keys, option) for option in PLAIN},
    )
    # Made only if nothing is wrong yet: otherwise one mistake would be told twice.
    if not faults:
        faults = _made(agent, file)
    if faults:
        refuse(faults, f"{file.document.source} cannot be used")
    return agent


def listed_tools(
    file: AgentFile, root: Path, faults: list[Fault], seen: list[Any], *, network: bool
) -> list[Any]:
    """The tools and servers that the file lists, without those in `seen`, which grows by them."""
    folder = file.document.folder
    tools: list[Any] = []
    for index, use in enumerate(file.tools):
        if _new((use, folder), seen):
            try:
                tools += _tools(use, root, folder, network)
            except ConfigError as error:
                faults.append(file.document.fault(("tools", index), str(error)))
    for name, keys in file.keys.mcp.items():
        if _new((name, keys), seen):
            try:
                server = make_server(name, keys, root)
                # Servers are started for this, so not for a file that cannot be used anyway.
                if not faults:
                    len(server)  # asked for its tools now: what is wrong is said at its line
                tools.append(server)
            except ConfigError as error:
                faults.append(file.document.fault(("mcp", name), str(error)))
    return tools


def _folders(file: AgentFile, faults: list[Fault]) -> tuple[Path, ...]:
    """The directories and files of `discover`, all below the file's own directory."""
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
    """The type of the answer.

    Raises:
        ConfigError: it is no type, or cannot be imported.
    """
    if not isinstance(name, str):
        return type_of(name)
    if name in OUTPUTS:
        return OUTPUTS[name]
    loaded = load(name, folder)
    # `list[int]` is no type to Python, but one to pydantic.
    if not isinstance(loaded, type) and not hasattr(loaded, "__origin__"):
        raise ConfigError(f"{name!r} is {loaded!r}, not a type")
    return loaded  # pyright: ignore[reportUnknownVariableType]


def _tools(use: ToolUse, root: Path, folder: Path, network: bool) -> list[Any]:
    match use.options:
        case FilesOptions():
            return [file_tools(inside(root, use.options.root), use.options.write)]
        case CommandOptions():
            target, options = inside(root, use.options.root), use.options
            return [
                command_tool(
                    target,
                    network=network,
                    timeout=options.timeout,
                    longest=options.longest,
                )
            ]
        case InlineTool():
            return [make_inline(use.options, root, network=network)]
        case None:
            loaded = load(use.name, folder)
            return list(loaded) if isinstance(loaded, list | tuple) else [loaded]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def inside(root: Path, relative: str) -> Path:
    """`relative` below `root`: a project's file may narrow the work root, never leave it.

    Raises:
        ConfigError: it leads out.
    """
    base = root.resolve()
    path = (base / relative).resolve()
    if not path.is_relative_to(base):
        raise ConfigError(f"{relative!r} leads out of {str(base)!r}")
    return path


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
