"""Batches: many goals for one agent, each in its own run, resumable by the batch's name.

`run_batch` implements `Agent.map`. Runs that an earlier call ended are read from the log, and
unfinished ones continue. All runs share the budget `usd`. `Batch` holds the results and their
totals. This is a batch of goals; the actions of one step are in `runtime.step_actions`.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from importlib import import_module
from os import urandom
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Generic

from taofold.agent.activation import Activation
from taofold.agent.result import Out, RunResult
from taofold.core.errors import ConfigError, UnknownRun
from taofold.core.events import Charged, Replied
from taofold.core.text import dollars, times
from taofold.core.values import Usage
from taofold.foreign_code import contained, in_own_task
from taofold.runtime.endings import RESUMABLE, SPENT
from taofold.runtime.providers import resolve
from taofold.runtime.setup import Purse
from taofold.tools.attachments import Prompt, prompted

if TYPE_CHECKING:
    from taofold.agent.agent import Agent

_AGAIN: Final = frozenset({"running", "cancelled", "new"})
"""Statuses in which a run of an earlier call is continued."""
_KEPT: Final = frozenset(
    {"deps", "principal", "session", "tags", "data", "ui_context", "history", "settings"}
)


@dataclass(frozen=True, slots=True)
class BatchState:
    """Progress of a batch, as passed to `Agent.map(progress=…)`.

    Args:
        done: Number of runs that ended or wait.
        total: Number of goals.
        usage: Usage of all runs that ended or wait, those of earlier calls included.
        last: Status of the run that ended last.
    """

    done: int
    total: int
    usage: Usage = Usage()
    last: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A goal whose run could not be driven: the log or a model could not be used."""

    run_id: str
    error: Exception


class Interrupted(SystemExit, KeyboardInterrupt):
    """Ctrl-C in a batch with a progress bar: ends a script without a traceback.

    `except KeyboardInterrupt` catches it.
    """


class Batch(Generic[Out]):
    """The results of many goals, in the order of the goals.

    `results` holds for each goal a `RunResult`, a `Failure`, or None if the budget `usd` was spent
    before it began. A run that the budget stopped waits for `batch_usd`.

    Example:
        ```python
        batch = await agent.map(["Count a.txt.", "Count b.txt."])
        print(batch.summary)
        print(batch.outputs)
        ```

    Args:
        name: Name of the batch.
        goals: The goals, as texts.
    """

    def __init__(self, name: str, goals: tuple[str, ...]) -> None:
        self.name, self.goals = name, goals
        self.run_ids = run_ids(name, goals)
        self.results: list[RunResult[Out] | Failure | None] = [None] * len(goals)
        self.kept = 0
        """Number of runs that had ended in an earlier call and were read from the log."""
        self.seconds = 0.0

    @property
    def outputs(self) -> list[Out | None]:
        """The outputs in the order of the goals. None where a run has no output."""
        return [
            result.output_or_none if isinstance(result, RunResult) else None
            for result in self.results
        ]

    @property
    def statuses(self) -> Counter[str]:
        """Number of runs for each status. Runs that could not be driven count as `failed`."""
        return Counter(map(_status, self.results))

    @property
    def usage(self) -> Usage:
        """Tokens and dollars of all runs."""
        total = Usage()
        for result in self.results:
            if isinstance(result, RunResult):
                total += result.usage
        return total

    @property
    def summary(self) -> str:
        """One line for display: the number of runs, their statuses, tokens, cost and duration."""
        ways = ", ".join([f"{count} {status}" for status, count in sorted(self.statuses.items())])
        ways += f" ({self.kept} of them earlier)" if self.kept else ""
        usage = self.usage
        cost = f", {dollars(usage.usd)}" if usage.usd != 0 else ""
        spent = f"{usage.tokens:,} tokens{cost}; {self.seconds:.1f} s"
        return f"{times(len(self.goals), 'goal')}: {ways}; {spent}"

    def __repr__(self) -> str:
        return f"Batch({self.name!r}: {self.summary})"


