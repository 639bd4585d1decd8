"""The JSON of requests (bodies and query parameters) and of answers, as Pydantic models.

Requests refuse what they do not know: roles, principals and history cannot be smuggled in.
Later releases may add fields to answers. How long and how many things may be is said here.
"""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    StringConstraints,
    field_validator,
    model_validator,
)

from taofold.agent.options import IfWaiting
from taofold.core.errors import ConfigError
from taofold.core.imported_runs import RUN_ID
from taofold.core.tags import checked_filter, checked_tags
from taofold.runtime.ratings import LONGEST_NOTE
from taofold.server.endpoint import RequestModel

# Characters.
LONGEST_GOAL = 20_000
MOST_FILES = 20
"""Files with one message."""
_Text = Annotated[str, StringConstraints(max_length=LONGEST_GOAL)]
_Name = Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
_RunId = Annotated[str, StringConstraints(pattern=rf"^({RUN_ID})?$")]


def _writable(text: str) -> str:
    """JSON can say half a character; a log cannot keep it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("the text is not valid Unicode") from None
    return text


def _tags(tags: dict[str, str]) -> dict[str, str]:
    try:
        return checked_tags(tags)
    except ConfigError as error:
        raise ValueError(str(error)) from error


def _tag(text: str) -> str:
    try:
        return checked_filter(text)
    except ConfigError as error:
        raise ValueError(str(error)) from error


class Attached(RequestModel):
    """An image, a document or sound: its bytes, or where the model's provider may fetch it."""

    data: str = Field("", description="The bytes, base64.")
    url: Annotated[str, StringConstraints(max_length=2000)] = Field(
        "", description="An https:// address, instead of the bytes. The server does not open it."
    )
    name: _Name = Field("", description="What people and models call it.")

    @model_validator(mode="after")
    def _one(self) -> "Attached":
        if bool(self.data) == bool(self.url):
            raise ValueError("give data or url, one of them")
        return self


class TighterLimits(RequestModel):
    """Limits of one run: they can only be tighter than those of its agent."""

    steps: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    tool_calls: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    tokens: Annotated[int, Field(ge=0, le=1_000_000_000_000)] | None = None
    usd: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None = None
    seconds: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None = None


