"""Everything that can happen in a run, and its JSON form.

How it starts, forks, resumes, parks, rewinds and ends; replies of models and what became of calls
that gave none; steps with their decisions, starts and observations; what people said; limits and
broken rules; what strategies note. `Event` is the union of them all.

`key` is the place of an effect in its strategy ("0", "3", inside a fork "3.1.0"), the same on
replay; `index` that of an action in its batch. Events are never changed; a `Record` is one with its
number and time. `encode` and `decode` are their JSON, also that of older versions, which upcasters
bring to the present form. Where an imported run came from stands in its start (`Provenance`).

A class says all there is to say of its kind: how durable it is, whether a replay derives it, how
people read it and what of it those who watch may see, and behind `State:` what it does to the
state. So a new kind is its class, its name in the union `Event`, and the place in `runtime` where
it happens; the log, streams, terminal, spans and documents follow. What it changes in the state is
a case of `state.reduce`, which type checkers name. `docs/internals/changing.md` has an example.
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
    """What all events share."""

    disk: ClassVar[bool] = False
    """Must survive a power cut, not only a killed process: the log syncs before going on."""
    timed: ClassVar[bool] = True
    """Does the time since the record before count as activity? Not where nobody was active then:
    at the start, at a resume, behind a fork."""
    derived: ClassVar[bool] = True
    """Does an effect of the strategy derive it, at its `key`? Not what whoever drives the run, or a
    person, adds to it: a replay skips that."""
    incidental: ClassVar[bool] = False
    """Says how the run was driven, not what it did: two runs that differ in it alone are equal."""
    wording: ClassVar[str] = ""
    """The summary of an event `{0}`."""
    heading: ClassVar[str] = ""
    """What stands before its summary where people watch the run; "": they are not told of it, or
    in another way."""
    alarming: ClassVar[bool] = False
    """Should people notice it?"""
    elapsed: Count | None = None
    """Milliseconds of activity since the record before, by a clock that nobody can set; None =
    what the records' times say."""

    def blobs(self) -> tuple[str, ...]:
        """Digests of the bytes beside the log that it speaks of."""
        return ()

    @property
    def optional(self) -> bool:
        """May it be missing in a log of another release, where this code derives it?"""
        return False

    @property
    def public(self) -> Self:
        """The event as those who watch the run see it: whoever shows, streams or exports asks."""
        return self

    def timeless(self) -> Self:
        """The event without `elapsed`: what happened, whatever the machine's clock did meanwhile.

        A replay derives what happened, never when.
        """
        return self if self.elapsed is None else structs.replace(self, elapsed=None)

    @property
    def tag(self) -> str:
        """What its kind is called in the log."""
        return str(self.__struct_config__.tag)

    @property
    def summary(self) -> str:
        """What happened, for people: what `runs log` shows behind the event's name."""
        return self.wording.format(self).rstrip()

    @property
    def announcement(self) -> str | None:
        """What those who watch the run are told; None: nothing, or in another way."""
        return f"{self.heading} {self.summary}" if self.heading else None


class Annotation(Happened, frozen=True):
    """An event that only says something: the state stays as it is, but for the time."""


class ForeignCall(Value, frozen=True):
    """What an imported file says of a call whose outcome it does not hold. Nobody relies on it."""

    tool: str
    fingerprint: str
    """Of tool and parameters, as `core.rules.fingerprint` makes it."""
    decisions: tuple[str, ...] = ()
    """For people: "allow by local"."""
    started: bool = False


class Provenance(Value, frozen=True):
    """Where a run came from that was taken in from a file: its first `events` records.

    They are history. Who decided and who asked there is what the file says, which anybody can
    write: no call is made, and no person's word assumed, because of it.
    """

    source: str
    events: int
    principal: str = ""
    """Who started it there. Here it belongs to whoever took it in."""
    claims: tuple[ForeignCall, ...] = ()
    at: int = 0


