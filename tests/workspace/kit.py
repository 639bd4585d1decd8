"""Replies of a scripted model."""

import json
from typing import Any


def act(tool: str, **parameters: Any) -> str:
    action = {"tool": tool, "parameters": parameters}
    return json.dumps({"thought": f"I call {tool}.", "action": action})


def finish(answer: str = "done") -> str:
    return act("finish", answer=answer)
