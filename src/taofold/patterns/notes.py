"""What is kept about loops: what each was shown, and what all of them say together.

Knows nothing about how patterns are chosen.
"""

from typing import Final

from taofold.core.values import Value
from taofold.patterns.case import Context
from taofold.patterns.events import Shown
from taofold.patterns.values import KEPT_EVIDENCE, Arm, Evidence, Outcome

FADE: Final = 0.99
"""What of a tally is left after each loop, so that an early lesson can be unlearnt."""
_MOST_TRUST: Final = 1.25
_MORE: Final[tuple[Outcome, ...]] = ("found", "ignored", "lost", "won")
"""Outcomes, each more than the one before."""
_DOUBT: Final = 1.5
"""Expected wins that must be missing before trust is well below a half."""
IGNORED: Final = 0.25
"""A pattern that was shown and not used counts as this part of a loss."""


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
    """One loop, as far as learning is concerned. `text` is what it was shown."""

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
    tries: int = 0
    """Its changes that were followed by a check; its iterations, where these are not known."""

    def use(self, identity: str) -> Use | None:
        """How the loop used the pattern, if it did."""
        return next((use for use in self.uses if use.id == identity), None)

    def outcome(self, identity: str) -> Outcome:
        """What became of a pattern that the loop was shown."""
        use = self.use(identity)
        return "ignored" if use is None else "won" if use.won else "lost"

    @property
    def ids(self) -> frozenset[str]:
        """The patterns that the loop was really shown."""
        return frozenset() if self.control else frozenset([one.id for one in self.shown])


class FixNote(Value, frozen=True):
    """What became of a change wherever it was shown, whatever error it was stored for.

    `key` names the change; `evidence` are the loops that were shown it, the newest last.
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
    """How patterns with a short record did: wins, and how many were expected. Older ones fade."""

    wins: float = 0.0
    expected: float = 0.0

    def plus(self, outcome: Outcome, expected: float) -> "Tally":
        """With one outcome more, of which a win was expected with this chance."""
        match outcome:
            case "won":
                return Tally(self.wins + 1.0, self.expected + expected)
            case "lost":
                return Tally(self.wins, self.expected + expected)
            case "ignored":
                return Tally(self.wins, self.expected + expected * IGNORED)
            case "found":
                return self

    @property
    def trust(self) -> float:
        """Wins by wins expected, 1 before there are any; at most a little above it."""
        return min((self.wins + _DOUBT) / (self.expected + _DOUBT), _MOST_TRUST)

    def faded(self) -> "Tally":
        """As it counts after one loop more."""
        return Tally(self.wins * FADE, self.expected * FADE)


class Stats(Value, frozen=True):
    """All loops together.

    `shown` and `held` were drawn by lot, of loops for which there was something to show; in
    `plain` there was nothing; `manual` were told by hand. `tries` are all of these, counted in
    tries instead of iterations. `own` and `claimed` are the tallies of patterns with a short
    record of their own, found here and imported.
    """

    shown: Arm = Arm()
    held: Arm = Arm()
    plain: Arm = Arm()
    manual: Arm = Arm()
    tries: Arm = Arm()
    own: Tally = Tally()
    claimed: Tally = Tally()
    updated: int = 0
