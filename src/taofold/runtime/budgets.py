"""Budgets while runs work: the check before each model call, warnings, and lifts.

The sums are read from the log after the run's own events are saved, so they include every reply
that any process has recorded. Calls in flight are in no sum yet: a budget can be exceeded by them
and by nothing else. A lift is a fact in the log's journal: it is granted once for a budget, a scope
and a period, and allows the amount once more. Knows nothing about providers.
"""

import re
import shlex
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import msgspec

from taofold.clocks import clock
from taofold.core import events as e
from taofold.core.errors import ConfigError, Conflict, LogError, Refused
from taofold.core.json_values import is_object
from taofold.core.values import Principal, Value
from taofold.log.journal import Journal
from taofold.log.log import Log, Spending, Window
from taofold.log.open import journal_beside
from taofold.log.run_store import Store
from taofold.log.spending import HOUR_MS, nano_usd
from taofold.policy import Policy
from taofold.policy.budgets import Budget, BudgetUse, period_around, uses
from taofold.policy.redaction import Redactor
from taofold.runtime.setup import Setup

NAMES_AGENT: Final = ("cli", "python")
"""The keys of `RunStarted.settings` under which `agent` names a file or an object of a module."""
_FILE_OR_CODE: Final = re.compile(r"(?!cmd:).*(\.ya?ml|:\w+)")
WARNING: Final = "budget"
"""The kind of the note that a budget is nearly used up."""


class Lift(Value, frozen=True):
    """The decision that a scope may spend a budget's amount once more in a period."""

    by: str
    at: int
    reason: str = ""


_LIFT: Final = msgspec.json.Decoder(Lift)


class BudgetRow(Value, frozen=True):
    """The use of a budget by one scope in the present period, in lists. Amounts are per period."""

    name: str
    scope: str
    per: str
    period: str
    spent_usd: float
    spent_tokens: int
    unpriced_tokens: int
    """Tokens of models without a known price, which no amount in dollars includes."""
    usd: float | None
    tokens: int | None
    share: float
    """The larger of both shares of the amounts, with a lift included."""
    start: int
    until: int
    """The end of the period, in milliseconds since the epoch."""
    lifted: Lift | None
    warn: float = 0.8
    """The share from which runs record a warning."""


class _Amount(NamedTuple):
    """One amount of a budget; dollars in billionths."""

    unit: str
    bound: int
    spent: int
    needed: int

    @property
    def exceeded(self) -> bool:
        return self.spent >= self.bound or self.spent + self.needed > self.bound

    def text(self, number: int) -> str:
        return f"${number / 1e9:,.4f}" if self.unit == "usd" else f"{number:,} tokens"


def _amounts(
    budget: Budget, spent: Spending, times: int, tokens: int = 0, nano: int = 0
) -> list[_Amount]:
    amounts: list[_Amount] = []
    if budget.usd is not None:
        amounts.append(_Amount("usd", times * nano_usd(budget.usd), spent.nano_usd, nano))
    if budget.tokens is not None:
        amounts.append(_Amount("tokens", times * budget.tokens, spent.tokens, tokens))
    return amounts


def _exceeded(amounts: Sequence[_Amount]) -> _Amount | None:
    return next((amount for amount in amounts if amount.exceeded), None)


def is_used_up(budget: Budget, spent: Spending, times: int = 1) -> bool:
    """Returns whether the spending has reached `times` times an amount of the budget."""
    return _exceeded(_amounts(budget, spent, times)) is not None


def _share(amounts: Sequence[_Amount]) -> float:
    return max((each.spent / each.bound if each.bound else 1.0) for each in amounts)


