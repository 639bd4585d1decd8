"""Budgets: dollars and tokens that many runs share in an hour, a day or a month (UTC). Pure.

A `Budget` bounds the sum over all runs of a scope: all runs, or those of one principal, agent, or
value of a tag. `uses` returns which of them concern a run at a time, `merged` the stricter of two
lists. The sums are in the log (`log.spending`); `runtime.budgets` compares them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any, Final, Literal, NamedTuple, get_args

from taofold.core.errors import ConfigError
from taofold.core.tags import checked_tags, tag_text

Period = Literal["hour", "day", "month"]
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_TAG: Final = "tag:"
_FAR: Final = 253_370_764_799_999
"""The end of the year 9998, in milliseconds: every period around it has an end that exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The dollars or tokens that all runs of a scope may spend in a period.

    A model call that does not fit is refused before it is made, and its run ends as `limited`.

    Args:
        per: "all", "principal", "agent", or "tag:NAME": each value has its own amount. A tag's
            budget does not concern runs without the tag.
        period: "hour", "day" or "month", by the calendar in UTC.
        usd: US dollars in each period; needs known prices of the models. None: unbounded.
        tokens: Input plus output tokens in each period. None: unbounded.
        warn: Share from 0 to 1 from which a run records a warning.
        name: Its name in messages and commands. Default: such as "principal-day".

    Raises:
        ConfigError: A value is unknown or out of range, or neither amount is given.

    Example:
        ```python
        from taofold import Agent, Budget, Policy

        budgets = [Budget(per="principal", usd=5.0), Budget(period="month", usd=200.0)]
        agent = Agent("openai:gpt-5", policy=Policy(budgets=budgets))
        ```
    """

    per: str = "all"
    period: Period = "day"
    usd: float | None = None
    tokens: int | None = None
    warn: float = 0.8
    name: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", f"{self.per}-{self.period}".replace(":", "-"))
        path = f"policy.budgets.{self.name}"
        for name in ("per", "period", "name"):
            value: Any = getattr(self, name)
            if not isinstance(value, str):
                raise ConfigError(f"{name} is a text, not {value!r}", path=path)
        if self.per.startswith(_TAG):
            checked_tags({self.per.removeprefix(_TAG): "x"})
        elif self.per not in ("all", "principal", "agent"):
            raise ConfigError(
                f"per is 'all', 'principal' (a user), 'agent' or 'tag:NAME', not {self.per!r}",
                path=path,
            )
        if self.period not in get_args(Period):
            raise ConfigError(f"period is 'hour', 'day' or 'month', not {self.period!r}", path=path)
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"{self.name!r} is no name of a budget: use letters, digits and '._-'", path=path
            )
        if self.usd is None and self.tokens is None:
            raise ConfigError("a budget needs usd or tokens", path=path)
        for name, most, wanted in (
            ("usd", inf, "must be 0 or more"),
            ("tokens", inf, "must be 0 or more"),
            ("warn", 1, "is a share from 0 to 1, such as 0.8 for 80 %"),
        ):
            value = getattr(self, name)
            # `not 0 <= value` instead of `value < 0`: it rejects NaN as well.
            if value is not None and (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not (0 <= value <= most and value < inf)
            ):
                raise ConfigError(f"{name} {wanted}, not {value!r}", path=path)

    @property
    def identity(self) -> tuple[str, str, str]:
        """Equal for two budgets that bound the same sums under the same name."""
        return self.name, self.per, self.period

    @property
    def prefix(self) -> str:
        """The beginning of the scopes that it bounds, each with its own amount."""
        return f"{self.per}=" if self.per.startswith(_TAG) else f"{self.per}:"

    def scope(self, principal: str, agent: str, tags: Mapping[str, str]) -> str | None:
        """Returns the scope of a run (`log.spending`), or None if it does not concern the run.

        Args:
            principal: The id of the run's principal.
            agent: The name of the run's agent.
            tags: The tags of the run.
        """
        match self.per:
            case "all":
                return "all"
            case "principal":
                return f"principal:{principal}"
            case "agent":
                return f"agent:{agent}"
            case _:
                name = self.per.removeprefix(_TAG)
                return f"{_TAG}{tag_text(name, tags[name])}" if name in tags else None

    def bounds(self, scope: str) -> bool:
        """Returns whether the budget has an amount for this scope.

        Args:
            scope: A scope of the log's spending, such as "principal:ann".
        """
        if self.per == "all":
            return scope == "all"
        name = scope.removeprefix(self.prefix)
        valid = name.isprintable() and name == name.strip() != ""
        return scope.startswith(self.prefix) and valid


class BudgetUse(NamedTuple):
    """A budget with a scope of its own amount and the period around a time, in milliseconds."""

    budget: Budget
    scope: str
    start: int
    end: int

    @property
    def lift(self) -> str:
        """The name of its lift in the log's journal."""
        return f"budget/{'/'.join(self.budget.identity)}/{self.start}/{self.scope}"

    @property
    def free_at(self) -> str:
        """The end of the period as readable text."""
        return utc(self.end)


