"""The two ends of a parse: a value with its receipt, or a refusal with a message for the model.

Knows nothing about text, schemas or agents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

T = TypeVar("T")
Level = Literal["none", "syntax", "schema"]
Reason = Literal["empty", "incomplete", "ambiguous", "no_candidate", "invalid", "too_large"]

RAW_LIMIT = 500
"""Characters of the model's text that a refusal may carry."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing that was changed to read a value.

    Attributes:
        kind: A short name from the table in `docs/parsing.md`, such as `trailing_comma`.
        level: `none` for locating and unwrapping only, else the level that must allow it.
        content: Whether it changed what the value says rather than its envelope. An action that
            must not be repeated never runs on such arguments.
        at: Character offset in the text, -1 when unknown.
        path: Where in the value, such as `arguments.path`; empty for the whole.
        cost: The price; the cheapest reading of a text wins.
    """

    kind: str
    level: Level
    content: bool = False
    at: int = -1
    path: str = ""
    cost: int = 1


@dataclass(frozen=True, slots=True)
class Parsed(Generic[T]):
    """A value that satisfies the type, with everything that was done to read it."""

    value: T
    repairs: tuple[Repair, ...] = ()

    @property
    def cost(self) -> int:
        """The sum of the repairs' prices; 0 for text that was right as it stood."""
        return sum(repair.cost for repair in self.repairs)


@dataclass(frozen=True, slots=True)
class Unparsed:
    """A refusal.

    Attributes:
        reason: Why, for programs.
        feedback: Why, for the model: only the failing paths, with a bounded echo.
        raw: The start of the text, at most `RAW_LIMIT` characters.
    """

    reason: Reason
    feedback: str
    raw: str = ""
