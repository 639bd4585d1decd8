"""All events of a run, and their JSON form.

Events record how a run starts, forks, resumes, parks, rewinds and ends; replies of models and
failed model calls; steps with their decisions, starts and observations; user messages; limits,
broken rules, and strategy notes. `Event` is the union of them.

`key` is the place of an effect in its strategy ("0", "3", inside a fork "3.1.0"), the same on
replay; `index` is the place of an action in its batch. Events are never changed. A `Record` is an
event with its sequence number and time. `encode` and `decode` convert to JSON; upcasters bring
older versions to the current form. The start of an imported run holds its origin (`Provenance`).

A class defines all properties of its event: how durable it is, whether a replay derives it, its
summary, its public form, and after `State:` its effect on the state. A new event therefore needs
its class, its name in the union `Event`, and the place in `runtime` where it occurs; the log,
streams, terminal, spans and documents follow. Its effect on the state is a case of `state.reduce`,
which type checkers demand. `docs/internals/changing.md` has an example.
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final, Self, TypeAlias

import msgspec
from msgspec import structs

from taofold.core import text
from taofold.core.content import (
    Content,
    Issuer,
    OpaquePart,
    Part,
    calls_of,
    media_of,
    text_of,
    thoughts,
    veil_opaque,
)
from taofold.core.json_values import is_finite
from taofold.core.reply import Count
from taofold.core.rule_names import DEMANDS
from taofold.core.values import (
    Action,
    Deciders,
    Message,
    Observation,
    Principal,
    Profile,
    Thought,
    ToolCall,
    Usage,
    Value,
    Verdict,
)


def _digests(digests_beside: Iterable[str], content: Content) -> tuple[str, ...]:
    digests = [part.digest for part in media_of(content)]
    return tuple([digest for digest in (*digests_beside, *digests) if digest])


class Happened(Value, frozen=True, kw_only=True, tag_field="e"):
    """Base of all events."""

    disk: ClassVar[bool] = False
    """True if the event must survive a power failure, not only a killed process: the log syncs
    before the run continues.
    """
    timed: ClassVar[bool] = True
    """True if the time since the previous record counts as activity. False where nothing was active
    before: at the start, at a resume, after a fork.
    """
    derived: ClassVar[bool] = True
    """True if an effect of the strategy derives the event at its `key`. False for events added by
    the driver or a user, which a replay skips.
    """
    incidental: ClassVar[bool] = False
    """True if the event records how the run was driven, not what it did: two runs that differ only
    in such events are equal.
    """
    wording: ClassVar[str] = ""
    """Format of the summary; `{0}` is the event."""
    heading: ClassVar[str] = ""
    """Prefix of the displayed summary; "": displays omit the event or show another form."""
    alarming: ClassVar[bool] = False
    """True if displays highlight the event."""
    elapsed: Count | None = None
    """Milliseconds of activity since the previous record, by a monotonic clock; None = the
    difference of the records' times.
    """

    def blobs(self) -> tuple[str, ...]:
        """Returns the digests of the blobs that the event references."""
        return ()

    @property
    def optional(self) -> bool:
        """True if a log of another release may lack the event although this code derives it."""
        return False

    @property
    def public(self) -> Self:
        """The event without what displays, streams and exports must not show."""
        return self

    def timeless(self) -> Self:
        """Returns the event without `elapsed`, whose value depends on the machine's clock.

        A replay derives events, never their times.
        """
        return self if self.elapsed is None else structs.replace(self, elapsed=None)

    @property
    def tag(self) -> str:
        """The name of the event type in the log."""
        return str(self.__struct_config__.tag)

    @property
    def summary(self) -> str:
        """A readable summary, shown by `runs log` after the event's name."""
        return self.wording.format(self).rstrip()

    @property
    def announcement(self) -> str | None:
        """The text for displays of the run; None if they omit it or show it in another form."""
        return f"{self.heading} {self.summary}" if self.heading else None


class Annotation(Happened, frozen=True):
    """An event that changes nothing in the state except the time."""


class ForeignCall(Value, frozen=True):
    """An imported file's claim about a call without an outcome. No code relies on it."""

    tool: str
    fingerprint: str
    """Fingerprint of tool and parameters, from `core.rules.fingerprint`."""
    decisions: tuple[str, ...] = ()
    """Readable text: "allow by local"."""
    started: bool = False


