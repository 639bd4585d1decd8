"""The query to the registry: the errors of a case and their words.

One check of each error: forty tests that fail alike must not hide the next error. Text in it comes
from tools and users and is data.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from taofold.core.failing_checks import Check
from taofold.learning.extraction.generalisation import pattern_of, seen_at
from taofold.learning.patterns.case import CaseContext, LoopCase
from taofold.learning.retrieval.index import STOPS, classname, telling, words

_MOST_ERRORS: Final = 30
"""The most distinct errors of a case."""
_MESSAGE: Final = 2000
"""The most characters of a message."""


class Question(NamedTuple):
    """A case prepared for comparison."""

    case: LoopCase
    errors: tuple[Check, ...]
    """One check of each error: forty tests that fail alike must not hide the next error."""
    searches: tuple[tuple[str, ...], ...]
    """The terms of each error, and last those of the task.

    Each is searched separately: otherwise the rare words of one error would leave no room for those
    of another.
    """
    task: frozenset[str]
    """The informative words of the task."""


def context_of(case: LoopCase) -> CaseContext:
    """Returns the case in the small form that is stored."""
    errors = {check.error_type for check in _distinct(case) if check.error_type}
    return CaseContext(tuple(sorted(errors)), case.language, case.repository)


def ask(case: LoopCase) -> Question:
    """Prepares `case`."""
    errors = _distinct(case)
    searches = [(*_class_of(check), *words(check.message[:_MESSAGE])) for check in errors]
    searches.append(tuple(telling(case.task[:_MESSAGE])))
    task = telling_terms(searches[-1])
    return Question(case, errors, tuple(filter(None, searches)), task)


def _distinct(case: LoopCase) -> tuple[Check, ...]:
    """Returns one check of each failing error, distinguished by class, sentence and place."""
    errors: dict[tuple[str, ...], Check] = {}
    for check in (*case.failing, *case.exchanged):
        errors.setdefault((check.error_type, pattern_of(check.message), seen_at(check)), check)
    return tuple(errors.values())[:_MOST_ERRORS]


def _class_of(check: Check) -> list[str]:
    return [classname(check.error_type)] if check.error_type else []


def telling_terms(terms: Iterable[str]) -> frozenset[str]:
    """Returns the informative terms: no generic words, no lone letters or digits."""
    return frozenset([term for term in terms if len(term) > 1 and not term.isdigit()]) - STOPS
