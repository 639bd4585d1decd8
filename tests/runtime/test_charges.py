"""Consumption without a reply is charged: cut-off and failed calls, tools, unreported usage."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from taofold import (
    Agent,
    Budget,
    ConfigError,
    Limits,
    MemoryLog,
    Outcome,
    Policy,
    Principal,
    Refused,
    RunContext,
    tool,
)
from taofold.clocks import clock
from taofold.core import events as e
from taofold.core.errors import ModelError
from taofold.core.imported_runs import as_import
from taofold.core.state import fold
from taofold.core.values import Reply, Usage
from taofold.log.log import Log, Spending, Window
from taofold.log.run_store import Store
from taofold.models.transport import HttpResponse
from taofold.policy.budgets import period_around
from taofold.runtime import budgets as lifts
from taofold.runtime.budgets import budget_rows, lift
from taofold.runtime.model import OnText, Request
from taofold.runtime.providers import resolve
from taofold.runtime.run import row_of
from taofold.testing import FunctionModel
from taofold.testing.models import ROOMY
from tests.deadlines import LoopClock

from .kit import act, events, finish

ALL = Window("all", 0, 10**9)
PROMPT = "word " * 400
"""About 500 tokens."""
BUDGET = Policy(budgets=[Budget(tokens=10**6, name="all")])


class Slow:
    """A model that speaks, then waits until it is cut off: at once if it is `late`."""

    name, profile = "x:slow", ROOMY

    def __init__(self, speech: str = "", *, late: bool = False) -> None:
        self.speech, self.late, self.asked = speech, late, asyncio.Event()

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        if on_text is not None and self.speech:
            on_text(self.speech)
        self.asked.set()
        if self.late:
            LoopClock().jump(900)
        await asyncio.sleep(3600)
        return Reply("late")

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        return (input_tokens + 10 * output_tokens) / 1e6


def spent(log: Log) -> Spending:
    async def read() -> Spending:
        return (await log.spent([ALL]))[0]

    return asyncio.run(read())


def charges(result: Any) -> list[e.Charged]:
    return events(result, e.Charged)


def test_a_call_that_the_runs_time_cuts_off_costs_the_prompt_and_the_text_so_far() -> None:
    """Mutant: no report of a call that is cut off."""
    log = MemoryLog()
    agent = Agent(
        Slow("spoken " * 100, late=True), log=log, policy=BUDGET, limits=Limits(seconds=600)
    )
    quiet = agent.run_sync(PROMPT)
    heard = agent.run_sync(PROMPT, listener=lambda _: None)
    assert (quiet.stop_reason, heard.stop_reason) == ("max_seconds", "max_seconds")
    ((first,), (second,)) = charges(quiet), charges(heard)
    assert first.estimated
    assert (first.model, first.tool, first.usage.output_tokens) == ("x:slow", "", 0)
    assert 500 < first.usage.input_tokens < 2000
    assert second.usage.output_tokens == 175
    assert second.usage.usd == pytest.approx((second.usage.input_tokens + 1750) / 1e6)
    total = first.usage.tokens + second.usage.tokens
    assert spent(log).tokens == total == quiet.usage.tokens + heard.usage.tokens
    assert quiet.usage_by_model["x:slow"] == first.usage
    assert "about" in first.summary
    assert asyncio.run(agent.replay(quiet)).stop_reason == "max_seconds"


def test_a_cancelled_call_costs_its_prompt_and_is_made_again_on_resume() -> None:
    """Mutant: the report only after an `Exception`."""
    log, model = MemoryLog(), Slow()
    agent = Agent(model, log=log, policy=BUDGET)

    async def main() -> Any:
        task = asyncio.create_task(agent.run(PROMPT, run_id="r"))
        await model.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        cut = fold(await log.read("r"))
        assert cut.usage.tokens > 500
        await agent.replay("r")
        done = await agent.replace(
            model=FunctionModel(lambda _: Reply(finish(), usage=Usage(7)))
        ).resume("r")
        return cut.usage.tokens, done

    tokens, done = asyncio.run(main())
    assert done.success
    assert done.usage.tokens == tokens + 7 == spent(log).tokens


@pytest.mark.parametrize(
    ("error", "tokens"),
    [
        (ModelError("it broke off", kind="network"), None),
        (ModelError("it is garbage", kind="reply"), None),
        (ModelError("too slow", kind="timeout"), None),
        (ModelError("known", kind="reply", usage=Usage(40, 2)), 42),
        (ModelError("nothing was sent", kind="network", usage=Usage()), 0),
        (ModelError("an impossible number", kind="reply", usage=Usage(-40)), None),
        (ModelError("busy", kind="rate"), 0),
        (ModelError("no", kind="auth"), 0),
        (ModelError("down", kind="server", status=503), 0),
        (ValueError("a fault of its code"), None),
    ],
    ids=str,
)
def test_a_failed_call_costs_what_is_known_else_its_prompt(
    error: Exception, tokens: int | None
) -> None:
    """Mutants: none is charged; those that the provider refused are."""

    def fail(_: Request) -> Reply:
        raise error

    log = MemoryLog()
    result = Agent(FunctionModel(fail), log=log, policy=BUDGET).run_sync(PROMPT)
    assert result.status == "failed"
    total = spent(log).tokens
    assert total == result.usage.tokens
    assert total > 500 if tokens is None else total == tokens
    assert [charge.estimated for charge in charges(result)] == [tokens is None] * bool(total)


def test_a_reply_that_cannot_be_used_is_paid() -> None:
    reply = Reply("x", model=7, usage=Usage(30, 3))  # type: ignore[arg-type]
    log = MemoryLog()
    result = Agent(FunctionModel(lambda _: reply), log=log, policy=BUDGET).run_sync("go")
    assert (result.status, spent(log).tokens) == ("failed", 33)


@pytest.mark.parametrize("usage", [Usage(), Usage(usd=None), Usage(usd=0.5)], ids=str)
def test_a_usage_that_a_provider_does_not_report_is_estimated(usage: Usage) -> None:
    """Mutant: a reply without tokens costs nothing."""
    log = MemoryLog()
    model = FunctionModel(lambda _: Reply("word " * 40, usage=usage), usd=(1.0, 1.0))
    agent = Agent(model, log=log, policy=Policy(budgets=[Budget(tokens=1500)]), strategy="direct")
    results = [agent.run_sync(PROMPT) for _ in range(4)]
    assert [result.stop_reason for result in results][-1] == "max_budget"
    (reply,) = events(results[0], e.Replied)
    assert reply.usage.input_tokens > 500
    assert reply.usage.output_tokens >= 50
    assert any("it is estimated" in note for note in reply.notes)
    assert reply.usage.priced_usd >= (usage.usd or 0.0005)
    assert asyncio.run(agent.replay(results[0])).success
    free = Agent(model, strategy="direct").run_sync(PROMPT)
    assert free.usage.tokens == 0  # nothing is bounded: only reported usage is recorded


def sse(*lines: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + msgspec.json.encode(line) + b"\n\n" for line in lines)


BEGUN = sse(
    {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 9000}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "word " * 80},
    },
)


class Wire:
    """A transport whose first `cuts` answers stop in the middle, with an error or for ever."""

    def __init__(self, end: Exception | None, cuts: int = 99) -> None:
        self.end, self.cuts, self.posts = end, cuts, 0
        self.read = asyncio.Event()

    async def post(self, url: str, headers: Any, body: Any, bounds: Any, on_bytes: Any) -> Any:
        self.posts += 1
        on_bytes(BEGUN)
        self.read.set()
        if self.posts > self.cuts:
            on_bytes(
                sse(
                    {
                        "type": "message_delta",
                        "delta": {"stop_reason": "end_turn"},
                        "usage": {"output_tokens": 100},
                    },
                    {"type": "message_stop"},
                )
            )
            return HttpResponse(200, {}, b"")
        if self.end is not None:
            raise self.end
        LoopClock().jump(900)
        await asyncio.sleep(3600)
        return HttpResponse(200, {}, b"")


def remote(wire: Wire, **options: Any) -> Agent[Any, Any]:
    model = resolve(
        {
            "model": "anthropic:claude-sonnet-4-5",
            "api_key": "k",
            "transport": wire,
            "base_url": "https://api.anthropic.com",
        }
    )
    return Agent(model, strategy="direct", log=MemoryLog(), policy=BUDGET, **options)


def test_a_stream_that_is_cut_off_costs_what_the_provider_reported_so_far() -> None:
    """Mutant: only the estimate of the prompt."""
    agent = remote(Wire(None), limits=Limits(seconds=600))
    result = agent.run_sync("go", listener=lambda _: None)
    (charge,) = charges(result)
    assert result.stop_reason == "max_seconds"
    assert (charge.usage.input_tokens, charge.usage.output_tokens) == (9000, 100)
    assert charge.usage.usd == pytest.approx((9000 * 3 + 100 * 15) / 1e6)


def test_each_attempt_that_breaks_off_is_charged_beside_the_reply() -> None:
    """Mutant: only the last attempt of a call counts."""
    wire = Wire(ModelError("it broke off", kind="network"), cuts=1)
    result = remote(wire).run_sync("go", listener=lambda _: None)
    assert (result.success, wire.posts) == (True, 2)
    assert [charge.usage.tokens for charge in charges(result)] == [9100]
    assert result.usage.tokens == 18_200


def test_a_request_that_is_refused_costs_nothing() -> None:
    class Refusing:
        async def post(self, *_: Any) -> HttpResponse:
            return HttpResponse(401, {}, b'{"error": {"message": "no"}}')

    refusing: Any = Refusing()
    assert charges(remote(refusing).run_sync("go")) == []


@pytest.mark.allow_model_requests
def test_a_request_that_does_not_arrive_costs_nothing() -> None:
    model = resolve({"model": "openai:gpt-5", "api_key": "k", "base_url": "http://127.0.0.1:9"})
    result = Agent(model, log=MemoryLog(), policy=BUDGET).run_sync("go")
    assert (result.status, charges(result)) == ("failed", [])


def test_what_a_tool_consumes_is_charged_even_if_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutants: a charge is recorded with a success only; in the thread of the tool."""
    recorders = set[str]()
    record = Store.record

    def recorded(self: Store, event: e.Event) -> e.Record:
        if isinstance(event, e.Charged):
            recorders.add(threading.current_thread().name)
        return record(self, event)

    monkeypatch.setattr(Store, "record", recorded)

    @tool(effect="read", timeout=0.2)
    async def ask(context: RunContext[Any], how: str) -> Outcome:
        """Ask."""
        assert context.charge is not None
        context.charge(Usage(100, usd=0.01))
        if how == "late":
            await asyncio.sleep(60)
        if how == "raise":
            raise ValueError(how)
        return Outcome("x", status="failure" if how == "fail" else "success")

    threads = list[str]()

    @tool(effect="read")
    def block(context: RunContext[Any]) -> str:
        """Block."""
        assert context.charge is not None
        threads.append(threading.current_thread().name)
        context.charge(Usage(100, usd=0.01))
        with pytest.raises(ValueError, match="impossible number"):
            context.charge(Usage(-1))
        return "x"

    calls = [act("ask", how=how) for how in ("ok", "fail", "raise", "late")]
    replies = iter([*calls, act("block"), finish()])
    log = MemoryLog()
    model = FunctionModel(lambda _: Reply(next(replies), usage=Usage(1)))
    agent = Agent(model, tools=[ask, block], log=log, policy=BUDGET)
    result = agent.run_sync("go")
    assert result.success
    assert threads != [threading.current_thread().name]
    assert len(recorders) == 1
    assert recorders != {*threads}
    assert [(charge.tool, charge.usage.tokens) for charge in charges(result)] == [
        *[("ask", 100)] * 4,
        ("block", 100),
    ]
    assert result.usage.tokens == spent(log).tokens == 506
    assert asyncio.run(agent.replay(result)).success


