"""Pydantic models of requests (bodies and query parameters) and responses.

Requests refuse unknown fields, so roles, principals and history cannot be added. Later releases may
add fields to responses. Limits of lengths and numbers are defined here.
"""

import re
from typing import Annotated, Any, Final, Literal, Self

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
from taofold.memory.offer import LONGEST_NOTE as LONGEST_ENTRY
from taofold.runtime.ratings import LONGEST_NOTE
from taofold.server.endpoint import RequestModel

# Characters.
LONGEST_GOAL = 20_000
MOST_FILES = 20
"""Maximum files of one message."""
_Text = Annotated[str, StringConstraints(max_length=LONGEST_GOAL)]
_Name = Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
_NoteText = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_ENTRY)]
_RunId = Annotated[str, StringConstraints(pattern=rf"^({RUN_ID})?$")]


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
    """An image, document or sound: its bytes, or an address for the model's provider."""

    data: str = Field("", description="The bytes, base64.")
    url: Annotated[str, StringConstraints(max_length=2000)] = Field(
        "", description="An https:// address, instead of the bytes. The server does not open it."
    )
    name: _Name = Field("", description="Name for users and models.")

    @model_validator(mode="after")
    def _one(self) -> "Attached":
        if bool(self.data) == bool(self.url):
            raise ValueError("give either data or url")
        return self


class TighterLimits(RequestModel):
    """Limits of one run, which can only be tighter than those of its agent."""

    steps: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    tool_calls: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    tokens: Annotated[int, Field(ge=0, le=1_000_000_000_000)] | None = None
    usd: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None = None
    seconds: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None = None


