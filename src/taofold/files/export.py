"""Exports of agents and flows: files, the JSON Schema for editors, and Mermaid charts.

An agent that a file cannot express is refused, never written in part. The schema is made from the
models that also check files.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from taofold.agent import Agent
from taofold.core.errors import ConfigError
from taofold.core.text import clip
from taofold.files.actions import Actions, alias, build_actions_registry
from taofold.files.agent import NOT_IN_FILES, OUTPUTS, PLAIN, AgentFile, MemoryKeys
from taofold.files.flow.file import FlowFile
from taofold.files.flow.flow import END, FAIL, Edge, Flow, FlowKeys, Node, NodeKeys
from taofold.log.formats import yaml_document as yaml
from taofold.memory import Memory
from taofold.policy import Limits, Policy
from taofold.tools import Tool

# Values here are any JSON, or come from an untyped library.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false


HINT: Final = "# yaml-language-server: $schema=.taofold/agent.schema.json\n"
"""The line that lets an editor complete and check the file."""
_SILENT: Final = frozenset({"deps_type", "log", "approve"})


def dump(what: AgentFile | Agent[Any, Any]) -> str:
    """Returns the YAML of an agent file.

    Raises:
        ConfigError: A file cannot express the agent.
    """
    value = what.document.value if isinstance(what, AgentFile) else agent_keys(what)
    return HINT + yaml.dump(value)


_FIRST: Final = (
    *("name", "version", "description", "model", "settings", "variables", "input", "state_schema"),
    *("initial_state", "start", "nodes", "result"),
)


def rewritten(file: FlowFile) -> str:
    """Returns a flow as YAML in our form, with the comments at the top of its source."""
    value = file.written
    ours = {key: value[key] for key in sorted(value, key=_place)}
    return HINT + _heading(file.document.text) + yaml.dump(ours)


def _place(key: str) -> int:
    # Keys that are not listed belong between the settings of the flow and its nodes.
    return _FIRST.index(key) if key in _FIRST else _FIRST.index("start")


def _heading(text: str) -> str:
    """Returns the comments before the first key."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            break
        lines.append(line)
    kept = [line for line in lines if "yaml-language-server" not in line]
    heading = "\n".join(kept).strip("\n")
    return f"{heading}\n\n" if heading else ""


def agent_keys(agent: Agent[Any, Any]) -> dict[str, Any]:
    """Returns the keys of an agent file that describes `agent`.

    Raises:
        ConfigError: A file cannot express the agent.
    """
    written: Mapping[str, Any] | None = getattr(agent.strategy, "written", None)
    # A flow is written back from its file, because its nodes are not fields of the agent.
    if written is not None:
        return dict(written)
    _refuse(agent)
    keys: dict[str, Any] = {"model": _models(agent.model, "model")}
    default = Agent[Any, Any]("")
    for name in PLAIN:
        if getattr(agent, name) != getattr(default, name):
            keys[name] = getattr(agent, name)
    # A file's default comes from the configuration, so the value from Python is written out.
    keys["strict"] = agent.strict
    for name, write in _WRITTEN.items():
        value = getattr(agent, name)
        if value and value != getattr(default, name):
            keys[name] = write(value)
    return {name: keys[name] for name in sorted(keys, key=_order)}


def _order(name: str) -> tuple[int, str]:
    first = ("name", "description", "model", "instructions", "tools", "output", "limits")
    return (first.index(name) if name in first else len(first), name)


def _refuse(agent: Agent[Any, Any]) -> None:
    default = Agent[Any, Any]("")
    for name, why in NOT_IN_FILES.items():
        if name not in _SILENT and getattr(agent, name) != getattr(default, name):
            raise ConfigError(f"cannot be written to a file: {why}", path=name)
    if agent.handoffs:
        raise ConfigError("agents are objects; a file names files of agents", path="handoffs")
    if callable(agent.instructions):
        raise ConfigError("instructions that are a function have no text", path="instructions")
    if agent.policy != Policy():
        raise ConfigError("write the policy to a policy file and name that", path="policy")


def _models(spec: Any, path: str) -> Any:
    if isinstance(spec, str | dict):
        return spec
    if isinstance(spec, list | tuple) and all(isinstance(entry, str | dict) for entry in spec):
        return spec[0] if len(spec) == 1 else list(spec)
    raise ConfigError(f"{spec!r} is an object; a file names models", path=path)


