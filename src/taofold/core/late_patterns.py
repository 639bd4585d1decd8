"""Regular expressions that are compiled when they are first used, not when a program starts."""

import re
from collections.abc import Callable
from typing import Any, cast

_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split")


class _LatePattern:
    """Stands for a pattern until it is used; from then on its methods are the pattern's own."""

    def __init__(self, source: str | Callable[[], str], flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:
        source = self._source if isinstance(self._source, str) else self._source()
        pattern = re.compile(source, self._flags)
        # Kept on the instance: the next call of the method costs what it costs on a pattern.
        for method in (*_METHODS, "pattern", "flags", "groups", "groupindex"):
            setattr(self, method, getattr(pattern, method))
        return getattr(pattern, name)


def late(source: str | Callable[[], str], flags: int = 0) -> re.Pattern[str]:
    """Returns a pattern that is compiled at its first use.

        WORD = late(r"\\w+")
        WORD.findall("two words")

    A program that starts compiles none of the hundreds of patterns that it does not need.

    Args:
        source: The pattern, or a function that builds it.
        flags: As for `re.compile`.

    Returns:
        What behaves like `re.Pattern`; `match.re` is another object, so ask `found_by`.
    """
    return cast("re.Pattern[str]", _LatePattern(source, flags))


def found_by(pattern: re.Pattern[str], match: re.Match[str]) -> bool:
    """Was the match found by this pattern?"""
    return match.re.pattern == pattern.pattern
