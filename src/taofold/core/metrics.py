"""The measures of a run, all derived from its log alone.

Rates, counts, times, tokens and costs of one run, as `taofold runs metrics` shows them. `rules`
judges the turns, `trace` renders the log, and `taofold.evals` aggregates many runs.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from taofold.core import events as e
from taofold.core.agent_shares import shares
from taofold.core.grounding import RULES, ground_turns
from taofold.core.state import fold, live
from taofold.core.trace import TracedTurn, turns
from taofold.core.values import Usage, Value


class Metrics(Value, frozen=True):
    """The measures of a log.

    Only complete steps count. A batch is one action in the ratio and as many calls in the
    distribution. Rates and scores are percentages with one decimal, None if there is nothing to
    measure. Times are milliseconds. The first six are defined by the TAO rules.
    """

    iterations_count: int
    thought_type_distribution: dict[str, int]
    action_tool_distribution: dict[str, int]
    observation_success_rate: float | None
    thought_to_action_ratio: float | None
    grounding_score: float | None
    grounding_eligible: int
    grounded: int
    cited: int
    """Eligible thoughts that name an earlier step in `because`, grounded or not."""
    grounding_judge: str
    """The judge: "rules", or the name of a model. The rules decide where it has no verdict."""
    exception_rate: float | None
    interrupted: int
    calls: int
    refused_calls: int
    model_calls: int
    usage: Usage
    usage_by_model: dict[str, Usage]
    usage_by_agent: dict[str, Usage]
    """By the agent that was active. Child runs count for the agent that called them."""
    tool_ms: float
    model_ms: float
    active_ms: int
    """Active time, without time spent waiting for answers or without a process."""
    wall_ms: int

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON with every figure, including zeros."""
        measures = {name: getattr(self, name) for name in self.__struct_fields__}
        measures["usage"] = _usage(self.usage)
        measures["usage_by_model"] = {
            model: _usage(usage) for model, usage in self.usage_by_model.items()
        }
        measures["usage_by_agent"] = {
            agent: _usage(usage) for agent, usage in self.usage_by_agent.items()
        }
        return measures


def measure(records: Iterable[e.Record]) -> Metrics:
    """Measures a log, finished or not. Rewound records count only for money and tokens spent."""
    records = list(records)
    live_records = live(records)
    all_turns = turns(live_records)
    # All records, not the live ones: `fold` counts the money of a rewound branch as spent.
    state = fold(records)
    done = [turn for turn in all_turns if turn.complete]
    calls = [call for turn in done for call in turn.calls]
    statuses = Counter(call.observation.status for call in calls if call.observation is not None)
    types = Counter[str](turn.thought.type for turn in done)
    eligible = [judged for judged in ground_turns(all_turns, live_records) if judged.eligible]
    grounded = sum(judged.grounded for judged in eligible)
    return Metrics(
        iterations_count=len(done),
        thought_type_distribution=dict(types),
        action_tool_distribution=dict(Counter(call.action.tool for call in calls)),
        observation_success_rate=_percent(statuses["success"], len(calls)),
        thought_to_action_ratio=_ratio(all_turns, len(done)),
        grounding_score=_percent(grounded, len(eligible)),
        grounding_eligible=len(eligible),
        grounded=grounded,
        cited=sum(judged.cited for judged in eligible),
        grounding_judge=next((j.judge for j in eligible if j.judge != RULES), RULES),
        exception_rate=_percent(types["exception"], len(done)),
        interrupted=sum(bool(turn.calls) and not turn.complete for turn in all_turns),
        calls=state.tool_calls,
        refused_calls=state.refused_calls,
        model_calls=state.model_calls,
        usage=state.usage,
        usage_by_model=dict(state.usage_by_model),
        usage_by_agent={name: share.usage for name, share in shares(records).items()},
        tool_ms=_tool_ms(done),
        model_ms=round(sum(r.event.ms for r in live_records if isinstance(r.event, e.Replied)), 3),
        active_ms=state.active_ms,
        wall_ms=records[-1].at - records[0].at if records else 0,
    )


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 1) if whole else None


def _ratio(all_turns: Sequence[TracedTurn], batches: int) -> float | None:
    """Returns thoughts per batch: 1 unless an action lacks a thought, or the reverse."""
    thoughts = sum(
        # Interrupted turns are left out on both sides: an unfinished batch is no step.
        bool(turn.thought.content.strip())
        for turn in all_turns
        if turn.complete or not turn.calls
    )
    return round(thoughts / batches, 3) if batches else None


def _tool_ms(done: Sequence[TracedTurn]) -> float:
    spent = sum(
        call.observation.duration_ms
        for turn in done
        for call in turn.calls
        if call.observation is not None
    )
    return round(spent, 3)


def _usage(usage: Usage) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.structs.asdict(usage)
    fields["usd"] = usage.shown_usd
    return fields
