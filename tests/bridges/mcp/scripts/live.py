"""One process of a run: `python live.py LOG PINS PARAMETERS TOOL COMMAND…` starts or resumes it."""

import json
import sys
from pathlib import Path

from taofold import Agent
from taofold.bridges.mcp import McpServer
from taofold.log.sqlite.log import SqliteLog
from taofold.testing import ScriptedModel


def main(log: str, pins: str, parameters: str, tool: str, *command: str) -> None:
    store = SqliteLog(Path(log))
    new = not Path(log).exists()
    act = {"tool": tool, "parameters": json.loads(parameters), "rationale": "asked for"}
    first = json.dumps({"thought": "I act", "thought_type": "reasoning", "action": act})
    done = {"tool": "finish", "parameters": {"answer": "done"}, "rationale": "it is"}
    last = json.dumps({"thought": "that is it", "thought_type": "synthesis", "action": done})
    server = McpServer.stdio(*command, name="s", pins=Path(pins))
    agent = Agent(ScriptedModel([first, last] if new else [last]), tools=[server], log=store)
    result = agent.run_sync("x", run_id="r") if new else agent.resume_sync("r")
    seen = [str(one.result) for step in result.steps for one in step.observations]
    asked = [[one.id, one.question, one.wants_text] for one in result.pending]
    print(json.dumps({"status": result.status, "seen": seen, "asked": asked}))


if __name__ == "__main__":
    main(*sys.argv[1:])
