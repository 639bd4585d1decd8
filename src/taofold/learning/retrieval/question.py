"""A question to the registry: a case taken apart for the search and for the comparison.

What its words weigh depends on how many patterns hold them. Knows nothing about how a
pattern is compared.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from taofold.learning.extraction.diffs import line_term
from taofold.learning.patterns.case import Case, Context
from taofold.learning.retrieval.index import classname, rarity
from taofold.learning.retrieval.words import STOPS, distinct, grams, letters, telling, words

_CODE_TERMS: Final = 40
_LINE_TERMS: Final = 80
_MOST_TERMS: Final = 240
_CONTEXT_WORDS: Final = 24
_MOST_FAILING: Final = 12
_MESSAGE: Final = 2000
"""Characters of a message that are looked at."""
_MOST_GRAMS: Final = 250
_BEHIND: Final = 50
"""Patterns that are assumed to exist elsewhere, so that a small registry knows rare words too."""
_FEWEST_WORDS: Final = 3.0


class Bag(NamedTuple):
    """Words, and how much they say together."""

    words: frozenset[str]
    weight: float


class Weights(NamedTuple):
    """How much words say: a rare one about 4."""

    rare: Mapping[str, float]
    unseen: float
    """The weight of a word in no pattern."""

    def of(self, word: str) -> float:
        """One word's weight."""
        return self.rare.get(word, self.unseen)

    def total(self, found: Iterable[str]) -> float:
        """What the words weigh together."""
        rare, unseen = self
        return sum([rare.get(word, unseen) for word in found])

    def bag(self, found: Iterable[str]) -> Bag:
        """The words, each once, with their weight."""
        kept = frozenset(found)
        return Bag(kept, self.total(kept))


class Question(NamedTuple):
    """A case prepared for comparison. `terms` are searched for."""

    case: Case
    terms: tuple[str, ...]
    words: frozenset[str]
    """The terms again, without those that say nothing."""
    telling: Bag
    grams: frozenset[str]
    said: tuple[Bag, ...]
    """The telling words of each failure's message."""
    context: Bag
    here: Context
    weights: Weights
    lines: frozenset[str]
    """The terms of the lines of code at hand."""
    least: float
    """What a text must say at least to be compared as a whole."""
    meanings: Mapping[str, float] = {}
    """How much patterns, by id, mean what the case means, 0 to 1, where a model was asked."""


def terms_of(case: Case) -> tuple[str, ...]:
    """What to search for, the most telling first: errors, the task, then the code."""
    found: list[str] = []
    for failing in case.failing[:_MOST_FAILING]:
        found += [classname(failing.error_type)] if failing.error_type else []
        found += words(failing.message[:_MESSAGE])
    found += telling(case.task[:2000])
    found += distinct(filter(None, map(line_term, case.code[:8000].split("\n"))), _LINE_TERMS)
    found += distinct(telling(case.code[:8000]), _CODE_TERMS)
    return distinct(found, _MOST_TERMS)


def context_of(case: Case) -> Context:
    """The case, small enough to be kept."""
    failing = case.failing[:_MOST_FAILING]
    said = telling(" ".join([one.message[:300] for one in failing]))
    around = telling(case.code[:8000]) or telling(case.task[:2000])
    half = distinct(said, _CONTEXT_WORDS // 2)
    return Context(
        tuple(sorted({one.error_type for one in failing if one.error_type})),
        distinct([*half, *around], _CONTEXT_WORDS),
        case.language,
        case.repository,
    )


def ask(case: Case, terms: tuple[str, ...], known: Mapping[str, int], total: int) -> Question:
    """Prepare `case`; `known` says in how many of `total` patterns each of its `terms` stands."""
    failing = case.failing[:_MOST_FAILING]
    said = " ".join([*(one.message[:_MESSAGE] for one in failing), case.task[:1000]])
    useful = [term for term in terms if len(term) > 1 and term not in STOPS]
    everywhere = total + _BEHIND
    rare = {term: rarity(min(count, total), everywhere) for term, count in known.items()}
    weights = Weights(rare, rarity(0, everywhere))
    here = context_of(case)
    return Question(
        case,
        terms,
        frozenset(terms) - STOPS,
        weights.bag([term for term in useful if not term.isdigit() and term[0] != "="]),
        frozenset(distinct(grams(letters(said)), _MOST_GRAMS)),
        tuple([weights.bag(telling(one.message[:_MESSAGE])) for one in failing]),
        weights.bag(here.words),
        here,
        weights,
        frozenset([term for line in case.code[:8000].split("\n") if (term := line_term(line))]),
        _FEWEST_WORDS * rarity(1, everywhere),
    )
