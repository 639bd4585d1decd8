"""Where an error that fails now differs from the one of a lesson, in what may decide the cause.

One sentence has several causes: too few is not too many, the very start is not the middle, a text
of letters is not one of digits; and what a change puts in because the check there asked for it is
right only where the check here asks for it as well. For readers there are the values and words that
differ (`differences`) and the line by which a check came up (`statement`). Pure, and about texts
alone.
"""

import re
from itertools import combinations
from typing import Final

from taofold.core.failing_checks import Check, is_exception
from taofold.learning.extraction.diffs import sides
from taofold.learning.extraction.generalisation import TYPES, frames_of
from taofold.learning.patterns.kinds import ErrorSignature

_QUOTED: Final = re.compile(r"(?<!\w)'([^'\n]*)'|\"([^\"\n]*)\"|`([^`\n]*)`")
_NUMBER: Final = re.compile(r"(?<![\w.])(?:0x[0-9a-fA-F]+|-?\d+(?:\.\d+)?)(?!\w)")
_PLACE: Final = re.compile(r"\b(?:line|column|col|row) \d+|\S*/\S+|:\d+(?::\d+)?\b")
"""Where in a file something stands says nothing of it."""
_NAME: Final = re.compile(r"[^\W\d][\w.]*")
_FILE: Final = re.compile(r"[\w./\\-]*[^\W\d]\w*")
"""A name, or one of a file or module."""
_ENTRY: Final = re.compile(r"^\S+:\d+: ", re.MULTILINE)
"""The end of a function in what pytest prints."""
_DECISIVE: Final = re.compile(
    r"\"[^\"\n]*\"|'[^'\n]*'|\{\}|\[\]|\b(?:\d{2,}|[A-Z]\w*(?:Error|Exception)|None|null|True|False)\b"
)
"""What a check may ask for: a value, nothing at all, an exception."""
_HANDLE: Final = re.compile(
    r"(?:coroutine|(?:async_)?generator|(?:builtin_)?(?:function|method)(?:_or_method)?"
    r"|map|filter|zip|dict_(?:keys|values|items)|Promise)(?=<|$)"
)
"""A type that stands for values without being one."""
EXPECTS: Final = re.compile(r"(?:\bwith\b.*[rR]aises.*:|(?:\bthrows|\brejects|toThrow)\b.*\{)\s*$")
"""The head of a block in which something is expected to be raised."""


def quoted(message: str) -> list[str]:
    """What stands in quotes in a message's first line."""
    return [next(filter(None, match.groups()), "") for match in _QUOTED.finditer(_first(message))]


def numbers(message: str) -> list[str]:
    """The numbers of a message's first line that stand in no quotes and are no place in a file."""
    return _NUMBER.findall(_PLACE.sub(" ", _QUOTED.sub(" ", _first(message))))


def _first(message: str) -> str:
    return message.strip().partition("\n")[0]


def other_cause(signature: ErrorSignature, diff: str, failing: Check, *, failed: bool) -> str:
    """What speaks for another cause than that of the lesson; "" if nothing is seen to.

    A loop that has `failed` at the error is told of other types too.
    """
    there, here = numbers(signature.example), numbers(failing.message)
    if len(there) == len(here) and _order(there) != _order(here):
        return f"its numbers stand otherwise: {', '.join(there)} there, {', '.join(here)} here"
    # What a compiler quotes is code, and of the program at hand.
    texts = zip(quoted(signature.example), quoted(failing.message), strict=False)
    for old, new in texts if is_exception(failing) else ():
        data = not (_FILE.fullmatch(old) and _FILE.fullmatch(new))
        if data and _signs(old) != _signs(new):
            return f"its value is of another kind: {old!r} there, {new!r} here"
    for old, new in (
        [] if failed or same_handle(signature, failing) else differences(signature, failing)
    ):
        if is_exception(failing) and not TYPES.isdisjoint({old, new}):
            return f"it is about another type: {old} there, {new} here"
    gone, put = ({*_DECISIVE.findall("\n".join(lines))} for lines in sides(diff))
    # The check itself, and not the code that it calls: that may hold what was tried here.
    printed = f"{_ENTRY.split(failing.traceback, maxsplit=1)[0]}\n{failing.message}"
    for value in sorted(put - gone) if failing.traceback else ():
        bare = value.strip("\"'") or value
        if bare in signature.caller and bare not in printed:
            return f"its change puts in {value}, which the check there asks for and this one not"
    return ""


def same_handle(signature: ErrorSignature, failing: Check) -> bool:
    """Do both name a coroutine, a method or the like, where the value that it gives was meant?

    Whatever was then done with it, the same was forgotten: to wait for it, to call it, to read it.
    """
    return not _handles(signature.example).isdisjoint(_handles(failing.message))


def _handles(message: str) -> set[str]:
    return {handle[0] for name in quoted(message) if (handle := _HANDLE.match(name))}


def _order(values: list[str]) -> list[int]:
    """How numbers stand to nothing and to one another: the amounts say nothing else."""
    amounts = [0.0, *[float(int(v, 16)) if "x" in v else float(v) for v in values]]
    return [(one > other) - (one < other) for one, other in combinations(amounts, 2)]


def _signs(value: str) -> set[str]:
    """The kinds of signs in a text: all letters are one, and all digits."""
    return {"a" if c.isalpha() or c == "_" else "0" if c.isdigit() else c for c in value}


def statement(check: Check) -> str:
    """The line of the test or program by which a check came up, as its runner printed it."""
    for frame in frames_of(check)[:1]:
        code = frame.code.splitlines()
        at = next((n for n, row in enumerate(code) if row.strip() == frame.statement), 0)
        above = code[at - 1].strip() if at else ""
        return f"{above} {frame.statement}" if EXPECTS.search(above) else frame.statement
    return ""


def differences(signature: ErrorSignature, failing: Check) -> list[tuple[str, str]]:
    """The values and words of the message that are others here, there and here.

    Names of the domain and amounts are left out: they are others everywhere.
    """
    there, here = signature.example, failing.message
    pairs = zip(quoted(there), quoted(here), strict=False)
    values = [
        pair for pair in pairs if not (all(map(_NAME.fullmatch, pair)) and TYPES.isdisjoint(pair))
    ]
    old, new = (_PLACE.sub(" ", _QUOTED.sub(" ", _first(text))).split() for text in (there, here))
    if len(old) == len(new) and is_exception(failing):
        words = zip(old, new, strict=True)
        values += [pair for pair in words if all(map(_NAME.fullmatch, pair))]
    return [pair for pair in dict.fromkeys(values) if pair[0] != pair[1]]