def test_a_tools_charge_is_in_a_budget_at_once() -> None:
    @tool(effect="read")
    async def ask(context: RunContext[Any]) -> str:
        """Ask."""
        assert context.charge is not None
        context.charge(Usage(5000))
        return "x"

    model = FunctionModel(lambda _: Reply(act("ask"), usage=Usage(1)))
    policy = Policy(budgets=[Budget(tokens=4000)])
    result = Agent(model, tools=[ask], log=MemoryLog(), policy=policy).run_sync("go")
    assert result.stop_reason == "max_budget"
    assert result.usage.tokens == 5001


FAR = 253_402_300_799_000
"""The last second of the year 9999."""


@pytest.mark.parametrize("ahead", [40 * 86_400_000, FAR, 10**17])
def test_the_time_of_a_foreign_file_moves_no_charge(ahead: int) -> None:
    """Mutant: an import keeps times in the future."""
    log = MemoryLog()
    model = FunctionModel(lambda _: Reply(finish(), usage=Usage(1000)))
    agent = Agent(model, log=log, policy=Policy(budgets=[Budget(tokens=900)]))

    async def main() -> None:
        first = await agent.run("go")
        source = [
            replace(record, run="r", at=clock() + ahead + number)
            for number, record in enumerate(await log.read(first.run_id))
        ]
        begun = as_import(source[:1], "f", principal=Principal(), at=clock())
        state = fold(begun)
        assert state.started is not None
        await log.create(row_of(begun[0], state.started), records=begun)
        for again in (await agent.resume("r"), await agent.fork("r", at=0)):
            assert again.stop_reason == "max_budget"
            assert again.records[-1].at <= clock()

    asyncio.run(main())
    assert spent(log).tokens == 1000


