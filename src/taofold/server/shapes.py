"""The JSON of answers. Later releases may add fields."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from taofold.server.shapes_asked import LONGEST_GOAL as LONGEST_GOAL
from taofold.server.shapes_asked import Decide as Decide
from taofold.server.shapes_asked import RunsQuery as RunsQuery


class Answer(BaseModel):
    """What we answer with. Fields may be added by later releases."""

    model_config = ConfigDict(ser_json_inf_nan="null")


class Run(Answer):
    """A run in a list."""

    id: str
    status: str
    goal: str
    agent: str
    session: str
    parent: str
    principal: str
    created_at: str
    updated_at: str
    events: int
    waiting_for: str


class Runs(Answer):
    """A page of runs, newest first."""

    items: list[Run]
    next: str | None


class Approval(Answer):
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
    asked_at: str
    expires_at: str | None


class Approvals(Answer):
    """Everything that waits for this principal."""

    items: list[Approval]


class Medium(Answer):
    """An image, document or sound. Its bytes are at `/runs/{run}/media/{digest}`.

    Without a digest only its provider can fetch it, from `url`.
    """

    kind: str
    media_type: str
    digest: str
    size: int
    name: str
    url: str


class Detail(Run):
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
    usd: float
    seconds: float
    metrics: dict[str, Any]
    media: list[Medium]
    """What the model is shown besides the goal's text."""
    children: list[Run]
    pending: list[Approval]


class Moment(Answer):
    """A run's state after one of its events."""

    run_id: str
    at: int
    goal: str
    status: str
    stop_reason: str
    waiting_for: str
    success: bool
    output: Any
    error: str
    data: dict[str, Any]
    steps: list[dict[str, Any]]
    open: dict[str, Any]
    model_calls: int
    tool_calls: int
    refused_calls: int
    tokens: int
    usd: float
    seconds: float


class Record(Answer):
    """One event as it stands in the log."""

    seq: int
    at: str
    event: dict[str, Any]


class Records(Answer):
    """Events in order. `next` is what to pass as `after`, null at the end."""

    items: list[Record]
    next: int | None


class Audited(Answer):
    """Every call of a run with who decided, and every refused attempt to decide."""

    entries: list[dict[str, Any]]
    attempts: list[dict[str, Any]]


class Decided(Answer):
    """The decision was taken; the run goes on by itself if `goes_on`, else `note` says where."""

    id: str
    run: str
    decision: str
    goes_on: bool = True
    note: str = ""


class Accepted(Answer):
    """It will happen: the run's events say when."""

    id: str
    accepted: bool = True


class ToolShown(Answer):
    """A tool of an agent."""

    name: str
    description: str
    tier: int
    effect: str
    role: str
    parameters: dict[str, Any]


class AgentShown(Answer):
    """An agent that can be given a goal."""

    name: str
    description: str
    model: str
    strategy: str
    tools: list[ToolShown]


class Agents(Answer):
    """The agents that are offered; the first is the default."""

    items: list[AgentShown]


class Me(Answer):
    """Who is signed in. `csrf` goes into the header X-CSRF-Token, if signed in by cookie."""

    id: str
    roles: list[str]
    csrf: str
    version: str


class Health(Answer):
    """The server works."""

    status: Literal["ok", "stopping"]
    version: str
    active_runs: int
    queued_runs: int
    watchers: int


class Ready(Answer):
    """May requests be sent to this server? `log`: it cannot reach its log now."""

    status: Literal["ok", "stopping", "log"]


class Fault(Answer):
    """What is wrong with one part of a request."""

    where: str
    path: str
    fault: str


class ProblemShape(Answer):
    """Problem details (RFC 9457)."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    faults: list[Fault] | None = None
