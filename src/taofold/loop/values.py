"""The values of a loop. Pure.

They are its request and limits, its statuses and their order (D17), its usage, the lessons that it
got (`Lessons`) and taught (`Learnt`), the state of its folder (`Left`), and the program's exit
code.

```
pending → running ⇄ paused
pending | running → completing → completed | exhausted | timeout | budget
                                | no_progress | tampered | failed
```

`aborted` and `crashed` are reached from every live state. A resumable status returns to `running`,
and a loop that crashed or waits may still be aborted. Knows nothing about models, commands or
storage.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

from taofold.core.errors import Refused
from taofold.core.values import Usage, Value
from taofold.learning.metrics import Effect

Status: TypeAlias = Literal[
    "pending",
    "running",
    "paused",
    "completing",
    "completed",
    "exhausted",
    "timeout",
    "budget",
    "no_progress",
    "tampered",
    "failed",
    "aborted",
    "crashed",
]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)

Ending: TypeAlias = Literal[
    "completed", "exhausted", "timeout", "budget", "no_progress", "tampered", "failed", "aborted"
]
"""The statuses in which a loop ends."""
Level: TypeAlias = Literal["log", "warn", "redirect", "pause", "abort"]
"""The levels of interventions, from the mildest."""
Kind: TypeAlias = Literal["stuck", "oscillation", "regression", "plateau", "deviation"]
"""The kinds of findings."""
Mode: TypeAlias = Literal["in-place", "worktree", "copy"]

MEMORY: Final = {"simple": 1, "moderate": 3, "complex": 5, "maximum": 10}
"""Reflection windows by preset: the number of earlier iterations in a prompt."""
MOST_MEMORY: Final = 10


class LoopLimits(Value, frozen=True):
    """Independent limits of a loop.

    `seconds` counts the wall clock of one activation (a resumed loop gets a fresh timer), `usd` and
    `iterations` the whole loop, `steps` one iteration.
    """

    iterations: int = 10
    seconds: float = 3600.0
    usd: float | None = None
    steps: int | None = None


class LoopRequest(Value, frozen=True):
    """The complete request of a loop, sufficient to resume it from any process.

    `commands` must all succeed. `agent` is the caller's description of the agent; the loop itself
    does not read it.
    """

    task: str
    commands: tuple[str, ...]
    root: str
    bounds: LoopLimits = LoopLimits()
    mode: Mode = "in-place"
    allow_edit: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    """Globs of the product: the agent's changes elsewhere prove nothing; () = all source files."""
    commit: bool = False
    branch: str = ""
    memory: int = 3
    keep_improving: bool = False
    cross_task: bool = True
    within_project: bool = False
    """True to use lessons of this project alone, and to keep new ones in it."""
    min_success_rate: float | None = None
    unexecuted: str = ""
    """The reason why unexecuted changes may be delivered; "" = they may not (RLP-16)."""
    agent: dict[str, Any] = {}
    model: str = ""
    principal: str = "local"
    notes: tuple[str, ...] = ()
    """The user's notes beside the task: scope, constraints, hints."""
    second_judge: bool = False
    """True to run tests also against the product in another process."""


class LoopSpending(Value, frozen=True):
    """The usage of a loop or an iteration. `ms` is wall clock."""

    usage: Usage = Usage()
    steps: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    ms: int = 0

    def __add__(self, other: "LoopSpending") -> "LoopSpending":
        return LoopSpending(
            self.usage + other.usage,
            self.steps + other.steps,
            self.model_calls + other.model_calls,
            self.tool_calls + other.tool_calls,
            self.ms + other.ms,
        )


class Left(Value, frozen=True):
    """The state of the folder of a loop after its end."""

    folder: str = ""
    removed: bool = False
    why: str = ""
    """The reason why it still exists."""
    remove: str = ""
    """The command that removes it."""


LIVE: Final[frozenset[Status]] = frozenset({"pending", "running", "paused", "completing"})
DRIVEN: Final[frozenset[Status]] = frozenset({"pending", "running", "completing"})
"""Live, and a process should be at work."""
RESUMABLE: Final[frozenset[Status]] = frozenset(
    {"paused", "exhausted", "timeout", "budget", "no_progress", "crashed"}
)
# A crash is not an end: it was not decided, and the loop still needs its place.
ENDED: Final[frozenset[Status]] = frozenset(STATUSES) - LIVE - {"crashed"}

