"""The errors that callers may catch, sorted by who can act on them. A room's own stand in the room.

* TaofoldError
  + ConfigError              the programmer: found before the first model call
  + RunError                 the world or the log: the run cannot go on
    - ModelError             the provider failed after retries
    - LimitReached           only with `raise_on_limit`; carries the result
    - ReplayDiverged         the log and the code disagree
  + Refused                  a person: the decision is late, repeated or not theirs
  + LogError                 the world: the store cannot be used
    - Conflict               somebody else appended to this run first
    - OutcomeUnknown         the answer to a write was lost: it may have happened
    - LogAway                the server of the store is not there, or not yet
    - UnknownRun             no run with this id
    - Incompatible           the store was written by a newer release, or is not ours

The model's own mistakes are never exceptions: they become observations.
"""

from typing import Any

from taofold.core.difference import first_difference


class TaofoldError(Exception):
    """Base of every error raised on purpose."""


class ConfigError(TaofoldError):
    """A mistake in code, configuration or an agent file. `path` says where."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


class RunError(TaofoldError):
    """A run cannot continue; its log says why."""


class ModelError(RunError):
    """The provider failed. `kind` is auth, rate, overflow, request, binding, server, network,
    reply or timeout. `binding`: it will not have back what it once signed or encrypted.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str = "server",
        status: int = 0,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind, self.status, self.retry_after = kind, status, retry_after


class LimitReached(RunError):
    """A limit ended the run and `raise_on_limit` was set. `result` holds the partial work."""

    def __init__(self, message: str, result: Any) -> None:
        super().__init__(message)
        self.result = result


class RunFailed(RunError):
    """A run has no output, and its output was asked for. `result` shows how it ended."""

    def __init__(self, message: str, result: Any) -> None:
        super().__init__(message)
        self.result = result


class ReplayDiverged(RunError):
    """Re-deriving the run gave another event than the log holds."""

    def __init__(self, key: str, recorded: object, requested: object, hint: str = "") -> None:
        place, old, new = first_difference(recorded, requested)
        where = f", {place}" if place else ""
        super().__init__(
            f"the run diverges at effect {key!r}{where}:\n  recorded  {old}\n  requested {new}"
            + (f"\n{hint}" if hint else "")
        )
        self.key, self.recorded, self.requested, self.hint = key, recorded, requested, hint


class Refused(TaofoldError):
    """A person's decision cannot be taken; the message says why."""


class LogError(TaofoldError):
    """The store cannot be read or written."""


class LogAway(LogError):
    """The log's server is not there, or not yet: nothing was sent."""


class Conflict(LogError):
    """Somebody else appended to this run, or owns it now."""


class OutcomeUnknown(LogError):
    """A write was sent and its answer was lost. Look before you write again."""


class UnknownRun(LogError, LookupError):
    """No run has this id."""


class Incompatible(LogError):
    """The store is newer than this release, or was not created by it. Nothing was changed."""
