"""The case that a loop's start makes: its task, what fails, and the code around it.

Reads files of the work root, bounded; what cannot be read is left out.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from taofold.core.checks import Check, is_test
from taofold.learning.extraction.generalise import language_of
from taofold.learning.extraction.history import History
from taofold.learning.extraction.words import task_category
from taofold.learning.patterns.case import Case

_MOST_CODE: Final = 8_000
_MOST_FILE: Final = 1_000_000
_AROUND: Final = 20
"""Lines above and below a failing place that are compared with patterns."""
_MOST_PLACES: Final = 4
_MOST_MODULES: Final = 8
_IMPORT: Final = re.compile(r"(?m)^\s*(?:from|import) ([\w.]{1,200})(?: import ([\w, ]{1,400}))?")


def case_of(task: str, faults: Sequence[Check], root: str, repository: str = "") -> Case:
    """What the loop is about. Without a `root` no code is read."""
    languages = [language_of(fault.place.path) for fault in faults if fault.place.path]
    named = next((one for one in languages if one != "other"), "")
    return Case(
        task,
        task_category(task),
        named,
        repository,
        failing=tuple(faults),
        code=_code(faults, Path(root)) if root else "",
    )


def first_faults(history: History) -> tuple[Check, ...]:
    """What failed when the loop began."""
    return history.attempts[0].before if history.attempts else ()


def _code(faults: Sequence[Check], root: Path) -> str:
    """The lines around the failing places; of a test, the modules that it imports as well."""
    parts: list[str] = []
    seen: set[tuple[str, int]] = set()
    for fault in faults:
        key = (fault.place.path, fault.place.line // (2 * _AROUND))
        if not fault.place.path or key in seen:
            continue
        seen.add(key)
        if is_test(fault.place.path):
            parts += _imported(root, fault.place.path, seen)
        else:
            parts.append(_around(root, fault.place.path, fault.place.line))
        if len(seen) >= _MOST_PLACES:
            break
    return "\n".join(parts)[:_MOST_CODE]


def _imported(root: Path, test: str, seen: set[tuple[str, int]]) -> list[str]:
    """The project's modules that a Python test names in its imports."""
    parts: list[str] = []
    for name, members in _IMPORT.findall(_text(root, test)):
        stem = name.replace(".", "/")
        inner = [f"{stem}/{one.strip()}.py" for one in members.split(",") if one.strip()]
        for path in (f"{stem}.py", f"src/{stem}.py", *inner):
            if (path, -1) not in seen and len(seen) < _MOST_MODULES:
                text = _text(root, path)
                if text:
                    seen.add((path, -1))
                    parts.append(text)
    return parts


def _around(root: Path, path: str, line: int) -> str:
    """Some lines of a file below `root`."""
    lines = _text(root, path).splitlines()
    return "\n".join(lines[max(line - 1 - _AROUND, 0) : line + _AROUND])


def _text(root: Path, path: str) -> str:
    """A file below `root`; "" for one that is not there, too large, or elsewhere."""
    try:
        file = (root / path).resolve()
        if not file.is_relative_to(root.resolve()) or file.stat().st_size > _MOST_FILE:
            return ""
        return file.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return ""
