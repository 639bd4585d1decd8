"""A mistake in a file that a person wrote: where, what, and what was probably meant. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, NoReturn

from taofold.core.errors import ConfigError

_MOST: Final = 12
"""Names listed when none is near."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One mistake. `line` counts from 1, 0 = unknown; `path` is the key, as in `tools[1]`."""

    source: str
    message: str
    path: str = ""
    line: int = 0
    hint: str = ""

    @property
    def place(self) -> str:
        """File, line and key, as far as they are known."""
        where = f"{self.source}:{self.line}" if self.line else self.source
        return f"{where}: {self.path}" if self.path else where

    @property
    def text(self) -> str:
        """The message with its hint."""
        return f"{self.message}; {self.hint}" if self.hint else self.message

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


def near(word: str, known: Iterable[str]) -> str:
    """What `word` was probably meant to be, else what there is."""
    names = sorted(known)
    found = get_close_matches(word.lower(), names, n=2, cutoff=0.6)
    if found:
        return f"did you mean {' or '.join(map(repr, found))}?"
    if not names or len(names) > _MOST:
        return ""
    return f"known are {', '.join(names)}"


def refuse(faults: Sequence[Fault], what: str) -> NoReturn:
    """Raise all faults at once.

    Raises:
        ExceptionGroup: one `ConfigError` for each fault.
    """
    raise ExceptionGroup(what, [ConfigError(one.text, path=one.place) for one in faults])
