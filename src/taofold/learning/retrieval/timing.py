"""When a reader who meets the error of a lesson is told of it: at once, after a failure, or not.

At once where the sentence is the same, names apart, and the change adds something that it does not
say. After a failure where the lesson only looks alike. Not, where what is known of both speaks for
another cause (`contrast`), where the program at hand decides the cause, where the message says it,
or where the cure stands already. `withheld` gives the reason.
"""

import re
from typing import Final

from taofold.core.failing_checks import Check, is_assertion, is_exception
from taofold.learning.extraction.diffs import BOUND, BRACKETS, KNOWN, defines, sides, tokens
from taofold.learning.extraction.generalisation import pattern_of
from taofold.learning.patterns.case import LoopCase
from taofold.learning.patterns.kinds import ErrorFix, ErrorSignature, Fix
from taofold.learning.patterns.pattern import Pattern
from taofold.learning.retrieval.contrast import other_cause, quoted
from taofold.learning.retrieval.index import GENERIC, matches, plain_words
from taofold.learning.retrieval.same_error import recurs_at_home, same_place, says_the_same, stands

_NOT_YET: Final = "it only looks alike: it is told once this loop has failed at such an error"
_OBVIOUS: Final = "the message says as much"
_CLAIMED: Final = "a file claims it: it is told once this loop has failed at the error"
_ABSENT: Final = re.compile(
    r"not defined|undefined|undeclared|unresolved|missing|argument|has no\b|no attribute|no module"
    r"|no such|not found|not exist|not associated|import name|unable to import|can(?:no|')t find"
    r"|provide an export",
    re.IGNORECASE,
)
"""What is said of a name, a member, a module, a file or an argument that is not there."""
_OWN_CLASS: Final = re.compile(
    r"(?:Key|Index|ZeroDivision)Error|E0061|E0308|TS2322|TS2345|TS2554"
    r"|arg-type|call-arg|return-value|assignment|var-annotated"
)
_OWN: Final = re.compile(
    r"'\.\*' object has no attribute|type object '\.\*' has no attribute"
    r"|.*\bis not a (?:function|constructor)|.*\bvalues to unpack"
    r"|'(?:\.\*|int|float|str|bool|list|dict|tuple|set)' object is not"
)
"""Errors whose cause is the program at hand: a value, its type, what its classes have.

Of another type than these the sentence tells the cause.
"""
_SYNTAX: Final = re.compile(
    r"(?i)\b(?:invalid syntax|syntax error|unexpected (?:token|indent|end|eof)|indented)"
)
_ARITY: Final = re.compile(r"\bpositional argument|\bkeyword argument|\bmultiple values for\b")
_OF_NOTHING: Final = re.compile(r"(?:Type|Attribute)Error|panic|TS(?:1804[78]|253[12])")
_NOTHING: Final = re.compile(r"\b(?:None|NoneType|null|undefined|nil)\b(?! map)")
"""A nil map is none of them: nobody made it, and nothing else is wrong."""
_DECLARES: Final = re.compile(r"\s*(?:global|nonlocal)\b")


def withheld(pattern: Pattern, signature: ErrorSignature, failing: Check, case: LoopCase) -> str:
    """Why a reader who meets this error is not told of it (yet); "" if they are."""
    body = pattern.body
    if isinstance(body, ErrorFix):
        fix, again = body.fix, same_place(signature, failing)
        same = says_the_same(signature, failing) and not is_assertion(failing)
        at_once = again or same or recurs_at_home(pattern, signature, failing, case)
        if stands(body, failing):
            return "what its change puts in stands in the code that fails here"
    else:
        # Dead ends spare a reader who meets the very message the way there.
        fix, at_once = Fix(), matches(signature.pattern, failing.message)
    # An error that became a wrong value was not mended either.
    failed = failing.id in case.failed or (failing in case.exchanged and at_once)
    otherwise = other_cause(signature, fix.diff, failing, failed=failed)
    if otherwise and not is_assertion(failing):
        return otherwise
    if _of_the_program(pattern, signature, fix, failing, failed=failed):
        return "such an error has its cause in the program at hand"
    # What was tried in vain there says something to who has failed as well.
    if _obvious(fix, signature, failing) and not (failed and fix.vain):
        return _OBVIOUS
    if failed or (at_once and not pattern.claimed):
        return ""
    return _CLAIMED if at_once else _NOT_YET


