"""Which injected patterns a loop applied, and whether that helped: read from its log (D18).

Applied = an edit that does to such lines what the pattern's fix does, names apart; that a thought
names the pattern is nothing. Successful = a check that its signature describes turned green by
it. What was shown and not used is no application.
"""

from collections.abc import Iterable
from typing import Final

from taofold.core.checks import Check
from taofold.core.values import Value
from taofold.learning.extraction.diffs import Deed, deeds, deeds_in
from taofold.learning.extraction.generalise import error_type_of
from taofold.learning.extraction.history import Attempt, History
from taofold.learning.patterns.bodies import Approach, Avoidance, ErrorFix, Template
from taofold.learning.patterns.values import Pattern

_NONE: Final[frozenset[Deed]] = frozenset()


class Application(Value, frozen=True):
    """One use of a pattern in an iteration."""

    pattern: str
    iteration: int
    won: bool


def applications(history: History, patterns: Iterable[Pattern]) -> tuple[Application, ...]:
    """Each use of the `patterns`: at most one won and one lost per pattern and iteration."""
    found: dict[tuple[str, int, bool], Application] = {}
    known = [(pattern, _deeds(pattern)) for pattern in patterns]
    for attempt in history.attempts:
        made = frozenset([one for change in attempt.changes for one in deeds(change)])
        for pattern, wanted in known:
            if attempt.judged and made & wanted:
                won = attempt.kept and _won(pattern, attempt)
                one = Application(pattern.id, attempt.iteration, won)
                found.setdefault((pattern.id, attempt.iteration, won), one)
    return tuple(found.values())


def _deeds(pattern: Pattern) -> frozenset[Deed]:
    match pattern.body:
        case ErrorFix(fix=fix):
            return deeds_in(fix.diff)
        case Template(code=code):
            return deeds_in("\n".join([f"+{line}" for line in code.split("\n")]))
        case Approach() | Avoidance():
            return _NONE


def _won(pattern: Pattern, attempt: Attempt) -> bool:
    match pattern.body:
        case ErrorFix(signature=signature):
            name, kind = signature.name, signature.type
            return any(_describes(name, kind, check) for check in attempt.turned)
        case Template():
            return bool(attempt.turned)
        case Approach() | Avoidance():
            return False


def _describes(name: str, kind: str, check: Check) -> bool:
    """Is the failing check of the class that a signature names?

    The class alone: how near the messages are is what relevance weighs, with every outcome.
    """
    return check.error_type == name if name else error_type_of(check.error_type) == kind
