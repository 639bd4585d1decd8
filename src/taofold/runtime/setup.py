"""`Setup`: the live objects with which a run is driven, which a log cannot hold.

Models, tools, limits, policy, hooks, clock and callbacks, and their interfaces: the approval
callback with its question and answer (`Approval`, `Decision`); child runs, samples, and the dollars
that a batch shares (`Purse`). Knows nothing about `Agent`.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, Literal, Protocol, TypeAlias

from taofold.clocks import clock
from taofold.core import events as e
from taofold.core.effects import HandOff, Strategy
from taofold.core.state import RunState
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
from taofold.workspace.run_files import RunFiles

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
"""Maximum characters of a preview that is shown."""
_MOST_OFFERS: Final = 256
_DEFERRED: Final = "\0deferred"
"""Marks a key of `Setup.offered` for tools that a search finds: no tool has this name."""
"""The most combinations of offered tools that are kept."""
_CUT: Final = re.compile(r" \[… cut: \d+ more characters, digest [0-9a-f]+\]\Z")


def cut_preview(text: str) -> str:
    """Returns `text`, or its beginning with a mark for `Approval.cut` and the console."""
    if len(text) <= _LONGEST:
        return text
    # The digest distinguishes previews that differ only after the cut.
    whole = blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
    return f"{text[:_LONGEST]} [… cut: {len(text) - _LONGEST} more characters, digest {whole}]"


@dataclass(frozen=True, slots=True)
class Approval:
    """A pending action or question, as an approver sees it.

    Example:
        ```python
        from taofold import Agent, Approval


        def approve(request: Approval) -> bool:
            return request.action.tool == "deploy" and "staging" in request.preview


        agent = Agent("openai:gpt-5", approve=approve)
        ```

    Args:
        id: `run:seq` of the event that asks; `decide` takes it.
        run: The id of the run.
        key: The place of the step in the run.
        index: The place of the action in its step.
        action: The call to approve.
        tier: Its tier by the policy.
        reason: Why the policy asks.
        preview: A readable description of the effect.
        digest: Identifies tool, arguments and definition; see `Decision.digest`.
        policy: The version of the policy.
        requester: The id of the principal who started the run.
        asked_at: Time of the question in milliseconds since the epoch.
        expires_at: Time of its expiry; 0 = never.
        question: The agent's question (`ask_user`), or the doubt whether the call already happened.
        form: JSON Schema of the answer to a tool's own question; empty for yes or no.
        batch: All questions of one step, in the order of its calls, with this one first. Empty for
            a single question.
        deciders: The permitted deciders, by the policy of the question. None: the question defines
            none.
        tool: The tool of the call in this process. None: only the log was read, or there is no
            tool.
    """

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
    form: Mapping[str, Any] | None = None
    batch: tuple["Approval", ...] = ()
    deciders: Deciders | None = None
    tool: Tool | None = field(default=None, repr=False, compare=False)

    def misfit(self, parameters: Mapping[str, Any]) -> str:
        """Returns why the call cannot be made with `parameters`; "" if it can, or if unknown.

        Args:
            parameters: The edited parameters.
        """
        # The answer to a tool's own question is described by `form`.
        if self.tool is None or self.form is not None:
            return ""
        wrong = self.tool.misfit(parameters)
        return f"edited parameters: {wrong}" if wrong else ""

    def mismatch(self, decision: "Decision") -> str:
        """Returns why a decision does not match the kind of question, or "".

        An answer is no consent to a call, and a call that never started cannot be done.

        Args:
            decision: The decision to check.
        """
        if self.form is not None or self.action.tool == ASK_USER or decision.verdict == "deny":
            return ""
        if decision.verdict == "answer" or decision.answer is not None:
            return f"{self.id} waits for approval, not for an answer: approve, edit or deny it"
        if decision.verdict == "done" and not self.in_doubt:
            return f"the call {self.id} has not started: approve, edit or deny it"
        return ""

    def unfit(self, decision: "Decision") -> str:
        """Returns why a decision that allows the call is unusable, or "".

        Args:
            decision: The decision to check.
        """
        wrong = self.mismatch(decision)
        if wrong:
            return wrong
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
        """True if the preview is too long to be shown whole. A prompt then takes no approval."""
        return _CUT.search(self.preview, max(len(self.preview) - 200, 0)) is not None

    @property
    def in_doubt(self) -> bool:
        """True if the question is whether an interrupted call already happened."""
        return bool(self.question) and not self.wants_text and self.form is None

    @property
    def wants_text(self) -> bool:
        """True if the question needs a text instead of yes or no."""
        return self.action.tool == ASK_USER or bool(self.form)

    @property
    def waits_for(self) -> str:
        """The reason with which a run is parked if the question is not answered now."""
        return "awaiting_input" if self.wants_text else "awaiting_approval"


DecisionWord: TypeAlias = Literal["allow", "approve", "edit", "answer", "deny", "done"]
"""Verdicts of a decision. "approve" means "allow"; "edit" has `parameters`, "answer" `answer`."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of an approver.

    Args:
        verdict: "approve" (or "allow"), "deny", "edit", "answer" or "done". "done" means that an
            action that may already have happened did happen.
        by: The recorded decider, if the owner of the process decides (an approver, or `decide`
            without `by=`). A server records its established principal instead.
        reason: An explanation for the log and the model.
        parameters: Parameters that replace those of the call, or the fields of a form.
        answer: The text that answers a question.
        digest: The digest of the shown `Approval`; a decision with another digest is refused.

    Example:
        ```python
        from taofold import Decision

        denial = Decision("deny", by="ada", reason="not on Fridays")
        edit = Decision("edit", by="ada", parameters={"amount": 10})
        ```
    """

    verdict: DecisionWord
    by: str = "local"
    reason: str = ""
    parameters: dict[str, Any] | None = None
    answer: str | None = None
    digest: str = ""


ApproverAnswer: TypeAlias = "bool | Decision | Sequence[bool | Decision]"
"""An approver's answer: about its question, or a list with one for each of its `batch`."""
Approver: TypeAlias = Callable[[Approval], "ApproverAnswer | Awaitable[ApproverAnswer]"]
OnDelta: TypeAlias = Callable[[str, str], None]
"""Receives (run id, text) while a reply streams in."""
OnProgress: TypeAlias = Callable[[str, str, str], None]
"""Receives (run id, tool, text) while a tool works."""
OnRequest: TypeAlias = Callable[[str, str, Request], None]
"""Receives (run id, place, request) before a model is asked, and on replay instead of it."""
DuringCall: TypeAlias = Callable[[str, str, int], AbstractContextManager[Any]]
"""Returns the context manager around a tool call, from run, key and index."""