class RunStarted(Happened, frozen=True, tag="run_started"):
    """The run's fixed facts. Nothing irreversible has happened yet, so no sync is waited for.

    `goal` is its text; `parts` the goal as it was given, if it holds more than text.

    State: `goal`, `data`, `masked`; `status` is `running`
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
        """The goal as it was given."""
        return self.parts or self.goal

    @property
    def public(self) -> Self:
        """Without what only a provider can read in the conversation before."""
        if not self.history:
            return self
        past = [structs.replace(each, content=veil_opaque(each.content)) for each in self.history]
        return structs.replace(self, history=tuple(past))

    def blobs(self) -> tuple[str, ...]:
        """Of the goal, and of the conversation before it."""
        past = [digest for message in self.history for digest in _digests((), message.content)]
        return _digests(past, self.parts)


class Forked(Annotation, frozen=True, tag="forked"):
    """The events before this one were copied from `run`, up to and including `seq`.

    State: none: what stands before was copied from there
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

    State: `epoch`; `wakes` + 1; `status` is `running`, `waiting_for` ""; calls that were cut off
    are marked, see below
    """

    timed: ClassVar[bool] = False
    derived: ClassVar[bool] = False
    incidental: ClassVar[bool] = True
    heading: ClassVar[str] = "resumed,"
    wording: ClassVar[str] = "epoch {0.epoch}"
    epoch: int
    owner: str = ""
    runtime: str = ""
    """The runtime whose words follow; "": this one."""


class Steered(Happened, frozen=True, tag="steered"):
    """A person's message reached the run; the model reads it once, at its next turn.

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
    """The message as it was given, if it holds more than text."""
    masked: bool = False
    """True if a secret was replaced by a mask in it."""

    @property
    def content(self) -> Content:
        """The message as it was given."""
        return self.parts or self.text

    def blobs(self) -> tuple[str, ...]:
        """Of what was sent with the message."""
        return _digests((), self.parts) if self.parts else ()


class LimitHit(Happened, frozen=True, tag="limit_hit"):
    """A limit was found reached, before the call that would have passed it.

    `value` is 1 if nothing more is called, -1 if the coming turn is the last. `needed` is what
    the call that was not made could have taken, `allowed` the bound then; 0 if that is not the
    reason.

    State: `limits_hit` gets the limit (`value` 1: nothing more is called; -1: the coming turn is
    the last)
    """

    heading: ClassVar[str] = "limit"
    key: str
    limit: str
    value: float
    needed: float = 0.0
    allowed: float = 0.0

    @property
    def summary(self) -> str:
        """For people."""
        return f"{self.limit}{' (last turn)' if self.value < 0 else ''}"


class PromptChanged(Annotation, frozen=True, tag="prompt_changed"):
    """On resume, this code builds another prompt than the one recorded (D13)."""

    derived: ClassVar[bool] = False
    alarming: ClassVar[bool] = True
    heading: ClassVar[str] = "the prompt changed since it was recorded:"
    wording: ClassVar[str] = "{0.recorded} → {0.requested}"
    key: str
    recorded: str
    requested: str


