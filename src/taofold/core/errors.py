"""The errors that callers may catch, sorted by who can act on them. Errors of one package stay
there.

* TaofoldError
  + ConfigError              the programmer: found before the first model call
  + RunError                 the world or the log: the run cannot continue
    - ModelError             the provider failed after retries
    - LimitReached           only with `raise_on_limit`; carries the result
    - RunFailed              the output of a run without one was read
    - ReplayDiverged         the log and the code disagree
  + Refused                  the approver: the decision is late, repeated or not permitted
  + LogError                 the world: the store cannot be used
    - Conflict               another process appended to this run first
    - OutcomeUnknown         the answer to a write was lost: it may have happened
    - LogAway                the server of the store is not reachable, or not yet
    - UnknownRun             no run with this id
    - Incompatible           the store was written by a newer release, or not by taofold

The model's own mistakes are never exceptions: they become observations.
"""

from typing import TYPE_CHECKING, Any

from taofold.core.difference import first_difference

if TYPE_CHECKING:
    from taofold.core.reply import Usage


class TaofoldError(Exception):
    """Base of all errors that taofold raises on purpose."""


class ConfigError(TaofoldError):
    """A mistake in code, configuration or an agent file, found before the first model call.

    Args:
        message: The mistake and how to fix it.
        path: The place of the mistake, such as `tools[0].name`; it precedes the message.

    Example:
        ```python
        from taofold import ConfigError, Limits

        try:
            Limits(steps=-1)
        except ConfigError as error:
            print(error)  # limits: limit steps must be 0 or more, not -1
        ```
    """

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


class RunError(TaofoldError):
    """A run cannot continue. Its log holds the reason."""


class ModelError(RunError):
    """The provider failed.

    Args:
        message: The provider's error, or what was wrong with its reply.
        kind: auth, rate, overflow, request, binding, server, network, reply or timeout. `binding`
            means that the provider rejects data it once signed or encrypted.
        status: HTTP status; 0 if there was no response.
        retry_after: Seconds to wait before a retry; None if unknown.
        usage: Consumption of the call although it failed; None if unknown. It is then estimated,
            unless the provider refused the request.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str = "server",
        status: int = 0,
        retry_after: float | None = None,
        usage: "Usage | None" = None,
    ) -> None:
        super().__init__(message)
        self.kind, self.status, self.retry_after = kind, status, retry_after
        self.usage = usage


class LimitReached(RunError):
    """A limit ended the run and `raise_on_limit` was set.

    Example:
        ```python
        from taofold import Agent, LimitReached, Limits

        agent = Agent("test:tools", limits=Limits(steps=0), raise_on_limit=True)
        try:
            agent.run_sync("Sum up the reports.")
        except LimitReached as error:
            print(error.result.stop_reason)  # max_steps
        ```

    Args:
        message: The reason.
        result: The `RunResult`, with the partial work.
    """

    def __init__(self, message: str, result: Any) -> None:
        super().__init__(message)
        self.result = result


class RunFailed(RunError):
    """The output of a run without an output was read.

    Example:
        ```python
        from taofold import Agent, Limits, RunFailed

        result = Agent("test:tools", limits=Limits(steps=0)).run_sync("Sum up the reports.")
        try:
            print(result.output)
        except RunFailed as error:
            print(error.result.stop_reason)  # max_steps
        ```

    Args:
        message: The reason.
        result: The `RunResult`, with the partial work.
    """

    def __init__(self, message: str, result: Any) -> None:
        super().__init__(message)
        self.result = result


class ReplayDiverged(RunError):
    """A replay derived another event than the log holds.

    Example:
        ```python
        from taofold import ReplayDiverged

        try:
            await agent.replay(result)
        except ReplayDiverged as error:
            print(error.key, error)
        ```

    Args:
        key: The place of the effect in its strategy.
        recorded: The event or value in the log.
        requested: The one that the present code derived.
        hint: A probable cause, appended to the message.
        seq: The number of the record, if it is known.
    """

    def __init__(
        self,
        key: str,
        recorded: object,
        requested: object,
        hint: str = "",
        *,
        seq: int | None = None,
    ) -> None:
        place, old, new = first_difference(recorded, requested)
        where = f", {place}" if place else ""
        super().__init__(
            f"the run diverges at effect {key!r}{where}:\n  recorded  {old}\n  requested {new}"
            + (f"\n{hint}" if hint else "")
        )
        self.key, self.recorded, self.requested, self.hint = key, recorded, requested, hint
        self.seq = seq


class Refused(TaofoldError):
    """An approver's decision cannot be accepted; the message states why.

    Example:
        ```python
        from taofold import Decision, MemoryLog, Refused, decide

        try:
            await decide(MemoryLog(), "not-an-id", Decision("approve"))
        except Refused as error:
            print(error)  # 'not-an-id' is not an action id: write RUN:SEQ
        ```
    """


class LogError(TaofoldError):
    """The store cannot be read or written."""


class LogAway(LogError):
    """The log's server is not reachable, or not yet. Nothing was sent."""


class Conflict(LogError):
    """Another process appended to this run, or owns it now."""


class OutcomeUnknown(LogError):
    """A write was sent and its answer was lost. Read the log before writing again."""


class UnknownRun(LogError, LookupError):
    """No run has this id."""


class Incompatible(LogError):
    """A newer release wrote the store, or it is not a taofold store. Nothing was changed."""