def no_context(run: str, key: str, index: int) -> AbstractContextManager[Any]:
    """Returns a context that does nothing."""
    return nullcontext()


# `str` itself is the default below: str() is "", which means that nothing prevents the call.
Pause: TypeAlias = Callable[[], str]
"""Returns why the run must wait before its next model call; "" = it may continue."""


class Children(Protocol):
    """Interface that runs the agent behind a tool as a child run."""

    async def __call__(
        self, tool: Tool, parameters: dict[str, Any], *, run: str, parent: "Parent"
    ) -> "ChildOutcome": ...


class Purse:
    """The dollars that several runs and their children share. The maximum cost of running calls is
    held back.

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
        """True if a call was refused, or nothing is left. No more runs should begin then."""
        self._reserved: list[float] = []
        self._settled = asyncio.Event()

    async def take(self, usd: float) -> bool:
        """Holds back `usd` once the running calls leave enough; False if that is impossible."""
        # The list is summed each time: a running total of floats would not return to 0, and the
        # last call would wait forever.
        while self.spent + sum(self._reserved) + usd > self.usd:
            if self.spent + usd > self.usd:
                self.empty = True
                return False
            self._settled.clear()
            await self._settled.wait()
        self._reserved.append(usd)
        return True

    def settle(self, reserved: float, spent: float) -> None:
        """Ends a call for which `reserved` was held back and that cost `spent`."""
        self._reserved.remove(reserved)
        self.spent += spent
        self.empty = self.empty or self.spent >= self.usd
        self._settled.set()


@dataclass(frozen=True, slots=True)
class Parent:
    """The settings that a child run inherits."""

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
    tags: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class ChildFiles:
    """The worktree of a child run."""

    run: str
    folder: str
    tree: str
    """The state with which it began."""


@dataclass(frozen=True, slots=True)
class ChildOutcome:
    """The end of a child run: its observation, or its reason for waiting."""

    observation: Observation
    usage: Usage | None = None
    waiting_for: str = ""
    calls: tuple[int, int] | None = None
    """Its model calls and its tool calls, including those of its children."""
    tools: Mapping[str, int] = field(default_factory=dict[str, int])
    """The same tool calls by tool."""
    models: Mapping[str, Usage] = field(default_factory=dict[str, Usage])
    """`usage` by model."""
    files: ChildFiles | None = None
    """Its worktree. None if it works in its caller's folder."""


class Sampling(Protocol):
    """Interface that answers questions of tools with the run's model, each in a child run."""

    async def answer(
        self, question: ModelQuestion, *, run: str, parent: Parent
    ) -> "ChildOutcome": ...

    async def spent(self, parent: str, call: str) -> "ChildOutcome":
        """Returns the consumption of all sampling runs of `parent` whose ids begin with `call`."""
        ...


