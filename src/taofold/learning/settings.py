"""The options of learning: the keys under `ralph.cross_loop_learning`, and one of ours.

They control the lessons taken from a loop, the lessons shown to a loop, and pruning. The names of
the fields are the names of the keys. Knows nothing about their source.
"""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from taofold.core.values import Value

MOST_INJECTED: Final = 10
_Share = Annotated[float, Field(ge=0, le=1)]


class Extraction(BaseModel):
    """The lessons taken from a finished loop, and the evidence needed for a rate."""

    model_config = ConfigDict(frozen=True)

    enabled: bool = True
    auto_extract_on_completion: bool = True
    min_success_rate_threshold: _Share = 0.6
    """The minimum share of attempts that fixed a check, for a loop to teach an approach."""
    min_usage_count_for_evaluation: Annotated[int, Field(ge=1)] = 3
    extract_code_templates: bool = True
    merge_similar_patterns: bool = True
    similarity_threshold: _Share = 0.80
    within_project: bool = False
    """True to keep the lessons of this project in it."""


class Injection(BaseModel):
    """The lessons shown to a loop at its start.

    `control_share` of the loops with lessons to show get none, chosen at random, so that the
    benefit can be measured.
    """

    model_config = ConfigDict(frozen=True)

    enabled: bool = True
    top_k_patterns: Annotated[int, Field(ge=0)] = 5
    min_success_rate: _Share = 0.6
    max_patterns_injected: Annotated[int, Field(ge=0, le=MOST_INJECTED)] = MOST_INJECTED
    include_error_patterns: bool = True
    include_success_patterns: bool = True
    include_anti_patterns: bool = True
    include_code_templates: bool = True
    control_share: _Share = 0.15
    within_project: bool = False
    """True to use only lessons of this project's own loops."""

    @property
    def most(self) -> int:
        """The most patterns that are shown."""
        return max(min(self.top_k_patterns, self.max_patterns_injected), 0)


class Learning(Value, frozen=True):
    """All options of learning."""

    extraction: Extraction = Extraction()
    injection: Injection = Injection()


class Pruning(Value, frozen=True):
    """The rules of pruning. Rates are judged after `min_usage_count` uses."""

    min_success_rate: float = 0.5
    min_usage_count: int = 3
    max_age_days: int = 90
