"""The events of a loop (`LoopEvent`), and their JSON form, which is stored without secrets.

A loop is the stream `loop/<id>` of a journal. Events written together are one transaction, so the
end of an iteration and its consequences are one. `number` counts iterations from 1; 0 is the state
before the first.
"""

from typing import Any, Final, TypeAlias

import msgspec

from taofold.core.json_values import is_object, is_sequence
from taofold.core.text import utf8
from taofold.core.values import Value
from taofold.loop.values import (
    Ending,
    Kind,
    Learnt,
    Left,
    Lessons,
    Level,
    LoopLimits,
    LoopRequest,
    LoopSpending,
)
from taofold.loop.verdict import Verdict
from taofold.policy.redaction import Redactor

PREFIX: Final = "loop/"


class LoopFact(Value, frozen=True, kw_only=True, tag_field="e"):
    """The common base of all facts of a loop."""


class LoopStarted(LoopFact, frozen=True, tag="loop_started"):
    """The request of a loop. `owner` is the process that drives it.

    `place` distinguishes the loop's folder from those of other loops of the same name. `opened_at`
    is a time before its first snapshot, in ms since the epoch.
    """

    wish: LoopRequest
    owner: str = ""
    place: str = ""
    opened_at: int = 0


class BaselineTaken(LoopFact, frozen=True, tag="baseline_taken"):
    """The gates before iteration 1, and the state of the files to compare with.

    `baseline` and `snapshot` name the data of the gates and of the workspace outside the work root.
    `folder` is the work folder, `kept` the data by which the workspace finds it again.
    """

    verdict: Verdict
    snapshot: str = ""
    baseline: str = ""
    folder: str = ""
    kept: dict[str, Any] = {}


class LessonsInjected(LoopFact, frozen=True, tag="injected"):
    """Lessons of earlier loops. `by` is the requester.

    Lessons of the start (`number` 1) and manual ones are shown from iteration `number` on, others
    in that iteration alone.
    """

    number: int
    lessons: Lessons
    by: str = "loop"
    manual: bool = False


class IterationStarted(LoopFact, frozen=True, tag="iteration_started"):
    """A run with a fresh context begins."""

    number: int
    run: str
    before: str = ""
    """Snapshot of the files at that time."""


class FailedAction(Value, frozen=True):
    """A failed action, which must not be repeated unchanged."""

    tool: str
    parameters: str
    why: str


class SharedFolder(Value, frozen=True):
    """The changes of an iteration in whose time others changed files of the folder.

    `base` and `own` are snapshots: the files of the last verdict, and these with the loop's own
    changes alone. `before` and `after` are the gates' verdicts on both; None = they did not run.
    """

    others: tuple[str, ...] = ()
    """Paths that others changed. One that the loop changed too is also in `changed`."""
    unsure: tuple[str, ...] = ()
    """Paths that the loop or others changed, as by a command: nothing is learnt from them."""
    loops: tuple[str, ...] = ()
    """The other loops at work in the folder."""
    base: str = ""
    own: str = ""
    before: Verdict | None = None
    after: Verdict | None = None


class IterationEnded(LoopFact, frozen=True, tag="iteration_ended"):
    """The result of an iteration, and the verdict of the gates.

    `changed` and `diff` are its own changes. `diff` is the unified diff to the files before it,
    shortened to `DIFF` characters. `files` maps every file that differs from the baseline to the
    digest of its content ("" = gone).
    """

    number: int
    run: str
    verdict: Verdict
    snapshot: str = ""
    status: str = ""
    stop_reason: str = ""
    said: str = ""
    """The run's answer, or why there is none. Text of a model: reported, never trusted."""
    confidence: float | None = None
    diff: str = ""
    digest: str = ""
    changed: tuple[str, ...] = ()
    files: dict[str, str] = {}
    failed: tuple[FailedAction, ...] = ()
    executed: bool = False
    """True if a command ran after the last change."""
    blocked: str = ""
    """The reason why a passed gate does not complete the loop (RLP-16), "" = it does."""
    tools: dict[str, int] = {}
    spent: LoopSpending = LoopSpending()
    commit: str = ""
    shared: SharedFolder | None = None
    """None = nothing shows that others changed files in its time."""
    undone: str = ""
    """The diff of its reverted changes in protected files."""

    @property
    def quality(self) -> float:
        """Share of the checks that pass, in 0 to 1."""
        return self.verdict.quality


class Intervened(LoopFact, frozen=True, tag="intervened"):
    """A problem of the course, and the reaction.

    A `redirect` carries the instruction for the next iteration.
    """

    number: int
    level: Level
    kind: Kind
    why: str
    instruction: str = ""


class LoopPaused(LoopFact, frozen=True, tag="paused"):
    """The loop waits until a user resumes it. `run` is the run that waits for a user, if any.

    `touched` are the protected files that the open iteration had changed by then, each with a mark
    of its content; None = unknown.
    """

    reason: str
    run: str = ""
    touched: dict[str, str] | None = None
    packages: tuple[str, ...] = ()
    """Changes of installed packages that caused the pause: no verdict is reliable."""


