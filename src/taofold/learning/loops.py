"""The notes about each loop (`LoopNote`), and their sums (`LoopStats`).

A note holds the patterns that the loop was shown, used and taught. Knows nothing about the choice
of patterns.
"""

from taofold.core.values import Value
from taofold.learning.events import PatternApplied, ShownPattern
from taofold.learning.patterns.case import CaseContext
from taofold.learning.patterns.pattern import Arm, seen_from


class ExtractedPattern(Value, frozen=True):
    """A pattern from a loop's end: new, or a sighting of a known one; its rate at that time."""

    id: str
    new: bool
    rate: float | None = None


class LoopNote(Value, frozen=True):
    """One loop as seen by learning. `text` is the section that it was shown.

    `uses` has one entry per pattern: a successful one, if any.
    """

    loop: str
    at: int = 0
    shown: tuple[ShownPattern, ...] = ()
    text: str = ""
    control: bool = False
    manual: bool = False
    decided: bool = False
    """True if something could have been injected at its start."""
    context: CaseContext = CaseContext()
    uses: tuple[PatternApplied, ...] = ()
    extracts: tuple[ExtractedPattern, ...] = ()
    ended: int = 0
    iterations: int = 0
    solved: bool = False
    project: str = ""
    """The project of the loop."""
    searched: bool = False
    """True if the result of its search was counted."""
    task: str = ""
    """The task of the loop, if it ended and its project shares it."""

    @property
    def after(self) -> int:
        """Completed iterations when the newest choice was made."""
        return max([choice.after for choice in self.shown], default=0)

    def use(self, identity: str) -> PatternApplied | None:
        """Returns the loop's use of the pattern, if any."""
        return next((use for use in self.uses if use.id == identity), None)

    @property
    def ids(self) -> frozenset[str]:
        """The patterns that the loop was actually shown."""
        return frozenset() if self.control else frozenset([choice.id for choice in self.shown])


class LoopArms(Value, frozen=True):
    """Sums over loops by group.

    `shown` and `held` were drawn at random among the loops with patterns to show. `plain` had none
    to show. `manual` got patterns on a user's request.
    """

    shown: Arm = Arm()
    held: Arm = Arm()
    plain: Arm = Arm()
    manual: Arm = Arm()


class LoopStats(LoopArms, frozen=True):
    """The sums over all loops, and those of each project."""

    updated: int = 0
    projects: dict[str, LoopArms] = {}

    def seen_from(self, project: str | None) -> LoopArms:
        """Returns the sums in which each project but `project` counts as one loop."""

        def arm(name: str) -> Arm:
            arms = {each: getattr(loops, name) for each, loops in self.projects.items()}
            return seen_from(project, arms)

        return LoopArms(arm("shown"), arm("held"), arm("plain"), arm("manual"))
