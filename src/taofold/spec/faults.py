"""A mistake in a file that a person wrote: where, what, and what was probably meant. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from taofold.core.errors import ConfigError


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


def refuse(faults: Sequence[Fault], what: str) -> NoReturn:
    """Raise all faults at once.

    Raises:
        ExceptionGroup: one `ConfigError` for each fault.
    """
    raise ExceptionGroup(what, [ConfigError(one.text, path=one.place) for one in faults])
