"""Changes by hooks are recorded, replayed and requested once; guards fail closed."""

import asyncio
import time
from typing import Any

import pytest

from taofold import (
    AddMessage,
    Agent,
    ChangeRequest,
    ConfigError,
    Decision,
    Delta,
    Hook,
    HookContext,
    InputGuard,
    Limits,
    MemoryLog,
    OutputGuard,
    Principal,
    Reject,
    Replace,
    RunResult,
    tool,
)
from taofold.core import events as e
from taofold.core.values import Action, Profile, Reply
from taofold.runtime.control import decide, pending, steer
from taofold.runtime.model import Request
from taofold.testing.replay import assert_replays
from tests.deadlines import LoopClock
from tests.ports import PATIENCE

from .kit import Died, Memo, MortalLog, act, batch, finish, planted

pytestmark = pytest.mark.anyio
RAN: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


@tool(effect="once", tier=2)
def pay(amount: int) -> str:
    """Pay."""
    RAN.append(f"pay {amount}")
    return f"paid {amount}"


@tool(effect="read")
def look(what: str) -> str:
    """Look."""
    RAN.append(f"look {what}")
    return f"{what} is here"


class Watcher(Hook):
    """A hook that records its calls and returns a given result."""

    def __init__(self, **said: Any) -> None:
        self.said, self.calls = said, list[tuple[str, Any]]()

    def _say(self, point: str, seen: Any) -> Any:
        self.calls.append((point, seen))
        said = self.said.get(point)
        return said(seen) if callable(said) else said

    async def before_model(self, context: HookContext, request: Request) -> Any:
        return self._say("before_model", context.people)

    def after_model(self, context: HookContext, reply: Reply) -> Any:
        return self._say("after_model", reply.text)

    async def before_tool(self, context: HookContext, action: Action) -> Any:
        return self._say("before_tool", (action.tool, dict(action.parameters)))

    def after_tool(self, context: HookContext, action: Action, result: Any) -> Any:
        return self._say("after_tool", result)


def agent(*script: Any, hooks: Any = (), **options: Any) -> Agent[None, str]:
    options.setdefault("approve", "all")
    options.setdefault("log", MemoryLog())
    return Agent(Memo(script), tools=[look, pay], hooks=hooks, **options)


def events(result: RunResult[Any]) -> list[e.Event]:
    return [record.event for record in result.records]


def hooked(result: RunResult[Any]) -> list[e.Hooked]:
    return [event for event in events(result) if isinstance(event, e.Hooked)]


SCRIPT = (act("look", what="a"), finish("done"))


async def test_a_hook_that_only_watches_leaves_the_log_as_it_is() -> None:
    watcher = Watcher()
    plain = await agent(*SCRIPT).run("goal")
    watched = await agent(*SCRIPT, hooks=[watcher]).run("goal")
    assert [type(event) for event in events(watched)] == [type(event) for event in events(plain)]
    assert [point for point, _ in watcher.calls] == [
        *("before_model", "after_model", "before_tool", "after_tool"),
        *("before_model", "after_model"),
    ]
    assert watcher.calls[0][1] == ("goal",)
    assert watcher.calls[2][1] == ("look", {"what": "a"})
    assert watcher.calls[3][1] == "a is here"
    assert watcher.calls[4][1] == ()


POINTS: list[tuple[str, Any]] = [
    ("before_model", Reject("not today")),
    ("before_model", AddMessage("Be kind.")),
    ("after_model", Reject("not this")),
    ("before_tool", Reject("not there")),
    ("after_tool", Reject("not that")),
    ("after_tool", Replace({"hidden": True})),
]


