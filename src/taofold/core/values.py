"""The values every other module speaks in. Two values with the same content are equal.

Nothing here knows about models, tools, storage or time. Values are `msgspec`
structs: frozen, cheap to make (60 ns against 420 ns for a frozen dataclass) and
with one JSON form, in which fields that hold their default are left out.
"""

from enum import IntEnum
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

JSON: TypeAlias = Any
"""What JSON can say: None, bool, int, float, str, list of JSON, dict of str to JSON."""

ThoughtType = Literal[
    "goal", "progress", "extraction", "reasoning", "exception", "synthesis", "research"
]
THOUGHT_TYPES: Final[frozenset[str]] = frozenset(get_args(ThoughtType))
"""The seven types; `research` is accepted only where it was opted in (D3)."""

ObservationStatus = Literal["success", "failure", "partial", "timeout"]
Role = Literal["system", "user", "assistant", "tool"]
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


class Value(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What all values share: immutability and a compact JSON form.

    They hold JSON and one another, never cycles, so the garbage collector need not look.
    """


class ToolCall(Value, frozen=True):
    """A native tool call as a provider returns it: `arguments` is JSON text, unread."""

    name: str
    arguments: str
    id: str = ""


class Message(Value, frozen=True):
    """One entry of the conversation that is sent to a model."""

    role: Role
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""


class Usage(Value, frozen=True):
    """What model calls consumed: tokens and US dollars. Usages add up."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float = 0.0

    @property
    def tokens(self) -> int:
        """Input plus output tokens."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.usd + other.usd,
        )


class Reply(Value, frozen=True):
    """What a model returned. `finish` is "stop", "length", "tool_calls" or "" when unknown."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    model: str = ""
    finish: str = ""
    reasoning: str = ""


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
