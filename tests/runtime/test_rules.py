"""The loop's rules as a run enforces them: strict and lenient, batches, limits, the end."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from taofold import Agent, Limits, MemoryLog, Outcome, RunContext, Tier, tool
from taofold.core import events as e
from taofold.core.errors import ConfigError, LimitReached, ModelError
from taofold.core.metrics import measure
from taofold.core.values import Profile, Reply, ToolCall, Usage
from taofold.testing import FunctionModel, ScriptedModel
from tests.deadlines import LoopClock

from .kit import Memo, act, batch, events, finish, kinds

pytestmark = pytest.mark.anyio

RAN: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


@tool(effect="read")
def look(what: str = "it") -> str:
    """Look."""
    RAN.append(what)
    return f"{what} has item_{len(RAN)}"


@tool(effect="read")
def fail(what: str = "it") -> str:
    """Fail."""
    RAN.append(what)
    raise ValueError(f"no {what} here")


@tool(effect="once", tier=1, reversible=True)
def send(text: str) -> str:
    """Send."""
    RAN.append(text)
    return "sent"


async def run(*script: Any, **options: Any) -> Any:
    options.setdefault("tools", [look, fail, send])
    model = options.pop("model", None) or ScriptedModel(script)
    options["instructions"] = "Be good."
    return await Agent(model, **options).run("goal")


def rules(result: Any) -> list[str]:
    return [event.rule for event in events(result, e.Violated)]


NO_THOUGHT = '{"action": {"tool": "look", "parameters": {}, "rationale": "r"}}'


@dataclass(frozen=True)
class Counted:
    count: int


BROKEN = '{"thought": "I look", "action": {"tool": "look", "parameters": {"what": '
NO_ACTION = '{"thought": "hm, what now", "thought_type": "reasoning"}'


@pytest.mark.scenario("TAO-01", "TAO-19", "TAO-14")
async def test_every_step_is_a_triplet_and_finish_closes_the_last() -> None:
    result = await run(
        act("look", what="a"), batch(("look", {"what": "b"}), ("look", {})), finish()
    )
    assert result.success
    assert len(result.steps) == 3
    for step in result.steps:
        assert step.thought.content
        assert step.actions
        assert len(step.actions) == len(step.observations)
    assert result.steps[-1].actions[0].tool == "finish"
    assert result.steps[-1].observations[0].result == "done"
    assert result.metrics.thought_to_action_ratio == 1.0
    order = kinds(result, "Replied", "Proposed", "Observed")
    assert order == ["Replied", "Proposed", "Observed"] * 1 + [
        *["Replied", "Proposed", "Observed", "Observed"],
        *["Replied", "Proposed", "Observed"],
    ]


async def test_lenient_mode_marks_a_thought_that_it_made_up() -> None:
    result = await run(NO_THOUGHT, finish())
    assert result.steps[0].thought.synthesized
    assert rules(result) == ["R1"]
    assert RAN == ["it"]


@pytest.mark.scenario("TAO-03")
@pytest.mark.parametrize("strict", [True, False])
async def test_a_thought_without_an_action_is_corrected_and_never_an_answer(strict: bool) -> None:
    result = await run(NO_ACTION, NO_ACTION, finish(), strict=strict)
    assert rules(result) == ["R2", "R2"]
    assert result.output == "done"


@pytest.mark.scenario("TAO-09")
async def test_a_failed_action_repeated_unchanged_is_blocked() -> None:
    again = act("fail", "again", "exception")
    end = act("finish", "it cannot be done", "exception", answer="no")
    result = await run(act("fail"), again, end)
    assert RAN == ["it"]
    assert "repeat_same_action_unchanged" in rules(result)
    assert result.steps[1].observations[0].refused == "repeat_same_action_unchanged"
    RAN.clear()
    longer = act("fail", "more time", "exception", timeout_s=90)
    await run(act("fail"), longer, end)
    assert RAN == ["it", "it"]


@pytest.mark.scenario("TAO-06", "TAG-06", "TAG-09", "RCT-05")
async def test_what_cannot_run_becomes_an_observation_and_no_call() -> None:
    nameless = '{"thought": "t", "thought_type": "goal", "action": {"parameters": {}}}'
    result = await run(act("send"), act("nope", x=1), nameless, finish())
    assert result.output == "done", "the loop goes on"
    first, second, third = [step.observations[0] for step in result.steps[:3]]
    assert [first.status, second.status, third.status] == ["failure"] * 3
    assert "tool" in str(third.result)
    assert "text" in str(first.result)
    assert first.refused == "invalid"
    assert "unknown tool 'nope'; available tools: fail, look, send" in str(second.result)
    assert result.state.data == {}
    assert RAN == []
    assert result.state.tool_calls == 0
    assert result.state.refused_calls == 3


@pytest.mark.scenario("TAO-07")
async def test_a_call_that_returns_has_a_duration_a_result_and_an_extraction() -> None:
    result = await run(act("look"), finish())
    observation = result.steps[0].observations[0]
    assert observation.status == "success"
    assert observation.duration_ms >= 0
    assert observation.result
    assert observation.extraction
    times = [record.at for record in result.records]
    assert times == sorted(times)


@pytest.mark.scenario("TAO-10", "TAG-22", "PEER-24")
async def test_a_call_that_hangs_times_out_with_what_it_said_so_far() -> None:
    @tool(effect="read", timeout=0.02)
    async def slow(ctx: RunContext) -> str:
        """Slow."""
        ctx.report("half of it")
        await asyncio.Event().wait()
        return ""

    result = await run(act("slow"), finish(), tools=[slow])
    observation = result.steps[0].observations[0]
    assert observation.status == "timeout"
    assert observation.duration_ms >= 20
    assert "half of it" in observation.result
    assert observation.options == ("retry with a longer timeout_s", "try an alternative action")
    assert "timeout_s" in observation.options[0]
    assert tool(effect="read")(slow.function).timeout == 60


async def test_a_timeout_of_the_tools_own_is_a_failure() -> None:
    @tool(effect="read")
    async def remote() -> str:
        """Remote."""
        raise TimeoutError("their server")

    result = await run(act("remote"), finish(), tools=[remote])
    assert result.steps[0].observations[0].status == "failure"


@pytest.mark.scenario("TAO-11")
async def test_a_partial_result_is_no_success() -> None:
    @tool(effect="read")
    def half() -> Outcome:
        """Half."""
        return Outcome("3 of 6", status="partial")

    result = await run(act("half"), finish(), tools=[half])
    assert result.steps[0].observations[0].status == "partial"
    assert result.metrics.observation_success_rate < 100


@pytest.mark.scenario("TAO-12")
async def test_grounding_is_measured_from_the_log() -> None:
    result = await run(
        act("look", what="cats"),
        act("look", "item_1 is there", what="dogs"),
        act("look", "I guess", what="mice"),
        finish(),
    )
    metrics = measure(result.records)
    assert (metrics.grounded, metrics.grounding_eligible) == (1, 3)
    assert metrics.grounding_score == result.metrics.grounding_score == 33.3


@pytest.mark.scenario("TAO-20")
async def test_a_critical_exception_pauses_before_the_next_action() -> None:
    reply = (
        '{"thought": "data may be lost", "thought_type": "exception", "critical": true, '
        '"action": {"tool": "look", "parameters": {}, "rationale": "r"}}'
    )
    result = await run(act("fail"), reply, finish())
    assert result.status == "waiting"
    assert RAN == ["it"]
    assert result.pending[0].action.tool == "look"
    assert "critical" in result.pending[0].reason


# D4, D6, D7 -----------------------------------------------------------------------------


@pytest.mark.scenario("TEA-08")
async def test_an_invented_observation_is_cut_and_recorded() -> None:
    text = (
        'Thought: look first\nAction: look\nAction Input: {"what": "a"}\n'
        'Observation: a has gold\nThought: sell it\nAction: send\nAction Input: {"text": "x"}'
    )
    model = ScriptedModel([text, finish()])
    result = await run(model=model)
    assert RAN == ["a"]
    assert "role_violation" in rules(result)
    assert "a has gold" not in model.requests[1].text


@pytest.mark.scenario("PEER-11")
async def test_prose_about_a_command_runs_nothing() -> None:
    result = await run("You could now send it: send(text='x'). That would do.")
    assert RAN == []
    assert result.stop_reason == "no_tool_call"
    assert result.success


@pytest.mark.scenario("PEER-10", "RCT-24")
async def test_malformed_arguments_never_become_an_empty_call() -> None:
    profile = Profile(window=10**6, window_known=True, native_tools=True)
    broken = Reply("calling", calls=(ToolCall("send", '{"text": "he', "c1"),))
    model = ScriptedModel([broken, "all right, it is sent"], profile=profile)
    result = await run(model=model)
    assert RAN == []
    assert result.steps[0].observations[0].status == "failure"
    told = model.requests[1].messages
    assert told[-2].calls[0].id == told[-1].results[0].id == "c1"


@pytest.mark.scenario("RCT-24")
async def test_a_blank_reply_is_corrected_and_never_an_answer() -> None:
    result = await run("", "   ", finish("x"))
    assert rules(result) == ["empty", "empty"]
    assert result.output == "x"


async def test_content_that_was_repaired_never_reaches_a_tool_that_runs_once() -> None:
    cut = (
        '{"thought": "t", "thought_type": "goal", "action": {"tool": "%s", "rationale": "r", '
        '"parameters": {"%s": "half of the te'
    )
    result = await run(cut % ("send", "text"), cut % ("send", "text"), finish())
    assert RAN == []
    assert result.metrics.model_calls == 3


# D1, D2 ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "options", "stop", "status", "success"),
    [
        ([finish()], {}, "final_answer", "finished", True),
        (["just prose"], {}, "no_tool_call", "finished", True),
        ([act("look"), finish("w")], {"limits": Limits(steps=2)}, "final_answer", "finished", True),
        ([act("look"), "w"], {"limits": Limits(steps=2)}, "no_tool_call", "finished", True),
        (
            [act("look"), act("look", what="b"), finish("w")],
            {"limits": Limits(steps=2)},
            "max_steps",
            "limited",
            False,
        ),
        (
            [act("look"), finish("w")],
            {"limits": Limits(model_calls=2)},
            "final_answer",
            "finished",
            True,
        ),
        (
            [act("look"), act("look", what="b")],
            {"limits": Limits(model_calls=2)},
            "max_model_calls",
            "limited",
            False,
        ),
        (
            [act("look"), finish("w")],
            {"limits": Limits(tool_calls=1)},
            "final_answer",
            "finished",
            True,
        ),
        (
            [act("look"), act("look", what="b"), finish("w")],
            {"limits": Limits(tool_calls=1)},
            "max_tool_calls",
            "limited",
            False,
        ),
        (
            [batch(("look", {"what": "a"}), ("look", {"what": "b"})), finish("w")],
            {"limits": Limits(tool_calls=1)},
            "max_tool_calls",
            "limited",
            False,
        ),
        (
            [batch(("look", {}), ("finish", {"answer": "w"}))],
            {"limits": Limits(steps=1)},
            "max_steps",
            "limited",
            False,
        ),
        (
            [act("look"), act("finish", answer="w", success=False)],
            {"limits": Limits(steps=2)},
            "max_steps",
            "limited",
            False,
        ),
        ([act("look")], {"limits": Limits(tokens=1)}, "max_tokens", "limited", False),
        ([act("look")], {"limits": Limits(seconds=0.0)}, "max_seconds", "limited", False),
        ([act("danger")], {}, "awaiting_approval", "waiting", False),
        ([act("ask_user", question="?")], {"ask_user": True}, "awaiting_input", "waiting", False),
        ([act("never")], {"on_denial": "stop"}, "denied", "failed", False),
        ([ModelError("down")], {}, "error", "failed", False),
        ([BROKEN] * 3, {}, "error", "failed", False),
    ],
)
async def test_how_a_run_ends(
    script: list[Any], options: Any, stop: str, status: str, success: bool
) -> None:
    @tool(tier=3)
    def danger() -> str:
        """Dangerous."""
        return "boom"

    @tool(tier=4)
    def never() -> str:
        """Forbidden."""
        return "boom"

    model = Memo(script)
    result = await run(model=model, tools=[look, danger, never], **options)
    assert (result.stop_reason, result.status, result.success) == (stop, status, success)


async def endless(usage: Usage = Usage(100, 10), **options: Any) -> tuple[Any, list[Any]]:
    asked: list[Any] = []

    def reply(request: Any) -> Reply:
        asked.append(request)
        return Reply(act("look", what=f"n{len(asked)}"), usage=usage)

    model = FunctionModel(reply, usd=(10.0, 10.0))
    return await run(model=model, **options), asked


@pytest.mark.scenario("TEA-06", "PEER-12", "TAG-12")
@pytest.mark.parametrize(("steps", "calls"), [(0, 0), (1, 2), (3, 4)])
async def test_max_steps_bounds_the_model_calls(steps: int, calls: int) -> None:
    """The last turn requests an answer: a tool call is no valid reply."""
    result, asked = await endless(limits=Limits(steps=steps))
    assert len(asked) == calls
    assert result.stop_reason == "max_steps"
    assert not result.success
    assert result.output_or_none is None
    assert len(result.steps) == max(0, steps - 1)
    hits = events(result, e.LimitHit)
    assert [hit.limit for hit in hits] == ["steps"]


@pytest.mark.parametrize(
    ("limits", "stop", "spent"),
    [
        (Limits(model_calls=4, steps=None), "max_model_calls", 4),
        (Limits(tool_calls=2), "max_tool_calls", 5),
        (Limits(tokens=22_000), "max_tokens", 2),
        (Limits(tokens=22_001), "max_tokens", 2),  # the third prompt alone would pass it
        (Limits(tokens=26_000), "max_tokens", 3),
        (Limits(usd=0.05), "max_usd", 9),
    ],
)
async def test_each_limit_stops_before_the_call_that_would_pass_it(
    limits: Limits, stop: str, spent: int
) -> None:
    usage = Usage(11_000, 0) if limits.tokens else Usage(100, 10)
    result, asked = await endless(usage, limits=limits)
    assert (result.stop_reason, result.status) == (stop, "limited")
    assert len(asked) <= spent
    if limits.tokens is not None:
        assert len(asked) == spent
    if limits.usd is not None:
        assert result.usage.usd <= limits.usd


async def test_a_prompt_that_a_token_limit_does_not_hold_is_never_sent() -> None:
    result, asked = await endless(limits=Limits(tokens=10))
    assert asked == []
    assert result.usage.tokens == 0


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(steps=2), "all 2 steps were used: raise limits.steps"),
        (
            Limits(steps=None, model_calls=2),
            "all 2 model calls were used: raise limits.model_calls",
        ),
        (Limits(tool_calls=2), "2 of 2 tool calls were used: raise limits.tool_calls"),
        (Limits(tokens=10), "0 of 10 tokens were spent, and the next prompt alone has about"),
        (Limits(usd=0.01), "$0.0000 of $0.0100 was spent, and the next call may cost up to $0.0"),
    ],
)
async def test_a_limit_says_what_was_allowed_spent_and_needed(limits: Limits, words: str) -> None:
    result, _ = await endless(limits=limits)
    assert result.status == "limited"
    assert words in result.error
    assert f"raise limits.{[hit.limit for hit in events(result, e.LimitHit)][-1]}" in result.error


async def test_a_limited_run_replays_with_its_explanation() -> None:
    model = FunctionModel(lambda _: Reply(finish("x"), usage=Usage(1, 1)), usd=(10.0, 10.0))
    log = MemoryLog()
    agent = Agent(model, limits=Limits(usd=0.0001), log=log)
    result = await agent.run("g")
    assert "limits.usd" in result.error
    assert (await agent.replay(result)).error == result.error


async def test_a_usd_limit_with_an_unknown_price_is_refused_before_the_first_call() -> None:
    model = Memo([finish()], usd=None)
    with pytest.raises(ConfigError, match="price"):
        await run(model=model, limits=Limits(usd=1.0))
    assert model.asked == []


async def test_a_call_whose_upper_bound_does_not_fit_the_budget_is_not_made() -> None:
    model = Memo([finish()], usd=(0.0, 1000.0))
    result = await run(model=model, limits=Limits(usd=0.5))
    assert model.asked == []
    assert result.stop_reason == "max_usd"


async def test_a_limit_per_tool_holds_inside_a_batch() -> None:
    calls = [("look", {"what": f"w{n}"}) for n in range(4)]
    result = await run(batch(*calls, ("fail", {})), finish(), limits=Limits(per_tool={"look": 2}))
    assert sorted(RAN) == ["it", "w0", "w1"]
    refused = [o.refused for o in result.steps[0].observations]
    assert refused == ["", "", "tool_limit", "tool_limit", ""]


@pytest.mark.scenario("RCT-01", "RCT-04")
async def test_chat_limits_allow_eight_calls_and_end_with_an_answer() -> None:
    """The model calls tools until the very last call that it has: three are forbidden."""
    asked: list[Any] = []

    def reply(request: Any) -> Reply:
        asked.append(request)
        if len(asked) == 8:
            return Reply(finish("wrapped up"))
        return Reply(act("look", what=f"n{len(asked)}"))

    result = await run(model=FunctionModel(reply), limits=Limits.chat())
    assert len(asked) == 8
    assert result.state.tool_calls == 5
    assert result.output == "wrapped up"
    assert result.stop_reason == "max_tool_calls"
    assert "5 of 5 tool calls were used: raise limits.tool_calls" in result.error
    assert not result.success
    assert result.partial


@pytest.mark.scenario("RCT-01", "RCT-02")
@pytest.mark.parametrize("calls", [4, 5])
async def test_five_calls_of_a_chat_and_an_answer_are_a_success(calls: int) -> None:
    replies = [act("look", what=f"n{number}") for number in range(calls)]
    result = await run(*replies, finish("w"), limits=Limits.chat())
    assert (result.success, result.error, result.state.tool_calls) == (True, "", calls)


@pytest.mark.parametrize("bad", [0, 1, 2])
async def test_a_reply_that_is_asked_for_again_costs_no_step(bad: int) -> None:
    replies = [act("look"), *[BROKEN] * bad]
    result = await run(*replies, act("look", what="b"), finish("w"), limits=Limits(steps=3))
    assert (result.success, len(result.steps)) == (True, 3)


BOUNDS = {
    "steps": (Limits(steps=3), "max_steps"),
    "model calls": (Limits(model_calls=4, steps=None), "max_model_calls"),
    "tool calls": (Limits(tool_calls=3), "max_tool_calls"),
    "tokens": (Limits(tokens=40_000), "max_tokens"),
    "usd": (Limits(usd=0.5), "max_usd"),
    "seconds": (Limits(seconds=600), "max_seconds"),
}


async def bounded(name: str, **options: Any) -> tuple[Any, list[str]]:
    """Returns a run that reaches this limit, with its model's replies."""
    said: list[str] = []

    async def reply(request: Any) -> Reply:
        last = "last turn" in request.conversation[-1].content
        if name == "seconds" and len(said) == 3:
            LoopClock().jump(900)
            await asyncio.Event().wait()
        again = "No tool can be used" in request.conversation[-1].content
        calls = act("look", what=f"n{len(said)}")
        # The model calls one more tool in its last turn, and obeys the refusal.
        answer = act("finish", answer="as far as I came", success=False)
        said.append(answer if again or (last and name == "model calls") else calls)
        return Reply(said[-1], usage=Usage(11_000 if name in ("tokens", "usd") else 1, 0))

    model = FunctionModel(reply, usd=(10.0, 10.0))
    return await run(model=model, limits=BOUNDS[name][0], **options), said