@pytest.mark.parametrize(("point", "said"), POINTS)
async def test_what_a_hook_says_is_replayed_without_calling_it(point: str, said: Any) -> None:
    watcher = Watcher(**{point: said})
    one = agent(*SCRIPT, hooks=[watcher])
    result = await one.run("goal")
    calls, ran = len(watcher.calls), list(RAN)
    again = await one.replay(result)
    assert (again.status, again.output_or_none, again.error) == (
        result.status,
        result.output_or_none,
        result.error,
    )
    without = await one.replace(hooks=()).replay(result)
    assert without.output_or_none == result.output_or_none
    assert (len(watcher.calls), RAN) == (calls, ran)
    await assert_replays(one, result)


def test_a_misspelled_method_is_refused_where_it_is_written() -> None:
    with pytest.raises(
        ConfigError, match=r"before_tol is never called; did you mean 'before_tool'"
    ):

        class Guard(Hook):
            async def before_tol(self, context: Any, action: Any) -> None: ...

    class Fine(Hook):
        async def before_tool(self, context: Any, action: Any) -> None: ...

        async def before(self) -> None: ...


async def test_a_rejected_model_call_is_not_made_and_ends_the_run() -> None:
    one = agent(*SCRIPT, hooks=[Watcher(before_model=Reject("not today"))])
    result = await one.run("goal")
    assert (result.status, result.stop_reason, result.error) == ("failed", "denied", "not today")
    assert result.output_or_none is None
    assert one.model.asked == []  # type: ignore[union-attr]
    assert [event.hook for event in hooked(result)] == ["Watcher"]


def no_plans(text: str) -> str:
    return "no plans" if "plan" in text else ""


async def test_a_rejected_reply_reaches_nobody() -> None:
    heard: list[Any] = []
    one = agent(
        finish("the secret plan"), hooks=[OutputGuard(lambda text: "no plans" * ("plan" in text))]
    )
    result = await one.run("goal", listener=heard.append)
    assert (result.status, result.error, result.output_or_none) == ("failed", "no plans", None)
    assert not [delta for delta in heard if isinstance(delta, Delta)]


async def test_a_reply_that_passed_is_streamed_in_one_piece() -> None:
    heard: list[Any] = []
    one = agent("All is well.", hooks=[Watcher()], strategy="direct")
    await one.run("goal", listener=heard.append)
    assert [delta.text for delta in heard if isinstance(delta, Delta)] == ["All is well."]


async def test_a_message_of_a_hook_stays_in_the_conversation() -> None:
    def once(people: tuple[str, ...]) -> AddMessage | None:
        return AddMessage("Be kind.") if people else None

    one = agent(*SCRIPT, hooks=[Watcher(before_model=once)])
    await one.run("goal")
    for messages in one.model.asked:  # type: ignore[union-attr]
        assert [message.text for message in messages].count("Be kind.") == 1


async def test_a_rejected_call_does_not_run_and_nobody_is_asked() -> None:
    one = agent(
        act("pay", amount=5),
        finish(),
        hooks=[Watcher(before_tool=Reject("no money"))],
    )
    result = await one.run("goal")
    assert RAN == []
    assert result.status == "finished"
    observation = result.steps[0].observations[0]
    assert (observation.result, observation.status) == ("no money", "failure")
    assert not [event for event in events(result) if isinstance(event, e.Decided)]


async def test_what_a_person_edits_is_looked_at_again() -> None:
    def small(call: tuple[str, dict[str, Any]]) -> Reject | None:
        return Reject("too much") if call[1].get("amount", 0) > 10 else None

    one = agent(
        act("pay", amount=5),
        finish(),
        hooks=[Watcher(before_tool=small)],
        approve=lambda approval: Decision("edit", parameters={"amount": 500}),
    )
    result = await one.run("goal")
    assert RAN == []
    assert result.steps[0].observations[0].result == "too much"
    await assert_replays(one, result)


