"""An agent that acts only through Python code: `react` with one tool that calls the others.

    taofold run examples/code_agent/agent.py:agent "which month sold most?" --model openai:gpt-5

The code itself can only compute. It reaches files and commands through the functions below.
Each of their calls is a tool call: checked by the policy, approved and logged.
"""

from pathlib import Path
from typing import Any

from taofold import Agent
from taofold.bridges.python_tool import CodeBounds, python_tool
from taofold.tools.command import command_tool
from taofold.tools.files import file_tools

INSTRUCTIONS = """\
You work by writing Python: every action is one call of `python`, until you `finish`.
Do in one piece of code what belongs together: read, compute, check, and print what you need
to see. Functions that fail raise an exception; catch it where you know what to do next."""


def code_agent(root: Path | str = ".", **options: Any) -> Agent[Any, Any]:
    """Builds the agent that works on the files below `root`. Commands run in bubblewrap."""
    inner = [file_tools(root), command_tool(root)]
    given: dict[str, Any] = {
        "model": "openai:gpt-5",
        "name": "coder",
        "instructions": INSTRUCTIONS,
        "strategy": "react",
        "tools": [python_tool(tools=inner, bounds=CodeBounds(seconds=5, calls=50))],
    }
    return Agent(**(given | options))


agent = code_agent()
