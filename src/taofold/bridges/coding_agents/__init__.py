"""Coding agents of others as agents of ours: their program does the work of a run.

`coding_agent` makes the agent; `presets` knows the programs: how each is run
non-interactively, where its sign-in lies, and how its output is read.
"""

from taofold.bridges.coding_agents.agent import coding_agent, names_coding_agent
from taofold.bridges.coding_agents.presets import PRESETS, CodingPreset

__all__ = ["PRESETS", "CodingPreset", "coding_agent", "names_coding_agent"]