@pytest.mark.scenario("PEER-12")
@pytest.mark.parametrize("name", BOUNDS)
async def test_whichever_limit_ends_a_run_its_work_its_messages_and_a_best_answer_are_there(
    name: str,
) -> None:
    result, said = await bounded(name)
    stop = BOUNDS[name][1]
    assert (result.stop_reason, result.status, result.success) == (stop, "limited", False)
    worked = [step for step in result.steps if step.actions[0].tool == "look"]
    assert len(worked) >= 2
    assert [step.observations[0].result for step in worked] == [
        f"n{number} has item_{number + 1}" for number in range(len(worked))
    ]
    assert [event.text for event in events(result, e.Replied)] == said
    if stop in ("max_steps", "max_model_calls", "max_tool_calls"):  # a call was left for it
        assert result.output == "as far as I came"
    else:
        assert result.output_or_none is None
        assert f"item_{len(worked)}" in result.partial


@pytest.mark.scenario("PEER-12")
@pytest.mark.parametrize("name", BOUNDS)
async def test_a_limit_is_an_exception_only_if_that_was_asked_for(name: str) -> None:
    with pytest.raises(LimitReached) as caught:
        await bounded(name, raise_on_limit=True)
    assert caught.value.result.stop_reason == BOUNDS[name][1]
    assert len(caught.value.result.steps) >= 2


