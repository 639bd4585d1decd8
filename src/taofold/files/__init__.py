"""What people write in YAML: agent files, policy files, configuration.

Reading never imports or runs what a file names; building an agent does. Knows nothing
about models' adapters, logs or terminals.

`document` is a YAML file with the line of every key; `agent`, `tools` and `config` are what may
stand in one, and `build` makes an agent of it. `flow`: agents whose strategy is a graph of nodes;
`actions` is what a node may do, `expressions` what may stand in its values. `export` writes files.
"""

from taofold.files.agent import AgentFile
from taofold.files.config import Config, PolicyFile, read_config, read_policy
from taofold.files.document import Fault, refuse
from taofold.files.flow.build import build
from taofold.files.flow.file import FlowFile, read_agent

__all__ = [
    "AgentFile",
    "Config",
    "Fault",
    "FlowFile",
    "PolicyFile",
    "build",
    "read_agent",
    "read_config",
    "read_policy",
    "refuse",
]
