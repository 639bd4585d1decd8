"""Replay, travel, fork, rewind: the log derives itself again, and mutants are caught (D13, D14)."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as replace_struct

from taofold import Agent, Decision, Limits, MemoryLog, Policy, Store, tool
from taofold.core import events as e
from taofold.core.effects import note
from taofold.core.errors import Refused, ReplayDiverged
from taofold.core.events import encode
from taofold.core.state import fold
from taofold.policy import Ruling
from taofold.reasoning import Task, react
from taofold.runtime.control import decide
from taofold.runtime.run import fork, rewind
from taofold.testing.replay import assert_replays

from .kit import Memo, act, batch, events, finish, neutral, planted
from .payer import RAN, agent

pytestmark = pytest.mark.anyio


SCRIPT = (act("look", what="a"), '{ "thought": ', batch(("look", {}), ("nope", {})), finish())


@pytest.mark.scenario("PEER-17")
async def test_a_replay_calls_nothing_and_writes_nothing() -> None:
    one = agent(*SCRIPT)
    result = await one.run("goal")
    ran, asked = list(RAN), len(one.model.asked)
    before = await one.log.read(result.run_id)
    again = await one.replay(result)
    assert ran == RAN
    assert len(one.model.asked) == asked
    assert again.output == result.output
    assert neutral(again.state) == neutral(result.state)
    assert await one.log.read(result.run_id) == before
    await assert_replays(one, result)


@pytest.mark.scenario("PEER-17")
async def test_a_changed_prompt_shows_the_first_difference() -> None:
    one = agent(*SCRIPT)
    result = await one.run("goal")
    with pytest.raises(ReplayDiverged) as caught:
        await one.replace(instructions="Be brief.").replay(result)
    assert caught.value.key == "1"
    assert "prompt" in str(caught.value)


CANCELLED = {"status": "cancelled", "stop_reason": "cancelled", "success": False}
FAILED = {"status": "failed", "stop_reason": "error", "success": False}


@pytest.mark.parametrize(
    ("end", "diverges"),
    [
        ({}, False),
        ({"output": "another"}, True),
        ({"success": False}, True),
        ({"stop_reason": "no_tool_call"}, True),
        ({**CANCELLED, "output": None}, False),
        ({**CANCELLED, "output": None, "success": True}, True),
        (CANCELLED, True),
        ({**FAILED, "output": None}, False),
        (FAILED, True),
    ],
)
async def test_a_run_that_ends_otherwise_than_its_log_says_diverges_at_its_end(
    end: dict[str, Any], diverges: bool
) -> None:
    """Cancellations and errors came from the world, which a replay does not touch.

    They give no answer.
    """
    one = agent(*SCRIPT)
    result = await one.run("goal")
    last = result.records[-1]
    told = [*result.records[:-1], replace_struct(last, event=replace_struct(last.event, **end))]
    other = one.replace(log=await planted(told, MemoryLog()))
    if not diverges:
        await other.replay(result.run_id)
        return
    with pytest.raises(ReplayDiverged) as caught:
        await other.replay(result.run_id)
    assert caught.value.key == "end"


async def mutant(one: Agent[Any, Any], result: Any) -> None:
    with pytest.raises(ReplayDiverged):
        await one.replay(result)
    with pytest.raises(AssertionError):
        await assert_replays(one, result)


async def test_replay_catches_a_mutant_of_the_policy() -> None:
    class Lax(Policy):
        def rule(self, *args: Any, **kwargs: Any) -> Ruling:
            return Ruling("allow", super().rule(*args, **kwargs).tier)

    one = agent(act("pay", amount=1), finish())
    result = await one.run("goal")
    await decide(one.log, result.pending[0].id, Decision("approve"))
    done = await one.resume(result)
    await assert_replays(one, done)
    await mutant(one.replace(policy=Lax()), done)
    await mutant(one.replace(policy=Policy(deny=frozenset({"look", "pay"}))), done)


async def test_replay_catches_a_mutant_of_a_limit() -> None:
    one = agent(*[act("look", what=str(n)) for n in range(6)], finish(), limits=Limits(steps=4))
    result = await one.run("goal")
    await assert_replays(one, result)
    await mutant(one.replace(limits=Limits(steps=6)), result)


@pytest.mark.parametrize("mutation", ["swallows", "adds", "stops", "renames"])
async def test_replay_catches_a_mutant_of_the_strategy(mutation: str) -> None:
    def mutated(task: Task) -> Any:
        inner = react(task)
        result = None
        try:
            while True:
                effect = inner.send(result)
                name = type(effect).__name__
                if mutation == "swallows" and name == "Note":
                    result = None
                    continue
                if mutation == "adds" and name == "Act":
                    yield from note("extra", x=1)
                if mutation == "stops" and name == "Act":
                    return None
                if mutation == "renames" and name == "Act":
                    thought = replace(effect.thought) if False else effect.thought
                    actions = tuple(
                        type(a)(a.tool, {**a.parameters, "z": 1}, a.rationale)
                        for a in effect.actions
                    )
                    effect = type(effect)(thought, actions, effect.local)
                result = yield effect
        except StopIteration as stop:
            return stop.value

    one = agent(*SCRIPT)
    result = await one.run("goal")
    mutated.__name__ = "react"
    await mutant(one.replace(strategy=mutated), result)


async def test_replay_catches_a_mutant_of_the_parser_through_its_record() -> None:
    """A parser that reads another value from the same reply gives another `Proposed`."""
    one = agent(*SCRIPT)
    result = await one.run("goal", run_id="r")
    log = MemoryLog()
    records = list(result.records)
    for place, record in enumerate(records):
        event = record.event
        if isinstance(event, e.Replied) and '"a"' in event.text:
            changed = e.Replied(key=event.key, prompt=event.prompt, content=act("look", what="b"))
            records[place] = e.Record(record.run, record.seq, record.at, changed)
    await planted(records, log)
    with pytest.raises(ReplayDiverged):
        await one.replace(log=log).replay("r")


async def test_resume_only_records_a_changed_prompt() -> None:
    one = agent(act("look"), act("pay", amount=1), finish())
    result = await one.run("goal")
    await decide(one.log, result.pending[0].id, Decision("approve"))
    reworded = one.replace(instructions="Be brief.", model=Memo([finish("new words")]))
    done = await reworded.resume(result)
    assert done.output == "new words"
    assert len(events(done, e.PromptChanged)) == 1
    assert neutral(fold(await one.log.read(done.run_id))) == neutral(done.state)


async def test_an_upgrade_that_notes_more_strands_no_waiting_run() -> None:
    def noting(task: Task) -> Any:
        inner, result = react(task), None
        try:
            while True:
                effect = inner.send(result)
                if type(effect).__name__ == "Act":
                    yield from note("new_in_this_release")
                result = yield effect
        except StopIteration as stop:
            return stop.value

    one = agent(act("look"), '{ "thought": ', act("pay", amount=1), finish())
    result = await one.run("goal")
    await decide(one.log, result.pending[0].id, Decision("approve"))
    done = await one.replace(strategy=noting).resume(result)
    assert done.success
    assert RAN == ["x", 1]
    assert len([n for n in events(done, e.Noted) if n.kind == "new_in_this_release"]) == 1


async def test_resume_refuses_code_that_would_do_something_else() -> None:
    one = agent(act("look"), act("pay", amount=1), finish())
    result = await one.run("goal", run_id="r")
    records = list(result.records)
    place = next(n for n, r in enumerate(records) if isinstance(r.event, e.Proposed))
    event = records[place].event
    other = e.Proposed(
        key=event.key,
        thought=event.thought,
        actions=(type(event.actions[0])("look", {"what": "other"}),),
    )
    records[place] = e.Record("r", place, records[place].at, other)
    log = await planted(records, MemoryLog())
    with pytest.raises(ReplayDiverged):
        await one.replace(log=log).resume("r")


@pytest.mark.scenario("TAG-19", "TAG-20")
async def test_the_state_at_any_event_can_be_had_again() -> None:
    one = agent(*SCRIPT)
    result = await one.run("goal", data={"k": 1})
    states = [fold(result.records[:n]) for n in range(len(result.records) + 1)]
    assert neutral(states[-1]) == neutral(result.state)
    assert [len(s.steps) for s in states] == sorted(len(s.steps) for s in states)
    again = [fold(result.records[:n]) for n in range(len(result.records) + 1)]
    assert again == states


@pytest.mark.scenario("TAG-20", "TAG-21")
def test_a_store_travels_and_rolls_back_and_never_mutates() -> None:
    initial = {"items": [1]}
    store = Store(initial)
    before = store.state

    def push(data: dict[str, Any]) -> tuple[str, Any]:
        data["items"].append(2)
        return "items", data["items"]

    store.dispatch(push)
    assert initial == {"items": [1]}
    assert before.data == {"items": [1]}
    store.dispatch(lambda data: ("items", [*data["items"], 3]))
    assert store.travel(0).data["items"] == [1, 2]
    heard: list[Any] = []
    store.subscribe(heard.append)
    store.rewind(0)
    assert store.state.data["items"] == [1, 2]
    assert store.state.rewinds == 1
    assert len(store.records) == 3
    assert isinstance(heard[0].event, e.Rewound)
    store.dispatch(lambda data: ("items", [*data["items"], 4]))
    assert store.state.data["items"] == [1, 2, 4]


@pytest.mark.scenario("PEER-18")
async def test_a_fork_goes_on_from_a_complete_step_and_repeats_nothing() -> None:
    one = agent(act("look", what="a"), act("look", what="b"), act("look", what="c"), finish())
    whole = await one.run("goal", run_id="r")
    assert RAN == ["a", "b", "c"]
    second = [r.seq for r in whole.records if isinstance(r.event, e.Observed)][1]
    other = one.replace(model=Memo([act("look", what="z"), finish("another way")]))
    forked = await other.fork(whole, at=second + 1, run_id="f")
    assert RAN == ["a", "b", "c", "z"]
    assert forked.output == "another way"
    assert forked.run_id == "f"
    assert len(forked.steps) == 4
    assert forked.usage.tokens == 4 * 110
    assert events(forked, e.Forked) == [e.Forked(run="r", seq=second)]
    await assert_replays(other, forked)
    assert neutral(fold(await one.log.read("r"))) == neutral(whole.state)


async def test_approvals_in_a_fork_are_void_and_have_ids_of_their_own() -> None:
    one = agent(act("look"), act("pay", amount=1), finish())
    waiting = await one.run("goal", run_id="r")
    forked = await one.fork(waiting, run_id="f")
    assert forked.status == "waiting"
    assert forked.pending[0].id.startswith("f:")
    await decide(one.log, waiting.pending[0].id, Decision("approve"))
    assert (await one.resume(forked)).status == "waiting"
    assert RAN == ["x"]
    await decide(one.log, forked.pending[0].id, Decision("approve"))
    assert (await one.resume(forked)).success
    assert RAN == ["x", 1]


@pytest.mark.scenario("TAG-21", "PEER-18")
async def test_a_rewound_run_goes_on_from_there_and_its_money_stays_spent() -> None:
    one = agent(act("look", what="a"), act("look", what="b"), act("pay", amount=1), finish())
    result = await one.run("goal", run_id="r")
    first = next(r.seq for r in result.records if isinstance(r.event, e.Observed))
    upto = await rewind(one.log, "r", to=first, now=result.records[-1].at)
    assert upto == first
    other = one.replace(model=Memo([act("look", what="z"), finish("again")]))
    done = await other.resume("r")
    assert RAN == ["a", "b", "z"]
    assert done.output == "again"
    assert len(done.steps) == 3
    assert done.usage.tokens == 5 * 110
    kept = fold(await one.log.read("r"))
    assert neutral(kept) == neutral(done.state)
    assert kept.rewinds == 1
    await assert_replays(other, done)


@pytest.mark.parametrize("seq", [-1, 99])
async def test_a_fork_or_rewind_names_an_event_of_the_run(seq: int) -> None:
    """Mutant: without the check the fork copies nothing, or everything, in silence."""
    log = MemoryLog()
    result = await Agent(Memo([finish("done")]), log=log).run("g")
    last = result.records[-1].seq
    with pytest.raises(Refused, match=f"no event {seq}: its events are 0 to {last}"):
        await fork(log, result.run_id, "copy", at=seq, now=1)
    with pytest.raises(Refused, match=f"no event {seq}"):
        await rewind(log, result.run_id, to=seq, now=1)
    assert (await log.row(result.run_id)).events == len(result.records)


async def test_rewinding_a_fork_or_a_run_without_events_is_refused() -> None:
    one = agent(finish())
    with pytest.raises((Refused, LookupError)):
        await one.fork("nowhere")


@pytest.mark.scenario("PEER-16")
async def test_streamed_and_not_streamed_are_the_same() -> None:
    plain = await agent(*SCRIPT).run("goal", run_id="r")
    RAN.clear()
    stream = agent(*SCRIPT).stream("goal", run_id="r")
    seen = [happening async for happening in stream]
    streamed = stream.result
    assert [r for r in seen if isinstance(r, e.Record)] == list(streamed.records)
    assert streamed.output == plain.output
    assert streamed.status == plain.status
    assert neutral(streamed.state) == neutral(plain.state)
    assert [type(r.event) for r in streamed.records] == [type(r.event) for r in plain.records]


@pytest.mark.scenario("RCT-06", "RCT-20")
async def test_the_stream_is_in_order_and_ends_once() -> None:
    from taofold import Delta

    stream = agent("just an answer, no tools").stream("goal")
    seen = [happening async for happening in stream]
    text = "".join(h.text for h in seen if isinstance(h, Delta))
    assert text == stream.result.output
    records = [h for h in seen if isinstance(h, e.Record)]
    assert [r.seq for r in records] == list(range(len(records)))
    assert [r.at for r in records] == sorted(r.at for r in records)
    ends = [n for n, h in enumerate(seen) if isinstance(getattr(h, "event", None), e.RunFinished)]
    assert ends == [len(seen) - 1]


@pytest.mark.scenario("PEER-19")
async def test_bytes_per_step_do_not_grow() -> None:
    def size(records: Any) -> int:
        return sum(len(encode(r.event)) for r in records)

    sizes: dict[int, int] = {}
    for steps in (20, 400):
        script = [act("look", what=f"n{n:03}") for n in range(steps - 1)]
        one = agent(*script, finish(), limits=Limits(steps=steps + 1))
        result = await one.run("goal")
        assert len(result.steps) == steps
        sizes[steps] = size(result.records)
    assert sizes[400] < sizes[20] * 20.5


async def test_a_resumed_run_says_so_and_the_time_it_was_dead_does_not_count() -> None:
    one = agent(act("look", what="a"), finish(), limits=Limits(seconds=60))
    whole = await one.run("goal", run_id="r")
    at = next(r.seq for r in whole.records if isinstance(r.event, e.Observed))
    past = [e.Record(r.run, r.seq, r.at - 3_600_000, r.event) for r in whole.records[: at + 1]]
    log = await planted(past, MemoryLog())
    done = await one.replace(log=log).resume("r")
    assert done.success
    assert [type(r.event).__name__ for r in done.records][at + 1] == "Resumed"
    assert done.state.wakes == 1
    assert done.state.active_ms < 60_000


@pytest.mark.scenario("PEER-17")
async def test_a_preview_that_reads_the_world_does_not_make_a_replay_diverge() -> None:
    @tool(tier=3, preview=lambda _: f"{len(RAN)} so far")
    def grow() -> str:
        """Grow."""
        RAN.append("grown")
        return "ok"

    one = agent(act("grow"), finish(), tools=[grow], approve=lambda _: True)
    result = await one.run("goal")
    assert events(result, e.Decided)[0].preview == "0 so far"
    await assert_replays(one, result)


@pytest.mark.scenario("PEER-17")
async def test_a_run_replays_though_the_machines_clock_was_set_while_it_ran() -> None:
    one = agent(*SCRIPT)
    result = await one.run("goal")
    timed = [replace_struct(r, event=replace_struct(r.event, elapsed=7)) for r in result.records]
    log = await planted(timed, MemoryLog())
    again = await one.replace(log=log).replay(result.run_id)
    assert again.output == result.output


async def test_an_answer_without_its_question_diverges() -> None:
    """Mutant: the log is believed to hold the step that is asked about."""
    one = agent(batch(("look", {}), ("pay", {"amount": 1}), ("look", {})), finish())
    waiting = await one.run("goal")
    await decide(one.opened_log, waiting.pending[0].id, Decision("approve"))
    result = await one.resume(waiting)
    kept = [
        r for r in await one.log.read(result.run_id) if getattr(r.event, "verdict", "") != "ask"
    ]
    seen = [r for r in kept if isinstance(r.event, e.Observed) and r.event.key == "2"]
    # The first call was seen last, so that the step is over when the second is asked about.
    place = kept.index(seen[-1])
    kept.remove(seen[0])
    kept.insert(place, seen[0])
    changed = [replace_struct(record, seq=seq) for seq, record in enumerate(kept)]
    log = await planted(changed, MemoryLog())
    with pytest.raises(ReplayDiverged):
        await one.replace(log=log).replay(result.run_id)


async def test_a_divergence_shows_where_the_instructions_part() -> None:
    one = Agent(Memo([finish()]), log=MemoryLog(), instructions="Be kind. " * 90 + "Be terse.")
    result = await one.run("goal")
    other = one.replace(instructions="Be kind. " * 90 + "Be verbose.")
    with pytest.raises(ReplayDiverged) as caught:
        await other.replay(result)
    told = str(caught.value)
    assert "the agent's instructions differ" in told
    assert "Be terse." in told
    assert "Be verbose." in told
    assert len(told) < 1000
