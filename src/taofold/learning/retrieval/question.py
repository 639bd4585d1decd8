"""What is asked of the registry: the errors of a case, each with what led to it, and their words.

One check of each error, for forty tests that fail alike must not hide the next error. Text in it
comes from tools and people and is data.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec.structs import replace

from taofold.core.failing_checks import Check
from taofold.diagnostics import causes_of
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
    chains: tuple[tuple[Check, ...], ...]
    """One check of each error, for forty tests that fail alike must not hide the next error, each
    with what led to it (`chain_of`)."""
    searches: tuple[tuple[str, ...], ...]
    """The terms of each error, and last those of the task: each is searched for by itself, or the
    rare words of one error would leave no room for those of another."""
    task: frozenset[str]
    """The words of the task that say something."""


def context_of(case: LoopCase) -> CaseContext:
    """The case, small enough to be kept."""
    errors = {check.error_type for check, *_ in _distinct(case) if check.error_type}
    return CaseContext(tuple(sorted(errors)), case.language, case.repository)


def ask(case: LoopCase) -> Question:
    """Prepare `case`."""
    chains = _distinct(case)
    each = [form for chain in chains for form in chain]
    searches = [(*_class_of(check), *words(check.message[:_MESSAGE])) for check in each]
    searches.append(tuple(telling(case.task[:_MESSAGE])))
    task = telling_terms(searches[-1])
    return Question(case, chains, tuple(filter(None, searches)), task)


def _distinct(case: LoopCase) -> tuple[tuple[Check, ...], ...]:
    """The chain of each error that fails, by its classes, its sentences and its place."""
    errors: dict[tuple[str, ...], tuple[Check, ...]] = {}
    for check in (*case.failing, *case.exchanged):
        chain = chain_of(check)
        forms = [text for form in chain for text in (form.error_type, pattern_of(form.message))]
        errors.setdefault((*forms, seen_at(check)), chain)
    return tuple(errors.values())[:_MOST_ERRORS]


def chain_of(check: Check) -> tuple[Check, ...]:
    """The check, and as others of the same place the exceptions that led to its own."""
    causes = causes_of(check)
    return (check, *[replace(check, error_type=e, message=message) for e, message in causes])


def _class_of(check: Check) -> list[str]:
    return [classname(check.error_type)] if check.error_type else []


def telling_terms(terms: Iterable[str]) -> frozenset[str]:
    """Those that say something: no generic words, no lone letters or digits."""
    return frozenset([term for term in terms if len(term) > 1 and not term.isdigit()]) - STOPS
