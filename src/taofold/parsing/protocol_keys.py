"""The key names of the protocol: thought, tool, parameters, batch and answer.

Also the names that every agent has (`RESERVED`) and the type of the offered tools (`Tools`).
`decision` selects the keys that decide, and the entries beside a call that may be parameters.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

THOUGHT_KEYS = ("thought", "reasoning", "thoughts", "thinking", "reflection")
TOOL_KEYS = ("tool", "name", "tool_name", "function", "function_name", "action", "recipient_name")
PARAMETER_KEYS = (
    *("parameters", "params", "arguments", "args"),
    *("action_input", "input", "tool_input", "kwargs"),
)
BATCH_KEYS = ("actions", "tool_calls", "calls", "tool_uses")
CALL_KEYS = ("function_call", "functionCall", "tool_call", "function")
ANSWER_KEYS = ("final_answer", "answer")
GENERIC_ACTIONS = frozenset({"execute", "call", "call_tool", "use_tool", "tool", "tool_call"})
FINISH = "finish"
FINISH_KEYS = frozenset({"answer", "success"})
"""The parameters of `finish`."""
_NOTES = (
    *("rationale", "justification", "thought_type", "because", "confidence", "critical"),
    "learned",
)
REMARK_KEYS = frozenset([*THOUGHT_KEYS, *_NOTES, "tool_call_id"])
"""Keys that describe a call and are never passed to its tool."""
ENVELOPE = REMARK_KEYS.union(TOOL_KEYS, PARAMETER_KEYS, BATCH_KEYS, ANSWER_KEYS, ("id", "type"))
DECISIVE = frozenset(
    {"action", "actions", "tool", "tool_calls", "thought", "tool_name", "tool_uses", "final_answer"}
)
"""Keys that ordinary data does not have: an object with one of them is a decision."""
Object = dict[str, Any]
Tools = Collection[str] | Mapping[str, Mapping[str, Any]]
RESERVED = (FINISH, "ask_user")
"""Actions that every agent has."""


def is_offered(tool: str, tools: Tools) -> bool:
    """Returns whether a name may be called."""
    return tool in tools or tool in RESERVED