def _strategy(strategy: object) -> str:
    if not isinstance(strategy, str):
        raise ConfigError("a strategy that is a function has no name", path="strategy")
    return strategy


def _paths(paths: str | Path | Iterable[str | Path]) -> list[str]:
    several = [paths] if isinstance(paths, str | Path) else paths
    return [str(path) for path in several]


def _skills(sources: Iterable[Any]) -> list[str]:
    # A skill that was read is named by its folder.
    return [str(getattr(source, "folder", source)) for source in sources]


def _memory(memory: bool | Memory) -> Any:
    if isinstance(memory, bool):
        return memory
    if memory.store is not None:
        raise ConfigError("a store of notebooks is an object", path="memory.store")
    return {name: getattr(memory, name) for name in MemoryKeys.model_fields}


def _limits(limits: Limits) -> dict[str, Any]:
    default = Limits()
    return {
        limit.name: dict(value)
        if isinstance(value := getattr(limits, limit.name), Mapping)
        else value
        for limit in fields(Limits)
        if getattr(limits, limit.name) != getattr(default, limit.name)
    }


def _type(output: Any) -> str:
    for name, kind in OUTPUTS.items():
        if output is kind:
            return name
    return _name(output, "output")


def _tool(thing: Any, number: int) -> str:
    path = f"tools.{number}"
    if isinstance(thing, Tool):
        thing = thing.function
    return _name(thing, path)


_WRITTEN: Final[Mapping[str, Callable[[Any], Any]]] = {
    "strategy": _strategy,
    "output": _type,
    "tools": lambda tools: [_tool(tool, index) for index, tool in enumerate(tools)],
    "discover": _paths,
    "skills": _skills,
    "project_instructions": bool,
    "memory": _memory,
    "snapshots": bool,
    "limits": _limits,
    "grounding_judge": lambda judge: _models(judge, "grounding_judge"),
    "models": lambda models: {role: _models(m, f"models.{role}") for role, m in models.items()},
}
"""Writers of the arguments whose form differs in files."""


def _name(thing: Any, path: str) -> str:
    module, name = getattr(thing, "__module__", ""), getattr(thing, "__qualname__", "")
    # A lambda or a local function cannot be imported again.
    if not module or not name or "<" in name or module == "__main__":
        raise ConfigError(f"{thing!r} has no name that can be imported", path=path)
    return f"{module}:{name}"


TITLE: Final = "taofold agent file"
_NODE: Final = {"$ref": "#/$defs/NodeKeys"}


def json_schema() -> dict[str, Any]:
    """Returns the schema. A file without `nodes` is an agent, one with them a flow."""
    actions = build_actions_registry()
    schema = FlowKeys.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
    node = NodeKeys.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
    definitions: dict[str, Any] = schema.setdefault("$defs", {})
    definitions |= node.pop("$defs", {})
    definitions["NodeKeys"] = node
    nodes = {"type": "array", "items": _NODE}
    # Nodes hold nodes. Pydantic cannot express this for a raw list, so the reference is inserted
    # here.
    schema["properties"]["nodes"] |= nodes
    node["properties"]["steps"] |= nodes
    branches = definitions["Parallel"]["properties"]["branches"]
    branches["additionalProperties"] = {"anyOf": [nodes, {"type": "object"}]}
    names = [*actions, *(alias(name) for name in actions)]
    for key in ("uses", "action"):
        open_ = {"type": "string", "pattern": "^(actions\\.tool_|tool\\.|agent\\.|flow\\.)"}
        node["properties"][key] = {"anyOf": [{"enum": names}, open_]}
    node["allOf"] = [_keyed(name, actions, definitions) for name in actions]
    # Without `nodes` it is an agent file, which the same schema describes.
    schema.pop("required", None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": TITLE,
    }


