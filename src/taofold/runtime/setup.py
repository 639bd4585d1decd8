"""`Setup`: what a run is driven with, the live things that a log cannot hold.

Models, tools, limits, policy, hooks, clock and callbacks, with the interfaces of what else it may
hold: the callback that approves, with what it is shown and may answer (`Approval`, `Decision`);
child runs, samples, the dollars that a batch shares (`Purse`). Knows nothing of `Agent`.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, Literal, Protocol, TypeAlias

from taofold.clocks import clock
from taofold.core.values import (
    ASK_USER,
    FINISH,
    JSON,
    Action,
    Deciders,
    ModelSettings,
    Observation,
    Principal,
    Reply,
    Tier,
    Usage,
)
from taofold.log.run_store import Listener
from taofold.policy import Limits, Policy
from taofold.policy.redaction import Redactor
from taofold.runtime.hooks import Hooks
from taofold.runtime.model import Model, Request, ToolSpec
from taofold.tools import ModelQuestion, Tool, Toolset
from taofold.tools.forms import checked_form, filled_form, form_fields, plain_faults

RESERVED_SPECS: Final = {
    ASK_USER: ToolSpec(
        ASK_USER,
        "Ask the person a question and wait for the answer.",
        {
            "type": "object",
            "properties": {"question": {"type": "string"}},
            "required": ["question"],
        },
    ),
}


NO_HOOKS: Final = Hooks()

_LONGEST: Final = 100_000
"""Characters of a preview that is shown to a person."""
_CUT: Final = re.compile(r" \[… cut: \d+ more characters, digest [0-9a-f]+\]\Z")


def cut_preview(text: str) -> str:
    """`text`, or its beginning with a mark by which `Approval.cut` and the console know it."""
    if len(text) <= _LONGEST:
        return text
    # The digest distinguishes previews that differ only where they are cut.
    whole = blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
    return f"{text[:_LONGEST]} [… cut: {len(text) - _LONGEST} more characters, digest {whole}]"


@dataclass(frozen=True, slots=True)
class Approval:
    """A pending action, as a person sees it. `id` is `run:seq` of the event that asks."""

    id: str
    run: str
    key: str
    index: int
    action: Action
    tier: Tier
    reason: str
    preview: str
    digest: str
    policy: str
    requester: str
    asked_at: int
    expires_at: int = 0
    question: str = ""
    """What the agent wants to know (`ask_user`), or the doubt whether it already happened."""
    form: Mapping[str, Any] | None = None
    """A tool asks in the middle of its call: JSON Schema of the answer, empty for yes or no."""
    batch: tuple["Approval", ...] = ()
    """What one step asks at once, in the order of its calls, this one first; () = it asks alone."""
    deciders: Deciders | None = None
    """Who may answer, by the policy under which it was asked; None: what is asked says nothing."""
    tool: Tool | None = field(default=None, repr=False, compare=False)
    """What would be called, as this process has it; None: only the log was read, or no tool."""

    def misfit(self, parameters: Mapping[str, Any]) -> str:
        """Why the call cannot be made with `parameters` instead; "" if it can, or nobody knows."""
        # What a tool asks in the middle of its call is answered with what `form` describes.
        if self.tool is None or self.form is not None:
            return ""
        wrong = self.tool.misfit(parameters)
        return f"edited parameters: {wrong}" if wrong else ""

    def unfit(self, decision: "Decision") -> str:
        """Why a decision that allows the call cannot be used as it is; "" if it can."""
        form, parameters = self.form, decision.parameters
        if form is None:
            return "" if parameters is None else self.misfit(parameters)
        # Without fields it is a question for yes or no, or for one value.
        if not form_fields(form):
            faults = [] if parameters is not None else plain_faults(form, decision.answer or "")
            return "; ".join(fault.sentence for fault in faults)
        if parameters is not None:
            return checked_form(form, parameters)[1]
        return filled_form(form, decision.answer or "")[1]

    @property
    def cut(self) -> bool:
        """Is the preview too long to be shown whole? A prompt then takes no approval."""
        return _CUT.search(self.preview, max(len(self.preview) - 200, 0)) is not None

    @property
    def wants_text(self) -> bool:
        """Is an answer wanted rather than yes or no?"""
        return self.action.tool == ASK_USER or bool(self.form)

    @property
    def waits_for(self) -> str:
        """What a run waits for that nobody answers now: the reason with which it is parked."""
        return "awaiting_input" if self.wants_text else "awaiting_approval"


DecisionWord: TypeAlias = Literal["allow", "approve", "edit", "answer", "deny", "done"]
"""Verdicts of a decision. "approve" means "allow"; "edit" has `parameters`, "answer" `answer`."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's word: approve, deny, or approve with edited parameters.

    For an action that may already have happened, `done` means that it did. `by` is recorded as the
    decider where the owner of the process decides (an approver, or `decide` without `by=`). A
    server records the principal that it established instead.
    """

    verdict: DecisionWord
    by: str = "local"
    reason: str = ""
    parameters: dict[str, Any] | None = None
    answer: str | None = None
    digest: str = ""
    """Of what the person was shown; "" = not said. Another digest is refused (D10)."""


ApproverAnswer: TypeAlias = "bool | Decision | Sequence[bool | Decision]"
"""Of an approver: about the call that it was asked about, or a list with one for each of its
`batch`."""
Approver: TypeAlias = Callable[[Approval], "ApproverAnswer | Awaitable[ApproverAnswer]"]
OnDelta: TypeAlias = Callable[[str, str], None]
"""Hears (run id, text) while a reply streams in."""
OnProgress: TypeAlias = Callable[[str, str, str], None]
"""Hears (run id, tool, text) while a tool works."""
OnRequest: TypeAlias = Callable[[str, str, Request], None]
DuringCall: TypeAlias = Callable[[str, str, int], AbstractContextManager[Any]]
"""Gives the context in which a tool of a run is called: run, key, index."""


def no_context(run: str, key: str, index: int) -> AbstractContextManager[Any]:
    """Returns a context that does nothing."""
    return nullcontext()


"""Hears (run id, place, request) before a model is asked, and on replay instead of it."""


# `str` itself is the default below: str() is "", which means that nothing stands in the way.
Pause: TypeAlias = Callable[[], str]
"""Says why the run must wait before it asks its model again; "" = it may go on."""


class Children(Protocol):
    """Runs the agent behind a tool as a child run."""

    async def __call__(
        self, tool: Tool, parameters: dict[str, Any], *, run: str, parent: "Parent"
    ) -> "ChildOutcome": ...


class Purse:
    """The dollars that several runs and their children share: what the calls under way may cost at
    most is held back.

    >>> purse = Purse(1.0, spent=0.4)
    >>> asyncio.run(purse.take(0.5))
    True
    >>> purse.settle(0.5, 0.1)
    >>> asyncio.run(purse.take(0.6)), purse.empty
    (False, True)
    """

    def __init__(self, usd: float, spent: float = 0.0) -> None:
        self.usd, self.spent = usd, spent
        self.empty = spent >= usd
        """Was a call refused, or is nothing left? Whoever could begin more should not."""
        self._reserved: list[float] = []
        self._settled = asyncio.Event()

    async def take(self, usd: float) -> bool:
        """Hold back `usd`, once the calls under way leave so much; False if that cannot be."""
        # The list is summed anew each time: a running total of floats would not come back to 0,
        # and the last one would wait for nobody.
        while self.spent + sum(self._reserved) + usd > self.usd:
            if self.spent + usd > self.usd:
                self.empty = True
                return False
            self._settled.clear()
            await self._settled.wait()
        self._reserved.append(usd)
        return True

    def settle(self, reserved: float, spent: float) -> None:
        """A call is over for which `reserved` was taken; it cost `spent`."""
        self._reserved.remove(reserved)
        self.spent += spent
        self.empty = self.empty or self.spent >= self.usd
        self._settled.set()


@dataclass(frozen=True, slots=True)
class Parent:
    """What a child run inherits."""

    run: str
    limits: Limits
    policy: Policy
    principal: Principal
    depth: int
    deps: Any = None
    approve: "Approver | None" = None
    pause: "Pause" = str
    hooks: Hooks = NO_HOOKS
    purse: Purse | None = None


@dataclass(frozen=True, slots=True)
class ChildOutcome:
    """How a child run ended: its observation, or what it waits for."""

    observation: Observation
    usage: Usage | None = None
    waiting_for: str = ""
    calls: tuple[int, int] | None = None
    """Its model calls and its tool calls, its own children's included."""
    tools: Mapping[str, int] = field(default_factory=dict[str, int])
    """The same tool calls by tool."""
    models: Mapping[str, Usage] = field(default_factory=dict[str, Usage])
    """`usage` by model."""


