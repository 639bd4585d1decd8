"""Budgets of many runs: refused before the call, exact, by calendar period, lifted once."""

import asyncio
import multiprocessing
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from taofold import Agent, Budget, ConfigError, MemoryLog, Policy, Principal, Refused, tool
from taofold.agent import activation
from taofold.agent.origin import ORIGIN
from taofold.cli.agent_argument import SETTINGS
from taofold.core import events as e
from taofold.core.values import Reply, Usage
from taofold.log.log import Spending, Window
from taofold.log.open import open_log
from taofold.policy.budgets import period_around, uses
from taofold.runtime import budgets as lifts
from taofold.runtime.budgets import NAMES_AGENT, RunBudgets, budget_rows, lift
from taofold.runtime.setup import Setup
from taofold.testing import FunctionModel, ScriptedModel
from tests import postgres

from .kit import act, finish

ADA = Principal("ada", roles=("ADMIN",))
HOUR, DAY = 3_600_000, 86_400_000
MARCH = 1_772_323_200_000
"""2026-03-01 00:00 UTC."""


class Till:
    """A model that counts its calls, each with the same cost."""

    def __init__(self, tokens: int = 1000, usd: float = 0.01, *, reply: Any = finish) -> None:
        self.calls = 0
        self.usage, self.reply = Usage(tokens, usd=usd), reply

    def agent(self, log: Any, *budgets: Budget, **options: Any) -> Agent[Any, Any]:
        def answer(_: Any) -> Reply:
            self.calls += 1
            return Reply(self.reply(), usage=self.usage)

        policy = options.pop("policy", Policy(budgets=budgets))
        model = FunctionModel(answer, usd=options.pop("prices", (1.0, 1.0)))
        return Agent(model, log=log, policy=policy, strategy="direct", **options)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the time of runs and lifts."""
    now = [MARCH]
    monkeypatch.setattr(activation, "Setup", partial(Setup, now=lambda: now[0]))
    monkeypatch.setattr(lifts, "clock", lambda: now[0])

    def at(milliseconds: int) -> None:
        now[0] = milliseconds

    return at


CHECK = RunBudgets.check


def run(agent: Agent[Any, Any], who: str = "ann", **options: Any) -> Any:
    return agent.run_sync("Say hello.", principal=Principal(who, ("USER",)), **options)


def test_a_call_beyond_a_budget_is_not_made() -> None:
    till, log = Till(), MemoryLog()
    agent = till.agent(log, Budget(per="principal", tokens=2500, period="hour"))
    assert [run(agent).status for _ in range(4)] == ["finished"] * 3 + ["limited"]
    assert till.calls == 3
    stopped = run(agent)
    assert (stopped.stop_reason, stopped.success, till.calls) == ("max_budget", False, 3)
    assert stopped.error.startswith(
        "budget 'principal-hour' allows 2,500 tokens per hour for 'principal:ann': 3,000 tokens "
        "were spent"
    )
    assert "free again at 20" in stopped.error
    assert stopped.error.endswith("taofold budget lift principal-hour principal:ann")
    (hit,) = [r.event for r in stopped.records if isinstance(r.event, e.LimitHit)]
    assert (hit.limit, hit.budget) == ("budget", "principal-hour")
    assert asyncio.run(agent.replay(stopped)).stop_reason == "max_budget"
    assert run(agent, "bob").success  # another principal has its own amount


def test_dollars_are_refused_if_the_highest_price_does_not_fit() -> None:
    till = Till(usd=0.004)
    agent = till.agent(MemoryLog(), Budget(usd=0.01), max_tokens=1000, prices=(1.0, 1.0))
    results = [run(agent) for _ in range(4)]
    # Each call may cost a little more than 0.001 $.
    assert [r.status for r in results] == ["finished"] * 3 + ["limited"]
    assert till.calls == 3
    assert "$0.0120 were spent" in results[-1].error


def test_a_dollar_budget_needs_a_price() -> None:
    till = Till()
    with pytest.raises(ConfigError, match=r"^policy\.budgets: a bound in dollars needs the price"):
        run(till.agent(MemoryLog(), Budget(usd=5.0), prices=None))
    assert run(till.agent(MemoryLog(), Budget(tokens=5000), prices=None)).success
    assert till.calls == 1


def test_wrong_budgets_are_named() -> None:
    with pytest.raises(ConfigError, match=r"'principal' \(a user\), .* not 'user'"):
        Budget(per="user", usd=1.0)
    with pytest.raises(ConfigError, match=r"must be a list: write budgets=\[Budget"):
        Policy(budgets=cast("Any", Budget(usd=1.0)))


@pytest.mark.parametrize(
    "way", ["own", "hand-off", "tool", "renamed tool", "tool of a hand-off", "hand-off of a tool"]
)
def test_budgets_of_any_agent_of_a_run_need_a_log(way: str) -> None:
    """Mutant: only the budgets of the first agent are looked at."""
    till = Till()
    rules = Policy(budgets=[Budget(tokens=2000)])

    def front(log: Any) -> Agent[Any, Any]:
        # A log of its own does not count: its records go to that of the agent that is run.
        inner = None if way == "own" else MemoryLog()
        last = till.agent(inner, policy=rules, name="billing").replace(strategy="react")

        def over(name: str, **options: Any) -> Agent[Any, Any]:
            return till.agent(None, name=name).replace(strategy="react", **options)

        made: dict[str, Callable[[], Agent[Any, Any]]] = {
            "own": lambda: last,
            "hand-off": lambda: over("front", handoffs=lambda: [last]),
            "tool": lambda: over("front", tools=[last]),
            "renamed tool": lambda: over("front", tools=[last.as_tool("pay")]),
            "tool of a hand-off": lambda: over("front", handoffs=[over("middle", tools=[last])]),
            "hand-off of a tool": lambda: over("front", tools=[over("middle", handoffs=[last])]),
        }
        return made[way]().replace(log=log)

    with pytest.raises(ConfigError, match=r"^policy\.budgets: budgets.* bound the runs of one log"):
        run(front(None))
    assert till.calls == 0
    assert run(front(MemoryLog())).success
    if way != "own":
        with pytest.raises(ConfigError, match=r"of agent 'billing' .* agent 'front', which is run"):
            run(front(None))


@pytest.mark.parametrize("way", ["hand-off", "tool"])
def test_a_budget_of_another_agent_holds_over_the_runs_of_a_log(way: str) -> None:
    till, log = Till(1500), MemoryLog()
    rules = Policy(budgets=[Budget(tokens=2000)])
    for _ in range(4):
        last = till.agent(None, policy=rules, name="billing").replace(strategy="react")
        first = [act("transfer_to_billing") if way == "hand-off" else act("billing", goal="x")]
        options: dict[str, Any] = {"handoffs": [last]} if way == "hand-off" else {"tools": [last]}
        front = Agent(ScriptedModel([*first, finish("done")]), name="front", log=log, **options)
        run(front)
    # The front's own replies count too, so that at most two calls fit.
    assert till.calls in (1, 2)


def test_a_price_that_is_unknown_at_the_call_refuses_it() -> None:
    """The check itself fails closed: mutant `usd or 0.0` before it."""
    till, log = Till(), MemoryLog()
    agent = till.agent(log, Budget(tokens=10**9))

    async def unknown(self: RunBudgets, key: str, tokens: float, usd: float | None) -> Any:
        self._setup.policy = Policy(budgets=[Budget(usd=5.0)])
        return await CHECK(self, key, tokens, None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunBudgets, "check", unknown)
        result = run(agent)
    assert (result.stop_reason, till.calls) == ("max_budget", 0)
    assert "price of this call is unknown" in result.error


@pytest.mark.parametrize(
    ("per", "same", "other"),
    [
        ("all", {}, None),
        ("principal", {}, {"who": "bob"}),
        ("tag:team", {"tags": {"team": "x=y"}}, {"tags": {"team": "x"}}),
    ],
)
def test_scopes_have_their_own_amounts(per: str, same: Any, other: Any) -> None:
    till, log = Till(), MemoryLog()
    agent = till.agent(log, Budget(per=per, tokens=900))
    assert [run(agent, **same).success for _ in range(2)] == [True, False]
    if other is not None:
        assert run(agent, **other).success
    if per == "tag:team":
        assert run(agent).success  # without the tag it is not concerned


def test_an_agent_has_its_own_amount() -> None:
    till, log = Till(), MemoryLog()
    budget = Budget(per="agent", tokens=900)
    first, second = (till.agent(log, budget, name=name) for name in ("first", "second"))
    assert [run(first).success, run(first).success, run(second).success] == [True, False, True]


def test_a_child_spends_once_for_the_same_principal_and_tags() -> None:
    till, log = Till(tokens=1000), MemoryLog()
    child = till.agent(None, name="child")
    parent = Agent(
        FunctionModel(
            lambda rq: Reply(
                act("child", goal="go") if len(rq.conversation) < 3 else finish(),
                usage=Usage(100),
            )
        ),
        tools=[child],
        log=log,
        policy=Policy(budgets=[Budget(per="tag:team", tokens=10**6)]),
    )
    assert run(parent, tags={"team": "x"}).success

    async def spent() -> dict[str, Spending]:
        return await log.spenders("", 0, 10**9)

    tokens = {scope: total.tokens for scope, total in asyncio.run(spent()).items()}
    assert tokens["all"] == tokens["principal:ann"] == tokens["tag:team=x"] == 1200
    assert tokens["agent:child"] == 1000


def test_a_childs_call_is_bound_by_the_parents_policy() -> None:
    till = Till(tokens=1000)
    child = till.agent(None, name="child")
    parent = Agent(
        FunctionModel(
            lambda rq: Reply(
                act("child", goal="go") if len(rq.conversation) < 5 else finish(), usage=Usage(1)
            )
        ),
        tools=[child],
        log=MemoryLog(),
        policy=Policy(budgets=[Budget(per="agent", tokens=900)]),
    )
    assert run(parent).success
    assert till.calls == 1


def test_a_warning_is_recorded_once_for_a_run() -> None:
    till, log = Till(), MemoryLog()
    agent = till.agent(log, Budget(tokens=10_000, warn=0.2))

    def warnings(result: Any) -> list[dict[str, Any]]:
        return [
            record.event.data
            for record in result.records
            if isinstance(record.event, e.Noted) and record.event.kind == "budget"
        ]

    results = [run(agent) for _ in range(3)]
    assert [len(warnings(result)) for result in results] == [0, 0, 1]
    (data,) = warnings(results[2])
    assert (data["name"], data["scope"], data["share"]) == ("all-day", "all", 0.2)
    assert asyncio.run(agent.replay(results[2])).success


def test_a_person_lifts_a_budget_once() -> None:
    till, log = Till(), MemoryLog()
    policy = Policy(budgets=[Budget(per="principal", tokens=900)])
    agent = till.agent(log, policy=policy)
    assert [run(agent).success for _ in range(2)] == [True, False]

    def decide(by: Principal = ADA, reason: str = "") -> None:
        asyncio.run(lift(log, policy, "principal-day", "principal:ann", by=by, reason=reason))

    for by, why in (
        (Principal("ann", ("USER",)), "budgets requires the role ADMIN"),
        (Principal("agent:x", ("ADMIN",)), "an agent may not"),
    ):
        with pytest.raises(Refused, match=why):
            decide(by)
    decide(reason="a release")
    # 1000 of 1800: one call more, and none after that.
    assert [run(agent).success for _ in range(2)] == [True, False]
    assert till.calls == 2
    with pytest.raises(Refused, match="was lifted in this period already"):
        decide()
    assert "taofold budget lift" not in run(agent).error
    (row,) = asyncio.run(budget_rows(log, policy, principal="ann"))
    assert row.lifted is not None
    assert (row.lifted.by, row.lifted.reason, row.tokens) == ("ada", "a release", 1800)
    with pytest.raises(Refused, match="no budget 'x'"):
        asyncio.run(lift(log, policy, "x", by=ADA))
    with pytest.raises(Refused, match="bounds each 'principal'"):
        asyncio.run(lift(log, policy, "principal-day", "agent:x", by=ADA))
    strict = replace(policy, own_approval=False)
    with pytest.raises(Refused, match="own_approval"):
        asyncio.run(lift(log, strict, "principal-day", "principal:ada", by=ADA))


def test_an_amount_is_free_again_after_months_end(clock: Callable[[int], None]) -> None:
    till, log = Till(), MemoryLog()
    agent = till.agent(log, Budget(period="month", tokens=900))
    clock(MARCH - 1)
    assert [run(agent).success, run(agent).success] == [True, False]
    clock(MARCH)
    assert [run(agent).success, run(agent).success] == [True, False]


def test_a_clock_that_jumps_gives_no_amount_twice(clock: Callable[[int], None]) -> None:
    till, log = Till(), MemoryLog()
    agent = till.agent(log, Budget(period="day", tokens=900))
    clock(MARCH + HOUR)
    assert [run(agent).success, run(agent).success] == [True, False]
    for jump in (DAY + HOUR, HOUR, DAY + HOUR):  # ahead, back, and ahead again
        clock(MARCH + jump)
        run(agent)
    assert till.calls == 2


def test_a_run_whose_clock_jumps_back_spends_in_the_period_of_its_records(
    clock: Callable[[int], None],
) -> None:
    """Its records keep the later time. Mutant: the period of the clock alone."""
    till = Till()

    def answer(_: Any) -> Reply:
        till.calls += 1
        return Reply(act("look", at=till.calls), usage=till.usage)

    @tool(effect="read")
    def look(at: int) -> str:
        """Look."""
        clock(MARCH + HOUR)
        return f"seen {at}"

    clock(MARCH + DAY + HOUR)
    budget = Budget(period="day", tokens=1900)
    policy = Policy(budgets=[budget])
    agent = Agent(FunctionModel(answer), tools=[look], log=MemoryLog(), policy=policy)
    assert (run(agent).stop_reason, till.calls) == ("max_budget", 2)


@pytest.mark.parametrize(
    ("period", "at", "start", "end"),
    [
        ("hour", MARCH - 1, MARCH - HOUR, MARCH),
        ("day", MARCH - 1, MARCH - DAY, MARCH),
        ("month", MARCH - 1, MARCH - 28 * DAY, MARCH),
        ("month", MARCH, MARCH, MARCH + 31 * DAY),
        ("month", MARCH + 305 * DAY, MARCH + 275 * DAY, MARCH + 306 * DAY),
        ("day", -5, 0, DAY),
    ],
)
def test_periods_follow_the_calendar(period: Any, at: int, start: int, end: int) -> None:
    assert period_around(period, at) == (start, end)


def test_no_name_reaches_another_scope() -> None:
    budgets = [Budget(per="principal", tokens=1), Budget(per="agent", tokens=1)]
    hostile = uses(budgets, "x\nagent:a", "principal:ann", {}, MARCH)
    assert [use.scope for use in hostile] == ["principal:x\nagent:a", "agent:principal:ann"]


def test_copies_of_a_fork_and_replays_cost_nothing() -> None:
    till, log = Till(), MemoryLog()
    agent = till.agent(log, Budget(tokens=10_000))

    async def main() -> int:
        first = await agent.run("Say hello.")
        await agent.replay(first)
        await agent.fork(first)
        (spent,) = await log.spent([Window("all", 0, 10**9)])
        return spent.tokens

    assert asyncio.run(main()) == 1000 * till.calls > 0


class Clock:
    """The clock of one process, in milliseconds; each run may set it."""

    def __init__(self) -> None:
        self.now = MARCH - DAY

    def __call__(self) -> int:
        return self.now


def _times(clocks: str, number: int) -> tuple[int, int]:
    """Returns the times at the beginning of run `number` and at the end of its call."""
    before, after = MARCH - DAY, MARCH + DAY
    match clocks:
        case "month's end":  # the call of run 5 is in flight over it
            return (before if number <= 5 else after), (before if number < 5 else after)
        case "jumps":  # ahead between runs, and back in their calls
            return (after if number % 2 else before), before
        case _:
            return before, before


CLOCKS = ("steady", "month's end", "jumps")


def _calls(address: str, clocks: str, clock: Clock, place: int) -> int:
    """Returns the number of model calls of one process's runs."""
    calls = end = 0

    async def answer(_: Any) -> Reply:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0.002)
        clock.now = end
        return Reply(finish(), usage=Usage(1000))

    agent = Agent(
        FunctionModel(answer),
        log=open_log(address),
        policy=Policy(budgets=[Budget(tokens=20_000, period="month")]),
        strategy="direct",
    )
    for number in range(14):
        clock.now, end = _times(clocks, number)
        run(agent, f"p{place}")
    return calls


