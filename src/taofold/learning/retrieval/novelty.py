"""Whether a lesson tells a reader of an error more than its message and the code at hand do.

Finding a lesson is not enough: most errors say themselves what to do, and a lesson that repeats it
costs attention. Looks at one lesson and one failing check; knows nothing about rankings.
"""

import re
from collections import Counter
from typing import Final

from taofold.core.checks import Check
from taofold.learning.extraction.generalisation import seen_at
from taofold.learning.patterns.kinds import ErrorSignature, Fix

# A value or a name is missing, or an index is out of bounds: the message tells what and where, and
# the cause lies in the program at hand.
_EVERYDAY: Final = re.compile(
    r"(?:Key|Index|Name|Reference|UnboundLocal|Attribute|ZeroDivision|Recursion|FileNotFound"
    r"|ModuleNotFound|Import)Error|shell|E0425|E0433|F821|TS(?:18047|18048|2531|2532|2304|2307)"
    r"|no-undef|undefined-variable|name-defined"
)
_MISSING: Final = re.compile(r"\b(?:None|NoneType|null|undefined|nil)\b|is not a function")
_OF_VALUES: Final = frozenset({"TypeError", "panic"})
_ADVICE: Final = re.compile(
    r"\b(?:help|hint|did you mean|suggest\w*|consider|instead)\b", re.IGNORECASE
)
_SIGNS: Final = r"[^\w\s'\"`,;.()\[\]{}]+"
_PIECE: Final = re.compile(rf"\w+(?:\.\d+)?|{_SIGNS}")
_TOKEN: Final = re.compile(rf"\"[^\"\n]*\"|'[^'\n]*'|\w+(?:\.\d+)?|{_SIGNS}")


def told_already(signature: ErrorSignature, fix: Fix, failing: Check) -> str:
    """Why a lesson says nothing new about `failing`; "" where it does.

    A lesson without its change or without a message word for word, as files have them, is taken
    as it is.
    """
    if not signature.example or not fix.diff:
        return ""
    said, now = _pieces(signature.example), _pieces(failing.message)
    out, put = _change(fix.diff)
    changed = {token.strip("\"'").casefold() for token in (*out, *put)}
    if changed and changed <= said | now | _advice(failing):
        return "the message says it"
    gone = {piece for piece in _pieces(" ".join(out)) if piece.isidentifier()}
    if gone and gone <= said - now:
        return "it replaces what only the earlier message names"
    if about_this_program(signature, failing) and not (fix.vain or same_case(signature, failing)):
        return "such an error has its cause in the program at hand"
    return ""


def about_this_program(signature: ErrorSignature, failing: Check) -> bool:
    """Is it an error of every day, whose message tells what is missing and not why?"""
    error = failing.error_type or signature.name
    if error in _OF_VALUES:
        return bool(_MISSING.search(failing.message))
    return bool(_EVERYDAY.fullmatch(error))


def same_case(signature: ErrorSignature, failing: Check) -> bool:
    """Is it the same value that is named, or the same function that fails?"""
    # A message without a value is the same everywhere.
    named = signature.example == failing.message and bool(re.search(r"\*|\+", signature.pattern))
    return named or same_function(signature, failing)


def same_function(signature: ErrorSignature, failing: Check) -> bool:
    """Does the function fail where the lesson was learnt?"""
    # Compilers tell no function, and every crate has a `src/lib.rs`.
    return ":" in signature.seen and signature.seen == seen_at(failing)


def choices(signature: ErrorSignature, fix: Fix) -> tuple[str, ...]:
    """The numbers and texts that the change put in and nothing before it says: chosen there."""
    out, put = _change(fix.diff)
    known = _pieces(" ".join([signature.example, *out]))
    values = [token for token in put if token[0] in "\"'" or token[0].isdigit()]
    return tuple(dict.fromkeys([value for value in values if not _pieces(value) <= known]))


def _change(diff: str) -> tuple[list[str], list[str]]:
    """The tokens that the lines lost, and those that they got."""
    out: Counter[str] = Counter()
    put: Counter[str] = Counter()
    for line in diff.split("\n"):
        if line[:1] in "+-":
            (put if line[:1] == "+" else out).update(_TOKEN.findall(line[1:]))
    return list((out - put).elements()), list((put - out).elements())


def _pieces(text: str) -> frozenset[str]:
    """Words and signs, without quotation marks and brackets, whatever their case."""
    return frozenset([piece.casefold() for piece in _PIECE.findall(text)])


def _advice(failing: Check) -> frozenset[str]:
    """What the checker's advice names, where it prints some under its message."""
    lines = failing.traceback.split("\n")
    return _pieces(" ".join([line for line in lines if _ADVICE.search(line)]))
