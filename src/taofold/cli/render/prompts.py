"""The prompt of one model call as text, for `taofold runs show RUN --prompt`."""

from collections.abc import Iterator, Mapping
from typing import Any

from taofold.core.json_values import render
from taofold.core.text import times


def prompt_text(prompt: Mapping[str, Any], calls: int) -> str:
    """Returns the text of a prompt.

    Args:
        prompt: The prompt as `views.prompt_json` gives it.
        calls: Number of model calls of the run.
    """
    return "\n".join(_lines(prompt, calls))


def _lines(prompt: Mapping[str, Any], calls: int) -> Iterator[str]:
    who = " · ".join(filter(None, (prompt["model"], prompt["role"])))
    yield f"prompt {prompt['number']} of {calls}  {who}  digest {prompt['digest'] or 'none'}"
    if prompt["missing"]:
        yield f"This prompt cannot be shown: {prompt['missing']}"
        return
    same = prompt["same"]
    for number, message in enumerate(prompt["messages"], 1):
        if number == 1 and same:
            yield f"(messages 1 to {same} are those of prompt {prompt['number'] - 1})"
        if number == 1 and prompt["dropped"]:
            yield f"({times(prompt['dropped'], 'later message')} of that prompt no longer sent)"
        yield f"\n── {number} {message['role']} " + "─" * 40
        yield from (_part(part) for part in message["parts"])
    yield f"\n── {times(len(prompt['tools']), 'tool')} " + "─" * 40
    if not prompt["tools"]:
        yield "None are offered natively."
    for tool in prompt["tools"]:
        yield f"{tool['name']}: {tool['description']}\n  {render(tool['parameters'])}"
    if prompt["allowed"] is not None:
        yield f"allowed in this call: {', '.join(prompt['allowed']) or 'none'}"
    if prompt["schema"] is not None:
        yield f"\n── schema of the reply {'─' * 40}\n{render(prompt['schema'])}"
    settings = ", ".join(f"{name}={value!r}" for name, value in prompt["settings"].items())
    yield f"\n── settings {'─' * 40}\n{settings or 'defaults of the model and its provider'}"


def _part(part: Mapping[str, Any]) -> str:
    match part["type"]:
        case "call":
            return f"call {part['name']}({part['arguments']})  {part['id']}"
        case "result":
            return f"result of {part['id']}: {part['text']}"
        case "thinking":
            return f"(thinking) {part['text']}"
        case _:
            return str(part["text"])
