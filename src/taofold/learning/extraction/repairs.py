"""Kinds of repairs: their names, words and causes, and which kind an edit is.

The names are those of the repair templates. Sentences here are fixed; what comes from a log appears
in them only as bounded data.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from taofold.core.text import clip
from taofold.learning.extraction.diffs import KNOWN, Hunk, apart, hunks, moved, swapped, tokens
from taofold.learning.extraction.history import FileChange
from taofold.learning.patterns.kinds import FixCategory, TaskCategory

DOES: Final = {
    "add_null_check": "Check for a missing value before it is used",
    "add_guard": "Guard against an empty or zero value first",
    "add_base_case": "End the recursion with a base case",
    "off_by_one": "Move a bound, an index or a count by one",
    "swap_comparison": "Use the comparison that holds at the boundary",
    "swap_arithmetic": "Use another arithmetic operator or sign",
    "fix_boolean": "Correct the boolean condition: and, or, not",
    "wrong_variable": "Use the other variable that is in scope",
    "missing_return": "Return the value that was computed",
    "move_statement": "Move a statement into or out of its block",
    "wrong_constant": "Use another constant or first value",
    "swap_arguments": "Exchange two arguments or operands",
    "fix_call": "Call it as its signature wants",
    "missing_import": "Import the name that is used",
    "rename_attribute": "Use the attribute that exists",
    "rename_key": "Use the key that exists, or a default",
    "fix_string": "Correct the text's format, case or white space",
    "swap_function": "Use the function that is mixed up with this one",
    "fix_rounding": "Round to the right number of digits",
    "convert_type": "Convert the value to the type that is needed",
    "mutable_default": "Make a fresh default value for each call",
    "initialise": "Give the name a first value on every path",
    "fix_syntax": "Correct the syntax where the parser stopped",
    "handle_error": "Handle the error where it arises",
    "update_dependency": "Change the version of a dependency",
    "restructure": "Restructure the code around the failure",
}
"""What each kind of repair does, in twenty characters or more."""
_ANSWERS: Final = {
    "add_null_check": r"None|null|undefined|nil|E0599|TS2531|TS2532|TS18047|TS18048",
    "missing_import": r"NameError|ReferenceError|undefined|not defined|F821|E04[23]\d|Cannot find",
    "rename_key": r"KeyError",
    "rename_attribute": r"AttributeError|has no attribute|does not exist on|TS2339|E0609",
    "add_guard": r"ZeroDivisionError|IndexError|StatisticsError|empty|division by zero",
    "convert_type": r"TypeError|type|TS2322|TS2345|E0308",
    "add_base_case": r"RecursionError|call stack",
    "fix_call": r"TypeError|argument|TS2554",
    "initialise": r"UnboundLocalError|referenced before|not associated|used before",
    "fix_syntax": r"SyntaxError|IndentationError",
    "off_by_one": r"AssertionError|IndexError|out of range|out of bounds",
    "handle_error": r"\w+(?:Error|Exception)",
    "update_dependency": r"",
}
"""Errors that a kind of repair answers. The kinds that are not named answer failed assertions."""


def plausible(template: str, error: str, message: str, language: str) -> str:
    """`template`, or "" where the shape of the edit suits it and the error does not.

    The rules of shapes were made for Python: of another language only those are believed that
    name the error that they answer.
    """
    # By class and message together: compilers name an error by its code, interpreters by its class.
    answers = _ANSWERS.get(template)
    if answers is not None:
        return template if re.search(answers, f"{error} {message}") else ""
    return template if error == "AssertionError" and language == "python" else ""


_CATEGORIES: Final[tuple[tuple[TaskCategory, str], ...]] = (
    ("testing", r"\b(?:add|write|extend|improve)\b.{0,30}\btests?\b|\bcoverage\b"),
    ("debugging", r"\b(?:fix|bugs?|fail\w*|debug\w*|repair|broken|crash\w*|errors?|red|wrong)\b"),
    ("migration", r"\b(?:migrat\w+|upgrad\w+|port|convert)\b"),
    ("refactoring", r"\b(?:refactor\w*|clean ?up|rename|restructure|simplif\w+|extract)\b"),
    ("optimization", r"\b(?:optimi[sz]\w+|faster|speed|performance|slow|memory)\b"),
    ("documentation", r"\b(?:docs?|document\w*|readme|docstrings?|comments?)\b"),
    ("architecture", r"\b(?:architecture|design|adr)\b"),
)
_VARIES: Final = re.compile(
    r"'[^'\n]*'|\"[^\"\n]*\"|`[^`\n]*`|(?<!\w)[\w.-]*/[\w./-]+|\b\w+\.\w{1,5}\b|\b\w*\d\w*\b"
    r"|\b\w+_\w+\b|\b[A-Z]\w*[A-Z]\w*\b"
)
_MOST_TASK: Final = 160
_MOST_NAME: Final = 72


def task_category(task: str) -> TaskCategory:
    """The kind of work that a task's first words ask for."""
    # The first category that fits counts, so "fix the slow tests" is debugging.
    opening = task[:400].lower()
    for name, words in _CATEGORIES:
        if re.search(words, opening):
            return name
    return "implementation"