class NewRun(RequestModel):
    """A run to be started."""

    goal: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_GOAL)] = Field(
        description="What the agent should do."
    )
    agent: _Name = Field("", description="Name of an agent of GET /agents; empty: the first.")
    session: _Name = Field("", description="The conversation it belongs to.")
    ui_context: Annotated[str, StringConstraints(max_length=2000)] = Field(
        "",
        # `uiContext` is how the react-loop document spells it, like the names of the stream.
        validation_alias=AliasChoices("ui_context", "uiContext"),
        description="What the user looks at. The agent gets it as data, in front of the goal.",
    )
    data: dict[str, Any] = Field(
        default_factory=dict[str, Any], description="What the run's state begins with."
    )
    tags: Annotated[dict[str, str], AfterValidator(_tags)] = Field(
        default_factory=dict[str, str], description="Names and values to filter lists by."
    )
    model: _Name = Field("", description="Of an offered agent, instead of this agent's own.")
    limits: TighterLimits | None = Field(None, description="Tighter than the agent's own.")
    on_disconnect: Literal["continue", "cancel"] = Field(
        "continue", description="What becomes of the run when its stream is left for 5 seconds."
    )
    on_busy: Literal["refuse", "wait"] = Field(
        "refuse", description="If a run of the session is at work: 409, or wait for it."
    )
    if_waiting: IfWaiting = Field(
        "answer",
        description="If a run of the session waits for a person: the goal answers its question "
        "(an approval is withdrawn), withdraws it in any case, or 409.",
    )
    attachments: list[Attached] = Field(
        default_factory=list[Attached],
        max_length=MOST_FILES,
        description="What the model is shown besides the goal, in this order.",
    )

    @field_validator("goal", "session", "ui_context", "agent", "model")
    @classmethod
    def _valid(cls, text: str) -> str:
        return _writable(text)

    @field_validator("goal")
    @classmethod
    def _said(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("the goal is empty")
        return text


class Steer(RequestModel):
    """A message for a run that goes on."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_GOAL)]
    message_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:-]{0,100}$")] = ""

    _valid = field_validator("text")(_writable)


class RateBody(RequestModel, title="Rate"):
    """What you think of a run; it takes the place of what you thought of it before."""

    value: Annotated[float, Field(ge=0, le=1, strict=True)] = Field(
        description="From 0 (bad) to 1 (good)."
    )
    note: Annotated[str, StringConstraints(max_length=LONGEST_NOTE)] = ""

    _valid = field_validator("note")(_writable)


class ForkBody(RequestModel, title="Fork"):
    """Where to branch off."""

    # Bounded, because SQLite raises on integers beyond 64 bits; strict, as `false` is not event 0.
    at: Annotated[int, Field(ge=0, le=0xFFFFFFFF, strict=True)] | None = Field(
        None, description="Event number; the last complete step at or before it counts."
    )


class Decide(RequestModel):
    """A person's word on an action that waits."""

    decision: Literal["approve", "deny", "edit", "answer", "done"]
    parameters: dict[str, Any] | None = Field(None, description="For `edit`: run it with these.")
    answer: _Text | None = Field(None, description="For `answer`: to the agent's question.")
    reason: Annotated[str, StringConstraints(max_length=2000)] = ""
    digest: Annotated[str, StringConstraints(max_length=64)] = Field(
        "", description="Of what the person was shown: another action is then refused."
    )

    @field_validator("answer", "reason", "digest")
    @classmethod
    def _valid(cls, text: str | None) -> str | None:
        return text if text is None else _writable(text)


class DecideOne(Decide):
    """A person's word on one of several actions."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=400)]


class DecideMany(RequestModel):
    """A person's word on several actions, such as all that one step asks at once."""

    decisions: Annotated[list[DecideOne], Field(min_length=1, max_length=100)]


class RetirePattern(RequestModel):
    """Why a pattern is shown no more."""

    reason: Annotated[str, StringConstraints(min_length=1, max_length=300)]

    _valid = field_validator("reason")(_writable)


class EditPattern(RequestModel):
    """A pattern in a person's words: all of it, as `GET /patterns/{pattern}` gives it."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    tags: Annotated[list[_Name], Field(max_length=50)]
    body: dict[str, Any]

    _valid = field_validator("name")(_writable)


class Login(RequestModel):
    """A token, or the code of a one-time link, in exchange for a session."""

    token: Annotated[str, StringConstraints(max_length=200)] = ""
    code: Annotated[str, StringConstraints(max_length=200)] = ""

    @model_validator(mode="after")
    def _one(self) -> "Login":
        if bool(self.token) == bool(self.code):
            raise ValueError("say a token or a code")
        return self


class RunsQuery(RequestModel):
    """Which runs."""

    status: Literal["", "running", "waiting", "finished", "limited", "failed", "cancelled"] = ""
    session: _Name = ""
    agent: _Name = ""
    tag: Annotated[str, AfterValidator(_tag)] = Field(
        "", description="`name=value`: runs with this tag."
    )
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: _RunId = Field("", description="`next` of the page before.")


class RecordsQuery(RequestModel):
    """Which records."""

    after: Annotated[int, Field(ge=-1, le=0xFFFFFFFF)] = -1
    limit: Annotated[int, Field(ge=1, le=2000)] = 500


class PromptQuery(RequestModel):
    """Which model call, counted from 1; the last one if it is not given."""

    n: Annotated[int, Field(ge=1, le=0xFFFFFFFF)] | None = None


class StateQuery(RequestModel):
    """Which moment."""

    at: Annotated[int, Field(ge=0, le=0xFFFFFFFF)] | None = None


class EventsQuery(RequestModel):
    """Where a stream begins. A `Last-Event-ID` header comes before `after`."""

    # `streams.events.LONGEST_CURSOR`: a cursor names a place for each child run under way.
    after: Annotated[str, StringConstraints(max_length=4096)] = ""


class Following(EventsQuery):
    """Where a stream begins, and what becomes of the run when it is left."""

    on_disconnect: Literal["continue", "cancel"] = Field(
        "continue", description="What becomes of the run when its stream is left for 5 seconds."
    )


class ApprovalsQuery(RequestModel):
    """Whose approvals."""

    run: _RunId = ""


class LoopsQuery(RequestModel):
    """How many loops."""

    limit: Annotated[int, Field(ge=1, le=500)] = 100


class PatternsQuery(RequestModel):
    """Which patterns; `retired` left out: both."""

    kind: Literal["", "error", "success", "anti", "template"] = ""
    retired: bool | None = None


class ResponseBody(BaseModel):
    """What we answer with. Fields may be added by later releases."""

    # JSON has no NaN or Infinity; browsers refuse a document that holds them.
    model_config = ConfigDict(ser_json_inf_nan="null")


class RunView(ResponseBody, title="Run"):
    """A run in a list."""

    id: str
    status: str
    goal: str
    agent: str
    session: str
    parent: str
    principal: str
    tags: dict[str, str]
    created_at: str
    updated_at: str
    events: int
    waiting_for: str


class Runs(ResponseBody):
    """A page of runs, newest first."""

    items: list[RunView]
    next: str | None


class ApprovalView(ResponseBody, title="Approval"):
    """An action or question that waits for a person."""

    id: str
    run: str
    agent: str
    goal: str
    tool: str
    args: dict[str, Any]
    summary: str
    tier: int
    reason: str
    question: str
    form: dict[str, Any] | None = None
    """JSON Schema of the answer that a tool wants in the middle of its call."""
    digest: str
    requester: str
    batch: str
    """The same for all that one step of a run asks at once."""
    asked_at: str
    expires_at: str | None


class Approvals(ResponseBody):
    """Everything that waits for this principal."""

    items: list[ApprovalView]


class MediaView(ResponseBody, title="Medium"):
    """An image, document or sound. Its bytes are at `/runs/{run}/media/{digest}`.

    Without a digest only its provider can fetch it, from `url`.
    """

    kind: str
    media_type: str
    digest: str
    size: int
    name: str
    url: str


class RunDetail(RunView, title="Detail"):
    """A run, with how it stands."""

    model: str
    strategy: str
    stop_reason: str
    success: bool
    output: Any
    error: str
    steps: int
    model_calls: int
    tool_calls: int
    refused_calls: int
    tokens: int
    usd: float | None
    """US dollars; null where the price of a model is unknown."""
    seconds: float
    metrics: dict[str, Any]
    media: list[MediaView]
    """What the model is shown besides the goal's text."""
    children: list[RunView]
    pending: list[ApprovalView]


class StateView(ResponseBody, title="Moment"):
    """A run's state after one of its events."""

    id: str
    at: int
    goal: str
    agent: str
    model: str
    status: str
    stop_reason: str
    waiting_for: str
    success: bool
    output: Any
    error: str
    data: dict[str, Any]
    steps: list[dict[str, Any]]
    open: dict[str, Any]
    usage: dict[str, Any]
    model_calls: int
    tool_calls: int
    refused_calls: int
    tokens: int
    usd: float | None
    """US dollars; null where the price of a model is unknown."""
    seconds: float


class RecordView(ResponseBody, title="Record"):
    """One event as it stands in the log, and what it says of itself to people."""

    seq: int
    at: str
    event: dict[str, Any]
    summary: str
    alarming: bool


class Records(ResponseBody):
    """Events in order. `next` is what to pass as `after`, null at the end."""

    items: list[RecordView]
    next: int | None


class AuditView(ResponseBody, title="Audited"):
    """Every call of a run with who decided, and every refused attempt to decide."""

    entries: list[dict[str, Any]]
    attempts: list[dict[str, Any]]


class SpanView(ResponseBody, title="Span"):
    """A stretch of a run's time: a model call, a tool call, a wait, or a limit that ended it.

    `start` and `end` are ms since the epoch; `step` is 0 outside of steps. `run` is the child run
    of a call that asked another agent, "" else; its tokens and dollars are the call's. What goes
    on still has the status "open" and ends with the log.
    """

    id: str
    type: Literal["model", "tool", "wait", "limit"]
    name: str
    step: int
    status: str
    start: int
    end: int
    tokens: int = 0
    usd: float | None = 0.0
    run: str = ""


class Spans(ResponseBody):
    """Where the time of a run went, in the order of the starts."""

    items: list[SpanView]


class PromptView(ResponseBody, title="Prompt"):
    """What the model was sent in one call, as `digest` in the log confirms.

    `same` counts the leading messages that the call before has too, `dropped` its further messages.
    `missing` says why the prompt cannot be derived from the log; then there are no messages.
    """

    calls: int
    """Number of model calls of the run."""
    number: int
    key: str
    model: str
    role: str
    digest: str
    missing: str
    system: str
    messages: list[dict[str, Any]]
    same: int
    dropped: int
    tools: list[dict[str, Any]]
    allowed: list[str] | None
    schema_: dict[str, Any] | None = Field(serialization_alias="schema")
    settings: dict[str, Any]


class RatingView(ResponseBody, title="Rating"):
    """What somebody thinks of a run, from 0 (bad) to 1 (good)."""

    by: str
    value: float
    note: str
    at: str


class RatingsView(ResponseBody, title="Ratings"):
    """What people think of a run, who spoke last at the end. `kept`: does this server keep any?"""

    items: list[RatingView]
    kept: bool = True


class DecisionView(ResponseBody, title="Decided"):
    """The decision was taken; the run goes on by itself if `goes_on`, else `note` says where."""

    id: str
    run: str
    decision: str
    goes_on: bool = True
    note: str = ""


class DecisionOutcome(ResponseBody, title="DecisionOutcome"):
    """What became of one of several decisions: taken, or refused with `status` and `detail`."""

    id: str
    taken: bool
    goes_on: bool = False
    note: str = ""
    status: int = 202
    code: str = ""
    detail: str = ""


class DecisionOutcomes(ResponseBody):
    """Each decision is taken or refused by itself."""

    items: list[DecisionOutcome]


class Accepted(ResponseBody):
    """It will happen: the run's events say when."""

    id: str
    accepted: bool = True


class ToolShown(ResponseBody):
    """A tool of an agent."""

    name: str
    description: str
    tier: int
    effect: str
    role: str
    parameters: dict[str, Any]
    options: dict[str, Any]
    """What its author has set besides, as far as it is a plain value: `timeout`, `retries` …"""


class AgentShown(ResponseBody):
    """An agent that can be given a goal."""

    name: str
    description: str
    model: str
    strategy: str
    tools: list[ToolShown]


class Agents(ResponseBody):
    """The agents that are offered; the first is the default."""

    items: list[AgentShown]


class Me(ResponseBody):
    """Who is signed in."""

    id: str
    roles: list[str]
    version: str


class NewSession(Me):
    """Who signed in. Each request sends `session` as `Authorization: Session …`."""

    session: str


class Health(ResponseBody):
    """The server works."""

    status: Literal["ok", "stopping"]
    version: str
    active_runs: int
    queued_runs: int
    watchers: int


class Ready(ResponseBody):
    """May requests be sent to this server? `log`: it cannot reach its log now."""

    status: Literal["ok", "stopping", "log"]


class FaultView(ResponseBody, title="Fault"):
    """What is wrong with one part of a request."""

    where: str
    path: str
    fault: str


class ProblemShape(ResponseBody):
    """Problem details (RFC 9457)."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    faults: list[FaultView] | None = None


class LoopView(ResponseBody, title="Loop"):
    """A loop in a list. `quality` is the share of checks that pass, None before any ran."""

    id: str
    task: str
    status: str
    reason: str
    commands: list[str]
    iterations: int
    max_iterations: int
    quality: float | None
    passed: bool
    control: bool
    usd: float | None
    """US dollars; null where the price of a model is unknown."""
    tokens: int
    started_at: str
    updated_at: str


class Loops(ResponseBody):
    """Loops, the newest first."""

    items: list[LoopView]


class LoopDetail(LoopView, title="LoopDetail"):
    """A loop with what each iteration did and proved, and its report."""

    baseline_quality: float | None
    best: int
    gates: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    lessons: dict[str, Any] | None
    report: dict[str, Any]


class PatternView(ResponseBody, title="Pattern"):
    """Something learnt, with the raw counts behind its rate."""

    id: str
    name: str
    kind: str
    tags: list[str]
    rate: float | None
    usage: int
    successes: int
    failures: int
    loops: int
    probation: bool
    retired: str
    first_discovered: str | None
    last_used: str | None


class Patterns(ResponseBody):
    """What was learnt, the oldest first."""

    items: list[PatternView]


class PatternDetail(PatternView, title="PatternDetail"):
    """A pattern with where it came from, where it was used, and what that was worth."""

    body: dict[str, Any]
    scope: dict[str, Any]
    related: list[str]
    shown: dict[str, Any]
    held: dict[str, Any]
    trend: list[dict[str, Any]]
    lineage: list[dict[str, Any]]


class LearningView(RootModel[dict[str, Any]], title="Learning"):
    """What learning has saved, by the names that are exported."""
