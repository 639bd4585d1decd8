"""How relevant a pattern is to a case, 0 to 1: the second stage of the search.

The error decides first, by class and message; the text around it second. Text alone counts
only through words that say something. Knows nothing about wins and losses.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from taofold.core.checks import Check
from taofold.learning.extraction.diffs import line_term
from taofold.learning.extraction.generalise import seen_at
from taofold.learning.patterns.bodies import Approach, Avoidance, ErrorFix, Signature, Template
from taofold.learning.patterns.case import Case
from taofold.learning.patterns.values import Pattern
from taofold.learning.retrieval.index import Entry, Hit, rarity
from taofold.learning.retrieval.question import Bag, Question
from taofold.learning.retrieval.signature import literal, matches, pieces
from taofold.learning.retrieval.words import telling

_K1: Final = 1.2
_B: Final = 0.75
_SHORTEST_HINT: Final = 6
"""Letters of a place hint; `*.py` alone says nothing."""
LEAST: Final = 0.12
"""Below this a pattern has nothing to do with the case."""
GENERIC_ERRORS: Final = frozenset(
    {"", "AssertionError", "Error", "Exception", "Failed", "command", "timeout", "shell", "panic"}
)
"""Classes that do not tell one cause from another."""
_SAME_CLASS: Final = 0.7
_OTHER_CLASS: Final = 0.15
_SAME_WORDS: Final = 0.6
_LEAST_ERROR: Final = 0.25
_LEAST_TEXT: Final = 0.3
_FEWEST_SHARED: Final = 2
"""Words that two texts must share: one, such as "total", stands in anything."""
_LINE: Final = 0.6
"""How much it says for a fix that the very line which it replaced is here."""

# The class of an error in Python and the word that the schema has for it.
_KINDS: Final[Mapping[str, str]] = {
    "NameError": "ReferenceError",
    "UnboundLocalError": "ReferenceError",
    "IndentationError": "SyntaxError",
    "TimeoutExpired": "TimeoutError",
    "RecursionError": "RuntimeError",
    "ValueError": "ValidationError",
}


def closest(question: Question, hits: Sequence[Hit], most: int) -> list[Hit]:
    """The `most` hits that share most with the case: words, and runs of letters. BM25."""
    here = frozenset(question.terms)
    runs = [question.grams.intersection(hit.entry.grams.split(" ")) for hit in hits]
    count = Counter(chain.from_iterable(runs))
    rare = {gram: rarity(n, len(hits)) for gram, n in count.items()}
    average = sum([hit.entry.length for hit in hits]) / len(hits) if hits else 1.0
    scored: list[tuple[float, str, Hit]] = []
    for hit, found in zip(hits, runs, strict=True):
        damp = _K1 * (1 - _B + _B * hit.entry.length / (average or 1.0))
        times = Counter(filter(here.__contains__, hit.entry.words.split(" ")))
        score = sum(map(rare.__getitem__, found)) / (1 + damp)
        for word, n in times.items():
            score += question.weights.of(word) * n / (n + damp)
        score *= 1.0 + question.meanings.get(hit.id, 0.0)
        scored.append((-round(score, 9), hit.id, hit))
    return [hit for _, _, hit in sorted(scored)[:most]]


class Relevance(NamedTuple):
    """How relevant a pattern is, 0 to 1, and the failing check that it answers (-1 = none).

    `refused` says why it would mislead although its words are near: it answers another error.
    """

    value: float
    answers: int = -1
    refused: str = ""


def relevance(pattern: Pattern, entry: Entry, question: Question) -> Relevance:
    """How relevant `pattern` is to the case."""
    case = question.case
    text = _text(entry, question)
    if pattern.id in question.meanings:
        text = (text + question.meanings[pattern.id]) / 2
    scale = 0.5 if _foreign(pattern, case) else 1.0
    match pattern.body:
        case ErrorFix() | Avoidance():
            signature = pattern.body.signature
            if signature is None or not case.failing:
                return Relevance(scale * text * _category(pattern.body, case))
            return _of_error(pattern, entry, signature, text, scale, question)
        case Approach() as body:
            known = bool(body.task) and matches(body.task, case.task)
            value = max(text, 0.9 if known and telling(literal(body.task)) else 0.0)
            return Relevance(min(scale * value * _category(body, case), 1.0))
        case Template() as body:
            strange = "other" not in (body.language, case.language or "other")
            value = 0.0 if strange and body.language != case.language else text
            return Relevance(min(scale * value * _category(body, case), 1.0))


def _foreign(pattern: Pattern, case: Case) -> bool:
    language = pattern.scope.language
    return bool(case.language and language and case.language != language)


def _of_error(
    pattern: Pattern,
    entry: Entry,
    signature: Signature,
    text: float,
    scale: float,
    question: Question,
) -> Relevance:
    """The failing check that is most like the signature decides."""
    says = question.weights.bag(entry.message.split())
    line = _line_is_here(pattern, question)
    best = Relevance(0.0, refused="it answers another error")
    pairs = zip(question.case.failing, question.said, strict=False)
    for number, (failing, said) in enumerate(pairs):
        same = _kinship(signature, failing)
        alike = _alike(signature, says, failing, said, question)
        plain = failing.error_type in GENERIC_ERRORS
        if same >= _SAME_CLASS and not plain and alike < _LEAST_ERROR and _exception(failing):
            continue  # a class such as TypeError has many causes: the words must agree
        if same >= _SAME_CLASS and not plain:
            error = 0.3 + 0.7 * alike
        elif plain or not failing.error_type or same > _OTHER_CLASS:
            # The class says nothing: the words must, or the very line or function that was wrong.
            here = max(line, float(bool(signature.seen) and signature.seen == seen_at(failing)))
            error = max(same * alike if says.words else 0.0, _LINE * here)
            if error < _LEAST_ERROR and text < _LEAST_TEXT:
                continue
        elif alike >= _SAME_WORDS:
            error = 0.5 * alike
        else:
            continue
        near = 0.1 if any(_at(hint, _where_at(failing)) for hint in signature.hints) else 0.0
        around = max(text, _where(pattern, question), line)
        value = scale * min(0.75 * min(error + near, 1.0) + 0.25 * around, 1.0)
        if value > best.value:
            best = Relevance(value, number)
    return best


def _exception(failing: Check) -> bool:
    """Is it an exception's class, and not a linter's rule or a compiler's code?"""
    return failing.error_type.endswith(("Error", "Exception"))


