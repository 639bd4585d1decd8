"""The words in which decisions are spelled, and what else in an object is a parameter.

Knows nothing about text, nor what the tools take: what might be a parameter of the call is never
left out silently.
"""

from __future__ import annotations

from typing import Any

from taofold.parsing.kinds import is_list

THOUGHT_KEYS = ("thought", "reasoning", "thoughts", "thinking", "reflection")
TOOL_KEYS = ("tool", "name", "tool_name", "function", "function_name", "action", "recipient_name")
PARAMETER_KEYS = (
    "parameters", "params", "arguments", "args", "action_input", "input", "tool_input", "kwargs",
)  # fmt: skip
BATCH_KEYS = ("actions", "tool_calls", "calls", "tool_uses")
CALL_KEYS = ("function_call", "functionCall", "tool_call", "function")
ANSWER_KEYS = ("final_answer", "answer")
GENERIC_ACTIONS = frozenset({"execute", "call", "call_tool", "use_tool", "tool", "tool_call"})
FINISH = "finish"
_NOTES = ("rationale", "justification", "thought_type", "because", "confidence", "critical")
_SAID = frozenset([*THOUGHT_KEYS, *_NOTES])
"""What is said about a call, never to its tool."""
ENVELOPE = _SAID | {
    *TOOL_KEYS, *PARAMETER_KEYS, *BATCH_KEYS, *ANSWER_KEYS, "id", "type",
}  # fmt: skip
_FORMS = GENERIC_ACTIONS | {"function", "function_call", "tool_use", "action"}
"""Values of `type` and of a second name that only say that this is a call."""
_THOUGHTS = frozenset(
    ["goal", "progress", "extraction", "reasoning", "exception", "synthesis", "research"]
)
_CLAIMS = frozenset({"id", "tier", "approved"})
"""Beside parameters these speak of the call and its clearance; nothing heeds the latter."""
_NUMBERED = ("call_", "call-", "toolu_", "fc_")


def given_in(
    item: dict[str, Any], used: str, name: str, around: dict[str, Any] | None
) -> tuple[Any, bool, bool]:
    """What an object gives as the parameters of its call.

    Args:
        item: The object.
        used: Its key that holds the name of the tool.
        name: That name.
        around: The object that holds it, asked only if the object itself gives nothing.

    Returns:
        The parameters as written, whether they stood inline instead of under a key of their own,
        and whether some of it may be meant otherwise: what the parameters *say* is in doubt.
    """
    keys = [key for key in PARAMETER_KEYS if key in item and key != used]
    inline = {k: v for k, v in item.items() if k != used and _is_parameter(k, v, name, item)}
    filled = [key for key in keys if not _is_empty(item[key])]
    if filled or (keys and not inline):
        chosen = item[(filled or keys)[0]]
        beside = any(key not in _CLAIMS and not _is_empty(value) for key, value in inline.items())
        return chosen, False, beside or any(item[key] != chosen for key in filled)
    if not inline and around is not None:
        outer = {key: value for key, value in around.items() if value is not item}
        given, inside, doubtful = given_in(outer, "", name, None)
        doubtful = doubtful or not all(map(_is_empty, given.values() if inside else [given]))
        return ({} if inside else given), False, doubtful
    if name == FINISH and inline.keys() == {"final_answer"}:
        return {"answer": inline["final_answer"]}, True, False
    doubtful = bool(keys) or not inline.keys().isdisjoint(ENVELOPE)
    return inline, bool(inline), doubtful


def _is_parameter(key: str, value: Any, name: str, item: dict[str, Any]) -> bool:
    """Whether an entry beside the name of a tool may be one of its parameters."""
    if key not in ENVELOPE:
        return True
    if key in _SAID or key in PARAMETER_KEYS or _is_empty(value):
        return False
    if not isinstance(value, str):
        return True
    if key == "id":
        return not value.startswith(_NUMBERED)
    if key == "type" and value in _THOUGHTS and not item.keys().isdisjoint(THOUGHT_KEYS):
        return False
    return value != name and value not in _FORMS


def _is_empty(value: Any) -> bool:
    return value is None or value == "" or value == {} or (is_list(value) and not value)
