"""YAML files: agent files, flows, policy files and configuration.

Reading never imports or runs what a file names. Building an agent does. This package does not
depend on models' adapters, logs or terminals.

`checked_yaml` reads a YAML file with the line of every key. `agent`, `tools`, `config` and `policy`
define the keys, and `agent` builds an `Agent`. `flow` builds agents whose strategy is a graph of
nodes, with `actions` for the nodes and `expressions` in their values. `export` writes files.
`types` and `python_references` resolve a type or a Python object from a text.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taofold.files.agent import AgentFile
    from taofold.files.checked_yaml import Fault, refuse
    from taofold.files.config import Config, read_config
    from taofold.files.flow.file import FlowFile, build, load_agent, read_agent
    from taofold.files.policy import PolicyFile, read_policy

_HOME = {
    "AgentFile": "agent",
    "Config": "config",
    "Fault": "checked_yaml",
    "FlowFile": "flow.file",
    "PolicyFile": "policy",
    "build": "flow.file",
    "load_agent": "flow.file",
    "read_agent": "flow.file",
    "read_config": "config",
    "read_policy": "policy",
    "refuse": "checked_yaml",
}

__all__ = [
    "AgentFile",
    "Config",
    "Fault",
    "FlowFile",
    "PolicyFile",
    "build",
    "load_agent",
    "read_agent",
    "read_config",
    "read_policy",
    "refuse",
]


def __getattr__(name: str) -> Any:
    # Commands that only read the configuration do not load flows and their actions.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
