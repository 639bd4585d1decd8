"""The events of patterns, as facts of the stream `patterns`. Past tense, append-only.

A pattern is found (again), chosen, applied, edited, imported, retired, archived, restored; a loop
ends, or continues after its end; the search of a loop has a result (`SearchSettled`). The registry
is a fold of these. An event of a loop and a pattern counts once, even if it is written several
times. Knows nothing about the storage of facts.
"""

from typing import Final, TypeAlias

import msgspec

from taofold.core.values import Value
from taofold.learning.patterns.case import CaseContext
from taofold.learning.patterns.kinds import Body
from taofold.learning.patterns.pattern import ImportClaim, Licence, Pattern, Rate

STREAM: Final = "patterns"


class PatternDiscovered(Value, frozen=True, tag_field="e", tag="discovered"):
    """A loop's end yielded a new pattern."""

    loop: str
    pattern: Pattern
    by: str = ""


class PatternMerged(Value, frozen=True, tag_field="e", tag="merged"):
    """A loop's end yielded a pattern so similar to `id` that it counts as a sighting of it."""

    loop: str
    id: str
    pattern: Pattern
    by: str = ""


class ShownPattern(Value, frozen=True):
    """A pattern as it was chosen, with its relevance and its estimated effectiveness."""

    id: str
    relevance: float
    chance: float = 0.0
    claimed: bool = False
    """True if it was an import that had not helped here yet."""
    after: int = 0
    """Completed iterations of the loop at that time; 0 = at its start."""


class PatternsInjected(Value, frozen=True, tag_field="e", tag="injected"):
    """The patterns shown to a loop, or withheld from it if it is a `control` loop.

    `text` is the rendered section. `manual` is True if a user requested it.
    """

    loop: str
    shown: tuple[ShownPattern, ...]
    text: str = ""
    control: bool = False
    manual: bool = False
    context: CaseContext = CaseContext()


class PatternApplied(Value, frozen=True, tag_field="e", tag="applied"):
    """A loop made the edit proposed by a pattern that was chosen for it.

    It counts when the loop ends.
    """

    loop: str
    id: str
    won: bool
    iteration: int = 0
    by: str = ""


class LoopSettled(Value, frozen=True, tag_field="e", tag="ended"):
    """A loop ended. `project` is the project that it worked on.

    `task` is its task for the index of tasks; "" if it is not shared.
    """

    loop: str
    iterations: int
    solved: bool
    project: str = ""
    task: str = ""


class SearchSettled(Value, frozen=True, tag_field="e", tag="searched"):
    """The result of a loop's search that an edit ended, for the next search.

    `rates` are by the key of an edit's shape: one win for each key of the edit that ended the loop,
    and the share of the ranking that each key held. `costs` are the surprises of the policy's own
    order and of the learnt one (`rates.outcome`).
    """

    loop: str
    rates: dict[str, Rate]
    costs: tuple[float, ...] = ()


class LoopReopened(Value, frozen=True, tag_field="e", tag="reopened"):
    """An ended loop continues: the counts of its end are reverted until it ends again."""

    loop: str


class PatternRetired(Value, frozen=True, tag_field="e", tag="retired"):
    """A pattern stays, but is no longer injected: it did not help."""

    id: str
    reason: str


class PatternRefuted(Value, frozen=True, tag_field="e", tag="refuted"):
    """A loop of `project` showed that a pattern of other projects is not a fix."""

    id: str
    project: str
    reason: str


class PatternArchived(Value, frozen=True, tag_field="e", tag="archived"):
    """A pattern left the registry for the archive of `month` (YYYY-MM)."""

    id: str
    reason: str
    month: str


class PatternRestored(Value, frozen=True, tag_field="e", tag="restored"):
    """A pattern was restored from the archive, or from retirement."""

    id: str


class PatternEdited(Value, frozen=True, tag_field="e", tag="edited"):
    """A user rewrote a pattern. `by` is the user; its kind stays."""

    id: str
    name: str
    tags: tuple[str, ...]
    body: Body
    by: str = ""


class PatternImported(Value, frozen=True, tag_field="e", tag="imported"):
    """A pattern came from a file, with the file's claims about it."""

    pattern: Pattern
    claim: ImportClaim
    file: str = ""


class PatternLicensed(Value, frozen=True, tag_field="e", tag="licensed"):
    """A licence of a pattern that was imported before was checked and holds."""

    id: str
    licence: Licence


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
    | PatternLicensed
)

# Built once: a decoder of a union is expensive to build.
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final[msgspec.json.Decoder[LearningEvent]] = msgspec.json.Decoder(LearningEvent)


def encode(event: LearningEvent) -> bytes:
    """Returns the event's JSON form; defaults are omitted."""
    return _ENCODER.encode(event)


def decode(body: bytes | str) -> LearningEvent:
    """Reads a fact's body.

    Raises:
        msgspec.DecodeError: It is not an event of this release.
    """
    return _DECODER.decode(body)
