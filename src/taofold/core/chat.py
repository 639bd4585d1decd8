"""TAgent's view of a conversation: a header and numbered entries, for people to read."""

from collections.abc import Iterable, Mapping
from typing import Final

from taofold.core.content import Message

_HEADER: Final = "=== CONVERSATION HISTORY ===\n"
_MARKS: Final = {"user": "👤 USER", "assistant": "🤖 ASSISTANT"}


def format_conversation_as_chat(history: Iterable[Mapping[str, str] | Message]) -> str:
    """The messages in order, numbered from 1; a role that nobody knows is shown as it is."""
    lines = [_HEADER]
    for number, message in enumerate(history, 1):
        if isinstance(message, Message):
            message = {"role": message.role, "content": message.shown}
        role, content = message.get("role", "unknown"), message.get("content", "")
        lines.append(f"{_MARKS.get(role, role.upper())} [{number}]: {content}\n")
    return "\n".join(lines)
