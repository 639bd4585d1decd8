"""What passes between a tool and its run: the call's context (`RunContext`), which is an optional
first parameter; questions to a person (`InputRequired`) or to the run's own model; a tool's word
that it is another one now than when its call was allowed (`DefinitionChanged`); and the `Outcome`,
for a tool that has more to say than a value.

Values and exceptions only: the runtime asks, answers and waits.
"""

from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic

import msgspec
from typing_extensions import TypeVar

from taofold.core.content import MediaPart, TextPart
from taofold.core.values import JSON, ObservationStatus, Principal

Deps = TypeVar("Deps", default=None)


class InputRequired(Exception):
    """Raised by a tool that cannot go on before a person has answered `question`.

    The run waits; with the answer the tool is called again, perhaps by another process, and
    finds `state` as it left it in `RunContext.answer`.
    """

    def __init__(
        self, question: str, *, form: Mapping[str, JSON] | None = None, state: JSON = None
    ) -> None:
        super().__init__(question)
        self.question = question
        self.form = dict(form or {})
        """JSON Schema of the answer; empty = the person only says yes or no."""
        self.state = state


class DefinitionChanged(Exception):
    """Raised by a tool, before it does anything, that is another one now than when its call was
    allowed (`Tool.renew`).

    `accepted`: a person has accepted it as it is now, for this very call.
    """

    def __init__(self, message: str, *, accepted: bool = False) -> None:
        super().__init__(message)
        self.accepted = accepted


@dataclass(frozen=True, slots=True)
class PersonAnswer:
    """What a person said to `InputRequired`; `state` is the tool's own, from before."""

    text: str = ""
    accepted: bool = False
    state: JSON = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class ModelQuestion:
    """What a tool has the run's own model answer (`RunContext.sample`)."""

    prompt: str
    system: str = ""
    history: tuple[tuple[str, str], ...] = ()
    """What was said before, as (role, text): user or assistant."""
    max_tokens: int = 0
    """Of the answer; 0 = what the agent's own settings say."""
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What the run's own model answered to a tool."""

    text: str
    model: str


@dataclass(slots=True)
class RunContext(Generic[Deps]):
    """The optional first parameter of a tool, and the parameter of a function of instructions.

    `effect_id` is the same for every attempt at this very call, also after a crash:
    pass it on as an idempotency key. `timeout_s` is what is left for the call.
    """

    deps: Deps
    run_id: str = ""
    effect_id: str = ""
    step: int = 0
    goal: str = ""
    """The text of the run's goal."""
    principal: Principal = Principal()
    timeout_s: float = 60.0
    partial: list[str] = field(default_factory=list[str])
    """What the tool has produced so far; kept in the observation if it times out."""
    on_progress: Callable[[str], None] | None = None
    data: Mapping[str, JSON] = field(default_factory=dict[str, Any])
    answer: PersonAnswer | None = None
    """To the last `InputRequired` that this very call raised."""
    ask: "Callable[[InputRequired], Awaitable[PersonAnswer]] | None" = None
    """Puts a question to the person who is there while the call goes on, and raises it if nobody
    answers now. None: nobody is there, only raising helps. Its deadline waits meanwhile.
    """
    keep: "Callable[[JSON], Awaitable[None]] | None" = None
    """Puts how to go on with this very call durably on record: the id of a job that works on
    elsewhere. After a crash the tool is called again and finds it in `kept`, instead of a person
    being asked whether the call happened; so it must go on from there, never begin anew.
    Raises ValueError for what cannot be kept: over 65,536 bytes, no JSON, or with a secret in it.
    """
    kept: JSON = None
    """What this very call kept last; None: it begins."""
    sample: "Callable[[ModelQuestion], Awaitable[ModelAnswer]] | None" = None
    """Has the run's own model answer, in a child run of this call and within what is left of the
    run's limits; the call's deadline waits meanwhile. The same question in the same call has the
    same answer, also after a crash, and is paid for once. Raises ValueError, with the reason, where
    there is no answer. None: outside of a run.
    """

    @property
    def state(self) -> Mapping[str, JSON]:
        """The run's state, to read. A tool changes it with what it returns: `Outcome(update=…)`.

        Raises:
            TypeError: on an assignment to a key.
        """
        return MappingProxyType(deepcopy(dict(self.data)))

    def report(self, text: str) -> None:
        """Tell listeners about progress, and keep `text` should the call time out."""
        self.partial.append(text)
        if self.on_progress is not None:
            self.on_progress(text)


class Outcome(msgspec.Struct, frozen=True):
    """What a tool may return instead of a bare value, when it has more to say."""

    value: JSON = None
    status: ObservationStatus = "success"
    extraction: str = ""
    update: tuple[str, JSON] | None = None
    """What the call changes in the run's state: `(key, value)`."""
    parts: tuple[TextPart | MediaPart, ...] = ()
    """Text and media in order, where there is more than `value`, which then has a line for each."""
    blobs: Mapping[str, bytes] = {}
    """The bytes of the media in `parts`, by digest."""
