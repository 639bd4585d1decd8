"""Hooks change calls: a change is on record, judged again, and applied later without the hook."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from taofold import (
    Agent,
    ChangeRequest,
    Decision,
    Hook,
    HookContext,
    MemoryLog,
    Policy,
    Reject,
    ReplaceArguments,
    RunResult,
    Tier,
    tool,
)
from taofold.core import events as e
from taofold.core.values import Action, ModelSettings, Profile, Reply
from taofold.runtime.control import decide, pending
from taofold.runtime.model import Request
from taofold.runtime.uncertain_calls import AGAIN
from taofold.testing.replay import assert_replays

from .kit import Memo, act, batch, finish, planted

pytestmark = pytest.mark.anyio
RAN: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


@tool(effect="once", tier=1, reversible=True)
def pay(amount: int) -> str:
    """Pay."""
    RAN.append(f"pay {amount}")
    return f"paid {amount}"


@tool(effect="read")
def look(what: str) -> str:
    """Look."""
    RAN.append(f"look {what}")
    return f"{what} is here"


class Change(Hook):
    """A hook that returns what its function returns, and counts."""

    def __init__(self, change: Callable[[Action], Any]) -> None:
        self.change, self.seen = change, list[dict[str, Any]]()

    def before_tool(self, context: HookContext, action: Action) -> Any:
        self.seen.append(dict(action.parameters))
        return self.change(action)


class Narrow(Hook):
    """A hook that changes model calls."""

    def __init__(self, *changes: Any) -> None:
        self.changes, self.calls = list(changes), 0

    def before_model(self, context: HookContext, request: Request) -> Any:
        self.calls += 1
        return self.changes.pop(0) if self.changes else None


def to(**parameters: Any) -> Change:
    return Change(lambda action: ReplaceArguments(parameters))


class Kept(Memo):
    """A model that keeps its requests."""

    def __init__(self, *script: Any, **options: Any) -> None:
        super().__init__(script, **options)
        self.requests: list[Request] = []

    async def complete(self, request: Request, on_text: Any = None) -> Reply:
        self.requests.append(request)
        return await super().complete(request, on_text)


NATIVE = Profile(window=100_000, window_known=True, native_tools=True)
ASKS = Policy(tiers={"pay": Tier.CONFIRM})


def agent(*script: Any, hooks: Any = (), **options: Any) -> Agent[None, str]:
    options.setdefault("approve", "all")
    options.setdefault("log", MemoryLog())
    options.setdefault("model", Memo(script))
    return Agent(options.pop("model"), tools=[look, pay], hooks=hooks, **options)


def of(result: RunResult[Any], kind: type[Any]) -> list[Any]:
    return [record.event for record in result.records if isinstance(record.event, kind)]


async def test_the_changed_call_runs_and_the_model_reads_it() -> None:
    one = agent(act("look", what="ann@example.org"), finish(), hooks=[to(what="<EMAIL>")])
    result = await one.run("goal")
    assert RAN == ["look <EMAIL>"]
    (event,) = of(result, e.Hooked)
    assert (event.hook, event.point, event.index) == ("Change", "before_tool", 0)
    assert (event.before, event.after) == ({"what": "ann@example.org"}, {"what": "<EMAIL>"})
    assert result.steps[0].actions[0].parameters == {"what": "<EMAIL>"}
    assert "ann@example.org" in event.summary
    await assert_replays(one, result)


async def test_a_replay_does_not_need_the_hook() -> None:
    hook = to(what="b")
    one = agent(
        act("look", what="a"), finish(), hooks=[hook, Narrow(ChangeRequest({"top_p": 0.5}))]
    )
    result = await one.run("goal")
    calls = len(hook.seen)
    again = await one.replace(hooks=()).replay(result)
    assert again.steps[0].actions == result.steps[0].actions
    assert [type(r.event) for r in again.records] == [type(r.event) for r in result.records]
    assert (RAN, len(hook.seen)) == (["look b"], calls)


async def test_a_kill_at_any_record_repeats_neither_the_hook_nor_the_call() -> None:
    numbers = iter(range(6, 1000))
    hook = Change(lambda action: ReplaceArguments({"amount": next(numbers)}))
    one = agent(act("pay", amount=5), finish("done"), hooks=[hook])
    whole = await one.run("goal", run_id="r1")
    kinds = [type(record.event) for record in whole.records]
    changed = kinds.index(e.Hooked)
    for cut in range(changed + 1, len(kinds)):
        RAN.clear()
        log = await planted(whole.records[:cut], MemoryLog())
        seen = len(hook.seen)
        result = await one.replace(log=log).resume("r1", takeover=True)
        assert len(hook.seen) == seen, kinds[cut - 1]
        assert RAN in ([], ["pay 6"]), kinds[cut - 1]
        assert [h.after for h in of(result, e.Hooked)] == [{"amount": 6}]
        if result.status == "waiting":  # it may have happened
            (approval,) = await pending(log, "r1")
            assert (approval.action.parameters, RAN) == ({"amount": 6}, [])
        else:
            assert result.steps[0].actions[0].parameters == {"amount": 6}
        await assert_replays(one.replace(log=log), result)


@tool(effect="once", tier=1, reversible=True, timeout=0.01)
async def send(amount: int) -> str:
    """Send."""
    RAN.append(f"send {amount}")
    await asyncio.sleep(1)
    return "sent"


async def test_the_policy_rules_on_the_changed_call() -> None:
    hook = Change(lambda a: ReplaceArguments({"amount": 6}) if a.tool == "send" else None)
    one = Agent(
        Memo([act("send", amount=6), act("look", what="a"), act("send", amount=5), finish()]),
        tools=[send, look],
        hooks=[hook],
        approve=None,
        log=MemoryLog(),
    )
    result = await one.run("goal")
    assert (result.status, RAN) == ("waiting", ["send 6", "look a"])
    (approval,) = await pending(one.log, result.run_id)  # type: ignore[arg-type]
    assert approval.reason.startswith(AGAIN)
    assert approval.action.parameters == {"amount": 6}
    await decide(one.log, approval.id, Decision("approve"))  # type: ignore[arg-type]
    result = await one.resume(result.run_id)
    assert RAN == ["send 6", "look a", "send 6"]
    await assert_replays(one, result)


async def test_a_change_leads_around_no_denial() -> None:
    policy = Policy(deny=frozenset({"pay"}))
    one = agent(act("pay", amount=5), finish(), hooks=[to(amount=500)], policy=policy)
    result = await one.run("goal")
    assert RAN == []
    observation = result.steps[0].observations[0]
    assert observation.refused == "denied"
    assert "changed by the hook Change" in str(observation.result)
    await assert_replays(one, result)


async def test_the_approver_sees_the_changed_call_and_the_hook() -> None:
    one = agent(act("pay", amount=5), finish(), hooks=[to(amount=6)], approve=None, policy=ASKS)
    waiting = await one.run("goal")
    (approval,) = await pending(one.log, waiting.run_id)  # type: ignore[arg-type]
    assert approval.action.parameters == {"amount": 6}
    assert "changed by the hook Change" in approval.reason
    await decide(one.log, approval.id, Decision("approve"))  # type: ignore[arg-type]
    result = await one.resume(waiting.run_id)
    assert RAN == ["pay 6"]
    await assert_replays(one, result)


async def test_calls_of_one_batch_are_each_asked_about_as_changed() -> None:
    hook = Change(lambda action: ReplaceArguments({"amount": action.parameters["amount"] + 10}))
    shown: list[Any] = []

    def approve(approval: Any) -> bool:
        shown.append(approval.action.parameters)
        return True

    script = batch(("pay", {"amount": 1}), ("pay", {"amount": 2})), finish()
    one = agent(*script, hooks=[hook], approve=approve, policy=ASKS)
    result = await one.run("goal")
    assert shown == [{"amount": 11}, {"amount": 12}]
    assert RAN == ["pay 11", "pay 12"]
    await assert_replays(one, result)


async def test_a_hook_may_not_change_what_a_person_edited() -> None:
    def edit(approval: Any) -> Decision:
        return Decision("edit", parameters={"amount": 7})

    script = act("pay", amount=5), finish()
    one = agent(*script, hooks=[to(amount=6)], policy=ASKS, approve=edit)
    result = await one.run("goal")
    assert RAN == []
    assert "already approved" in str(result.steps[0].observations[0].result)
    await assert_replays(one, result)


async def test_a_changed_call_that_repeats_is_refused() -> None:
    script = [act("look", what=str(number)) for number in range(6)]
    one = agent(*script, finish(), hooks=[to(what="same")])
    result = await one.run("goal")
    assert len(RAN) < 6
    assert of(result, e.Violated)
    await assert_replays(one, result)


BAD: list[tuple[Any, str]] = [
    ({"amount": "many"}, "changed the call"),
    ({"other": 1}, "changed the call"),
    ({"amount": {1}}, "no dict of JSON"),
    ([1], "no dict of JSON"),
    ({"amount": 6, "note": "sesame-1234"}, "secret"),
]


@pytest.mark.parametrize(("parameters", "why"), BAD)
async def test_an_unusable_change_rejects_the_call(parameters: Any, why: str) -> None:
    hook = Change(lambda action: ReplaceArguments(parameters))
    one = agent(act("pay", amount=5), finish(), hooks=[hook], secrets=["sesame-1234"])
    result = await one.run("goal")
    assert RAN == []
    assert why in str(result.steps[0].observations[0].result)
    assert not of(result, e.Hooked)
    await assert_replays(one, result)


async def test_the_next_hook_sees_the_change_and_may_reject_it() -> None:
    second = Change(lambda action: Reject("no b"))
    one = agent(act("look", what="a"), finish(), hooks=[to(what="b"), second])
    result = await one.run("goal")
    assert (second.seen, RAN) == ([{"what": "b"}], [])
    assert result.steps[0].observations[0].result == "no b"
    await assert_replays(one, result)


async def test_settings_of_a_call_are_changed_for_this_call() -> None:
    model = Kept(act("look", what="a"), finish())
    one = agent(model=model, hooks=[Narrow(ChangeRequest({"temperature": 0.0, "max_tokens": 9}))])
    result = await one.run("goal")
    first, second = [request.asked() for request in model.requests]
    assert (first.temperature, first.max_tokens) == (0.0, 9)
    assert second == ModelSettings()
    (event,) = of(result, e.Hooked)
    assert event.before == {"settings": {"temperature": None, "max_tokens": 0}}
    assert event.after == {"settings": {"temperature": 0.0, "max_tokens": 9}}
    await assert_replays(one, result)


async def test_a_withheld_tool_is_neither_allowed_nor_run() -> None:
    model = Kept(act("pay", amount=5), act("pay", amount=6), finish(), profile=NATIVE)
    one = agent(model=model, hooks=[Narrow(ChangeRequest(tools=["look"]))])
    result = await one.run("goal")
    assert model.requests[0].allowed == ("look",)
    assert RAN == ["pay 6"]
    assert "not offered" in str(result.steps[0].observations[0].result)
    await assert_replays(one, result)
    await one.replace(hooks=()).replay(result)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (ChangeRequest(tools=["look", "shell"]), "widened the offer by 'shell'"),
        (ChangeRequest(tools="look"), "no list of names"),
        (ChangeRequest({"heat": 1}), "there is no setting 'heat'"),
        (ChangeRequest({"temperature": "hot"}), "must be"),
        (ChangeRequest({"extra": {"a": {1}}}), "no dict of JSON"),
        (ChangeRequest({"extra": {"key": "sesame-1234"}}), "secret"),
    ],
)
async def test_an_unusable_change_of_a_request_ends_the_run(change: Any, why: str) -> None:
    model = Kept(finish(), profile=NATIVE)
    result = await agent(model=model, hooks=[Narrow(change)], secrets=["sesame-1234"]).run("goal")
    assert (result.status, result.stop_reason) == ("failed", "denied")
    assert why in result.error
    assert model.asked == []


async def test_a_new_change_replaces_the_ruling_on_the_old_call() -> None:
    one = agent(act("pay", amount=5), finish("done"))
    whole = await one.run("goal", run_id="r1")
    ruled = [type(record.event) for record in whole.records].index(e.Decided) + 1
    log = await planted(whole.records[:ruled], MemoryLog())
    RAN.clear()
    result = await one.replace(log=log, hooks=[to(amount=6)]).resume("r1", takeover=True)
    assert RAN == ["pay 6"]
    assert result.steps[0].actions[0].parameters == {"amount": 6}
    await assert_replays(one.replace(log=log), result)


async def test_a_new_change_voids_the_approval_of_the_old_call() -> None:
    one = agent(act("pay", amount=5), finish(), approve=None, policy=ASKS)
    waiting = await one.run("goal")
    (approval,) = await pending(one.log, waiting.run_id)  # type: ignore[arg-type]
    await decide(one.log, approval.id, Decision("approve"))  # type: ignore[arg-type]
    later = one.replace(hooks=[to(amount=6)])
    result = await later.resume(waiting.run_id)
    assert (result.status, RAN) == ("waiting", [])
    (approval,) = await pending(one.log, waiting.run_id)  # type: ignore[arg-type]
    assert approval.action.parameters == {"amount": 6}
    await decide(one.log, approval.id, Decision("approve"))  # type: ignore[arg-type]
    result = await later.resume(waiting.run_id)
    assert RAN == ["pay 6"]
    await assert_replays(one, result)
