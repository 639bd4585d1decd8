"""Values that pass between a tool and its run.

`RunContext` is the optional first parameter of a tool. `InputRequired` asks the user,
`ModelQuestion` the run's own model. `DefinitionChanged` reports that a tool changed after its call
was approved. `Outcome` is a result with more than a value. This module holds only values and
exceptions: the runtime asks, answers and waits.
"""

from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, Protocol

import msgspec
from typing_extensions import TypeVar

from taofold.core.content import MediaPart, TextPart
from taofold.core.values import JSON, ObservationStatus, Principal, Usage

Deps = TypeVar("Deps", default=None)


class InputRequired(Exception):
    """Raised by a tool that needs an answer from the user before it can continue.

    The run waits. With the answer the tool is called again, perhaps by another process, and finds
    its `state` in `RunContext.answer`.

    Args:
        question: The question for the user.
        form: JSON Schema of the answer. Empty asks for yes or no.
        state: JSON value that the tool gets back with the answer.
    """

    def __init__(
        self, question: str, *, form: Mapping[str, JSON] | None = None, state: JSON = None
    ) -> None:
        super().__init__(question)
        self.question = question
        self.form = dict(form or {})
        """JSON Schema of the answer. Empty asks for yes or no."""
        self.state = state


class DefinitionChanged(Exception):
    """Raised by a tool, before it acts, if its definition changed after its call was allowed.

    See `Tool.renew`. `accepted`: the approver has accepted the new definition for this call.
    """

    def __init__(self, message: str, *, accepted: bool = False) -> None:
        super().__init__(message)
        self.accepted = accepted


@dataclass(frozen=True, slots=True)
class PersonAnswer:
    """The user's answer to `InputRequired`. `state` is the tool's own value from before."""

    text: str = ""
    accepted: bool = False
    state: JSON = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class ModelQuestion:
    """A question of a tool to the run's own model (`RunContext.sample`)."""

    prompt: str
    system: str = ""
    history: tuple[tuple[str, str], ...] = ()
    """Earlier messages as (role, text). A role is user or assistant."""
    max_tokens: int = 0
    """Maximum tokens of the answer. 0 uses the agent's settings."""
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The answer of the run's own model to a tool."""

    text: str
    model: str


class ToolCharge(Protocol):
    """Records what a tool itself consumed (`RunContext.charge`). May be called in any thread."""

    def __call__(self, usage: Usage, *, estimated: bool = False) -> None:
        """Charges `usage` to the run."""
        ...


@dataclass(slots=True)
class RunContext(Generic[Deps]):
    """The context of one tool call: the optional first parameter of a tool.

    A function of `Agent(instructions=…)` gets one too, with the fields that exist before the run.

    Example:
        ```python
        from taofold import RunContext, tool


        @tool(effect="once")
        def order(context: RunContext[dict], item: str) -> str:
            "Orders an item for the user."
            context.report(f"ordering {item}")
            return f"{item} for {context.principal.id}, key {context.effect_id}"
        ```

    Args:
        deps: The dependencies that were passed to `Agent.run(deps=…)`.
        run_id: Id of the run.
        effect_id: The same for every attempt at this call, also after a crash. Pass it on as an
            idempotency key.
        step: Number of the step, counted from 1.
        goal: Text of the run's goal.
        principal: The user on whose behalf the run acts.
        timeout_s: Seconds that are left for the call.
        partial: Texts reported so far. The observation keeps them if the call times out.
        on_progress: Receives reported texts while the call runs.
        data: The run's state. Read it with `state`.
        answer: Answer to the last `InputRequired` that this call raised.
        ask: Asks the user while the call goes on, outside of its deadline. Raises the
            `InputRequired` if the answer does not come now. None if the user is not connected:
            raise it instead.
        keep: Durably records how to continue this call, such as the id of a remote job. After a
            crash the tool is called again, finds it in `kept`, and must continue from there. The
            user is then not asked whether the call happened. Raises ValueError for values over
            65,536 bytes, without a JSON form, or with a secret.
        kept: The value that this call recorded last. None at its first attempt.
        charge: Records tokens and dollars that the call itself consumed, such as those of a program
            that asks models. They count for the run's limits and for budgets at once, even if the
            call fails afterwards; `estimated=True` marks them. Raises ValueError for impossible
            numbers. None outside of a run.
        sample: Asks the run's own model, in a child run within the run's remaining limits and
            outside of the call's deadline. The same question in the same call has the same answer,
            also after a crash, and is paid for once. Raises ValueError, with the reason, if there
            is no answer. None outside of a run.
        memory: The notebook of the run (`taofold.memory.RunNotebook`). None without
            `Agent(memory=…)`.
    """

    deps: Deps
    run_id: str = ""
    effect_id: str = ""
    step: int = 0
    goal: str = ""
    principal: Principal = Principal()
    timeout_s: float = 60.0
    partial: list[str] = field(default_factory=list[str])
    on_progress: Callable[[str], None] | None = None
    data: Mapping[str, JSON] = field(default_factory=dict[str, Any])
    answer: PersonAnswer | None = None
    ask: "Callable[[InputRequired], Awaitable[PersonAnswer]] | None" = None
    keep: "Callable[[JSON], Awaitable[None]] | None" = None
    kept: JSON = None
    charge: "ToolCharge | None" = None
    sample: "Callable[[ModelQuestion], Awaitable[ModelAnswer]] | None" = None
    memory: Any = None

    @property
    def state(self) -> Mapping[str, JSON]:
        """A read-only copy of the run's state. A tool changes it by `Outcome(update=…)`.

        Raises:
            TypeError: A key is assigned.
        """
        return MappingProxyType(deepcopy(dict(self.data)))

    def report(self, text: str) -> None:
        """Reports progress to listeners. The observation keeps the text if the call times out.

        Args:
            text: The progress, in one line.
        """
        self.partial.append(text)
        if self.on_progress is not None:
            self.on_progress(text)


class Outcome(msgspec.Struct, frozen=True):
    """A tool's result with more than a value: a status, a key line, a state change or media.

    Example:
        ```python
        from taofold import Outcome, tool


        @tool(effect="read")
        def tests() -> Outcome:
            "Runs the tests."
            return Outcome("41 passed, 1 failed", status="partial", extraction="1 failed")
        ```

    Attributes:
        value: The result as JSON.
        status: `"success"`, `"failure"`, `"partial"` or `"timeout"`.
        extraction: The key line of the result.
        update: A change of the run's state: `(key, value)`.
        parts: Text and media in order. `value` then has one line for each medium.
        blobs: Bytes of the media in `parts`, by digest.
    """

    value: JSON = None
    status: ObservationStatus = "success"
    extraction: str = ""
    update: tuple[str, JSON] | None = None
    parts: tuple[TextPart | MediaPart, ...] = ()
    blobs: Mapping[str, bytes] = {}
