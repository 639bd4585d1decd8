"""Replays stored runs with this release and these agents, and groups the first differences.

A replay derives each event again from the recorded replies and results. It calls no model and no
tool, and `StoredRun` lets it write nothing. One run is held at a time.
"""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from taofold.agent.activation import Activation
from taofold.backtest.causes import Cause, RunDifference, difference_of, strategy_differs
from taofold.backtest.stored_agents import StoredAgents
from taofold.core import events as e
from taofold.core.errors import ConfigError, LogError, ReplayDiverged, TaofoldError
from taofold.core.state import ending, live
from taofold.core.text import line
from taofold.log.log import Log, RunRow, WrappedLog
from taofold.runtime.endings import failed

EXAMPLES: Final = 5
"""Runs that a group names."""


@dataclass(frozen=True, slots=True)
class CheckedRun:
    """The result of one replay.

    Args:
        run: The run.
        steps: Number of its recorded steps.
        events: Number of its events.
        difference: The first difference; None if there is none.
        unchecked: The reason why the run cannot be replayed; "" if it was.
        at: Number of the last event before the difference.
        forked: True if the run is a fork of another one.
    """

    run: str
    steps: int = 0
    events: int = 0
    difference: RunDifference | None = None
    unchecked: str = ""
    at: int = -1
    forked: bool = False


@dataclass(slots=True)
class DifferenceGroup:
    """Runs with the same kind of first difference.

    Args:
        runs: Number of runs.
        examples: Some of them.
        first: The difference of the newest run.
    """

    first: RunDifference
    runs: int = 0
    examples: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class RecheckReport:
    """The counts of a recheck.

    Args:
        runs: Number of runs that were replayed.
        steps: Number of their steps.
        events: Number of their events.
        groups: The first differences by cause and kind.
        unchecked: Runs that could not be replayed, by reason.
    """

    runs: int = 0
    steps: int = 0
    events: int = 0
    groups: dict[tuple[Cause, str], DifferenceGroup] = field(
        default_factory=dict[tuple[Cause, str], DifferenceGroup]
    )
    unchecked: Counter[str] = field(default_factory=Counter[str])

    @property
    def differing(self) -> int:
        """Number of runs with a difference."""
        return sum([group.runs for group in self.groups.values()])

    @property
    def causes(self) -> Mapping[Cause, int]:
        """Number of runs by cause."""
        counts = Counter[Cause]()
        for (cause, _), group in self.groups.items():
            counts[cause] += group.runs
        return counts

    def add(self, checked: CheckedRun) -> None:
        """Counts a run."""
        if checked.unchecked:
            self.unchecked[checked.unchecked] += 1
            return
        self.runs += 1
        self.steps += checked.steps
        self.events += checked.events
        difference = checked.difference
        if difference is None:
            return
        key = difference.cause, difference.what
        group = self.groups.setdefault(key, DifferenceGroup(difference))
        group.runs += 1
        if len(group.examples) < EXAMPLES:
            group.examples.append(checked.run)

    def as_json(self) -> dict[str, Any]:
        """Returns the report as JSON."""
        return {
            "runs": self.runs,
            "identical": self.runs - self.differing,
            "different": self.differing,
            "steps": self.steps,
            "events": self.events,
            "causes": dict(self.causes),
            "groups": [
                {
                    "cause": cause,
                    "what": what,
                    "runs": group.runs,
                    "examples": group.examples,
                    "key": group.first.key,
                    "recorded": group.first.recorded,
                    "now": group.first.now,
                }
                for (cause, what), group in self.ordered()
            ],
            "unchecked": dict(self.unchecked),
        }

    def ordered(self) -> list[tuple[tuple[Cause, str], DifferenceGroup]]:
        """Returns the groups, the largest first."""
        return sorted(self.groups.items(), key=lambda item: (-item[1].runs, item[0]))