async def run_batch(
    agent: "Agent[Any, Out]",
    goals: Iterable[Prompt],
    name: str,
    concurrency: int,
    usd: float | None,
    progress: Callable[[BatchState], None] | str | None,
    options: Mapping[str, Any],
) -> Batch[Out]:
    """Works on the goals. See `Agent.map`."""
    _check_arguments(goals, agent, name, concurrency, options)
    prompts = list(goals)
    batch = Batch[Out](name or f"batch-{urandom(4).hex()}", tuple(map(_text, prompts)))
    started = monotonic()
    with _progress_display(progress, len(prompts)) as tell:
        purse = None if usd is None else Purse(usd, await _spent(agent, batch.run_ids))
        worker = _Work(agent, batch, prompts, purse, tell, options)
        # The workers share one iterator, so each takes the next goal when it is free.
        tasks = [asyncio.create_task(worker()) for _ in range(min(concurrency, len(prompts)))]
        try:
            await asyncio.gather(*tasks)  # not a TaskGroup: the first error is raised unwrapped
        except asyncio.CancelledError:
            if progress == "terminal":
                _tell_interruption(worker.state, name)
            raise
        finally:
            for task in tasks:
                # On cancellation or a fault of the whole batch, no run stays behind.
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    batch.seconds = monotonic() - started
    return batch


def _check_arguments(
    goals: Iterable[Prompt],
    agent: "Agent[Any, Any]",
    name: str,
    concurrency: int,
    options: Mapping[str, Any],
) -> None:
    # Each letter would become a goal with its own run.
    if isinstance(goals, str):
        raise ConfigError(f"is a list: write [{goals!r}]", path="goals")
    if concurrency < 1:
        raise ConfigError(f"runs at once are 1 or more, not {concurrency!r}", path="concurrency")
    if name and agent.opened_log is None:
        raise ConfigError('a batch with a name needs a log: pass log="…" to the agent', path="name")
    unknown = set(options) - _KEPT
    if unknown:
        raise TypeError(f"map takes no {min(unknown)!r}; it takes {', '.join(sorted(_KEPT))}")


def _tell_interruption(state: BatchState, name: str) -> None:
    """Prints the progress of a cancelled batch and how to continue it."""
    go_on = f"the same call with name={name!r} goes on" if name else "give a name to go on with"
    sys.stderr.write(
        f"interrupted: {state.done} of {times(state.total, 'run')} ended, "
        f"what was done is kept; {go_on}\n"
    )


async def _spent(agent: "Agent[Any, Any]", runs: Iterable[str]) -> float:
    """Returns the dollars that these runs and their children cost, in all activations and calls."""
    log = agent.opened_log
    if log is None:
        return 0.0
    spent = 0.0
    for run in runs:
        try:
            records = await log.read(run)
        except UnknownRun:
            continue
        # Events count, not the state: the state lacks unfinished child runs and rewound steps.
        paid = [record.event for record in records if isinstance(record.event, Replied | Charged)]
        children = [row.run for row in await log.rows(parent=run, limit=0)]
        spent += sum([event.usage.priced_usd for event in paid]) + await _spent(agent, children)
    return spent


