"""Runs made by hypothesis: every field of thoughts, actions and observations, nasty text."""

from hypothesis import strategies as st

from taofold.core import events as e
from taofold.core.state import ENDED, fold
from taofold.core.values import FINISH, THOUGHT_TYPES, Action, Observation, Thought, Usage

NASTY = [
    "a\nb\n", "a\n\n b \n", "\n", " \n", "\n\nx", "  lead\nx", "trail \nx", "---", "--- x\n...\n",
    "key: value", "- item\n- item", "# not a comment\n", "\ttab\n\tx", "a\tb\nc", "\r\n", "a\rb",
    "nul\0byte", "\x85\u2028\u2029", "\ufeffbom", "null", "true", "1.0", "0o7", "2026-01-25",
    "'", '"',
    "&a *a !t", "%YAML", "{}", "\x1b[31m", "ünï\U0001f600", "| x", "> x", "x" * 300 + " y",
    "a\u00a0\nb", "\x85", "a\u2028b",
]  # fmt: skip
text = st.sampled_from(NASTY) | st.text(max_size=30) | st.text(alphabet=" \n\t:-#ab", max_size=20)
json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
thoughts = st.builds(
    Thought,
    content=text,
    type=st.sampled_from(sorted(THOUGHT_TYPES)),
    because=st.lists(st.integers(1, 9), max_size=3).map(tuple),
    confidence=st.none() | st.floats(0, 1),
    critical=st.booleans(),
    synthesized=st.booleans(),
)
actions = st.builds(
    Action,
    tool=text | st.just(FINISH),
    parameters=st.dictionaries(text, json, max_size=3),
    rationale=text,
    id=text,
    repairs=st.lists(text, max_size=2).map(tuple),
    guessed=st.booleans(),
    error=text,
)
observations = st.builds(
    Observation,
    result=json,
    status=st.sampled_from(["success", "failure", "partial", "timeout"]),
    extraction=text,
    auto=st.booleans(),
    duration_ms=st.floats(0, 1e9),
    options=st.lists(text, max_size=2).map(tuple),
    blob=text,
    cut=st.booleans(),
    refused=text,
)


@st.composite
def runs(draw) -> list[e.Record]:
    """Generates a run of a few turns: complete, interrupted, with batches or thoughts alone."""
    records: list[e.Record] = []
    at = draw(st.integers(0, 4_000_000_000_000))

    def put(event: e.Event) -> None:
        nonlocal at
        at += draw(st.integers(0, 90_000))
        records.append(e.Record("run-1", len(records), at, event))

    put(e.RunStarted(goal=draw(text), agent=draw(text), model=draw(text)))
    for number in range(draw(st.integers(0, 4))):
        key = str(2 * number + 1)
        put(
            e.Replied(
                key=str(2 * number), prompt="p", content=draw(text), usage=Usage(3, 4, 0, 0.5)
            )
        )
        if draw(st.booleans()):
            put(e.Violated(key=str(2 * number), rule=draw(text), detail=draw(text)))
        batch = draw(st.lists(actions, max_size=3).map(tuple))
        put(e.Proposed(key=key, thought=draw(thoughts), actions=batch))
        for index in range(len(batch)):
            fate = draw(st.sampled_from(["whole", "whole", "once", "never", "cut"]))
            if fate == "once":
                put(
                    e.StartedOnce(
                        key=key, index=index, effect=draw(st.sampled_from(["once", "idempotent"]))
                    )
                )
            elif fate != "never":
                put(e.Started(key=key, index=index))
            if fate != "cut":
                put(e.Observed(key=key, index=index, observation=draw(observations)))
    if draw(st.booleans()):
        status = draw(st.sampled_from(sorted(ENDED)))
        put(
            e.RunFinished(
                status=status,
                stop_reason=draw(text),
                success=status == "finished" and draw(st.booleans()),
                output=draw(json),
                error=draw(text),
            )
        )
    fold(records)
    return records
