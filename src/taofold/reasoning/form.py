"""The reply protocol as a JSON Schema, for servers that decode under one (D6).

Only models whose profile says so are sent it; the reply is read and checked all the same.
Strings are bounded because a grammar alone lets a weak model write until its tokens run out.
"""

from typing import Any

from taofold.core.values import ASK_USER, FINISH, THOUGHT_TYPES
from taofold.reasoning.task import Task

_QUESTION: dict[str, Any] = {
    "type": "object",
    "properties": {"question": {"type": "string"}},
    "required": ["question"],
    "additionalProperties": False,
}


def reply_schema(task: Task, *, toolless: bool) -> dict[str, Any]:
    """One thought and one action out of those on offer; only `finish` if `toolless`."""
    finish = task.output.finish_schema()
    definitions = dict(finish.pop("$defs", {}))
    offered: list[tuple[str, dict[str, Any]]] = []
    if not toolless:
        for offer in task.offers:
            schema = dict(offer.schema)
            definitions |= schema.pop("$defs", {})
            offered.append((offer.name, schema))
        if task.ask_user:
            offered.append((ASK_USER, _QUESTION))
    offered.append((FINISH, {**finish, "additionalProperties": False}))
    types = sorted(THOUGHT_TYPES if task.research else THOUGHT_TYPES - {"research"})
    schema = _object(
        thought={"type": "string", "maxLength": 1000},
        thought_type={"type": "string", "enum": types},
        action={"anyOf": [_action(name, parameters) for name, parameters in offered]},
    )
    return schema | ({"$defs": definitions} if definitions else {})


def _action(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return _object(
        tool={"type": "string", "enum": [name]},
        parameters=parameters,
        rationale={"type": "string", "maxLength": 300},
    )


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
