"""The steps of a state: a view that shows its own, however long the list behind it has become."""

import pytest

from taofold.core import events as e
from taofold.core.events import encode
from taofold.core.metrics import measure
from taofold.core.state import Chain, fold
from taofold.core.values import Action, Observation, Step, Thought
from tests.core.story import Story


def step(number: int) -> Step:
    return Step(number, Thought(str(number)), (), ())


def test_a_view_shows_its_own_steps_by_any_index() -> None:
    chain = Chain([], 0)
    for number in range(1, 4):
        chain = chain.plus(step(number))
    short = chain
    longer = chain.plus(step(4)).plus(step(5))
    assert [one.number for one in short] == [1, 2, 3]
    assert [short[index].number for index in (0, 1, 2, -1, -2, -3)] == [1, 2, 3, 3, 2, 1]
    for index in (3, 4, -4, 100, -100):
        with pytest.raises(IndexError):
            short[index]
    assert [one.number for one in short[1:]] == [2, 3]
    assert [one.number for one in short[::-1]] == [3, 2, 1]
    assert [one.number for one in short[-2:9]] == [2, 3]
    other = short.plus(step(44))
    assert [one.number for one in longer] == [1, 2, 3, 4, 5], "two may grow from one"
    assert [one.number for one in other] == [1, 2, 3, 44]
    assert (len(short), len(longer), len(other)) == (3, 5, 4)
    assert short == Chain([step(1), step(2), step(3), step(9)], 3)
    assert short != other
    assert short != [step(1), step(2), step(3)]
    assert not Chain([], 0)


def test_what_is_left_out_of_an_event_is_its_default() -> None:
    """The defaults of docs/log-format.md: a log that another runtime wrote leaves them out too."""
    event = e.Observed(key="1", observation=Observation("x"))
    assert encode(event) == b'{"e":"observed","key":"1","observation":{"result":"x"}}'
    observation = Observation()
    assert (observation.result, observation.status) == (None, "success")
    assert (observation.auto, observation.cut, observation.blob) == (False, False, "")
    thought = Thought("x")
    assert (thought.type, thought.because, thought.confidence) == ("reasoning", (), None)
    assert (thought.critical, thought.synthesized) == (False, False)
    action = Action("x")
    assert (action.parameters, action.repairs, action.guessed, action.error) == ({}, (), False, "")


def test_what_a_ratio_shows_is_rounded_to_three_places() -> None:
    story = Story()
    for number in range(7):
        story.step("" if number < 5 else "I look", n=number)
    assert measure(story.records).thought_to_action_ratio == 0.286
    assert fold(story.records).status == "running"
