"""The ids of patterns: `pat-<kind>-<slug>-<3 digits>`, and `tmpl-<slug>-<3 digits>`."""

import re
from collections.abc import Callable, Iterable
from typing import Final

from taofold.learning.patterns.bodies import Kind
from taofold.learning.patterns.values import Pattern

PREFIXES: Final[dict[Kind, str]] = {
    "error": "pat-error-",
    "success": "pat-success-",
    "anti": "pat-anti-",
    "template": "tmpl-",
}
_SLUG: Final = "[a-z0-9]+(?:-[a-z0-9]+)*"
FORMS: Final[dict[Kind, re.Pattern[str]]] = {
    kind: re.compile(rf"{prefix}{_SLUG}-\d{{3}}") for kind, prefix in PREFIXES.items()
}
_LONGEST: Final = 40
LONGEST_ID: Final = 120
_MOST: Final = 999


def valid(identity: str, kind: Kind) -> bool:
    """Is `identity` the id of a pattern of this kind?"""
    return len(identity) <= LONGEST_ID and FORMS[kind].fullmatch(identity) is not None


def fresh(pattern: Pattern, taken: Callable[[str], Iterable[str]]) -> str:
    """An id for `pattern` that nobody has; `taken` gives the ids with a prefix."""
    slug = re.sub(r"[^a-z0-9]+", "-", pattern.name.lower())[:_LONGEST].strip("-") or "unnamed"
    series = 1
    while True:
        prefix = PREFIXES[pattern.kind] + (slug if series == 1 else f"{slug}-s{series}") + "-"
        numbers = [one.removeprefix(prefix) for one in taken(prefix)]
        last = max([int(number) for number in numbers if re.fullmatch(r"\d{3}", number)], default=0)
        if last < _MOST:
            return f"{prefix}{last + 1:03d}"
        series += 1
