"""The relevance of a pattern to a case, and the similarity of two patterns.

The error decides (`same_error`). A lesson is shown if a similar error fails, a lesson from a file
only after the loop has failed at it. Shared words, of the surrounding text or of the message, do
not make errors similar; they decide if nothing fails.
"""

import re
from typing import Final, NamedTuple, TypeAlias

from taofold.core.failing_checks import Check
from taofold.learning.extraction.diffs import HOLE, delta, dice, new_words, sides, tokens
from taofold.learning.extraction.generalisation import pattern_of
from taofold.learning.patterns.case import LoopCase
from taofold.learning.patterns.kinds import (
    Approach,
    Avoidance,
    CodeTemplate,
    ErrorFix,
    ErrorSignature,
)
from taofold.learning.patterns.pattern import Pattern
from taofold.learning.retrieval.index import literal, telling, words
from taofold.learning.retrieval.question import Question, telling_terms
from taofold.learning.retrieval.same_error import (
    FEWEST_SHARED,
    error_likeness,
    same_place,
)

_FEWEST: Final = 3
"""The minimum length of a text in words: otherwise two texts of one word would count as equal."""
_LONGEST: Final = 4000
Fields: TypeAlias = tuple[tuple[str, ...], ...]


def likeness(one: Pattern, other: Pattern) -> float:
    """Returns the similarity of two patterns, 0 to 1: the mean Dice's coefficient of their fields.

    Patterns of different kinds, classes of errors, categories or languages are never the same.
    """
    (sort, fields), (other_sort, others) = _fields(one), _fields(other)
    if sort != other_sort:
        return 0.0
    # A field that both lack is not a similarity.
    pairs = [pair for pair in zip(fields, others, strict=True) if any(pair)]
    values = [dice(*pair) for pair in pairs] or [1.0]
    mean = sum(values) / len(values)
    # The change comes last. A different change is a different lesson, even with similar messages.
    return min(mean, values[-1]) if one.kind == "error" else mean


def _fields(pattern: Pattern) -> tuple[tuple[str | bool, ...], Fields]:
    """Returns the values that must be equal, and the bags of words that are compared."""
    signature = pattern.signature
    error = signature.name or signature.type if signature is not None else ""
    message = tuple(words(literal(signature.pattern)[:_LONGEST])) if signature is not None else ()
    match pattern.body:
        case ErrorFix(fix=fix):
            change = (
                delta(*sides(fix.diff[:_LONGEST]))
                if fix.diff
                else tokens(HOLE.sub("ID", fix.code[:_LONGEST]))
            )
            return ("error", error, fix.category, bool(fix.diff)), (
                message,
                tuple(change),
            )
        case Approach() as body:
            text = "\n".join([*body.steps, body.description])
            return ("success", body.category), (tuple(words(text[:_LONGEST])), body.tools)
        case Avoidance() as body:
            return ("anti", error, body.mode), (tuple(words(body.approach[:_LONGEST])), message)
        case CodeTemplate() as body:
            # All holes are equal; the remaining names identify it.
            return ("template", body.language), (
                tuple(tokens(HOLE.sub("ID", body.code[:_LONGEST]))),
            )


LEAST: Final = 0.12
"""The minimum relevance to a case."""
_NO_NEED: Final = "it answers no error: it is shown after this loop has failed at one"
_TOLD: Final = "the loop was shown it while its error persisted"
_PROGRAM: Final = re.compile(
    r"(?:Index|ZeroDivision|Recursion)Error\b|KeyError: \S*$|E0061\b|E0308\b|TS2322\b|TS2345\b"
    r"|TS2554\b|(?:arg-type|call-arg|return-value|assignment|var-annotated)\b"
    r"|.*'\.\*' object has no attribute|.*\bis not a (?:function|constructor)|.*\bvalues to unpack"
    r"|.*'(?:\.\*|int|float|str|bool|list|dict|tuple|set)' object is not"
    r"|.*\b(?:NoneType|nil pointer|of null|of undefined|positional argument|keyword argument)\b"
    r"|.*\bpossibly '?(?:null|undefined)"
    r"|(?i:.*\b(?:invalid syntax|syntax error|unexpected (?:token|indent)|indented)\b)"
)
"""Errors whose cause is in the program at hand: a value, its type, the members of its classes."""


