"""Chooses the patterns for a loop: relevance × effectiveness, the best first, none twice.

A lesson is for a reader: it is chosen for its error, not for the applicability of its edit here.
The effectiveness of a pattern (`effectiveness`) is our own evidence. The reason for every rejected
pattern about such an error is kept. Pure and deterministic.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from taofold.core.failing_checks import Check
from taofold.learning.extraction.acts import acts
from taofold.learning.extraction.diffs import sides
from taofold.learning.extraction.generalisation import pattern_of
from taofold.learning.extraction.silencing import silences
from taofold.learning.patterns.kinds import (
    Approach,
    Avoidance,
    Body,
    CodeTemplate,
    ErrorFix,
    ErrorSignature,
    Kind,
)
from taofold.learning.patterns.pattern import Pattern
from taofold.learning.retrieval.question import Question
from taofold.learning.retrieval.relevance import LEAST, Relevance, likeness, relevance
from taofold.learning.settings import MOST_INJECTED, Injection

_ALIKE: Final = 0.80
_IGNORED: Final = 0.25
"""The part of a failure that counts for a loop that did not use a shown pattern."""
_CLAIMED: Final = 0.5
"""The factor of the effectiveness of an import that has not helped here yet."""
_UNRELATED: Final = "it has nothing to do with this task"


class Ranked(NamedTuple):
    """A pattern with its figures, each 0 to 1. `refused` is the reason not to show it."""

    pattern: Pattern
    relevance: float
    effectiveness: float
    refused: str = ""
    seen: tuple[ErrorSignature, Check] | None = None
    """The similar errors of the lesson and of the case; None = the task as a whole."""

    @property
    def error(self) -> tuple[str, str] | None:
        """The class and the sentence of the answered error; None = the task as a whole."""
        if self.seen is None:
            return None
        check = self.seen[1]
        return check.error_type, pattern_of(check.message)

    @property
    def score(self) -> float:
        """The value by which patterns are chosen."""
        return self.relevance * self.effectiveness


class PatternChoice(NamedTuple):
    """The patterns to show, the best first, and the reasons against others about such errors."""

    chosen: tuple[Ranked, ...]
    refused: tuple[tuple[str, str], ...]


def effectiveness(pattern: Pattern) -> float:
    """Returns a pattern's effectiveness by our own evidence: the mean of a Beta posterior, 0 to 1.

    For an anti-pattern it is the certainty of failure. Discoveries and unsigned claims of a file
    are no evidence of effect.
    """
    if pattern.kind == "anti":
        counts = pattern.counts
        return (counts.failures + 1.0) / (counts.successes + counts.failures + 2.0)
    applied = pattern.applied
    ignored = max(pattern.shown.loops - applied.usage, 0)
    # A licence counts as one use that helped, as the vote of another project does.
    voted = float(pattern.licensed)
    # One prior win and one loss: 1 success of 1 is 2/3, not 1, and 17 of 18 is more.
    share = (applied.successes + voted + 1.0) / (applied.usage + voted + _IGNORED * ignored + 2.0)
    return share * _CLAIMED if pattern.claimed and not voted else share


def rank(
    found: Iterable[tuple[Pattern, str]],
    question: Question,
    settings: Injection,
    *,
    min_uses: int,
) -> list[Ranked]:
    """Returns all of `found`, given with the stems of their texts, with figures, the best first."""
    included: Mapping[Kind, bool] = {
        "error": settings.include_error_patterns,
        "success": settings.include_success_patterns,
        "anti": settings.include_anti_patterns,
        "template": settings.include_code_templates,
    }
    ranked: list[Ranked] = []
    for pattern, stems in found:
        close = relevance(pattern, stems, question)
        if not included[pattern.kind]:
            refused = "its kind is switched off"
        else:
            refused = _refusal(pattern, close, settings, min_uses)
        figures = close.value, effectiveness(pattern)
        ranked.append(Ranked(pattern, *figures, refused, close.seen))
    return sorted(ranked, key=_order)


def _order(ranked: Ranked) -> tuple[float, float, str]:
    """Returns the sort key: the best first; of equal ones the one with fewer iterations."""
    # Rounded: the last digits of a float must not decide between equal ones.
    return -round(ranked.score, 9), _iterations(ranked), ranked.pattern.id


def _iterations(ranked: Ranked) -> float:
    body = ranked.pattern.body
    return body.average_iterations if isinstance(body, Approach) else 0.0


def _refusal(pattern: Pattern, close: Relevance, settings: Injection, min_uses: int) -> str:
    if pattern.retired:
        return f"retired: {pattern.retired}"
    if isinstance(pattern.body, ErrorFix) and (how := silences(*sides(pattern.body.fix.diff))):
        return f"its change only silences the check: {how}"
    if how := _acts(pattern.body):
        return f"it may do more than mend: {how}"
    if close.refused:
        return close.refused
    if close.value < LEAST:
        return _UNRELATED
    own = pattern.counts
    # By our own counts: claims of a file neither bar a pattern nor admit it.
    tried = pattern.kind != "anti" and own.usage >= min_uses
    if tried and (own.rate or 0.0) < settings.min_success_rate:
        return (
            f"its success rate {own.rate or 0.0:.2f} after {own.usage} uses is below "
            f"{settings.min_success_rate:g}"
        )
    return ""


def _acts(body: Body) -> str:
    """Returns how the code of a pattern acts: a file may hold any code."""
    match body:
        case ErrorFix(signature, fix):
            error = " ".join([signature.name, signature.example, *signature.causes])
            how = acts(*sides(fix.diff), error, fix.files[0] if fix.files else "")
            texts = (
                [fix.code, *fix.vain, *fix.description.split("\n")] if not fix.diff else fix.vain
            )
            return how or acts((), texts, error)
        case Approach(steps=steps):
            return acts((), steps)
        case Avoidance(approach=approach):
            return acts((), [approach])
        case CodeTemplate(code=code, use=use):
            return acts((), code.split("\n"), use)


def choose(ranked: Sequence[Ranked], settings: Injection) -> PatternChoice:
    """Returns the best patterns, at most as many as allowed, and none that equals a better one."""
    most = min(settings.most, MOST_INJECTED)
    # A search by words also finds patterns about other errors: they get no reason.
    refused = {
        candidate.pattern.id: candidate.refused
        for candidate in ranked
        if candidate.refused not in ("", _UNRELATED)
    }
    chosen: list[Ranked] = []
    for candidate in [candidate for candidate in ranked if not candidate.refused]:
        reason = _surplus(candidate, chosen, ranked)
        if reason or len(chosen) == most:
            refused[candidate.pattern.id] = reason or f"{most} better ones are shown"
        else:
            chosen.append(candidate)
    order = [candidate.pattern.id for candidate in ranked]
    return PatternChoice(
        tuple(chosen), tuple(sorted(refused.items(), key=lambda item: order.index(item[0])))
    )


def _surplus(candidate: Ranked, chosen: Sequence[Ranked], ranked: Sequence[Ranked]) -> str:
    """Returns why a pattern adds nothing to the patterns already chosen or ranked."""
    pattern = candidate.pattern
    # A pattern found here replaces the same one from a file, regardless of its rank.
    own = [
        other for other in ranked if pattern.claim and not (other.pattern.claim or other.refused)
    ]
    for other in (*chosen, *own):
        if likeness(pattern, other.pattern) > _ALIKE:
            return f"it has the same content as {other.pattern.id}"
    failed = isinstance(pattern.body, Avoidance) and not pattern.body.better
    for other in ranked if failed or _wrong(pattern) else ():
        settles = other.pattern.kind == "error" and not (other.refused or _wrong(other.pattern))
        alike = other.error == candidate.error is not None
        if settles and alike and not other.pattern.claimed:
            return f"{other.pattern.id} has a fix of such an error"
    # An approach or a template adds nothing to a lesson from the same loop.
    for other in ranked if isinstance(pattern.body, CodeTemplate | Approach) else ():
        if other.pattern.kind == "error" and not pattern.loops.isdisjoint(other.pattern.loops):
            return f"{other.pattern.id} covers it, from the same loop"
    return ""


def _wrong(pattern: Pattern) -> bool:
    """Returns whether it fixed nothing in any loop that followed it."""
    return bool(pattern.uses) and not pattern.helped


def _spared(ranked: Ranked) -> float:
    """Returns how rarely an anti-pattern failed here; one known only from a file comes last."""
    rate = ranked.pattern.counts.rate
    return 1.0 if rate is None else rate


def in_section(chosen: Iterable[Ranked], kind: Kind) -> list[Ranked]:
    """Returns those of one kind in display order.

    Anti-patterns by failure rate; approaches of equal relevance by their iterations.
    """
    members = [candidate for candidate in chosen if candidate.pattern.kind == kind]
    if kind == "anti":
        return sorted(members, key=lambda one: (_spared(one), *_order(one)))
    if kind == "success":
        return sorted(members, key=lambda one: (-round(one.relevance, 2), *_order(one)[1:]))
    return sorted(members, key=_order)
