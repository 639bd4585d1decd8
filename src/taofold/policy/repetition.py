"""The guard against repetition without progress (D11), and "never repeat a failure" (D3).

A call is identified by tool and parameters. Repeating it is polling while its results change, and a
loop once they do not. Durations, times, addresses, temporary paths and UUIDs do not count as
change. A new, successful state-changing call is progress and resets the guard. A poll is slowed
down by a pause. A loop is refused first, then costs the model a turn without tools, then ends the
run. Pure: the same steps give the same judgements.
"""

import re
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from taofold.core.rules import fingerprint
from taofold.core.values import Action, Observation, Step

WINDOW: Final = 8
"""Number of previous calls that the guard examines: ABAB over 4 to 6 steps fits in."""
ALLOWED: Final = 3
"""Executions of one call with the same observation."""
BACKOFF_AFTER: Final = 3
MOST_UNTRIED: Final = 8
"""Maximum number of unused tools named to a model that repeats itself."""
BACKOFF_MS: Final = (50, 1000)
"""First and longest pause in milliseconds before a repeated poll."""

Level = Literal["run", "blocked", "toolless", "stop", "repeat_same_action_unchanged"]

_VOLATILE: Final = re.compile(
    r"""\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b
    | \b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?
    | \b\d\d:\d\d:\d\d(?:[.,]\d+)?\b
    | \b0x[0-9a-fA-F]{4,16}\b
    | /(?:private/)?(?:var/)?tmp/[\w.\-/]+
    | \b\d+(?:\.\d+)?\s?(?:ns|us|µs|ms|s|sec|secs|seconds|minutes|min)\b""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The guard's judgement on one proposed call."""

    level: Level = "run"
    reason: str = ""
    backoff_ms: int = 0


_RUN: Final = Judgement()


class CallIdentity(NamedTuple):
    """A call's identity: `plain` is its fingerprint, `key` the same or the tool's own key."""

    plain: str
    key: str


@dataclass(slots=True)
class _Call:
    text: str = ""
    same: int = 0
    count: int = 0


_NEVER: Final = _Call()


class Repetition:
    """The guard of one run: `seen` records every step, `judge` judges every call.

    `offered` are the names of the tools that the model has.
    """

    def __init__(self, offered: Collection[str] = ()) -> None:
        self._offered = offered
        self._used: set[str] = set()
        self._recent: deque[str] = deque(maxlen=WINDOW)
        self._calls: dict[str, _Call] = {}
        self._mutations: set[str] = set()
        self._failed: dict[str, float] = {}
        self._blocked = 0
        self.refused_row = 0
        """Consecutive refused calls, counted over turns in which every call was refused."""
        self.hint = ""
        """A hint to the model for its next turn, or ""."""

    @property
    def toolless(self) -> bool:
        """True if the next turn must be without tools."""
        return self._blocked >= 2

    def judge(self, action: Action, call: CallIdentity | None = None, beside: int = 0) -> Judgement:
        """Judges a call. Does not change the guard.

        `beside` counts the equal calls that precede it in its batch.
        """
        plain, key = call or _identity(action)
        failed = self._failed.get(plain) if self._failed else None
        if failed is not None and action.seconds <= failed:
            return Judgement(
                "repeat_same_action_unchanged",
                f"{action.tool} just failed with exactly these parameters: change something",
            )

        # Only calls in the window count: a call from long ago is no loop.
        history = self._calls.get(key, _NEVER) if key in self._recent else _NEVER
        same = history.same + beside
        if same >= ALLOWED:
            levels: tuple[Level, ...] = ("blocked", "toolless", "stop")
            return Judgement(
                # It escalates: refuse the call, then a turn without tools, then the end.
                levels[min(self._blocked, 2)],
                f"{action.tool} was called {same} times with these parameters and returned "
                "the same each time: it will not be run again; use what you know",
            )

        over = history.count - BACKOFF_AFTER
        if over < 0:
            return _RUN
        # Doubles from 50 ms; the shift is bounded so that it never makes a huge number.
        return Judgement(backoff_ms=min(BACKOFF_MS[0] << min(over, 10), BACKOFF_MS[1]))

    def seen(
        self,
        step: Step,
        *,
        mutating: frozenset[str] = frozenset(),
        calls: Sequence[CallIdentity] = (),
    ) -> None:
        """Records a complete step. `mutating` are the tools that are not reads."""
        # Only the last step's failures: after another step the same call may succeed.
        self._failed = {}
        self.hint = ""
        refused = 0
        calls = calls or [_identity(action) for action in step.actions]
        for action, observation, call in zip(step.actions, step.observations, calls, strict=True):
            refused += bool(observation.refused)
            self._one(action, observation, mutating, call)
        self.refused_row = self.refused_row + refused if refused == len(step.actions) else 0

    def _one(
        self,
        action: Action,
        observation: Observation,
        mutating: frozenset[str],
        known_as: CallIdentity,
    ) -> None:
        plain, call = known_as
        self._used.add(action.tool)
        if observation.refused in ("blocked", "toolless", "stop"):
            self._blocked += 1
            self._recent.append(call)
            return

        if observation.status in ("failure", "timeout"):
            self._failed[plain] = action.seconds
        if (
            observation.status == "success"
            and action.tool in mutating
            # The first time only: repeating a change is no progress.
            and call not in self._mutations
        ):
            self._mutations.add(call)
            # The world has changed: earlier results do not predict the next poll.
            self._calls.clear()
            self._blocked = 0

        text = _text(observation)
        history = self._calls.get(call)
        if history is None or call not in self._recent:
            self._calls[call] = _Call(text, 1, 1)
        else:
            history.count += 1
            # Masking is expensive, so equal texts are compared first.
            if history.text == text or masked(history.text) == masked(text):
                history.same += 1
                self.hint = (
                    f"{action.tool} returned the same as before ({history.same} times). "
                    "Repeating it brings nothing new: try something else or finish."
                    f"{self._untried_hint()}"
                )
            else:
                history.text, history.same = text, 1

        self._recent.append(call)

    def _untried_hint(self) -> str:
        untried = sorted(set(self._offered) - self._used)[:MOST_UNTRIED]
        return f" Tools not used yet: {', '.join(untried)}." if untried else ""


def _identity(action: Action) -> CallIdentity:
    plain = fingerprint(action)
    return CallIdentity(plain, plain)


def masked(text: str) -> str:
    """Returns `text` without parts that change by themselves."""
    return _VOLATILE.sub("·", text)


def _text(observation: Observation) -> str:
    result = observation.result
    if observation.blob:
        # The digest of a large result: equal contents have equal names.
        return observation.blob
    return result if isinstance(result, str) else repr(result)
