"""Evaluations: cases, scorers, repetitions, and statistical comparison of the results.

report = await evaluate(agent, [Case("What is 6 × 7?", expect=42)], repeat=5)
print(report.summary)          # 1 case, 5 trials: 100 % pass (21–100 %) …
print(compare(report, other))  # … by a paired test over the cases
"""

from taofold.evals.cases import Case, from_state, read_cases
from taofold.evals.evaluation import Comparison, Report, Trial, compare, evaluate
from taofold.evals.scorers import Score, Scorer, command, contains, exact, judge, schema, success

__all__ = [
    "Case",
    "Comparison",
    "Report",
    "Score",
    "Scorer",
    "Trial",
    "command",
    "compare",
    "contains",
    "evaluate",
    "exact",
    "from_state",
    "judge",
    "read_cases",
    "schema",
    "success",
]


def __dir__() -> list[str]:
    return sorted(__all__)
