"""What is kept about loops: what each was shown, and what all of them say together.

Knows nothing about how patterns are chosen.
"""

from typing import Final

from taofold.core.values import Value
from taofold.learning.patterns.case import Context
from taofold.learning.events import Shown
from taofold.learning.patterns.values import KEPT_EVIDENCE, Arm, Evidence, Outcome

FADE: Final = 0.99
"""What of a tally is left after each loop, so that an early lesson can be unlearnt."""
_MORE: Final[tuple[Outcome, ...]] = ("found", "ignored", "other", "lost", "won")
"""Outcomes, each more than the one before."""
_DOUBT: Final = 2.0
"""Promised wins that must be missing before trust is well below a half."""
IGNORED: Final = 0.25
"""A pattern that was shown and not used in a loop that nothing ended: this part of a loss."""


class Use(Value, frozen=True):
    """A pattern as a loop used it: `won` if any use helped, at `iteration`."""

    id: str
    won: bool
    iteration: int = 0
    by: str = ""


class Extract(Value, frozen=True):
    """A pattern that a loop's end gave, and its rate then."""

    id: str
    new: bool
    rate: float | None = None


class LoopNote(Value, frozen=True):
    """One loop, as far as learning is concerned. `text` is what it was shown.

    Of what was looked at `beside`, `uses` hold what the loop did by itself.
    """

    loop: str
    at: int = 0
    shown: tuple[Shown, ...] = ()
    text: str = ""
    control: bool = False
    manual: bool = False
    decided: bool = False
    """Was there a start at which something could have been injected?"""
    context: Context = Context()
    uses: tuple[Use, ...] = ()
    extracts: tuple[Extract, ...] = ()
    ended: int = 0
    iterations: int = 0
    solved: bool = False
    beside: tuple[Shown, ...] = ()
    tries: int = 0
    """Its changes that were followed by a check; its iterations, where these are not known."""

    def use(self, identity: str) -> Use | None:
        """How the loop used the pattern, if it did."""
        return next((use for use in self.uses if use.id == identity), None)

    @property
    def looked(self) -> tuple[Shown, ...]:
        """The patterns that were looked at for it: those shown, or held back, and those beside."""
        return (*self.shown, *self.beside)

    def looked_at(self, identity: str) -> bool:
        """Was the pattern looked at for the loop?"""
        return any(one.id == identity for one in self.looked)

    def outcome(self, identity: str) -> Outcome | None:
        """What the loop says of a pattern that was looked at for it; None: nothing.

        If it ended well it speaks of all of them: of those that it did not need, too.
        """
        use = self.use(identity)
        if use is not None:
            return "won" if use.won else "lost"
        if self.solved:
            return "other"
        return "ignored" if identity in self.ids else None

    @property
    def ids(self) -> frozenset[str]:
        """The patterns that the loop was really shown."""
        return frozenset() if self.control else frozenset([one.id for one in self.shown])


class FixNote(Value, frozen=True):
    """What became of a change wherever it was shown, whatever error it was stored for.

    `key` names the change; `evidence` are the loops it was looked at for, the newest last.
    """

    key: str
    evidence: tuple[Evidence, ...] = ()

    def plus(self, seen: Evidence) -> "FixNote":
        """With one loop more; a loop counts once, with the most that it did with the change."""
        known = [one.outcome for one in self.evidence if one.loop == seen.loop]
        if any(_MORE.index(one) > _MORE.index(seen.outcome) for one in known):
            return self
        before = [one for one in self.evidence if one.loop != seen.loop]
        return FixNote(self.key, (*before, seen)[-KEPT_EVIDENCE:])


class Tally(Value, frozen=True):
    """How patterns did: wins, and how many were promised. Older ones fade."""

    wins: float = 0.0
    promised: float = 0.0

    def plus(self, seen: Evidence, weight: float = 1.0) -> "Tally":
        """With what one loop says more."""
        match seen.outcome:
            case "won":
                return Tally(self.wins + weight, self.promised + weight * seen.promised)
            case "lost" | "other":
                return Tally(self.wins, self.promised + weight * seen.promised)
            case "ignored":
                return Tally(self.wins, self.promised + weight * seen.promised * IGNORED)
            case "found":
                return self

    @property
    def trust(self) -> float:
        """Wins by wins promised, at most 1, and 1 before there are any."""
        return min(self.kept(_DOUBT), 1.0)

    def kept(self, doubt: float, trust: float = 1.0) -> float:
        """Wins by wins promised, drawn to `trust` by as much as `doubt` promised wins."""
        return (self.wins + doubt * trust) / (self.promised + doubt)

    def faded(self) -> "Tally":
        """As it counts after one loop more."""
        return Tally(self.wins * FADE, self.promised * FADE)


class Stats(Value, frozen=True):
    """All loops together.

    `shown` and `held` were drawn by lot, of loops for which there was something to show; in
    `plain` there was nothing; `manual` were told by hand. `tries` are all of these, counted in
    tries instead of iterations. `own` and `claimed` are the tallies of patterns found here
    and of those imported.
    """

    shown: Arm = Arm()
    held: Arm = Arm()
    plain: Arm = Arm()
    manual: Arm = Arm()
    tries: Arm = Arm()
    own: Tally = Tally()
    claimed: Tally = Tally()
    updated: int = 0
