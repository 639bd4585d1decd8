"""Agent files: an `Agent` in YAML, with its models, its tools (`ToolUse`) and its output type.

Reading finds every fault and imports nothing. **`build` imports what the file names.**

The keys are the arguments of `Agent`. `NOT_IN_FILES` lists the exceptions: arguments that only code
can pass, and those with which a project's file could act for the user who runs it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from os.path import isdir
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NewType, cast, get_origin

from pydantic import BeforeValidator, Field
from typing_extensions import TypeAliasType

from taofold.agent import Agent
from taofold.agent.strategies import MODEL_ROLES, STRATEGIES, StrategyName
from taofold.core.errors import ConfigError
from taofold.core.json_values import is_array, is_object
from taofold.core.text import near
from taofold.core.values import Compaction, Effort, PromptCache
from taofold.files import python_references
from taofold.files.checked_yaml import Fault, KeyPath, Strict, YamlDocument, check, load, refuse
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
from taofold.memory import Memory
from taofold.policy import Limits, Policy
from taofold.runtime.providers import is_provider, providers
from taofold.skills import find_skills, skill_tools
from taofold.skills import sources as skill_sources
from taofold.tools.command import command_tool
from taofold.tools.container_network import Reach
from taofold.tools.files import file_tools
from taofold.tools.installed import load_tools, tool_names

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


class MemoryKeys(Strict):
    """The bounds of the agent's notebooks. Their place is the log of the runs."""

    elsewhere = {"store": "code that keeps notebooks elsewhere is for code"}

    entries: Annotated[int, Field(ge=1, le=1_000)] = 200
    chars: Annotated[int, Field(ge=20, le=5_000)] = 500
    digest: Annotated[int, Field(ge=0, le=50_000)] = 2_000


class AgentKeys(Strict):
    """The keys of an agent file."""

    elsewhere = {**NOT_IN_FILES, "budgets": "write policy: {budgets: […]}"}

    model: Models | None = None
    output: str | dict[str, Any] = "str"
    name: Annotated[str, Field(min_length=1)] = "agent"
    description: str = ""
    instructions: str = ""
    tools: Annotated[
        list[Any], BeforeValidator(_several, json_schema_input_type=str | list[Any])
    ] = []
    handoffs: Annotated[
        list[str], BeforeValidator(_several, json_schema_input_type=str | list[str])
    ] = []
    """Files of agents that may continue a run in place of this one."""
    mcp: dict[str, McpKeys] = {}
    """MCP servers by name. The agent has their tools too."""
    discover: Annotated[
        list[str], BeforeValidator(_several, json_schema_input_type=str | list[str])
    ] = []
    skills: Annotated[
        list[str], BeforeValidator(_several, json_schema_input_type=str | list[str])
    ] = []
    project_instructions: bool = False
    memory: bool | MemoryKeys = False
    snapshots: bool = False
    worktree: bool = False
    tool_search: bool | Literal["local"] | None = None
    strategy: str = "react"
    limits: LimitKeys = LimitKeys()
    policy: Any = None
    models: dict[str, Models] = {}
    grounding_judge: Models | None = None
    compaction: Compaction = "fold"
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
        "handoffs",
        "mcp",
        "discover",
        "skills",
        "project_instructions",
        "memory",
        "snapshots",
        "strategy",
        "limits",
        "policy",
        "models",
        "grounding_judge",
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
    """A file without faults. `policy` already includes the operator's.

    `team` has the files of all agents to which a run of this one may be handed over, by path.
    """

    document: YamlDocument
    keys: AgentKeys
    tools: tuple[ToolUse, ...]
    policy: Policy
    team: "Mapping[Path, AgentFile]"


def read_document(
    document: YamlDocument,
    operator: Policy | None = None,
    model: type[AgentKeys] = AgentKeys,
    team: dict[Path, AgentFile] | None = None,
) -> tuple[AgentFile | None, list[Fault]]:
    """Returns the agent that the document describes, with the keys of `model`.

    Args:
        document: The file.
        operator: The policy that the file may only tighten.
        model: The keys of the file.
        team: The files of the run's agents that were read before.
    """
    keys, faults = check(document, model)
    # From the document, because each entry is checked in its own form.
    raw = _several(document.value.get("tools"))
    tools: list[ToolUse] = []
    for index, entry in enumerate(raw if is_array(raw) else ()):
        use, wrong = _tool(document, entry, index)
        faults += wrong
        tools += [use] if use is not None else []
    policy, wrong = _policy(document, operator or Policy())
    skills = () if keys is None else keys.skills
    faults += [*wrong, *_names(document), *_skills(document, skills), *read_servers(document)]
    if keys is None:
        return None, sorted(faults, key=lambda fault: fault.line)
    team = {} if team is None else team
    file = AgentFile(document, keys, tuple(tools), policy, team)
    if document.path is not None:
        team[document.path] = file
    faults += _read_successors(file, team)
    return (None, sorted(faults, key=lambda fault: fault.line)) if faults else (file, [])


