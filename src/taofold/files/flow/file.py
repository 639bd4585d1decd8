"""Flow files: agent files with `nodes`, read, checked, and built as an `Agent`.

Reading finds every fault, in imported files too, imports no code, and returns a compiled flow.
**`build` imports what the file names**. It returns an `Agent` whose strategy is the flow, with the
agents, built-in tools and imported flows that its nodes use.
"""

# Values here are any JSON, or come from an untyped library.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from taofold.agent import Agent
from taofold.core.effects import Answer, Strategy
from taofold.core.errors import ConfigError
from taofold.core.json_values import is_array, is_object
from taofold.core.text import near
from taofold.core.values import RESERVED
from taofold.files.actions import ActionCall, Actions, Done, Keys, Kind, build_actions_registry
from taofold.files.actions.action import Open, Text, tool_name
from taofold.files.actions.python import ALLOW_HINT, needs_process
from taofold.files.actions.tools import APPROVE, WAIT, approve, done, memory, perform, wait
from taofold.files.actions.web import backend, web_tools
from taofold.files.agent import AgentFile, listed_tools, read_document, specs
from taofold.files.agent import build as build_plain
from taofold.files.checked_yaml import Fault, YamlDocument, check, load, refuse
from taofold.files.config import Config, read_config
from taofold.files.edge_agent.recognition import is_foreign
from taofold.files.edge_agent.translation import translated
from taofold.files.expressions.settings import resolved
from taofold.files.expressions.template import Unrenderable
from taofold.files.flow.compiler import Compiler, Nodes
from taofold.files.flow.flow import OWN, Flow, FlowKeys, Node
from taofold.files.flow.interpreter import nested_flow, run
from taofold.files.flow.unasked import UnaskedModel
from taofold.files.python_references import load as load_object
from taofold.files.tools import InlineTool
from taofold.memory.origin import NAMES
from taofold.policy import Limits, Policy
from taofold.reasoning import Task
from taofold.tools import Tool, Toolset
from taofold.tools.command import command_tool
from taofold.tools.container_network import Reach
from taofold.tools.files import file_tools
from taofold.tools.http import http_tool
from taofold.tools.python_code import PROCESS, RUN
from taofold.tools.python_process import contained_python

_DEEPEST: Final = 5