@pytest.mark.scenario("RCT-02", "RCT-03")
@pytest.mark.parametrize(("first", "second"), [(3, 3), (4, 4)])
async def test_exactly_five_calls_run_under_chat_limits(first: int, second: int) -> None:
    result = await run(
        batch(*[("look", {"what": f"a{n}"}) for n in range(first)]),
        batch(*[("look", {"what": f"b{n}"}) for n in range(second)]),
        finish("that is all"),
        limits=Limits.chat(),
    )
    assert len(RAN) == 5
    assert result.output == "that is all"
    said = [str(o.result) for o in result.steps[1].observations if o.refused]
    assert len(said) == first + second - 5
    assert all("limit reached" in text for text in said)


@pytest.mark.parametrize("frame", ["Sure: {}", "{}\nThat is it.", "Sure:\n```json\n{}\n```\nDone."])
async def test_prose_around_finish_is_no_reason_to_ask_again(frame: str) -> None:
    result = await run(frame.format(finish("x")))
    assert (result.output, result.metrics.model_calls) == ("x", 1)
    assert "beside_prose" in result.steps[0].actions[0].repairs


@pytest.mark.parametrize("frame", ["Sure: {}", "{}\nThat is it."])
@pytest.mark.parametrize("call", [act("look"), act("send", text="t")], ids=["read", "write"])
async def test_prose_around_a_call_is_asked_about(frame: str, call: str) -> None:
    """Mutant: calls of tools that only read are taken in any position."""
    result = await run(frame.format(call), finish("x"))
    assert RAN == []
    assert rules(result) == ["unreadable"]


