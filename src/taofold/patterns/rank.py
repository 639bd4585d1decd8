"""Which patterns a loop is shown: relevance × effectiveness, and nothing that will not help.

Of every pattern that was looked at and left out, the reason is kept. Pure; the same input gives
the same choice.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from taofold.patterns.asked import Asked
from taofold.patterns.bodies import Approach, Kind
from taofold.patterns.diffs_fit import fit
from taofold.patterns.index import Entry
from taofold.patterns.judge import chance, danger, needed, record
from taofold.patterns.likeness import likeness
from taofold.patterns.notes import Stats
from taofold.patterns.promise import agreement, claimed, initial
from taofold.patterns.relate import LEAST, relevance
from taofold.patterns.settings import MOST_INJECTED, Injection
from taofold.patterns.values import Evidence, Pattern

_ALIKE: Final = 0.80
_DISAPPOINTED: Final = 0.5
"""Trust below which untried patterns come one at a time."""
_WARNING: Final = 0.5
"""What an anti-pattern is worth beside a fix of the same relevance: it says what not to do."""


class Ranked(NamedTuple):
    """A pattern with its figures, each 0 to 1. `refused` says why it is not to be shown."""

    pattern: Pattern
    relevance: float
    effectiveness: float
    start: float = 0.0
    """What was expected of it before its record."""
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
    """The patterns to show, the best first, and why each of the others is not among them."""

    chosen: tuple[Ranked, ...]
    refused: tuple[tuple[str, str], ...]


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
    done: list[Ranked] = []
    for pattern, entry, tried in found:
        near = relevance(pattern, entry, asked)
        line = fit(pattern, asked.case.code)
        start = initial(pattern, near, line, agreement(pattern, asked.here))
        if pattern.kind == "anti":
            effect = danger(pattern)
        else:
            effect = chance(pattern, tried, asked.here, start, stats, line)
        one = Ranked(pattern, near, effect, start)
        if not included[pattern.kind]:
            one = one._replace(refused="its kind is switched off")
        else:
            one = one._replace(refused=_refusal(one, stats, settings, min_uses))
        done.append(one)
    return sorted(done, key=_order)


def _order(one: Ranked) -> tuple[float, float, str]:
    """The best first; of equal ones that which takes fewer iterations."""
    body = one.pattern.body
    took = body.average_iterations if isinstance(body, Approach) else 0.0
    return -round(one.score, 9), took, one.pattern.id


def _refusal(one: Ranked, stats: Stats, settings: Injection, min_uses: int) -> str:
    pattern = one.pattern
    if pattern.retired:
        return f"retired: {pattern.retired}"
    if one.relevance < LEAST:
        return "it has nothing to do with this task"
    if pattern.kind == "anti":
        return ""
    own = pattern.counts
    if own.usage >= min_uses and (own.rate or 0.0) < settings.min_success_rate:
        return (
            f"its success rate {own.rate or 0.0:.2f} after {own.usage} uses is below "
            f"{settings.min_success_rate:g}"
        )
    if one.effectiveness < needed(stats):
        return (
            f"it is not expected to help here{_past(pattern)}: {one.effectiveness:.2f}, where "
            f"{needed(stats):.2f} would beat doing without"
        )
    return ""


def _past(pattern: Pattern) -> str:
    uses = len(pattern.uses)
    return f", it helped in {pattern.helped} of {uses} loops that used it" if uses else ""


def choose(ranked: Sequence[Ranked], settings: Injection, stats: Stats) -> Choice:
    """The patterns to show: at most as many as allowed, none twice.

    Where patterns without a record have disappointed, only one of these is tried at a time.
    """
    chosen: list[Ranked] = []
    refused: list[tuple[str, str]] = []
    for one in ranked:
        reason = one.refused or _surplus(one, chosen, min(settings.most, MOST_INJECTED), stats)
        if reason:
            refused.append((one.pattern.id, reason))
        else:
            chosen.append(one)
    return Choice(tuple(chosen), tuple(refused))


def _surplus(one: Ranked, chosen: Sequence[Ranked], most: int, stats: Stats) -> str:
    if len(chosen) >= most:
        return f"{most} better ones are shown"
    if _untried(one) and any(map(_untried, chosen)):
        tally = stats.claimed if claimed(one.pattern) else stats.own
        if tally.trust < _DISAPPOINTED:
            return "untried patterns helped too seldom lately, one at a time is shown"
    for other in chosen:
        if likeness(one.pattern, other.pattern) > _ALIKE:
            return f"it says the same as {other.pattern.id}"
        if one.pattern.change and one.pattern.change == other.pattern.change:
            return f"{other.pattern.id} holds the same change"
    return ""


def _untried(one: Ranked) -> bool:
    return one.pattern.kind != "anti" and not record(one.pattern)


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