def _line_is_here(pattern: Pattern, question: Question) -> float:
    """1 if a line that the fix replaced stands, names apart, in the code at hand."""
    body = pattern.body
    if not isinstance(body, ErrorFix):
        return 0.0
    gone = [line_term(line[1:]) for line in body.fix.diff.split("\n") if line[:1] == "-"]
    return float(any(term and term in question.lines for term in gone))


def _alike(
    signature: Signature, says: Bag, failing: Check, message: Bag, question: Question
) -> float:
    """How much of what the failure says is what the signature says, 0 to 1."""
    if matches(signature.pattern, failing.message):
        return 1.0 if says.words else 0.3
    return 0.8 * _overlap(question, message, says)


def _kinship(signature: Signature, failing: Check) -> float:
    """How much the error's class is the signature's, 0 to 1."""
    if not failing.error_type:
        return 0.6
    name = signature.name or signature.type
    if name == failing.error_type:
        return 1.0
    if signature.type == _KINDS.get(failing.error_type, failing.error_type):
        return 0.7
    return 0.5 if not signature.name and signature.type == "Other" else _OTHER_CLASS


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


def _where(pattern: Pattern, question: Question) -> float:
    """How near the case is to the nearest one where the pattern was found or helped."""
    return max(
        [
            _overlap(question, question.context, question.weights.bag(one.context.words))
            for one in pattern.evidence
            if one.outcome in ("found", "won")
            and not question.context.words.isdisjoint(one.context.words)
        ],
        default=0.0,
    )


def _text(entry: Entry, question: Question) -> float:
    """How much of what the case and the whole pattern say is the same."""
    known = question.words.intersection(entry.words.split(" "))
    if len(known) < _FEWEST_SHARED:
        return 0.0
    weight = question.weights.total(known) + question.weights.unseen * (entry.size - len(known))
    return _overlap(question, question.telling, Bag(known, weight))


def _overlap(question: Question, one: Bag, other: Bag) -> float:
    """The shared part of what the two say, of the one that says less."""
    shared = one.words & other.words
    if not shared:
        return 0.0
    fewer = max(min(one.weight, other.weight), question.least)
    return question.weights.total(shared) / fewer


def _category(body: Approach | Avoidance | Template | ErrorFix, case: Case) -> float:
    """Less for a pattern of another category of tasks."""
    if isinstance(body, ErrorFix) or not case.category or not body.category:
        return 1.0
    return 1.0 if body.category == case.category else 0.7
