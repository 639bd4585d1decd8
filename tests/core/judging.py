"""Judges whole logs and stories: every broken rule, and the grounding of bare steps."""

from collections.abc import Iterable, Sequence

from taofold.core import events as e
from taofold.core.grounding import Grounding, TokenLedger
from taofold.core.rules import Violation, derived_violations, recorded_violations
from taofold.core.values import Step


def violations(records: Iterable[e.Record]) -> tuple[Violation, ...]:
    """Returns every broken rule of a log, recorded or derived, by the number of its first step."""
    records = list(records)
    broken = list(recorded_violations(records))
    reported = {(violation.rule, violation.steps[-1:]) for violation in broken}
    broken += [v for v in derived_violations(records) if (v.rule, v.steps[-1:]) not in reported]
    return tuple(sorted(broken, key=lambda violation: violation.steps[:1]))


def ground(steps: Sequence[Step], *, goal: str, instructions: str = "") -> tuple[Grounding, ...]:
    """Judges the thoughts of complete steps, in order."""
    ledger = TokenLedger(goal, instructions)
    judged: list[Grounding] = []
    for step in steps:
        # Parameters come before observations: what a tool merely repeats is an echo.
        judged.append(ledger.judge(step.number, step.thought))
        for action in step.actions:
            ledger.said([action.parameters, action.rationale])
        for observation in step.observations:
            ledger.observed(step.number, [observation.result, observation.extraction])
    return tuple(judged)
