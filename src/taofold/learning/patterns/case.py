"""What a loop is about when it asks for lessons, and the part of that which is kept.

Text in it comes from tools and people and is data.
"""

from taofold.core.failing_checks import Check
from taofold.core.values import Value


class LoopCase(Value, frozen=True):
    """A task at its start, or between two iterations.

    `failed` are the ids of failing checks that this loop has edited files for, and whose error
    stayed; `exchanged` are the errors of checks that fail by a wrong value now, as they were before
    the loop's edits; `told` are the ids of the lessons that it was shown; `put` are the names and
    texts that its edits put in; `after` is how many of its iterations have ended.
    """

    task: str = ""
    language: str = ""
    repository: str = ""
    failing: tuple[Check, ...] = ()
    failed: tuple[str, ...] = ()
    exchanged: tuple[Check, ...] = ()
    told: tuple[str, ...] = ()
    put: tuple[str, ...] = ()
    after: int = 0


class CaseContext(Value, frozen=True):
    """A case made small enough to be kept with the loop. `errors` are classes."""

    errors: tuple[str, ...] = ()
    language: str = ""
    repository: str = ""