async def test_a_call_that_waited_is_looked_at_again_before_it_runs() -> None:
    watcher = Watcher()
    one = agent(act("pay", amount=5), finish(), hooks=[watcher], approve=None)
    waiting = await one.run("goal")
    assert waiting.status == "waiting"
    (approval,) = await pending(one.log, waiting.run_id)  # type: ignore[arg-type]
    await decide(one.log, approval.id, Decision("approve"))  # type: ignore[arg-type]
    watcher.said["before_tool"] = Reject("closed by now")
    result = await one.resume(waiting.run_id)
    assert RAN == []
    assert result.steps[0].observations[0].result == "closed by now"
    await assert_replays(one, result)


async def test_a_result_can_be_replaced_or_withheld() -> None:
    replaced = await agent(*SCRIPT, hooks=[Watcher(after_tool=Replace("x"))]).run("goal")
    assert replaced.steps[0].observations[0].result == "x"
    withheld = await agent(*SCRIPT, hooks=[Watcher(after_tool=Reject("private"))]).run("goal")
    assert withheld.steps[0].observations[0].result == "private"
    assert "is here" not in str(events(withheld))
    observed = [event for event in events(withheld) if isinstance(event, e.Observed)]
    assert observed[0].hooks == ("Watcher",)


async def test_the_next_hook_sees_the_result_that_the_one_before_put_there() -> None:
    seen: list[Any] = []

    class Second(Hook):
        def after_tool(self, context: HookContext, action: Action, result: Any) -> Any:
            seen.append((action.tool, action.parameters, result))
            return Replace(f"{result}!")

    hooks = [Watcher(after_tool=Replace("x")), Second()]
    result = await agent(*SCRIPT, hooks=hooks).run("goal")
    assert seen == [("look", {"what": "a"}, "x")]
    assert result.steps[0].observations[0].result == "x!"
    observed = [event for event in events(result) if isinstance(event, e.Observed)]
    assert observed[0].hooks == ("Watcher", "Second")


def test_a_hook_that_overrides_nothing_says_nothing() -> None:
    nothing = Hook()
    context: Any = None
    for point in ("before_model", "after_model", "before_tool"):
        assert getattr(nothing, point)(context, None) is None
    assert nothing.after_tool(context, Action("look"), "seen") is None
    assert nothing.name == "Hook"


@pytest.mark.parametrize("point", ["before_model", "after_model", "before_tool", "after_tool"])
@pytest.mark.parametrize("fault", ["raises", "nonsense", "empty"])
async def test_a_broken_guard_lets_nothing_through(point: str, fault: str) -> None:
    def broken(seen: Any) -> Any:
        if fault == "raises":
            raise ValueError("oops")
        return Reject("") if fault == "empty" else "nonsense"

    result = await agent(*SCRIPT, hooks=[Watcher(**{point: broken})]).run("goal")
    if point.endswith("model"):
        assert (result.status, result.output_or_none) == ("failed", None)
        assert "Watcher" in result.error
    else:
        assert "Watcher" in str(result.steps[0].observations[0].result)
        assert "is here" not in str(events(result))
    assert (["look a"] if point == "after_tool" else []) == RAN


class Unreadable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


@pytest.mark.parametrize("text", [True, 5, ["no"], Unreadable()])
@pytest.mark.parametrize(
    ("point", "verdict"),
    [
        ("before_model", Reject),
        ("before_model", AddMessage),
        ("after_model", Reject),
        ("before_tool", Reject),
        ("after_tool", Reject),
    ],
)
async def test_a_verdict_without_text_rejects(point: str, verdict: Any, text: Any) -> None:
    """The verdict counts as a rejection. Mutant: `_no_text` finds nothing."""
    watcher = Watcher(**{point: lambda seen: verdict(text)})
    result = await agent(*SCRIPT, hooks=[watcher]).run("goal")
    why = result.error if point.endswith("model") else result.steps[0].observations[0].result
    assert "the hook Watcher returned a" in str(why)
    assert "not text" in str(why)


