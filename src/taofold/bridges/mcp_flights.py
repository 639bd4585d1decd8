"""Calls under way with a server of the older era, which asks people while it works.

Its questions do not say which call they belong to. While one call is under way that is clear;
a question among several is cancelled, and from then on the calls go one by one.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from taofold.bridges import mcp_asking as asking
from taofold.bridges.mcp_sdk import load, plain
from taofold.tools import Answer, InputRequired

Ask: TypeAlias = Callable[[InputRequired], Awaitable[Answer]]


@dataclass(slots=True)
class Flight:
    """One call: what is answered, and what was asked and could not be answered."""

    answers: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    asked: dict[str, Any] | None = None
    key: str = ""
    ask: Ask | None = None
    """Asks the person who is there, if somebody is."""


class Flights:
    """The calls under way with the server `name`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._under_way: list[Flight] = []
        self._alone = asyncio.Lock()
        self._one_by_one = False

    async def flown(self, flight: Flight, call: Callable[[], Awaitable[Any]]) -> Any:
        """What `call` gives; meanwhile the server may ask."""
        if not self._one_by_one:
            return await self._one(flight, call)
        async with self._alone:
            return await self._one(flight, call)

    async def _one(self, flight: Flight, call: Callable[[], Awaitable[Any]]) -> Any:
        self._under_way.append(flight)
        try:
            return await call()
        finally:
            self._under_way.remove(flight)

    async def asked(self, _context: Any, params: Any) -> Any:
        """The server asks: what is on record, what the person who is there says, or "cancel"."""
        result: Any = load("mcp.types").ElicitResult
        if len(self._under_way) != 1:
            self._one_by_one = True
            return result(action="cancel")
        [flight], key = self._under_way, asking.identity(params)
        if key in flight.answers or await self._answered(flight, key, plain(params)):
            return result(**flight.answers[key])
        flight.key, flight.asked = key, plain(params)
        return result(action="cancel")

    async def _answered(self, flight: Flight, key: str, params: dict[str, Any]) -> bool:
        """Has the person who is there answered the question, while the server waits?"""
        if flight.ask is None:
            return False
        asked = asking.Asked(self._name, {key: params}, legacy=True, done=dict(flight.answers))
        wants: InputRequired | None = None
        while key not in asked.done:
            try:
                if wants is None:
                    asked.next()
                else:
                    asked.hear(await flight.ask(wants))
            except InputRequired as again:
                if again is wants:
                    return False  # nobody answers now
                wants = again
            except (asking.Unaskable, ValueError):
                return False  # said once the call is over
        flight.answers = asked.done
        return True
