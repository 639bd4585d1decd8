"""How relevant a pattern is to a case, 0 to 1: the second stage of the search.

The error decides first, by class and message; the text around it second. Text alone counts
only through words that say something. Knows nothing about wins and losses.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from taofold.patterns.bodies import Approach, Avoidance, ErrorFix, Signature, Template
from taofold.patterns.case import Case, Context, Failing
from taofold.patterns.contrast import contrast
from taofold.patterns.diffs import line_term
from taofold.patterns.index import Entry, Hit, classname, rarity, signature_of
from taofold.patterns.signature import literal, matches, pieces
from taofold.patterns.values import Pattern
from taofold.patterns.words import STOPS, distinct, grams, telling, words

_CODE_TERMS: Final = 40
_LINE_TERMS: Final = 80
_MOST_TERMS: Final = 240
_CONTEXT_WORDS: Final = 24
_MOST_FAILING: Final = 12
_MESSAGE: Final = 2000
"""Characters of a message that are looked at."""
_MOST_GRAMS: Final = 250
_K1: Final = 1.2
_B: Final = 0.75
_BEHIND: Final = 50
"""Patterns that are assumed to exist elsewhere, so that a small registry knows rare words too."""
_FEWEST_WORDS: Final = 3.0
_SHORTEST_HINT: Final = 6
"""Letters of a place hint; `*.py` alone says nothing."""
LEAST: Final = 0.12
"""Below this a pattern has nothing to do with the case."""

# The class of an error in Python and the word that the schema has for it.
_KINDS: Final[Mapping[str, str]] = {
    "NameError": "ReferenceError",
    "UnboundLocalError": "ReferenceError",
    "IndentationError": "SyntaxError",
    "TimeoutExpired": "TimeoutError",
    "RecursionError": "RuntimeError",
    "ValueError": "ValidationError",
}


class Bag(NamedTuple):
    """Words, and how much they say together."""

    words: frozenset[str]
    weight: float


class Asked(NamedTuple):
    """A case prepared for comparison. `terms` are searched for; `rare` says what words weigh."""

    case: Case
    terms: tuple[str, ...]
    telling: Bag
    grams: frozenset[str]
    said: tuple[Bag, ...]
    """The telling words of each failure's message."""
    context: Bag
    here: Context
    rare: Mapping[str, float]
    unseen: float
    """The weight of a word in no pattern."""
    least: float
    """What a text must say at least to be compared as a whole."""

    def weight(self, found: Iterable[str]) -> float:
        """How much the words say, together; a rare one about 4."""
        return _weight(found, self.rare, self.unseen)


def _weight(found: Iterable[str], rare: Mapping[str, float], unseen: float) -> float:
    return sum([rare.get(word, unseen) for word in found])


def terms_of(case: Case) -> tuple[str, ...]:
    """What to search for, the most telling first: errors, the task, then the code."""
    found: list[str] = []
    for failing in case.failing[:_MOST_FAILING]:
        found += [classname(failing.error)] if failing.error else []
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
        tuple(sorted({one.error for one in failing if one.error})),
        distinct([*half, *around], _CONTEXT_WORDS),
        case.language,
        case.repository,
        tuple(sorted({sign for one in failing for sign in contrast(one.message)})),
    )


def ask(case: Case, known: Mapping[str, int], total: int) -> Asked:
    """Prepare `case`; `known` says in how many of `total` patterns each of its terms stands."""
    terms = terms_of(case)
    failing = case.failing[:_MOST_FAILING]
    said = " ".join([*(one.message[:_MESSAGE] for one in failing), case.task[:1000]])
    useful = [term for term in terms if len(term) > 1 and term not in STOPS]
    everywhere = total + _BEHIND
    rare = {term: rarity(min(count, total), everywhere) for term, count in known.items()}
    unseen = rarity(0, everywhere)
    here = context_of(case)

    def bag(found: Iterable[str]) -> Bag:
        kept = frozenset(found)
        return Bag(kept, _weight(kept, rare, unseen))

    return Asked(
        case,
        terms,
        bag([term for term in useful if not term.isdigit() and term[0] != "="]),
        frozenset(distinct(grams(said), _MOST_GRAMS)),
        tuple([bag(telling(one.message[:_MESSAGE])) for one in failing]),
        bag(here.words),
        here,
        rare,
        unseen,
        _FEWEST_WORDS * rarity(1, everywhere),
    )


