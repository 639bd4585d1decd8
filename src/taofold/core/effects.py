"""Effects: what a strategy may ask the runtime to do, and what it is sent back.

A strategy is a generator. It yields an effect, is sent the result, and returns its `Answer`.
It never awaits, reads a clock or opens a file, so the same strategy runs live, replays from a log,
and is tested with `next()` and `send()`. `Halt` is thrown into it where a limit stops it:

    def once(task: Task) -> Strategy[Answer]:
        outlook = yield Begin()
        if outlook.stop:
            return Answer(None, outlook.stop)
        reply = yield Ask(Conversation([Message("user", task.goal)]))
        return Answer(reply.text)

The functions at the end are the effects for `yield from`, with the types of their results.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import msgspec

from taofold.core.content import Conversation
from taofold.core.values import (
    Action,
    Message,
    ModelSettings,
    Observation,
    Reply,
    StepRole,
    Thought,
)

T = TypeVar("T")


class Begin(msgspec.Struct, frozen=True):
    """Open a turn: hear what people said, learn what limits are near. Resolves to an `Outlook`."""


class Ask(msgspec.Struct, frozen=True):
    """Ask the model. Resolves to a `Reply`.

    `tools` are the names offered natively (none: a plain completion); `schema` asks
    for constrained decoding where the model's profile has it.
    """

    conversation: Conversation
    role: StepRole = "executor"
    tools: tuple[str, ...] = ()
    schema: dict[str, Any] | None = None
    model: str = ""
    """Which of the run's models, by its name among them; "" = the one that plays `role`."""
    settings: ModelSettings = ModelSettings()
    """What of the run's settings is another for this call."""
    allowed: tuple[str, ...] | None = None
    """Which of `tools` may be called now; None = all. The offer itself stays the same."""
    seconds: float | None = None
    """How long the model may take; None = as long as the run may."""
    tolerant: bool = False
    """A provider's failure is no end of the run but a `Reply` with `finish="error"`."""


class Act(msgspec.Struct, frozen=True):
    """Take one step: record the thought and perform its batch. Resolves to the observations."""

    thought: Thought
    actions: tuple[Action, ...]
    local: tuple[Observation | None, ...] = ()
    """Observations that the strategy itself makes: its own named steps and `finish`."""
    planned: bool = False
    """A person wrote these calls down, so the repetition guard, which is for models, is silent."""


class Note(msgspec.Struct, frozen=True):
    """Put something derived on the record: a violation, a compaction, a trace entry."""

    kind: str
    data: dict[str, Any] = {}


class Fork(msgspec.Struct, frozen=True):
    """Run strategies concurrently. Resolves to the tuple of their answers, in order."""

    branches: "tuple[Strategy[Any], ...]"


Effect: TypeAlias = Begin | Ask | Act | Note | Fork
Strategy: TypeAlias = Generator[Effect, Any, T]


class Outlook(msgspec.Struct, frozen=True):
    """What a turn starts with."""

    heard: tuple[Message, ...] = ()
    """Steering messages that arrived since the last turn, framed as the principal's."""
    wrap_up: str = ""
    """The limit that makes this turn the last one; no tools may be offered."""
    stop: str = ""
    """The reason to stop now, without another model call."""
    hint: str = ""
    """What the repetition guard tells the model, "" if nothing."""
    toolless: bool = False
    """The repetition guard wants an answer without tools."""


class Halt(Exception):
    """Thrown into a strategy when a limit stops it in the middle of a turn.

    It may catch it and return a partial `Answer`; it may not yield another effect.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Answer:
    """What a strategy returns: the output and why it stopped."""

    output: Any
    stop: str = "final_answer"
    error: str = ""


# The helpers below exist for types: `reply = yield from ask(...)` is a `Reply`,
# where a bare `reply = yield Ask(...)` would be `Any`.


def begin() -> Strategy[Outlook]:
    """Open a turn."""
    outlook: Outlook = yield Begin()
    return outlook


def ask(
    conversation: Conversation,
    role: StepRole = "executor",
    tools: tuple[str, ...] = (),
    schema: dict[str, Any] | None = None,
) -> Strategy[Reply]:
    """Ask the model that plays `role`."""
    reply: Reply = yield Ask(conversation, role, tools, schema)
    return reply


def act(thought: Thought, *actions: Action) -> Strategy[tuple[Observation, ...]]:
    """Perform one step with tools."""
    observations: tuple[Observation, ...] = yield Act(thought, actions)
    return observations


def step(thought: Thought, name: str, result: Any, **parameters: Any) -> Strategy[Observation]:
    """Record a step of the strategy's own: a thought, a named action and its result."""
    action = Action(name, parameters)
    observations: tuple[Observation, ...] = yield Act(
        thought, (action,), (Observation(result, extraction=name, auto=True),)
    )
    return observations[0]


def note(kind: str, **data: Any) -> Strategy[None]:
    """Put `data` on the record."""
    yield Note(kind, data)


def fork(branches: Sequence[Strategy[T]]) -> Strategy[tuple[T, ...]]:
    """Run `branches` concurrently."""
    answers: tuple[T, ...] = yield Fork(tuple(branches))
    return answers
