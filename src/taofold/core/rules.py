"""The rules of a turn (D3): what a thought and its actions must not do, live or in a log.

`check_thought` checks a type while a run is active. `recorded_violations` returns those that a run
recorded, `derived_violations` those that its turns break regardless of the writer. The identity
of calls (`fingerprint`) and the detection of repeated actions are here too. Pure and linear.
Strategy and policy decide the consequences; `checklist` has the seven summary items. Source: the
AIWG rules for Thought-Action-Observation loops.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from taofold.core import events as e
from taofold.core.call_ids import branch
from taofold.core.grounding import ground_turns
from taofold.core.rule_names import (
    EXCEPTION,
    INCOMPLETE,
    INTENT,
    NO_ACTION,
    NO_THOUGHT,
    RATIONALE,
    REPEATED,
    RESEARCH,
    UNGROUNDED,
    UNTYPED,
)
from taofold.core.state import live
from taofold.core.trace import TracedTurn, turns
from taofold.core.vague_text import lacks_aim, lacks_intent
from taofold.core.values import FINISH, THOUGHT_TYPES, Action, ThoughtType, Value


class Violation(Value, frozen=True):
    """A broken rule; `steps` are the numbers of the turns concerned, from 1.

    `refused`: the reply that broke it was refused, and another one replaced it.
    """

    rule: str
    detail: str = ""
    steps: tuple[int, ...] = ()
    refused: bool = False


# Filled once: the common case, a correctly spelt type, is a single lookup per thought.
_KNOWN: Final[dict[str | None, tuple[ThoughtType | None, str]]] = {
    name: (cast("ThoughtType", name), "") for name in THOUGHT_TYPES
}
_SIX: Final = ", ".join(sorted(THOUGHT_TYPES - {"research"}))
_MISSING: Final = (None, f"the thought has no type: use one of {_SIX}")
_CLOSED: Final = (None, f"thoughts of type research are not enabled here: use one of {_SIX}")


def check_thought(type_text: str | None, *, research: bool) -> tuple[ThoughtType | None, str]:
    """Returns the type that `type_text` names, or None and the problem."""
    known_type = _KNOWN.get(type_text)
    if known_type is None:
        if not type_text:
            return _MISSING
        known_type = _KNOWN.get(type_text.strip().lower())
        if known_type is None:
            return None, f"unknown thought type {type_text!r}: use one of {_SIX}"
    if known_type[0] == "research" and not research:
        return _CLOSED
    return known_type


def fingerprint(action: Action) -> str:
    """Returns tool and parameters as canonical JSON, without the reserved `timeout_s`."""
    parameters = action.parameters
    if "timeout_s" in parameters:
        # A failed call that is repeated with more time is still the same call.
        parameters = {name: value for name, value in parameters.items() if name != "timeout_s"}
    try:
        # order="deterministic" sorts keys, so `{a, b}` and `{b, a}` are one call.
        content = msgspec.json.encode(parameters, order="deterministic").decode()
    except (TypeError, ValueError):  # not JSON: only a custom strategy can cause this
        # Parameters of an imported log may hold values that JSON lacks; the call still needs a
        # fingerprint.
        content = repr(parameters)
    return f"{action.tool} {content}"


def detect_action_loop(recent_actions: Sequence[str], max_recent: int = 3) -> bool:
    """Returns whether the last two, or `max_recent`, actions are equal (TAgent's check)."""
    if len(recent_actions) < 2:
        return False
    if recent_actions[-1] == recent_actions[-2]:
        return True
    # Reached only if the last two differ, so with `max_recent` of 2 or more it is False. It is kept
    # to match TAgent's definition.
    return len(recent_actions) >= max_recent and len(set(recent_actions[-max_recent:])) == 1


def detect_alternation(recent_actions: Sequence[str], window: int = 4) -> bool:
    """Returns whether the last `window` actions (4 to 6) only alternate: A B A B."""
    last = list(recent_actions[-window:])
    # The window equals itself shifted by two: A B A B, for any length.
    return len(last) == window and last[0] != last[1] and last[2:] == last[:-2]


def recorded_violations(records: Iterable[e.Record]) -> tuple[Violation, ...]:
    """Returns the violations that the run itself recorded; they may have been corrected since.

    If the record names no step, it is the step in progress: the turn with the record's key, else
    the next turn of its branch.
    """
    live_records = live(records)
    all_turns = turns(live_records)
    numbers = {turn.seq: turn.number for turn in all_turns}
    taking = {turn.key: turn.number for turn in all_turns}
    following: dict[str, int] = {}
    # Backwards, because a violation is recorded before the turn it led to: that turn is then
    # already known.
    broken: list[Violation] = []
    for record in reversed(live_records):
        event = record.event
        if isinstance(event, e.Proposed):
            following[branch(event.key)] = numbers[record.seq]
        elif isinstance(event, e.Violated):
            number = taking.get(event.key) or following.get(branch(event.key), 0)
            steps = event.steps or ((number,) if number else ())
            broken.append(Violation(event.rule, event.detail, steps, event.refused))
    return tuple(reversed(broken))


def derived_violations(records: Iterable[e.Record]) -> tuple[Violation, ...]:
    """Returns the rules that the turns of the log break, regardless of who wrote it."""
    live_records = live(records)
    # Each agent that was active has its own tools and model.
    agents = [r for r in live_records if isinstance(r.event, e.RunStarted | e.HandedOff)]
    effects: dict[str, str] = {}
    opted = False
    for record in agents:
        event = cast("e.RunStarted | e.HandedOff", record.event)
        noted: Any = event.settings.get("effects")
        effects |= cast("dict[str, str]", noted) if isinstance(noted, dict) else {}
        opted = opted or event.settings.get("research") is True
    taken = turns(live_records)
    return (
        *(broken for turn in taken for broken in _alone(turn, effects, opted)),
        *_unexplained([turn for turn in taken if not _is_native(turn, agents)]),
        *_between(taken),
        # A parked run has open calls by design: they wait for an approval.
        *(() if _waits(live_records) else _interrupted(taken)),
        *(
            Violation(UNGROUNDED, verdict.problem, (verdict.step,))
            for verdict in ground_turns(taken, live_records)
            if verdict.eligible and not verdict.grounded
        ),
    )


def _is_native(turn: TracedTurn, agents: Sequence[e.Record]) -> bool:
    """Returns whether the agent of the turn called tools natively."""
    active = [record.event for record in agents if record.seq < turn.seq]
    last = active[-1] if active else None
    return isinstance(last, e.RunStarted | e.HandedOff) and last.profile.native_tools


def _alone(turn: TracedTurn, effects: Mapping[str, str], research: bool) -> Iterator[Violation]:
    """Yields the rules that a turn breaks by itself."""
    steps = (turn.number,)
    thought = turn.thought
    if turn.calls and not thought.content.strip():
        yield Violation(NO_THOUGHT, "an action without a thought", steps)
    problem = check_thought(thought.type, research=research)[1]
    if problem:
        yield Violation(UNTYPED, problem, steps)
    # A final answer has reached its aim.
    acts = any([call.action.tool != FINISH and not call.local for call in turn.calls])
    if lacks_intent(thought.content) or (
        acts and not thought.synthesized and lacks_aim(thought.content)
    ):
        detail = "the thought names an activity or a fact, not what it is for: say the aim"
        yield Violation(INTENT, detail, steps)
    for call in turn.calls:
        tool = call.action.tool
        if thought.type == "research" and _changes(tool, call.effect, effects):
            detail = f"{tool!r} can change the world in a research step"
            yield Violation(RESEARCH, detail, steps)


def _unexplained(all_turns: Sequence[TracedTurn]) -> Iterator[Violation]:
    """Yields calls without a rationale. A native tool call has no field for one."""
    for turn in all_turns:
        for call in turn.calls:
            if not call.action.rationale.strip() and not call.local:
                detail = f"{call.action.tool!r} was called without a rationale"
                yield Violation(RATIONALE, detail, (turn.number,))
            elif lacks_intent(call.action.rationale) and not call.local:
                detail = f"the rationale of {call.action.tool!r} says what is done, not why"
                yield Violation(RATIONALE, detail, (turn.number,))


def _changes(tool: str, recorded: str, effects: Mapping[str, str]) -> bool:
    return (recorded or effects.get(tool, "read")) != "read"


def _between(all_turns: Sequence[TracedTurn]) -> Iterator[Violation]:
    """Yields the rules that a turn breaks in relation to the previous turn of its branch."""
    previous: dict[str, TracedTurn] = {}
    for turn in all_turns:
        # Branches of a fork interleave in the log: only turns of one branch follow one another.
        branch_key = branch(turn.key)
        before = previous.get(branch_key)
        previous[branch_key] = turn
        if before is None:
            continue
        steps = (before.number, turn.number)
        # Reported here for a thought that another follows, below for the last of a branch.
        if not before.calls:
            yield Violation(NO_ACTION, "two thoughts without an action between them", steps)
        if before.failed and turn.thought.type != "exception":
            detail = f"the thought after a failure is {turn.thought.type}: it must be exception"
            yield Violation(EXCEPTION, detail, steps)
        yield from _repeats(before, turn)
    for turn in previous.values():
        if not turn.calls:
            yield Violation(NO_ACTION, "a thought without an action", (turn.number,))


def _repeats(before: TracedTurn, turn: TracedTurn) -> Iterator[Violation]:
    # Only the step directly before counts: after another step the world may have changed.
    failed = {fingerprint(call.action): call.action.seconds for call in before.failed}
    if not failed:
        return
    for call in turn.calls:
        limit = failed.get(fingerprint(call.action))
        if limit is not None and call.action.seconds <= limit:
            blocked = call.observation is not None and call.observation.refused
            detail = f"{call.action.tool!r} had failed with the same parameters"
            detail += " (blocked)" if blocked else ""
            yield Violation(REPEATED, detail, (before.number, turn.number))


def _interrupted(all_turns: Sequence[TracedTurn]) -> Iterator[Violation]:
    for turn in all_turns:
        if turn.calls and not turn.complete:
            missing = sum(call.observation is None for call in turn.calls)
            detail = f"interrupted: {missing} of {len(turn.calls)} observations are missing"
            yield Violation(INCOMPLETE, detail, (turn.number,))


def _waits(live_records: Sequence[e.Record]) -> bool:
    """Returns whether the run is parked, so that its open calls are expected."""
    return bool(live_records) and isinstance(live_records[-1].event, e.Parked)