@pytest.mark.parametrize("limits", [Limits(steps=3), Limits(model_calls=3)])
async def test_the_warning_comes_in_the_last_turn_and_in_no_earlier_one(limits: Limits) -> None:
    model = ScriptedModel([act("look"), act("look", what="b"), finish("x")])
    result = await run(model=model, limits=limits)
    warned = ["last turn" in request.last for request in model.requests]
    assert (warned, result.success) == ([False, False, True], True)


async def test_parse_retries_are_no_steps_but_model_calls() -> None:
    result = await run(BROKEN, BROKEN, finish(), limits=Limits(steps=5))
    assert len(result.steps) == 1
    assert result.metrics.model_calls == 3


@pytest.mark.scenario("TAG-10", "TEA-10")
async def test_the_third_attempt_counts_and_the_error_was_fed_back() -> None:
    model = ScriptedModel(["no JSON at all", BROKEN, finish(3)])
    result = await run(model=model, output=int)
    assert result.output == 3
    assert "no JSON at all" in model.requests[1].text
    lost = await run(BROKEN, BROKEN, BROKEN)
    assert lost.status == "failed"
    assert "3 attempts" in lost.error


@pytest.mark.scenario("TAG-10")
async def test_the_correction_names_the_failing_path() -> None:
    """The correction contains the location and the error."""
    model = ScriptedModel([finish({"count": "many"}), BROKEN, finish({"count": 3})])
    result = await run(model=model, output=Counted)
    assert result.output == Counted(3)
    assert "count" in model.requests[1].last
    assert "int" in model.requests[1].last
    assert "cut off" in model.requests[2].last