def _read_successors(file: AgentFile, team: dict[Path, AgentFile]) -> list[Fault]:
    """Reads the files of `handoffs` into `team`. Returns their faults."""
    faults: list[Fault] = []
    for index, name in enumerate(file.keys.handoffs):
        key_path = ("handoffs", index)
        if "nodes" in file.document.value:
            wrong = "a flow hands over to no agent: call it in a node (uses: agent.NAME)"
            return [file.document.fault(("handoffs",), wrong)]
        try:
            path = inside(file.document.folder, name)
        except ConfigError as error:
            faults.append(file.document.fault(key_path, str(error)))
            continue
        if path in team:
            continue
        other, wrong_there = load(path, name)
        if other is not None and "nodes" in other.value:
            wrong_there.append(other.fault(("nodes",), "a run cannot be handed over to a flow"))
        elif other is not None:
            # The operator's policy is that of the first file: it holds for the whole run.
            wrong_there += read_document(other, team=team)[1]
        if wrong_there:
            faults.append(file.document.fault(key_path, f"{name!r} has faults"))
            faults += wrong_there
    return faults


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
        if python_references.is_name(name) or name in tool_names():
            return None, [document.fault(key_path, f"{name!r} takes no options")]
        entry = name
    if not isinstance(entry, str):
        return None, [
            document.fault(key_path, "must be a name, or a built-in tool with its options")
        ]
    if entry in BUILT_IN:
        return ToolUse(entry, BUILT_IN[entry]()), []
    if python_references.is_name(entry):
        return ToolUse(entry), _missing_file(document, key_path, entry)
    if entry in tool_names():
        return ToolUse(entry), []
    hint = f"{near(entry, [*BUILT_IN, *tool_names()])}; your own are module:attr"
    return None, [document.fault(key_path, f"unknown tool {entry!r}", hint)]


def _missing_file(document: YamlDocument, key_path: KeyPath, name: str) -> list[Fault]:
    """Returns the fault of a `file.py:attr` without its file. A text in memory has no folder."""
    missing = python_references.missing_file(name, document.folder)
    return [document.fault(key_path, missing)] if document.path is not None and missing else []


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
        here = f"the file is {str(path)!r}{_similar_file(path)}"
        # Reported at the key that names the file, because the fault has no line in this document.
        return operator, [document.fault(("policy",), fault.message, here) for fault in faults]
    keys, faults = check(other, PolicyFile)
    return (operator, faults) if keys is None else tighten(operator, keys, other)


def _similar_file(path: Path) -> str:
    """Returns a hint to a file beside the missing `path` with a similar name, or ""."""
    try:
        beside = [each.name for each in path.parent.glob("*.y*ml") if each.name != path.name]
    except OSError:  # a long text that is no path
        return ""
    similar = get_close_matches(path.name, beside, n=1)
    return f"; did you mean {similar[0]!r}?" if similar else ""


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
    elif isinstance(output, str):
        faults += _missing_file(document, ("output",), output)
    faults += _models(document, ("model",), value.get("model"))
    faults += _models(document, ("grounding_judge",), value.get("grounding_judge"))
    roles = value.get("models")
    for key, spec in (roles if is_object(roles) else {}).items():
        role = str(key)
        key_path = ("models", role)
        if role not in MODEL_ROLES:
            hint = near(role, MODEL_ROLES)
            faults.append(document.fault(key_path, f"unknown role {role!r}", hint))
        faults += _models(document, key_path, spec)
    return faults


def _skills(document: YamlDocument, sources: Iterable[str]) -> list[Fault]:
    """Returns faults of the listed folders of skills; the skills themselves are read later."""
    faults: list[Fault] = []
    for index, name in enumerate(sources):
        if name in (skill_sources.USER, skill_sources.PROJECT):
            continue
        try:
            folder = inside(document.folder, name)
        except ConfigError as error:
            faults.append(document.fault(("skills", index), str(error)))
            continue
        if not folder.is_dir():
            wrong = f"{name!r} is not a folder: name a folder that holds a SKILL.md"
            faults.append(document.fault(("skills", index), wrong))
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


def missing_roots(file: AgentFile, root: Path) -> list[Fault]:
    """Returns a fault for each `root` of a built-in tool that is no folder below `root`."""
    faults: list[Fault] = []
    for index, use in enumerate(file.tools):
        if isinstance(use.options, FilesOptions | CommandOptions):
            folder = root / use.options.root
            # `Path.is_dir` raises for a text that is too long for a path.
            if not isdir(folder):  # noqa: PTH112
                wrong = f"there is no folder {str(folder)!r}"
                faults.append(file.document.fault(("tools", index), wrong))
    return faults


