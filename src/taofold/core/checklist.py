"""The seven points of the TAO rules: did this run keep to the loop, and if not, where?

Judges the turns that the log holds. A reply that was rejected and corrected before it
became a turn is a `Violated` event and no fault of the finished log.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from taofold.core import events as e
from taofold.core import rules
from taofold.core.state import live
from taofold.core.trace import Call, Turn, turns
from taofold.core.values import Value


class Item(Value, frozen=True):
    """One point: passed, or the numbers of the turns that fail it and why."""

    name: str
    passed: bool
    steps: tuple[int, ...] = ()
    detail: str = ""


_Faults: TypeAlias = dict[int, str]
_Broken: TypeAlias = Sequence[rules.Violation]


def check(records: Iterable[e.Record]) -> tuple[Item, ...]:
    """The seven items, in the order of the rules."""
    kept = live(records)
    told = turns(kept)
    broken = [*rules.derived(kept), *_coerced(told, rules.recorded(kept))]
    return tuple([_item(name, faults(told, broken)) for name, faults in _POINTS.items()])


def _coerced(told: Sequence[Turn], recorded: _Broken) -> list[rules.Violation]:
    """Faults that are mended in the turn itself, so that only the record tells of them."""
    mended = {turn.number for turn in told if turn.thought.synthesized}
    return [
        one
        for one in recorded
        if one.rule in (rules.STATUS, rules.RATIONALE)
        or (one.rule == rules.UNTYPED and mended.issuperset(one.steps))
    ]


def _item(name: str, faults: _Faults) -> Item:
    steps = tuple(sorted(faults))
    detail = "; ".join([f"step {step}: {faults[step]}" for step in steps if step])
    numbers = tuple([step for step in steps if step])
    return Item(name, not faults, numbers, detail or faults.get(0, ""))


def _broke(broken: _Broken, *names: str) -> _Faults:
    """The last step of each violation of the rules `names`."""
    return {
        step: one.detail
        for one in broken
        if one.rule in names
        for step in (one.steps[-1:] if one.rule in _AFTER else one.steps)
    }


_AFTER: Final = frozenset({rules.EXCEPTION, rules.REPEATED})
"""Rules whose violations name the failed step first and the offender last."""


def _complete(told: Sequence[Turn], broken: _Broken) -> _Faults:
    faults = {turn.number: _missing(turn) for turn in told if not turn.complete}
    faults.update({t.number: "no thought" for t in told if not t.thought.content.strip()})
    return faults


def _missing(turn: Turn) -> str:
    return "an observation is missing" if turn.calls else "no action"


def _typed(told: Sequence[Turn], broken: _Broken) -> _Faults:
    return _broke(broken, rules.UNTYPED, rules.RESEARCH) if told else {}


def _acted(told: Sequence[Turn], broken: _Broken) -> _Faults:
    faults = _broke(broken, rules.RATIONALE)
    for turn in told:
        for call in turn.calls:
            if not call.action.tool.strip():
                faults[turn.number] = "an action without a tool"
            elif call.action.error:
                faults[turn.number] = f"unreadable parameters: {call.action.error}"
    return faults


def _observed(told: Sequence[Turn], broken: _Broken) -> _Faults:
    faults = _broke(broken, rules.STATUS)
    for turn in told:
        if any(_silent(call) for call in turn.calls):
            faults[turn.number] = "an observation without a result"
    return faults


def _silent(call: Call) -> bool:
    seen = call.observation
    return seen is not None and seen.result in (None, "") and not seen.blob


def _referring(told: Sequence[Turn], broken: _Broken) -> _Faults:
    return _broke(broken, rules.UNGROUNDED)


def _measured(told: Sequence[Turn], broken: _Broken) -> _Faults:
    """Can the metrics be taken? There is a step, and time runs forward within each."""
    if not any(turn.complete for turn in told):
        return {0: "there is no complete step to measure"}
    return {
        turn.number: "its times or durations run backwards"
        for turn in told
        if any(_backwards(turn.at, call) for call in turn.calls)
    }


def _backwards(proposed: int, call: Call) -> bool:
    times = [at for at in (proposed, call.started_at, call.observed_at) if at]
    return times != sorted(times) or (
        call.observation is not None and call.observation.duration_ms < 0
    )


def _handled(told: Sequence[Turn], broken: _Broken) -> _Faults:
    return _broke(broken, rules.EXCEPTION, rules.REPEATED)


_POINTS: Final[dict[str, Callable[[Sequence[Turn], _Broken], _Faults]]] = {
    "complete_triplets": _complete,
    "typed_thoughts": _typed,
    "actions_with_tool_and_parameters": _acted,
    "observations_with_status_and_result": _observed,
    "thoughts_reference_observations": _referring,
    "metrics_captured": _measured,
    "error_protocol_followed": _handled,
}