class NewRun(RequestModel):
    """A run to start."""

    goal: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_GOAL)] = Field(
        description="Task of the agent."
    )
    agent: _Name = Field("", description="Name of an agent of GET /agents; empty: the first.")
    session: _Name = Field("", description="Conversation of the run.")
    ui_context: Annotated[str, StringConstraints(max_length=2000)] = Field(
        "",
        # `uiContext` is the spelling of the react-loop document, like the names of the stream.
        validation_alias=AliasChoices("ui_context", "uiContext"),
        description="What the user sees. The agent gets it as data, before the goal.",
    )
    data: dict[str, Any] = Field(
        default_factory=dict[str, Any], description="Initial data of the run's state."
    )
    tags: Annotated[dict[str, str], AfterValidator(_tags)] = Field(
        default_factory=dict[str, str], description="Names and values for filters of lists."
    )
    model: _Name = Field("", description="Model of a served agent, instead of this agent's own.")
    limits: TighterLimits | None = Field(None, description="Tighter than the agent's own.")
    on_disconnect: Literal["continue", "cancel"] = Field(
        "continue", description="Effect on the run if you disconnect for 5 seconds."
    )
    on_busy: Literal["refuse", "wait"] = Field(
        "refuse", description="If a run of the session is running: 409, or wait for it."
    )
    if_waiting: IfWaiting = Field(
        "answer",
        description="If a run of the session waits: the goal answers its question "
        "(an approval is withdrawn), withdraws it in any case, or 409.",
    )
    attachments: list[Attached] = Field(
        default_factory=list[Attached],
        max_length=MOST_FILES,
        description="Files for the model besides the goal, in this order.",
    )

    @field_validator("goal")
    @classmethod
    def _said(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("the goal is empty")
        return text


class Steer(RequestModel):
    """A message for an open run."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_GOAL)]
    message_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:-]{0,100}$")] = ""


class RateBody(RequestModel, title="Rate"):
    """A rating of a run. It replaces your earlier rating."""

    value: Annotated[float, Field(ge=0, le=1, strict=True)] = Field(
        description="From 0 (bad) to 1 (good)."
    )
    note: Annotated[str, StringConstraints(max_length=LONGEST_NOTE)] = ""


class MemoryQuery(RequestModel):
    """The agent whose notes are listed."""

    agent: _Name = ""


class EditNote(RequestModel):
    """A correction of a note."""

    agent: _Name = Field(description="The agent whose notebook has the note.")
    text: _NoteText | None = None
    pinned: Annotated[bool, Field(strict=True)] | None = None


class ForgetNote(RequestModel):
    """The notebook of a note."""

    agent: _Name = Field(description="The agent whose notebook has the note.")


class ForkBody(RequestModel, title="Fork"):
    """The place of a fork."""

    # Bounded, because SQLite raises on integers beyond 64 bits; strict, as `false` is not event 0.
    at: Annotated[int, Field(ge=0, le=0xFFFFFFFF, strict=True)] | None = Field(
        None, description="Event number. The fork ends at the last complete step at or before it."
    )
    files: Annotated[bool, Field(strict=True)] = Field(
        True,
        description="Restores the files of the step in a folder of the server, if the run stores "
        "them. False leaves them as they are.",
    )


class Decide(RequestModel):
    """A decision on a waiting action."""

    decision: Literal["approve", "deny", "edit", "answer", "done"]
    parameters: dict[str, Any] | None = Field(None, description="For `edit`: the new parameters.")
    answer: _Text | None = Field(None, description="For `answer`: the answer to the question.")
    reason: Annotated[str, StringConstraints(max_length=2000)] = ""
    digest: Annotated[str, StringConstraints(max_length=64)] = Field(
        "", description="Digest of the displayed action. Another action is then refused."
    )


class DecideOne(Decide):
    """A decision on one of several actions."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=400)]


class DecideMany(RequestModel):
    """Decisions on several actions, for instance all of one step."""

    decisions: Annotated[list[DecideOne], Field(min_length=1, max_length=100)]


class RetirePattern(RequestModel):
    """The reason for retiring a pattern."""

    reason: Annotated[str, StringConstraints(min_length=1, max_length=300)]


class EditPattern(RequestModel):
    """A rewritten pattern, complete, in the form of `GET /patterns/{pattern}`."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    tags: Annotated[list[_Name], Field(max_length=50)]
    body: dict[str, Any]


class Login(RequestModel):
    """A token, or the code of a one-time link, in exchange for a session."""

    token: Annotated[str, StringConstraints(max_length=200)] = ""
    code: Annotated[str, StringConstraints(max_length=200)] = ""

    @model_validator(mode="after")
    def _one(self) -> "Login":
        if bool(self.token) == bool(self.code):
            raise ValueError("give either a token or a code")
        return self


class RunsQuery(RequestModel):
    """Filters of runs."""

    status: Literal[
        "",
        "running",
        "queued",
        "interrupted",
        "forked",
        "rewound",
        "waiting",
        "finished",
        "limited",
        "failed",
        "cancelled",
    ] = Field("", description="As `status` of the runs in the answer.")
    session: _Name = ""
    agent: _Name = ""
    tag: Annotated[str, AfterValidator(_tag)] = Field(
        "", description="`name=value`: runs with this tag."
    )
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: _RunId = Field("", description="`next` of the previous page.")


class RecordsQuery(RequestModel):
    """Selects records."""

    after: Annotated[int, Field(ge=-1, le=0xFFFFFFFF)] = -1
    limit: Annotated[int, Field(ge=1, le=2000)] = 500


class PromptQuery(RequestModel):
    """Selects a model call, counted from 1. Default: the last one."""

    n: Annotated[int, Field(ge=1, le=0xFFFFFFFF)] | None = None


class StateQuery(RequestModel):
    """Selects a moment of the run."""

    at: Annotated[int, Field(ge=0, le=0xFFFFFFFF)] | None = None


class FilesQuery(RequestModel):
    """Selects the run to compare with."""

    other: Annotated[str, Field(min_length=1, max_length=200)]


class EventsQuery(RequestModel):
    """The start of a stream. A `Last-Event-ID` header takes precedence over `after`."""

    # `streams.events.LONGEST_CURSOR`: a cursor has a position for each open child run.
    after: Annotated[str, StringConstraints(max_length=4096)] = ""


class Following(EventsQuery):
    """The start of a stream, and the effect of a disconnect on the run."""

    on_disconnect: Literal["continue", "cancel"] = Field(
        "continue", description="Effect on the run if you disconnect for 5 seconds."
    )


class LiftBudget(RequestModel):
    """A lift of a budget for one of its scopes."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    scope: Annotated[str, StringConstraints(max_length=500)] = Field(
        "", description="Such as `principal:ada`. May be omitted for a budget of all runs."
    )
    reason: Annotated[str, StringConstraints(max_length=2000)] = ""


class ApprovalsQuery(RequestModel):
    """Filters of approvals."""

    run: _RunId = ""