class RunBudgets:
    """The budgets of one activation of a run."""

    def __init__(self, setup: Setup, store: Store) -> None:
        self._setup, self._store = setup, store
        self.warned: set[tuple[str, str, int]] = set()
        """Budgets with a recorded warning, each with its scope and the start of the period."""
        self._lifted: set[str] = set()
        """Known lifts. A lift is never withdrawn."""

    def change_agent(self, setup: Setup) -> None:
        """Applies the budgets of another agent's setup."""
        self._setup = setup

    async def check(self, key: str, tokens: float, usd: float | None) -> list[e.Event]:
        """Returns the events that precede a model call: warnings, or a limit that forbids it.

        Args:
            key: The place of the call.
            tokens: A lower estimate of its tokens.
            usd: An upper bound of its price; None if a price is unknown.
        """
        store = self._store
        started, log = store.state.started, store.log
        if started is None or log is None:
            return []
        # A record's time never runs backwards within a run: the charge falls into this period.
        at = max(self._setup.now(), store.state.at)
        used = uses(
            self._setup.policy.budgets,
            started.principal.id,
            self._setup.handed_to or started.agent,
            started.tags,
            at,
        )
        if not used:
            return []
        events: list[e.Event] = []
        for use, spent in zip(used, await _spent(log, used), strict=True):
            hit = await self._hit(log, key, use, spent, tokens, usd)
            if hit is not None:
                return [*events, hit]
            warning = self._warning(key, use, spent)
            if warning is not None:
                events.append(warning)
        return events

    async def _hit(
        self, log: Log, key: str, use: BudgetUse, spent: Spending, tokens: float, usd: float | None
    ) -> e.LimitHit | None:
        """Returns the event of a budget that forbids the call."""
        budget = use.budget
        if usd is None and budget.usd is not None:
            why = f"budget {budget.name!r} is in dollars, and the price of this call is unknown"
            return _limit_hit(key, budget, why)
        nano = nano_usd(usd or 0.0)
        over = _exceeded(_amounts(budget, spent, 1, round(tokens), nano))
        lifted = over is not None and await self._is_lifted(log, use)
        if lifted:
            over = _exceeded(_amounts(budget, spent, 2, round(tokens), nano))
        if over is None:
            return None
        bound = "may need up to" if over.unit == "usd" else "needs about"
        needed = f", and the next call {bound} {over.text(over.needed)}"
        why = (
            f"budget {budget.name!r} allows {over.text(over.bound)} per {budget.period} for "
            f"{use.scope!r}: {over.text(over.spent)} were spent{needed if over.needed else ''}. "
            f"It is free again at {use.free_at}"
        )
        if not lifted:
            command = ["taofold", "budget", "lift", budget.name]
            command += [use.scope] if use.scope != "all" else []
            command += _agent_option(self._store.state.started)
            why += f"; to allow the amount once more before: {shlex.join(command)}"
        return _limit_hit(key, budget, why)

    async def _is_lifted(self, log: Log, use: BudgetUse) -> bool:
        if use.lift not in self._lifted and await read_lift(log, use) is not None:
            self._lifted.add(use.lift)
        return use.lift in self._lifted

    def _warning(self, key: str, use: BudgetUse, spent: Spending) -> e.Noted | None:
        """Returns the note of a budget whose share has reached its warning, once."""
        times = 2 if use.lift in self._lifted else 1
        share = _share(_amounts(use.budget, spent, times))
        scope = self._setup.redactor.text(use.scope)
        mark = use.budget.name, scope, use.start
        if share < use.budget.warn or mark in self.warned:
            return None
        self.warned.add(mark)
        data = {
            "name": use.budget.name,
            "scope": scope,
            "share": round(share, 4),
            "start": use.start,
            "until": use.end,
        }
        return e.Noted(key=key, kind=WARNING, data=data)


def _agent_option(started: e.RunStarted | None) -> list[str]:
    """Returns the option of `taofold budget` that names the run's agent, whose policy is known.

    It is needed for a budget of the agent. With it, those of the operator are known too.
    """
    for key in NAMES_AGENT:
        named: Any = {} if started is None else started.settings.get(key)
        agent: Any = named.get("agent") if is_object(named) else None
        # Neither the default agent nor the program of a coding agent has budgets of its own.
        if isinstance(agent, str) and _FILE_OR_CODE.fullmatch(agent):
            return ["--agent", agent]
    return []


def _limit_hit(key: str, budget: Budget, why: str) -> e.LimitHit:
    return e.LimitHit(key=key, limit="budget", value=1, budget=budget.name, why=why)