def task_pattern(task: str) -> str:
    """The task's first line with `.*` for names, paths, numbers and quotations."""
    line = task.strip().partition("\n")[0][:_MOST_TASK]
    parts: list[str] = []
    end = 0
    for variable in list(_VARIES.finditer(line))[:3]:
        # `re.escape` writes a blank as `\ `, which nobody wants to read in a pattern.
        parts += [re.escape(line[end : variable.start()]).replace("\\ ", " "), ".*"]
        end = variable.end()
    return "".join([*parts, re.escape(line[end:]).replace("\\ ", " ")])


def gist(error: str, pattern: str) -> str:
    """An error in a few words: its class and its message without escapes and wildcards."""
    message = re.sub(r"\.\*|\\d\+|\\w\+|\\S\+", "…", pattern)
    message = re.sub(r"\\(.)", r"\1", message).strip()
    message = message.removeprefix(f"{error}: ") if error else message
    text = f"{error}: {message}" if error and message else error or message or "failing check"
    return clip(text, _MOST_NAME)


COMPARISONS: Final = frozenset({"<", "<=", ">", ">=", "==", "!=", "in", "is", "not"})
ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>"})
ASSIGNING: Final = frozenset({"=", "+=", "-=", "*=", "/=", "//=", "%=", "**=", "|=", "&="})
BOOLEAN: Final = frozenset({"and", "or", "not", "&&", "||", "!"})
CASTS: Final = frozenset({"str", "int", "float", "bool", "list", "tuple", "set", "Decimal"})
_POLISH_TEXT: Final = """
    strip lstrip rstrip lower upper title capitalize casefold replace format split join
    """
POLISH: Final = frozenset(_POLISH_TEXT.split())
_TWINS_TEXT: Final = """
    min max any all sorted reversed append extend sort add update pop remove discard insert
    popleft first last startswith endswith find index items keys values count sum len get
    """
TWINS: Final = frozenset(_TWINS_TEXT.split())
DEPENDENCIES: Final = re.compile(
    r"(?:^|/)(?:requirements[\w.-]*\.(?:txt|in)|pyproject\.toml|package(?:-lock)?\.json|Cargo\.toml"
    r"|go\.mod|setup\.(?:py|cfg)|poetry\.lock|Gemfile|pom\.xml)$"
)
OF: Final[dict[str, FixCategory]] = {
    "add_null_check": "add_null_check",
    "convert_type": "add_type_validation",
    "add_guard": "add_error_handling",
    "handle_error": "add_error_handling",
    "missing_import": "add_import",
    "update_dependency": "update_dependency",
    "restructure": "refactor_code_structure",
    "": "other",
}
BY_ERROR: Final = {
    ("AttributeError", "swap_function"): "rename_attribute",
    ("KeyError", "swap_function"): "rename_key",
    ("KeyError", "wrong_constant"): "rename_key",
    ("RecursionError", "add_guard"): "add_base_case",
    ("TypeError", "wrong_variable"): "fix_call",
    ("SyntaxError", ""): "fix_syntax",
    ("IndentationError", ""): "fix_syntax",
    ("UnboundLocalError", "add_null_check"): "initialise",
}
NEEDS: Final = {"rename_attribute": "AttributeError", "rename_key": "KeyError"}
"""Names that only make sense after this error: elsewhere the wrong one was taken."""
ELSE: Final = {"rename_attribute": "wrong_variable", "rename_key": "wrong_constant"}


_MANY: Final = 12
"""Changed lines from which a change is called a restructuring."""

Texts: TypeAlias = tuple[str, str]
"""A hunk's lines before and after, each as one text."""


def category_of(template: str) -> FixCategory:
    """The schema's category of a template's name."""
    return OF.get(template, "fix_logic_error")


def template_of(change: FileChange, error: str = "") -> str:
    """The template that `change` follows, or "" where its shape does not tell.

    `error` is the class of the error that the change settled; it decides between names for
    what looks alike.
    """
    template = _template_of(change)
    # Another attribute answers an AttributeError only:
    # after other errors the wrong one was taken.
    if error and NEEDS.get(template, error) != error:
        return ELSE[template]
    return BY_ERROR.get((error, template), template)


def _template_of(change: FileChange) -> str:
    if DEPENDENCIES.search(change.path):
        return "update_dependency"
    differences = hunks(change)
    # Of many lines every rule below would find something that fits.
    if sum(len(h.removed) + len(h.added) for h in differences) > _MANY:
        return "restructure"
    texts = [("\n".join(h.removed), "\n".join(h.added)) for h in differences]
    if _mutable_default(texts):
        return "mutable_default"
    named = [_of_hunk(hunk, text) for hunk, text in zip(differences, texts, strict=True)]
    # Of several hunks the first that has a name.
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
    # The first rule that fits names the edit, so narrow rules stand before wide ones.
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
    # Only what is new: a hunk may hold imports that were there.
    inserted = new.replace(old, "") if old.strip() else new
    return bool(re.match(r"\s*(?:from \S+ )?import\b|\s*(?:use|require|#include)\b", inserted))


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
        both = [sign for sign in (*out, *put) if sign not in "()"]
        if both in (["+", "1"], ["-", "1"], ["+", "-"], [",", "1"], ["1", ","], ["0", ","]):
            # `+` for `-` is another operator, not one more.
            if both != ["+", "-"]:
                return True
        elif len(out) == len(put) == 1 and out[0].isdigit() and put[0].isdigit():
            return abs(int(out[0]) - int(put[0])) == 1
        elif before in ("[", ":", "-") and all(sign in ("1", "0", ":", "-") for sign in both):
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
    called = [token for out, put, _ in apart(old, new) for token in (*out, *put)]
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
