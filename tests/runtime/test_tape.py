"""Records of an earlier activation on the tape, by effect and by call."""

from typing import Any

import pytest

from taofold.core import events as e
from taofold.core.errors import LogError
from taofold.core.values import Action, Observation, Thought
from taofold.runtime.recording import Tape
from tests.test_surfaces import Slowed


def tape(*events: Any) -> Tape:
    return Tape([e.Record("run", seq, seq, event) for seq, event in enumerate(events)])


PROPOSED = e.Proposed(key="0", thought=Thought("go"), actions=(Action("a"), Action("b")))
STARTED = e.Started(key="0", index=1)


def slowed(seconds: float, index: int = 1) -> Any:
    return Slowed(key="0", seconds=seconds, why="it asked", index=index)


def test_an_event_of_one_call_is_taken_with_it_whatever_its_kind() -> None:
    observed = e.Observed(key="0", index=1, observation=Observation("seen"))
    taped = tape(PROPOSED, STARTED, slowed(1), slowed(2, 0), observed)
    assert [record.seq for record in taped.call("0", 1)] == [1, 2, 4]
    assert [record.seq for record in taped.rest()] == [0, 3]
    assert taped.behind("0")
    assert [record.seq for record in taped.call("0", 0)] == [3]
    assert taped.take(e.Proposed, "0") is not None
    assert not taped.behind("0")


def test_what_was_said_before_the_last_start_of_a_call_goes_with_its_attempts() -> None:
    taped = tape(PROPOSED, STARTED, slowed(1), STARTED, slowed(2))
    assert [record.seq for record in taped.attempts("0", 1)] == [1, 2, 3]
    assert [record.seq for record in taped.rest()] == [0, 4]
    assert taped.peek(Slowed, "0", 1) == slowed(2)


@pytest.mark.parametrize("key", ["ask", "1."])
def test_what_is_no_place_is_an_error_of_the_log(key: str) -> None:
    with pytest.raises(LogError, match="not a place in a run"):
        tape(e.Replied(key=key, prompt="", content="", model="m"))
    said = tape(e.Steered(key=key, id="1", text="go", by="ann"))
    with pytest.raises(LogError, match="not a place in a run"):
        said.steering("1")
