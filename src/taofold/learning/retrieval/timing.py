"""When a reader who meets the error of a lesson is told of it: at once, after a failure, or not.

Not, where what is known of both speaks for another cause (`contrast`), where the error is one that
every program has, or where the cure stands already. After a failure, where the message says as much
as the lesson, or the lesson only looks alike. `withheld` gives the reason.
"""

import re
from typing import Final

from taofold.core.failing_checks import Check, is_assertion, is_exception
from taofold.learning.extraction.diffs import (
    BOUND,
    KNOWN,
    defines,
    sides,
    tokens,
)
from taofold.learning.extraction.generalisation import (
    pattern_of,
)
from taofold.learning.patterns.case import LoopCase
from taofold.learning.patterns.kinds import (
    ErrorFix,
    ErrorSignature,
    Fix,
)
from taofold.learning.patterns.pattern import Pattern
from taofold.learning.retrieval.contrast import other_cause, quoted, same_library
from taofold.learning.retrieval.index import (
    matches,
    plain_words,
)
from taofold.learning.retrieval.same_error import recurs_at_home, same_place, says_the_same, stands

_NOT_YET: Final = "it only looks alike: it is told once this loop has failed at such an error"
_OBVIOUS: Final = "the message says as much: it is told once this loop has failed at the error"
_LOCAL: Final = re.compile(
    # A name is not there, or an index is out of bounds; who owns a value; what type it has.
    r"(?:Key|Index|Name|Reference|UnboundLocal|ZeroDivision)Error|E0425|E0433|F821|no-undef"
    r"|undefined-variable|name-defined|E0382|E0499|E050[2-7]|E0515|E0596|E0597|E0716"
    r"|E0061|E0308|TS2322|TS2345|TS2554|arg-type|call-arg|return-value|assignment|var-annotated"
)
"""Errors whose message names nothing but the program's own: the cause is the program at hand."""
_NAMED: Final = re.compile(r"(?:Name|UnboundLocal|ModuleNotFound)Error")
_DECLARES: Final = re.compile(r"\s*(?:global|nonlocal)\b")
_ARITY: Final = re.compile(r"\bpositional argument|\bkeyword argument|\bmultiple values for\b")
"""What is said of a call that does not fit: the same."""
_OWN: Final = re.compile(
    r"'\.\*' object has no attribute|type object '\.\*' has no attribute"
    r"|.*\bis not a (?:function|constructor)|.*\bvalues to unpack"
    r"|'(?:\.\*|int|float|str|bool|list|dict|tuple|set)' object is not"
)
"""The same of what a class or value of the program lacks: other types tell the cause."""
_MISSING: Final = re.compile(
    r"(?:Attribute|ModuleNotFound|Import|Syntax|Indentation)Error|shell|ERR_MODULE_NOT_FOUND"
    r"|TS23(?:04|07|39)"
)
_ABSENT: Final = re.compile(r"not found|No such|denied|syntax error|Is a directory")
"""Of what a shell says."""
_OF_NOTHING: Final = re.compile(r"(?:Type|Attribute)Error|panic|TS(?:1804[78]|253[12])")
_NOTHING: Final = re.compile(r"\b(?:None|NoneType|null|undefined|nil)\b(?! map)")
"""A nil map is none of them: nobody made it, and nothing else is wrong."""


def withheld(pattern: Pattern, signature: ErrorSignature, failing: Check, case: LoopCase) -> str:
    """Why a reader who meets this error is not told of it (yet); "" if they are."""
    body = pattern.body
    fix = body.fix if isinstance(body, ErrorFix) else Fix()
    # An error that became a wrong value was not mended either.
    failed = failing.id in case.failed or failing in case.exchanged
    if isinstance(body, ErrorFix) and stands(body, failing):
        return "what its change puts in stands in the code that fails here"
    otherwise = other_cause(signature, fix.diff, failing, failed=failed)
    if otherwise and not is_assertion(failing):
        return otherwise
    if _of_the_program(pattern, signature, fix, failing, failed=failed):
        return "such an error has its cause in the program at hand"
    if isinstance(body, ErrorFix):
        again = same_place(signature, failing) or recurs_at_home(pattern, signature, failing, case)
        at_once = again or (says_the_same(signature, failing) and not is_assertion(failing))
        obvious = _obvious(fix, failing)
    else:
        # Dead ends spare a reader who meets the very message the way there; to others they say
        # something once these have failed too, unless it is known what does not fail.
        at_once = matches(signature.pattern, failing.message)
        obvious = False
    # What only a file claims may be anything.
    if failed or (at_once and not obvious and not pattern.claimed):
        return ""
    return _OBVIOUS if obvious else _NOT_YET


