"""The spans of a run, as values, with moments (`Mark`) and links to other spans; and their ids,
which are derived from the run's id.

Spans know nothing about OpenTelemetry; `attributes` and `otel` translate them. Times are
milliseconds since the epoch, with fractions. Ids are OpenTelemetry's: 16 and 8 bytes. Pure.
"""

import re
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import msgspec

from taofold.core.content import Issuer, ToolCall
from taofold.core.reply import Usage
from taofold.telemetry.prompt import Prompt


class Timed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What all spans share. `trace`, `id` and `parent` are hex digits ("" = the root)."""

    run: str
    trace: str
    id: str
    parent: str
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
    """Something that happened at one moment of a run. `quoted` may be words of models and tools."""

    name: str
    at: float
    facts: dict[str, str | int | float | bool]
    quoted: str = ""


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
    figures: dict[str, float] = {}
    """Numbers and booleans among the facts of its result."""


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
_CHILD: Final = re.compile(r"\.(\d+(?:-\d+)*-\d+)(?:s\d+)?\Z")
"""How the runtime names the run of an agent that serves a call: `<run>.<key>-<index>`, and one in
which a model answers its tool: the same with `s` and a number.
"""


def root_run(run: str, parent: str) -> str:
    """The run whose trace `run` belongs to: its eldest ancestor."""
    if not parent:
        return run
    # Ids of child runs hold their callers' ids, so no log has to be read.
    while (match := _CHILD.search(parent)) is not None:
        parent = parent[: match.start()]
    return parent


def call_part(key: str, index: int, time: int = 0) -> str:
    """The part of a span's id that stands for a call; `time` counts how often it was rewound."""
    suffix = f"{key.replace('.', '-')}-{index}"
    # After a rewind the same key is another call, which must not replace the first one's span.
    return f"call {suffix}" if not time else f"call {suffix} again {time}"


def parent_part(run: str, parent: str) -> str:
    """The same for what a child run hangs on: the call that it serves, else the whole parent."""
    match = _CHILD.search(run)
    if match is not None and run[: match.start()] == parent:
        return f"call {match[1]}"
    return "run"


def trace_id(root: str) -> str:
    """32 hex digits."""
    return blake2b(root.encode(), digest_size=16, person=b"taofold.trace").hexdigest()


def span_id(run: str, part: str) -> str:
    """16 hex digits for one span of `run`."""
    identity = f"{run}\x1f{part}".encode()
    return blake2b(identity, digest_size=8, person=b"taofold.span").hexdigest()
