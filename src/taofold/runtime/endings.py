"""How an activation of a run ends: in `RunFinished` (D1), or waiting, and when the next one is due.

The ends that are no strategy's answer (cancelled, interrupted, failed), the words for what a run
waits for, what `advance` tells an engine (`Finished`, `Waiting`, `More`), and how much one
activation may do (`Share`). An engine keeps no run in memory while it waits: it is told until when,
and is woken earlier by a message. Pure.
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
"""From `stop_reason` to `status`; every other reason is "finished"."""
RESUMABLE: Final = frozenset({"cancelled", "interrupted", "error"})
"""Why a run may have ended that can be carried on all the same."""


def finished(
    answer: Any,
    redactor: Redactor | None = None,
    why: str = "",
    shown: Callable[[JSON], JSON] | None = None,
) -> e.RunFinished:
    """The end that a strategy's answer means, without the secrets that it may hold.

    `why` explains the limit that ended it, if one did. The strategy's own error follows it.
    `shown` masks what its type hides.
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
    """The end by a cancellation; `why` replaces the text that names who cancelled."""
    error = why or f"cancelled by {by}"
    return e.RunFinished(status="cancelled", stop_reason="cancelled", success=False, error=error)


def interrupted() -> e.RunFinished:
    """The end of a run whose process was told to stop (Ctrl-C, SIGTERM, a cancelled task)."""
    return e.RunFinished(
        status="cancelled", stop_reason="interrupted", success=False, error="interrupted"
    )


def stopped_by_denial(reason: str) -> e.RunFinished:
    """The end of a run of which an action was denied, where that stops it."""
    return e.RunFinished(status="failed", stop_reason="denied", success=False, error=reason)


def failed(error: Exception, redactor: Redactor | None = None) -> e.RunFinished:
    """An error that ends the run, without the secrets that its text may hold."""
    text = error_text(error)
    if redactor is not None:
        text = redactor.text(text)
    return e.RunFinished(status="failed", stop_reason="error", success=False, error=text)


MOST_LOST: Final = 3
"""Activations of a run that may end without a record at the same place, as by a kill."""


def worn_out() -> e.RunFinished:
    """The end of a run at which `MOST_LOST` processes ended before they recorded anything new."""
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
"""A batch has no more dollars for the run: the same call with more of them goes on."""
UNATTENDED: Final = frozenset({QUEUED, STOPPED, MORE, EXPIRED, REOPENED})
"""What a run waits for that no person needs to do."""


class Finished(Value, frozen=True):
    """The run has ended."""

    run: str
    status: str


class Waiting(Value, frozen=True):
    """Nothing can be done before `until` (ms since the epoch; 0 = before a message comes)."""

    run: str
    reason: str
    until: int = 0


class More(Value, frozen=True):
    """Its share of this activation is used up: it goes on as soon as it is called again."""

    run: str


Advanced: TypeAlias = Finished | Waiting | More


class Share:
    """How much one activation may do: so many model calls, then it gives way with `More`.

    `pause` says why the run must wait for other reasons.
    """

    def __init__(self, calls: int = 0, pause: Pause = str) -> None:
        self._left, self._bounded, self._pause = calls, calls > 0, pause

    def __call__(self) -> str:
        """Why the run must give way before its next model call; "" = it may make it."""
        reason = self._pause()
        if reason or not self._bounded:
            return reason
        # Asked before the call, so a share of n makes n calls and gives way at the next.
        self._left -= 1
        return "" if self._left >= 0 else MORE


def is_due(row: RunRow, wake_at: int, now: int) -> bool:
    """Is there something to do for a run that nobody drives?"""
    return row.status != "waiting" or 0 < wake_at <= now


def wake_time(reason: str, open_records: Sequence[e.Record], *, quiet: bool = True) -> int:
    """When a run is due that waits for `reason` with these questions open.

    One that waits for nobody, or although a message is there (not `quiet`), is due at once whatever
    the clocks of other machines say.
    """
    if not quiet or reason in UNATTENDED:
        return AT_ONCE
    ends = [
        record.event.expires_at for record in open_records if isinstance(record.event, e.Decided)
    ]
    # An approval is open until then, not less: `now > expires_at` is what closes it.
    return min([end + 1 for end in ends if end], default=0)