@dataclass(frozen=True, slots=True)
class FlowFile(AgentFile):
    """A flow file without faults. `imported` are the flows it uses, by namespace."""

    flow: Flow
    imported: dict[str, "FlowFile"]
    notes: tuple[Fault, ...] = ()
    """Differences of a file of The Edge Agent, one for each place."""
    written: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The file in our form, with its settings as templates."""


def read_agent(
    path: Path, operator: Policy | None = None, source: str = "", *, root: Path | None = None
) -> tuple[AgentFile | None, list[Fault]]:
    """Returns the agent or flow file at `path`, or all of its faults.

    The files of agents that it asks are read as well.

    `root` is the project, which must contain imported files. The default is the working directory
    if the file is in it, else the file's own directory.
    """
    if root is None:
        here, target = Path.cwd().resolve(), path.resolve()
        root = here if target.is_relative_to(here) else target.parent
    return _read_asking(path, operator, source, root.resolve(), (), set())


def _read_asking(
    path: Path,
    operator: Policy | None,
    source: str,
    root: Path,
    askers: tuple[Path, ...],
    checked: set[Path],
) -> tuple[AgentFile | None, list[Fault]]:
    """Returns the file at `path` with the faults of the agent files that it asks.

    Args:
        path: The file.
        operator: The policy that the file may only tighten.
        source: The file's name in faults; "" for its path.
        root: The project.
        askers: The files that ask for this one.
        checked: Files without faults that were read already; each is read once.
    """
    document, faults = load(path, source)
    if document is None:
        return None, faults
    if "nodes" not in document.value:
        return read_document(document, operator)
    file, faults = read_flow(document, operator, root=root)
    if file is None:
        return None, faults
    askers = (*askers, path.resolve())
    for used in _files(file):
        for name, spec in _keys(used).agents.items():
            if not _is_file(spec):
                continue
            try:
                asked = _asked_path(spec, used.document.folder, root, askers)
            except ConfigError as error:
                faults.append(used.document.fault(("agents", name), str(error)))
                continue
            if asked in checked:
                continue
            other, wrong = _read_asking(asked, used.policy, spec, root, askers, checked)
            if other is None:
                faults.append(used.document.fault(("agents", name), f"{spec!r} has faults"))
                faults += wrong
            else:
                checked.add(asked)
    return (None if faults else file), faults


def read_flow(
    document: YamlDocument,
    operator: Policy | None = None,
    *,
    root: Path,
    actions: Actions | None = None,
    above: tuple[Path, ...] = (),
    environment: Mapping[str, str] = os.environ,
) -> tuple[FlowFile | None, list[Fault]]:
    """Returns the flow that the document describes, in our form or in The Edge Agent's.

    Args:
        document: The file.
        operator: The policy that the file may only tighten.
        root: The project.
        actions: The actions of nodes; None for all that are installed.
        above: The files that import this one.
        environment: Environment variables, for settings that are templates.
    """
    actions = build_actions_registry() if actions is None else actions
    document, before, notes = _in_our_form(document)
    if not document.value:
        return None, before
    written = document.value
    document, unset = _with_settings(document, environment)
    before += unset
    agent, faults = read_document(document, operator, FlowKeys)
    faults += before
    # Checked separately, so that faults of nodes are found besides other faults of the file.
    keys = agent.keys if agent is not None else check(document, FlowKeys)[0]
    if not isinstance(keys, FlowKeys):
        return None, sorted([*faults, *_inside(document)], key=lambda fault: fault.line)
    compiler = Compiler(document, actions, keys, faults, environment=environment)
    imported = _imports(compiler, operator, root, above)
    kinds = [_agent_kind(name) for name in keys.agents]
    kinds += [_flow_kind(name, file.flow) for name, file in imported.items()]
    # The flows and agents of this file are actions in it, and nowhere else.
    compiler.actions = Actions(actions.values(), kinds)
    flow = compiler.flow()
    if compiler.faults or agent is None:
        return None, sorted(compiler.faults, key=lambda fault: fault.line)
    file = FlowFile(
        document, keys, agent.tools, agent.policy, {}, flow, imported, notes, written=written
    )
    # An imported flow may use the tools of the file that imports it.
    faults = [] if above else _tool_faults(file, root)
    return (None if faults else file), faults


def _in_our_form(document: YamlDocument) -> tuple[YamlDocument, list[Fault], tuple[Fault, ...]]:
    """Returns the document in our form, with what it refuses and what differs."""
    if not is_foreign(document.value):
        return document, [], ()
    made = translated(document)
    return made.document, list(made.faults), made.notes


def _with_settings(
    document: YamlDocument, environment: Mapping[str, str]
) -> tuple[YamlDocument, list[Fault]]:
    """Returns the document with the templates of its models and settings rendered."""
    value, faults = dict(document.value), list[Fault]()
    variables = value.get("variables")
    constants: Mapping[str, Any] = variables if is_object(variables) else {}
    for key in ("model", "models", "settings"):
        if key in value:
            try:
                value[key] = resolved(value[key], constants, environment)
            except Unrenderable as error:
                faults.append(document.fault((key,), str(error)))
                del value[key]
    return replace(document, value=value), faults


def _inside(document: YamlDocument) -> list[Fault]:
    """Returns the faults of the nodes if the top of the file has faults of its own."""
    # A substitute that satisfies the schema. Only the document's own nodes are compiled.
    names: dict[str, Any] = {}
    for key in ("variables", "initial_state"):
        if is_object(part := document.value.get(key)):
            names[key] = dict(part)
    keys = FlowKeys(nodes=[{}], **names)
    kinds = [_agent_kind(str(name)) for name in _names(document.value.get("agents"))]
    entries = document.value.get("imports")
    kinds += [
        _kind_of(f"flow.{entry.get('namespace')}", Open)
        for entry in (entries if is_array(entries) else ())
        if is_object(entry)
    ]
    compiler = Compiler(document, Actions(build_actions_registry().values(), kinds), keys)
    nodes = Nodes(compiler).all(document.value.get("nodes"), ("nodes",))
    produced = {name for node in nodes for name in node.produced}
    schema = document.value.get("state_schema")
    typed = _names(schema.get("properties", schema)) if is_object(schema) else []
    start = [document.value.get("input"), *[str(name).removesuffix("?") for name in typed]]
    compiler.check_reads({*produced, *keys.initial_state, *map(str, start), *OWN})
    return compiler.faults


def _names(value: Any) -> list[Any]:
    return list(value) if is_object(value) else []


def _imports(
    compiler: Compiler, operator: Policy | None, root: Path, above: tuple[Path, ...]
) -> dict[str, FlowFile]:
    files: dict[str, FlowFile] = {}
    here = compiler.document.folder
    for number, entry in enumerate(compiler.keys.imports):
        key_path = ("imports", number, "path")
        path = (here / entry.path).resolve()
        # After links were resolved.
        if not path.is_relative_to(root.resolve()):
            compiler.wrong(key_path, f"{entry.path!r} leads out of the project {str(root)!r}")
            continue
        if entry.namespace in files:
            compiler.wrong(("imports", number, "namespace"), f"{entry.namespace!r} is taken")
            continue
        if path in above or len(above) >= _DEEPEST:
            compiler.wrong(key_path, f"{entry.path!r} imports itself, or imports nest too deep")
            continue
        document, faults = load(path, entry.path)
        if document is not None and "nodes" not in document.value:
            faults = [document.fault((), "is no flow: it has no 'nodes'")]
            document = None
        if document is not None:
            file, faults = read_flow(document, operator, root=root, above=(*above, path))
            if file is not None:
                files[entry.namespace] = file
        if faults:
            compiler.wrong(key_path, f"{entry.path!r} has faults")
            compiler.faults += faults
    return files


class _Goal(Keys):
    goal: Text


def _ask_agent(name: str, call: ActionCall[_Goal]) -> Strategy[Done]:
    observation = yield from perform(call.node, name, {"goal": call.keys.goal}, call.thought)
    return done(observation)


def _agent_kind(name: str) -> Kind:
    run = partial(_ask_agent, name)
    return Kind(f"agent.{name}", f"Ask the agent {name}.", _Goal, run, tools=(name,))


def _flow_kind(name: str, flow: Flow) -> Kind:
    return replace(_kind_of(f"flow.{name}", Open), run=partial(nested_flow, flow))


def _kind_of(name: str, keys: Any) -> Kind:
    return Kind(name, name, keys, lambda call: perform(call.node, name, {}))  # type: ignore[arg-type, return-value] # pyright: ignore[reportArgumentType]


_OPTIONAL: Final = (RUN, PROCESS)
"""Tools that need a package or the user's permission. Nodes name both and use one."""
_BRIDGE: Final = "taofold.bridges.python_run"
_FILES: Final = ("list_files", "read_file", "search", "write_file", "edit_file")


