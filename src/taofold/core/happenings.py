"""Notifications to listeners of a run: its records, and transient texts that are never logged."""

from typing import TypeAlias

from taofold.core.events import Record
from taofold.core.values import Value


class Delta(Value, frozen=True):
    """Text of a reply as it streams in. Never logged.

    Example:
        ```python
        from taofold import Delta

        async for happening in agent.stream("Describe Oslo."):
            if isinstance(happening, Delta):
                print(happening.text, end="")
        ```

    Attributes:
        run: The id of the run, which may be a child run.
        text: The next piece of the reply.
    """

    run: str
    text: str


class Progress(Value, frozen=True):
    """A progress message of a running tool. Never logged.

    Attributes:
        run: The id of the run, which may be a child run.
        tool: The name of the tool.
        text: The message.
    """

    run: str
    tool: str
    text: str


Happening: TypeAlias = Record | Delta | Progress