class Provenance(Value, frozen=True):
    """The origin of a run imported from a file: its first `events` records.

    They are history. The file's claims about who decided and who asked can be forged: they never
    cause a call and never count as an approval.
    """

    source: str
    events: int
    principal: str = ""
    """The principal who started the run there. Here the run belongs to the one who imported it."""
    claims: tuple[ForeignCall, ...] = ()
    at: int = 0


class RunStarted(Happened, frozen=True, tag="run_started"):
    """The run's fixed facts. Nothing irreversible has happened yet, so the log does not sync.

    `goal` is the text; `parts` is the original goal if it holds more than text.

    State: `goal`, `agent`, `data`, `masked`; `status` is `running`
    """

    timed: ClassVar[bool] = False
    derived: ClassVar[bool] = False
    wording: ClassVar[str] = "{0.agent} ({0.strategy}) with {0.model}: {0.goal}"
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
    parts: tuple[Part, ...] = ()
    imported: Provenance | None = None
    tags: dict[str, str] = {}
    masked: bool = False
    """True if a secret was replaced by a mask in the goal, the data or the history."""

    @property
    def content(self) -> Content:
        """The original goal: its parts, or its text."""
        return self.parts or self.goal

    @property
    def public(self) -> Self:
        """The event with issuer-bound data in the history hidden."""
        if not self.history:
            return self
        past = [structs.replace(each, content=veil_opaque(each.content)) for each in self.history]
        return structs.replace(self, history=tuple(past))

    def blobs(self) -> tuple[str, ...]:
        """Returns the digests of media in the goal and in the history."""
        past = [digest for message in self.history for digest in _digests((), message.content)]
        return _digests(past, self.parts)


class Forked(Annotation, frozen=True, tag="forked"):
    """The events before this one were copied from `run`, up to and including `seq`.

    State: none: the preceding records were copied from there
    """

    timed: ClassVar[bool] = False
    derived: ClassVar[bool] = False
    incidental: ClassVar[bool] = True
    heading: ClassVar[str] = "forked"
    wording: ClassVar[str] = "from {0.run} at {0.seq}"
    run: str
    seq: int


class Resumed(Happened, frozen=True, tag="resumed"):
    """A new activation took the run over, with fencing token `epoch`.

    State: `epoch`; `wakes` + 1; `status` is `running`, `waiting_for` ""; interrupted calls are
    marked, see below
    """

    timed: ClassVar[bool] = False
    derived: ClassVar[bool] = False
    incidental: ClassVar[bool] = True
    heading: ClassVar[str] = "resumed,"
    wording: ClassVar[str] = "epoch {0.epoch}"
    epoch: int
    owner: str = ""
    runtime: str = ""
    """The runtime that writes the following records; "": this one."""


class Steered(Happened, frozen=True, tag="steered"):
    """A user's message reached the run; the model reads it once, at its next turn.

    State: `heard` gets the text; `masked` if the event is
    """

    disk: ClassVar[bool] = True
    heading: ClassVar[str] = "message"
    wording: ClassVar[str] = "by {0.by}: {0.text}"
    key: str
    id: str
    text: str
    by: str
    parts: tuple[Part, ...] = ()
    """The original message, if it holds more than text."""
    masked: bool = False
    """True if a secret was replaced by a mask in it."""

    @property
    def content(self) -> Content:
        """The original message: its parts, or its text."""
        return self.parts or self.text

    def blobs(self) -> tuple[str, ...]:
        """Returns the digests of the media in the message."""
        return _digests((), self.parts) if self.parts else ()


class LimitHit(Happened, frozen=True, tag="limit_hit"):
    """A limit was reached, before the call that would have exceeded it.

    `value` is 1 if no further call is made, -1 if the coming turn is the last. `needed` is the
    possible cost of the call that was not made, and `allowed` the bound at that time. Both are 0 if
    this was not the reason. For the limit `budget`, `budget` is its name and `why` the explanation.

    State: `limits_hit` gets the limit (`value` 1: no further call is made; -1: the coming turn is
    the last)
    """

    heading: ClassVar[str] = "limit"
    key: str
    limit: str
    value: float
    needed: float = 0.0
    allowed: float = 0.0
    budget: str = ""
    why: str = ""

    @property
    def summary(self) -> str:
        """The limit, with the budget's name or a mark for the last turn."""
        name = f" {self.budget}" if self.budget else ""
        return f"{self.limit}{name}{' (last turn)' if self.value < 0 else ''}"


