"""The model calls of stored runs in the order of time, and those that budgets would refuse.

A refused call ends its run: its later calls are not made and cost nothing. The log holds no
estimate of a coming call, so a refusal may come one call earlier than here. Only the runs
of the test are summed.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from taofold.backtest.findings import RuleFindings
from taofold.core import events as e
from taofold.log.log import Log, RunRow, Spending
from taofold.log.spending import cost_of, scopes
from taofold.policy.budgets import Budget, BudgetUse, Period, period_around, uses
from taofold.runtime.budgets import is_used_up, read_lift

REFUSED: Final = "model calls refused"
_MOST: Final = 200_000
"""Model calls that are held."""
_TURN: Final = 500


class Spender:
    """A run whose model calls are charged to its scopes."""

    def __init__(self, run: str, started: e.RunStarted, at: int) -> None:
        self.run, self._agent, self._tags = run, started.agent, started.tags
        self.order = at, run
        """Its place among runs with calls in the same millisecond."""
        self._principal = started.principal.id
        self._row = RunRow(run, agent=self._agent, principal=self._principal, tags=self._tags)

    def scopes(self, agent: str) -> list[str]:
        """Returns what it is charged to while `agent` is active; "" = its first agent."""
        return scopes(self._row, agent)

    def uses(self, budgets: Sequence[Budget], agent: str, at: int) -> list[BudgetUse]:
        """Returns those of the budgets that concern it while `agent` is active, at a time."""
        return uses(budgets, self._principal, agent or self._agent, self._tags, at)


class Spent(NamedTuple):
    """One consumption of a run. `start` is -1 for one without a reply, which no budget refuses."""

    start: int
    at: int
    seq: int
    cost: Spending
    agent: str
    """The active agent; "" is the one with which the run began."""
    spender: Spender
    budgets: Sequence[Budget]


class StoredSpending:
    """Collects the consumption of runs."""

    def __init__(self) -> None:
        self._spent: list[Spent] = []
        self.truncated = False
        """True if there are more calls than are held: then no budget is tested."""

    def add(self, spent: Sequence[Spent]) -> None:
        """Adds the consumption of a run."""
        self.truncated = self.truncated or len(self._spent) + len(spent) > _MOST
        if self.truncated:
            self._spent.clear()
        else:
            self._spent += spent

    async def refusals(self, log: Log) -> RuleFindings:
        """Returns the model calls that the budgets would have refused.

        Args:
            log: The log, for the lifts that were granted.
        """
        sums, lifts = _Sums(self._periods()), dict[str, int]()
        refused: dict[Spender, tuple[Budget, int, int]] = {}
        """Ended runs: the budget, the event of the first refused call, and the number of them."""
        for number, (at, is_check, spent) in enumerate(self._ordered()):
            if number % _TURN == 0:
                await asyncio.sleep(0)  # lets a server answer other requests
            spender = spent.spender
            if spender in refused:
                budget, first, count = refused[spender]
                refused[spender] = budget, first, count + is_check
            elif not is_check:
                sums.charge(spent)
            else:
                for use in spender.uses(spent.budgets, spent.agent, at):
                    if await _is_over(log, sums, use, spent, lifts):
                        refused[spender] = use.budget, spent.seq, 1
                        break
        findings = RuleFindings()
        for spender, (budget, first, count) in refused.items():
            reason = f"used up for the {budget.period}, per {budget.per}"
            one = RuleFindings()
            place = f"{spender.run}:{first}"
            one.count(f"budgets.{budget.name}", REFUSED, place, reason, count)
            findings.add(one)
        return findings

    def _periods(self) -> set[Period]:
        return {budget.period for spent in self._spent for budget in spent.budgets}

    def _ordered(self) -> list[tuple[int, bool, Spent]]:
        """Returns the checks before calls and the charges behind them, in the order of time."""
        checks = [(spent.start, True, spent) for spent in self._spent if spent.start >= 0]
        charges = [(spent.at, False, spent) for spent in self._spent]

        def place(item: tuple[int, bool, Spent]) -> tuple[int, tuple[int, str], int, bool]:
            at, is_check, spent = item
            return at, spent.spender.order, spent.seq, not is_check

        return sorted([*checks, *charges], key=place)


async def _is_over(
    log: Log, sums: "_Sums", use: BudgetUse, spent: Spent, lifts: dict[str, int]
) -> bool:
    """Returns whether the budget, with its lift if there was one, forbids the call."""
    if not sums.exceeded(use, spent, 1):
        return False
    if use.lift not in lifts:
        lift = await read_lift(log, use)
        lifts[use.lift] = -1 if lift is None else lift.at
    is_lifted = 0 <= lifts[use.lift] <= spent.start
    return not is_lifted or sums.exceeded(use, spent, 2)


class _Sums:
    """The sums by period, its start and scope."""

    def __init__(self, periods: set[Period]) -> None:
        self._periods = periods
        self._sums: dict[tuple[str, int, str], Spending] = {}

    def charge(self, spent: Spent) -> None:
        for period in self._periods:
            start, _ = period_around(period, spent.at)
            for scope in spent.spender.scopes(spent.agent):
                key = period, start, scope
                self._sums[key] = self._sums.get(key, Spending()) + spent.cost

    def exceeded(self, use: BudgetUse, spent: Spent, times: int) -> bool:
        """Returns whether the budget was used up before the call, or its price is unknown."""
        if use.budget.usd is not None and spent.cost.unpriced:
            return True
        sums = self._sums.get((use.budget.period, use.start, use.scope), Spending())
        return is_used_up(use.budget, sums, times)


def spent_of(record: e.Record, spender: Spender, budgets: Sequence[Budget]) -> Spent | None:
    """Returns the consumption that a record holds, or None."""
    event = record.event
    if not isinstance(event, e.Charged | e.Replied):
        return None
    start = -1
    if isinstance(event, e.Replied) and not event.cached:
        start = max(0, record.at - round(max(0.0, event.ms)))
    cost = cost_of(record) or Spending()
    return Spent(start, record.at, record.seq, cost, event.agent, spender, budgets)
