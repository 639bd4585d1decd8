"""Regular expressions that are compiled at their first use, not at program start."""

import re
from collections.abc import Callable
from typing import Any, cast

_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split")


class _LatePattern:
    """A stand-in for a pattern. After the first use its methods are the pattern's own."""

    def __init__(self, source: str | Callable[[], str], flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:
        source = self._source if isinstance(self._source, str) else self._source()
        pattern = re.compile(source, self._flags)
        # Cached on the instance: later calls cost the same as on a pattern.
        for method in (*_METHODS, "pattern", "flags", "groups", "groupindex"):
            setattr(self, method, getattr(pattern, method))
        return getattr(pattern, name)


def late(source: str | Callable[[], str], flags: int = 0) -> re.Pattern[str]:
    """Returns a pattern that is compiled at its first use.

        WORD = late(r"\\w+")
        WORD.findall("two words")

    A starting program avoids compiling the hundreds of patterns that it does not need.

    Args:
        source: The pattern, or a function that builds it.
        flags: As for `re.compile`.

    Returns:
        An object with the interface of `re.Pattern`. `match.re` is another object: use `found_by`.
    """
    return cast("re.Pattern[str]", _LatePattern(source, flags))


def found_by(pattern: re.Pattern[str], match: re.Match[str]) -> bool:
    """Returns whether `match` came from this pattern."""
    return match.re.pattern == pattern.pattern
