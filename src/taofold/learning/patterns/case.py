"""The case for which a loop needs lessons, and the part of it that is stored.

Text in it comes from tools and users and is data.
"""

from taofold.core.failing_checks import Check
from taofold.core.values import Value


class LoopCase(Value, frozen=True):
    """A task at its start, or between two iterations.

    `failed` are the ids of failing checks whose error stayed although this loop edited files for
    them. `exchanged` are the earlier errors, before the loop's edits, of checks that now fail by a
    wrong value. `told` are the ids of the lessons that the loop was shown. `put` are the names and
    texts that its edits inserted. `after` is the number of its completed iterations.
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
    """A case small enough to be stored with the loop. `errors` are classes."""

    errors: tuple[str, ...] = ()
    language: str = ""
    repository: str = ""
