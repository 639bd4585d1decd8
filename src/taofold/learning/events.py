"""What happens to patterns, as facts of the stream `patterns`. Past tense, append-only.

A pattern is found (again), chosen, applied, edited, imported, retired, archived, restored; a loop
ends, or goes on after its end; what the search of a loop came to is known (`SearchSettled`).
Everything the registry shows is a fold of these. What concerns a loop and a pattern counts once,
however often it is written. Knows nothing about where facts are kept.
"""

from typing import Final, TypeAlias

import msgspec

from taofold.core.values import Value
from taofold.learning.patterns.case import CaseContext
from taofold.learning.patterns.kinds import Body
from taofold.learning.patterns.pattern import ImportClaim, Pattern, Rate

STREAM: Final = "patterns"


class PatternDiscovered(Value, frozen=True, tag_field="e", tag="discovered"):
    """A loop's end gave a pattern that nobody knew."""

    loop: str
    pattern: Pattern
    by: str = ""


class PatternMerged(Value, frozen=True, tag_field="e", tag="merged"):
    """A loop's end gave a pattern so like `id` that it counts as another sight of it."""

    loop: str
    id: str
    pattern: Pattern
    by: str = ""


class ShownPattern(Value, frozen=True):
    """A pattern as it was chosen: how relevant it was, and how good it was held to be."""

    id: str
    relevance: float
    chance: float = 0.0
    claimed: bool = False
    """Was it an import that had not helped here yet?"""
    after: int = 0
    """Iterations of the loop that had ended then; 0 = at its start."""


class PatternsInjected(Value, frozen=True, tag_field="e", tag="injected"):
    """What a loop was shown, or would have been, if it is a `control` loop.

    `text` is the section as it was rendered. `manual` = a person asked for it.
    """

    loop: str
    shown: tuple[ShownPattern, ...]
    text: str = ""
    control: bool = False
    manual: bool = False
    context: CaseContext = CaseContext()


class PatternApplied(Value, frozen=True, tag_field="e", tag="applied"):
    """A loop made the edit that a pattern proposes which was chosen for it.

    It counts when the loop ends.
    """

    loop: str
    id: str
    won: bool
    iteration: int = 0
    by: str = ""


class LoopSettled(Value, frozen=True, tag_field="e", tag="ended"):
    """A loop is over. `project` is the one that it worked on."""

    loop: str
    iterations: int
    solved: bool
    project: str = ""


class SearchSettled(Value, frozen=True, tag_field="e", tag="searched"):
    """What the search of a loop came to that an edit ended, for the next search to know.

    `rates` are by the key of an edit's shape: one win for each key of the edit that ended the
    loop, and the share of the ranking that each key held. `costs` say how surprised
    the policy's own order and the learnt one were (`rates.outcome`).
    """

    loop: str
    rates: dict[str, Rate]
    costs: tuple[float, ...] = ()


class LoopReopened(Value, frozen=True, tag_field="e", tag="reopened"):
    """A loop that had ended goes on: what its end counted is taken back until it ends again."""

    loop: str


class PatternRetired(Value, frozen=True, tag_field="e", tag="retired"):
    """A pattern stays, but is no longer injected: it did not help."""

    id: str
    reason: str


class PatternRefuted(Value, frozen=True, tag_field="e", tag="refuted"):
    """A loop of `project` showed that a pattern of other projects is no cure."""

    id: str
    project: str
    reason: str


class PatternArchived(Value, frozen=True, tag_field="e", tag="archived"):
    """A pattern left the registry for the archive of `month` (YYYY-MM)."""

    id: str
    reason: str
    month: str


class PatternRestored(Value, frozen=True, tag_field="e", tag="restored"):
    """A pattern came back from the archive, or from retirement."""

    id: str


class PatternEdited(Value, frozen=True, tag_field="e", tag="edited"):
    """A person rewrote a pattern. `by` is who; its kind stays."""

    id: str
    name: str
    tags: tuple[str, ...]
    body: Body
    by: str = ""


class PatternImported(Value, frozen=True, tag_field="e", tag="imported"):
    """A pattern came from a file, with what the file says about it."""

    pattern: Pattern
    claim: ImportClaim
    file: str = ""


LearningEvent: TypeAlias = (
    PatternDiscovered
    | PatternMerged
    | PatternsInjected
    | PatternApplied
    | LoopSettled
    | SearchSettled
    | LoopReopened
    | PatternRetired
    | PatternRefuted
    | PatternArchived
    | PatternRestored
    | PatternEdited
    | PatternImported
)

# Made once: a decoder of a union is dear to build.
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final[msgspec.json.Decoder[LearningEvent]] = msgspec.json.Decoder(LearningEvent)


def encode(event: LearningEvent) -> bytes:
    """The event's JSON form; defaults are left out."""
    return _ENCODER.encode(event)


def decode(body: bytes | str) -> LearningEvent:
    """Read a fact's body.

    Raises:
        msgspec.DecodeError: it is no event of this release.
    """
    return _DECODER.decode(body)
