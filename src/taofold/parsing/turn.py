"""What one reply of an agent's model says: a remark and a batch of calls, or prose.

Knows nothing about how it was written down, nor whether the tools exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from taofold.core.values import Value
from taofold.parsing.outcome import Repair


class Call(Value, frozen=True):
    """One tool call as the model asked for it.

    Attributes:
        tool: The name as written.
        parameters: The arguments; empty when `error` is set.
        rationale: The model's reason for this call.
        id: The provider's or the model's own identifier of the call.
        repairs: What was changed to read this call.
        error: Not empty when the call was recognised but its arguments could not be read: the
            tool must not run, and the model should be told this text.
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
        type: Lower-case label as the model wrote it, unchecked; `None` when it gave none.
        because: Numbers of the steps that it cites.
        confidence: As the model claims, unchecked.
        critical: Whether the model asks to pause.
    """

    content: str
    type: str | None = None
    because: tuple[int, ...] = ()
    confidence: float | None = None
    critical: bool = False


class Turn(Value, frozen=True):
    """A reply that follows a protocol.

    Attributes:
        remark: The thought, if any.
        calls: The batch of actions; empty for a thought without an action.
        repairs: What was changed to read the reply as a whole.
        role_violation: What was cut because the model spoke in another's place: an invented
            observation and everything after it (bounded excerpt).
    """

    remark: Remark | None
    calls: tuple[Call, ...]
    repairs: tuple[Repair, ...] = ()
    role_violation: str = ""


@dataclass(frozen=True, slots=True)
class Prose:
    """A reply without any protocol marker; reasoning tags are removed, the rest is verbatim."""

    text: str
