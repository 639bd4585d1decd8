"""A step of several calls: what is asked ahead and what not, and what ends it in the middle."""

import asyncio
import time
from typing import Any

import pytest

from taofold import (
    Agent,
    Approval,
    Decision,
    Hook,
    Limits,
    MemoryLog,
    Policy,
    Principal,
    Reject,
    tool,
)
from taofold.core import events as e
from taofold.core.effects import Act, Answer
from taofold.core.values import Action, Observation, Thought, Tier
from taofold.runtime import approvals
from taofold.runtime.control import cancel, decide
from taofold.testing.replay import assert_replays

from .kit import Memo, act, batch, events, finish, planted, settled

pytestmark = pytest.mark.anyio
PAID: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    PAID.clear()


@tool(tier=3)
def pay(amount: int) -> str:
    """Pay."""
    PAID.append(amount)
    return f"paid {amount}"


@tool(effect="read")
def look(what: str = "it") -> str:
    """Look."""
    PAID.append(what)
    return "seen"


def agent(*script: Any, **options: Any) -> Agent[Any, Any]:
    options.setdefault("log", MemoryLog())
    options.setdefault("tools", [pay, look])
    return Agent(Memo(script), **options)


UNASKED = [
    ("nothing", {}),  # there is no such tool
    ("pay", {"amount": "much"}),  # the parameters do not fit
    ("pay", {}),
    ("look", {}),  # needs no approval
]


@pytest.mark.parametrize("unasked", UNASKED, ids=str)
async def test_what_needs_no_word_or_cannot_run_is_not_asked_about_ahead(unasked: Any) -> None:
    one = agent(batch(("pay", {"amount": 1}), unasked, ("pay", {"amount": 2})), finish())
    result = await one.run("x", run_id="r")
    assert [each.action.parameters["amount"] for each in result.pending] == [1, 2]
    done = await settled(one, result)
    assert [each for each in PAID if isinstance(each, int)] == [1, 2]
    assert len(done.steps[0].observations) == 3
    assert [each.verdict for each in events(done, e.Decided) if each.verdict == "ask"] == [
        "ask"
    ] * 2
    await assert_replays(one, done)


async def test_of_a_planned_batch_every_call_is_asked_about_ahead_however_often_it_stands() -> None:
    def planned(task: Any) -> Any:
        calls = tuple([Action("pay", {"amount": 7}, "planned") for _ in range(5)])
        seen = yield Act(Thought("as planned"), calls, planned=True)
        return Answer(", ".join([str(observation.result) for observation in seen]))

    one = agent(strategy=planned)
    result = await one.run("x", run_id="r")
    assert len(result.pending) == 5
    done = await settled(one, result)
    assert PAID == [7] * 5
    assert done.output == ", ".join(["paid 7"] * 5)


async def test_what_a_strategy_answered_itself_is_not_asked_about() -> None:
    def partly(task: Any) -> Any:
        calls = tuple([Action("pay", {"amount": n}, "planned") for n in (1, 2, 3)])
        local = (None, Observation("known already"))
        seen = yield Act(Thought("t"), calls, local, planned=True)
        return Answer(", ".join([str(observation.result) for observation in seen]))

    one = agent(strategy=partly)
    result = await one.run("x")
    assert [each.action.parameters["amount"] for each in result.pending] == [1, 3]
    done = await settled(one, result)
    assert done.output == "paid 1, known already, paid 3"


def no(_: Any) -> Decision:
    return Decision("deny", reason="no")


class Guard(Hook):
    """A hook that lets no money out."""

    def __init__(self, amount: int = 1) -> None:
        self.amount = amount

    def before_tool(self, context: Any, action: Any) -> Any:
        if action.parameters.get("amount") == self.amount:
            return Reject("not that much")
        return None


