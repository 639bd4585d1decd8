"""What happened in a finished loop, as far as something can be learnt from it.

Plain values between the log and the extraction: failing checks, the changes made after
them, what failed then. Knows nothing about where they were read from.
"""

from typing import Final

from taofold.core.checks import Check
from taofold.core.values import Value

SUCCESS: Final = frozenset({"completed", "success"})
"""Outcomes of a loop whose gates passed; every other one is a failure."""


class Change(Value, frozen=True):
    """One edit: the lines of a file before and after it. They may be the whole file.

    `unsure`: the file was written over, and nobody knows what it held; nothing is learnt of it.
    """

    path: str
    before: str
    after: str
    unsure: bool = False

    def undoes(self, other: "Change") -> bool:
        """Does this take `other` back?"""
        return (self.path, self.before, self.after) == (other.path, other.after, other.before)


class Attempt(Value, frozen=True):
    """Changes between two runs of the checks.

    `before` and `after` are what failed then. `judged` is false if nothing ran afterwards.
    `quality` is in 0 to 1, -1 if unknown.
    """

    iteration: int
    before: tuple[Check, ...] = ()
    changes: tuple[Change, ...] = ()
    after: tuple[Check, ...] = ()
    judged: bool = True
    tools: tuple[str, ...] = ()
    quality: float = -1.0
    tokens: int = 0
    kept: bool = True
    """False if the changes were taken back."""

    @property
    def turned(self) -> tuple[Check, ...]:
        """The checks that failed before and pass now."""
        left = {fault.id for fault in self.after}
        return tuple([f for f in self.before if f.id not in left]) if self.judged else ()

    @property
    def broke(self) -> tuple[Check, ...]:
        """The checks that fail now and did not before."""
        known = {fault.id for fault in self.before}
        return tuple([f for f in self.after if f.id not in known]) if self.judged else ()


class History(Value, frozen=True):
    """A loop from its task to its end. `at` is when it ended, in ms since the epoch.

    Attempts are as fine as the log allows: an edit and the test run after it, or else a
    whole iteration. `iterations` counts the loop's own.
    """

    loop: str
    task: str = ""
    language: str = ""
    outcome: str = ""
    attempts: tuple[Attempt, ...] = ()
    iterations: int = 0
    at: int = 0
    repository: str = ""
    agent: str = ""
    injected: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    """The files that the task names or the failing checks lead to; () = not known."""

    @property
    def succeeded(self) -> bool:
        """Did the gates pass in the end?"""
        return self.outcome in SUCCESS
