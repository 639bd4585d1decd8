"""Events as rows: of another schema, as people are shown them, and what cannot be written."""

from typing import Any

import msgspec
import pytest

from taofold.core import events as e
from taofold.core.content import Issuer, MediaPart, OpaquePart, TextPart
from taofold.core.errors import LimitReached, ReplayDiverged, RunError
from taofold.core.events import UPCASTERS, decode, encode
from taofold.core.values import Message, Observation


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_has_not_is_not_written(number: float) -> None:
    for value in (number, [number], {"a": {"b": (number,)}}):
        with pytest.raises(ValueError, match="no numbers of JSON"):
            encode(e.Updated(name="x", value=value))
    fine = e.Updated(name="x", value=[None, "null", 1.5])
    assert decode(encode(fine)) == fine


def test_people_are_shown_nothing_that_only_a_provider_can_read() -> None:
    sealed = (OpaquePart("secret", "kind"), TextPart("hi", opaque="secret"))
    shown = e.Replied(key="1", prompt="p", content=sealed).public
    assert "secret" not in encode(shown).decode()
    assert "hi" in encode(shown).decode()
    issuer = Issuer("openai", "responses", "http://x")
    history = (Message("assistant", sealed, issuer), Message("user", "plain"))
    start = e.RunStarted(goal="g", history=history).public
    assert isinstance(start, e.RunStarted)
    assert "secret" not in encode(start).decode()
    assert [message.role for message in start.history] == ["assistant", "user"]
    assert (start.history[0].issuer, start.history[1]) == (issuer, history[1])
    for event in (e.RunStarted(goal="g"), e.Parked(reason="x")):
        assert event.public is event


def test_a_goal_is_what_it_was_given_as() -> None:
    picture = MediaPart("image", "image/png", "d", 1, "x")
    assert e.RunStarted(goal="g").content == "g"
    assert e.RunStarted(goal="g", parts=(TextPart("g"), picture)).content == (
        TextPart("g"),
        picture,
    )


def test_which_bytes_an_event_speaks_of() -> None:
    picture = MediaPart("image", "image/png", "d1", 1, "x")

    def observed(**fields: Any) -> tuple[str, ...]:
        return e.Observed(key="1", observation=Observation("r", **fields)).blobs()

    assert observed() == ()
    assert observed(blob="b") == ("b",)
    assert observed(parts=(TextPart("t"), picture)) == ("d1",)
    assert observed(blob="b", parts=(picture,)) == ("b", "d1")


def test_errors_carry_what_is_needed_to_act_on_them() -> None:
    limit = LimitReached("over", "partial")
    assert (str(limit), limit.result) == ("over", "partial")
    diverged = ReplayDiverged("2.1", {"a": 1}, None)
    assert (diverged.key, diverged.recorded, diverged.requested) == ("2.1", {"a": 1}, None)
    assert "at effect '2.1'" in str(diverged)
    assert "recorded  {'a': 1}" in str(diverged)
    assert "requested None" in str(diverged)
    assert isinstance(limit, RunError)


def test_a_schema_that_no_upcaster_takes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: the row is read as if it were of this schema."""
    row = b'{"e":"run_started","goal":"g"}'
    with pytest.raises(msgspec.ValidationError, match="schema 1"):
        decode(row, 1)
    monkeypatch.setitem(UPCASTERS, 1, lambda raw: {**raw, "goal": "upcast"})
    event = decode(row, 1)
    assert isinstance(event, e.RunStarted)
    assert event.goal == "upcast"