class PromptChanged(Annotation, frozen=True, tag="prompt_changed"):
    """On resume, this code builds another prompt than the recorded one (D13)."""

    derived: ClassVar[bool] = False
    alarming: ClassVar[bool] = True
    heading: ClassVar[str] = "the prompt changed since it was recorded:"
    wording: ClassVar[str] = "{0.recorded} → {0.requested}"
    key: str
    recorded: str
    requested: str


class Replied(Happened, frozen=True, tag="replied"):
    """The model's reply and its cost, recorded before it is parsed.

    `prompt` is the digest of the provider-neutral prompt, prefixed with the runtime's name if it is
    another one (`rust:…`). `prefix` is the digest of the whole request, including tools, schema and
    opaque parts ("" if the Rust runtime asked). `notes` are the provider's remarks about the
    request. `found` are the tools that a search of the provider has found. `agent` is the active
    agent, "" = the one with which the run began: its budgets are charged.

    State: `model_calls` + 1 unless `cached`; `usage` is added to `usage` and to
    `usage_by_model[model]`; `masked` if the event is
    """

    key: str
    prompt: str
    content: Content = ""
    usage: Usage = Usage()
    model: str = ""
    finish: str = ""
    role: str = "executor"
    ms: float = 0.0
    cached: bool = False
    issuer: Issuer | None = None
    prefix: str = ""
    notes: tuple[str, ...] = ()
    masked: bool = False
    """True if a secret was replaced by a mask in it."""
    found: tuple[str, ...] = ()
    agent: str = ""

    @property
    def foreign(self) -> bool:
        """True if another runtime asked the model, with a prompt of its own."""
        return ":" in self.prompt

    def blobs(self) -> tuple[str, ...]:
        """Returns the digests of its media, and of opaque parts that are too long for the log."""
        if isinstance(self.content, str):
            return ()
        held = [part.digest for part in self.content if type(part) is OpaquePart]
        return _digests(held, self.content)

    @property
    def public(self) -> Self:
        """The event with issuer-bound data hidden."""
        # Opaque parts hold what the model saw or thought, in a form that cannot be redacted.
        content = veil_opaque(self.content)
        return self if content is self.content else structs.replace(self, content=content)

    @property
    def text(self) -> str:
        """The text, without thinking and calls."""
        return self.content if isinstance(self.content, str) else text_of(self.content)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls in it."""
        return () if isinstance(self.content, str) else calls_of(self.content)

    @property
    def reasoning(self) -> str:
        """The readable thinking in it."""
        return "" if isinstance(self.content, str) else thoughts(self.content)

    @property
    def summary(self) -> str:
        """Tokens, duration, found tools, and the text or the names of the called tools."""
        tokens = f"{text.number(self.usage.tokens)} tokens, {text.duration(self.ms)}"
        reply = self.text or ", ".join([call.name for call in self.calls])
        found = f", found {', '.join(self.found)}" if self.found else ""
        return f"{tokens}{' (cached)' * self.cached}{found}: {reply}"


class Cut(Annotation, frozen=True, tag="cut"):
    """From here on, opaque parts of the first `messages` messages are no longer sent.

    `reason`: "refused" (the provider rejected them), "prompt_changed", "tools_changed", "redacted",
    "lost" (their bytes are not in this log).
    """

    alarming: ClassVar[bool] = True
    heading: ClassVar[str] = "data signed by the provider is no longer sent,"
    wording: ClassVar[str] = "{0.reason}: {0.messages} messages {0.detail}"
    key: str
    reason: str
    messages: int
    detail: str = ""


class Hooked(Annotation, frozen=True, tag="hooked"):
    """A hook changed the call at `key`; a replay applies the same change.

    `point` is "before_model", "after_model" or "before_tool". `rejected` is the reason why the run
    ends here; "" = it continues, and the model also reads `message`, if there is one. `pinned`
    messages stay complete when older steps are shortened; those of earlier releases were dropped.
    `before` and `after` hold what a hook changed: the parameters of the tool call at `index`, or
    `settings` and `tools` of a model call.

    State: none; parameters changed `before_tool` enter the state with the following `decided`
    """

    heading: ClassVar[str] = "hook"
    key: str
    hook: str
    point: str
    rejected: str = ""
    message: str = ""
    pinned: bool = False
    index: int = -1
    """The call's place in its batch; -1 for a model call."""
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None

    @property
    def summary(self) -> str:
        """The hook, its point, and the rejection, the message or the change."""
        change = self.rejected or self.message
        if self.after is not None:
            change = f"{text.value(self.before)} → {text.value(self.after)}"
        return f"{self.hook} {self.point}: {change}"


