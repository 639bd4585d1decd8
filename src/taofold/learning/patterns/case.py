"""What a loop is about when it starts: the thing that patterns are compared with.

Knows nothing about patterns. All text in it comes from outside and is data.
"""

from taofold.core.checks import Check
from taofold.core.values import Value


class Case(Value, frozen=True):
    """A task at its start. `code` is source text near the failures, as much as is at hand."""

    task: str = ""
    category: str = ""
    language: str = ""
    repository: str = ""
    tool: str = ""
    failing: tuple[Check, ...] = ()
    code: str = ""


class Context(Value, frozen=True):
    """A case made small enough to be kept with every win and loss.

    `errors` are classes; `words` are stems of messages and code, the telling ones first.
    """

    errors: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    language: str = ""
    repository: str = ""
