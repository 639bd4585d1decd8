"""Which patterns a loop is shown: relevance × effectiveness, and nothing that will not help.

Of every pattern that was looked at and left out, the reason is kept. Pure; the same input gives
the same choice.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from taofold.learning.retrieval.question import Asked
from taofold.learning.patterns.bodies import Approach, Kind
from taofold.learning.attribution.diffs_fit import fit
from taofold.learning.retrieval.index import Entry
from taofold.learning.attribution.judge import Records, chance, danger, needed
from taofold.learning.retrieval.likeness import likeness
from taofold.learning.patterns.notes import Stats
from taofold.learning.attribution.promise import agreement, claimed, odds, of_others
from taofold.learning.retrieval.relevance import LEAST, relevance
from taofold.learning.settings import MOST_INJECTED, Injection
from taofold.learning.patterns.values import Evidence, Pattern

_ALIKE: Final = 0.80
_DESPITE: Final = 0.1
"""What a fix must promise to be looked at though its words say nothing here: its very line does."""
_CLAIMED: Final = 0.5
"""What a promise is worth of an import that has not helped here yet."""
_HOPE: Final = 0.01
"""What a change must promise for its failing to promise it to be worth noting down."""
_MOST_BESIDE: Final = 20
_WARNING: Final = 0.5
"""What an anti-pattern is worth beside a fix of the same relevance: it says what not to do."""


class Ranked(NamedTuple):
    """A pattern with its figures, each 0 to 1. `refused` says why it is not to be shown."""

    pattern: Pattern
    relevance: float
    effectiveness: float
    start: float = 0.0
    """What was expected of it before its record."""
    unproven: float = 1.0
    """How much of the effectiveness rests on trust."""
    refused: str = ""

    @property
    def score(self) -> float:
        """What patterns are chosen by."""
        weight = _WARNING if self.pattern.kind == "anti" else 1.0
        return self.relevance * self.effectiveness * weight


class Looked(NamedTuple):
    """A pattern that is looked at, as the index has it, and what became of its change."""

    pattern: Pattern
    entry: Entry
    tried: tuple[Evidence, ...] = ()


class Choice(NamedTuple):
    """The patterns to show, the best first, and why each of the others is not among them.

    `beside` are those of the others that store a change which none shown stores: what ends the
    loop will say whether they would have been right.
    """

    chosen: tuple[Ranked, ...]
    refused: tuple[tuple[str, str], ...]
    beside: tuple[Ranked, ...] = ()


def rank(
    found: Iterable[Looked],
    asked: Asked,
    stats: Stats,
    settings: Injection,
    *,
    min_uses: int,
) -> list[Ranked]:
    """All of `found` with their figures, the best first."""
    included: Mapping[Kind, bool] = {
        "error": settings.include_error_patterns,
        "success": settings.include_success_patterns,
        "anti": settings.include_anti_patterns,
        "template": settings.include_code_templates,
    }
    found = list(found)
    near = [relevance(one.pattern, one.entry, asked) for one in found]
    records = Records(asked.here)
    done: list[Ranked] = []
    for one, close, start in zip(found, near, _starts(found, near, asked), strict=True):
        pattern, unknown = one.pattern, 1.0
        if pattern.kind == "anti":
            effect = danger(pattern)
        else:
            past = records.of(pattern, one.tried)
            trust = (stats.claimed if claimed(pattern) else stats.own).trust
            effect, unknown = chance(start, past, trust), past.unproven
        ranked = Ranked(pattern, close, effect, start, unknown)
        if not included[pattern.kind]:
            ranked = ranked._replace(refused="its kind is switched off")
        else:
            ranked = ranked._replace(refused=_refusal(ranked, stats, settings, min_uses))
        done.append(ranked)
    return sorted(done, key=_order)


def _starts(found: Sequence[Looked], near: Sequence[float], asked: Asked) -> list[float]:
    """What each promises before its record: of all changes only one is what is needed."""
    suits = [_odds(one.pattern, close, asked) for one, close in zip(found, near, strict=True)]
    changes: dict[str, float] = {}
    for one, value in zip(found, suits, strict=True):
        change = one.pattern.change or one.pattern.id
        changes[change] = max(changes.get(change, 0.0), value)
    every = 1.0 + sum(changes.values())
    return [
        (value / every if value else of_others(close)) * (_CLAIMED if claimed(one.pattern) else 1.0)
        for one, close, value in zip(found, near, suits, strict=True)
    ]


def _odds(pattern: Pattern, close: float, asked: Asked) -> float:
    """The odds of a fix; 0 for what is none."""
    if pattern.kind != "error":
        return 0.0
    return odds(close, fit(pattern, asked.case.code), agreement(pattern, asked.here))


def _order(one: Ranked) -> tuple[float, float, str]:
    """The best first; of equal ones that which takes fewer iterations."""
    body = one.pattern.body
    took = body.average_iterations if isinstance(body, Approach) else 0.0
    return -round(one.score, 9), took, one.pattern.id


def _refusal(one: Ranked, stats: Stats, settings: Injection, min_uses: int) -> str:
    pattern = one.pattern
    if pattern.retired:
        return f"retired: {pattern.retired}"
    if one.relevance < LEAST and (pattern.kind != "error" or one.start < _DESPITE):
        return "it has nothing to do with this task"
    if pattern.kind == "anti":
        return ""
    own = pattern.counts
    if own.usage >= min_uses and (own.rate or 0.0) < settings.min_success_rate:
        return (
            f"its success rate {own.rate or 0.0:.2f} after {own.usage} uses is below "
            f"{settings.min_success_rate:g}"
        )
    least = needed(stats, pattern.kind)
    if one.effectiveness < least:
        return (
            f"it is not expected to help here{_past(pattern)}: {one.effectiveness:.2f}, where "
            f"{least:.2f} would beat doing without"
        )
    return ""


def _past(pattern: Pattern) -> str:
    uses = len(pattern.uses)
    return f", it helped in {pattern.helped} of {uses} loops that used it" if uses else ""


def choose(ranked: Sequence[Ranked], settings: Injection) -> Choice:
    """The patterns to show: at most as many as allowed, none twice."""
    chosen: list[Ranked] = []
    refused: list[tuple[str, str]] = []
    for one in ranked:
        reason = one.refused or _surplus(one, chosen, min(settings.most, MOST_INJECTED))
        if reason:
            refused.append((one.pattern.id, reason))
        else:
            chosen.append(one)
    return Choice(tuple(chosen), tuple(refused), _beside(ranked, chosen))


def _beside(ranked: Sequence[Ranked], chosen: Sequence[Ranked]) -> tuple[Ranked, ...]:
    """Of each further change the best, if there is any hope in it."""
    taken = {one.pattern.change for one in chosen}
    found: list[Ranked] = []
    for one in ranked:
        change = one.pattern.change
        if change and change not in taken and one.start >= _HOPE:
            taken.add(change)
            found.append(one)
    return tuple(found[:_MOST_BESIDE])


def _surplus(one: Ranked, chosen: Sequence[Ranked], most: int) -> str:
    if len(chosen) >= most:
        return f"{most} better ones are shown"
    for other in chosen:
        if likeness(one.pattern, other.pattern) > _ALIKE:
            return f"it says the same as {other.pattern.id}"
        if one.pattern.change and one.pattern.change == other.pattern.change:
            return f"{other.pattern.id} holds the same change"
    return ""


def in_section(chosen: Iterable[Ranked], kind: Kind) -> list[Ranked]:
    """Those of one kind in the order they are read.

    Anti-patterns by failure rate; approaches of equal relevance by the iterations they take.
    """
    mine = [one for one in chosen if one.pattern.kind == kind]
    if kind == "anti":
        return sorted(mine, key=lambda one: (-(one.pattern.failure_rate or 0.0), *_order(one)))
    if kind == "success":
        return sorted(mine, key=lambda one: (-round(one.relevance, 2), _took(one), *_order(one)))
    return sorted(mine, key=_order)


def _took(one: Ranked) -> float:
    body = one.pattern.body
    return body.average_iterations if isinstance(body, Approach) else 0.0