class LoopsQuery(RequestModel):
    """Limits the number of loops."""

    limit: Annotated[int, Field(ge=1, le=500)] = 100


class PatternsQuery(RequestModel):
    """Filters of patterns. Without `retired`: both."""

    kind: Literal["", "error", "success", "anti", "template"] = ""
    retired: bool | None = None


class ResponseBody(BaseModel):
    """Base of responses. Later releases may add fields."""

    # JSON has no NaN or Infinity; browsers refuse documents with them.
    model_config = ConfigDict(ser_json_inf_nan="null")

    @classmethod
    def of(cls, value: object, **others: Any) -> Self:
        """Returns the response with `others`; other fields are attributes of `value`."""
        names = cls.model_fields.keys() - others.keys()
        return cls(**{name: getattr(value, name) for name in names}, **others)


class RunView(ResponseBody, title="Run"):
    """A run in a list."""

    id: str
    status: str
    """Stored as running without a driver: `queued`, `interrupted`, `forked` or `rewound`."""
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


class ForkedFiles(ResponseBody):
    """The files with which a fork begins."""

    restored: bool
    folder: str
    """The folder on the server in which the fork works; "" = the agent's own."""
    step: int
    why: str
    """Why they were not restored."""
    left_out: list[str]
    """Paths that the stored state does not hold: ignored, too large, nested repositories."""
    effects_kept: list[str]
    """Later calls that may have had effects outside of the files. They are not undone."""


class ForkView(RunView, title="ForkedRun"):
    """A fork."""

    files: ForkedFiles | None
    """None if the run stores no files."""


class Runs(ResponseBody):
    """A page of runs, newest first."""

    items: list[RunView]
    next: str | None


class ApprovalView(ResponseBody, title="Approval"):
    """A waiting action or question."""

    id: str
    run: str
    agent: str
    goal: str
    tool: str
    args: dict[str, Any]
    summary: str
    tier: int
    requires_confirmation: bool
    """True for an action to approve, false for a question to answer."""
    reason: str
    question: str
    form: dict[str, Any] | None = None
    """JSON Schema of the answer that a tool requests during its call."""
    digest: str
    requester: str
    batch: str
    """Equal for all approvals of one step."""
    asked_at: str
    expires_at: str | None


class BudgetView(ResponseBody, title="Budget"):
    """The spending of one scope in the present period of a budget."""

    name: str
    scope: str
    per: str
    period: str
    spent_usd: float
    spent_tokens: int
    unpriced_tokens: int
    """Tokens of models without a known price."""
    usd: float | None
    tokens: int | None
    share: float
    until: str
    """The end of the period."""
    lifted_by: str
    lifted_reason: str
    warn: float
    """The share from which runs record a warning."""
    may_lift: bool
    """True if the caller may lift it now."""


class Budgets(ResponseBody):
    """The budgets that this principal may see."""

    items: list[BudgetView]


class BudgetLifted(ResponseBody):
    """A lift: the scope has the amount once more until the period ends."""

    name: str
    scope: str
    until: str


_PERIOD: Final = re.compile(r"^(all|[0-9]{1,4}[mhdw])$")


class TestedPolicy(RequestModel, title="TestPolicy"):
    """A policy to test on stored runs."""

    policy: Annotated[str, StringConstraints(max_length=65_536)] = Field(
        description="The text of a policy file, YAML or JSON. It takes the place of the agent's."
    )
    agent: _Name = Field("", description="Name of an agent of GET /agents; empty: the first.")
    since: str = Field(
        "30d",
        json_schema_extra={"pattern": _PERIOD.pattern},
        description="The agent's runs of this period: minutes, hours, days, weeks, or all.",
    )
    runs: list[Annotated[str, StringConstraints(pattern=rf"^{RUN_ID}$")]] = Field(
        [], max_length=100, description="These runs instead of a period."
    )

    @field_validator("since")
    @classmethod
    def _is_period(cls, word: str) -> str:
        if not _PERIOD.fullmatch(word):
            raise ValueError("a period is a number and m, h, d or w, such as 30d, or all")
        return word


class PolicyQuery(RequestModel):
    """The agent whose policy is shown."""

    agent: _Name = Field("", description="Name of an agent of GET /agents; empty: the first.")


