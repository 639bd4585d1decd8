"""When a reader who meets the error of a lesson is told of it: at once, after a failure, or not.

At once where the sentence is the same, names apart, or the same function fails. After a failure
where the lesson only looks alike. Not, where the program at hand decides the cause, where the
message says what the change does, or where the cure stands already. `withheld` gives the reason.
"""

import re
from collections.abc import Iterable, Sequence
from keyword import iskeyword
from typing import Final

from taofold.core.failing_checks import Check, is_assertion, is_exception
from taofold.learning.extraction.diffs import BOUND, BRACKETS, IMPORT, KNOWN, sides, tokens
from taofold.learning.extraction.generalisation import pattern_of
from taofold.learning.patterns.case import LoopCase
from taofold.learning.patterns.kinds import ErrorFix, ErrorSignature, Fix
from taofold.learning.patterns.pattern import Pattern
from taofold.learning.retrieval.index import matches
from taofold.learning.retrieval.same_error import (
    recurs_at_home,
    same_place,
    same_sentence,
    stands,
)

_OWN_CLASS: Final = re.compile(
    r"(?:Index|ZeroDivision)Error|E0061|E0308|TS2322|TS2345|TS2554"
    r"|arg-type|call-arg|return-value|assignment|var-annotated"
)
_OWN: Final = re.compile(
    r"'\.\*' object has no attribute|type object '\.\*' has no attribute"
    r"|.*\bis not a (?:function|constructor)|.*\bvalues to unpack"
    r"|'(?:\.\*|int|float|str|bool|list|dict|tuple|set)' object is not"
)
"""What has its cause in the program at hand: a value, its type, what its classes have.

Of another type than these the sentence tells the cause.
"""
_SYNTAX: Final = re.compile(
    r"(?i)\b(?:invalid syntax|syntax error|unexpected (?:token|indent|end|eof)|indented)"
)
_ARITY: Final = re.compile(r"\bpositional argument|\bkeyword argument|\bmultiple values for\b")
_NOTHING: Final = re.compile(
    r"NoneType|\bof (?:null|undefined)\b|possibly '?(?:null|undefined)|\bnil pointer|`None` value"
)
_ABSENT: Final = re.compile(
    r"(?i)not (?:defined|found|exist|associated)|undefined|undeclared|unresolved|missing|argument"
    r"|\bno (?:such|attribute|module|\w+ named)|\bhas no\b|import name|unable to import"
    r"|can(?:no|')t find|provide an export"
)
"""What is said of a name, a member, a module, a file or an argument that is not there."""
_DECLARES: Final = re.compile(r"\s*(?:global|nonlocal)\b")
_WORD: Final = re.compile(r"\w+")
_ERROR: Final = re.compile(r"\w+(?:Error|Exception)")
_QUOTED: Final = re.compile(r"(?<!\w)'([^'\n]*)'|\"([^\"\n]*)\"|`([^`\n]*)`")


def withheld(pattern: Pattern, signature: ErrorSignature, failing: Check, case: LoopCase) -> str:
    """Why a reader who meets this error is not told of it (yet); "" if they are."""
    body, fix = pattern.body, Fix()
    if isinstance(body, ErrorFix):
        fix = body.fix
        if stands(body, failing):
            return "what its change puts in stands in the code that fails here"
        same = same_sentence(signature, failing) and not is_assertion(failing)
        at_once = (
            same
            or same_place(signature, failing)
            or recurs_at_home(pattern, signature, failing, case)
        )
    else:
        # Dead ends spare a reader who meets the very message the way there.
        at_once = matches(signature.pattern, failing.message)
    # An error that became a wrong value was not mended either.
    failed = failing.id in case.failed or (failing in case.exchanged and at_once)
    # What was tried in vain there says something to who has failed as well.
    hard = failed and bool(fix.vain)
    if _of_the_program(pattern, signature, fix, failing, hard=hard):
        return "such an error has its cause in the program at hand"
    if not hard and _obvious(fix, signature, failing):
        return "the message says as much"
    if failed or (at_once and not pattern.claimed):
        return ""
    why = "a file claims it" if at_once else "it only looks alike"
    return f"{why}: it is told once this loop has failed at such an error"


