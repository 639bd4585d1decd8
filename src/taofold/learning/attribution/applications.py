"""Which injected patterns a loop applied, and whether that helped: read from its log (D18).

Applied = an edit that does to such lines what the pattern's fix does, names apart, or an edit
after a thought that cites the pattern. Successful = a check that its signature describes
turned green by it. What was shown and not used is no application.
"""

from collections.abc import Iterable
from typing import Final

from taofold.core.checks import Check
from taofold.core.values import Value
from taofold.learning.patterns.bodies import Approach, Avoidance, ErrorFix, Template
from taofold.learning.extraction.diffs import Deed, deeds, deeds_in
from taofold.learning.extraction.generalise import error_type_of
from taofold.learning.extraction.history import Attempt, History
from taofold.learning.patterns.values import Pattern

_NONE: Final[frozenset[Deed]] = frozenset()


class Application(Value, frozen=True):
    """One use of a pattern in an iteration. `cited` = a thought named it."""

    pattern: str
    iteration: int
    won: bool
    cited: bool = False


def applications(history: History, patterns: Iterable[Pattern]) -> tuple[Application, ...]:
    """Each use of the `patterns`: at most one won and one lost per pattern and iteration."""
    found: dict[tuple[str, int, bool], Application] = {}
    known = [(pattern, _deeds(pattern)) for pattern in patterns]
    for attempt in history.attempts:
        made = frozenset([one for change in attempt.changes for one in deeds(change)])
        for pattern, wanted in known:
            cited = pattern.id in attempt.cited
            if attempt.changes and attempt.judged and (cited or made & wanted):
                won = attempt.kept and _won(pattern, attempt, history)
                one = Application(pattern.id, attempt.iteration, won, cited)
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


def _won(pattern: Pattern, attempt: Attempt, history: History) -> bool:
    match pattern.body:
        case ErrorFix(signature=signature):
            return any(
                _describes(signature.name, signature.type, fault) for fault in attempt.turned
            )
        case Template():
            return bool(attempt.turned)
        case Approach():
            return history.succeeded
        case Avoidance():
            return not attempt.broke


def _describes(name: str, kind: str, fault: Check) -> bool:
    """Is the failing check of the class that a signature names?

    The class alone: how near the messages are is what relevance weighs, with every outcome.
    """
    return fault.error_type == name if name else error_type_of(fault.error_type) == kind