@pytest.mark.parametrize("how", ["person", "policy", "hook"])
@pytest.mark.parametrize("on_denial", ["stop", "continue"])
async def test_a_denial_ends_the_run_where_that_is_wanted(how: str, on_denial: Any) -> None:
    options: dict[str, Any] = {
        "person": {"approve": no},
        "policy": {"policy": Policy(deny=("pay",)), "approve": "all"},
        "hook": {"hooks": [Guard()], "approve": "all"},
    }[how]
    script = [batch(("pay", {"amount": 1}), ("look", {})), finish("went on")]
    one = agent(*script, on_denial=on_denial, **options)
    result = await one.run("x")
    denied = next(o for o in events(result, e.Observed) if o.index == 0)
    assert denied.observation.refused == "denied"
    if on_denial == "stop":
        assert (result.success, result.stop_reason, PAID) == (False, "denied", [])
        # The run reports its end, and its call is not open.
        assert str(denied.observation.result) in result.error
    else:
        assert (result.output, PAID) == ("went on", ["it"])
    await assert_replays(one, result)


async def test_a_hook_rejects_a_call_before_anybody_is_asked_ahead_about_it() -> None:
    script = [batch(("pay", {"amount": 5}), ("pay", {"amount": 1})), finish()]
    one = agent(*script, hooks=[Guard()])
    result = await one.run("x")
    assert [each.action.parameters["amount"] for each in result.pending] == [5]
    done = await settled(one, result)
    assert PAID == [5]
    assert [o.refused for o in done.steps[0].observations] == ["", "denied"]


async def test_a_call_that_a_limit_refused_is_refused_in_every_later_life() -> None:
    log = MemoryLog()
    script = [batch(("look", {"what": "a"}), ("look", {"what": "b"})), finish()]
    whole = await agent(*script, log=log, limits=Limits(per_tool={"look": 1})).run("x", run_id="r")
    assert [o.refused for o in whole.steps[0].observations] == ["", "tool_limit"]
    records = await log.read("r")
    refused = next(r.seq for r in records if isinstance(r.event, e.Observed) and r.event.index == 1)
    PAID.clear()
    left = await planted(records[: refused + 1], MemoryLog())
    # The limit was raised in between. The refused call stays refused.
    later = agent(finish(), log=left, limits=Limits(per_tool={"look": 9}))
    done = await later.resume("r")
    assert [o.refused for o in done.steps[0].observations] == ["", "tool_limit"]
    assert PAID == ["a"]


async def test_a_call_of_an_edited_kind_that_the_tool_takes_no_more_is_answered() -> None:
    one = agent(act("pay", amount=1), finish())
    result = await one.run("x", run_id="r")
    await decide(result.log, result.pending[0].id, Decision("edit", parameters={"amount": 2}))

    @tool(tier=3, name="pay")
    def pay_in(currency: str) -> str:
        """Pay otherwise."""
        PAID.append(currency)
        return "paid"

    later = agent(finish(), log=result.log, tools=[pay_in, look])
    done = await later.resume("r")
    assert PAID == []
    assert done.status == "finished" or done.pending


# While a callback thinks, others may speak.


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approvals, "LOOK", 0.01)


async def test_who_decides_elsewhere_while_the_callback_thinks_is_heard(often: None) -> None:
    log, cancelled = MemoryLog(), list[str]()

    async def slow(request: Any) -> Decision:
        try:
            # A log on disk may let the run hear of it before this returns.
            await decide(log, request.id, Decision("deny", reason="from elsewhere"))
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(request.id)
            raise
        return Decision("approve")

    one = agent(act("pay", amount=1), finish(), log=log, approve=slow)
    result = await one.run("x")
    assert PAID == []
    assert "from elsewhere" in str(result.steps[0].observations[0].result)
    # Its prompt does not stay open.
    assert len(cancelled) == 1
    await assert_replays(one, result)


async def test_who_cancels_while_the_callback_thinks_ends_the_run(often: None) -> None:
    log = MemoryLog()

    async def slow(request: Any) -> Decision:
        await cancel(log, request.run)
        await asyncio.sleep(60)
        return Decision("approve")

    result = await agent(act("pay", amount=1), finish(), log=log, approve=slow).run("x")
    assert (result.status, PAID) == ("cancelled", [])