def load_agent(path: Path, root: Path, *, allow_python: bool = False) -> Agent[Any, Any]:
    """Returns the agent of the file at `path`, whose built-in tools work below `root`.

    `allow_python` permits nodes whose Python code needs a contained process.

    Raises:
        ConfigError: There is no such file.
        ExceptionGroup: All faults of the file or the environment.
    """
    if not path.is_file():
        raise ConfigError(f"there is no agent file {str(path)!r}")
    config, faults = read_config(None, os.environ)
    if config is None:
        refuse(faults, "the environment cannot be used")
    file, faults = read_agent(path, source=str(path))
    if file is None:
        refuse(faults, f"{path} cannot be used")
    agent = build(file, config, root.resolve(), allow_python=allow_python)
    return without_idle_model(agent, file)


def build(
    file: AgentFile,
    config: Config,
    root: Path,
    reach: Reach = Reach(),
    *,
    askers: tuple[Path, ...] = (),
    allow_python: bool = False,
) -> Agent[Any, Any]:
    """Returns the agent, whose built-in tools work below `root`.

    `askers` are the files whose agents call this one. They cannot be called again. `allow_python`
    permits nodes whose Python code needs a contained process.

    Raises:
        ExceptionGroup: Everything that cannot be loaded, with its position.
    """
    if not isinstance(file, FlowFile):
        return build_plain(file, config, root, reach)
    keys = _keys(file)
    # Without limits per tool, which may name tools that are added below.
    bare = keys.model_copy(update={"limits": keys.limits.model_copy(update={"per_tool": {}})})
    agent = build_plain(replace(file, keys=bare), config, root, reach=reach)
    faults: list[Fault] = []
    # The options of the agent add the others again.
    added = [tool for name, tool in agent.toolset.items() if name not in agent.listed_toolset]
    tools = [*agent.listed_toolset.values()]
    known = {tool.name for tool in added}
    tools += _imported(file, root, known | {tool.name for tool in tools}, faults, reach)
    for used in _files(file):
        tools += _agents(used, config, root, faults, reach, askers, allow_python)
    makers = _makers(file, root, reach, allow_python)
    tools += _provided(file, known | {tool.name for tool in tools}, faults, makers)
    _check_calls(file, {tool.name: tool for tool in (*added, *tools)}, faults)
    if not allow_python:
        faults += filter(None, python_codes(file))
    if faults:
        refuse(faults, f"{file.document.source} cannot be used")
    limits = {**config.limits.given(), **keys.limits.given()}
    settings = keys.settings
    named = [_completed(keys, name) for name in specs(keys.model or [])]
    # A model that no node calls needs no key.
    called = settings.model if any(_calls_default(file)) else ""
    default = [_completed(keys, called)] if called else config.model
    warmth = settings.temperature if keys.temperature is None else keys.temperature
    effort = settings.effort if keys.effort is None else keys.effort
    return agent.replace(
        # Precedence: the agent file's own key, the flow's settings, the configuration.
        model=named or default,
        tools=tuple(tools),
        strategy=strategy(file.flow, file.document.value),
        output=agent.output if file.flow.typed else Any,
        # A flow bounds its own loops and visits. A limit of 10 steps would end most flows.
        limits=replace(Limits(steps=None), **limits),
        models={**agent.models, **{name: name for name in models(file)}},
        temperature=warmth,
        effort=effort,
    )


