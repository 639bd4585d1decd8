"""What the search knows of a pattern, and a search in memory over it.

First stage of two: the patterns with the rarest of the question's stems; `relate` looks at
these closely. A store on disk has an index of its own for the first stage. Measured in
`bench/retrieval`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import Final, NamedTuple, Protocol

from taofold.learning.extraction.diffs import line_term
from taofold.learning.patterns.bodies import Approach, Avoidance, ErrorFix, Template
from taofold.learning.patterns.values import Pattern
from taofold.learning.retrieval.signature import literal
from taofold.learning.retrieval.words import STOPS, grams, letters, telling, words

TERMS: Final = 32
"""Of a question, the rarest words that are searched for."""
POOL: Final = 60
"""Patterns that the first stage hands on."""
MOST_POSTINGS: Final = 2_500
"""The search looks at the rarest words until they stand in so many patterns together."""
_MOST_WORDS: Final = 240
_MOST_LETTERS: Final = 1600


class Entry(NamedTuple):
    """A pattern as the index has it. The texts are what they name, with spaces between.

    What a search would work out anew for every question is worked out once, when a pattern is
    written: a question about 10,000 patterns looks at sixty of these.
    """

    words: str
    """The stems, in order, with repeats."""
    grams: str
    """The different runs of letters."""
    message: str
    """The stems of its error's message that say something."""
    length: int
    """Letters of its text."""
    size: int
    """Different stems that say something."""


class Hit(NamedTuple):
    """A pattern that shares rare words with the question."""

    id: str
    entry: Entry


class Search(Protocol):
    """The first stage."""

    def search(self, terms: Sequence[str], limit: int = POOL) -> list[Hit]:
        """Patterns with the rarest of `terms`, the likeliest first."""
        ...

    def frequencies(self, terms: Iterable[str]) -> tuple[Mapping[str, int], int]:
        """In how many patterns each term stands, and how many patterns there are."""
        ...


def entry(pattern: Pattern) -> Entry:
    """What is indexed: everything a pattern says, and the words of where it was found."""
    text = text_of(pattern)
    stems = [*_class(pattern), *_replaced(pattern), *words(text)]
    for one in pattern.evidence:
        if one.outcome in ("found", "won"):
            stems += one.context.words
            break
    stems = stems[:_MOST_WORDS]
    prepared = letters(text[:_MOST_LETTERS])[:_MOST_LETTERS]
    signature = pattern.signature
    return Entry(
        " ".join(stems),
        " ".join(dict.fromkeys(grams(prepared))),
        " ".join(dict.fromkeys(telling(literal(signature.pattern)))) if signature else "",
        len(prepared),
        len({*stems} - STOPS),
    )


def text_of(pattern: Pattern) -> str:
    """Everything that a pattern says."""
    return "\n".join(_texts(pattern))


def classname(name: str) -> str:
    """The term that stands for an error's class, apart from the same word in prose."""
    return f"={name.lower()}"


def _replaced(pattern: Pattern) -> list[str]:
    """The terms that stand for the lines a fix replaced."""
    if not isinstance(pattern.body, ErrorFix):
        return []
    gone = [line[1:] for line in pattern.body.fix.diff.split("\n") if line[:1] == "-"]
    return [term for line in gone if (term := line_term(line))]


def _class(pattern: Pattern) -> list[str]:
    found = pattern.signature
    return [classname(found.name or found.type)] if found else []


def _texts(pattern: Pattern) -> list[str]:
    found = [pattern.name, *pattern.tags]
    signature = pattern.signature
    if signature is not None:
        found += [signature.name, literal(signature.pattern), *signature.hints]
    match pattern.body:
        case ErrorFix(fix=fix):
            found += [fix.description, fix.template, fix.code, fix.diff]
        case Approach() as body:
            found += [body.description, literal(body.task), *body.steps, *body.preconditions]
        case Avoidance() as body:
            found += [body.approach, *body.symptoms, body.why, body.better]
        case Template() as body:
            found += [body.use, body.code, *body.holes.values()]
    return [text for text in found if text]


def rarity(frequency: int, total: int) -> float:
    """The weight of a word: its inverse document frequency, as BM25 has it."""
    return log(1.0 + (total - frequency + 0.5) / (frequency + 0.5))


def rarest(terms: Sequence[str], known: Mapping[str, int]) -> list[str]:
    """Those of `terms` that are searched for: the rarest of those that occur."""
    there = sorted([t for t in dict.fromkeys(terms) if known.get(t)], key=lambda t: known[t])
    left = MOST_POSTINGS
    chosen: list[str] = []
    for term in there[:TERMS]:
        left -= known[term]
        if left < 0 and chosen:
            break
        chosen.append(term)
    return chosen


def best(posts: Iterable[tuple[float, Iterable[int]]], limit: int) -> list[int]:
    """The numbers whose words weigh most together: `posts` are weights with the numbers."""
    scores: dict[int, float] = {}
    for weight, numbers in posts:
        for number in numbers:
            scores[number] = scores.get(number, 0.0) + weight
    if len(scores) > limit:
        least = sorted(scores.values(), reverse=True)[limit - 1]
        scores = {number: score for number, score in scores.items() if score >= least}
    return sorted(scores, key=lambda number: (-scores[number], number))[:limit]


class Postings:
    """An index in memory. Entries may be replaced and taken out."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._hits: dict[int, Hit] = {}
        self._posts: dict[str, set[int]] = defaultdict(set)

    def put(self, identity: str, new: Entry) -> None:
        """Index `new` under `identity`."""
        self.drop(identity)
        number = self._numbers.setdefault(identity, len(self._numbers))
        self._hits[number] = Hit(identity, new)
        for word in set(new.words.split()):
            self._posts[word].add(number)

    def drop(self, identity: str) -> None:
        """Take an entry out, if it is there."""
        old = self._hits.pop(self._numbers.get(identity, -1), None)
        if old is not None:
            for word in set(old.entry.words.split()):
                self._posts[word].discard(self._numbers[identity])

    def frequencies(self, terms: Iterable[str]) -> tuple[Mapping[str, int], int]:
        """In how many entries each term stands, and how many there are."""
        known = {term: len(self._posts[term]) for term in terms if self._posts.get(term)}
        return known, len(self._hits)

    def search(self, terms: Sequence[str], limit: int = POOL) -> list[Hit]:
        """Entries by the weight of the rarest of `terms` in them."""
        known, total = self.frequencies(terms)
        posts = [(rarity(known[t], total), self._posts[t]) for t in rarest(terms, known)]
        return [self._hits[number] for number in best(posts, limit)]
