"""What a LangChain tool returned, as an observation: messages, content blocks, commands.

Knows nothing about how the tool was called.
"""

# Blocks are JSON of any shape, messages are read by their shape.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from taofold.tools import Outcome

_DATA: Final = re.compile(
    r"(?:data:([\w.+-]+/[\w.+-]+)[\w;=.+-]*,)?([A-Za-z0-9+/_-]{200,}={0,2})\s*"
)
"""Base64, perhaps as a `data:` URL: bytes that are no text for a model."""


def outcome_of(returned: Any) -> Outcome:
    """The observation for a `ToolMessage`, a LangGraph `Command`, a list of both, or a value."""
    if is_command(returned):
        return _commanded(returned)
    if isinstance(returned, list) and any(map(_is_output, returned)):
        return _joined([outcome_of(item) for item in returned])
    message: Any = returned
    if not is_message(message):
        return Outcome(message)
    failed = getattr(message, "status", "success") == "error"
    return Outcome(_content(message.content), "failure" if failed else "success")


def is_message(value: Any) -> bool:
    """Is it a message of LangChain's?"""
    return hasattr(value, "content") and hasattr(value, "tool_call_id")


def is_command(value: Any) -> bool:
    """Is it LangGraph's `Command`?"""
    return type(value).__name__ == "Command" and all(
        hasattr(value, name) for name in ("update", "goto", "resume", "graph")
    )


def _is_output(value: Any) -> bool:
    return is_command(value) or is_message(value)


def _commanded(command: Any) -> Outcome:
    """Its messages are the result, one state key is an update; the rest needs a graph, and is told.

    The tool has run by now, so what cannot be followed makes the observation `partial`: calling it
    a failure would invite the model to do it again.
    """
    update: Any = command.update
    pairs = list(update.items()) if isinstance(update, Mapping) else list(update or ())
    messages = [said for key, value in pairs if key == "messages" for said in _listed(value)]
    state = [(str(key), value) for key, value in pairs if key != "messages"]
    ignored = [f"goto={command.goto!r}"] if command.goto else []
    ignored += [f"{word}=…" for word in ("graph", "resume") if getattr(command, word) is not None]
    if len(state) > 1:
        ignored.append(f"updates of {', '.join(key for key, _ in state)}")
    joined = _joined([outcome_of(message) for message in messages])
    value = joined.value if messages else "done"
    if not ignored:
        return Outcome(value, joined.status, update=state[0] if state else None)
    note = f"(It ran. Only a LangGraph graph can follow its Command: {'; '.join(ignored)}.)"
    return Outcome(f"{value}\n{note}", "partial", update=state[0] if len(state) == 1 else None)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _joined(outcomes: list[Outcome]) -> Outcome:
    if len(outcomes) == 1:
        return outcomes[0]
    failed = any(one.status == "failure" for one in outcomes)
    text = "\n".join(str(one.value) for one in outcomes)
    update = next((one.update for one in outcomes if one.update is not None), None)
    return Outcome(text, "failure" if failed else "success", update=update)


def _content(content: Any) -> Any:
    """Text as it is; blocks as text, anything in them that is no text as a short description."""
    if not isinstance(content, list):
        return content
    return "\n".join(said for block in content if (said := _block(block)))


def _block(block: Any) -> str:
    if isinstance(block, str):
        return block
    if not isinstance(block, Mapping):
        return str(block)
    if isinstance(text := block.get("text"), str):
        return text
    kind = str(block.get("type", "block")).removesuffix("_url")
    facts = [*_facts(block)]
    return f"[{', '.join([kind, *facts])}]"


def _facts(block: Mapping[Any, Any]) -> Iterable[str]:
    """What can be said of a block in words: media type, size of its bytes, address, name."""
    for key, value in block.items():
        if isinstance(value, Mapping):
            yield from _facts(value)
        elif not isinstance(value, str) or key in ("type", "source_type"):
            continue
        elif key in ("base64", "data") or _DATA.fullmatch(value):
            found = _DATA.fullmatch(value)
            if found is not None and found[1]:
                yield found[1]
            yield f"{len(value.rpartition(',')[2].rstrip('=')) * 3 // 4} bytes"
        else:
            yield value[:200]