def _keyed(name: str, actions: Actions, definitions: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of `with` for nodes with this action."""
    kind = actions[name]
    keys = kind.keys.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
    definitions |= keys.pop("$defs", {})
    names = {"enum": [name, alias(name)]}
    used = [{"properties": {key: names}, "required": [key]} for key in ("uses", "action")]
    properties = {key: _or_template(value) for key, value in keys.get("properties", {}).items()}
    return {
        "if": {"anyOf": used},
        "then": {"properties": {"with": {**keys, "properties": properties}}},
    }


def _or_template(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema with a template as an alternative to any value."""
    if schema.get("type") == "string" or not schema:
        return schema
    # A template may replace a number, because it is text until it is rendered.
    template = {"type": "string", "pattern": "\\{[{%]"}
    header = {key: value for key, value in schema.items() if key in ("title", "description")}
    return {**header, "anyOf": [schema, template]}


_LONGEST: Final = 60
_START: Final = "start_"
_END: Final = "end_"


def mermaid(flow: Flow) -> str:
    """Returns the flow as a Mermaid flowchart, top to bottom. Dashed lines are error paths."""
    lines = ["flowchart TD", f"  {_START}([{_quoted(flow.name)}])", f"  {_END}([end])"]
    lines += _boxes(flow.nodes, "  ")
    lines += _starts(flow)
    lines += _ways(flow.nodes, _END)
    return "\n".join(lines) + "\n"


def _starts(flow: Flow) -> Iterator[str]:
    """Yields the arrows to the first nodes."""
    if not flow.start:
        yield f"  {_START} --> {_id(flow.nodes[0])}"
    for edge in flow.start:
        target = _END if edge.to in END else f"n_{_safe(edge.to)}"
        if edge.to != FAIL:
            yield f"  {_START} -->{_label(edge)} {target}"


def _label(edge: Edge) -> str:
    return f"|{_quoted(edge.condition.source)}|" if edge.condition is not None else ""


def _boxes(nodes: Sequence[Node], pad: str) -> Iterator[str]:
    for node in nodes:
        if node.inner:
            yield f"{pad}subgraph {_id(node)}[{_quoted(_title(node))}]"
            for name, inner in node.inner:
                if name:
                    yield f"{pad}  subgraph {_id(node)}_{_safe(name)}[{_quoted(name)}]"
                yield from _boxes(inner, pad + ("    " if name else "  "))
                if name:
                    yield f"{pad}  end"
            yield f"{pad}end"
        else:
            yield f"{pad}{_id(node)}[{_quoted(_title(node))}]"


def _title(node: Node) -> str:
    label = node.name
    if node.kind is not None:
        label += f"\n{node.kind.name}"
    elif node.sets is not None:
        label += "\nset"
    elif node.loop is not None:
        label += f"\nwhile {node.loop.condition.source} (at most {node.loop.most})"
    elif node.spread is not None and node.spread.items is not None:
        label += f"\nfor each {node.spread.name}, {node.spread.lanes} at once"
    elif node.spread is not None:
        label += "\nin parallel"
    if node.condition is not None:
        label += f"\nif {node.condition.source}"
    return label + ("\nasks first" if node.approve is not None else "")


def _ways(nodes: Sequence[Node], after: str) -> Iterator[str]:
    """Yields the arrows of one list of nodes, which continues at `after`."""
    for index, node in enumerate(nodes):
        following = _id(nodes[index + 1]) if index + 1 < len(nodes) else after
        # An edge without a condition is always taken, so nothing continues past it.
        always = False
        for edge in node.goto:
            always = always or edge.condition is None
            if edge.to != FAIL:
                yield from _arrow(node, f"-->{_label(edge)}", edge.to, after)
        if not always and following:
            label = "|else|" if node.goto else ""
            yield f"  {_id(node)} -->{label} {following}"
        if node.on_error.fallback:
            yield from _arrow(node, "-.->|on error|", node.on_error.fallback, after)
        for _, inner in node.inner:
            yield from _ways(inner, "")


def _arrow(node: Node, arrow: str, to: str, after: str) -> Iterator[str]:
    target = after if to in END else f"n_{_safe(to)}"
    if target:
        yield f"  {_id(node)} {arrow} {target}"


def _id(node: Node) -> str:
    return f"n_{_safe(node.name)}"


def _safe(name: str) -> str:
    return "".join(c if c.isalnum() and c.isascii() else "_" for c in name)


def _quoted(text: str) -> str:
    """Returns text that Mermaid shows unchanged."""
    lines = [clip(line, _LONGEST) for line in text.split("\n")]
    label = "<br/>".join(
        line.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
        for line in lines
    )
    return f'"{label}"'
