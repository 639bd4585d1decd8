"""The checklist of the AIWG rules: seven items about a run's log, and the turns that fail each.

Items derive from the violations of `rules` and from three own checks: a result exists, the call can
be parsed, times do not run backwards. Each item states which part a program cannot judge. Pure.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from taofold.core import events as e
from taofold.core.rule_names import (
    DEMANDS,
    EXCEPTION,
    INCOMPLETE,
    INTENT,
    NO_THOUGHT,
    RATIONALE,
    REPEATED,
    RESEARCH,
    STATUS,
    UNGROUNDED,
    UNTYPED,
)
from taofold.core.rules import Violation, derived_violations, recorded_violations
from taofold.core.state import live, opening
from taofold.core.text import key_line
from taofold.core.trace import TracedCall, TracedTurn, turns
from taofold.core.vague_text import lacks_content
from taofold.core.values import Value


class Item(Value, frozen=True):
    """One item of the checklist, with the numbers of the turns that fail it and the reason.

    `unjudged` is the part of the item that no program can judge. `demanded` is False if the run was
    lenient and the item fails only in what a lenient run does not require.
    """

    # A detail without a step (0) concerns the whole run.
    name: str
    passed: bool
    steps: tuple[int, ...] = ()
    detail: str = ""
    unjudged: str = ""
    demanded: bool = True


_Faults: TypeAlias = dict[int, str]
_Broken: TypeAlias = Sequence[Violation]


def check(records: Iterable[e.Record]) -> tuple[Item, ...]:
    """Returns the seven items, in the order of the rules."""
    live_records = live(records)
    all_turns = turns(live_records)
    # A refused reply is not part of the step that replaced it.
    standing = [each for each in recorded_violations(live_records) if not each.refused]
    # Derived violations come last: for a step with both kinds, their detail is the one shown.
    broken = [*standing, *derived_violations(live_records)]
    # Rules about form are left out: the remaining items apply to a lenient run too.
    start = opening(live_records)
    lenient = start is not None and start.settings.get("strict") is False
    kept = [each for each in broken if each.rule not in DEMANDS]
    items: list[Item] = []
    for name, faults in _POINTS.items():
        demanded = not lenient or bool(faults(all_turns, kept))
        items.append(_item(name, faults(all_turns, broken), demanded=demanded))
    return tuple(items)


def _item(name: str, faults: _Faults, *, demanded: bool) -> Item:
    steps = tuple(sorted(faults))
    detail = "; ".join([f"step {step}: {faults[step]}" for step in steps if step])
    numbers = tuple([step for step in steps if step])
    reason = detail or faults.get(0, "")
    passed = not faults
    return Item(name, passed, numbers, reason, _UNJUDGED.get(name, ""), passed or demanded)


def _broke(broken: _Broken, *names: str) -> _Faults:
    """Returns the last step of each violation of the rules `names`, with its detail."""
    return {
        step: violation.detail
        for violation in broken
        if violation.rule in names
        for step in (violation.steps[-1:] if violation.rule in _AFTER else violation.steps)
    }


_AFTER: Final = frozenset({EXCEPTION, REPEATED})
"""Rules whose violations list the failed step first and the offending step last."""


def _complete(all_turns: Sequence[TracedTurn], broken: _Broken) -> _Faults:
    faults = {turn.number: turn.lack for turn in all_turns if turn.lack}
    return _broke(broken, INCOMPLETE) | faults | _broke(broken, NO_THOUGHT)


def _typed(all_turns: Sequence[TracedTurn], broken: _Broken) -> _Faults:
    return _broke(broken, UNTYPED, RESEARCH, INTENT) if all_turns else {}


def _acted(all_turns: Sequence[TracedTurn], broken: _Broken) -> _Faults:
    faults = _broke(broken, RATIONALE)
    for turn in all_turns:
        for call in turn.calls:
            if not call.action.tool.strip():
                faults[turn.number] = "an action without a tool"
            elif call.action.error:
                faults[turn.number] = f"unreadable parameters: {call.action.error}"
            elif call.observation is not None and call.observation.refused == "invalid":
                faults[turn.number] = f"refused: {key_line(str(call.observation.result))}"
    return faults


def _observed(all_turns: Sequence[TracedTurn], broken: _Broken) -> _Faults:
    faults = _broke(broken, STATUS)
    for turn in all_turns:
        if any(_silent(call) for call in turn.calls):
            faults[turn.number] = "an observation without a result"
    return faults


def _silent(call: TracedCall) -> bool:
    observation = call.observation
    if observation is None or observation.blob:
        return False
    result = observation.result
    return result in (None, "") or (isinstance(result, str) and lacks_content(result))


def _referring(all_turns: Sequence[TracedTurn], broken: _Broken) -> _Faults:
    return _broke(broken, UNGROUNDED)


def _measured(all_turns: Sequence[TracedTurn], broken: _Broken) -> _Faults:
    """Finds turns that prevent metrics: no complete step, or times that run backwards."""
    if not any(turn.complete for turn in all_turns):
        return {0: "there is no complete step to measure"}
    return {
        turn.number: "its times or durations run backwards"
        for turn in all_turns
        if any(_backwards(turn.at, call) for call in turn.calls)
    }


def _backwards(proposed: int, call: TracedCall) -> bool:
    times = [at for at in (proposed, call.started_at, call.observed_at) if at]
    return times != sorted(times) or (
        call.observation is not None and call.observation.duration_ms < 0
    )


def _handled(all_turns: Sequence[TracedTurn], broken: _Broken) -> _Faults:
    return _broke(broken, EXCEPTION, REPEATED)


_UNJUDGED: Final = {
    "typed_thoughts": "whether the type fits, and whether an intent that is stated is clear",
    "actions_with_tool_and_parameters": "whether a rationale that is given is a good one",
    "observations_with_status_and_result": "whether an extraction is what matters in a result",
    "thoughts_reference_observations": "whether a thought follows from what it refers to",
    "error_protocol_followed": "whether an exception names the true cause",
}
_POINTS: Final[dict[str, Callable[[Sequence[TracedTurn], _Broken], _Faults]]] = {
    "complete_triplets": _complete,
    "typed_thoughts": _typed,
    "actions_with_tool_and_parameters": _acted,
    "observations_with_status_and_result": _observed,
    "thoughts_reference_observations": _referring,
    "metrics_captured": _measured,
    "error_protocol_followed": _handled,
}
