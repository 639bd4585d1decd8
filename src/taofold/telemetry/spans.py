"""The spans of a run as values, with events (`Mark`) and links to other spans.

Ids are derived from the run's id, in OpenTelemetry's format: 16 and 8 bytes. Times are milliseconds
since the epoch, with fractions. `attributes` and `otel` translate the spans to OpenTelemetry. Pure.
"""

import re
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import msgspec

from taofold.core.content import Issuer, ToolCall
from taofold.core.reply import Usage
from taofold.telemetry.prompt import Prompt


class Timed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields of all spans. `trace`, `id` and `parent` are hex digits ("" = the root)."""

    run: str
    trace: str
    id: str
    parent: str
    agent: str
    session: str = ""
    user: str = ""
    """The principal's id, or "" for the local user of a command line."""
    start: float
    end: float
    error: str = ""
    """The kind of failure: timeout, denied, rate, … ("" = none)."""
    message: str = ""
    """The text of the failure."""


class Mark(msgspec.Struct, frozen=True, gc=False):
    """An event within a run. `quoted` is text that a model, a tool or a user may have written."""

    name: str
    at: float
    facts: dict[str, str | int | float | bool]
    quoted: str = ""


class Link(msgspec.Struct, frozen=True, gc=False):
    """A reference to another span, which may belong to another trace."""

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
    """True for the first run of its trace. Its parent is a span of the application, or none."""
    forked_from: str = ""
    links: tuple[Link, ...] = ()
    marks: tuple[Mark, ...] = ()
    usage: Usage = Usage()
    """The usage of the run and its children. The children's spans have theirs, too."""
    steps: int = 0


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
    """The maker of the reply, if the provider names it."""


class ToolSpan(Timed, frozen=True, kw_only=True):
    """A tool call, made or refused."""

    tool: str
    call: str
    parameters: dict[str, Any]
    thought: str = ""
    thought_type: str = ""
    result: Any = None
    refused: str = ""
    figures: dict[str, float] = {}
    """Numbers and booleans among the facts of its result."""


class ApprovalSpan(Timed, frozen=True, kw_only=True):
    """An approval, from its request to its answer."""

    tool: str
    call: str
    parameters: dict[str, Any]
    tier: int
    reason: str
    verdict: str = ""
    by: str = ""


Span: TypeAlias = AgentSpan | ModelSpan | ToolSpan | ApprovalSpan
_CHILD: Final = re.compile(r"\.(\d+(?:-\d+)*-\d+)(?:s\d+)?\Z")
"""Matches the ids of child runs: `<run>.<key>-<index>`.

`s` and a number follow in a run in which a model answers a tool.
"""


def root_run(run: str, parent: str) -> str:
    """Returns the eldest ancestor of `run`, to whose trace the run belongs."""
    if not parent:
        return run
    # A child run's id contains its callers' ids, so no log has to be read.
    while (match := _CHILD.search(parent)) is not None:
        parent = parent[: match.start()]
    return parent


def call_part(key: str, index: int, time: int = 0) -> str:
    """Returns the part of a span's id for a call.

    `time` counts earlier uses of the call's key.
    """
    suffix = f"{key.replace('.', '-')}-{index}"
    # After a rewind the same key is another call, which must not replace the first one's span.
    return f"call {suffix}" if not time else f"call {suffix} again {time}"


def parent_part(run: str, parent: str) -> str:
    """Returns the part for a child run's parent: the call that it serves, else the run."""
    match = _CHILD.search(run)
    if match is not None and run[: match.start()] == parent:
        return f"call {match[1]}"
    return "run"


def trace_id(root: str) -> str:
    """Returns the id of the trace of the run `root`, 32 hex digits."""
    return blake2b(root.encode(), digest_size=16, person=b"taofold.trace").hexdigest()


def span_id(run: str, part: str) -> str:
    """Returns the id of one span of `run`, 16 hex digits."""
    identity = f"{run}\x1f{part}".encode()
    return blake2b(identity, digest_size=8, person=b"taofold.span").hexdigest()