async def _spent(log: Log, used: Sequence[BudgetUse]) -> list[Spending]:
    """Returns the spending of each.

    Raises:
        LogError: The log keeps no totals.
    """
    if getattr(log, "spent", None) is None:
        raise LogError(f"{type(log).__name__} keeps no totals of spending, which budgets need")
    windows = [Window(use.scope, use.start // HOUR_MS, use.end // HOUR_MS) for use in used]
    return await log.spent(windows)


async def never_spent(log: Log, use: BudgetUse) -> bool:
    """Returns whether no run of the scope has ever spent anything: its name may be misspelt."""
    (spent,) = await log.spent([Window(use.scope, 0, use.end // HOUR_MS)])
    return spent == Spending()


async def read_lift(log: Log, use: BudgetUse) -> Lift | None:
    """Returns the lift of a budget for its scope and period, or None."""
    async with _lifts(log) as journal:
        return await _lift_of(journal, use)


@asynccontextmanager
async def _lifts(log: Log) -> AsyncGenerator[Journal | None]:
    """Yields the journal that holds the lifts, or None if the log has none."""
    try:
        journal = journal_beside(log)
    except ConfigError:
        yield None
        return
    try:
        yield journal
    finally:
        await journal.close()


async def _lifted_in(journal: Journal | None, use: BudgetUse) -> set[str]:
    """Returns the names of the lifts of a budget in a period. `use` has no scope."""
    return {row.stream for row in await journal.streams(use.lift)} if journal else set()


async def _lift_of(journal: Journal | None, use: BudgetUse) -> Lift | None:
    facts = await journal.facts(use.lift, limit=1) if journal else []
    return _LIFT.decode(facts[0].body) if facts else None


async def lift(
    log: Log,
    policy: Policy,
    name: str,
    scope: str = "",
    *,
    by: Principal,
    reason: str = "",
    redactor: Redactor | None = None,
    now: int | None = None,
) -> BudgetUse:
    """Allows a scope to spend a budget's amount once more in the present period. Recorded.

    Args:
        log: The log whose spending the budget bounds.
        policy: The policy that has the budget.
        name: The name of the budget.
        scope: The scope, such as "principal:ann". May be omitted for a budget of all runs.
        by: The principal that decides.
        reason: An explanation for the record.
        redactor: Removes secrets from the reason.
        now: The time in milliseconds since the epoch. Default: the clock.

    Raises:
        Refused: There is no such budget or scope, the principal may not lift it, or it was lifted
            in this period already.
    """
    at = clock() if now is None else now
    budget = next((each for each in policy.budgets if each.name == name), None)
    if budget is None:
        names = ", ".join(each.name for each in policy.budgets) or "none"
        raise Refused(f"there is no budget {name!r}; there are: {names}")
    scope = scope or ("all" if budget.per == "all" else "")
    if not budget.bounds(scope):
        raise Refused(
            f"budget {name!r} bounds each {budget.per!r}: name one, as in {budget.prefix}NAME, "
            f"not {scope!r}"
        )
    why = why_not_lift(policy, by, scope)
    if why:
        raise Refused(why)
    use = BudgetUse(budget, scope, *period_around(budget.period, at))
    text = reason if redactor is None else redactor.text(reason)
    journal = journal_beside(log)
    try:
        # The stream's first fact: of two decisions at once, one is refused.
        body = msgspec.json.encode(Lift(by.id, at, text))
        await journal.write(use.lift, -1, [(at, body)], disk=True)
    except Conflict as error:
        raise Refused(
            f"budget {name!r} of {scope!r} was lifted in this period already; it is free again "
            f"at {use.free_at}"
        ) from error
    finally:
        await journal.close()
    return use


def why_not_lift(policy: Policy, by: Principal, scope: str) -> str:
    """Returns why the principal may not lift the amount of a scope, or ""."""
    if by.id.startswith("agent:"):
        return "an agent may not lift a budget"
    why = policy.lacks(by, "budgets")
    if not why and not policy.own_approval and _is_own(scope, by):
        return (
            f"no principal may lift an own budget here (own_approval is false), and {scope!r} may "
            "include own runs: the operator of the log may, with `taofold budget lift`"
        )
    return why


def _is_own(scope: str, by: Principal) -> bool:
    """Returns whether the principal's own runs may spend from the scope's amount.

    The amount of all, of an agent or of a tag is shared: any principal may spend from it. Only the
    operator, who owns the log and the policy, decides about those.
    """
    if scope.startswith("principal:"):
        return scope == f"principal:{by.id}"
    return by.id != Principal().id


async def budget_rows(
    log: Log, policy: Policy, *, principal: str | None = None, now: int | None = None
) -> list[BudgetRow]:
    """Returns the present use of every budget, by scope.

    Args:
        log: The log whose spending the budgets bound.
        policy: The policy that has the budgets.
        principal: Only the amounts of this principal. None: all.
        now: The time in milliseconds since the epoch. Default: the clock.
    """
    at = clock() if now is None else now
    async with _lifts(log) as journal:
        return await _rows(log, policy.budgets, journal, principal, at)


async def _rows(
    log: Log, budgets: Sequence[Budget], journal: Journal | None, principal: str | None, at: int
) -> list[BudgetRow]:
    rows: list[BudgetRow] = []
    for budget in budgets:
        start, end = period_around(budget.period, at)
        hours = start // HOUR_MS, end // HOUR_MS
        if principal is not None:
            if budget.per != "principal":
                continue
            scope = f"principal:{principal}"
            (spent,) = await log.spent([Window(scope, *hours)])
            found = {scope: spent}
        elif budget.per == "all":
            found = {"all": (await log.spent([Window("all", *hours)]))[0]}
        else:
            found = await log.spenders(budget.prefix, *hours)
        # The names of the lifts in one read: few scopes have one.
        without_scope = BudgetUse(budget, "", start, end)
        uses_lifted = await _lifted_in(journal, without_scope)
        if principal is None:
            # A lift before the first reply: its scope has spent nothing.
            for name in sorted(uses_lifted):
                found.setdefault(name.removeprefix(without_scope.lift), Spending())
        for scope, spent in found.items():
            use = BudgetUse(budget, scope, start, end)
            lifted = await _lift_of(journal, use) if use.lift in uses_lifted else None
            times = 1 if lifted is None else 2
            rows.append(
                BudgetRow(
                    budget.name,
                    scope,
                    budget.per,
                    budget.period,
                    spent.usd,
                    spent.tokens,
                    spent.unpriced,
                    None if budget.usd is None else times * budget.usd,
                    None if budget.tokens is None else times * budget.tokens,
                    round(_share(_amounts(budget, spent, times)), 4),
                    start,
                    end,
                    lifted,
                    budget.warn,
                )
            )
    return rows