class PolicyText(ResponseBody):
    """The policy of an agent, as the text of a policy file."""

    agent: str
    text: str


class PolicyChange(ResponseBody):
    """Stored calls of one tool whose verdict changes in the same way, by the same rule."""

    tool: str
    recorded: Literal["allow", "ask", "deny"]
    now: Literal["allow", "ask", "deny"]
    rule: str
    direction: Literal["loosened", "tightened"]
    calls: int
    runs: int
    answers: dict[str, int]
    """Answers of approvers to the recorded questions."""
    examples: list[str]
    """Some of the calls, as `RUN:SEQ`."""
    reason: str


class PolicyFinding(ResponseBody):
    """Answers or model calls that the policy would have refused, by one rule."""

    rule: str
    effect: str
    direction: Literal["loosened", "tightened"]
    count: int
    runs: int
    examples: list[str]
    reason: str


class PolicyTest(ResponseBody):
    """The verdicts of a policy on stored calls that the caller may read."""

    runs: int
    calls: int
    loosened: int
    tightened: int
    unchanged: dict[str, int]
    """Calls with the recorded verdict, by verdict."""
    changes: list[PolicyChange]
    further: int
    """Number of changes that the list leaves out."""
    findings: list[PolicyFinding]
    uncovered: list[str]
    """Rules that no stored call meets."""
    unjudged: dict[str, int]
    """Calls that could not be judged, by reason."""
    limits: list[str]
    """The gaps of the result, one sentence each."""
    untested: list[str]
    """Rules whose use is not in the log of a run."""
    left_out: int
    """Number of forks of `taofold runs recheck` that a period leaves out."""


class Approvals(ResponseBody):
    """All approvals that wait for this principal."""

    items: list[ApprovalView]


class MediaView(ResponseBody, title="Medium"):
    """An image, document or sound. Its bytes are at `/runs/{run}/media/{digest}`.

    Without a digest only the model's provider can fetch it, from `url`.
    """

    kind: str
    media_type: str
    digest: str
    size: int
    name: str
    url: str


class RunDetail(RunView, title="Detail"):
    """A run with its state."""

    active_agent: str
    """The agent that continues the run; `agent` is the one with which it began."""
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
    """Files of the goal."""
    children: list[RunView]
    pending: list[ApprovalView]


class StateView(ResponseBody, title="Moment"):
    """A run's state after one of its events."""

    id: str
    at: int
    goal: str
    agent: str
    active_agent: str
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
    """One event of the log, with a summary."""

    seq: int
    at: str
    event: dict[str, Any]
    summary: str
    alarming: bool


class Records(ResponseBody):
    """Events in order. `next` is the next value of `after`, null at the end."""

    items: list[RecordView]
    next: int | None


class AuditView(ResponseBody, title="Audited"):
    """All calls of a run with their decisions, and all refused attempts to decide."""

    entries: list[dict[str, Any]]
    attempts: list[dict[str, Any]]


class FileChangeView(ResponseBody, title="FileChange"):
    """A file that differs. `kind` is added, removed, changed or mode."""

    kind: str
    path: str


class FilesView(ResponseBody, title="Files"):
    """The differences between the last stored files of two runs.

    `stored` is false if one of them stored none, or they are gone. `patch` is a unified diff, cut
    at about 100,000 characters.
    """

    stored: bool
    changes: list[FileChangeView] = []
    patch: str = ""


EvidenceStatus = Literal["verified", "unsigned", "no_key", "broken", "none"]


class EvidenceView(ResponseBody, title="Evidence"):
    """The verdict on a run's hash chain.

    `verified`: signatures of the server's keys cover all records. `unsigned`: the chain holds, and
    some records have no signature. `no_key`: it is signed by other keys. `broken`: record `first`
    or its link was changed. `none`: the log has no chain. The records before `signed` are covered
    by a signature. `keys` are those that signed the last record; with `no_key` the names of others.
    """

    status: EvidenceStatus
    text: str
    records: int = 0
    signed: int = 0
    first: int | None = None
    keys: list[str] = []