async def test_raise_on_limit_raises_with_the_result() -> None:
    with pytest.raises(LimitReached) as caught:
        await run(act("look"), finish("w"), limits=Limits(steps=1), raise_on_limit=True)
    assert caught.value.result.output == "w"
    assert "raise limits.steps" in str(caught.value)


async def test_three_calls_in_a_row_that_cannot_run_end_with_an_answer() -> None:
    result = await run(act("a"), act("b"), act("c"), finish("gave up"))
    assert result.stop_reason == "loop_detected"
    assert result.output == "gave up"


@pytest.mark.scenario("TAG-23")
async def test_a_batch_overlaps_and_updates_fold_in_declared_order() -> None:
    meet = asyncio.Barrier(2)

    @tool(effect="read")
    async def first() -> Outcome:
        """First."""
        await meet.wait()
        await asyncio.sleep(0.005)
        return Outcome("1", update=("who", "first"))

    @tool(effect="read")
    async def second() -> Outcome:
        """Second."""
        await meet.wait()
        return Outcome("2", update=("who", "second"))

    result = await run(batch(("first", {}), ("second", {})), finish(), tools=[first, second])
    assert result.state.data["who"] == "second"


async def test_a_sequential_tool_runs_alone() -> None:
    running: list[str] = []

    @tool(effect="read", sequential=True)
    async def alone() -> str:
        """Alone."""
        assert running == []
        running.append("x")
        await asyncio.sleep(0)
        running.clear()
        return "ok"

    @tool(effect="read")
    async def other() -> str:
        """Other."""
        assert running == []
        return "ok"

    calls = [("other", {}), ("alone", {}), ("alone", {}), ("other", {})]
    result = await run(batch(*calls), finish(), tools=[alone, other])
    assert all(o.status == "success" for o in result.steps[0].observations)


