"""The spans of a run, as values: what was done, from when to when, and how it ended.

They know nothing about OpenTelemetry or Opik; `attributes` and `opik` say it in their words.
Times are milliseconds since the epoch, with fractions.
"""

from typing import Any, TypeAlias

import msgspec

from taofold.core.content import Issuer, ToolCall, Usage
from taofold.core.events import Record
from taofold.core.metrics import measure
from taofold.telemetry.prompt import Prompt


class Timed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What all spans share. `trace`, `id` and `parent` are hex digits ("" = the root)."""

    run: str
    trace: str
    id: str
    parent: str
    began: int
    """When the trace began: the same for all its spans, also those of child runs."""
    agent: str
    session: str = ""
    user: str = ""
    """Who the run is for; "" for the local user of a command line."""
    start: float
    end: float
    error: str = ""
    """The kind of failure, a word: timeout, denied, rate, … ("" = none)."""
    message: str = ""
    """What was said about it."""


class Mark(msgspec.Struct, frozen=True, gc=False):
    """Something that happened at one moment of a run. `said` may quote models and tools."""

    name: str
    at: float
    facts: dict[str, str | int | float | bool]
    said: str = ""


class Link(msgspec.Struct, frozen=True, gc=False):
    """Another span, perhaps of another trace, that this one goes back to."""

    trace: str
    id: str
    why: str


class AgentSpan(Timed, frozen=True, kw_only=True):
    """A whole run."""

    model: str
    strategy: str
    goal: str
    instructions: str = ""
    status: str
    output: Any = None
    stop_reason: str = ""
    success: bool = False
    root: bool = True
    """Is it the eldest run of its trace? Its parent then is the application's, if any."""
    forked_from: str = ""
    links: tuple[Link, ...] = ()
    marks: tuple[Mark, ...] = ()
    usage: Usage = Usage()
    """Of the run and its children: their spans have it, too."""
    steps: int = 0
    records: tuple[Record, ...] = ()
    """What the span was made of; `scores` measures it."""


class ModelSpan(Timed, frozen=True, kw_only=True):
    """A model call."""

    requested: str
    model: str
    role: str
    prompt: Prompt
    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: str = ""
    usage: Usage = Usage()
    cached: bool = False
    issuer: Issuer | None = None
    """Who made the reply, if its provider says so."""


class ToolSpan(Timed, frozen=True, kw_only=True):
    """A tool call, made or refused."""

    tool: str
    call: str
    parameters: dict[str, Any]
    thought: str = ""
    thought_type: str = ""
    result: Any = None
    refused: str = ""


class ApprovalSpan(Timed, frozen=True, kw_only=True):
    """A person was asked, and answered."""

    tool: str
    call: str
    parameters: dict[str, Any]
    tier: int
    reason: str
    verdict: str = ""
    by: str = ""


Span: TypeAlias = AgentSpan | ModelSpan | ToolSpan | ApprovalSpan


def scores(span: AgentSpan) -> dict[str, float]:
    """Measures of a run that has ended, between 0 and 1, by name. Takes some 0.1 ms per step."""
    if not span.stop_reason:
        return {}
    measured = measure(span.records)
    shares = {
        "observation_success_rate": measured.observation_success_rate,
        "grounding_score": measured.grounding_score,
        "exception_rate": measured.exception_rate,
    }
    found = {name: round(share / 100, 4) for name, share in shares.items() if share is not None}
    return {"success": float(span.success), **found}
