"""What is kept about loops: what each was shown, used and taught (`LoopNote`), and what all of them
say together (`LoopStats`).

Knows nothing about how patterns are chosen.
"""

from taofold.core.values import Value
from taofold.learning.events import PatternApplied, ShownPattern
from taofold.learning.patterns.case import CaseContext
from taofold.learning.patterns.pattern import Arm, seen_from


class ExtractedPattern(Value, frozen=True):
    """A pattern that a loop's end gave: new, or another sight of a known one; its rate then."""

    id: str
    new: bool
    rate: float | None = None


class LoopNote(Value, frozen=True):
    """One loop, as far as learning is concerned. `text` is what it was shown.

    `uses` has one for each pattern: one that helped, if any did.
    """

    loop: str
    at: int = 0
    shown: tuple[ShownPattern, ...] = ()
    text: str = ""
    control: bool = False
    manual: bool = False
    decided: bool = False
    """Was there a start at which something could have been injected?"""
    context: CaseContext = CaseContext()
    uses: tuple[PatternApplied, ...] = ()
    extracts: tuple[ExtractedPattern, ...] = ()
    ended: int = 0
    iterations: int = 0
    solved: bool = False
    project: str = ""
    """The project of the loop."""
    searched: bool = False
    """Was what its search came to counted?"""

    @property
    def after(self) -> int:
        """Iterations that had ended when the newest choice was made."""
        return max([choice.after for choice in self.shown], default=0)

    def use(self, identity: str) -> PatternApplied | None:
        """How the loop used the pattern, if it did."""
        return next((use for use in self.uses if use.id == identity), None)

    @property
    def ids(self) -> frozenset[str]:
        """The patterns that the loop was really shown."""
        return frozenset() if self.control else frozenset([choice.id for choice in self.shown])


class LoopArms(Value, frozen=True):
    """Loops added up.

    `shown` and `held` were drawn by lot, of loops for which there was something to show; in
    `plain` there was nothing; `manual` were told by hand.
    """

    shown: Arm = Arm()
    held: Arm = Arm()
    plain: Arm = Arm()
    manual: Arm = Arm()


class LoopStats(LoopArms, frozen=True):
    """All loops together, and those of each project."""

    updated: int = 0
    projects: dict[str, LoopArms] = {}

    def seen_from(self, project: str | None) -> LoopArms:
        """Returns the sums in which each project but `project` counts as one loop."""

        def arm(name: str) -> Arm:
            arms = {each: getattr(loops, name) for each, loops in self.projects.items()}
            return seen_from(project, arms)

        return LoopArms(arm("shown"), arm("held"), arm("plain"), arm("manual"))