@pytest.mark.scenario("RCT-22")
async def test_a_provider_that_fails_ends_the_run_without_a_storm() -> None:
    model = Memo([ModelError("down", kind="server")])
    log = MemoryLog()
    result = await Agent(model, log=log).run("goal")
    assert (result.status, result.stop_reason) == ("failed", "error")
    assert "down" in result.error
    assert len(model.asked) == 1
    assert kinds(result)[-2:] == ["AskFailed", "RunFinished"]


@pytest.mark.scenario("RCT-29")
async def test_a_tool_that_returns_success_false_has_failed_and_the_loop_goes_on() -> None:
    @tool(effect="read")
    def search() -> dict[str, Any]:
        """Search."""
        return {"success": False, "error": "no such row"}

    model = ScriptedModel([act("search"), act("look", "no row", "exception"), finish()])
    result = await run(model=model, tools=[search, look])
    assert [step.observations[0].status for step in result.steps[:2]] == ["failure", "success"]
    assert "no such row" in model.requests[1].last
    assert result.success


@pytest.mark.scenario("RCT-25")
async def test_a_megabyte_of_result_fits_the_prompt_and_keeps_its_errors() -> None:
    @tool(effect="read")
    def big() -> str:
        """Big."""
        lines = [f"line {n} is fine" for n in range(60_000)]
        lines[30_000] = "ERROR: the disk is full"
        return "\n".join(lines)

    model = ScriptedModel([act("big"), finish()])
    log = MemoryLog()
    result = await run(model=model, tools=[big], log=log)
    observation = result.steps[0].observations[0]
    assert len(str(observation.result)) <= 16_384
    assert "the disk is full" in observation.result
    assert len(await log.blob(observation.blob)) > 900_000
    assert len(model.requests[1].text) < 40_000


@pytest.mark.scenario("RCT-25")
async def test_large_results_fit_the_window_together_and_the_newest_keeps_its_errors() -> None:
    @tool(effect="read")
    def big(what: str) -> str:
        """Big."""
        return "\n".join([f"line {n} is fine" for n in range(6_000)] + [f"ERROR: {what} is full"])

    script = [act("big", f"look {n}", what=f"disk {n}") for n in range(8)]
    profile = Profile(window=20_000, window_known=True)
    model = ScriptedModel([*script, finish()], profile=profile)
    result = await run(model=model, tools=[big], log=MemoryLog(), limits=Limits(steps=20))
    assert result.success
    assert events(result, e.Compacted)
    sizes = [len(request.text) for request in model.requests]
    assert max(sizes) < profile.window * 4
    for number, request in enumerate(model.requests[1:]):
        assert f"ERROR: disk {number} is full" in request.text


def test_tiers_are_ordered() -> None:
    assert Tier.AUTO < Tier.CARD < Tier.CONFIRM < Tier.FORBIDDEN