class Edited(LoopFact, frozen=True, tag="edited"):
    """A user's decision about protected files that were changed while the loop was paused.

    `kept`: later verdicts compare with them, and `baseline` is the new digest; otherwise they were
    reverted. `dropped` names tests that are no longer required.
    """

    paths: tuple[str, ...]
    kept: bool
    baseline: str = ""
    dropped: tuple[str, ...] = ()
    by: str = "local"


class BaselineRetaken(LoopFact, frozen=True, tag="baseline_retaken"):
    """A user requested a new run of the gates on the files of the start, as the new baseline.

    `packages` are the changes of installed packages that it includes, `baseline` is the new digest.
    `dropped` names tests that are no longer required.
    """

    verdict: Verdict
    baseline: str
    packages: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    by: str = "local"


class PauseAsked(LoopFact, frozen=True, tag="pause_asked"):
    """A user requested a pause before the next iteration."""

    by: str = "local"


class LoopResumed(LoopFact, frozen=True, tag="resumed"):
    """The loop continues in the process `owner`, with a fresh timer."""

    bounds: LoopLimits
    owner: str = ""
    by: str = "local"


class LoopCrashed(LoopFact, frozen=True, tag="crashed"):
    """The process that drove the loop was found to be gone."""

    why: str


class Completing(LoopFact, frozen=True, tag="completing"):
    """The work is over with the result `ending`: the best iteration is chosen and restored."""

    ending: Ending
    reason: str


class FilesRestored(LoopFact, frozen=True, tag="restored"):
    """The files are those of iteration `number` again."""

    number: int
    snapshot: str
    reason: str


class LoopEnded(LoopFact, frozen=True, tag="loop_ended"):
    """The end of a loop. `best` is the iteration whose files were kept, 0 = none."""

    ending: Ending
    reason: str
    best: int = 0
    why_best: str = ""
    degraded: bool = False
    """True if the last iteration was worse than the best."""
    delivered: bool = False
    """True if all of the work is in the project."""
    warning: str = ""
    by: str = "loop"


class Cleared(LoopFact, frozen=True, tag="cleared"):
    """The state of an ended loop's work folder.

    `reverted` are the paths that were restored to the start; None = they were not.
    """

    left: Left
    reverted: tuple[str, ...] | None = None


class Taught(LoopFact, frozen=True, tag="taught"):
    """The lessons of the loop."""

    learnt: Learnt


LoopEvent: TypeAlias = (
    LoopStarted
    | BaselineTaken
    | LessonsInjected
    | IterationStarted
    | IterationEnded
    | Intervened
    | LoopPaused
    | PauseAsked
    | Edited
    | BaselineRetaken
    | LoopResumed
    | LoopCrashed
    | Completing
    | FilesRestored
    | LoopEnded
    | Cleared
    | Taught
)

DIFF: Final = 20_000
"""The most characters of a diff in a fact; the snapshots have all of it."""

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final[msgspec.json.Decoder[LoopEvent]] = msgspec.json.Decoder(LoopEvent)


class LoopRecord(msgspec.Struct, frozen=True, gc=False):
    """A fact with its place in the stream. `at` is milliseconds since the epoch."""

    seq: int
    at: int
    event: LoopEvent


_HANDLES: Final = frozenset(
    {"e", "owner", "run", "snapshot", "baseline", "before", "folder", "kept", "files", "digest"}
    | {
        "changed",
        "paths",
        "dropped",
        "packages",
        "touched",
        "commit",
        "reverted",
        "left",
        "bounds",
        "spent",
    }
    | {"root", "commands", "agent", "model", "principal", "branch", "allow_edit", "scope", "tools"}
    # The gates' output is already redacted, and its names are looked up later.
    | {"verdict", "shared"}
)
"""Fields without prose, by which a loop finds files, runs and commands again."""


def encode(event: LoopEvent) -> bytes:
    """Returns the event as JSON; defaults are omitted."""
    return _ENCODER.encode(event)


def encode_redacted(event: LoopEvent, redactor: Redactor) -> bytes:
    """Returns the event in its stored form, without the secrets in its texts."""
    return _ENCODER.encode(_cleaned(msgspec.to_builtins(event), redactor))


def _cleaned(fields: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    return {
        name: _encodable(value)
        if name in _HANDLES
        else _cleaned(value, redactor)
        if is_object(value)
        else redactor.json(value)
        for name, value in fields.items()
    }


def _encodable(value: Any) -> Any:
    """Returns the value with escapes for text that is not UTF-8: a file name may be any bytes."""
    if isinstance(value, str):
        return utf8(value)
    if is_object(value):
        return {utf8(name): _encodable(inner) for name, inner in value.items()}
    if is_sequence(value):
        return [_encodable(inner) for inner in value]
    return value


def decode(body: bytes) -> LoopEvent:
    """Reads an event from JSON.

    Raises:
        msgspec.ValidationError: It is not an event of a loop.
    """
    return _DECODER.decode(body)
