"""The kind of repair that a change is, told from its shape: a template's name and a category.

The names are those of the repair templates that the built-in model documents; the
categories are the eight of the pattern schema. Rules, tried in order; the first that fits wins.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from taofold.learning.extraction.diffs import KNOWN, Hunk, apart, hunks, moved, swapped, tokens
from taofold.learning.extraction.history import Change
from taofold.learning.extraction.repairs import (
    ARITHMETIC,
    ASSIGNING,
    BOOLEAN,
    BY_ERROR,
    CASTS,
    COMPARISONS,
    DEPENDENCIES,
    ELSE,
    NEEDS,
    OF,
    POLISH,
    TWINS,
    Category,
)

_MANY: Final = 12
"""Changed lines from which a change is called a restructuring."""

Texts: TypeAlias = tuple[str, str]
"""A hunk's lines before and after, each as one text."""


def category_of(template: str) -> Category:
    """The schema's category of a template's name."""
    return OF.get(template, "fix_logic_error")


def template_of(change: Change, error: str = "") -> str:
    """The template that `change` follows, or "" where its shape does not tell.

    `error` is the class of the error that the change settled; it decides between names for
    what looks alike.
    """
    found = _template_of(change)
    if error and NEEDS.get(found, error) != error:
        return ELSE[found]
    return BY_ERROR.get((error, found), found)


def _template_of(change: Change) -> str:
    if DEPENDENCIES.search(change.path):
        return "update_dependency"
    found = hunks(change)
    if sum(len(h.removed) + len(h.added) for h in found) > _MANY:
        return "restructure"
    texts = [("\n".join(h.removed), "\n".join(h.added)) for h in found]
    if _mutable_default(texts):
        return "mutable_default"
    named = [_of_hunk(hunk, text) for hunk, text in zip(found, texts, strict=True)]
    return next(filter(None, named), "")


def _mutable_default(texts: Sequence[Texts]) -> bool:
    old, new = ("\n".join(part) for part in zip(*texts, strict=True)) if texts else ("", "")
    shared = re.search(r"(\w+)\s*(?::[^=,()]+)?=\s*(?:\[\]|\{\}|set\(\)|list\(\)|dict\(\))", old)
    return bool(
        shared
        and re.search(rf"\b{shared[1]}\b[^=\n]*=\s*None", new)
        and f"{shared[1]} is None" in new
    )


def _of_hunk(hunk: Hunk, text: Texts) -> str:
    if moved(hunk):
        return "move_statement"
    inserted = not any(line.strip() for line in hunk.removed)
    rules = _INSERTED if inserted else _CHANGED
    return next((name for name, fits in rules if fits(*text)), "")


def _guards(old: str, new: str, pattern: str) -> bool:
    return bool(re.search(pattern, new)) and not re.search(pattern, old)


def _null_check(old: str, new: str) -> bool:
    pattern = (
        r"\bif \(!\w|\bis (?:not )?None\b|[!=]==? ?(?:null|nil|undefined)\b|\?\.|\bis_some\(\)|\?\?"
    )
    return _guards(old, new, pattern)


def _guard(_: str, new: str) -> bool:
    """An early way out: `if not x: return`, `x or 1`, `… if x else 0`."""
    return bool(re.match(r"\s*if .+:\s*\n?\s*(?:return|raise|continue|break)\b", new))


def _fallback(old: str, new: str) -> bool:
    return any(
        not out and (put[:1] == ["or"] or ("if" in put and "else" in put))
        for out, put, _ in apart(old, new)
    )


def _base_case(_: str, new: str) -> bool:
    return bool(re.match(r"\s*if .*(?:<=?|==) ?[012]\b.*:\s*\n?\s*return\b", new))


def _import(old: str, new: str) -> bool:
    kept = new.replace(old, "") if old.strip() else new
    return bool(re.match(r"\s*(?:from \S+ )?import\b|\s*(?:use|require|#include)\b", kept))


def _handles(old: str, new: str) -> bool:
    return _guards(old, new, r"\b(?:except|catch|raise|throw|finally)\b")


def _returns(old: str, new: str) -> bool:
    return "return" in tokens(new) and "return" not in tokens(old)


def _only(words: frozenset[str]) -> Callable[[str, str], bool]:
    """A rule: all that differs are these words or signs."""

    def fits(old: str, new: str) -> bool:
        places = apart(old, new)
        return bool(places) and all(
            {*out, *put} - {"(", ")"} <= words and {*out, *put} & words for out, put, _ in places
        )

    return fits