def _spend(addresses: dict[str, str], start: Any, results: Any, place: int) -> None:
    clock = Clock()
    activation.Setup = partial(Setup, now=clock)  # type: ignore[misc]
    for clocks, address in addresses.items():
        start.wait()
        results.put((clocks, _calls(address, clocks, clock, place)))


async def _months(address: str) -> list[int]:
    """Returns the tokens that were spent in February and in March."""
    log = open_log(address)
    hour = MARCH // HOUR
    windows = [Window("all", hour - 28 * 24, hour), Window("all", hour, hour + 31 * 24)]
    totals = await log.spent(windows)
    await log.close()
    return [total.tokens for total in totals]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_eight_processes_exceed_a_budget_by_the_calls_in_flight_at_most(
    tmp_path: Path, kind: str
) -> None:
    """Mutants: the totals are read once for each process; calls are not in the totals."""
    if kind == "postgres":
        pytest.importorskip("psycopg", reason="psycopg is not installed (taofold[postgres])")
        addresses = {clocks: postgres.server().url() for clocks in CLOCKS}
    else:
        addresses = {clocks: str(tmp_path / f"{clocks}.db") for clocks in CLOCKS}
    for address in addresses.values():
        asyncio.run(_months(address))  # makes the tables
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(8), context.Queue()
    workers = [
        context.Process(target=_spend, args=(addresses, start, results, place))
        for place in range(8)
    ]
    for worker in workers:
        worker.start()
    counted = [results.get(timeout=300) for _ in workers for _ in CLOCKS]
    for worker in workers:
        worker.join()
    for clocks, address in addresses.items():
        months = asyncio.run(_months(address))
        assert sum(months) == 1000 * sum(calls for named, calls in counted if named == clocks)
        # 20 calls fit into a month, and each process has one call in flight.
        used = months[:1] if clocks == "steady" else months
        assert all(20_000 <= month <= 27_000 for month in used), (clocks, months)


@pytest.mark.parametrize(
    ("per", "scope"),
    [
        ("principal", "principal:"),
        ("principal", "principal: "),
        ("principal", "principal: ann"),
        ("principal", "principal:ann\n"),
        ("principal", "ann"),
        ("agent", "agent:"),
        ("tag:team", "tag:team="),
        ("tag:team", "tag:team"),
        ("all", "all "),
    ],
)
def test_a_scope_without_a_name_cannot_be_lifted(per: str, scope: str) -> None:
    """Mutant: `Budget.bounds` compares the prefix only."""
    policy = Policy(budgets=[Budget(per=per, tokens=1, name="x")])
    with pytest.raises(Refused, match="budget 'x' bounds each"):
        asyncio.run(lift(MemoryLog(), policy, "x", scope, by=Principal()))


def test_the_keys_that_name_an_agent_are_those_that_are_recorded() -> None:
    assert NAMES_AGENT == (SETTINGS, ORIGIN)