def test_a_copy_does_not_keep_the_time_of_a_clock_that_was_ahead() -> None:
    log = MemoryLog()
    model = FunctionModel(lambda _: Reply(finish(), usage=Usage(1000)))
    agent = Agent(model, log=log, policy=Policy(budgets=[Budget(tokens=900)]))

    async def main() -> None:
        first = await agent.run("go")
        late = [replace(record, run="r", at=FAR) for record in await log.read(first.run_id)]
        state = fold(late[:1])
        assert state.started is not None
        await log.create(row_of(late[0], state.started), records=late[:1])
        again = await agent.fork("r", at=0)
        assert again.stop_reason == "max_budget"
        times = [record.at for record in again.records]
        assert times == sorted(times)
        assert times[-1] <= clock()

    asyncio.run(main())


def test_a_charge_of_a_rewound_branch_stays_spent() -> None:
    """Mutant: only replies of a dropped branch count."""
    charge = e.Charged(key="0", usage=Usage(40, usd=0.1), model="x:m")
    story: list[e.Event] = [e.RunStarted(goal="go"), charge, e.Rewound(to=0)]
    state = fold([e.Record("r", seq, seq, event) for seq, event in enumerate(story)])
    assert state.usage == state.usage_by_model["x:m"] == charge.usage


@pytest.mark.parametrize("period", ["hour", "day", "month"])
@pytest.mark.parametrize("at", [FAR, 10**18, -(10**18)])
def test_every_time_has_a_period(period: Any, at: int) -> None:
    start, end = period_around(period, at)
    assert start < end <= FAR


