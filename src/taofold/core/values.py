"""The values every other module speaks in. Two values with the same content are equal.

Nothing here knows about models, tools, storage or time. Values are `msgspec`
structs: frozen, cheap to make (60 ns against 420 ns for a frozen dataclass) and
with one JSON form, in which fields that hold their default are left out.
"""

from enum import IntEnum
from typing import Any, Final, Literal, get_args

from taofold.core.content import MediaPart, TextPart
from taofold.core.content import Message as Message
from taofold.core.content import Reply as Reply
from taofold.core.content import Role as Role
from taofold.core.content import ToolCall as ToolCall
from taofold.core.content import Usage as Usage
from taofold.core.value import JSON as JSON
from taofold.core.value import Value as Value

ThoughtType = Literal[
    "goal", "progress", "extraction", "reasoning", "exception", "synthesis", "research"
]
THOUGHT_TYPES: Final[frozenset[str]] = frozenset(get_args(ThoughtType))
"""The seven types; `research` is accepted only where it was opted in (D3)."""

ObservationStatus = Literal["success", "failure", "partial", "timeout"]
StepRole = Literal["planner", "executor", "evaluator", "finalizer", "critic"]
Sideeffect = Literal["read", "idempotent", "once"]
Verdict = Literal["allow", "ask", "deny", "expired", "void", "done"]

FINISH: Final = "finish"
"""Reserved action: its parameters hold the answer, its observation the accepted output."""
ASK_USER: Final = "ask_user"
"""Reserved action: ends the activation as `awaiting_input`."""
RESERVED: Final[frozenset[str]] = frozenset({FINISH, ASK_USER})


class Tier(IntEnum):
    """How much say a person has before an action runs (D8)."""

    AUTO = 1
    CARD = 2
    CONFIRM = 3
    FORBIDDEN = 4


class Thought(Value, frozen=True):
    """Why the agent acts. `because` names the steps it rests on, counted from 1."""

    content: str
    type: ThoughtType = "reasoning"
    because: tuple[int, ...] = ()
    confidence: float | None = None
    critical: bool = False
    synthesized: bool = False


class Action(Value, frozen=True):
    """A tool call that the agent proposes. Never what Redux calls an action."""

    tool: str
    parameters: dict[str, Any] = {}
    rationale: str = ""
    id: str = ""
    repairs: tuple[str, ...] = ()
    guessed: bool = False
    """True if reading the reply changed what the parameters say (D7)."""
    error: str = ""
    """Why the parameters could not be read; such an action never runs."""


class Observation(Value, frozen=True):
    """What came back. A failed action is still an observation.

    `result` is JSON; `extraction` is the key line, `auto` if we chose it; a result
    too large for the log lies in the blob `blob` and `result` is its excerpt.
    """

    result: Any = None
    status: ObservationStatus = "success"
    extraction: str = ""
    auto: bool = False
    duration_ms: float = 0.0
    options: tuple[str, ...] = ()
    blob: str = ""
    refused: str = ""
    """Why the tool was not run: unknown, invalid, denied, limit, repeated … ("" = it ran)."""
    cut: bool = False
    """True if `result` is only an excerpt of what the tool returned."""
    parts: tuple[TextPart | MediaPart, ...] = ()
    """What the tool returned, in order, if it holds media; `result` then has a line for each."""


class Step(Value, frozen=True):
    """One complete triplet: a thought, its batch of actions, one observation for each."""

    number: int
    thought: Thought
    actions: tuple[Action, ...]
    observations: tuple[Observation, ...]


class Principal(Value, frozen=True):
    """Who asks. Established by the caller or the server, never by the model."""

    id: str = "local"
    roles: tuple[str, ...] = ("ADMIN",)


class Profile(Value, frozen=True):
    """What a model can do. Unknown models get the cautious defaults."""

    window: int = 8192
    """Tokens of context."""
    window_known: bool = False
    native_tools: bool = False
    json_schema: bool = False
    streaming: bool = True