async def test_a_guard_that_returns_true_rejects() -> None:
    guard: Any = InputGuard(lambda text: "goal" in text)  # type: ignore[arg-type, return-value]
    result = await agent(*SCRIPT, hooks=[guard]).run("goal")
    assert (result.status, result.stop_reason) == ("failed", "denied")


async def test_an_answer_that_cannot_be_read_rejects() -> None:
    """Mutant: the answer is read outside of the guarded part."""

    class Names(list[str]):
        def __iter__(self) -> Any:
            raise RuntimeError("no names")

    class Fewer(Hook):
        def before_model(self, context: HookContext, request: Request) -> Any:
            return ChangeRequest(tools=Names(["look"]))

    native = Profile(window=100_000, window_known=True, native_tools=True)
    made = agent(*SCRIPT, hooks=[Fewer()])
    result = await made.replace(model=Memo(SCRIPT, profile=native)).run("goal")
    assert (result.status, result.stop_reason) == ("failed", "denied")
    assert "the hook Fewer failed: RuntimeError: no names" in result.error


async def test_the_first_rejection_is_the_last_word() -> None:
    second = Watcher()
    one = agent(*SCRIPT, hooks=[Watcher(before_tool=Reject("no")), second])
    await one.run("goal")
    assert "before_tool" not in [point for point, _ in second.calls]


async def test_secrets_of_a_hook_are_not_written() -> None:
    one = agent(
        *SCRIPT,
        hooks=[Watcher(before_model=Reject("key hunter2hunter2"))],
        secrets=["hunter2hunter2"],
    )
    result = await one.run("goal")
    assert "hunter2hunter2" not in str(events(result))


async def test_an_input_guard_reads_the_goal_and_what_people_say_later() -> None:
    log = MemoryLog()
    seen: list[str] = []

    def check(text: str) -> str:
        seen.append(text)
        return "not that" if "bomb" in text else ""

    async def disturb(approval: Any) -> bool:
        await steer(log, approval.run, "a bomb", by=Principal("ann"))
        return True

    one = agent(
        act("pay", amount=5),
        finish(),
        hooks=[InputGuard(check)],
        approve=disturb,
    ).replace(log=log)
    result = await one.run("goal")
    assert seen == ["goal", "a bomb"]
    assert (result.status, result.error) == ("failed", "not that")
    await assert_replays(one, result)


async def test_the_guards_of_an_agent_guard_those_it_asks() -> None:
    child = Agent(Memo([act("look", what="a"), finish("x")]), tools=[look], name="scout")
    one = Agent(
        Memo([act("scout", goal="look"), finish()]),
        tools=[child],
        hooks=[Watcher(before_tool=lambda call: Reject("no") if call[0] == "look" else None)],
        log=MemoryLog(),
    )
    await one.run("goal")
    assert RAN == []


async def test_after_a_death_a_reply_that_was_not_looked_at_is_looked_at() -> None:
    class Slow(Watcher):
        replies = 0

        async def after_model(self, context: HookContext, reply: Reply) -> Any:
            self.replies += 1
            if self.replies == 1:
                mortal.die()
            return Reject("not this")

    mortal = MortalLog(MemoryLog())
    one = agent(*SCRIPT, hooks=[Slow()], log=mortal.log)
    with pytest.raises(Died):
        await one.replace(log=mortal).run("goal", run_id="r1")
    result = await one.resume("r1", takeover=True)
    assert (result.status, result.error, RAN) == ("failed", "not this", [])
    assert len(one.model.asked) == 1  # type: ignore[union-attr]
    await assert_replays(one, result)


