"""Readers of the rows: each converts a reply to calls, prose or a refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from rows import Reading

Reader = Callable[[str, dict[str, dict[str, Any]]], Reading]
_NAMES = ("name", "tool", "tool_name", "function", "action")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "action_input")


def taofold() -> Reader:
    from taofold.parsing import Prose, Turn, read_reply

    def read(text: str, tools: dict[str, dict[str, Any]]) -> Reading:
        reply = read_reply(text, tools, finish_reason="stop")
        if isinstance(reply, Prose):
            return Reading([], "prose")
        if not isinstance(reply, Turn):
            return Reading([], "refused")
        if any(call.error for call in reply.calls):
            return Reading([], "refused")
        calls = [(call.tool, call.parameters) for call in reply.calls if call.tool != "finish"]
        repairs = [r for call in reply.calls for r in call.repairs] + list(reply.repairs)
        return Reading(calls, "calls" if calls else "prose", any(r.content for r in repairs))

    return read


def json_repair() -> Reader:
    import json_repair as library

    return lambda text, tools: _described(library.loads(text))


def instructor() -> Reader:
    from instructor.utils.core import extract_json_from_codeblock

    return lambda text, tools: _described(_json(extract_json_from_codeblock(text)))


def pydantic_ai() -> Reader:
    from pydantic_ai._utils import strip_markdown_fences

    return lambda text, tools: _described(_json(strip_markdown_fences(text)))


def baml() -> Reader:
    from baml_project import client

    functions = client()

    def read(text: str, tools: dict[str, dict[str, Any]]) -> Reading:
        try:
            value = functions.F_toolcall(text)
        except Exception:
            return Reading([], "refused")
        data = value.model_dump() if hasattr(value, "model_dump") else value
        return _described(data)

    return read


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _described(value: Any) -> Reading:
    """Calls out of the usual spelling of a call, which is all that these libraries aim at."""
    calls: list[tuple[str, Any]] = []
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, dict):
            continue
        name = next((each[key] for key in _NAMES if isinstance(each.get(key), str)), None)
        given = next((each[key] for key in _ARGUMENTS if key in each), {})
        if name is not None:
            calls.append((name, given))
    return Reading(calls, "calls" if calls else "prose")


READERS: dict[str, Callable[[], Reader]] = {
    "taofold": taofold,
    "json_repair": json_repair,
    "BAML": baml,
    "instructor": instructor,
    "pydantic-ai": pydantic_ai,
}
