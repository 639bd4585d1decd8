"""Limits against a second model that counts one call at a time, and their messages."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taofold import Limits
from taofold.core.events import LimitHit
from taofold.core.state import RunState
from taofold.core.text import times
from taofold.core.values import Step, Thought, Usage
from taofold.policy.limits import Blocked, Reserved

TOOLS = ("look", "pay")
COUNTS = st.integers(0, 5)
BOUNDS = st.none() | COUNTS
PER_TOOL = st.dictionaries(st.sampled_from(TOOLS), COUNTS)
LIMITS = st.builds(
    Limits,
    steps=BOUNDS,
    model_calls=BOUNDS,
    tool_calls=BOUNDS,
    seconds=BOUNDS,
    tokens=BOUNDS,
    usd=BOUNDS,
    per_tool=PER_TOOL,
    depth=COUNTS,
)
HELD = st.builds(Reserved, COUNTS, COUNTS, COUNTS, COUNTS.map(float), PER_TOOL)


def spent(**counts: Any) -> RunState:
    steps = counts.pop("steps")
    chain = RunState().steps
    for number in range(steps):
        chain = chain.plus(Step(number + 1, Thought("x"), (), ()))
    usage = Usage(counts.pop("tokens"), usd=counts.pop("usd"))
    return RunState(usage=usage, steps=chain, **counts)


STATES = st.fixed_dictionaries(
    {
        "steps": COUNTS,
        "model_calls": COUNTS,
        "tool_calls": COUNTS,
        "child_model_calls": COUNTS,
        "child_tool_calls": COUNTS,
        "active_ms": st.sampled_from([0, 1, 999, 1000, 1001, 3000, 5000]),
        "tokens": COUNTS,
        "usd": COUNTS.map(float),
        "per_tool": PER_TOOL,
    }
).map(lambda counts: spent(**counts))


def used(limits: Limits, state: RunState) -> dict[str, float]:
    """Returns the usage that counts against each bound."""
    return {
        "steps": len(state.steps),
        "model_calls": state.model_calls
        + (state.child_model_calls if limits.model_calls is not None else 0),
        "tool_calls": state.tool_calls + state.child_tool_calls,
        "seconds": state.active_ms / 1000,
        "tokens": state.usage.tokens,
        "usd": state.usage.usd,
    }


def bounds(limits: Limits) -> dict[str, float]:
    """Returns the set bounds; for model calls also the one derived from the steps."""
    found = {name: getattr(limits, name) for name in used(limits, RunState())}
    if limits.model_calls is None and limits.steps is not None:
        found["model_calls"] = limits.steps + 3 if limits.steps else 0
    return {name: bound for name, bound in found.items() if bound is not None}


@given(LIMITS, STATES)
def test_a_turn_is_forbidden_by_the_first_bound_that_is_reached(
    limits: Limits, state: RunState
) -> None:
    reached = [name for name, bound in bounds(limits).items() if used(limits, state)[name] >= bound]
    forbidding = [name for name in reached if name != "tool_calls"]
    assert limits.hit(state) == next(iter(forbidding), None)
    one_more = {
        name
        for name in ("steps", "model_calls")
        if name in bounds(limits) and used(limits, state)[name] + 1 >= bounds(limits)[name]
    } | ({"tool_calls"} & set(reached))
    order = ("steps", "model_calls", "tool_calls")
    assert limits.last(state) == next((name for name in order if name in one_more), None)


@given(LIMITS, STATES, st.sampled_from(TOOLS), st.lists(HELD, max_size=3))
def test_a_call_is_blocked_once_no_call_is_left_beside_what_others_may_make(
    limits: Limits, state: RunState, tool: str, held: list[Reserved]
) -> None:
    all_calls = used(limits, state)["tool_calls"] + sum(share.tool_calls for share in held)
    own = state.per_tool.get(tool, 0) + sum(share.per_tool.get(tool, 0) for share in held)
    why, of = "", "limit"
    if limits.tool_calls is not None and all_calls >= limits.tool_calls:
        why = f"limit reached: {times(limits.tool_calls, 'tool call')}"
    elif tool in limits.per_tool and own >= limits.per_tool[tool]:
        why, of = f"limit reached: {times(limits.per_tool[tool], 'call')} of {tool!r}", "tool_limit"
    elif limits.seconds is not None and state.active_ms >= limits.seconds * 1000:
        why, of = f"limit reached: {limits.seconds} seconds", "time_limit"
    assert limits.blocks(state, tool, iter(held)) == (Blocked(of, why) if why else None)


@given(LIMITS, STATES, st.lists(HELD, max_size=3), st.integers(1, 4))
def test_what_is_left_is_dealt_out_one_by_one_and_the_first_gets_the_odd_one(
    limits: Limits, state: RunState, held: list[Reserved], among: int
) -> None:
    left = limits.left(state, held, among)

    def dealt(bound: float, gone: float) -> int:
        """Returns the share of the first of `among` if the rest is dealt out one by one."""
        return len(range(0, max(0, int(bound - gone)), among))

    gone = used(limits, state)
    for name in ("model_calls", "tool_calls", "tokens"):
        bound = getattr(limits, name)
        taken = gone[name] + sum(getattr(share, name) for share in held)
        assert getattr(left, name) == (None if bound is None else dealt(bound, taken)), name
    if limits.usd is not None:
        rest = max(0.0, limits.usd - gone["usd"] - sum(share.usd for share in held))
        assert left.usd == pytest.approx(rest / among)
    if limits.seconds is not None:
        assert left.seconds == max(0.0, limits.seconds - state.active_ms / 1000)
    for tool, bound in limits.per_tool.items():
        taken = state.per_tool.get(tool, 0) + sum(share.per_tool.get(tool, 0) for share in held)
        assert left.per_tool[tool] == dealt(bound, taken)
    assert set(left.per_tool) == set(limits.per_tool)
    assert (left.steps, left.depth) == (limits.steps, limits.depth - 1)
    unbounded = [name for name in gone if getattr(limits, name) is None]
    assert all(getattr(left, name) is None for name in unbounded)


@given(HELD, HELD)
def test_two_shares_are_held_together_field_by_field(one: Reserved, other: Reserved) -> None:
    both = one.plus(other)
    for name in ("model_calls", "tool_calls", "tokens", "usd"):
        assert getattr(both, name) == getattr(one, name) + getattr(other, name)
    for tool in TOOLS:
        assert both.per_tool.get(tool, 0) == one.per_tool.get(tool, 0) + other.per_tool.get(tool, 0)
    assert set(both.per_tool) == {*one.per_tool, *other.per_tool}
    assert one.plus(Reserved()) == one


@given(LIMITS, LIMITS)
def test_limits_within_others_are_the_tighter_bound_by_bound(one: Limits, other: Limits) -> None:
    within = one.within(other)
    for field in fields(Limits):
        mine, its = getattr(one, field.name), getattr(other, field.name)
        got = getattr(within, field.name)
        if field.name == "per_tool":
            keys = {*mine, *its}
            assert got == {key: min(x[key] for x in (mine, its) if key in x) for key in keys}
        elif field.name == "parse_retries":
            assert got == mine
        else:
            known = [bound for bound in (mine, its) if bound is not None]
            assert got == (min(known) if known else None), field.name


@given(LIMITS)
def test_all_of_a_bound_is_held_and_nothing_of_what_is_unbounded(limits: Limits) -> None:
    names = ("model_calls", "tool_calls", "tokens", "usd")
    assert limits.reserved() == Reserved(*[getattr(limits, n) or 0 for n in names], limits.per_tool)


STATE = spent(
    steps=4,
    model_calls=7,
    tool_calls=2,
    child_model_calls=1,
    child_tool_calls=3,
    active_ms=1250,
    tokens=1234,
    usd=0.5,
    per_tool={},
)


@pytest.mark.parametrize(
    ("limits", "hit", "words"),
    [
        (Limits(steps=4), {"limit": "steps"}, "all 4 steps were used: raise limits.steps"),
        (Limits(steps=0), {"limit": "steps"}, "all 0 steps were used: raise limits.steps"),
        (
            Limits(steps=4),
            {"limit": "model_calls"},
            "all 7 model calls were used, 3 more than limits.steps: raise limits.model_calls",
        ),
        (
            Limits(model_calls=0),
            {"limit": "model_calls"},
            "all 0 model calls were used: raise limits.model_calls",
        ),
        (
            Limits(tool_calls=5),
            {"limit": "tool_calls"},
            "5 of 5 tool calls were used: raise limits.tool_calls",
        ),
        (
            Limits(seconds=1.25),
            {"limit": "seconds"},
            "it worked for 1.2 of 1.25 seconds: raise limits.seconds",
        ),
        (
            Limits(tokens=1000),
            {"limit": "tokens"},
            "1,234 of 1,000 tokens were spent: raise limits.tokens",
        ),
        (
            Limits(tokens=2000),
            {"limit": "tokens", "needed": 1500.0},
            "1,234 of 2,000 tokens were spent, and the next prompt alone has about 1,500: "
            "raise limits.tokens",
        ),
        (
            Limits(usd=0.25),
            {"limit": "usd"},
            "$0.5000 of $0.2500 was spent: raise limits.usd, or bound the answer with max_tokens",
        ),
        (
            Limits(usd=9),
            {"limit": "usd", "needed": 0.75, "allowed": 1.0},
            "$0.5000 of $1.0000 was spent, and the next call may cost up to $0.7500: "
            "raise limits.usd, or bound the answer with max_tokens",
        ),
    ],
)
def test_why_a_limit_ended_a_run_in_words(limits: Limits, hit: dict[str, Any], words: str) -> None:
    event = LimitHit(key="1", value=1, **hit)
    assert limits.explained(event, STATE) == words
    first, _, rest = words.partition(f"raise limits.{hit['limit']}")
    there = f"{first}raise limits.{hit['limit']} of agent 'a'{rest}"
    assert limits.explained(event, STATE, "of agent 'a'") == there


@pytest.mark.parametrize("name", ["steps", "model_calls", "tool_calls", "seconds", "tokens", "usd"])
@pytest.mark.parametrize("value", [0, 1, None])
def test_a_bound_may_be_nothing_at_all_or_none(name: str, value: Any) -> None:
    assert getattr(replace(Limits(), **{name: value}), name) == value
