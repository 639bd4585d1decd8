"""A run whose active agent changes: the strategy of one agent follows that of another.

`relay` drives strategies one after the other, as one strategy: keys, recording and replay are those
of a single one. A strategy hands over by returning a `HandOff`. Knows nothing about agents.
"""

from collections.abc import Mapping
from typing import Any, cast

from taofold.core.effects import HandOff, Strategy, note


def relay(first: Strategy[Any]) -> Strategy[Any]:
    """Runs `first`, then the strategy of each agent to which the run is handed over."""
    strategy = first
    while True:
        answer = cast("object", (yield from strategy))
        if not isinstance(answer, HandOff):
            return answer
        strategy = yield answer


def beginning_with(agent: str, reason: str) -> Strategy[HandOff]:
    """Returns a strategy that hands over to `agent` before anything else.

    Args:
        agent: The name of the agent.
        reason: The recorded reason.
    """
    return HandOff(agent, reason)
    yield


def noting(kind: str, data: Mapping[str, Any], first: Strategy[Any]) -> Strategy[Any]:
    """Records a note before `first`.

    Args:
        kind: The kind of the note.
        data: Its data.
        first: The strategy that follows.
    """
    yield from note(kind, **data)
    return (yield from first)