class SpanView(ResponseBody, title="Span"):
    """A part of a run's time: a model call, a tool call, a wait, or a limit that ended the run.

    `start` and `end` are ms since the epoch; `step` is 0 outside of steps. `run` is the child run
    of a call to another agent, else ""; its tokens and dollars count as the call's. A running span
    has the status "open" and ends with the log.
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
    """The spans of a run, in the order of their starts."""

    items: list[SpanView]


class PromptView(ResponseBody, title="Prompt"):
    """The prompt of one model call, confirmed by the log's `digest`.

    `same` counts the leading messages that equal those of the previous call, `dropped` its further
    messages. `missing` is the reason if the prompt cannot be derived from the log; then there are
    no messages.
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
    """A rating of a run, from 0 (bad) to 1 (good)."""

    by: str
    value: float
    note: str
    at: str


class RatingsView(ResponseBody, title="Ratings"):
    """Ratings of a run, the latest last. `kept`: true if this server stores ratings."""

    items: list[RatingView]
    kept: bool = True


class DecisionView(ResponseBody, title="Decided"):
    """An accepted decision.

    If `goes_on`, the run continues by itself; else `note` has the place.
    """

    id: str
    run: str
    decision: str
    goes_on: bool = True
    note: str = ""


class DecisionOutcome(ResponseBody, title="DecisionOutcome"):
    """The result of one of several decisions: taken, or refused with `status` and `detail`."""

    id: str
    taken: bool
    goes_on: bool = False
    note: str = ""
    status: int = 202
    code: str = ""
    detail: str = ""


class DecisionOutcomes(ResponseBody):
    """The results of several decisions, each taken or refused separately."""

    items: list[DecisionOutcome]


class Accepted(ResponseBody):
    """The request is accepted; the run's events report its effect."""

    id: str
    accepted: bool = True


class ToolShown(ResponseBody):
    """A tool of an agent."""

    name: str
    description: str
    tier: int
    requires_confirmation: bool
    """True if a call waits for an approval under the policy of the agent."""
    effect: str
    role: str
    parameters: dict[str, Any]
    options: dict[str, Any]
    """Further options of the tool with plain values: `timeout`, `retries` …"""


class AgentShown(ResponseBody):
    """A served agent."""

    name: str
    description: str
    model: str
    strategy: str
    tools: list[ToolShown]


class Agents(ResponseBody):
    """The served agents; the first is the default."""

    items: list[AgentShown]


class Me(ResponseBody):
    """The signed-in principal."""

    id: str
    roles: list[str]
    version: str


class NewSession(Me):
    """A new session. Each request sends `session` as `Authorization: Session …`."""

    session: str


class Health(ResponseBody):
    """The health of the server."""

    status: Literal["ok", "stopping"]
    version: str
    active_runs: int
    queued_runs: int
    watchers: int


class Ready(ResponseBody):
    """The readiness of the server. `log`: it cannot reach its log."""

    status: Literal["ok", "stopping", "log"]


class FaultView(ResponseBody, title="Fault"):
    """A fault in one part of a request."""

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
    """A loop in a list. `quality` is the share of passing checks, None before any ran."""

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
    """A loop with its iterations and its report."""

    baseline_quality: float | None
    best: int
    gates: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    lessons: dict[str, Any] | None
    report: dict[str, Any]


class NoteView(ResponseBody, title="Note"):
    """A note of an agent about its user."""

    id: str
    agent: str
    text: str
    origin: str = Field(description="user, model, mixed or correction.")
    after: list[str] = Field(description="Names of the foreign texts that the run had read.")
    source: str = Field(description="Both as the model reads them.")
    author: str
    by: str
    at: str
    run: str
    step: int
    pinned: bool
    earlier: list[str]


class ForgottenNote(ResponseBody):
    """A note that was deleted."""

    id: str


class Notes(ResponseBody):
    """Notes, the newest first in each notebook."""

    items: list[NoteView]


class PatternView(ResponseBody, title="Pattern"):
    """A pattern with the counts behind its rate."""

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
    """Patterns, the oldest first."""

    items: list[PatternView]


class PatternDetail(PatternView, title="PatternDetail"):
    """A pattern with its sources, uses and benefit."""

    body: dict[str, Any]
    scope: dict[str, Any]
    related: list[str]
    shown: dict[str, Any]
    held: dict[str, Any]
    trend: list[dict[str, Any]]
    lineage: list[dict[str, Any]]


class LearningView(RootModel[dict[str, Any]], title="Learning"):
    """The measured benefit of learning, by exported names."""
