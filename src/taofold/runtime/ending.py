"""How a run's end is said: from an answer, a cancellation or an error to `RunFinished` (D1)."""

from typing import Any, Final

from taofold.core import events as e
from taofold.core.effects import Answer
from taofold.policy.redaction import Redactor
from taofold.runtime.cleaning import plain
from taofold.tools.result import utf8

STATUS: Final = {
    "max_steps": "limited",
    "max_tool_calls": "limited",
    "timeout": "limited",
    "budget": "limited",
    "loop_detected": "limited",
    "denied": "failed",
    "error": "failed",
    "cancelled": "cancelled",
    "interrupted": "cancelled",
}
"""From `stop_reason` to `status`; every other reason is "finished"."""
RESUMABLE: Final = frozenset({"cancelled", "interrupted", "error"})
"""Why a run may have ended that can be carried on all the same."""


def finished(answer: Any, redactor: Redactor | None = None, why: str = "") -> e.RunFinished:
    """The end that a strategy's answer means, without the secrets that it may hold.

    `why` explains the limit that ended it, if one did.
    """
    if not isinstance(answer, Answer):
        answer = Answer(answer)
    status = STATUS.get(answer.stop, "finished")
    success = status == "finished" and not answer.error
    error = answer.error or (why if status == "limited" else "")
    return e.RunFinished(
        status=status,
        stop_reason=answer.stop,
        success=success,
        output=answer.output if redactor is None else plain(redactor, answer.output),
        error=error if redactor is None else plain(redactor, error),
    )


def cancelled(by: str) -> e.RunFinished:
    """The end that a person wanted."""
    return e.RunFinished(
        status="cancelled", stop_reason="cancelled", success=False, error=f"cancelled by {by}"
    )


def interrupted() -> e.RunFinished:
    """The end of a run whose process was told to stop (Ctrl-C, SIGTERM, a cancelled task)."""
    return e.RunFinished(
        status="cancelled", stop_reason="interrupted", success=False, error="interrupted"
    )


def failed(error: Exception, redactor: Redactor | None = None) -> e.RunFinished:
    """An error that ends the run, without the secrets that its text may hold."""
    said = words(error)
    if redactor is not None:
        said = redactor.text(said)
    return e.RunFinished(status="failed", stop_reason="error", success=False, error=said)


def words(error: BaseException) -> str:
    """Kind and text of `error`, fit for a log: its `__str__` may raise, or not be UTF-8."""
    kind = type(error).__name__
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - __str__ of a foreign exception
        said = ""
    return utf8(f"{kind}: {said}" if said else kind)