class HandedOff(Happened, frozen=True, tag="handed_off"):
    """Another agent became the active one: it continues the conversation of the run.

    `before` is the agent that was active, `reason` its model's text. The other fields hold for
    `agent` what `run_started` holds for the first agent of the run.

    State: `agent`
    """

    heading: ClassVar[str] = "handed off"
    key: str
    agent: str
    before: str = ""
    reason: str = ""
    model: str = ""
    profile: Profile = Profile()
    policy: str = ""
    settings: dict[str, Any] = {}
    masked: bool = False
    """True if a mask replaced a secret in the settings."""

    @property
    def summary(self) -> str:
        """Both agents, and the reason."""
        reason = f": {self.reason}" if self.reason else ""
        return f"from {self.before} to {self.agent}{reason}"

    def applied(self, started: RunStarted) -> RunStarted:
        """Returns the start of the run as if it had begun with this agent.

        Args:
            started: The start of the run.
        """
        return structs.replace(
            started,
            agent=self.agent,
            model=self.model,
            profile=self.profile,
            policy=self.policy,
            settings=self.settings,
        )


class AskFailed(Annotation, frozen=True, tag="ask_failed"):
    """The provider failed after its retries."""

    alarming: ClassVar[bool] = True
    heading: ClassVar[str] = "the model failed:"
    wording: ClassVar[str] = "{0.kind}: {0.message}"
    key: str
    kind: str
    message: str


class Charged(Happened, frozen=True, tag="charged"):
    """Consumption that no reply reports: of a model call without a reply, or of a tool.

    `model` asked or was asked. `tool` is the tool that reported it, "" = a model call failed or was
    cut off. `estimated`: the provider did not report it. `agent` is the active agent, "" = the one
    with which the run began.

    State: `usage` is added to `usage` and to `usage_by_model[model]`
    """

    derived: ClassVar[bool] = False
    heading: ClassVar[str] = "charged"
    key: str
    usage: Usage
    model: str = ""
    tool: str = ""
    estimated: bool = False
    agent: str = ""

    @property
    def summary(self) -> str:
        """The tokens and dollars, and what consumed them."""
        usd = f", ${self.usage.usd:.4f}" if self.usage.usd else ""
        about = "about " if self.estimated else ""
        what = f"tool {self.tool}" if self.tool else f"a call of {self.model} without a reply"
        return f"{about}{text.number(self.usage.tokens)} tokens{usd}: {what}"


class Violated(Annotation, frozen=True, tag="violated"):
    """A rule of the loop was broken; `steps` are the numbers of the steps concerned.

    `refused`: the reply was discarded, and `detail` was sent to the model as the reason.
    """

    heading: ClassVar[str] = "rule"
    wording: ClassVar[str] = "{0.rule}: {0.detail}"
    key: str
    rule: str
    detail: str = ""
    steps: tuple[int, ...] = ()
    refused: bool = False

    @property
    def announcement(self) -> str | None:
        """The refusal of a reply and its reason; None where a lenient run accepted the form."""
        demanded = self.rule in DEMANDS
        if self.refused:
            why = f"strict, {self.rule}): asked again" if demanded else f"{self.rule})"
            return f"reply refused ({why}: {self.detail}"
        return None if demanded else super().announcement


class Compacted(Annotation, frozen=True, tag="compacted"):
    """Observations of the steps up to `upto` were folded in the prompt, not in the log."""

    heading: ClassVar[str] = "compacted"
    wording: ClassVar[str] = "up to step {0.upto}: {0.chars_before} → {0.chars_after} characters"
    key: str
    upto: int
    chars_before: int
    chars_after: int