def without_idle_model(agent: Agent[Any, Any], file: AgentFile) -> Agent[Any, Any]:
    """Returns the agent; it runs without a model of its own if its nodes name all they call."""
    if agent.model or not isinstance(file, FlowFile) or any(_calls_default(file)):
        return agent
    return agent.replace(model=UnaskedModel())


def _calls_default(file: FlowFile) -> Iterator[bool]:
    """Yields for each node, also of imported flows, whether it calls the flow's own model."""
    for node in file.flow.every:
        own = not {"model", "generator_model"}.isdisjoint(node.models)
        yield node.kind is not None and bool(node.kind.models) and not own
    for other in file.imported.values():
        yield from _calls_default(other)


def strategy(
    flow: Flow, written: Mapping[str, Any] | None = None
) -> Callable[[Task], Strategy[Answer]]:
    """Returns the flow as a strategy. `written` is the file, for exports of the agent."""

    def flow_strategy(task: Task) -> Strategy[Answer]:
        return run(flow, task)

    flow_strategy.__name__ = "flow"
    flow_strategy.__dict__["written"] = written
    flow_strategy.__dict__["flow"] = flow
    return flow_strategy


def needs_goal(file: FlowFile) -> bool:
    """Returns whether the flow, or one that it imports, reads the goal of the run."""
    return any([used.flow.reads_goal or used.flow.keys.input for used in _files(file)])


def models(file: FlowFile) -> list[str]:
    """Returns the models that nodes name."""
    nodes = [node for used in _files(file) for node in used.flow.every]
    return sorted({name for node in nodes for name in node.models.values()})


def _keys(file: FlowFile) -> FlowKeys:
    assert isinstance(file.keys, FlowKeys)
    return file.keys


def _completed(keys: FlowKeys, name: str | dict[str, Any]) -> Any:
    if isinstance(name, dict):
        return {**name, "model": _completed(keys, name["model"])}
    provider = keys.settings.provider
    return f"{provider}:{name}" if provider and ":" not in name else name


def _files(file: FlowFile) -> Iterator[FlowFile]:
    yield file
    for other in file.imported.values():
        yield from _files(other)


