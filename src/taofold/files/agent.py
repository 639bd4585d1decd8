"""Agent files: an `Agent` in YAML. Reading finds every fault and imports nothing.

The keys are the arguments of `Agent`; those that would let a project's file speak for the
person who runs it, or that only code can give, are in `NOT_IN_FILES`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from taofold.agent.activation import STRATEGIES
from taofold.core.json_values import is_array, is_object
from taofold.core.text import near
from taofold.core.values import Effort, PromptCache
from taofold.files.actions.types import NoType, type_of
from taofold.files.config import LimitKeys, PolicyFile, tighten
from taofold.files.document import Fault, Strict, YamlDocument, check, load
from taofold.files.references import is_name
from taofold.files.tools import InlineTool, McpKeys, read_inline, read_servers
from taofold.policy import Policy
from taofold.runtime.providers import providers

NOT_IN_FILES: Final = {
    "deps_type": "for type checkers",
    "approve": "the person at the command line decides who approves",
    "secrets": "secrets do not belong in files",
    "raise_on_limit": "for code",
    "log": "runs are kept in .taofold",
    "base_url": "where keys are sent is set by the environment (OPENAI_BASE_URL, "
    "OPENAI_COMPATIBLE_BASE_URL, …), never by a file",
    "settings": "each setting is a key of its own",
    "hooks": "code of the program that runs it",
}
OUTPUTS: Final = {"str": str, "int": int, "float": float, "bool": bool, "dict": dict, "list": list}
"""Types of answers that need no class."""
ROLES: Final = ("planner", "executor", "evaluator", "finalizer", "critic")


# One model or one folder may stand without a list.
def _several(value: Any) -> Any:
    return [value] if isinstance(value, str | dict) else value


class ModelKeys(Strict):
    """A model with settings of its own, which win over the agent's."""

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
    """The models as an agent takes them."""
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
    """MCP servers whose tools it has too, by name."""
    discover: Annotated[
        list[str], BeforeValidator(_several, json_schema_input_type=str | list[str])
    ] = []
    strategy: str = "react"
    limits: LimitKeys = LimitKeys()
    policy: Any = None
    models: dict[str, Models] = {}
    ask_user: bool = False
    strict: bool | None = None
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
"""Keys that a file says otherwise than Python does: they have lines in `assembly`, `export`."""
PLAIN: Final = tuple([name for name in AgentKeys.model_fields if name not in TRANSLATED])
"""Keys that are options of `Agent` as they stand: read and written without further code."""


class FilesOptions(Strict):
    """Of the built-in file tools."""

    root: str = "."
    write: bool = True


class CommandOptions(Strict):
    """Of the built-in command tool. Seconds."""

    root: str = "."
    timeout: Annotated[float, Field(gt=0)] = 60.0
    longest: Annotated[float, Field(gt=0)] = 600.0


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One entry of `tools`: a built-in with its options, a tool defined in place, or a name."""

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
    """The agent file at `path`, or everything wrong with it."""
    document, faults = load(path, source)
    return (None, faults) if document is None else read_document(document, operator)


def read_document(
    document: YamlDocument, operator: Policy | None = None, model: type[AgentKeys] = AgentKeys
) -> tuple[AgentFile | None, list[Fault]]:
    """The agent that the document describes, with the keys of `model`."""
    keys, faults = check(document, model)
    # From the document, not from the keys: each entry is checked in its own form.
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
    # A tool with a name is defined in place; a mapping of one key is a built-in with options.
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
        if is_name(name):
            return None, [document.fault(key_path, f"{name!r} takes no options")]
        entry = name
    if not isinstance(entry, str):
        return None, [
            document.fault(key_path, "must be a name, or a built-in tool with its options")
        ]
    if entry in BUILT_IN:
        return ToolUse(entry, BUILT_IN[entry]()), []
    if is_name(entry):
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
    # Relative to the agent file, not to where the command was started.
    path = document.folder / value
    other, faults = load(path)
    if other is None:
        here = f"the file is {str(path)!r}"
        # Said at the place that names the file: there is no line of this document in it.
        return operator, [document.fault(("policy",), fault.message, here) for fault in faults]
    keys, faults = check(other, PolicyFile)
    return (operator, faults) if keys is None else tighten(operator, keys, other)


def _names(document: YamlDocument) -> list[Fault]:
    """What names something that must exist, as far as that is known without importing."""
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
    if isinstance(output, str) and output not in OUTPUTS and not is_name(output):
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
        if colon and provider not in providers():
            hint = near(provider, providers())
            faults.append(document.fault(key_path, f"unknown provider {provider!r}", hint))
        elif colon and not model.strip():
            faults.append(document.fault(key_path, f"no model is named in {spec!r}"))
    return faults