class Noted(Happened, frozen=True, tag="noted"):
    """A strategy's own trace entry.

    State: kind `state`: its `data` is merged over the state's; any other kind: none (`branch`: the
    branch that a flow took, `{node, to}`; `grounding_judged`: `{judge, steps: {number: [grounded,
    reason]}}`, or `{judge: "rules", model, error}`; `compaction_failed`: no summary was
    made and the steps were folded, `{reason}`; `budget`: a budget is nearly used up, `{name,
    scope, share, start, until}`; `agent_not_continued`: the run does not begin with the session's
    last agent, `{agent, reason}`)
    """

    key: str
    kind: str
    data: dict[str, Any] = {}

    @property
    def summary(self) -> str:
        """The kind and its data; for `branch`, the two nodes; for `budget`, the share."""
        if self.kind == "branch":
            # An imported file may hold any value here.
            node, target = self.data.get("node", ""), self.data.get("to") or "the next node"
            return f"{self.kind} {node} → {target}"
        if self.kind == "budget":
            name, scope = self.data.get("name", ""), self.data.get("scope", "")
            return f"budget {name} of {scope}: {text.value(self.data.get('share'))} is spent"
        return f"{self.kind} {text.value(self.data)}"

    @property
    def optional(self) -> bool:
        """True for `branch`: older releases did not always record it."""
        return self.kind == "branch"

    @property
    def announcement(self) -> str | None:
        """The branch that a flow took, or the warning of a budget."""
        return self.summary if self.kind in ("branch", "budget") else None


class Proposed(Happened, frozen=True, tag="proposed"):
    """A thought and its batch of actions: the start of a step.

    State: opens the step `key`: a slot for each action
    """

    key: str
    thought: Thought
    actions: tuple[Action, ...]

    @property
    def summary(self) -> str:
        """The thought and its calls, shortened."""
        calls = [f"{a.tool} {text.parameters(a.parameters, 60)}" for a in self.actions]
        thought = text.line(self.thought.content, 70)
        return f"{self.thought.type}: {thought} → {'; '.join(calls)}"


class Decided(Happened, frozen=True, tag="decided"):
    """The decision about an action. `ask` opens an approval; a later `Decided` closes it.

    `expires_at` is in milliseconds since the epoch (0 = never). `action` is the action as an
    approver edited it. `request` belongs to a question in the middle of a call: the answer's `form`
    and the tool's `state`. `attempt` is the number of starts of the call when the question was
    asked. An answer covers these starts only: after the next start it permits nothing.

    State: `status` is `running`; `action`, if present, replaces the one in the slot
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
    deciders: Deciders | None = None
    """The principals who may answer; None if no question was asked."""

    @property
    def decider(self) -> str:
        """The decider, as displayed."""
        return self.by

    @property
    def summary(self) -> str:
        """The action's index, verdict, decider, tier and reason."""
        by = "" if self.by == "policy" else f" by {self.decider}"
        return f"[{self.index}] {self.verdict}{by} (tier {self.tier}) {self.reason}"


class Resolved(Decided, frozen=True, tag="resolved"):
    """An approval was closed: by an approver, by expiry, or because its action changed.

    `imported`: the decision comes from an imported file and was not verified here. `principal` is
    the principal whose rights were checked, and `deciders` the ones under which it may decide. It
    has another id than `by` only if the owner of a process decides in the name of `by`.

    State: as `decided`; `masked` if the event is
    """

    disk: ClassVar[bool] = True
    imported: bool = False
    masked: bool = False
    """True if a mask replaced a secret in the user's text."""
    principal: Principal | None = None
    """None: code of the run's process decided (an `approve` function, expiry)."""

    @property
    def decider(self) -> str:
        """The decider, as displayed."""
        return f"{self.by} elsewhere (imported)" if self.imported else self.by


class Started(Happened, frozen=True, tag="started"):
    """The tool is about to be called. Without an `Observed` it is unknown whether it ran.

    With `kept`, the tool has recorded how to continue (`RunContext.keep`): after a crash it is
    called again with this value, and no approval is needed. `retry` numbers the repeated calls
    after the tool raised, from 1; each counts as a call.

    State: if the slot had not started, or was interrupted, or `retry` is above 0: `tool_calls` + 1,
    `per_tool[tool]` + 1, `refused_row` is 0
    """

    wording: ClassVar[str] = "[{0.index}]"
    key: str
    index: int = 0
    kept: Any = None
    retry: int = 0


# One class per durability: `disk` is a property of the type, so the log need not inspect the event.
class StartedOnce(Started, frozen=True, tag="started_once"):
    """The same for a tool that must not be repeated: synced to disk before the call.

    State: as `started`
    """

    disk: ClassVar[bool] = True
    effect: str = "once"


