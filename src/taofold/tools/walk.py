"""Walks a jail in sorted order and matches paths against globs. Follows no link."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import islice
from typing import Final

from taofold.tools.jail import Entry, Jail

MOST: Final = 20_000
"""Entries that one call looks at."""
UNLISTED: Final = frozenset({".git", "__pycache__", "node_modules", ".venv", ".mypy_cache"})
"""Directories that are named but not entered."""


def walk(jail: Jail, parts: tuple[str, ...], depth: int) -> Iterator[Entry]:
    """Entries below `parts`, a directory before what it holds; `depth` 1 = no deeper."""
    for entry in jail.entries(parts):
        yield entry
        name = entry.path.rpartition("/")[2]
        if entry.kind == "directory" and depth > 1 and name not in UNLISTED:
            try:
                yield from walk(jail, (*parts, name), depth - 1)
            except (OSError, ValueError):  # it vanished or may not be read: list the others
                continue


def capped(entries: Iterator[Entry], most: int = MOST) -> Iterator[Entry]:
    """At most `most` of them: no tool wanders through a whole disk."""
    return islice(entries, most)


def fits(path: str, glob: str) -> bool:
    """Does `path` match? A glob without `/` looks at the name only; `**/` is any directories."""
    if not glob:
        return True
    if "/" not in glob:
        return fnmatchcase(path.rpartition("/")[2], glob)
    return fnmatchcase(path, glob) or fnmatchcase(path, glob.replace("**/", ""))
