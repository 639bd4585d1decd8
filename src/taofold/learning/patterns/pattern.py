"""A pattern: its content, sources, later results (`UseCounts`, `Arm`), and id.

Counts are our own; claims of an imported file are kept apart and never trusted. Times are
milliseconds since the epoch. Ids are `pat-<kind>-<slug>-<3 digits>` and `tmpl-<slug>-<3 digits>`.
`Rate` belongs to no pattern: it counts how often edits of one shape ended loops. This module does
not decide which patterns a model sees. All text comes from outside and is data.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import Final, Literal, cast

import msgspec

from taofold.core.values import Value
from taofold.learning.patterns.kinds import Avoidance, Body, ErrorFix, ErrorSignature, Kind

Role = Literal["discovered", "merged", "applied"]
KEPT_TREND: Final = 100
MOST_TESTS: Final = 3
"""The most tests that a pattern names."""


class PatternSource(Value, frozen=True):
    """A loop that found a pattern, or used it (`won`: True if that helped).

    `iterations` is the number of the loop's iterations, or the iteration of an anti-pattern's
    failure. A source from a file is `claimed`: it is displayed, and never counted.
    """

    loop: str
    at: int
    role: Role = "discovered"
    by: str = ""
    won: bool | None = None
    iterations: int = 0
    outcome: str = ""
    claimed: bool = False
    project: str = ""
    """The project of the loop."""


class RatePoint(Value, frozen=True):
    """A point of the trend: the rate after `size` outcomes."""

    at: int
    rate: float
    size: int
    loops: tuple[str, ...] = ()


class UseCounts(Value, frozen=True):
    """Uses and their outcomes. In anti-patterns a use is an occurrence, normally a failure."""

    usage: int = 0
    successes: int = 0
    failures: int = 0

    @property
    def rate(self) -> float | None:
        """The share of successes among outcomes, None before the first."""
        outcomes = self.successes + self.failures
        return self.successes / outcomes if outcomes else None

    def __add__(self, other: "UseCounts") -> "UseCounts":
        return UseCounts(
            self.usage + other.usage,
            self.successes + other.successes,
            self.failures + other.failures,
        )


ONE_WIN: Final = UseCounts(1, 1, 0)
ONE_LOSS: Final = UseCounts(1, 0, 1)


class Licence(Value, frozen=True):
    """The effect of a pattern in another registry, as the holder of a trusted key signed it.

    `value` is the difference in iterations between `shown` loops that saw the pattern and `held`
    control loops, from `low` to `high` with 95 %. `signer` is the beginning of the key's name.
    """

    signer: str
    shown: int = 0
    held: int = 0
    value: float | None = None
    low: float | None = None
    high: float | None = None
    control_share: float = 0.0
    runs: int = 0
    """The number of runs with a hash that it rests on."""

    @property
    def helps(self) -> bool:
        """True if the interval shows that loops needed fewer iterations."""
        return self.high is not None and self.high < 0


class ImportClaim(Value, frozen=True):
    """The claims of a file about a pattern, imported at `at`. `rate` is as written.

    Without a `licence` they count as nothing.
    """

    counts: UseCounts = UseCounts()
    rate: float | None = None
    at: int = 0
    licence: Licence | None = None

    @property
    def share(self) -> float | None:
        """The rate as written, or the rate of the counts."""
        return self.counts.rate if self.rate is None else self.rate


class Rate(Value, frozen=True):
    """The number of loops that edits of one shape ended, and the expected number.

    `expected` adds up, over loops that an edit ended, the share of the search policy's ranking that
    such edits held: a shape that occurs everywhere gets no credit for that.
    """

    wins: float = 0.0
    expected: float = 0.0

    def factor(self, doubt: float) -> float:
        """Returns the ratio to the expected wins: above 1 is better; `doubt` wins draw it to 1."""
        return (self.wins + doubt) / (self.expected + doubt)

    def plus(self, other: "Rate") -> "Rate":
        """Returns the sums."""
        return Rate(self.wins + other.wins, self.expected + other.expected)


class Arm(Value, frozen=True):
    """Loops of one kind: their number, the sum of their iterations, and the sum of the squares."""

    loops: int = 0
    iterations: int = 0
    squares: int = 0
    solved: int = 0

    @property
    def mean(self) -> float | None:
        """Mean iterations, None without loops."""
        return self.iterations / self.loops if self.loops else None

    def plus(self, iterations: int, solved: bool) -> "Arm":
        """Returns the sums with one loop more."""
        return self._with(1, iterations, solved)

    def minus(self, iterations: int, solved: bool) -> "Arm":
        """Returns the sums with one loop less."""
        return self._with(-1, iterations, solved)

    def once(self) -> "Arm":
        """Returns one loop with the rounded mean of all of them; empty if there are none."""
        if not self.loops:
            return self
        return Arm().plus(round(self.iterations / self.loops), 2 * self.solved > self.loops)

    def __add__(self, other: "Arm") -> "Arm":
        return Arm(
            self.loops + other.loops,
            self.iterations + other.iterations,
            self.squares + other.squares,
            self.solved + other.solved,
        )

    def _with(self, sign: int, iterations: int, solved: bool) -> "Arm":
        # Never below zero: a restored pattern begins at zero again.
        return Arm(
            max(self.loops + sign, 0),
            max(self.iterations + sign * iterations, 0),
            max(self.squares + sign * iterations * iterations, 0),
            max(self.solved + sign * solved, 0),
        )

    @property
    def variance(self) -> float:
        """The sample variance of the iterations; 0 for fewer than two loops."""
        if self.loops < 2:
            return 0.0
        mean = self.iterations / self.loops
        # From sums alone, so that loops can be added and removed; rounding may give a negative
        # value.
        return max(self.squares - self.loops * mean * mean, 0.0) / (self.loops - 1)


def seen_from(project: str | None, arms: Mapping[str, Arm]) -> Arm:
    """Returns the sum of `arms`, in which each project but `project` counts as one loop.

    A project with a thousand loops has no more weight in another project than one with a single
    loop.
    """
    counted = [arm if name == project else arm.once() for name, arm in arms.items()]
    return sum(counted, start=Arm())


class PatternScope(Value, frozen=True):
    """The repository and language of a pattern; "" = any."""

    repository: str = ""
    language: str = ""


class Pattern(Value, frozen=True):
    """One learnt pattern.

    `id` is "" in a newly extracted pattern; the registry assigns one. `claim` and `claimed_trend`
    are the claims of the file from which the text came. They are never added to counts, and no
    discovery here is merged into such a text. `shown_in` are the loops that saw it, by project,
    `held_in` the control loops that would have. `refuted` are the projects in which it was no fix,
    each with the reason. `only_in` is the project that does not share it, "" if it is shared.
    `tests` are the ids of the first tests that showed its error, in the repository of its scope.
    """

    id: str
    name: str
    body: Body
    scope: PatternScope = PatternScope()
    tags: tuple[str, ...] = ()
    sources: tuple[PatternSource, ...] = ()
    first_discovered: int = 0
    last_used: int = 0
    claim: ImportClaim | None = None
    shown_in: dict[str, Arm] = {}
    held_in: dict[str, Arm] = {}
    refuted: dict[str, str] = {}
    only_in: str = ""
    claimed_trend: tuple[RatePoint, ...] = msgspec.field(default=(), name="trend")
    related: tuple[str, ...] = ()
    retired: str = ""
    """The reason why it is no longer injected ("" = it may be)."""
    tests: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        """The kind of pattern: the tag by which its body is stored."""
        return cast("Kind", self.body.__struct_config__.tag)

    @property
    def loops(self) -> frozenset[str]:
        """The loops that have counted for it; each counts once."""
        return frozenset([source.loop for source in self.sources if not source.claimed])

    @property
    def shown(self) -> Arm:
        """The loops that saw it."""
        return sum(self.shown_in.values(), start=Arm())

    @property
    def held(self) -> Arm:
        """The control loops that would have seen it."""
        return sum(self.held_in.values(), start=Arm())

    @property
    def finders(self) -> frozenset[str]:
        """The projects whose loops found it."""
        return frozenset([source.project for source in self.found])

    def seen_from(self, project: str | None) -> "Pattern":
        """Returns the pattern with the evidence that counts in `project`; None = in no project.

        The project's own loops count in full. Each other project counts once: as a finder, or by
        its best use. So the number of loops in one project does not decide what another is shown.
        """
        votes: dict[str, PatternSource] = {}
        for source in [source for source in self.sources if not source.claimed]:
            vote = votes.setdefault(source.project, source)
            if vote.role == "applied" and (
                source.role != "applied" or bool(source.won) > bool(vote.won)
            ):
                votes[source.project] = source
        sources = [
            source
            for source in self.sources
            if source.claimed or source.project == project or source is votes[source.project]
        ]
        return msgspec.structs.replace(
            self,
            sources=tuple(sources),
            shown_in={"": seen_from(project, self.shown_in)},
            held_in={"": seen_from(project, self.held_in)},
            tests=self.tests if project == self.scope.repository else (),
        )

    @property
    def counts(self) -> UseCounts:
        """Discoveries and applications here; ranking uses applications alone."""
        return self._counted()[-1]

    @property
    def trend(self) -> tuple[RatePoint, ...]:
        """The rate after each of the newest outcomes."""
        own = [source for source in self.sources if not source.claimed]
        points = [
            RatePoint(source.at, total.rate or 0.0, total.usage, (source.loop,))
            for source, total in zip(own, self._counted()[1:], strict=True)
        ]
        return (*self.claimed_trend, *points)[-KEPT_TREND:]

    def _counted(self) -> list[UseCounts]:
        """Returns zero, and the sums after each source here."""
        finds = ONE_LOSS if self.kind == "anti" else ONE_WIN
        uses = [
            finds if source.role != "applied" else ONE_WIN if source.won else ONE_LOSS
            for source in self.sources
            if not source.claimed
        ]
        return list(accumulate(uses, UseCounts.__add__, initial=UseCounts()))

    @property
    def lineage(self) -> tuple[PatternSource, ...]:
        """Its discoveries and uses, in order of time."""
        return tuple(sorted(self.sources, key=lambda source: source.at))

    @property
    def found(self) -> tuple[PatternSource, ...]:
        """The loops here that found it."""
        return tuple([s for s in self.sources if s.role != "applied" and not s.claimed])

    @property
    def uses(self) -> tuple[PatternSource, ...]:
        """The loops here that used it, without discoveries."""
        return tuple([s for s in self.sources if s.role == "applied" and not s.claimed])

    @property
    def helped(self) -> int:
        """The number of uses that helped."""
        return sum(use.won is True for use in self.uses)

    @property
    def signature(self) -> ErrorSignature | None:
        """The error of the pattern, if it has one."""
        body = self.body
        return body.signature if isinstance(body, ErrorFix | Avoidance) else None

    @property
    def applied(self) -> UseCounts:
        """Applications alone, without discoveries and merges."""
        return UseCounts(len(self.uses), self.helped, len(self.uses) - self.helped)

    @property
    def claimed(self) -> bool:
        """True if it is an import that has not helped here yet."""
        return self.claim is not None and not self.helped

    @property
    def licensed(self) -> bool:
        """True if a trusted key signed that it helps loops in another registry."""
        licence = None if self.claim is None else self.claim.licence
        return licence is not None and licence.helps

    @property
    def probation(self) -> bool:
        """True if it was seen in fewer than two loops and never helped; it is then marked when
        shown.
        """
        return len(self.loops) < 2 and not self.helped


PREFIXES: Final[dict[Kind, str]] = {
    "error": "pat-error-",
    "success": "pat-success-",
    "anti": "pat-anti-",
    "template": "tmpl-",
}
_LONGEST: Final = 40
LONGEST_ID: Final = 120
_MOST: Final = 999


def valid(identity: str, kind: Kind) -> bool:
    """Returns whether `identity` is the id of a pattern of this kind."""
    form = rf"{PREFIXES[kind]}[a-z0-9]+(?:-[a-z0-9]+)*-\d{{3}}"
    return len(identity) <= LONGEST_ID and re.fullmatch(form, identity) is not None


def fresh(pattern: Pattern, taken: Callable[[str], Iterable[str]]) -> str:
    """Returns an unused id for `pattern`; `taken` returns the ids with a prefix."""
    slug = re.sub(r"[^a-z0-9]+", "-", pattern.name.lower())[:_LONGEST].strip("-") or "unnamed"
    series = 1
    while True:
        prefix = PREFIXES[pattern.kind] + (slug if series == 1 else f"{slug}-s{series}") + "-"
        numbers = [identity.removeprefix(prefix) for identity in taken(prefix)]
        last = max([int(number) for number in numbers if re.fullmatch(r"\d{3}", number)], default=0)
        if last < _MOST:
            return f"{prefix}{last + 1:03d}"
        # 999 ids of one name are taken: the name itself gets a number (`-s2`).
        series += 1
