"""What people write in YAML: agent files, policy files, configuration.

Reading never imports or runs what a file names; building an agent does. Knows nothing
about models' adapters, logs or terminals.
"""

from taofold.spec.agent_file import AgentFile
from taofold.spec.config_file import Config, read_config
from taofold.spec.faults import Fault, refuse
from taofold.spec.flow_build import build
from taofold.spec.flow_file import FlowFile, read_agent
from taofold.spec.policy_file import PolicyFile, read_policy

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