class Replied(Happened, frozen=True, tag="replied"):
    """The model's reply, with what it cost: recorded before anyone tries to read it.

    `prompt` is the digest of what every provider would be told, behind the name of the runtime if
    it is another one (`rust:…`); `prefix` of all that was sent: tools, schema and opaque parts
    too ("" where the Rust runtime asked). `notes` are what the
    provider reported about the request.

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

    @property
    def foreign(self) -> bool:
        """True if another runtime asked: its prompt is in words of its own."""
        return ":" in self.prompt

    def blobs(self) -> tuple[str, ...]:
        """Of the media in it, and of opaque parts that are too long for the log."""
        if isinstance(self.content, str):
            return ()
        held = [part.digest for part in self.content if type(part) is OpaquePart]
        return _digests(held, self.content)

    @property
    def public(self) -> Self:
        """Without what only a provider can read."""
        # Opaque parts hold what the model saw or thought in a form no redaction can look into.
        content = veil_opaque(self.content)
        return self if content is self.content else structs.replace(self, content=content)

    @property
    def text(self) -> str:
        """What it says, without thinking and calls."""
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
        """For people."""
        tokens = f"{text.number(self.usage.tokens)} tokens, {text.duration(self.ms)}"
        reply = self.text or ", ".join([call.name for call in self.calls])
        return f"{tokens}{' (cached)' * self.cached}: {reply}"


class Cut(Annotation, frozen=True, tag="cut"):
    """From here on nothing opaque is sent back from the first `messages` of the conversation.

    `reason`: "refused" (the provider would not take it), "prompt_changed", "tools_changed",
    "redacted", "lost" (its bytes are not in this log).
    """

    alarming: ClassVar[bool] = True
    heading: ClassVar[str] = "what the provider signed is not sent back from here on,"
    wording: ClassVar[str] = "{0.reason}: {0.messages} messages {0.detail}"
    key: str
    reason: str
    messages: int
    detail: str = ""


class Hooked(Annotation, frozen=True, tag="hooked"):
    """A hook changed what becomes of the model call at `key`; a replay does the same.

    `point` is "before_model" or "after_model". `rejected`: why the run ends here, "" = it goes
    on, and the model is told `message` besides.
    """

    heading: ClassVar[str] = "hook"
    key: str
    hook: str
    point: str
    rejected: str = ""
    message: str = ""

    @property
    def summary(self) -> str:
        """For people."""
        return f"{self.hook} {self.point}: {self.rejected or self.message}"


class AskFailed(Annotation, frozen=True, tag="ask_failed"):
    """The provider failed after its retries."""

    alarming: ClassVar[bool] = True
    heading: ClassVar[str] = "the model failed:"
    wording: ClassVar[str] = "{0.kind}: {0.message}"
    key: str
    kind: str
    message: str


class Violated(Annotation, frozen=True, tag="violated"):
    """A rule of the loop was broken; `steps` are the numbers of the steps concerned.

    `refused`: the reply was not acted on, and `detail` was sent to the model as the reason.
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
        """That a reply was refused, and why; nothing where a lenient run accepted its form."""
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

    State: of kind `state`, its `data` goes over the state's; else none (`branch`: which way a flow
    took, `{node, to}`)
    """

    key: str
    kind: str
    data: dict[str, Any] = {}

    @property
    def summary(self) -> str:
        """For people."""
        if self.kind == "branch":
            # An imported file may hold whatever it likes here.
            node, target = self.data.get("node", ""), self.data.get("to") or "the next node"
            return f"{self.kind} {node} → {target}"
        return f"{self.kind} {text.value(self.data)}"

    @property
    def optional(self) -> bool:
        """Which way a flow took was not always noted."""
        return self.kind == "branch"

    @property
    def announcement(self) -> str | None:
        """Which way a flow took."""
        return self.summary if self.kind == "branch" else None


class Proposed(Happened, frozen=True, tag="proposed"):
    """A thought and its batch of actions: the opening of a step.

    State: opens the step `key`: a slot for each action
    """

    key: str
    thought: Thought
    actions: tuple[Action, ...]

    @property
    def summary(self) -> str:
        """For people."""
        calls = [f"{a.tool} {text.parameters(a.parameters, 60)}" for a in self.actions]
        thought = text.line(self.thought.content, 70)
        return f"{self.thought.type}: {thought} → {'; '.join(calls)}"


class Decided(Happened, frozen=True, tag="decided"):
    """May the action run? `ask` opens an approval, a later `Decided` closes it.

    `expires_at` is in milliseconds since the epoch (0 = never); `action` as a person edited it;
    `request`: of a question in the middle of a call, the answer's `form` and the tool's `state`;
    `attempt`: how often the call had been started when it was asked. An answer is about these
    starts only: after the next one it permits nothing.

    State: `status` is `running`; `action`, if it is there, takes the slot's place
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
    """Who may answer; None where no person is asked."""

    @property
    def decider(self) -> str:
        """Who decided, for people."""
        return self.by

    @property
    def summary(self) -> str:
        """For people."""
        by = "" if self.by == "policy" else f" by {self.decider}"
        return f"[{self.index}] {self.verdict}{by} (tier {self.tier}) {self.reason}"


class Resolved(Decided, frozen=True, tag="resolved"):
    """An approval was closed: by a person, the clock, or a change of what it was bound to.

    `imported`: so says a file that was taken in; nobody checked it here.

    State: as `decided`; `masked` if the event is
    """

    disk: ClassVar[bool] = True
    imported: bool = False
    masked: bool = False
    """True if a mask replaced a secret in the user's text."""

    @property
    def decider(self) -> str:
        """Who decided, for people."""
        return f"{self.by} elsewhere (imported)" if self.imported else self.by


class Started(Happened, frozen=True, tag="started"):
    """The tool is about to be called. Without an `Observed`, nobody knows whether it ran.

    With `kept` the call goes on: the tool has put on record how (`RunContext.keep`), so that after
    a crash it is called again with that, and nobody needs to be asked whether it happened.
    A `retry` is the call made once more after it raised: the first is 1, and each counts as a call.

    State: if the slot had not started, or was cut off, or `retry` is above 0: `tool_calls` + 1,
    `per_tool[tool]` + 1, `refused_row` is 0
    """

    wording: ClassVar[str] = "[{0.index}]"
    key: str
    index: int = 0
    kept: Any = None
    retry: int = 0


