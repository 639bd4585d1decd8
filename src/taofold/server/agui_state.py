"""What an AG-UI client knows of a run's state, and the JSON Patch from one state to the next.

Pure. Knows nothing about events or HTTP.
"""

from typing import Any

from taofold.core.state import RunState
from taofold.core.value import is_object
from taofold.core.values import JSON


def view(run: str, state: RunState) -> dict[str, JSON]:
    """The state that is shared with a client: plain JSON, small, without the steps' texts."""
    return {
        "run": run,
        "goal": state.goal,
        "status": state.status,
        "stopReason": state.stop_reason,
        "waitingFor": state.waiting_for,
        "steps": len(state.steps),
        "modelCalls": state.model_calls + state.child_model_calls,
        "toolCalls": state.tool_calls + state.child_tool_calls,
        "tokens": state.usage.tokens,
        "usd": round(state.usage.usd, 9),
        "limits": list(state.limits_hit),
        "data": dict(state.data),
    }


def patch(before: Any, after: Any, path: str = "") -> list[dict[str, Any]]:
    """The RFC 6902 operations that make `after` of `before`. Lists are replaced whole."""
    if is_object(before) and is_object(after):
        gone = [{"op": "remove", "path": _at(path, name)} for name in before if name not in after]
        new = [
            {"op": "add", "path": _at(path, name), "value": value}
            for name, value in after.items()
            if name not in before
        ]
        changed: list[dict[str, Any]] = []
        for name, value in after.items():
            if name in before:
                changed += patch(before[name], value, _at(path, name))
        return [*gone, *new, *changed]
    if type(before) is type(after) and before == after:
        return []
    return [{"op": "replace", "path": path, "value": after}]


def _at(path: str, name: str) -> str:
    """`path` and then `name`, as a JSON Pointer (RFC 6901)."""
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