def _imported(
    file: FlowFile, root: Path, have: set[str], faults: list[Fault], reach: Reach
) -> list[Tool]:
    """Returns the tools that imported flows list. Equal entries are one tool."""
    # The file's own entries count as seen, because an imported flow may repeat them.
    uses: list[Any] = [(use, file.document.folder) for use in file.tools]
    uses += _keys(file).mcp.items()
    tools: list[Tool] = []
    for used in [flow_file for flow_file in _files(file) if flow_file is not file]:
        try:
            for tool in Toolset.of(*listed_tools(used, root, faults, uses, reach)).values():
                if tool.name in have:
                    text = f"another tool is named {tool.name!r}: rename one of them"
                    faults.append(used.document.fault((), text))
                have.add(tool.name)
                tools.append(tool)
        except ConfigError as error:
            faults.append(used.document.fault(("tools",), str(error)))
    return tools


def _is_file(spec: str) -> bool:
    """Returns whether an agent is named by its file, not by module:attr."""
    return spec.endswith((".yaml", ".yml"))


def _asked_path(spec: str, folder: Path, root: Path, askers: tuple[Path, ...]) -> Path:
    """Returns the path of an agent file that a file in `folder` asks.

    Raises:
        ConfigError: The file is missing, lies outside the project, or is one of `askers`.
    """
    path = (folder / spec).resolve()
    # Beside the file or in the project: an agent elsewhere is another project's code.
    if not path.is_relative_to(folder.resolve()) and not path.is_relative_to(root):
        raise ConfigError(f"{spec!r} leads out of the project")
    if not path.is_file():
        raise ConfigError(f"there is no agent file {spec!r}")
    if path in askers:
        raise ConfigError(f"{spec!r} asks itself, by way of the agents that it asks")
    return path


def _agents(
    file: FlowFile,
    config: Config,
    root: Path,
    faults: list[Fault],
    reach: Reach,
    askers: tuple[Path, ...],
    allow_python: bool,
) -> list[Tool]:
    """Returns the agents that nodes call, as tools."""
    tools: list[Tool] = []
    folder = file.document.folder
    for name, spec in _keys(file).agents.items():
        key_path = ("agents", name)
        try:
            if _is_file(spec):
                path = _asked_path(spec, folder, root, askers)
                other, wrong = read_agent(path, file.policy, spec, root=root)
                if other is None:
                    faults.append(file.document.fault(key_path, f"{spec!r} has faults"))
                    faults += wrong
                    continue
                agent: Any = build(
                    other, config, root, reach, askers=(*askers, path), allow_python=allow_python
                )
            else:
                agent = load_object(spec, folder)
            if not isinstance(agent, Agent):
                raise ConfigError(f"{spec!r} is no Agent")
            tools.append(agent.as_tool(name))
        except ConfigError as error:
            faults.append(file.document.fault(key_path, str(error)))
        except ExceptionGroup as group:
            faults += [file.document.fault(key_path, str(error)) for error in group.exceptions]
    return tools


def _wanted(file: FlowFile) -> Iterator[tuple[FlowFile, Node, str]]:
    """Yields the tools that nodes use, with the nodes."""
    for flow_file in _files(file):
        for node in flow_file.flow.every:
            for name in _tools_of(node):
                yield flow_file, node, name


def _tools_of(node: Node) -> Iterator[str]:
    if node.kind is not None:
        yield from node.kind.tools
    values: Any = node.inputs.raw
    listed = values.get("tools") if isinstance(values, Mapping) else None
    yield from [tool_name(str(name)) for name in listed or ()]
    if node.approve is not None:
        yield APPROVE
    if node.on_error.retry is not None:
        yield WAIT


def _tool_faults(file: FlowFile, root: Path) -> list[Fault]:
    """Returns faults for unknown tools of nodes and their keys, if the files name all tools."""
    files = [*_files(file)]
    if any([used.keys.mcp or used.keys.discover or used.keys.skills for used in files]):
        return []
    uses = [use for used in files for use in used.tools]
    if any([use.options is None for use in uses]):
        return []  # a list in Python, or a tool with its own name
    have = {use.name for use in uses if isinstance(use.options, InlineTool)}
    for used in files:
        have |= {*_keys(used).agents, *(NAMES if used.keys.memory else ())}
    makers = _makers(file, root, Reach(), False)
    known = {*have, *makers, *_OPTIONAL, *RESERVED}
    faults = [_unknown(*each, known) for each in _wanted(file) if each[-1] not in known]
    built_in = {name for _, _, name in _wanted(file)} & makers.keys() - have
    # The schema of a search does not depend on its backend, which `build` makes.
    searches = {tool.name: tool for tool in web_tools()}
    tools = {name: searches.get(name) or makers[name]() for name in built_in}
    _check_calls(file, tools, faults)
    return sorted(faults, key=lambda fault: fault.line)


