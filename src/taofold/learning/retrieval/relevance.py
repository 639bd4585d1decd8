"""How relevant a pattern is to a case, 0 to 1: the second stage of the search.

The error decides first, by class and message; the text around it second. Text alone counts
only through words that say something. Knows nothing about wins and losses.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

from taofold.core.checks import Check
from taofold.learning.retrieval.question import Asked, Bag
from taofold.learning.patterns.bodies import Approach, Avoidance, ErrorFix, Signature, Template
from taofold.learning.patterns.case import Case
from taofold.learning.retrieval.index import Entry, Hit, rarity, signature_of
from taofold.learning.retrieval.signature import literal, matches, pieces
from taofold.learning.patterns.values import Pattern
from taofold.learning.retrieval.words import telling

_K1: Final = 1.2
_B: Final = 0.75
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


def closest(asked: Asked, hits: Sequence[Hit], most: int) -> list[Hit]:
    """The `most` hits that share most with the case: words, and runs of letters. BM25."""
    here = frozenset(asked.terms)
    runs = [asked.grams.intersection(hit.entry.grams.split(" ")) for hit in hits]
    count = Counter(chain.from_iterable(runs))
    rare = {gram: rarity(n, len(hits)) for gram, n in count.items()}
    average = sum([hit.entry.length for hit in hits]) / len(hits) if hits else 1.0
    scored: list[tuple[float, str, Hit]] = []
    for hit, found in zip(hits, runs, strict=True):
        damp = _K1 * (1 - _B + _B * hit.entry.length / (average or 1.0))
        times = Counter(filter(here.__contains__, hit.entry.words.split(" ")))
        score = sum(map(rare.__getitem__, found)) / (1 + damp)
        for word, n in times.items():
            score += asked.weights.of(word) * n / (n + damp)
        score *= 1.0 + asked.meanings.get(hit.id, 0.0)
        scored.append((-round(score, 9), hit.id, hit))
    return [hit for _, _, hit in sorted(scored)[:most]]


def relevance(pattern: Pattern, entry: Entry, asked: Asked) -> float:
    """How relevant `pattern` is to the case, 0 to 1."""
    case = asked.case
    text = _text(entry, asked)
    if pattern.id in asked.meanings:
        text = (text + asked.meanings[pattern.id]) / 2
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
                says = asked.weights.bag(entry.message.split())
                error = max([likeness(found, says, one, said, asked) for one, said in pairs])
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


def likeness(signature: Signature, says: Bag, failing: Check, message: Bag, asked: Asked) -> float:
    """How much a failure looks like the signature, 0 to 1; the bags hold what the two say."""
    if matches(signature.pattern, failing.message):
        alike = 1.0 if says.words else 0.3
    else:
        alike = 0.8 * _overlap(asked, message, says)
    near = 0.1 if any(_at(hint, _where_at(failing)) for hint in signature.hints) else 0.0
    return min(_kinship(signature, failing) * (0.3 + 0.7 * alike) + near, 1.0)


def _kinship(signature: Signature, failing: Check) -> float:
    if not failing.error_type:
        return 0.6
    name = signature.name or signature.type
    if name == failing.error_type:
        return 1.0
    if signature.type == _KINDS.get(failing.error_type, failing.error_type):
        return 0.7
    return 0.5 if not signature.name and signature.type == "Other" else 0.15


def _where_at(failing: Check) -> str:
    """`path:function`, or `path:line`, of a failing check."""
    place = failing.place
    return f"{place.path}:{place.function or place.line}" if place.path else ""


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
            _overlap(asked, asked.context, asked.weights.bag(one.context.words))
            for one in pattern.evidence
            if one.outcome in ("found", "won")
            and not asked.context.words.isdisjoint(one.context.words)
        ],
        default=0.0,
    )


def _text(entry: Entry, asked: Asked) -> float:
    """How much of what the case and the whole pattern say is the same."""
    known = asked.words.intersection(entry.words.split(" "))
    weight = asked.weights.total(known) + asked.weights.unseen * (entry.size - len(known))
    return _overlap(asked, asked.telling, Bag(known, weight))


def _overlap(asked: Asked, one: Bag, other: Bag) -> float:
    """The shared part of what the two say, of the one that says less."""
    shared = one.words & other.words
    if not shared:
        return 0.0
    fewer = max(min(one.weight, other.weight), asked.least)
    return asked.weights.total(shared) / fewer


def _category(body: Approach | Avoidance | Template | ErrorFix, case: Case) -> float:
    """Less for a pattern of another category of tasks."""
    if isinstance(body, ErrorFix) or not case.category or not body.category:
        return 1.0
    return 1.0 if body.category == case.category else 0.7