def test_budgets_need_a_log_that_runs_share() -> None:
    """Each run has a log of its own otherwise, and nothing is ever exceeded."""
    agent = Agent(FunctionModel(lambda _: Reply(finish())), policy=BUDGET)
    with pytest.raises(ConfigError, match=r'pass log="runs.db"'):
        agent.run_sync("go")
    assert agent.replace(log=MemoryLog()).run_sync("go").success


@pytest.mark.parametrize("scope", ["agent:a", "tag:team=x", "all", "principal:ada"])
def test_only_the_operator_lifts_an_amount_that_may_be_an_own_one(scope: str) -> None:
    """Mutant: only the scope of the principal itself is an own one."""
    names = {"agent:a": "agent-day", "tag:team=x": "tag-team-day", "all": "all-day"}
    name = names.get(scope, "principal-day")
    budgets = [Budget(per=per, tokens=9) for per in ("agent", "tag:team", "all", "principal")]
    policy, log = Policy(budgets=budgets, own_approval=False), MemoryLog()
    lifted = partial(lift, log, policy, name, scope)
    with pytest.raises(Refused, match="own_approval is false"):
        asyncio.run(lifted(by=Principal("ada", ("ADMIN",))))
    asyncio.run(lifted(by=Principal()))


def test_a_list_of_budgets_reads_the_lifts_of_all_rows_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, opened, read = MemoryLog(), list[int](), list[str]()
    model = FunctionModel(lambda _: Reply(finish(), usage=Usage(10)))
    policy = Policy(budgets=[Budget(per="principal", tokens=99_999)])
    agent = Agent(model, log=log, policy=policy)
    for number in range(9):
        agent.run_sync("go", principal=Principal(f"p{number}"))
    asyncio.run(lift(log, policy, "principal-day", "principal:p3", by=Principal()))
    beside: Callable[[Log], Any] = vars(lifts)["journal_beside"]

    def counted(log: Log) -> Any:
        opened.append(1)
        journal = beside(log)
        facts = journal.facts

        async def noted(stream: str, **options: Any) -> Any:
            read.append(stream)
            return await facts(stream, **options)

        monkeypatch.setattr(journal, "facts", noted)
        return journal

    monkeypatch.setattr(lifts, "journal_beside", counted)
    rows = asyncio.run(budget_rows(log, policy))
    assert [row.scope for row in rows if row.lifted] == ["principal:p3"]
    assert (len(rows), len(opened), len(read)) == (9, 1, 1)
