"""From an agent back to a file: what was read, or what Python described.

Only what a file can say is written; the rest is refused, never left out in silence.
"""

# Values here are JSON of any shape, or come from a library without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from taofold.agent import Agent
from taofold.core.errors import ConfigError
from taofold.log.formats import fields as yaml
from taofold.policy import Limits, Policy
from taofold.spec.agent_file import NOT_IN_FILES, OUTPUTS, AgentFile
from taofold.tools import Tool

HINT: Final = "# yaml-language-server: $schema=.taofold/agent.schema.json\n"
"""The line that lets an editor complete and check the file."""
_PLAIN: Final = [
    "name",
    "description",
    "instructions",
    "ask_user",
    "strict",
    "research",
    "on_denial",
    "cache",
    "max_tokens",
    "temperature",
    "top_p",
    "effort",
    "prompt_cache",
    "service_tier",
    "extra",
]
_SILENT: Final = frozenset({"deps_type", "log", "approve"})


def dump(what: AgentFile | Agent[Any, Any]) -> str:
    """The YAML of an agent file.

    Raises:
        ConfigError: a file cannot say it.
    """
    value = what.document.value if isinstance(what, AgentFile) else described(what)
    return HINT + yaml.dump(value)


def described(agent: Agent[Any, Any]) -> dict[str, Any]:
    """The keys of an agent file that describes `agent`.

    Raises:
        ConfigError: a file cannot say it.
    """
    written: Mapping[str, Any] | None = getattr(agent.strategy, "written", None)
    if written is not None:
        return dict(written)
    _refuse(agent)
    said: dict[str, Any] = {"model": _models(agent.model, "model")}
    default = Agent[Any, Any]("")
    for name in _PLAIN:
        if getattr(agent, name) != getattr(default, name):
            said[name] = getattr(agent, name)
    # A file's default is the configuration's, so that what Python said must stand there.
    said["strict"] = agent.strict
    if agent.strategy != "react":
        if not isinstance(agent.strategy, str):
            raise ConfigError("a strategy that is a function has no name", path="strategy")
        said["strategy"] = agent.strategy
    if agent.output is not str:
        said["output"] = _type(agent.output)
    if agent.tools:
        said["tools"] = [_tool(one, place) for place, one in enumerate(agent.tools)]
    if agent.discover:
        paths = agent.discover
        several = [paths] if isinstance(paths, str | Path) else list(paths)
        said["discover"] = [str(path) for path in several]
    limits = _limits(agent.limits)
    if limits:
        said["limits"] = limits
    if agent.models:
        said["models"] = {role: _models(m, f"models.{role}") for role, m in agent.models.items()}
    return {name: said[name] for name in sorted(said, key=_order)}


def _order(name: str) -> tuple[int, str]:
    first = ("name", "description", "model", "instructions", "tools", "output", "limits")
    return (first.index(name) if name in first else len(first), name)


def _refuse(agent: Agent[Any, Any]) -> None:
    default = Agent[Any, Any]("")
    for name, why in NOT_IN_FILES.items():
        if name not in _SILENT and getattr(agent, name) != getattr(default, name):
            raise ConfigError(f"cannot be written to a file: {why}", path=name)
    if agent.policy != Policy():
        raise ConfigError("write the policy to a policy file and name that", path="policy")


def _models(spec: Any, path: str) -> Any:
    if isinstance(spec, str | dict):
        return spec
    if isinstance(spec, list | tuple) and all(isinstance(one, str | dict) for one in spec):
        return spec[0] if len(spec) == 1 else list(spec)
    raise ConfigError(f"{spec!r} is an object; a file names models", path=path)


def _limits(limits: Limits) -> dict[str, Any]:
    default = Limits()
    return {
        one.name: dict(value) if isinstance(value := getattr(limits, one.name), Mapping) else value
        for one in fields(Limits)
        if getattr(limits, one.name) != getattr(default, one.name)
    }


def _type(output: Any) -> str:
    for name, known in OUTPUTS.items():
        if output is known:
            return name
    return _name(output, "output")


def _tool(thing: Any, place: int) -> str:
    path = f"tools.{place}"
    if isinstance(thing, Tool):
        thing = thing.function
    return _name(thing, path)


def _name(thing: Any, path: str) -> str:
    module, name = getattr(thing, "__module__", ""), getattr(thing, "__qualname__", "")
    if not module or not name or "<" in name or module == "__main__":
        raise ConfigError(f"{thing!r} has no name that can be imported", path=path)
    return f"{module}:{name}"