async def test_a_question_that_expires_while_the_callback_thinks_is_closed(
    often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [time.time_ns()]
    monkeypatch.setattr(time, "time_ns", lambda: now[0])

    async def slow(request: Any) -> Decision:
        now[0] = (request.expires_at + 1) * 1_000_000
        await asyncio.sleep(60)
        return Decision("approve")

    policy = Policy(approve_seconds=5)
    one = agent(act("pay", amount=1), finish(), policy=policy, approve=slow)
    result = await one.run("x")
    assert PAID == []
    assert result.steps[0].observations[0].refused == "expired"
    [resolved] = events(result, e.Resolved)
    assert (resolved.verdict, resolved.by) == ("expired", "clock")


@pytest.mark.parametrize("verdict", ["approve", "deny"])
async def test_of_two_words_at_once_the_stricter_is_heard_and_the_other_on_record(
    verdict: Any,
) -> None:
    log = MemoryLog()

    async def quick(request: Any) -> Decision:
        other = "deny" if verdict == "approve" else "approve"
        await decide(log, request.id, Decision(other, reason="elsewhere"))
        return Decision(verdict, by="me", reason="here")

    result = await agent(act("pay", amount=1), finish(), log=log, approve=quick).run("x")
    assert PAID == []
    [resolved] = events(result, e.Resolved)
    assert resolved.verdict == "deny"
    [refused] = events(result, e.DecisionRefused)
    assert f"{resolved.by} decided deny at the same time" in refused.why
    assert refused.by != resolved.by
    assert await log.inbox(result.run_id) == []


@tool(tier=2)
def send() -> str:
    """Send."""
    PAID.append("sent")
    return "sent"


@pytest.mark.parametrize(
    ("policy", "paid", "refused"),
    [(Policy(deny=("send",)), [], "denied"), (Policy(autonomy="autonomous"), ["sent"], "")],
)
async def test_what_a_policy_became_decides_on_what_was_approved_before(
    policy: Policy, paid: list[str], refused: str
) -> None:
    one = agent(act("send"), finish(), tools=[send])
    result = await one.run("x", run_id="r")
    await decide(result.log, result.pending[0].id, Decision("approve"))
    done = await agent(finish(), log=result.log, policy=policy, tools=[send]).resume("r")
    assert paid == PAID
    assert done.steps[0].observations[0].refused == refused


@pytest.mark.parametrize(
    ("calls", "answers", "words"),
    [
        (1, 0, "approve gave 0 answers about 1 call"),
        (1, 2, "approve gave 2 answers about 1 call"),
        (2, 1, "approve gave 1 answers about 2 calls"),
        (3, 4, "approve gave 4 answers about 3 calls"),
    ],
)
async def test_a_callback_that_answers_more_or_fewer_calls_than_it_was_asked_about_allows_none(
    calls: int, answers: int, words: str
) -> None:
    step = batch(*[("pay", {"amount": n}) for n in range(calls)])
    one = agent(step, finish(), approve=lambda _: [True] * answers)
    done = await one.run("x", principal=Principal("ann"))
    denied = [event.observation.result for event in events(done, e.Observed)][:calls]
    assert denied == [f"denied by ann: {words}"] * calls
    assert PAID == []


def asked_about(name: str, form: Any = None) -> Approval:
    return Approval(
        "r:1", "r", "1", 0, Action(name), Tier.CARD, "", "", "", "", "ann", 0, form=form
    )


@pytest.mark.parametrize(
    ("name", "form", "wants_text"),
    [
        ("ask_user", None, True),
        ("ask", None, False),
        ("pay", None, False),
        ("pay", {}, False),
        ("pay", {"type": "string"}, True),
    ],
)
def test_what_is_asked_wants_a_yes_unless_the_agent_or_a_form_wants_text(
    name: str, form: Any, wants_text: bool
) -> None:
    assert asked_about(name, form).wants_text == wants_text
