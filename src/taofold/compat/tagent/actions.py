"""TAgent's actions over our registry of custom actions, and its view of a conversation.

The functions are ours with the names that TAgent's document gives their parameters.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Final

from taofold.core import content
from taofold.core.values import Message
from taofold.tools import discovery
from taofold.tools.discovery import custom_actions, forget_action
from taofold.tools.tool import Tool


def register_custom_action(action_name: str, action_func: Callable[..., Any]) -> Tool:
    """`taofold.register_custom_action`."""
    return discovery.register_custom_action(action_name, action_func)


def format_conversation_as_chat(
    conversation_history: Iterable[Mapping[str, str] | Message],
) -> str:
    """`taofold.core.content.format_conversation_as_chat`."""
    return content.format_conversation_as_chat(conversation_history)


class _SystemActions(MutableMapping[str, Callable[..., Any]]):
    """What is registered for every agent of the process. Setting a name again replaces it.

    `plan`, `execute`, `evaluate` and `summarize` work without being listed here; an action
    registered under one of these names takes the place of the built-in one.
    """

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return custom_actions()[name]

    def __setitem__(self, name: str, action: Callable[..., Any]) -> None:
        before = custom_actions().get(name)
        forget_action(name)
        try:
            register_custom_action(name, action)
        except Exception:
            if before is not None:  # what cannot be used must not cost what could
                register_custom_action(name, before)
            raise

    def __delitem__(self, name: str) -> None:
        if name not in custom_actions():
            raise KeyError(name)
        forget_action(name)

    def __iter__(self) -> Iterator[str]:
        return iter(custom_actions())

    def __len__(self) -> int:
        return len(custom_actions())


SYSTEM_ACTIONS: Final[MutableMapping[str, Callable[..., Any]]] = _SystemActions()