class _Work:
    """State that a batch's workers share. Each worker takes the next goal until none is left."""

    def __init__(
        self,
        agent: "Agent[Any, Any]",
        batch: Batch[Any],
        prompts: list[Prompt],
        purse: Purse | None,
        tell: Callable[[BatchState], None],
        options: Mapping[str, Any],
    ) -> None:
        self.agent, self.batch, self.tell, self.options = agent, batch, tell, options
        self.purse, self.left = purse, iter(enumerate(prompts))
        self.state = BatchState(0, len(prompts))

    @cached_property
    def model(self) -> str:
        """The name of the agent's model, as runs record it."""
        agent = self.agent
        where = {"base_url": agent.base_url} if agent.base_url else {}
        return resolve(agent.model, **where).name

    async def __call__(self) -> None:
        # Needs no lock: a worker takes a goal without awaiting.
        for number, prompt in self.left:
            result = await self._contained(number, prompt)
            if result is None:
                continue
            self.batch.results[number] = result
            usage = self.state.usage
            if isinstance(result, RunResult):
                usage += result.usage
            done = self.state.done + 1
            self.state = replace(self.state, done=done, usage=usage, last=_status(result))
            with contained():
                self.tell(self.state)

    async def _contained(self, number: int, prompt: Prompt) -> RunResult[Any] | Failure | None:
        """Returns the outcome of one goal. Errors of foreign code in its run end no other goal."""
        try:
            with contained():
                return await in_own_task(self._one(number, prompt))
        except (ConfigError, ExceptionGroup):  # the same fault for every goal
            raise
        except Exception as error:  # noqa: BLE001 - a model's code may raise anything
            return Failure(self.batch.run_ids[number], error)

    async def _one(self, number: int, prompt: Prompt) -> RunResult[Any] | None:
        """Returns the result of a goal, or None if the budget does not allow it to begin."""
        run, options = self.batch.run_ids[number], self.options
        earlier = await self._earlier(run)
        settled = earlier is not None and not _goes_on(earlier)
        if earlier is not None and settled:
            self._same_agent(earlier)
            if earlier.status != "waiting":
                self.batch.kept += 1
                return earlier
        if self.purse is not None and self.purse.empty:
            return earlier
        principal = options.get("principal")
        activation = Activation(self.agent, options.get("deps"), principal, None, purse=self.purse)
        if settled:
            # Applies decisions made since the last call. Without one the run keeps waiting.
            await activation.advance(run)
            result = await self.agent.result(run)
            self.batch.kept += result.status == "waiting"
            return result
        if earlier is None:
            rest = {key: options[key] for key in options if key not in ("deps", "principal")}
            return await activation.run(prompt, run_id=run, **rest)
        # The goal, session and data are in the run's log. Only live objects are passed.
        return await activation.resume(run)

    def _same_agent(self, earlier: RunResult[Any]) -> None:
        """Raises `ConfigError` if the earlier run belongs to another agent or model."""
        started = earlier.state.started
        if started is None:
            return
        # The text of an instructions function may differ between runs.
        written = callable(self.agent.instructions)
        instructions = started.settings.get("instructions", "")
        now = self.agent.noted.get("instructions", "")
        other = ""
        if started.model != self.model:
            other = f"the model {started.model!r}, not {self.model!r}"
        elif started.agent != self.agent.name:
            other = f"the agent {started.agent!r}, not {self.agent.name!r}"
        elif not written and instructions != now:
            other = "other instructions"
        if other:
            raise ConfigError(
                f"{self.batch.name!r} has runs of {other}: take another name", path="name"
            )

    async def _earlier(self, run: str) -> RunResult[Any] | None:
        if self.agent.opened_log is None:
            return None
        try:
            return await self.agent.result(run)
        except UnknownRun:
            return None


def run_ids(batch: str, goals: Sequence[str]) -> list[str]:
    """Returns the run ids of a batch's goals. A goal keeps its id when its position changes."""
    occurrences = Counter[str]()
    ids: list[str] = []
    for goal in goals:
        # Equal goals get separate runs. Their ids do not depend on other goals.
        occurrences[goal] += 1
        identity = f"{batch}\0{occurrences[goal]}\0{goal}".encode("utf-8", "surrogatepass")
        ids.append(f"{batch}-{blake2b(identity, digest_size=8).hexdigest()}")
    return ids


def _goes_on(earlier: RunResult[Any]) -> bool:
    """Returns True if a run of an earlier call is continued."""
    if earlier.status == "waiting":
        return earlier.stop_reason == SPENT
    return earlier.status in _AGAIN or earlier.stop_reason in RESUMABLE


def _text(prompt: Prompt) -> str:
    return prompted(prompt).text


def _status(result: RunResult[Any] | Failure | None) -> str:
    if result is None:
        return "not begun"
    return "failed" if isinstance(result, Failure) else result.status


@contextmanager
def _progress_display(
    progress: "Callable[[BatchState], None] | str | None", total: int
) -> Generator[Callable[[BatchState], None]]:
    """Yields the function that receives progress: the caller's own, or a bar at the terminal."""
    if progress is None:
        yield lambda _: None
        return
    if not isinstance(progress, str):
        yield progress
        return
    if progress != "terminal":
        raise ConfigError(
            f"progress is a function or 'terminal', not {progress!r}", path="progress"
        )

    # Loaded only when a bar is drawn.
    console, bars = import_module("rich.console"), import_module("rich.progress")
    with bars.Progress(console=console.Console(stderr=True)) as bar:
        task = bar.add_task(f"0 of {times(total, 'run')}", total=total)

        def draw(state: BatchState) -> None:
            cost = dollars(state.usage.usd) if state.usage.usd else f"{state.usage.tokens:,} tokens"
            progress_text = f"{state.done} of {times(total, 'run')}, {cost}"
            bar.update(task, completed=state.done, description=progress_text)

        yield draw
