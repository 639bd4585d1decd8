"""Contribution of child runs and of the strategy's own steps to a run's state and figures."""

from typing import Any

import pytest

from taofold.core import events as e
from taofold.core.content import Conversation
from taofold.core.effects import Act, Answer, Ask, Fork, Note, act, ask, fork, note, step
from taofold.core.metrics import measure
from taofold.core.state import RunState, fold
from taofold.core.values import Action, Observation, Thought, Usage


def seen(*observed: e.Observed) -> list[e.Record]:
    """The records of a run with one step of as many calls of `child`."""
    told: list[e.Event] = [
        e.RunStarted(goal="go"),
        e.Proposed(key="0", thought=Thought("t"), actions=tuple([Action("child")] * len(observed))),
        *[e.Started(key="0", index=index) for index in range(len(observed))],
        *observed,
    ]
    return [e.Record("r", seq, 1_000 + 10 * seq, event) for seq, event in enumerate(told)]


def observed(index: int = 0, **fields: Any) -> e.Observed:
    fields = {"observation": Observation("x"), **fields}
    return e.Observed(key="0", index=index, **fields)


def test_what_several_children_did_is_added_up() -> None:
    one = observed(calls=(2, 3), tools={"look": 3}, usage=Usage(5, 1), models={"m": Usage(5, 1)})
    two = observed(
        1, calls=(4, 1), tools={"look": 1, "pay": 1}, usage=Usage(7, 2), models={"m": Usage(7, 2)}
    )
    state = fold(seen(one, two))
    assert (state.child_model_calls, state.child_tool_calls) == (6, 4)
    assert (state.model_calls, state.tool_calls) == (0, 2), "those of the run itself"
    assert state.per_tool == {"child": 2, "look": 4, "pay": 1}
    assert state.usage == Usage(12, 3)
    assert state.usage_by_model == {"m": Usage(12, 3)}


@pytest.mark.parametrize(
    "fields", [{"calls": (2, 3)}, {"usage": Usage(2, 3)}, {"tools": {"look": 2}}]
)
def test_a_child_counts_whatever_it_used(fields: dict[str, Any]) -> None:
    state = fold(seen(observed(**fields)))
    assert (state.child_model_calls, state.child_tool_calls) == fields.get("calls", (0, 0))
    assert state.usage == fields.get("usage", Usage())
    assert state.per_tool == {"child": 1, **fields.get("tools", {})}


def test_a_call_without_a_child_adds_nothing_but_itself() -> None:
    state = fold(seen(observed()))
    assert (state.child_model_calls, state.child_tool_calls) == (0, 0)
    assert state.usage == RunState().usage
    assert state.per_tool == {"child": 1}


def test_times_are_added_up_to_a_microsecond() -> None:
    durations = (0.0004, 1.23456, 2.0001)
    steps = [
        observed(index, observation=Observation("x", duration_ms=ms))
        for index, ms in enumerate(durations)
    ]
    metrics = measure(seen(*steps))
    assert metrics.tool_ms == 3.235
    assert metrics.wall_ms == 70
    replied = e.Replied(key="1", prompt="p", ms=1.23456)
    assert measure([*seen(observed()), e.Record("r", 9, 2_000, replied)]).model_ms == 1.235


def test_a_step_of_the_strategy_hands_back_the_first_observation() -> None:
    running = step(Thought("t"), "critique", {"score": 1}, round=2)
    effect = next(running)
    assert isinstance(effect, Act)
    assert effect.actions == (Action("critique", {"round": 2}),)
    assert effect.local == (Observation({"score": 1}, extraction="critique", auto=True),)
    with pytest.raises(StopIteration) as ended:
        running.send((Observation("mine"),))
    assert ended.value.value == Observation("mine")


def test_the_helpers_yield_their_effect_and_return_its_answer() -> None:
    answer = (Observation("x"),)
    running = act(Thought("t"), Action("a"), Action("b"))
    effect = next(running)
    assert isinstance(effect, Act)
    assert [action.tool for action in effect.actions] == ["a", "b"]
    assert not effect.local
    with pytest.raises(StopIteration) as ended:
        running.send(answer)
    assert ended.value.value is answer

    conversation = Conversation()
    asking = ask(conversation, "critic", ("look",), {"type": "object"})
    assert next(asking) == Ask(conversation, "critic", ("look",), {"type": "object"})
    assert next(note("kind", a=1)) == Note("kind", {"a": 1})
    forked = next(fork([note("a"), note("b")]))
    assert isinstance(forked, Fork)
    assert len(forked.branches) == 2
    assert Answer("x") == Answer("x", "final_answer", "")
