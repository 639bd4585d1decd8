"""The results of reading: `Parsed` values, `Turn`, `Prose`, and `Unparsed` refusals.

`Parsed` or `Unparsed` for one typed value; `Turn`, `Prose` or `Unparsed` for an agent's reply. A
value carries its receipt (`Repair`), a turn its thought (`Remark`) and calls. Values only. Knows
nothing about the notation of the text, nor which tools exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from taofold.core.values import Value

T = TypeVar("T")
Level = Literal["none", "syntax", "schema"]
Reason = Literal["empty", "incomplete", "ambiguous", "no_candidate", "invalid", "too_large"]

RAW_LIMIT = 500
"""The most characters of the model's text in a refusal."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One change that was made to read a value.

    Attributes:
        kind: A short name from the table in `docs/parsing.md`, such as `trailing_comma`.
        level: `none` for locating and unwrapping only, else the level that must allow it.
        content: True if it changed the content of the value, not only its envelope. An action that
            must not be repeated never runs on such arguments.
        at: Character offset in the text, -1 if unknown.
        path: Place in the value, such as `arguments.path`; empty for the whole.
        cost: The price; the cheapest reading of a text wins.
    """

    kind: str
    level: Level
    content: bool = False
    at: int = -1
    path: str = ""
    cost: int = 1


BESIDE = Repair("beside_prose", "none", content=True)
"""Text stands beside the call: the call may only be quoted, or be retracted."""
OPEN_END = Repair("open_end", "none", content=True)
"""Nothing proves that the call is complete, or the last of its reply."""
UNOPENED = Repair("unopened", "none", content=True)
"""A mark closes calls that none opened: an earlier part of the calls may be lost."""
SECOND_LIST = Repair("second_list", "none", content=True)
"""A family that writes all calls in one list wrote two: the second may replace the first."""
REPEATED = Repair("repeated_call", "none", content=True)
"""The call equals the one before it in the reply."""


@dataclass(frozen=True, slots=True)
class Parsed(Generic[T]):
    """A value that satisfies the type, with all repairs that were made to read it.

    Attributes:
        value: The value.
        repairs: The changes made to read it.
    """

    value: T
    repairs: tuple[Repair, ...] = ()

    @property
    def cost(self) -> int:
        """The sum of the repairs' prices; 0 for text that needed none."""
        return sum(repair.cost for repair in self.repairs)


@dataclass(frozen=True, slots=True)
class Unparsed:
    """A refusal.

    Attributes:
        reason: The cause, for programs.
        feedback: The cause, for the model: only the failing paths, with a bounded echo.
        raw: The start of the text, at most `RAW_LIMIT` characters.
    """

    reason: Reason
    feedback: str
    raw: str = ""


class Call(Value, frozen=True):
    """One tool call as the model asked for it.

    Attributes:
        tool: The name as written.
        parameters: The arguments; empty when `error` is set.
        rationale: The model's reason for this call.
        id: The provider's or the model's own identifier of the call.
        repairs: What was changed to read this call.
        error: Not empty when the call was recognised but its arguments could not be read: the
            tool must not run, and the model should receive this text.
    """

    tool: str
    parameters: dict[str, Any]
    rationale: str = ""
    id: str = ""
    repairs: tuple[Repair, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Remark:
    """The thought of a reply.

    Attributes:
        content: The text.
        type: Lower-case label as the model wrote it, unchecked; `None` if it gave none.
        because: Numbers of the steps that it cites.
        confidence: As the model claims, unchecked.
        critical: True if the model asks to pause.
        learned: The model's summary of what earlier observations taught it.
    """

    content: str
    type: str | None = None
    because: tuple[int, ...] = ()
    confidence: float | None = None
    critical: bool = False
    learned: str = ""


class Turn(Value, frozen=True):
    """A reply that follows a protocol.

    Attributes:
        remark: The thought, if any.
        calls: The batch of actions; empty for a thought without an action.
        repairs: The changes made to read the reply as a whole.
        role_violation: The text that was cut because the model wrote in another role: an invented
            observation and everything after it (bounded excerpt).
    """

    remark: Remark | None
    calls: tuple[Call, ...]
    repairs: tuple[Repair, ...] = ()
    role_violation: str = ""


@dataclass(frozen=True, slots=True)
class Prose:
    """A reply without any protocol marker.

    Attributes:
        text: The reply without reasoning tags, otherwise verbatim.
    """

    text: str