class Observed(Happened, frozen=True, tag="observed"):
    """The result of the action at `key`, `index`; `usage` is the consumption of a child run.

    State: see below; `update` is [name, value], `calls` [model, tool]
    """

    key: str
    observation: Observation
    index: int = 0
    update: tuple[str, Any] | None = None
    usage: Usage | None = None
    calls: tuple[Count, Count] | None = None  # model calls and tool calls of a child run
    tools: dict[str, Count] = {}
    models: dict[str, Usage] = {}
    """`usage` by model."""
    hooks: tuple[str, ...] = ()
    """Names of hooks that rejected the call, or changed its result."""

    @property
    def public(self) -> Self:
        """The event with `Observation.public`."""
        public = self.observation.public
        return self if public is self.observation else structs.replace(self, observation=public)

    def blobs(self) -> tuple[str, ...]:
        """Returns the digests of the whole result, if it was cut, and of its media."""
        observation = self.observation
        if not observation.blob and not observation.parts:
            return ()
        return _digests((observation.blob,), observation.parts)

    @property
    def summary(self) -> str:
        """The action's index, status, duration and key line."""
        observation = self.observation
        result = observation.extraction or text.value(observation.result)
        remark = f", {observation.remark}" if observation.remark else ""
        took = f"{text.duration(observation.duration_ms)}{remark}"
        return f"[{self.index}] {observation.status} {took}: {result}"


class DecisionRefused(Annotation, frozen=True, tag="decision_refused"):
    """A principal without permission tried to decide on `id`."""

    derived: ClassVar[bool] = False
    wording: ClassVar[str] = "{0.id} by {0.by}: {0.why}"
    id: str
    by: str
    why: str
    at: int = 0


class Snapshotted(Annotation, frozen=True, tag="snapshotted"):
    """The files of `folder` were stored as `tree`, after `step` steps.

    `left_out` are paths that the state does not hold (ignored, too large, nested repositories), and
    `more` the number of further ones. `held` are the calls of the step, as [key, index], that
    changed nothing but files of the state. `why` is the reason why nothing was stored; `tree` is
    then "".
    """

    derived: ClassVar[bool] = False
    incidental: ClassVar[bool] = True
    step: Count
    tree: str = ""
    folder: str = ""
    files: Count = 0
    left_out: tuple[str, ...] = ()
    more: Count = 0
    held: tuple[tuple[str, Count], ...] = ()
    why: str = ""

    @property
    def summary(self) -> str:
        """The step, the tree and the number of files, or the reason why nothing was stored."""
        if self.why:
            return f"files after step {self.step} were not stored: {self.why}"
        out = len(self.left_out) + self.more
        rest = f", {text.times(out, 'path')} left out" if out else ""
        return f"step {self.step}: {self.tree[:12]}, {text.times(self.files, 'file')}{rest}"

    @property
    def announcement(self) -> str | None:
        """The reason why nothing was stored."""
        return self.summary if self.why else None