def closest(asked: Asked, hits: Sequence[Hit], most: int) -> list[Hit]:
    """The `most` hits that share most with the case: words, and runs of letters. BM25."""
    here = frozenset(asked.terms)
    runs = [[gram for gram in asked.grams if gram in hit.entry.letters] for hit in hits]
    count = Counter([gram for found in runs for gram in found])
    rare = {gram: rarity(n, len(hits)) for gram, n in count.items()}
    average = sum([len(hit.entry.letters) for hit in hits]) / len(hits) if hits else 1.0
    scored: list[tuple[float, str, Hit]] = []
    for hit, found in zip(hits, runs, strict=True):
        damp = _K1 * (1 - _B + _B * len(hit.entry.letters) / (average or 1.0))
        times = Counter([word for word in hit.entry.words if word in here])
        score = sum([rare[gram] for gram in found]) / (1 + damp)
        for word, n in times.items():
            score += asked.rare.get(word, asked.unseen) * n / (n + damp)
        scored.append((-score, hit.id, hit))
    return [hit for _, _, hit in sorted(scored)[:most]]


def relevance(pattern: Pattern, entry: Entry, asked: Asked) -> float:
    """How relevant `pattern` is to the case, 0 to 1."""
    case = asked.case
    text = _overlap(asked, asked.telling, frozenset(entry.words) - STOPS)
    foreign = bool(
        case.language and pattern.scope.language and case.language != pattern.scope.language
    )
    match pattern.body:
        case ErrorFix() | Avoidance():
            found = signature_of(pattern)
            if found is None or not case.failing:
                value = text * _category(pattern.body, case)
            else:
                pairs = zip(case.failing, asked.said, strict=False)
                error = max([likeness(found, one, said, asked) for one, said in pairs])
                value = 0.75 * error + 0.25 * max(text, _where(pattern, asked))
        case Approach() as body:
            known = bool(body.task) and matches(body.task, case.task)
            value = max(text, 0.9 if known and telling(literal(body.task)) else 0.0)
            value *= _category(body, case)
        case Template() as body:
            strange = "other" not in (body.language, case.language or "other")
            value = 0.0 if strange and body.language != case.language else text
            value *= _category(body, case)
    return min(value * (0.5 if foreign else 1.0), 1.0)


def likeness(signature: Signature, failing: Failing, message: Bag, asked: Asked) -> float:
    """How much a failure, with the telling words `message`, looks like the signature, 0 to 1."""
    said = _words_of(signature.pattern)
    if matches(signature.pattern, failing.message):
        alike = 1.0 if said else 0.3
    else:
        alike = 0.8 * _overlap(asked, message, said)
    near = 0.1 if any(_at(hint, failing.place) for hint in signature.hints) else 0.0
    return min(_kinship(signature, failing) * (0.3 + 0.7 * alike) + near, 1.0)


@lru_cache(maxsize=4096)
def _words_of(pattern: str) -> frozenset[str]:
    return frozenset(telling(literal(pattern)))


def _kinship(signature: Signature, failing: Failing) -> float:
    if not failing.error:
        return 0.6
    name = signature.name or signature.type
    if name == failing.error:
        return 1.0
    if signature.type == _KINDS.get(failing.error, failing.error):
        return 0.7
    return 0.5 if not signature.name and signature.type == "Other" else 0.15


def _at(hint: str, place: str) -> bool:
    """Does `place` look like the hint `*.py:validate*`?"""
    known = pieces(hint.replace("*", ".*"))
    if not known or not place or len("".join(known)) < _SHORTEST_HINT:
        return False
    at = 0
    for piece in known:
        at = place.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return True


def _where(pattern: Pattern, asked: Asked) -> float:
    """How near the case is to the nearest one where the pattern was found or helped."""
    return max(
        [
            _overlap(asked, asked.context, frozenset(one.context.words))
            for one in pattern.evidence
            if one.outcome in ("found", "won")
        ],
        default=0.0,
    )


def _overlap(asked: Asked, one: Bag, other: frozenset[str]) -> float:
    """The shared part of what the two say, of the one that says less."""
    shared = one.words & other
    if not shared:
        return 0.0
    fewer = max(min(one.weight, asked.weight(other)), asked.least)
    return asked.weight(shared) / fewer


def _category(body: Approach | Avoidance | Template | ErrorFix, case: Case) -> float:
    """Less for a pattern of another category of tasks."""
    if isinstance(body, ErrorFix) or not case.category or not body.category:
        return 1.0
    return 1.0 if body.category == case.category else 0.7