# A class of its own per durability: `disk` is a fact of the type, so that the log knows it without
# looking into the event.
class StartedOnce(Started, frozen=True, tag="started_once"):
    """The same for a tool that must not be repeated: on disk before the call.

    State: as `started`
    """

    disk: ClassVar[bool] = True
    effect: str = "once"


class Observed(Happened, frozen=True, tag="observed"):
    """What came back from the action at `key`, `index`; `usage` is what a child run consumed.

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
        """With as much of the observation as `Observation.public` says."""
        public = self.observation.public
        return self if public is self.observation else structs.replace(self, observation=public)

    def blobs(self) -> tuple[str, ...]:
        """Of the whole result, if it was cut, and of the media in it."""
        observation = self.observation
        if not observation.blob and not observation.parts:
            return ()
        return _digests((observation.blob,), observation.parts)

    @property
    def summary(self) -> str:
        """For people."""
        observation = self.observation
        result = observation.extraction or text.value(observation.result)
        remark = f", {observation.remark}" if observation.remark else ""
        took = f"{text.duration(observation.duration_ms)}{remark}"
        return f"[{self.index}] {observation.status} {took}: {result}"


class DecisionRefused(Annotation, frozen=True, tag="decision_refused"):
    """Somebody tried to decide on `id` who may not."""

    derived: ClassVar[bool] = False
    wording: ClassVar[str] = "{0.id} by {0.by}: {0.why}"
    id: str
    by: str
    why: str
    at: int = 0


class Updated(Happened, frozen=True, tag="updated"):
    """A Redux-style action changed the state's `name`.

    State: `data[name]` is `value`
    """

    derived: ClassVar[bool] = False
    name: str
    # A whole value, never a difference: folding needs no earlier state, and a rewind no inverse.
    value: Any = None
    action: str = ""

    @property
    def summary(self) -> str:
        """For people."""
        return f"{self.name} = {text.value(self.value)}"


class Parked(Happened, frozen=True, tag="parked"):
    """The run waits for a person: no process, no slot, only rows.

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
    """The end of the run (D1). Lost to a power cut, it is derived again on resume.

    State: these six; `waiting_for` is ""
    """

    derived: ClassVar[bool] = False
    status: str
    stop_reason: str
    success: bool
    output: Any = None
    """The answer as the JSON that its type accepted, with hidden fields masked."""
    error: str = ""
    accepted: Any = None
    """The answer without masks, if `output` has some. The typed value is made of it."""

    @property
    def summary(self) -> str:
        """For people."""
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
    | AskFailed
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
        """The record as those who watch the run see it (`Happened.public`)."""
        event = self.event.public
        return self if event is self.event else Record(self.run, self.seq, self.at, event)


SCHEMA_VERSION: Final = 2
"""Version of the events' JSON form. Raise it with an upcaster in `UPCASTERS`."""

_ENCODER = msgspec.json.Encoder(decimal_format="number")
_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)

Upcaster: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


UPCASTERS: Final[dict[int, Upcaster]] = {}
"""From schema version n to n + 1: a pure function of the raw JSON, from the first release on."""


def encode(event: Event) -> bytes:
    """The event's JSON form, as small as it can be: defaults are left out.

    Raises:
        ValueError: it holds a number that JSON has not: NaN, Infinity.
    """
    body = _ENCODER.encode(event)
    # The encoder writes null for such a number; it is rare, so others pay next to nothing.
    # msgspec encodes NaN and Infinity as null without an error; a replay would then read None.
    if b"null" in body and not is_finite(msgspec.to_builtins(event)):
        raise ValueError("NaN and Infinity are no numbers of JSON")
    return body


def decode(body: bytes | str, version: int = SCHEMA_VERSION) -> Event:
    """Read a row written with schema `version`.

    Raises:
        msgspec.ValidationError: the row is not an event.
    """
    if version == SCHEMA_VERSION:
        return _DECODER.decode(body)
    raw: dict[str, Any] = msgspec.json.decode(body)
    # One version at a time: an upcaster knows only its own step and is never changed afterwards.
    for number in range(version, SCHEMA_VERSION):
        if number not in UPCASTERS:
            raise msgspec.ValidationError(f"schema {number} of events is read no more")
        raw = UPCASTERS[number](raw)
    event: Event = msgspec.convert(raw, Event)
    return event