def _of_the_program(
    pattern: Pattern, signature: ErrorSignature, fix: Fix, failing: Check, *, hard: bool
) -> bool:
    """Has such an error its cause in the program at hand, so that another's lesson says nothing?"""
    if same_place(signature, failing) or _SYNTAX.search(failing.message):
        return not same_place(signature, failing)
    # A message without a value is the same everywhere.
    valued = re.search(r"\*|\\S", signature.pattern) and signature.example == failing.message
    # A lesson of a file, without a message word for word, is taken as it is.
    if valued or not signature.example or pattern.helped or len(pattern.found) > 1:
        return False
    # Why it is nothing at all, or without end, has so many causes that only a loop which has failed
    # at it is to look at what others tried.
    if _NOTHING.search(failing.message) or failing.error_type == "RecursionError":
        return not hard
    if is_exception(failing) and _ARITY.search(failing.message):
        # An argument more or less is of the program, unless it is the language's.
        gone, new = map(_parts, sides(fix.diff))
        return (new - gone).isdisjoint({*KNOWN, "self", "cls"})
    own = any(map(_OWN.match, (signature.pattern, pattern_of(failing.message))))
    # Of a key that is missing only a sentence tells more than the key.
    key = failing.error_type == "KeyError" and " " not in signature.pattern
    return own or key or bool(_OWN_CLASS.fullmatch(failing.error_type))


def _obvious(fix: Fix, signature: ErrorSignature, failing: Check) -> bool:
    """Does the message itself say what the change does?

    It does if it names all that is put in, or what is taken out or renamed. If it says that
    something is not there, whatever writes, imports, corrects or drops just that is what it says.
    """
    message = (signature.example or failing.message).strip().partition("\n")[0]
    absent = bool(_ABSENT.search(message)) and not same_place(signature, failing)
    if not fix.diff or is_assertion(failing):
        return False
    names = {*_WORD.findall(" ".join(map("".join, _QUOTED.findall(message))))}
    # A word of English that is one of the language names it only in quotes.
    words = {word for word in _WORD.findall(message) if not iskeyword(word)}
    said = names if absent and names else words | names

    def says(part: str) -> bool:
        return part in said if _WORD.match(part) else part in message

    lines = list(map(_telling_lines, sides(fix.diff)))
    (gone, new), bound = map(_parts, lines), {*BOUND.findall("\n".join(lines[1]))}
    # How the change calls what it binds, and which error it catches, is of the code there.
    own = {p for p in bound if p not in names} | {"as"}
    own |= {p for p in new - gone if _ERROR.fullmatch(p) and not is_exception(failing)}
    put, out = ((new - gone) | (bound & names)) - own, gone - new
    put = {part for part in put if part.strip("_") not in out}
    if not put and not out:  # What was there was moved.
        return not (absent or is_exception(failing))
    # A sign beside words says nothing.
    put = {*filter(_WORD.match, put)} or put
    if put and (any if absent else all)(map(says, put)):
        return True
    corrected = absent and _shape(lines[0]) == _shape(lines[1])
    return (corrected or not put) and any(map(says, out))


def _telling_lines(lines: Sequence[str]) -> Sequence[str]:
    """Those that do something: an import beside others only brings what they use."""
    code = [line for line in lines if not _DECLARES.match(line)]
    return [line for line in code if not IMPORT.match(line)] or code


def _parts(lines: Iterable[str]) -> set[str]:
    """The words and signs in code; a bracket or a comma says nothing."""
    code = tokens("\n".join(lines))
    return {part for token in code for part in _WORD.findall(token) or [token]} - BRACKETS


def _shape(lines: Iterable[str]) -> list[str]:
    """The code with all words made the same."""
    return [_WORD.sub("x", token) for token in tokens("\n".join(lines))]
