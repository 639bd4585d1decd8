"""Everything that can happen in a loop (`LoopEvent`), and its JSON form, which is stored without
the secrets in its texts.

A loop is the stream `loop/<id>` of a journal. What is written in one go is one transaction, so the
end of an iteration and what follows from it are one. `number` counts iterations from 1; 0 is the
state before the first.
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
    Spent,
)
from taofold.loop.verdict import Verdict
from taofold.policy.redaction import Redactor

PREFIX: Final = "loop/"


class LoopFact(Value, frozen=True, kw_only=True, tag_field="e"):
    """What all facts of a loop share."""


class LoopStarted(LoopFact, frozen=True, tag="loop_started"):
    """What is wanted. `owner` is the process that drives it.

    `place` tells the loop's folder from those of other loops of the same name.
    """

    wish: LoopRequest
    owner: str = ""
    place: str = ""


class BaselineTaken(LoopFact, frozen=True, tag="baseline_taken"):
    """The gates before iteration 1, and the state of the files to compare with.

    `baseline` and `snapshot` name what the gates and the workspace keep outside the work
    root; `folder` is where the work happens, `kept` what the workspace needs to find it again.
    """

    verdict: Verdict
    snapshot: str = ""
    baseline: str = ""
    folder: str = ""
    kept: dict[str, Any] = {}


class LessonsInjected(LoopFact, frozen=True, tag="injected"):
    """Lessons of earlier loops. `by` says who asked for them.

    Those of the start (`number` 1) and those a person asked for are read from iteration `number`
    on, others in that iteration alone.
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
    """Snapshot of the files as they were then."""


class FailedAction(Value, frozen=True):
    """An action that failed: not to be repeated as it was."""

    tool: str
    parameters: str
    why: str


class IterationEnded(LoopFact, frozen=True, tag="iteration_ended"):
    """What an iteration did, and what the gates say of it.

    `diff` is the unified diff to the files before it, shortened to `DIFF` characters; `files`
    maps every file that differs from the baseline to the digest of its content ("" = gone).
    """

    number: int
    run: str
    verdict: Verdict
    snapshot: str = ""
    status: str = ""
    stop_reason: str = ""
    said: str = ""
    """The run's answer, or why there is none. A model's words: reported, never believed."""
    confidence: float | None = None
    diff: str = ""
    digest: str = ""
    changed: tuple[str, ...] = ()
    files: dict[str, str] = {}
    failed: tuple[FailedAction, ...] = ()
    executed: bool = False
    """Did a command run after the last change?"""
    blocked: str = ""
    """Why a passed gate does not complete the loop (RLP-16), "" = it does."""
    tools: dict[str, int] = {}
    spent: Spent = Spent()
    commit: str = ""
    undone: str = ""
    """The diff of what it had changed in protected files, which were put back."""

    @property
    def quality(self) -> float:
        """Share of the checks that pass, in 0 to 1."""
        return self.verdict.quality


class Intervened(LoopFact, frozen=True, tag="intervened"):
    """Something is wrong with the course, and what is done about it.

    A `redirect` carries the instruction that the next iteration reads.
    """

    number: int
    level: Level
    kind: Kind
    why: str
    instruction: str = ""


class LoopPaused(LoopFact, frozen=True, tag="paused"):
    """The loop stands still until somebody resumes it. `run` waits for a person, if any.

    `touched` are the protected files that the open iteration had changed by then, each with a
    mark of its content; None = that is not known.
    """

    reason: str
    run: str = ""
    touched: dict[str, str] | None = None
    packages: tuple[str, ...] = ()
    """Changes of installed packages for which it pauses: no verdict can be relied on."""


class Edited(LoopFact, frozen=True, tag="edited"):
    """A person's word about protected files that were changed while the loop stood still.

    `kept`: verdicts are compared with them from now on, `baseline` being the digest of that;
    else they were put back. `dropped` names tests that need not be there any more.
    """

    paths: tuple[str, ...]
    kept: bool
    baseline: str = ""
    dropped: tuple[str, ...] = ()
    by: str = "local"


class BaselineRetaken(LoopFact, frozen=True, tag="baseline_retaken"):
    """A person had the gates run again on the files of the start: later verdicts follow from that.

    `packages` are the changes of installed packages that this takes in, `baseline` is the digest of
    what is compared with from now on. `dropped` names tests that need not be there any more.
    """

    verdict: Verdict
    baseline: str
    packages: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    by: str = "local"


class PauseAsked(LoopFact, frozen=True, tag="pause_asked"):
    """Somebody wants the loop to pause before its next iteration."""

    by: str = "local"


class LoopResumed(LoopFact, frozen=True, tag="resumed"):
    """The loop goes on in the process `owner`, with a fresh timer."""

    bounds: LoopLimits
    owner: str = ""
    by: str = "local"


class LoopCrashed(LoopFact, frozen=True, tag="crashed"):
    """Somebody found that the process which drove the loop is gone."""

    why: str


class Completing(LoopFact, frozen=True, tag="completing"):
    """The work is over and will be called `ending`: choose the best, put it in place."""

    ending: Ending
    reason: str


class FilesRestored(LoopFact, frozen=True, tag="restored"):
    """The files are those of iteration `number` again."""

    number: int
    snapshot: str
    reason: str


class LoopEnded(LoopFact, frozen=True, tag="loop_ended"):
    """How it ended. `best` is the iteration whose files were kept, 0 = none."""

    ending: Ending
    reason: str
    best: int = 0
    why_best: str = ""
    degraded: bool = False
    """Was the last iteration worse than the best?"""
    delivered: bool = False
    """Is everything that was made in the project?"""
    warning: str = ""
    by: str = "loop"


class Cleared(LoopFact, frozen=True, tag="cleared"):
    """What became of the place where an ended loop worked.

    `reverted` are the paths that were put back as they were at the start; None = they were not.
    """

    left: Left
    reverted: tuple[str, ...] | None = None


class Taught(LoopFact, frozen=True, tag="taught"):
    """What was learnt from the loop."""

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
"""Characters of a diff that a fact keeps; the snapshots have all of it."""

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
    # What the gates said comes without secrets already, and is found again by its names.
    | {"verdict"}
)
"""Fields that hold no prose: by these a loop finds files, runs and commands again."""


def encode(event: LoopEvent) -> bytes:
    """The event as JSON; what holds its default is left out."""
    return _ENCODER.encode(event)


def encode_redacted(event: LoopEvent, redactor: Redactor) -> bytes:
    """The event as it is stored: without the secrets in its texts."""
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
    """The value, with what no UTF-8 can say as escapes: a file's name may be any bytes."""
    if isinstance(value, str):
        return utf8(value)
    if is_object(value):
        return {utf8(name): _encodable(inner) for name, inner in value.items()}
    if is_sequence(value):
        return [_encodable(inner) for inner in value]
    return value


def decode(body: bytes) -> LoopEvent:
    """Read it back.

    Raises:
        msgspec.ValidationError: it is not a loop's event.
    """
    return _DECODER.decode(body)
