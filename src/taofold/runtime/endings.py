"""The ends of an activation: `RunFinished` (D1) or waiting, and the time when the next one is due.

Also the ends without a strategy's answer (cancelled, interrupted, failed), the reasons for waiting,
the results of `advance` (`Finished`, `Waiting`, `More`), and the bound of one activation (`Share`).
An engine keeps no waiting run in memory: it gets the due time, and a message wakes the run earlier.
Pure.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from taofold.core import events as e
from taofold.core.effects import Answer
from taofold.core.text import error_text
from taofold.core.values import JSON, Value
from taofold.log.log import AT_ONCE, RunRow
from taofold.policy.limits import STOP_REASON
from taofold.policy.redaction import Redactor
from taofold.runtime.redaction import redact_json
from taofold.runtime.setup import Pause

STATUS: Final = {
    **dict.fromkeys(STOP_REASON.values(), "limited"),
    "loop_detected": "limited",
    "denied": "failed",
    "error": "failed",
    "cancelled": "cancelled",
    "interrupted": "cancelled",
}
"""The `status` for each `stop_reason`; every other reason gives "finished"."""
RESUMABLE: Final = frozenset({"cancelled", "interrupted", "error"})
"""Stop reasons of ended runs that can be resumed."""


def finished(
    answer: Any,
    redactor: Redactor | None = None,
    why: str = "",
    shown: Callable[[JSON], JSON] | None = None,
) -> e.RunFinished:
    """Returns the end for a strategy's answer, without secrets.

    `why` explains the limit that ended it, if one did; the strategy's own error follows. `shown`
    masks fields that the answer's type hides.
    """
    if not isinstance(answer, Answer):
        answer = Answer(answer)
    status = STATUS.get(answer.stop, "finished")
    success = status == "finished" and not answer.error
    explanations = (why if status == "limited" else "", answer.error)
    error = "; ".join([text for text in explanations if text])
    accepted = answer.output if redactor is None else redact_json(redactor, answer.output)
    output = accepted if shown is None else shown(accepted)
    return e.RunFinished(
        status=status,
        stop_reason=answer.stop,
        success=success,
        output=output,
        error=error if redactor is None else redact_json(redactor, error),
        accepted=None if output == accepted else accepted,
    )


def cancelled(by: str, why: str = "") -> e.RunFinished:
    """Returns the end by a cancellation; `why` replaces the text that names the sender."""
    error = why or f"cancelled by {by}"
    return e.RunFinished(status="cancelled", stop_reason="cancelled", success=False, error=error)


def interrupted() -> e.RunFinished:
    """Returns the end of a run whose process was stopped (Ctrl-C, SIGTERM, a cancelled task)."""
    return e.RunFinished(
        status="cancelled", stop_reason="interrupted", success=False, error="interrupted"
    )


def stopped_by_denial(reason: str) -> e.RunFinished:
    """Returns the end of a run that stops when an action is denied."""
    return e.RunFinished(status="failed", stop_reason="denied", success=False, error=reason)


def failed(error: Exception, redactor: Redactor | None = None) -> e.RunFinished:
    """Returns the end by an error, without the secrets that its text may hold."""
    text = error_text(error)
    if redactor is not None:
        text = redactor.text(text)
    return e.RunFinished(status="failed", stop_reason="error", success=False, error=text)


def from_world(end: e.RunFinished) -> e.RunFinished | None:
    """Returns the end with the same reason and text that a replay cannot derive.

    None if each end with this reason follows from the records.
    """
    if end.stop_reason not in RESUMABLE:
        return None
    return e.RunFinished(
        status=STATUS[end.stop_reason], stop_reason=end.stop_reason, success=False, error=end.error
    )


MOST_LOST: Final = 3
"""Number of activations that may end at the same place without a record, as after a kill."""


def worn_out() -> e.RunFinished:
    """Returns the end of a run after `MOST_LOST` processes ended without new records."""
    error = (
        f"the process that drove it ended {MOST_LOST} times at the same place, without an error "
        "on record (out of memory? os._exit?): find out why, then resume the run or cancel it"
    )
    return e.RunFinished(status="failed", stop_reason="error", success=False, error=error)


QUEUED: Final = "queued"
STOPPED: Final = "server_stopped"
MORE: Final = "more"
EXPIRED: Final = "expired"
REOPENED: Final = "reopened"
SPENT: Final = "batch_usd"
"""A batch has no more dollars for the run: the same call with a larger amount continues it."""
UNATTENDED: Final = frozenset({QUEUED, STOPPED, MORE, EXPIRED, REOPENED})
"""Reasons for waiting that need no action by a user."""


class Finished(Value, frozen=True):
    """The run has ended."""

    run: str
    status: str


class Waiting(Value, frozen=True):
    """Nothing can be done before `until` (ms since the epoch; 0 = until a message arrives)."""

    run: str
    reason: str
    until: int = 0


class More(Value, frozen=True):
    """Its share of this activation is used up: it continues at the next call."""

    run: str


Advanced: TypeAlias = Finished | Waiting | More


class Share:
    """The bound of one activation: after `calls` model calls it yields with `More`.

    `pause` returns other reasons why the run must wait.
    """

    def __init__(self, calls: int = 0, pause: Pause = str) -> None:
        self._left, self._bounded, self._pause = calls, calls > 0, pause

    def __call__(self) -> str:
        """Returns why the run must yield before its next model call, or ""."""
        reason = self._pause()
        if reason or not self._bounded:
            return reason
        # Called before the model call, so a share of n makes n calls and yields at the next.
        self._left -= 1
        return "" if self._left >= 0 else MORE


def is_due(row: RunRow, wake_at: int, now: int) -> bool:
    """Returns whether a run without a driver has something to do."""
    return row.status != "waiting" or 0 < wake_at <= now


def wake_time(reason: str, open_records: Sequence[e.Record], *, quiet: bool = True) -> int:
    """Returns the time when a run that waits for `reason` is due, given its open questions.

    A run that needs no user action, or has a message (not `quiet`), is due at once, independent of
    the clocks of other machines.
    """
    if not quiet or reason in UNATTENDED:
        return AT_ONCE
    ends = [
        record.event.expires_at for record in open_records if isinstance(record.event, e.Decided)
    ]
    # An approval is open up to and including this time: `now > expires_at` closes it.
    return min([end + 1 for end in ends if end], default=0)
