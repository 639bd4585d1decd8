"""Whether an error that fails now is the one of a lesson: its class, its sentence, its place.

A message is compared as a sentence, word after word, for names come and go; that it stands in the
same function tells more than its words. Of an assertion, which says only that a value is not the
expected one, only the place decides.
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
"""Classes that do not tell one cause from another."""
_ALIKE: Final = 0.6
_HALF: Final = 0.5
"""How much of the sentence must be the same where the class is, and where there is none."""
_NEARLY: Final = 0.8
_FILE: Final = re.compile(r"\S*\w[./]\w\S*")
"""What stands for a file or a part of a module in a sentence."""
SAME_PLACE: Final = 0.6
_SENTENCE: Final = 30
"""Words of a message that are compared in order."""
FEWEST_SHARED: Final = 2
"""Words that two texts must share: one, such as "total", stands in anything."""


def error_likeness(signature: ErrorSignature, failing: Check) -> float:
    """How much a failing check is the error of the signature, 0 to 1; 0 for another one."""
    here = SAME_PLACE * same_place(signature, failing)
    # An assertion's words are of the values that were compared, or of the test's author.
    if is_assertion(failing):
        return here
    named = failing.error_type not in GENERIC_ERRORS
    # Files of the seed's schema name one of nine types, of which the ninth says nothing.
    own = signature.name or signature.type
    name = failing.error_type if signature.name else error_type_of(failing.error_type)
    if named and own not in (name, "Other"):
        return 0.0
    same, alike = same_sentence(signature, failing), sentence_likeness(signature, failing)
    if named and own == name != "Other":
        # A class such as TypeError has many causes: the words must agree.
        agreed = same or alike >= _ALIKE or not is_exception(failing)
        return 0.3 + 0.7 * alike if agreed else 0.0
    # The class says nothing: the words must, or the place. Of an exception one word may be all that
    # tells it from another, and generic words are those of many errors.
    agreed = same or (alike >= _HALF and not is_exception(failing))
    return max(alike if agreed and telling(literal(signature.pattern)) else 0.0, here)


def same_sentence(signature: ErrorSignature, failing: Check) -> bool:
    """Are both messages one sentence, names apart?

    A word of English in the place of another makes another sentence, but where the exception's
    class says what it is about: who compares such values mends it as who subtracts them.
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
    """How many words of both messages stand in the same order, 0 to 1; 1 if they match."""
    if matches(signature.pattern, failing.message):
        return 1.0
    return _in_order(*_sentences(signature, failing))


def _sentences(signature: ErrorSignature, failing: Check) -> tuple[str, str]:
    """Both messages without files and values."""
    there, here = literal(signature.pattern), literal(pattern_of(failing.message))
    return _FILE.sub(" ", there), _FILE.sub(" ", here)


def same_place(signature: ErrorSignature, failing: Check) -> bool:
    """Does the function fail where the lesson was learnt, or, of an assertion, the same words?"""
    # Compilers tell no function, and every crate has a `src/lib.rs`.
    words = is_assertion(failing) and signature.example == failing.message
    return (":" in signature.seen or words) and "" != signature.seen == seen_at(failing)


def recurs(lesson: ErrorFix, failing: Check) -> bool:
    """Is it the error of the lesson, in the very function, raised by the line or by its cure?"""
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
    """Dice's coefficient of the words that stand in the same order in both texts.

    0 if these are fewer than two. Words that say nothing elsewhere count here: "has no" is not "is
    not".
    """
    left, right = plain_words(one)[:_SENTENCE], plain_words(other)[:_SENTENCE]
    shared = sum(
        [block.size for block in SequenceMatcher(None, left, right, False).get_matching_blocks()]
    )
    return 2 * shared / (len(left) + len(right)) if shared >= FEWEST_SHARED else 0.0
