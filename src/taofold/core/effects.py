"""Effects: the requests that a strategy yields to the runtime, and the results it receives.

A strategy is a generator. It yields an effect, is sent the result, and returns its `Answer`.
It never awaits, reads a clock or opens a file, so the same strategy runs live, replays from a log,
and is tested with `next()` and `send()`. `Halt` is thrown into it where a limit stops it:

    def once(task: Task) -> Strategy[Answer]:
        outlook = yield Begin()
        if outlook.stop:
            return Answer(None, outlook.stop)
        reply = yield Ask(Conversation([Message("user", task.goal)]))
        return Answer(reply.text)

The functions at the end wrap the effects for `yield from`, with typed results.
"""

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from taofold.core.content import Conversation
from taofold.core.values import (
    Action,
    Message,
    ModelSettings,
    Observation,
    Reply,
    Searcher,
    StepRole,
    Thought,
)

T = TypeVar("T")
_NO_TOOL_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")


class Begin(msgspec.Struct, frozen=True):
    """The start of a turn: collects messages and nearby limits. Resolves to an `Outlook`."""


class Ask(msgspec.Struct, frozen=True):
    """A call of the model. Resolves to a `Reply`.

    `tools` are the names offered natively (none: a plain completion). `schema` requests constrained
    decoding where the model's profile supports it.
    """

    conversation: Conversation
    role: StepRole = "executor"
    tools: tuple[str, ...] = ()
    schema: dict[str, Any] | None = None
    model: str = ""
    """Name of one of the run's models; "" selects the one with the role `role`."""
    settings: ModelSettings = ModelSettings()
    """Settings that override those of the run for this call."""
    allowed: tuple[str, ...] | None = None
    """The subset of `tools` that may be called now; None = all. The offered list stays the same."""
    seconds: float | None = None
    """Time limit of the model call in seconds; None = the remaining time of the run."""
    tolerant: bool = False
    """True: a provider failure yields a `Reply` with `finish="error"` instead of ending the run."""
    dispensable: bool = False
    """True: so does a limit that forbids the call. Goes with `tolerant`."""
    deferred: tuple[str, ...] = ()
    """The names that a search finds, in a constant order. `tools` has the found ones."""
    search: Searcher = ""
    """The side that searches. "" without `deferred`."""


class Act(msgspec.Struct, frozen=True):
    """One step: the thought to record and its batch to perform. Resolves to the observations."""

    thought: Thought
    actions: tuple[Action, ...]
    local: tuple[Observation | None, ...] = ()
    """Observations that the strategy makes itself: for its own named steps and `finish`."""
    planned: bool = False
    """True for calls written by a user. The repetition guard, which is for models, ignores them."""


class Note(msgspec.Struct, frozen=True):
    """A derived fact to record: a violation, a compaction, a trace entry."""

    kind: str
    data: dict[str, Any] = {}


class Lack(msgspec.Struct, frozen=True):
    """A rule of form that a reply breaks, and the message about it for the model."""

    rule: str
    detail: str


class Assess(msgspec.Struct, frozen=True):
    """The verdict on the form of a readable reply. Resolves to the verdict that counts.

    A recorded reply keeps its recorded verdict, because another release may judge by other rules.
    The strategy records the verdict as notes. Like a note, it has no key of its own.
    """

    lacks: tuple[Lack, ...] = ()
    refused: bool = False
    """True if the model is asked again for what the reply lacks."""


class Fork(msgspec.Struct, frozen=True):
    """Strategies to run concurrently. Resolves to the tuple of their answers, in order."""

    branches: "tuple[Strategy[Any], ...]"


def hand_off_tool(agent: str) -> str:
    """Returns the name of the tool with which a model hands a run over to an agent.

    >>> hand_off_tool("billing desk")
    'transfer_to_billing_desk'
    """
    return f"transfer_to_{_NO_TOOL_NAME.sub('_', agent)}"


class HandOff(msgspec.Struct, frozen=True):
    """A change of the active agent. Resolves to the strategy with which that agent continues.

    A strategy returns it in place of an `Answer`; `reasoning.relay` yields it.
    """

    agent: str
    reason: str = ""
    talk: Any = None
    """The conversation so far; None = the agent begins with the goal."""


Effect: TypeAlias = Begin | Ask | Act | Note | Assess | Fork | HandOff
Strategy: TypeAlias = Generator[Effect, Any, T]


class Outlook(msgspec.Struct, frozen=True):
    """The messages, limits and hints at the start of a turn."""

    heard: tuple[Message, ...] = ()
    """Steering messages that arrived since the last turn, framed as the principal's."""
    wrap_up: str = ""
    """The limit that makes this turn the last one; no tools may be offered."""
    stop: str = ""
    """The reason to stop now, without another model call."""
    hint: str = ""
    """The repetition guard's hint for the model, or ""."""
    toolless: bool = False
    """True if the repetition guard requires an answer without tools."""


class Halt(Exception):
    """Thrown into a strategy when a limit stops it in the middle of a turn.

    The strategy may catch it and return a partial `Answer`; it may not yield another effect.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Answer:
    """The return value of a strategy: the output and the stop reason."""

    output: Any
    stop: str = "final_answer"
    error: str = ""


# These helpers exist for typing: `reply = yield from ask(...)` is a `Reply`, whereas a bare `reply
# = yield Ask(...)` is `Any`.


def begin() -> Strategy[Outlook]:
    """Opens a turn."""
    outlook: Outlook = yield Begin()
    return outlook


def ask(
    conversation: Conversation,
    role: StepRole = "executor",
    tools: tuple[str, ...] = (),
    schema: dict[str, Any] | None = None,
) -> Strategy[Reply]:
    """Asks the model that has the role `role`."""
    reply: Reply = yield Ask(conversation, role, tools, schema)
    return reply


def act(thought: Thought, *actions: Action) -> Strategy[tuple[Observation, ...]]:
    """Performs one step with tools."""
    observations: tuple[Observation, ...] = yield Act(thought, actions)
    return observations


def step(thought: Thought, name: str, result: Any, **parameters: Any) -> Strategy[Observation]:
    """Records a step of the strategy itself: a thought, a named action and its result."""
    action = Action(name, parameters)
    observations: tuple[Observation, ...] = yield Act(
        thought, (action,), (Observation(result, extraction=name, auto=True),)
    )
    return observations[0]


def note(kind: str, **data: Any) -> Strategy[None]:
    """Records `data`."""
    yield Note(kind, data)


def fork(branches: Sequence[Strategy[T]]) -> Strategy[tuple[T, ...]]:
    """Runs `branches` concurrently."""
    answers: tuple[T, ...] = yield Fork(tuple(branches))
    return answers
