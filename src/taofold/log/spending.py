"""The spending of a log: the consumption of runs, by hour and by scope, in whole numbers.

A scope is a text: `all`, `principal:ID`, `agent:NAME` or `tag:NAME=VALUE`. Every reply of a run,
and every consumption without a reply (`Charged`), is charged to all scopes of the run, in the
transaction that appends it, so totals are exact for any number of processes. Records that
`Log.create` registers with a run are history (a fork's copies, an import) and cost nothing. Totals
stay when a run is deleted. Knows nothing about budgets.
"""

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Final, NamedTuple

from taofold.core.events import Charged, Record, Replied
from taofold.core.tags import tag_text
from taofold.log.log import RunRow, Spending

HOUR_MS: Final = 3_600_000
"""Milliseconds of an hour."""
NANO: Final = 1_000_000_000
"""Units of a dollar. The price of a token at 0.001 $ per million is one unit."""
ALL: Final = "all"
"""The scope of every run."""
# A provider may report any number. Sums of bounded charges stay far below 64 bits.
_MOST_TOKENS: Final = 10**12
_MOST_NANO: Final = 10**15


class Charge(NamedTuple):
    """The cost of a run in one hour (hours since the epoch, UTC) while one agent was active."""

    hour: int
    tokens: int
    unpriced: int
    nano_usd: int
    agent: str = ""
    """The agent, if the run was handed over to it; "" is the one with which the run began."""


def nano_usd(usd: float) -> int:
    """Returns dollars in billionths, rounded up.

    >>> nano_usd(0.25), nano_usd(1e-12)
    (250000000, 1)
    """
    return ceil(min(usd * NANO, _MOST_NANO))


def charges(records: Sequence[Record]) -> list[Charge]:
    """Returns the cost of the replies and charges among the records, by hour and agent."""
    sums: dict[tuple[int, str], Spending] = {}
    for record in records:
        if cost := cost_of(record):
            key = record.at // HOUR_MS, agent_of(record)
            sums[key] = sums.get(key, Spending()) + cost
    return [
        Charge(hour, cost.tokens, cost.unpriced, cost.nano_usd, agent)
        for (hour, agent), cost in sums.items()
    ]


def agent_of(record: Record) -> str:
    """Returns the agent that a reply or charge is charged to; "" = the run's first one."""
    return record.event.agent if isinstance(record.event, Replied | Charged) else ""


def cost_of(record: Record) -> Spending | None:
    """Returns the cost of a reply or charge; None for other records and if there is none."""
    if not isinstance(record.event, Replied | Charged):
        return None
    usage = record.event.usage
    tokens = min(usage.tokens, _MOST_TOKENS)
    cost = Spending(tokens, tokens if usage.usd is None else 0, nano_usd(usage.priced_usd))
    return cost if cost != Spending() else None


def scopes(row: RunRow, agent: str = "") -> list[str]:
    """Returns the scopes that a run is charged to.

    Args:
        row: The row of the run.
        agent: The active agent, if it is not the one with which the run began.

    >>> scopes(RunRow("r", agent="a", principal="ann", tags={"team": "x"}))
    ['all', 'principal:ann', 'agent:a', 'tag:team=x']
    """
    tags = [f"tag:{tag_text(name, value)}" for name, value in row.tags.items()]
    return [ALL, f"principal:{row.principal}", f"agent:{agent or row.agent}", *tags]


def total(parts: Iterable[Spending]) -> Spending:
    """Returns the sum."""
    return sum(parts, Spending())