_LOST: Final[frozenset[Status]] = frozenset({"aborted", "crashed"})
NEXT: Final[Mapping[Status, frozenset[Status]]] = {
    "pending": frozenset[Status]({"running", "completing"}) | _LOST,
    "running": frozenset[Status]({"paused", "completing"}) | _LOST,
    "paused": frozenset[Status]({"running"}) | _LOST,
    "completing": ENDED | _LOST,
    "crashed": frozenset[Status]({"running", "aborted"}),
    **dict.fromkeys(RESUMABLE - {"paused", "crashed"}, frozenset[Status]({"running"})),
    **dict.fromkeys(ENDED - RESUMABLE, frozenset[Status]()),
}
"""Every allowed transition; all others are refused (RLP-15)."""

OLD: Final[Mapping[str, Status]] = {
    "success": "completed",
    "max_iterations": "exhausted",
    "plateau": "no_progress",
    "cancelled": "aborted",
    "interrupted": "crashed",
}
"""The names of statuses in earlier systems."""


def status_of(word: str) -> Status:
    """Returns the status for `word`, in our names or in the old ones.

    Raises:
        ValueError: It is none.
    """
    name = word.strip().lower().replace("-", "_").replace(" ", "_")
    statuses: Mapping[str, Status] = {**OLD, **{status: status for status in STATUSES}}
    if name not in statuses:
        raise ValueError(f"{word!r} is not a status of a loop; allowed: {', '.join(STATUSES)}")
    return statuses[name]


def may_follow(now: Status, then: Status) -> bool:
    """Returns whether a loop may change from `now` to `then`."""
    return then in NEXT[now]


def check(now: Status, then: Status, loop: str = "the loop") -> None:
    """Checks that the transition is allowed.

    Raises:
        Refused: It is not; the message lists the possible ones.
    """
    if may_follow(now, then):
        return
    ways = ", ".join(sorted(NEXT[now])) or "nothing: that is final"
    raise Refused(f"{loop} is {now} and cannot become {then}; possible: {ways}")


def exit_code(status: Status, reason: str = "", *, in_place: bool = True) -> int:
    """Returns the program's exit code for a loop (D1).

    4 without `in_place`: the gates passed, but the work is not in the project.
    """
    match status:
        case "completed":
            return 0 if in_place else 4
        case "paused":
            return 130 if reason == "interrupted" else 3
        case "aborted":
            return 130
        case _:
            return 1


class Lessons(Value, frozen=True):
    """The lessons of earlier loops in a prompt.

    `text` is a section for the model, delimited as reference data, or ""; `rates` is one for a
    search policy, or "". In a `control` loop both are "" deliberately. `reasons` explain why no or
    no more lessons were chosen.
    """

    text: str = ""
    patterns: tuple[str, ...] = ()
    control: bool = False
    reasons: tuple[str, ...] = ()
    rates: str = ""


class Used(Value, frozen=True):
    """The result of one injected pattern: applied (D18), and True if its check turned green."""

    pattern: str
    applied: bool = False
    successful: bool = False
    iteration: int = 0
    """The first iteration that used it, 0 if none did."""


class Extracted(Value, frozen=True):
    """A pattern that this loop taught. `new` is False if it merged into a known one."""

    pattern: str
    new: bool = True
    success_rate: float = 0.0


class Learnt(Value, frozen=True):
    """The lessons of a finished loop, and the estimated benefit of injection.

    `baseline_iterations` is the mean of the `n` control loops, `interval` the 95 % interval of
    `improvement`, a share; None = no control loop. `control` is False if the settings draw none.
    """

    injected: tuple[Used, ...] = ()
    extracted: tuple[Extracted, ...] = ()
    baseline_iterations: float | None = None
    improvement: float | None = None
    interval: tuple[float, float] | None = None
    n: int = 0
    control: bool = True
    notes: tuple[str, ...] = ()

    @property
    def effect(self) -> Effect:
        """The loop against the control loops, in per cent of iterations."""
        low, high = self.interval or (None, None)
        if self.improvement is None or low is None or high is None:
            return Effect(1, self.n)
        return Effect(1, self.n, 100 * self.improvement, 100 * low, 100 * high)

    @property
    def effect_text(self) -> str:
        """The effect with its interval and the numbers of loops."""
        return self.effect.text("% of iterations saved", control=self.control)
