"""A conversation as numbered text, TAgent's `format_conversation_as_chat` (TAG-28).

Knows nothing about models: entries are messages or mappings with `role` and `content`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from taofold.core.values import Message


def format_conversation_as_chat(history: Iterable[Mapping[str, Any] | Message]) -> str:
    """Every entry in order, numbered from 1, under its role; unknown roles are shown too."""
    lines = ["=== CONVERSATION HISTORY ==="]
    for number, entry in enumerate(history, 1):
        said: tuple[Any, Any] = (
            (entry.role, entry.content)
            if isinstance(entry, Message)
            else (entry.get("role"), entry.get("content", ""))
        )
        lines.append(f"{str(said[0] or 'unknown').upper()} [{number}]: {said[1]}")
    return "\n\n".join(lines)
