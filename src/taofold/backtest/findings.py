"""Changes by a policy besides the verdicts on calls: of answers, starts and model calls."""

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

EXAMPLES: Final = 5
"""Places that a finding names."""
FREED: Final = "no longer stops a run"
"""The only effect that is less strict."""


class FindingKey(NamedTuple):
    """The rule, such as `own_approval`, and its effect in stored runs."""

    rule: str
    effect: str

    @property
    def is_looser(self) -> bool:
        """True if the policy would have been less strict."""
        return self.effect == FREED


@dataclass(slots=True)
class RuleFinding:
    """Stored facts that a rule besides those on calls would have refused.

    Args:
        count: Number of facts.
        runs: Number of runs that have such facts.
        examples: Some of them, as `RUN:SEQ`.
        reason: The reason that the newest one would have got.
    """

    count: int = 0
    runs: int = 0
    examples: list[str] = field(default_factory=list[str])
    reason: str = ""

    def add(self, other: "RuleFinding") -> None:
        """Adds the counts of other runs."""
        self.count += other.count
        self.runs += other.runs
        self.examples += other.examples[: EXAMPLES - len(self.examples)]
        self.reason = self.reason or other.reason


class RuleFindings(dict[FindingKey, RuleFinding]):
    """RuleFindings by rule and effect."""

    def count(self, rule: str, effect: str, place: str, reason: str = "", times: int = 1) -> None:
        """Counts facts of one run.

        Args:
            rule: The key of the policy file.
            effect: The effect.
            place: The first fact, as `RUN:SEQ`.
            reason: The reason of the refusal.
            times: Number of facts.
        """
        finding = self.setdefault(FindingKey(rule, effect), RuleFinding(runs=1, reason=reason))
        finding.count += times
        if len(finding.examples) < EXAMPLES:
            finding.examples.append(place)

    def add(self, others: "RuleFindings") -> None:
        """Adds the findings of other runs."""
        for key, finding in others.items():
            self.setdefault(key, RuleFinding()).add(finding)

    def as_json(self) -> list[dict[str, Any]]:
        """Returns the findings as JSON, the most frequent first."""
        return [
            {
                **key._asdict(),
                "direction": "loosened" if key.is_looser else "tightened",
                "count": finding.count,
                "runs": finding.runs,
                "examples": finding.examples,
                "reason": finding.reason,
            }
            for key, finding in self.ordered()
        ]

    def ordered(self) -> list[tuple[FindingKey, RuleFinding]]:
        """Returns the findings, the most frequent first."""
        return sorted(self.items(), key=lambda item: (-item[1].count, item[0]))
