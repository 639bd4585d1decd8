"""What is asked of the registry: the errors of a case and their words.

One check of each error, for forty tests that fail alike must not hide the next error. Text in it
comes from tools and people and is data.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from taofold.core.failing_checks import Check
from taofold.learning.extraction.generalisation import pattern_of, seen_at
from taofold.learning.patterns.case import CaseContext, LoopCase
from taofold.learning.retrieval.index import STOPS, classname, telling, words

_MOST_ERRORS: Final = 30
"""Different errors of a case that are looked at."""
_MESSAGE: Final = 2000
"""Characters of a message that are looked at."""


class Question(NamedTuple):
    """A case prepared for comparison."""

    case: LoopCase
    errors: tuple[Check, ...]
    """One check of each error, for forty tests that fail alike must not hide the next error."""
    searches: tuple[tuple[str, ...], ...]
    """The terms of each error, and last those of the task: each is searched for by itself, or the
    rare words of one error would leave no room for those of another."""
    task: frozenset[str]
    """The words of the task that say something."""


def context_of(case: LoopCase) -> CaseContext:
    """The case, small enough to be kept."""
    errors = {check.error_type for check in _distinct(case) if check.error_type}
    return CaseContext(tuple(sorted(errors)), case.language, case.repository)


def ask(case: LoopCase) -> Question:
    """Prepare `case`."""
    errors = _distinct(case)
    searches = [(*_class_of(check), *words(check.message[:_MESSAGE])) for check in errors]
    searches.append(tuple(telling(case.task[:_MESSAGE])))
    task = telling_terms(searches[-1])
    return Question(case, errors, tuple(filter(None, searches)), task)


def _distinct(case: LoopCase) -> tuple[Check, ...]:
    """One check of each error that fails, by its class, its sentence and its place."""
    errors: dict[tuple[str, ...], Check] = {}
    for check in (*case.failing, *case.exchanged):
        errors.setdefault((check.error_type, pattern_of(check.message), seen_at(check)), check)
    return tuple(errors.values())[:_MOST_ERRORS]


def _class_of(check: Check) -> list[str]:
    return [classname(check.error_type)] if check.error_type else []


def telling_terms(terms: Iterable[str]) -> frozenset[str]:
    """Those that say something: no generic words, no lone letters or digits."""
    return frozenset([term for term in terms if len(term) > 1 and not term.isdigit()]) - STOPS