class StoredRun(WrappedLog):
    """A log in which one run can be read, and nothing can be written.

    Args:
        log: The log.
        run: The run.
        records: Its records, which are read once.
    """

    def __init__(self, log: Log, run: str, records: list[e.Record]) -> None:
        super().__init__(log)
        self._run, self._records = run, records

    async def read(self, run: str, *, after: int = -1, limit: int = 0) -> list[e.Record]:
        """Returns records of the run."""
        if run != self._run:
            return await super().read(run, after=after, limit=limit)
        records = self._records if after < 0 else [r for r in self._records if r.seq > after]
        return records[:limit] if limit else records

    async def create(self, row: RunRow, **named: Any) -> NoReturn:
        """Raises `LogError`."""
        raise _read_only()

    async def claim(self, run: str, owner: str, **named: Any) -> NoReturn:
        """Raises `LogError`."""
        raise _read_only()

    async def append(self, run: str, epoch: int, records: Any, **named: Any) -> NoReturn:
        """Raises `LogError`."""
        raise _read_only()

    async def post(self, run: str, signal: Any) -> NoReturn:
        """Raises `LogError`."""
        raise _read_only()

    async def delete(self, run: str) -> NoReturn:
        """Raises `LogError`."""
        raise _read_only()


def _read_only() -> LogError:
    return LogError("a replay writes nothing")


async def recheck(
    log: Log, rows: AsyncIterator[RunRow], agents: StoredAgents
) -> AsyncIterator[CheckedRun]:
    """Replays the runs `rows`, one after the other.

    Args:
        log: The log that holds them. It is only read.
        rows: The runs.
        agents: Makes their agents.

    Yields:
        The result of each run.
    """
    async for row in rows:
        yield await recheck_run(log, row.run, agents)


async def recheck_run(log: Log, run: str, agents: StoredAgents) -> CheckedRun:
    """Replays one run and returns the first difference, or the reason why it cannot be replayed."""
    try:
        records = await log.read(run)
    except (LogError, LookupError):
        # Without the error's text, which names the run: reasons are counted.
        return CheckedRun(run, unchecked="its records cannot be read; see `runs log RUN`")
    started = records[0].event if records else None
    if not isinstance(started, e.RunStarted):
        return CheckedRun(run, unchecked="its log has no start")
    if started.imported is not None and not _has_replies(records):
        return CheckedRun(run, unchecked="it was imported without the replies of its model")
    try:
        agent = (await agents.of(started)).agent
    except ConfigError as error:
        return CheckedRun(run, unchecked=str(error))
    # A replay derives only these.
    counted = live(records)
    steps = sum([isinstance(record.event, e.Proposed) for record in counted])
    difference = strategy_differs(started, agent) or await _replayed(log, run, records, agent)
    if difference is not None and difference.in_request and _was_reworded(counted):
        return CheckedRun(run, unchecked="its prompt changed while it ran, so none fits all of it")
    at = -1 if difference is None else _before(counted, difference.key)
    forked = any([isinstance(record.event, e.Forked) for record in records])
    return CheckedRun(run, steps, len(records), difference, at=at, forked=forked)


async def _replayed(
    log: Log, run: str, records: list[e.Record], agent: Any
) -> RunDifference | None:
    try:
        await Activation(agent, None, None, None, StoredRun(log, run, records)).replay(run)
    except ReplayDiverged as error:
        return difference_of(error, live(records), agent)
    except Exception as error:  # noqa: BLE001 - code of a strategy, an output type or a tool's key
        return _raised(error, records, agent)
    return None


def _raised(error: Exception, records: list[e.Record], agent: Any) -> RunDifference | None:
    """Returns the difference of a replay that raised; None if the run ended by the same error."""
    end, now = ending(records), failed(error, agent.redactor)
    if end is not None and (end.status, end.error) == (now.status, now.error):
        return None
    recorded = "no error" if end is None else end.error or end.stop_reason
    kind = "refused" if isinstance(error, TaofoldError) else type(error).__name__
    return RunDifference(
        "strategy", f"the replay fails: {kind}", "", line(recorded), line(now.error)
    )


def _was_reworded(records: list[e.Record]) -> bool:
    return any(isinstance(record.event, e.PromptChanged) for record in records)


def _has_replies(records: list[e.Record]) -> bool:
    return any(isinstance(record.event, e.Replied) for record in records)


def _before(records: list[e.Record], key: str) -> int:
    """Returns the number of the last record before the effect at `key`."""
    for record in records:
        if key and getattr(record.event, "key", None) == key:
            return max(0, record.seq - 1)
    return 0
