"""Compares a failing error with that of a lesson: by class, sentence and place.

Messages are compared as sentences, word after word, because names vary. The same function is
stronger evidence than the same words. For an assertion, whose message only shows a wrong value, the
place alone decides.
"""

import re
from difflib import SequenceMatcher
from typing import Final

from taofold.core.failing_checks import Check, is_assertion, is_exception
from taofold.learning.extraction.diffs import sides
from taofold.learning.extraction.generalisation import (
    error_type_of,
    pattern_of,
    raised_at,
    seen_at,
)
from taofold.learning.patterns.kinds import ErrorFix, ErrorSignature
from taofold.learning.retrieval.index import literal, matches, plain_words, telling

GENERIC_ERRORS: Final = frozenset(
    {"", "Error", "Exception", "error", "command", "timeout", "shell", "panic"}
)
"""Classes that do not distinguish causes."""
_ALIKE: Final = 0.6
_HALF: Final = 0.5
"""The share of the sentence that must be equal: with the same class, and without a class."""
_NEARLY: Final = 0.8
_FILE: Final = re.compile(r"\S*\w[./]\w\S*")
"""A file or a part of a module in a sentence."""
SAME_PLACE: Final = 0.6
_SENTENCE: Final = 30
"""The most words of a message that are compared in order."""
FEWEST_SHARED: Final = 2
"""The fewest words that two texts must share: a single one, such as "total", occurs anywhere."""


def error_likeness(signature: ErrorSignature, failing: Check) -> float:
    """Returns the similarity of a failing check to the signature, 0 to 1; 0 for another error."""
    here = SAME_PLACE * same_place(signature, failing)
    # The words of an assertion are compared values, or the test author's.
    if is_assertion(failing):
        return here
    named = failing.error_type not in GENERIC_ERRORS
    # Imported files name one of nine types; the ninth carries no information.
    own = signature.name or signature.type
    name = failing.error_type if signature.name else error_type_of(failing.error_type)
    if named and own not in (name, "Other"):
        return 0.0
    same, alike = same_sentence(signature, failing), sentence_likeness(signature, failing)
    if named and own == name != "Other":
        # A class such as TypeError has many causes: the words must agree.
        agreed = same or alike >= _ALIKE or not is_exception(failing)
        return 0.3 + 0.7 * alike if agreed else 0.0
    # The class is generic: the words must agree, or the place. For an exception a single word may
    # be the only difference, and generic words occur in many errors.
    agreed = same or (alike >= _HALF and not is_exception(failing))
    return max(alike if agreed and telling(literal(signature.pattern)) else 0.0, here)


def same_sentence(signature: ErrorSignature, failing: Check) -> bool:
    """Returns whether both messages are one sentence, ignoring names.

    Another English word makes another sentence, except if the exception's class identifies the
    problem: a comparison of such values is fixed like a subtraction.
    """
    if matches(signature.pattern, failing.message):
        return True
    texts = _sentences(signature, failing)
    there, here = map(str.split, texts)
    told = is_exception(failing) and failing.error_type not in GENERIC_ERRORS
    named = len(there) == len(here) and not any(
        a != b and a.islower() and b.islower() for a, b in zip(there, here, strict=True)
    )
    return (told or named) and _in_order(*texts) >= _NEARLY


def sentence_likeness(signature: ErrorSignature, failing: Check) -> float:
    """Returns the share of words in the same order in both messages, 0 to 1; 1 if they match."""
    if matches(signature.pattern, failing.message):
        return 1.0
    return _in_order(*_sentences(signature, failing))


def _sentences(signature: ErrorSignature, failing: Check) -> tuple[str, str]:
    """Returns both messages without files and values."""
    there, here = literal(signature.pattern), literal(pattern_of(failing.message))
    return _FILE.sub(" ", there), _FILE.sub(" ", here)


def same_place(signature: ErrorSignature, failing: Check) -> bool:
    """Returns whether the same function fails as in the lesson, or the same assertion."""
    # Compilers report no function, and every crate has a `src/lib.rs`.
    words = is_assertion(failing) and signature.example == failing.message
    return (":" in signature.seen or words) and "" != signature.seen == seen_at(failing)


def recurs(lesson: ErrorFix, failing: Check) -> bool:
    """Returns whether it is the lesson's error in the same function, raised by the same line.

    The line after the fix counts as the same.
    """
    signature, raised = lesson.signature, raised_at(failing)
    lines = {signature.raised, *[line.strip() for line in sides(lesson.fix.diff)[1]]}
    return (
        ":" in signature.seen
        and same_place(signature, failing)
        and failing.error_type == signature.name
        and matches(signature.pattern, failing.message)
        and (not (raised and signature.raised) or raised in lines)
    )


def _in_order(one: str, other: str) -> float:
    """Returns Dice's coefficient of the words in the same order in both texts.

    0 if these are fewer than two. Generic words count here: "has no" is not "is not".
    """
    left, right = plain_words(one)[:_SENTENCE], plain_words(other)[:_SENTENCE]
    shared = sum(
        [block.size for block in SequenceMatcher(None, left, right, False).get_matching_blocks()]
    )
    return 2 * shared / (len(left) + len(right)) if shared >= FEWEST_SHARED else 0.0