def utc(milliseconds: int) -> str:
    """Returns a time as readable text."""
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def period_around(period: Period, at: int) -> tuple[int, int]:
    """Returns the start and the end of the UTC calendar period around a time in milliseconds.

    >>> [datetime.fromtimestamp(ms / 1000, UTC).day for ms in period_around("month", 0)]
    [1, 1]
    """
    now = datetime.fromtimestamp(min(max(at, 0), _FAR) / 1000, UTC)
    hour = now.replace(minute=0, second=0, microsecond=0)
    if period == "hour":
        start, end = hour, hour + timedelta(hours=1)
    elif period == "day":
        start = hour.replace(hour=0)
        end = start + timedelta(days=1)
    else:
        start = hour.replace(day=1, hour=0)
        # Every month is shorter than 32 days.
        end = (start + timedelta(days=32)).replace(day=1)
    return round(start.timestamp() * 1000), round(end.timestamp() * 1000)


def uses(
    budgets: Iterable[Budget], principal: str, agent: str, tags: Mapping[str, str], at: int
) -> list[BudgetUse]:
    """Returns the budgets that concern a run at a time, each with its scope and period."""
    return [
        BudgetUse(budget, scope, *period_around(budget.period, at))
        for budget in budgets
        if (scope := budget.scope(principal, agent, tags)) is not None
    ]


def checked_budgets(budgets: Sequence[Budget]) -> tuple[Budget, ...]:
    """Returns the budgets.

    Raises:
        ConfigError: An entry is no `Budget`, or two are the same.
    """
    if not isinstance(budgets, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError("must be a list: write budgets=[Budget(…)]", path="policy.budgets")
    seen: set[tuple[str, str, str]] = set()
    for budget in budgets:
        if not isinstance(budget, Budget):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"must be a list of Budget, not {budget!r}", path="policy.budgets")
        if budget.identity in seen:
            raise ConfigError(
                f"two budgets are named {budget.name!r}: give each a name", path="policy.budgets"
            )
        seen.add(budget.identity)
    return tuple(budgets)


def merged(own: Sequence[Budget], other: Sequence[Budget]) -> tuple[Budget, ...]:
    """Returns all budgets of both lists; of one in both, the smaller amounts."""
    both = {budget.identity: budget for budget in own}
    for budget in other:
        known = both.get(budget.identity)
        both[budget.identity] = budget if known is None else _smaller(known, budget)
    return tuple(both.values())


def _smaller(one: Budget, other: Budget) -> Budget:
    def least(name: str) -> float | None:
        amounts = [a for a in (getattr(one, name), getattr(other, name)) if a is not None]
        return min(amounts, default=None)

    tokens = least("tokens")
    return replace(
        one,
        usd=least("usd"),
        tokens=None if tokens is None else int(tokens),
        warn=min(one.warn, other.warn),
    )


def raised(project: Iterable[Budget], operator: Iterable[Budget]) -> list[str]:
    """Returns the points in which a project's budgets would loosen the operator's of that name."""
    conflicts: list[str] = []
    names = {budget.name: budget for budget in operator}
    for budget in project:
        above = names.get(budget.name)
        if above is None or budget is above:
            continue
        where = f"budgets.{budget.name}"
        if budget.identity != above.identity:
            conflicts.append(f"{where}: is {above.per!r} per {above.period!r}")
        for name in ("usd", "tokens"):
            own, most = getattr(budget, name), getattr(above, name)
            if most is not None and (own is None or own > most):
                conflicts.append(f"{where}: at most {most:g} {name} is allowed")
    return conflicts