def _one_apart(old: str, new: str) -> bool:
    """One more or one less: `+ 1`, `- 1`, or a number's neighbour."""
    for out, put, before in apart(old, new):
        both = [one for one in (*out, *put) if one not in "()"]
        if both in (["+", "1"], ["-", "1"], ["+", "-"], [",", "1"], ["1", ","], ["0", ","]):
            if both != ["+", "-"]:
                return True
        elif len(out) == len(put) == 1 and out[0].isdigit() and put[0].isdigit():
            return abs(int(out[0]) - int(put[0])) == 1
        elif before in ("[", ":", "-") and all(one in ("1", "0", ":", "-") for one in both):
            return True
    return False


def _rounding(old: str, new: str) -> bool:
    places = apart(old, new)
    return any("round" in (*out, *put) for out, put, _ in places) or (
        "round" in tokens(old) and "round" in tokens(new)
    )


def _cast(old: str, new: str) -> bool:
    changed = [{*out, *put} for out, put, _ in apart(old, new)]
    return any(words & CASTS and "(" in words for words in changed)


def _text(old: str, new: str) -> bool:
    if re.search(r"\bf[\"']", new) and not re.search(r"\bf[\"']", old):
        return True
    places = apart(old, new)
    return any({*out, *put} & POLISH for out, put, _ in places)


def _function(old: str, new: str) -> bool:
    return any({*out, *put} & (TWINS | {"reverse", "key"}) for out, put, _ in apart(old, new))


def _exchange(old: str, new: str) -> str:
    """What kind of word was put for another: "name", "attribute", "key", "constant" or ""."""
    kinds = {_word(out, put, before) for out, put, before in apart(old, new)}
    return kinds.pop() if len(kinds) == 1 else ""


def _word(out: Sequence[str], put: Sequence[str], before: str) -> str:
    if len(out) != 1 or len(put) != 1:
        return ""
    a, b = out[0], put[0]
    if a[0] in "\"'" and b[0] in "\"'":
        return "key" if before in ("[", "(", "get") else "constant"
    if (a[0].isdigit() or a in KNOWN) and (b[0].isdigit() or b[0] in "\"'" or b in KNOWN):
        return "constant"
    if re.match(r"[A-Za-z_]", a) and re.match(r"[A-Za-z_]", b):
        return "attribute" if before == "." else "name"
    return ""


def _worded(kind: str) -> Callable[[str, str], bool]:
    return lambda old, new: _exchange(old, new) == kind


def _swapped(old: str, new: str) -> bool:
    return swapped(tokens(old), tokens(new))


def _assigned(_: str, new: str) -> bool:
    return bool(re.fullmatch(r"\s*(?:global |nonlocal )?[\w.]+(?: = .+)?\s*", new))


def _empty(old: str, new: str) -> bool:
    """One kind of nothing for another: `[]`, `{}`, `0`, a string."""
    signs = {"[", "]", "{", "}", "(", ")", "set", "0", "1", "None", "True", "False", '""', "''"}
    return all({*out, *put} <= signs for out, put, _ in apart(old, new))


def _keyword(old: str, new: str) -> bool:
    called = [one for out, put, _ in apart(old, new) for one in (*out, *put)]
    return bool(called) and ("self" in called or set(called) <= {"(", ")", "=", ",", "*", "**"})


_INSERTED: Final[tuple[tuple[str, Callable[[str, str], bool]], ...]] = (
    ("missing_import", _import),
    ("add_null_check", _null_check),
    ("add_base_case", _base_case),
    ("add_guard", _guard),
    ("handle_error", _handles),
    ("missing_return", _returns),
    ("initialise", _assigned),
)
_CHANGED: Final[tuple[tuple[str, Callable[[str, str], bool]], ...]] = (
    ("missing_import", _import),
    ("swap_arguments", _swapped),
    ("add_null_check", _null_check),
    ("missing_return", _returns),
    ("fix_rounding", _rounding),
    ("off_by_one", _one_apart),
    ("fix_boolean", _only(BOOLEAN)),
    ("swap_comparison", _only(COMPARISONS)),
    ("swap_arithmetic", _only(ARITHMETIC | ASSIGNING)),
    ("add_guard", _fallback),
    ("add_guard", _guard),
    ("wrong_constant", _empty),
    ("convert_type", _cast),
    ("fix_string", _text),
    ("swap_function", _function),
    ("wrong_variable", _worded("name")),
    ("rename_attribute", _worded("attribute")),
    ("rename_key", _worded("key")),
    ("wrong_constant", _worded("constant")),
    ("fix_call", _keyword),
    ("handle_error", _handles),
)
