"""YAML files: agent files, flows, policy files and configuration.

Reading never imports or runs what a file names. Building an agent does. This package does not
depend on models' adapters, logs or terminals.

`checked_yaml` reads a YAML file with the line of every key. `agent`, `tools`, `config` and `policy`
define the keys, and `agent` builds an `Agent`. `flow` builds agents whose strategy is a graph of
nodes, with `actions` for the nodes and `expressions` in their values. `export` writes files.
`types` and `python_references` resolve a type or a Python object from a text.
"""

from typing import TYPE_CHECKING

from taofold.lazy_names import lazy_names

if TYPE_CHECKING:
    from taofold.files.agent import AgentFile
    from taofold.files.checked_yaml import Fault, refuse
    from taofold.files.config import Config, read_config
    from taofold.files.flow.file import FlowFile, build, load_agent, read_agent
    from taofold.files.policy import PolicyFile, read_policy


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

# Commands that only read the configuration do not load flows and their actions.
__getattr__ = lazy_names(
    __name__,
    {
        "files.agent": "AgentFile",
        "files.checked_yaml": "Fault refuse",
        "files.config": "Config read_config",
        "files.flow.file": "FlowFile build load_agent read_agent",
        "files.policy": "PolicyFile read_policy",
    },
)
