"""What may be set about learning: the keys under `ralph.cross_loop_learning`, and one of ours.

They say what is learnt from a loop, what a loop is told, and what leaves the registry. The names of
the fields are the names of the keys. Where they come from is not known here.
"""

from typing import Final

from taofold.core.values import Value

CONTROL_SHARE: Final = 0.15
MOST_INJECTED: Final = 10


class Extraction(Value, frozen=True):
    """What is learnt from a finished loop, and when a rate is taken seriously."""

    enabled: bool = True
    auto_extract_on_completion: bool = True
    min_success_rate_threshold: float = 0.6
    """A loop of whose tries fewer than this share settled a check teaches no approach."""
    min_usage_count_for_evaluation: int = 3
    extract_code_templates: bool = True
    merge_similar_patterns: bool = True
    similarity_threshold: float = 0.80
    within_project: bool = False
    """Lessons of this project stay in it."""


class Injection(Value, frozen=True):
    """What a loop is told at its start.

    `control_share` of the loops that would be told something are told nothing, by lot, so that
    the benefit can be measured.
    """

    enabled: bool = True
    top_k_patterns: int = 5
    min_success_rate: float = 0.6
    max_patterns_injected: int = MOST_INJECTED
    include_error_patterns: bool = True
    include_success_patterns: bool = True
    include_anti_patterns: bool = True
    include_code_templates: bool = True
    control_share: float = CONTROL_SHARE
    within_project: bool = False
    """Only lessons of this project's own loops are used."""

    @property
    def most(self) -> int:
        """How many patterns are shown at most."""
        return max(min(self.top_k_patterns, self.max_patterns_injected), 0)


class Learning(Value, frozen=True):
    """All of it."""

    extraction: Extraction = Extraction()
    injection: Injection = Injection()


class Pruning(Value, frozen=True):
    """What leaves the registry. Rates are judged after `min_usage_count` uses."""

    min_success_rate: float = 0.5
    min_usage_count: int = 3
    max_age_days: int = 90
