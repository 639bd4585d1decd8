"""The schema's categories of tasks, errors and changes, and short descriptions of errors.

Sentences here are fixed; text from a log appears in them only as bounded data.
"""

import re
from collections.abc import Sequence
from typing import Final

from taofold.core.text import clip
from taofold.learning.extraction.diffs import IMPORT, lines_of
from taofold.learning.extraction.history import FileChange
from taofold.learning.patterns.kinds import FixCategory, TaskCategory

_CATEGORIES: Final[tuple[tuple[TaskCategory, str], ...]] = (
    ("testing", r"\b(?:add|write|extend|improve)\b.{0,30}\btests?\b|\bcoverage\b"),
    ("debugging", r"\b(?:fix|bugs?|fail\w*|debug\w*|repair|broken|crash\w*|errors?|red|wrong)\b"),
    ("migration", r"\b(?:migrat\w+|upgrad\w+|port|convert)\b"),
    ("refactoring", r"\b(?:refactor\w*|clean ?up|rename|restructure|simplif\w+|extract)\b"),
    ("optimization", r"\b(?:optimi[sz]\w+|faster|speed|performance|slow|memory)\b"),
    ("documentation", r"\b(?:docs?|document\w*|readme|docstrings?|comments?)\b"),
    ("architecture", r"\b(?:architecture|design|adr)\b"),
)
_MOST_NAME: Final = 72


def task_category(task: str) -> TaskCategory:
    """Returns the kind of work that a task's first words request."""
    # The first matching category counts, so "fix the slow tests" is debugging.
    opening = task[:400].lower()
    for name, words in _CATEGORIES:
        if re.search(words, opening):
            return name
    return "implementation"


def gist(error: str, pattern: str) -> str:
    """Returns a short form of an error: its class and its message without escapes and wildcards."""
    message = re.sub(r"\.\*|\\d\+|\\w\+|\\S\+", "…", pattern)
    message = re.sub(r"\\(.)", r"\1", message).strip()
    message = message.removeprefix(f"{error}: ") if error else message
    text = f"{error}: {message}" if error and message else error or message or "failing check"
    return clip(text, _MOST_NAME)


_DEPENDENCIES: Final = re.compile(
    r"(?:^|/)(?:requirements[\w.-]*\.(?:txt|in)|pyproject\.toml|package(?:-lock)?\.json|Cargo\.toml"
    r"|go\.mod|setup\.(?:py|cfg)|poetry\.lock|Gemfile|pom\.xml)$"
)
_FIXES: Final[tuple[tuple[FixCategory, re.Pattern[str]], ...]] = (
    ("add_import", IMPORT),
    (
        "add_null_check",
        re.compile(
            r"\bif \(!\w|\bis (?:not )?None\b|[!=]==? ?(?:null|nil|undefined)\b|\?\.|\?\?"
            r"|\bis_some\("
        ),
    ),
    ("add_type_validation", re.compile(r"\b(?:isinstance|instanceof|typeof|Number|Decimal)\b")),
    ("add_error_handling", re.compile(r"\b(?:except|catch|raise|throw|finally)\b")),
)
"""Insertions that identify a category: the first match counts."""
_MANY: Final = 12
"""The number of changed lines from which a change is a restructuring."""


def category_of(changes: Sequence[FileChange]) -> FixCategory:
    """Returns the schema's category of a fix, by its insertions."""
    if any(_DEPENDENCIES.search(change.path) for change in changes):
        return "update_dependency"
    gone, new = lines_of(changes)
    if not gone and not new:
        return "other"
    if len(gone) + len(new) > _MANY:
        return "refactor_code_structure"
    for category, sign in _FIXES:
        if sum(map(bool, map(sign.search, new))) > sum(map(bool, map(sign.search, gone))):
            return category
    return "fix_logic_error"
