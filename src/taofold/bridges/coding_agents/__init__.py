"""Runs the programs of foreign coding agents, such as Claude Code, as taofold agents.

`coding_agent` makes the agent. `presets` describes the known programs: the non-interactive command,
the files of its sign-in, and the format of its output.
"""

from taofold.bridges.coding_agents.agent import coding_agent, names_coding_agent
from taofold.bridges.coding_agents.presets import PRESETS, CodingPreset

__all__ = ["PRESETS", "CodingPreset", "coding_agent", "names_coding_agent"]
