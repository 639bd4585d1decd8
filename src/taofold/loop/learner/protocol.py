"""The seam between a loop and what earlier loops learnt. Knows no registry.

`lessons` is asked at the start, after the baseline gate, and before each further iteration; its
answers are frozen in the loop's stream. `learn` is asked once at the end. All may be asked again
after a crash, with the same loop id: whoever implements this counts a loop once.
"""

from collections.abc import Sequence
from typing import Protocol

from taofold.core.checks import Check
from taofold.core.events import Record
from taofold.learning.patterns.pattern import Rate
from taofold.learning.rates import EditRates
from taofold.loop.learner.lessons import Learnt, Lessons
from taofold.loop.state import LoopState


class Work(Protocol):
    """What a learner may read of a finished loop besides its state."""

    async def records(self, run: str) -> Sequence[Record]:
        """The log of an iteration's run; empty if there is none."""
        ...

    async def text(self, snapshot: str, path: str) -> str | None:
        """A file as it was in a snapshot; None if it was not there or is no text."""
        ...


class SearchPolicy(Protocol):
    """A model that searches: it ranks edits, and learns how often kinds of edits were right."""

    name: str
    """The model's name."""

    def section(self, rates: EditRates) -> str:
        """The rates as a section of its prompt; "" if they would change nothing."""
        ...

    def outcome(
        self, records: Sequence[Record], rates: EditRates
    ) -> tuple[dict[str, Rate], tuple[float, ...]] | None:
        """What a run's log says, as a `SearchSettled` event holds it; None if no edit of it won."""
        ...


class Learner(Protocol):
    """Gives lessons to a loop and learns from it.

    Example, one loop from its baseline to its end:

        lessons = await learner.lessons("fix-1", state, state.baseline.verdict.failing)
        ...  # the iterations: their prompts hold `lessons.text`
        learnt = await learner.learn("fix-1", state, work)
    """

    async def lessons(self, loop: str, state: LoopState, failing: Sequence[Check]) -> Lessons:
        """What to tell the loop; `failing` is what the gates said last.

        `state.done` are the iterations that failed so far: none at the start.
        """
        ...

    async def learn(self, loop: str, state: LoopState, work: Work) -> Learnt:
        """Take in a loop that has ended."""
        ...


class NoLearner:
    """A `Learner` without memory."""

    async def lessons(self, loop: str, state: LoopState, failing: Sequence[Check]) -> Lessons:
        """Nothing."""
        del loop, state, failing
        return Lessons()

    async def learn(self, loop: str, state: LoopState, work: Work) -> Learnt:
        """Nothing."""
        del loop, state, work
        return Learnt()
