"""The words that extraction uses: names, descriptions, kinds of tasks and files.

Sentences here are fixed; what comes from a log appears in them only as bounded data.
"""

import re
from typing import Final

from taofold.learning.patterns.bodies import TaskCategory

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
CAUSE: Final = {
    "add_null_check": "a value that was used can be missing",
    "add_guard": "an empty or zero value was not thought of",
    "add_base_case": "the recursion had no end for the smallest case",
    "off_by_one": "a bound, an index or a count was one off",
    "swap_comparison": "the comparison was wrong at its boundary",
    "swap_arithmetic": "the wrong operator or sign",
    "fix_boolean": "the condition was wrong: and, or, not",
    "wrong_variable": "another name in scope was meant",
    "missing_return": "nothing was returned on this path",
    "move_statement": "a statement stood in the wrong block",
    "wrong_constant": "the wrong constant or first value",
    "swap_arguments": "two arguments or operands were the wrong way round",
    "fix_call": "the call did not suit the signature",
    "missing_import": "a name was used that nothing imports",
    "rename_attribute": "the attribute has another name",
    "rename_key": "the key has another name, or may be missing",
    "swap_function": "a similar function was meant",
    "fix_rounding": "the wrong number of digits",
    "convert_type": "a value of another type was passed on",
    "mutable_default": "a default value was shared between calls",
    "initialise": "the name had no value on some path",
    "update_dependency": "the version of a dependency",
}
"""Why the error arose, where the kind of repair tells."""
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
    said = task[:400].lower()
    for name, words in _CATEGORIES:
        if re.search(words, said):
            return name
    return "implementation"


def task_pattern(task: str) -> str:
    """The task's first line with `.*` for names, paths, numbers and quotations."""
    line = task.strip().partition("\n")[0][:_MOST_TASK]
    parts: list[str] = []
    place = 0
    for found in list(_VARIES.finditer(line))[:3]:
        parts += [re.escape(line[place : found.start()]).replace("\\ ", " "), ".*"]
        place = found.end()
    return "".join([*parts, re.escape(line[place:]).replace("\\ ", " ")])


def gist(error: str, pattern: str) -> str:
    """An error in a few words: its class and its message without escapes and wildcards."""
    said = re.sub(r"\.\*|\\d\+|\\w\+|\\S\+", "…", pattern)
    said = re.sub(r"\\(.)", r"\1", said).strip()
    said = said.removeprefix(f"{error}: ") if error else said
    text = f"{error}: {said}" if error and said else error or said or "failing check"
    return text if len(text) <= _MOST_NAME else f"{text[: _MOST_NAME - 1].rstrip()}…"