class Restored(Annotation, frozen=True, tag="restored"):
    """The files of `step` were restored from `tree` in `folder`, where the run continues.

    `tree` is "" if they were left as they were on request. `kept` are the calls after that step
    whose effects outside of the files were not undone.
    """

    timed: ClassVar[bool] = False
    derived: ClassVar[bool] = False
    incidental: ClassVar[bool] = True
    heading: ClassVar[str] = "restored"
    step: Count
    tree: str = ""
    folder: str = ""
    kept: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The step and the folder."""
        if not self.tree:
            return "no files: they were left as they were"
        return f"the files of step {self.step} in {self.folder}"


class Compensated(Annotation, frozen=True, tag="compensated"):
    """The effect of a call was undone after a rewind, or was to be.

    `start` is the number of the call's `started_once`, in the log of the child run `run` if that
    made the call. `call` names its step and tool. `status`: `started` (before the undoing), `done`,
    `failed` (with the reason `why`), or `declined`.
    """

    disk: ClassVar[bool] = True
    timed: ClassVar[bool] = False
    derived: ClassVar[bool] = False
    heading: ClassVar[str] = "undo of"
    wording: ClassVar[str] = "{0.call}: {0.status} {0.why}"
    key: str
    start: Count
    status: str
    index: int = 0
    by: str = ""
    why: str = ""
    run: str = ""
    call: str = ""


class Updated(Happened, frozen=True, tag="updated"):
    """A Redux-style action changed the state's `name`.

    State: `data[name]` is `value`
    """

    derived: ClassVar[bool] = False
    name: str
    # The whole value, never a difference: folding needs no earlier state, and a rewind no inverse.
    value: Any = None
    action: str = ""

    @property
    def summary(self) -> str:
        """The name and its value."""
        return f"{self.name} = {text.value(self.value)}"


class Parked(Happened, frozen=True, tag="parked"):
    """The run waits for an answer, as rows in the log without a process or a worker slot.

    State: `status` is `waiting`, `waiting_for` the reason
    """

    disk: ClassVar[bool] = True
    derived: ClassVar[bool] = False
    incidental: ClassVar[bool] = True
    wording: ClassVar[str] = "{0.reason}"
    reason: str


class Rewound(Happened, frozen=True, tag="rewound"):
    """Events after `to` no longer count. They stay in the log.

    State: `rewinds` + 1; see below
    """

    timed: ClassVar[bool] = False
    derived: ClassVar[bool] = False
    wording: ClassVar[str] = "to {0.to}"
    to: int


class RunFinished(Happened, frozen=True, tag="run_finished"):
    """The end of the run (D1). If a power failure loses it, a resume derives it again.

    State: these six; `waiting_for` is ""
    """

    derived: ClassVar[bool] = False
    status: str
    stop_reason: str
    success: bool
    output: Any = None
    """The answer as JSON that its type accepted, with hidden fields masked."""
    error: str = ""
    accepted: Any = None
    """The answer without masks, if `output` has some. The typed value is built from it."""

    @property
    def summary(self) -> str:
        """The status, the stop reason, and the error or the output."""
        ending = self.error or ("" if self.output is None else text.value(self.output))
        return f"{self.status} ({self.stop_reason}) {ending}"


Event: TypeAlias = (
    RunStarted
    | Forked
    | Resumed
    | Steered
    | LimitHit
    | PromptChanged
    | Replied
    | Hooked
    | HandedOff
    | AskFailed
    | Charged
    | Violated
    | Cut
    | Compacted
    | Noted
    | Proposed
    | Decided
    | Resolved
    | Started
    | StartedOnce
    | Observed
    | DecisionRefused
    | Snapshotted
    | Restored
    | Compensated
    | Updated
    | Parked
    | Rewound
    | RunFinished
)


class Record(msgspec.Struct, frozen=True, gc=False):
    """An event with its place in history. `at` is milliseconds since the epoch."""

    run: str
    seq: int
    at: int
    event: Event

    @property
    def public(self) -> "Record":
        """The record with the public form of its event (`Happened.public`)."""
        event = self.event.public
        return self if event is self.event else Record(self.run, self.seq, self.at, event)


SCHEMA_VERSION: Final = 2
"""Version of the events' JSON form. Raise it with an upcaster in `UPCASTERS`."""

_ENCODER = msgspec.json.Encoder(decimal_format="number")
_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)

Upcaster: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


UPCASTERS: Final[dict[int, Upcaster]] = {}
"""Pure functions of raw JSON from schema version n to n + 1, since the first release."""


def encode(event: Event) -> bytes:
    """Returns the event's JSON form, without fields that hold their default.

    Raises:
        ValueError: The event holds a number that JSON lacks: NaN or Infinity.
    """
    body = _ENCODER.encode(event)
    # msgspec encodes NaN and Infinity as null without an error; a replay would then read None. A
    # null is rare, so other events pay almost nothing for this check.
    if b"null" in body and not is_finite(msgspec.to_builtins(event)):
        raise ValueError("NaN and Infinity are no numbers of JSON")
    return body


def decode(body: bytes | str, version: int = SCHEMA_VERSION) -> Event:
    """Returns the event of a row written with schema `version`.

    Raises:
        msgspec.ValidationError: The row is not an event.
    """
    if version == SCHEMA_VERSION:
        return _DECODER.decode(body)
    raw: dict[str, Any] = msgspec.json.decode(body)
    # One version at a time: an upcaster knows only its own step and is never changed afterwards.
    for number in range(version, SCHEMA_VERSION):
        if number not in UPCASTERS:
            raise msgspec.ValidationError(f"event schema {number} is no longer supported")
        raw = UPCASTERS[number](raw)
    event: Event = msgspec.convert(raw, Event)
    return event