def _of_the_program(
    pattern: Pattern, signature: ErrorSignature, fix: Fix, failing: Check, *, failed: bool
) -> bool:
    """Has such an error its cause in the program at hand, so that another's lesson says nothing?"""
    # A lesson of a file, without a message word for word, is taken as it is.
    if not signature.example or same_place(signature, failing):
        return False
    if _SYNTAX.search(failing.message):
        return True
    # A message without a value is the same everywhere.
    valued = bool(re.search(r"\*|\\S", signature.pattern)) and signature.example == failing.message
    if valued:
        return False
    # What it lacked was written there: that is no other program's.
    if defines(*sides(fix.diff), signature.example):
        return True
    if pattern.helped or len(pattern.found) > 1:
        return False
    # Why it is nothing at all, or without end, has so many causes that only a loop which has failed
    # at it is to look at what others tried.
    named = _OF_NOTHING.fullmatch(failing.error_type) and _NOTHING.search(failing.message)
    if named or failing.error_type == "RecursionError":
        return not (failed and fix.vain)
    if is_exception(failing) and _ARITY.search(failing.message):
        # An argument more or less is of the program, unless it is the language's.
        return _exchanged_tokens(fix)[0].isdisjoint({*KNOWN, "self", "cls"})
    own = any(map(_OWN.match, (signature.pattern, pattern_of(failing.message))))
    return own or bool(_OWN_CLASS.fullmatch(failing.error_type))


def _obvious(fix: Fix, signature: ErrorSignature, failing: Check) -> bool:
    """Does the message itself say what the change does?

    It names all that is put in, or what is taken out or renamed. An exception's says what went
    wrong, and no more, unless something is not there.
    """
    if not fix.diff or is_assertion(failing):
        return False
    if not same_place(signature, failing) and _supplies(fix, signature.example):
        return True
    if is_exception(failing):
        return False
    put, out = _exchanged_tokens(fix)
    message = signature.example or failing.message
    sentence = plain_words(message)

    def says(token: str) -> bool:
        return token.lower() in sentence if token[0].isalnum() else token in message

    # A sign beside words says nothing, a bracket or a comma never does.
    words = [token for token in put if _worded(token)]
    if words or put:
        named = {*BOUND.findall("\n".join(sides(fix.diff)[1]))}
        renamed = _same_shape(fix) and all(
            word.strip("_") in out or word in named for word in words
        )
        return all(map(says, words or put)) or (renamed and all(map(says, filter(_worded, out))))
    return not out or any(map(says, out))


def _supplies(fix: Fix, message: str) -> bool:
    """Is what is not there by the message what the change writes, brings in, corrects, or drops?"""
    if not _ABSENT.search(message):
        return False
    names = [name.lower() for name in quoted(message)]
    said = " ".join(names)
    words = {*plain_words(said)} if said else {*plain_words(message.partition("\n")[0])} - GENERIC
    lines = [[line for line in side if not _DECLARES.match(line)] for side in sides(fix.diff)]
    gone, new = ({*plain_words("\n".join(side))} for side in lines)
    bound = {name.lower() for name in BOUND.findall("\n".join(lines[1]))}
    if not words.isdisjoint(new - gone) or not bound.isdisjoint(names):
        return True
    # What takes its place in code of another shape is news.
    return not words.isdisjoint(gone - new) and (new <= gone or _same_shape(fix))


def _exchanged_tokens(fix: Fix) -> tuple[set[str], set[str]]:
    """The words and signs that the change puts in, and those that it takes out."""
    gone, new = ({*tokens("\n".join(side))} - BRACKETS for side in sides(fix.diff))
    return new - gone, gone - new


def _worded(token: str) -> bool:
    return token[0].isalnum() or token[0] in "_\"'"


def _same_shape(fix: Fix) -> bool:
    """Does it exchange words for words?"""
    gone, new = (
        [_worded(token) or token for token in tokens("\n".join(side))] for side in sides(fix.diff)
    )
    return gone == new