def _of_the_program(
    pattern: Pattern, signature: ErrorSignature, fix: Fix, failing: Check, *, failed: bool
) -> bool:
    """Has such an error its cause in the program at hand, so that another's lesson says nothing?"""
    # A lesson of a file, without a message word for word, is taken as it is.
    if not signature.example or _same_case(signature, failing):
        return False
    # What it lacked was written there: that is no other program's.
    if defines(*sides(fix.diff), signature.example):
        return True
    # It helped another loop, or it is more than the name that the message asks for.
    if pattern.helped or len(pattern.found) > 1 or _uncommon(fix, signature, failing):
        return False
    # What a library lacks it lacks for all who use it.
    telling = bool(fix.vain) or same_library(signature, fix.files, failing)
    own = any(map(_OWN.match, (signature.pattern, pattern_of(failing.message))))
    return own or _of_every_day(failing, telling=telling, failed=failed)


def _uncommon(fix: Fix, signature: ErrorSignature, failing: Check) -> bool:
    """Is a name missing, or an argument, and the cure not to write, define or correct that name?"""
    arity = is_exception(failing) and bool(_ARITY.search(failing.message))
    if not fix.diff or not (arity or _NAMED.fullmatch(failing.error_type)):
        return False
    changed = [[line for line in lines if not _DECLARES.match(line)] for lines in sides(fix.diff)]
    gone, new = ({token.strip("\"'") for token in tokens("\n".join(side))} for side in changed)
    names = {part for name in quoted(signature.example) for part in name.split(".")}
    touched = (gone ^ new) | {*BOUND.findall("\n".join(changed[1]))}
    # An argument more or less is of the program, unless it is the language's.
    own = arity and (new - gone).isdisjoint({*KNOWN, "self", "cls"})
    return not own and names.isdisjoint(touched)


def _obvious(fix: Fix, failing: Check) -> bool:
    """Does the message itself name all that the change puts in, or all that it takes out?

    That of a linter or compiler does. An exception's says what went wrong, and no more.
    """
    if is_exception(failing) or is_assertion(failing):
        return False
    gone, new = ({*tokens("\n".join(lines))} for lines in sides(fix.diff))
    changed = (new - gone) or (gone - new)
    sentence = plain_words(failing.message)
    # A sign beside words says nothing, a bracket or a comma never does.
    worded = [token for token in changed if token[0].isalnum() or token[0] in "\"'"]
    signs = [token for token in changed if len(token) > 1]
    return all(
        token.lower() in sentence if token[0].isalnum() else token in failing.message
        for token in worded or signs
    )


def _of_every_day(failing: Check, *, telling: bool, failed: bool) -> bool:
    """Is it an error that every program has?

    `telling`: more is known than its cure, what was tried in vain or which library lacks a name.
    """
    # Of a call an interpreter says it in the message, a linter by its rule.
    arity = is_exception(failing) and bool(_ARITY.search(failing.message))
    if arity or _LOCAL.fullmatch(failing.error_type):
        return True
    # Why it is nothing at all has so many causes that only a loop which has failed at it is to look
    # at those of others.
    if _of_many_causes(failing):
        return not (telling and failed)
    absent = failing.error_type != "shell" or _ABSENT.search(failing.message)
    return bool(_MISSING.fullmatch(failing.error_type) and absent) and not telling


def _of_many_causes(failing: Check) -> bool:
    """Is something nothing at all, without end, or not where it was looked for?"""
    named = _OF_NOTHING.fullmatch(failing.error_type) and _NOTHING.search(failing.message)
    return bool(named) or failing.error_type in ("RecursionError", "FileNotFoundError")


def _same_case(signature: ErrorSignature, failing: Check) -> bool:
    """Is it the same value that is named, or the same place that fails?"""
    # A message without a value is the same everywhere, and so is what one asks of nothing at all.
    valued = bool(re.search(r"\*|\\S", signature.pattern)) and not _of_many_causes(failing)
    return (valued and signature.example == failing.message) or same_place(signature, failing)