async def test_after_a_death_in_a_call_only_those_are_asked_who_said_nothing() -> None:
    class Dies(Memo):
        async def complete(self, request: Request, on_text: Any = None) -> Reply:
            await super().complete(request, on_text)
            mortal.die()

    mortal = MortalLog(MemoryLog())
    first, second = Watcher(before_model=AddMessage("Be kind.")), Watcher()
    one = agent(*SCRIPT, hooks=[first, second], log=mortal.log)
    with pytest.raises(Died):
        await one.replace(model=Dies(SCRIPT), log=mortal).run("goal", run_id="r1")
    second.said["before_model"] = Reject("stop")
    result = await one.resume("r1", takeover=True)
    assert [point for point, _ in first.calls] == ["before_model"]
    assert [event.hook for event in hooked(result)] == ["Watcher", "Watcher 2"]
    assert result.error == "stop"
    assert one.model.asked == []  # type: ignore[union-attr]
    await assert_replays(one, result)


@pytest.mark.parametrize("point", ["before_model", "after_model", "before_tool", "after_tool"])
async def test_a_hook_that_never_answers_ends_with_the_run_s_seconds(
    point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutants: the run waits without end; the hook is treated as an observer."""
    clock, steady = LoopClock(), time.monotonic_ns

    async def never(self: Hook, *given: Any) -> None:
        clock.jump(900)
        monkeypatch.setattr(time, "monotonic_ns", lambda: steady() + 900_000_000_000)
        await asyncio.Event().wait()

    silent = type("Silent", (Hook,), {point: never})()
    one = agent(act("pay", amount=1), finish("done"), hooks=[silent], limits=Limits(seconds=600))
    result = await one.run("goal")
    assert (result.status, result.stop_reason) == ("limited", "max_seconds")
    assert result.output_or_none is None
    assert (["pay 1"] if point == "after_tool" else []) == RAN
    if point.endswith("tool"):
        (seen,) = result.steps[0].observations
        assert seen.result == "the hook Silent did not answer within the run's seconds"
    else:
        assert not result.steps
    await assert_replays(one, result)


async def test_after_a_death_a_reply_whose_hook_was_late_is_still_read_by_nobody() -> None:
    """Mutant: the limit on record is taken for the hook's word that the reply may pass."""

    class Silent(Hook):
        async def after_model(self, context: HookContext, reply: Reply) -> Any:
            LoopClock().jump(900)
            await asyncio.Event().wait()

    script = (act("pay", amount=1), finish("done"))
    one = agent(*script, hooks=[Silent()], limits=Limits(seconds=600))
    result = await one.run("goal", run_id="r")
    records = [record for record in result.records if not isinstance(record.event, e.RunFinished)]
    left = await planted(records, MemoryLog())
    later = agent(*script, hooks=[Watcher()], log=left)
    done = await later.resume("r")
    assert (done.stop_reason, RAN) == ("max_seconds", [])


def test_what_is_no_hook_is_refused() -> None:
    with pytest.raises(ConfigError, match="hooks"):
        Agent(Memo(), hooks=[print]).run_sync("goal")  # type: ignore[list-item]


async def test_hooks_are_awaited_side_by_side() -> None:
    """Two calls of one batch do not wait for each other's hooks."""
    together = asyncio.Event()

    class Meets(Hook):
        waiting = 0

        async def after_tool(self, context: HookContext, action: Action, result: Any) -> None:
            self.waiting += 1
            if self.waiting == 2:
                together.set()
            await asyncio.wait_for(together.wait(), PATIENCE)

    result = await agent(
        batch(("look", {"what": "a"}), ("look", {"what": "b"})), finish(), hooks=[Meets()]
    ).run("goal")
    assert result.status == "finished"


async def test_what_a_hook_may_return_is_said() -> None:
    result = await agent(*SCRIPT, hooks=[Watcher(before_tool=True)]).run("goal")
    observation = result.steps[0].observations[0]
    assert observation.result == (
        "the hook Watcher returned bool in before_tool, not None or Reject or ReplaceArguments"
    )
    assert RAN == []


async def test_a_class_in_the_place_of_a_hook_is_refused() -> None:
    with pytest.raises(ConfigError, match="pass an instance"):
        await agent(*SCRIPT, hooks=[Watcher]).run("goal")