class Sampling(Protocol):
    """Has the run's own model answer questions of tools, each in a child run."""

    async def answer(
        self, question: ModelQuestion, *, run: str, parent: Parent
    ) -> "ChildOutcome": ...

    async def spent(self, parent: str, call: str) -> "ChildOutcome":
        """What all such child runs of `parent` consumed whose ids begin with `call`."""
        ...


def _as_it_is(value: JSON) -> JSON:
    return value


@dataclass(slots=True)
class Setup:
    """Everything a drive needs besides the strategy and the log."""

    models: Mapping[str, Model]
    """By role; `executor` is always there."""
    tools: Toolset
    limits: Limits = field(default_factory=Limits)
    """With which a run begins or goes on; those in force are `Budget.limits`."""
    own_limits: Limits | None = None
    """Of a child run: its agent's own, without what its caller has left."""
    agent: str = ""
    policy: Policy = field(default_factory=Policy)
    principal: Principal = Principal()
    deps: Any = None
    approve: Approver | None = None
    redactor: Redactor = field(default_factory=Redactor)
    listeners: tuple[Listener, ...] = ()
    on_delta: OnDelta | None = None
    on_progress: OnProgress | None = None
    pause: Pause = str
    purse: Purse | None = None
    """What all calls of the run's models are paid from, besides its own limits."""
    on_request: OnRequest | None = None
    during_call: DuringCall = no_context
    children: Children | None = None
    sampling: Sampling | None = None
    hooks: Hooks = NO_HOOKS
    cache: MutableMapping[str, Reply] | None = None
    settings: ModelSettings = ModelSettings()
    on_denial: str = "continue"
    ask_user: bool = False
    """May the model ask the user? A flow's own `person.ask` may always (`Act.planned`)."""
    depth: int = 0
    finish: dict[str, Any] | None = None
    """JSON Schema of the parameters of `finish`, where it is offered natively."""
    shown: Callable[[JSON], JSON] = _as_it_is
    """An answer as people may see it: with the texts masked that its type hides."""
    now: Callable[[], int] = clock
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    offered: dict[tuple[str, ...], tuple[ToolSpec, ...]] = field(
        default_factory=dict[tuple[str, ...], tuple[ToolSpec, ...]]
    )
    """What `specs` has made: the same for every run of an agent."""

    def specs(self, names: tuple[str, ...]) -> tuple[ToolSpec, ...]:
        """The named tools as they are offered to a model."""
        if names not in self.offered:
            tools = [self.tools[name] for name in names if name in self.tools]
            self.offered[names] = (
                *[ToolSpec(t.name, t.model_description, t.schema) for t in tools],
                *[RESERVED_SPECS[name] for name in names if name in RESERVED_SPECS],
            )
            if FINISH in names and self.finish is not None:
                spec = ToolSpec(FINISH, "Give the final answer.", self.finish)
                self.offered[names] = (*self.offered[names], spec)
        return self.offered[names]

    def model(self, role: str) -> Model:
        """The model that plays `role`."""
        return self.models.get(role) or self.models["executor"]
