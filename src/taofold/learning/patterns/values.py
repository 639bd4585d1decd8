"""A pattern: what was learnt, where from, and how it has done since.

Counts are our own; what an imported file claims is kept apart and never believed. Times
are milliseconds since the epoch. Nothing here decides what is shown to a model.
"""

from typing import Final, Literal

from taofold.core.values import Value
from taofold.learning.patterns.bodies import Approach, Avoidance, Body, ErrorFix, Kind, Template
from taofold.learning.patterns.case import Context
from taofold.learning.extraction.diffs import change_key

Role = Literal["discovered", "merged", "applied"]
Outcome = Literal["found", "won", "lost", "other", "ignored"]

KEPT_EVIDENCE: Final = 64
"""Cases kept with a pattern, the newest; older ones stay in the counts."""
KEPT_TREND: Final = 100


class Source(Value, frozen=True):
    """A loop that has to do with a pattern: it found it, or used it (`won`: did that help?).

    `iterations` is how many the loop took, or the iteration of an anti-pattern's failure. What
    a file says is `claimed`: it is shown, and counts for nothing.
    """

    loop: str
    at: int
    role: Role = "discovered"
    by: str = ""
    won: bool | None = None
    iterations: int = 0
    outcome: str = ""
    claimed: bool = False


class Snapshot(Value, frozen=True):
    """A point of the trend: the rate after `size` outcomes."""

    at: int
    rate: float
    size: int
    loops: tuple[str, ...] = ()


class Evidence(Value, frozen=True):
    """What one loop says of a pattern, and in which case.

    `found` is the discovery, which counts for nothing in the ranking; `other` = the loop was
    ended by another change; `ignored` = it was shown, not used, and nothing ended the loop.
    `promised` is what was expected of it there, 0 to 1; the usual, where that was not noted.
    """

    outcome: Outcome
    loop: str
    at: int
    context: Context = Context()
    promised: float = 0.25


class Counts(Value, frozen=True):
    """Uses and their outcomes. In anti-patterns a use is an occurrence, a failure its rule."""

    usage: int = 0
    successes: int = 0
    failures: int = 0

    @property
    def rate(self) -> float | None:
        """The share of successes among outcomes, None before the first."""
        known = self.successes + self.failures
        return self.successes / known if known else None

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.usage + other.usage,
            self.successes + other.successes,
            self.failures + other.failures,
        )


class Claim(Value, frozen=True):
    """What a file said about a pattern when it was imported, at `at`. `rate` is as written."""

    counts: Counts = Counts()
    rate: float | None = None
    at: int = 0


class Arm(Value, frozen=True):
    """Loops of one kind: how many, their iterations added up, and the squares of these."""

    loops: int = 0
    iterations: int = 0
    squares: int = 0
    solved: int = 0

    @property
    def mean(self) -> float | None:
        """Iterations on average, None without loops."""
        return self.iterations / self.loops if self.loops else None

    def plus(self, iterations: int, solved: bool) -> "Arm":
        """With one loop more."""
        return Arm(
            self.loops + 1,
            self.iterations + iterations,
            self.squares + iterations * iterations,
            self.solved + solved,
        )


class Scope(Value, frozen=True):
    """Where a pattern is at home; "" = anywhere."""

    repository: str = ""
    language: str = ""
    tool: str = ""


class Pattern(Value, frozen=True):
    """One thing learnt.

    `id` is "" in a pattern just extracted; the registry gives it one. `counts` include the
    discovery, as people expect; ranking looks at `evidence` alone. `shown` are the loops that
    saw it, `held` the control loops that would have.
    """

    id: str
    name: str
    body: Body
    scope: Scope = Scope()
    tags: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    first_discovered: int = 0
    last_used: int = 0
    counts: Counts = Counts()
    claim: Claim | None = None
    shown: Arm = Arm()
    held: Arm = Arm()
    trend: tuple[Snapshot, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    related: tuple[str, ...] = ()
    retired: str = ""
    """Why it is no longer injected ("" = it may be)."""

    @property
    def kind(self) -> Kind:
        """The kind of pattern."""
        match self.body:
            case ErrorFix():
                return "error"
            case Approach():
                return "success"
            case Avoidance():
                return "anti"
            case Template():
                return "template"

    @property
    def change(self) -> str:
        """The name of the change that it stores; "" if it stores none."""
        return change_key(self.body.fix.diff) if isinstance(self.body, ErrorFix) else ""

    @property
    def told(self) -> Counts:
        """The counts people see: our own and what was claimed."""
        return self.counts + self.claim.counts if self.claim else self.counts

    @property
    def rate(self) -> float | None:
        """The success rate people see; of an imported pattern not used yet, the claimed one."""
        if self.claim is not None and self.claim.rate is not None and not self.counts.usage:
            return self.claim.rate
        return self.told.rate

    @property
    def failure_rate(self) -> float | None:
        """What anti-patterns are ranked by."""
        return None if self.rate is None else 1.0 - self.rate

    @property
    def loops(self) -> frozenset[str]:
        """The loops that have counted for it; each counts once."""
        return frozenset([source.loop for source in self.sources if not source.claimed])

    @property
    def uses(self) -> tuple[Source, ...]:
        """The loops here that used it, discoveries left out."""
        return tuple([one for one in self.sources if one.role == "applied" and not one.claimed])

    @property
    def helped(self) -> int:
        """How often it helped when it was used."""
        return sum(use.won is True for use in self.uses)

    @property
    def probation(self) -> bool:
        """Not yet seen in two loops, and never of help: to be marked where it is shown."""
        return len(self.loops) < 2 and not self.helped
