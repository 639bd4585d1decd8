"""Reads stored runs as a stream: their rows, their records, and the calls in them.

Only the calls of open steps are held, never a whole run. Knows nothing about policies.
"""

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

from taofold.core import events as e
from taofold.core.values import RESERVED, Action, Observation
from taofold.log.log import Log, RunRow

_PAGE: Final = 500
"""Records and rows that are read at once."""


FORK_TAG: Final = "taofold.recheck"
"""The tag of forks that a recheck made, and of their child runs."""


PERIOD: Final = re.compile(r"all|[0-9]{1,6}[mhdw]")
"""A period: `all`, or a number and its unit, such as 30d."""
_UNIT_MS: Final = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def period_start(period: str, now: int) -> int:
    """Returns the start of a `PERIOD` that ends now, both in milliseconds since the epoch.

    >>> period_start("2h", 10_000_000), period_start("all", 10_000_000)
    (2800000, 0)
    """
    if period == "all":
        return 0
    return max(0, now - int(period[:-1]) * _UNIT_MS[period[-1]])


def is_trial(row: RunRow) -> bool:
    """Returns whether a recheck made the run: it shows a policy or an agent under test."""
    return FORK_TAG in row.tags


async def rows_since(log: Log, since: int = 0) -> AsyncIterator[RunRow]:
    """Yields the rows of runs created at `since` (milliseconds since the epoch) or later."""
    before = 0
    # An imported run is older than its place: no row ends the search.
    while rows := await log.rows(before=before, limit=_PAGE):
        for row in rows:
            if row.created_at >= since:
                yield row
        before = rows[-1].place


async def records_of(log: Log, run: str) -> AsyncIterator[e.Record]:
    """Yields the records of a run, a page at a time."""
    after = -1
    while page := await log.read(run, after=after, limit=_PAGE):
        for record in page:
            yield record
        after = page[-1].seq


@dataclass(slots=True)
class StoredCall:
    """One proposed call of a run, and what was recorded about it.

    `decided` is the policy's last decision before the call started; `resolved` the answer to it.
    Their times are in milliseconds since the epoch.
    """

    seq: int
    action: Action
    critical: bool
    decided: e.Decided | None = None
    resolved: e.Resolved | None = None
    started: bool = False
    observation: Observation | None = None
    hooked: bool = False
    asked_at: int = 0
    answered_at: int = 0

    @property
    def is_local(self) -> bool:
        """True if the strategy answered it: no policy rules on it."""
        seen = self.observation
        return self.decided is None and not self.started and seen is not None and not seen.refused


class StoredCallReader:
    """Collects the calls of one run from its records, which are fed in order."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, int], StoredCall] = {}

    def feed(self, record: e.Record) -> Iterator[StoredCall]:
        """Yields the calls that this record completes."""
        match record.event:
            case e.Proposed(key=key, thought=thought, actions=actions):
                # A rewound step was proposed, too.
                yield from self._left(key)
                critical = thought.critical and thought.type == "exception"
                for index, action in enumerate(actions):
                    if action.tool not in RESERVED:
                        self._open[key, index] = StoredCall(record.seq, action, critical)
            case e.Resolved(key=key, index=index) as event:
                call = self._open.get((key, index))
                if call is not None and not call.started:
                    call.resolved, call.answered_at = event, record.at
            case e.Decided(key=key, index=index) as event:
                call = self._open.get((key, index))
                # A question after the start is the tool's own, or about a lost call.
                if call is not None and not call.started and event.request is None:
                    call.decided, call.resolved, call.asked_at = event, None, record.at
            case e.Started(key=key, index=index):
                if (call := self._open.get((key, index))) is not None:
                    call.started = True
            case e.Observed(key=key, index=index, observation=observation, hooks=hooks):
                if (call := self._open.pop((key, index), None)) is not None:
                    call.observation, call.hooked = observation, bool(hooks)
                    yield call
            case _:
                pass

    @property
    def waiting(self) -> int:
        """Number of calls that are held: those without an observation."""
        return len(self._open)

    def rest(self) -> Iterator[StoredCall]:
        """Yields the calls that have no observation."""
        yield from self._open.values()
        self._open = {}

    def _left(self, key: str) -> Iterator[StoredCall]:
        for place in [place for place in self._open if place[0] == key]:
            yield self._open.pop(place)