def build(file: AgentFile, config: Config, root: Path, reach: Reach = Reach()) -> Agent[Any, Any]:
    """Returns the agent, whose built-in tools work below `root`.

    Raises:
        ExceptionGroup: Every tool or type that cannot be loaded.
    """
    built: dict[Path | None, Agent[Any, Any]] = {}
    faults: list[Fault] = []
    # The first file comes first, under its own path if it has one.
    files: dict[Path | None, AgentFile] = {file.document.path: file}
    files |= {path: each for path, each in file.team.items()}  # noqa: C416 - of another key type
    for path, each in files.items():
        built[path] = _built(each, config, root, reach, built, faults)
    # Checked only without faults, because the same mistake would be reported twice.
    if not faults:
        for path, each in files.items():
            faults += _made(built[path], each)
    if faults:
        refuse(faults, f"{file.document.source} cannot be used")
    return built[file.document.path]


def _built(
    file: AgentFile,
    config: Config,
    root: Path,
    reach: Reach,
    built: Mapping[Path | None, Agent[Any, Any]],
    faults: list[Fault],
) -> Agent[Any, Any]:
    """Returns the agent of one file, and adds its faults. `built` has those of its team, later."""
    keys, folder = file.keys, file.document.folder
    tools = listed_tools(file, root, faults, [], reach)
    paths = [inside(folder, name) for name in keys.handoffs]
    output: Any = str
    try:
        output = output_type(keys.output, folder)
    except ConfigError as error:
        faults.append(file.document.fault(("output",), str(error)))
    return Agent[Any, Any](
        specs(keys.model) if keys.model else config.model,
        output=output,
        tools=tuple(tools),
        handoffs=(lambda: [built[path] for path in paths]) if paths else (),
        discover=_folders(file, faults),
        memory=memory_of(keys.memory),
        strategy=cast("StrategyName", keys.strategy),
        # In rising precedence: defaults, configuration, file. Only written values count.
        limits=replace(Limits(), **{**config.limits.given(), **keys.limits.given()}),
        policy=file.policy,
        models={role: specs(models) for role, models in keys.models.items()},
        grounding_judge=specs(keys.grounding_judge) if keys.grounding_judge else None,
        strict=keys.strict,
        project_instructions=root if keys.project_instructions else False,
        snapshots=root if keys.snapshots else False,
        **{option: getattr(keys, option) for option in PLAIN},
    )


def memory_of(keys: bool | MemoryKeys) -> bool | Memory:
    """Returns the value of the key `memory` as `Agent` accepts it."""
    return keys if isinstance(keys, bool) else Memory(**keys.model_dump())


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
    if file.keys.skills and _new(("skills", tuple(file.keys.skills), folder), seen):
        tools += _skill_tools(file, root, faults, reach)
    return tools


def _skill_tools(file: AgentFile, root: Path, faults: list[Fault], reach: Reach) -> list[Any]:
    """Returns the tools of the listed skills, whose folders are below the file's own directory."""
    sources: list[str | Path] = []
    for index, name in enumerate(file.keys.skills):
        try:
            given = name in (skill_sources.USER, skill_sources.PROJECT)
            sources.append(name if given else inside(file.document.folder, name))
        except ConfigError as error:
            faults.append(file.document.fault(("skills", index), str(error)))
    try:
        return [skill_tools(find_skills(sources, root), root, network=reach)]
    except (ConfigError, ExceptionGroup) as error:
        wrong = error.exceptions if isinstance(error, ExceptionGroup) else [error]
        faults += [file.document.fault(("skills",), str(each)) for each in wrong]
        return []


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
    if not python_references.is_name(use.name):
        return [load_tools(use.name)]
    loaded = python_references.load(use.name, folder)
    return list(loaded) if isinstance(loaded, list | tuple) else [loaded]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _made(agent: Agent[Any, Any], file: AgentFile) -> list[Fault]:
    try:
        agent.team  # noqa: B018 - made here, so that its faults are found now
        names = agent.toolset.names
        agent.answer  # noqa: B018 - the same
    except ExceptionGroup as group:
        return [file.document.fault(("tools",), str(error)) for error in group.exceptions]
    except ConfigError as error:
        path = ("handoffs",) if error.path.startswith("handoffs") else ()
        return [file.document.fault(path, str(error))]
    unknown = [name for name in file.keys.limits.per_tool if name not in names]
    return [
        file.document.fault(("limits", "per_tool", name), f"there is no tool {name!r}")
        for name in unknown
    ]