class Relevance(NamedTuple):
    """The relevance of a pattern, 0 to 1.

    `refused` is the reason not to show it although it is about such an error. `seen` are the
    similar errors of the lesson and of the case.
    """

    value: float
    refused: str = ""
    seen: tuple[ErrorSignature, Check] | None = None


def relevance(pattern: Pattern, stems: str, question: Question) -> Relevance:
    """Returns the relevance of `pattern`, whose text has these `stems`, to the case."""
    body = pattern.body
    text = _overlap(question.task, telling_terms(stems.split(" ")))
    match body:
        case ErrorFix() | Avoidance():
            if body.signature is None or not question.errors:
                return Relevance(text)
            return _of_error(pattern, body.signature, question)
        case Approach() | CodeTemplate():
            return _of_way(body, text, question)


def _of_way(body: Approach | CodeTemplate, text: float, question: Question) -> Relevance:
    """Rates ways of working, which answer no error: a loop without a failure needs none."""
    case = question.case
    if isinstance(body, Approach) and body.task:
        text = _overlap(question.task, frozenset(telling(literal(body.task))))
    elif isinstance(body, CodeTemplate) and not {body.language, case.language} & {"other", ""}:
        text *= body.language == case.language
    if text < LEAST or case.failed:
        return Relevance(text)
    return Relevance(0.0, refused=_NO_NEED)


def _of_error(pattern: Pattern, signature: ErrorSignature, question: Question) -> Relevance:
    """Rates by the failing check that is most similar to the signature."""
    # Zero without a similar failing check: words alone find lessons on other errors.
    best = Relevance(0.0)
    silence = ""
    for failing in question.errors:
        # Its error is over. A loop that followed the lesson does not need it again, but an
        # iteration that tried something else has no memory of it.
        if failing in question.case.exchanged and _followed(pattern, question.case):
            silence = _TOLD
            continue
        error = error_likeness(signature, failing)
        if error <= best.value:
            continue
        why = _withheld(pattern, signature, failing, question.case)
        silence = why or silence
        if not why:
            best = Relevance(error, seen=(signature, failing))
    return best if best.value else Relevance(0.0, refused=silence)


def _withheld(pattern: Pattern, signature: ErrorSignature, failing: Check, case: LoopCase) -> str:
    """Returns why the lesson is withheld for this error; "" if it is shown."""
    place, example = same_place(signature, failing), signature.example
    # A message without a value is the same everywhere: a lesson for it is shown only at the same
    # place, with the same value, or once another loop has confirmed it.
    valued = bool(re.search(r"\*|\\S", signature.pattern)) and example == failing.message
    sure = place or valued or not example or pattern.helped or len(pattern.found) > 1
    both = signature.pattern, pattern_of(failing.message)
    if not sure and any(_PROGRAM.match(f"{failing.error_type}: {message}") for message in both):
        return "such an error has its cause in the program at hand"
    if pattern.claimed and not pattern.licensed and failing.id not in case.failed:
        return "a file claims it: it is shown once this loop has failed at such an error"
    return ""


def _followed(pattern: Pattern, case: LoopCase) -> bool:
    """Returns whether the loop was shown the pattern and its edits contain a part of the fix."""
    body = pattern.body
    cure = new_words(body.fix.diff) if isinstance(body, ErrorFix) else set[str]()
    return pattern.id in case.told and not (cure and cure.isdisjoint(case.put))


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    """Returns the share of the shorter text's words that the other has too; 0 for one word."""
    shared = len(one & other)
    least = max(min(len(one), len(other)), _FEWEST)
    return shared / least if shared >= FEWEST_SHARED else 0.0
