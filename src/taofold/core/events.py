"""Everything that can happen in a run, and its JSON form.

`key` is the place of an effect in its strategy ("0", "3", inside a fork "3.1.0"), the same on
replay; `index` that of an action in its batch. Events are never changed; `codec` has their JSON.
"""

from typing import Any, ClassVar, TypeAlias  # noqa: I001 - one line, not nine

import msgspec

# fmt: off
from taofold.core.values import (
    Action, Message, Observation, Principal, Profile, Thought, ToolCall, Usage, Value, Verdict,
)
# fmt: on


class Happened(Value, frozen=True, kw_only=True, tag_field="e"):
    """What all events share."""

    disk: ClassVar[bool] = False
    """Must survive a power cut, not only a killed process: the log syncs before going on."""


class RunStarted(Happened, frozen=True, tag="run_started"):
    """The run's fixed facts. Nothing irreversible has happened yet, so no sync is waited for."""

    goal: str
    agent: str = "agent"
    strategy: str = "react"
    strategy_version: int = 1
    model: str = ""
    profile: Profile = Profile()
    principal: Principal = Principal()
    policy: str = ""
    settings: dict[str, Any] = {}
    data: dict[str, Any] = {}
    history: tuple[Message, ...] = ()
    session: str = ""
    parent: str = ""
    depth: int = 0


class Forked(Happened, frozen=True, tag="forked"):
    """The events before this one were copied from `run`, up to and including `seq`."""

    run: str
    seq: int


class Resumed(Happened, frozen=True, tag="resumed"):
    """A new activation took the run over, with fencing token `epoch`."""

    epoch: int
    owner: str = ""


class Steered(Happened, frozen=True, tag="steered"):
    """A person's message reached the run; the model reads it once, at its next turn."""

    disk: ClassVar[bool] = True
    key: str
    id: str
    text: str
    by: str


class LimitHit(Happened, frozen=True, tag="limit_hit"):
    """A limit was found reached, before the call that would have passed it."""

    key: str
    limit: str
    value: float


class PromptChanged(Happened, frozen=True, tag="prompt_changed"):
    """On resume, this code builds another prompt than the one recorded (D13)."""

    key: str
    recorded: str
    requested: str


class Replied(Happened, frozen=True, tag="replied"):
    """The model's reply, with what it cost: recorded before anyone tries to read it."""

    key: str
    prompt: str
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    model: str = ""
    finish: str = ""
    reasoning: str = ""
    role: str = "executor"
    ms: float = 0.0
    cached: bool = False


class AskFailed(Happened, frozen=True, tag="ask_failed"):
    """The provider failed after its retries."""

    key: str
    kind: str
    message: str


class Violated(Happened, frozen=True, tag="violated"):
    """A rule of the loop was broken; `steps` are the numbers of the steps concerned."""

    key: str
    rule: str
    detail: str = ""
    steps: tuple[int, ...] = ()


class Compacted(Happened, frozen=True, tag="compacted"):
    """Observations of the steps up to `upto` were folded in the prompt, not in the log."""

    key: str
    upto: int
    chars_before: int
    chars_after: int


class Noted(Happened, frozen=True, tag="noted"):
    """A strategy's own trace entry."""

    key: str
    kind: str
    data: dict[str, Any] = {}


class Proposed(Happened, frozen=True, tag="proposed"):
    """A thought and its batch of actions: the opening of a step."""

    key: str
    thought: Thought
    actions: tuple[Action, ...]


class Decided(Happened, frozen=True, tag="decided"):
    """May the action run? `ask` opens an approval, a later `Decided` closes it.

    `expires_at` is in milliseconds since the epoch (0 = never); `action` as a person edited it;
    `request`: of a question in the middle of a call, the answer's `form` and the tool's `state`;
    `attempt`: how often the call had been started when it was asked. An answer is about these
    starts only: after the next one it permits nothing.
    """

    key: str
    verdict: Verdict
    index: int = 0
    by: str = "policy"
    tier: int = 1
    reason: str = ""
    digest: str = ""
    policy: str = ""
    preview: str = ""
    expires_at: int = 0
    action: Action | None = None
    request: dict[str, Any] | None = None
    attempt: int = 0


class Resolved(Decided, frozen=True, tag="resolved"):
    """An approval was closed: by a person, the clock, or a change of what it was bound to."""

    disk: ClassVar[bool] = True


class Started(Happened, frozen=True, tag="started"):
    """The tool is about to be called. Without an `Observed`, nobody knows whether it ran."""

    key: str
    index: int = 0


class StartedOnce(Started, frozen=True, tag="started_once"):
    """The same for a tool that must not be repeated: on disk before the call."""

    disk: ClassVar[bool] = True
    effect: str = "once"


class Observed(Happened, frozen=True, tag="observed"):
    """What came back from the action at `key`, `index`; `usage` is what a child run consumed."""

    key: str
    observation: Observation
    index: int = 0
    update: tuple[str, Any] | None = None
    usage: Usage | None = None
    calls: tuple[int, int] | None = None  # model calls and tool calls of a child run
    tools: dict[str, int] = {}


class DecisionRefused(Happened, frozen=True, tag="decision_refused"):
    """Somebody tried to decide on `id` who may not. Kept for the audit."""

    id: str
    by: str
    why: str
    at: int = 0


class Updated(Happened, frozen=True, tag="updated"):
    """A Redux-style action changed the state's `name`."""

    name: str
    value: Any = None
    action: str = ""


class Parked(Happened, frozen=True, tag="parked"):
    """The run waits for a person: no process, no slot, only rows."""

    disk: ClassVar[bool] = True
    reason: str


class Rewound(Happened, frozen=True, tag="rewound"):
    """Events after `to` no longer count. They stay in the log."""

    to: int


class RunFinished(Happened, frozen=True, tag="run_finished"):
    """The end of the run (D1). Lost to a power cut, it is derived again on resume."""

    status: str
    stop_reason: str
    success: bool
    output: Any = None
    error: str = ""


# fmt: off
Event: TypeAlias = (
    RunStarted | Forked | Resumed | Steered | LimitHit | PromptChanged | Replied | AskFailed
    | Violated | Compacted | Noted | Proposed | Decided | Resolved | Started | StartedOnce
    | Observed | DecisionRefused | Updated | Parked | Rewound | RunFinished
)
# fmt: on


class Record(msgspec.Struct, frozen=True, gc=False):
    """An event with its place in history. `at` is milliseconds since the epoch."""

    run: str
    seq: int
    at: int
    event: Event