def _unknown(file: FlowFile, node: Node, name: str, have: Iterable[str]) -> Fault:
    return file.document.fault(node.key_path, f"there is no tool {name!r}", near(name, have))


def _provided(
    file: FlowFile, have: set[str], faults: list[Fault], makers: Mapping[str, Callable[[], Tool]]
) -> list[Tool]:
    """Returns built-in tools that nodes use without an entry in the file."""
    tools: dict[str, Tool] = {}
    for flow_file, node, name in _wanted(file):
        if name in have or name in tools or name in RESERVED:
            continue
        if name in _OPTIONAL and name not in makers:
            continue  # `python_codes` finds the nodes that need it
        if name not in makers:
            faults.append(_unknown(flow_file, node, name, {*have, *makers}))
            # Recorded, so that each missing tool is reported once.
            have.add(name)
            continue
        try:
            tools[name] = makers[name]()
        except ConfigError as error:
            faults.append(flow_file.document.fault(("settings", "search"), str(error)))
            have.add(name)
    return list(tools.values())


def _makers(
    file: FlowFile, root: Path, reach: Reach, allow_python: bool
) -> dict[str, Callable[[], Tool]]:
    def web(name: str) -> Tool:
        search = next((s for used in _files(file) if (s := _keys(used).settings.search)), "")
        return next(offered for offered in web_tools(backend(search, root)) if offered.name == name)

    def filed(name: str) -> Tool:
        return file_tools(root)[name]

    def kept(name: str) -> Tool:
        return next(tool for tool in memory() if tool.name == name)

    return {
        **{name: partial(filed, name) for name in _FILES},
        **{name: partial(web, name) for name in ("web.search", "web.scrape")},
        **{name: partial(kept, name) for name in ("memory.store", "memory.recall")},
        "run_command": lambda: command_tool(root, network=reach),
        "http.get": http_tool,
        APPROVE: approve,
        WAIT: wait,
        **({RUN: _sandboxed_python} if _has_sandbox() else {}),
        **({PROCESS: partial(contained_python, root, reach)} if allow_python else {}),
    }


def _has_sandbox() -> bool:
    return find_spec("pydantic_monty") is not None


def _sandboxed_python() -> Tool:
    # By name, because the bridges to vendor packages are above this layer.
    tool: Tool = import_module(_BRIDGE).sandboxed_python()
    return tool


def python_codes(file: FlowFile) -> "list[Fault | None]":
    """Returns an entry for each node with Python code: the fault if the sandbox does not suffice.

    The fault is none for a user who allows a contained process.
    """
    faults: list[Fault | None] = []
    for used in _files(file):
        for node in used.flow.every:
            if node.kind is not None and node.kind.name == RUN:
                needs, line = needs_process(node.inputs.raw["code"], sandbox=_has_sandbox())
                where = (*node.key_path, "with", "code")
                fault = used.document.fault_inside(where, line, needs, ALLOW_HINT)
                faults.append(fault if needs else None)
    return faults


def _check_calls(file: FlowFile, tools: Mapping[str, Tool], faults: list[Fault]) -> None:
    """Records faults for unknown and missing parameters under `with`."""
    for used in _files(file):
        for node in used.flow.every:
            name = node.kind.tools[0] if node.kind is not None and node.kind.tools else ""
            # Only plain tool calls are checked here. An action with its own keys checks them
            # itself.
            if name not in tools or node.kind is None or node.kind.keys.model_fields:
                continue
            schema = tools[name].schema
            accepted = [*schema.get("properties", {}), "timeout_s", *node.kind.own]
            keys = list(node.inputs.raw)
            key_path = (*node.key_path, "with")
            if schema.get("additionalProperties") is False:
                for key in [key for key in keys if key not in accepted]:
                    text = f"unknown key {key!r} of the tool {name}"
                    faults.append(used.document.fault((*key_path, key), text, near(key, accepted)))
            for key in schema.get("required", ()):
                if key not in keys:
                    text = f"the tool {name} needs the key {key!r}"
                    faults.append(used.document.fault(key_path, text))