class Successors(Protocol):
    """Interface that prepares the agents to which a run may be handed over."""

    async def describe(
        self, key: str, hand_off: HandOff, records: Sequence[e.Record]
    ) -> e.HandedOff:
        """Returns the facts to record about the next agent, as they are now.

        Args:
            key: The place of the hand-off.
            hand_off: The hand-off.
            records: The records of the run so far.

        Raises:
            ReplayDiverged: The run cannot be handed over to this agent any more.
        """
        ...

    def activate(
        self, event: e.HandedOff, hand_off: HandOff, records: Sequence[e.Record]
    ) -> "tuple[Setup, Strategy[Any]]":
        """Returns the setup and the strategy with which the agent of `event` continues.

        Args:
            event: The recorded facts.
            hand_off: The hand-off with the conversation so far.
            records: The records of the run, `event` included.
        """
        ...

    def tools(self, agent: str) -> Mapping[str, Tool]:
        """Returns the tools of an agent of the run, by name; none of an unknown one."""
        ...


def _as_it_is(value: JSON) -> JSON:
    return value


@dataclass(slots=True)
class Setup:
    """Everything a drive needs besides the strategy and the log."""

    models: Mapping[str, Model]
    """Models by role; `executor` always exists."""
    tools: Toolset
    limits: Limits = field(default_factory=Limits)
    """The initial limits of the run; those in force are `Allowance.limits`."""
    own_limits: Limits | None = None
    """For a child run: its agent's own limits, without the bound of its caller."""
    agent: str = ""
    """The name of the active agent."""
    began: str = ""
    """The name of the agent with which the run began, if another one is active."""
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
    """The shared dollars that pay for all model calls of the run, besides its own limits."""
    on_request: OnRequest | None = None
    during_call: DuringCall = no_context
    children: Children | None = None
    successors: Successors | None = None
    """The agents to which the run may be handed over. None: there are none."""
    sampling: Sampling | None = None
    memory: Callable[[str, str, Sequence[e.Record], RunState, Principal], Any] | None = None
    """Returns the notebook of a run for one of its tools. None: it has none.

    The arguments are the id of the run, the name of the tool, the records, state and principal.
    """
    snapshots: RunFiles | None = None
    """The folder whose state is stored with each step. None: of none."""
    hooks: Hooks = NO_HOOKS
    cache: MutableMapping[str, Reply] | None = None
    settings: ModelSettings = ModelSettings()
    on_denial: str = "continue"
    ask_user: bool = False
    """True if the model may ask the user. A flow's own `person.ask` always may (`Act.planned`)."""
    depth: int = 0
    finish: dict[str, Any] | None = None
    """JSON Schema of the parameters of `finish`, where it is offered natively."""
    shown: Callable[[JSON], JSON] = _as_it_is
    """Returns an answer for display, with hidden fields of its type masked."""
    now: Callable[[], int] = clock
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    offered: dict[tuple[str, ...], tuple[ToolSpec, ...]] = field(
        default_factory=dict[tuple[str, ...], tuple[ToolSpec, ...]]
    )
    """Cache of `specs`, shared by every run of an agent."""

    @property
    def handed_to(self) -> str:
        """The name of the active agent if the run was handed over to it, else ""."""
        return self.agent if self.began else ""

    def specs(self, names: tuple[str, ...]) -> tuple[ToolSpec, ...]:
        """Returns the named tools as they are offered to a model."""
        if names not in self.offered:
            # With a search of tools there are many combinations.
            if len(self.offered) >= _MOST_OFFERS:
                self.offered.clear()
            tools = [self.tools[name] for name in names if name in self.tools]
            self.offered[names] = (
                *[ToolSpec(t.name, t.model_description, t.schema) for t in tools],
                *[RESERVED_SPECS[name] for name in names if name in RESERVED_SPECS],
            )
            if FINISH in names and self.finish is not None:
                spec = ToolSpec(FINISH, "Give the final answer.", self.finish)
                self.offered[names] = (*self.offered[names], spec)
        return self.offered[names]

    def deferred_specs(self, names: tuple[str, ...]) -> tuple[ToolSpec, ...]:
        """Returns the tools that a search finds, with their toolsets."""
        key = (_DEFERRED, *names)
        if key not in self.offered:
            tools = [self.tools[name] for name in names if name in self.tools]
            self.offered[key] = tuple(
                [ToolSpec(t.name, t.model_description, t.schema, t.toolset) for t in tools]
            )
        return self.offered[key]

    def model(self, role: str) -> Model:
        """Returns the model with the role `role`."""
        return self.models.get(role) or self.models["executor"]
