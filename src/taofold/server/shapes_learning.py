"""The JSON of loops and patterns."""

from typing import Any

from pydantic import RootModel

from taofold.server.shapes import Answer


class Loop(Answer):
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
    usd: float
    tokens: int
    started_at: str
    updated_at: str


class Loops(Answer):
    """Loops, the newest first."""

    items: list[Loop]


class LoopDetail(Loop):
    """A loop with what each iteration did and proved, and its report."""

    baseline_quality: float | None
    best: int
    gates: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    lessons: dict[str, Any] | None
    report: dict[str, Any]


class Pattern(Answer):
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


class Patterns(Answer):
    """What was learnt, the oldest first."""

    items: list[Pattern]


class PatternDetail(Pattern):
    """A pattern with where it came from, where it was used, and what that was worth."""

    body: dict[str, Any]
    scope: dict[str, Any]
    related: list[str]
    shown: dict[str, Any]
    held: dict[str, Any]
    trend: list[dict[str, Any]]
    lineage: list[dict[str, Any]]


class Learning(RootModel[dict[str, Any]]):
    """What learning has saved, by the names that are exported."""
