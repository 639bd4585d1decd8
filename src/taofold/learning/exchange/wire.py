"""The JSON form of patterns as files hold it, key for key the seed's schema.

What the schema has no key for stands under `taofold`. Knows nothing about what is believed.
"""

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from taofold.learning.patterns.kinds import (
    ErrorType,
    FailureMode,
    FixCategory,
    Kind,
    Language,
    TaskCategory,
)
from taofold.learning.patterns.pattern import FORMS, LONGEST_ID, Role

VERSION: Final = "1.0.0"
Rate: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Text: TypeAlias = Annotated[str, Meta(max_length=20_000)]
Texts: TypeAlias = Annotated[tuple[Text, ...], Meta(max_length=200)]


def _id(kind: Kind) -> Meta:
    return Meta(pattern=f"^{FORMS[kind].pattern}$", max_length=LONGEST_ID)


class WireStruct(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What all of them share."""


class WireLoop(WireStruct, frozen=True):
    """An entry of `source_loops`."""

    loop_id: Text
    timestamp: str
    contributed_by: Text = ""
    role: Role = "discovered"
    successful: bool | None = None
    outcome: Text = ""
    iterations_required: Count = 0
    failure_iteration: Count = 0


class WirePoint(WireStruct, frozen=True):
    """An entry of `effectiveness_trend`."""

    timestamp: str
    success_rate_snapshot: Rate
    sample_size: Count
    source_loop: Text = ""
    source_loops: Texts = ()


class WireScope(WireStruct, frozen=True):
    """Where a pattern is at home."""

    repository: Text = ""
    language: Text = ""
    tool: Text = ""


class WireSignature(WireStruct, frozen=True):
    """`error_signature`."""

    error_type: ErrorType
    error_pattern: Text
    error_location_hints: Texts = ()


class WireExtra(WireStruct, frozen=True):
    """What the schema has no key for."""

    name: Text = ""
    scope: WireScope | None = None
    error_class: Text = ""
    error_signs: Texts = ()
    """Written by release 0.1; read, and not used."""
    error_example: Text = ""
    error_seen: Text = ""
    fix_cause: Text = ""
    fix_template: Text = ""
    fix_language: Text = ""
    task_category: TaskCategory | None = None
    error_signature: WireSignature | None = None
    related_patterns: Texts = ()
    effectiveness_trend: tuple[WirePoint, ...] = ()
    first_discovered: str = ""
    last_used: str = ""
    retired: Text = ""
    successes: Count | None = None
    failures: Count | None = None
    tags: Texts = ()


class WirePattern(WireStruct, frozen=True, kw_only=True):
    """What every kind of pattern has; behind its own keys."""

    source_loops: tuple[WireLoop, ...] = ()
    taofold: WireExtra = WireExtra()


class WireTagged(WirePattern, frozen=True, kw_only=True):
    """What all kinds but anti-patterns have."""

    tags: Texts = ()


class WireFix(WireStruct, frozen=True):
    """`fix_approach`."""

    description: Annotated[str, Meta(min_length=20, max_length=20_000)]
    fix_category: FixCategory
    code_template: Text = ""
    code_template_language: Text = ""
    diff_pattern: Text = ""


class WireError(WireTagged, frozen=True):
    """An error pattern."""

    pattern_id: Annotated[str, _id("error")]
    error_signature: WireSignature
    fix_approach: WireFix
    success_rate: Rate
    usage_count: Count
    type: str = "error_pattern"
    successful_applications: Count | None = None
    failed_applications: Count | None = None
    last_used: str = ""
    first_discovered: str = ""
    effectiveness_trend: tuple[WirePoint, ...] = ()
    related_patterns: Texts = ()


class Iterations(WireStruct, frozen=True):
    """`typical_iterations`."""

    average: Annotated[float, Meta(ge=0)] = 0.0
    minimum: Count = 0
    maximum: Count = 0


class WireApproach(WireStruct, frozen=True):
    """`approach`."""

    description: Text
    steps: Texts = ()
    tools_used: Texts = ()
    typical_iterations: Iterations = Iterations()


class WireSuccess(WireTagged, frozen=True):
    """A success pattern."""

    pattern_id: Annotated[str, _id("success")]
    task_category: TaskCategory
    approach: WireApproach
    success_rate: Rate
    usage_count: Count
    type: str = "success_pattern"
    task_description_pattern: Text = ""
    average_iterations: Annotated[float, Meta(ge=0)] | None = None
    preconditions: Texts = ()
    benefits: Texts = ()
    limitations: Texts = ()


class Better(WireStruct, frozen=True):
    """`better_alternative`."""

    description: Text = ""
    success_pattern_id: Annotated[str, Meta(pattern=f"^(|{FORMS['success'].pattern})$")] = ""


class WireAnti(WirePattern, frozen=True):
    """An anti-pattern."""

    pattern_id: Annotated[str, _id("anti")]
    approach_description: Text
    failure_mode: FailureMode
    failure_rate: Rate
    occurrence_count: Count
    type: str = "anti_pattern"
    failure_symptoms: Texts = ()
    why_it_fails: Text = ""
    better_alternative: Better | None = None


class WireTemplate(WireTagged, frozen=True):
    """A code template."""

    template_id: Annotated[str, _id("template")]
    language: Language
    template_code: Text
    usage_count: Count
    type: str = "code_template"
    placeholders: dict[str, Text] = {}
    use_case: Text = ""
    success_rate: Rate | None = None


AnyWire: TypeAlias = WireError | WireSuccess | WireAnti | WireTemplate
WIRES: Final[dict[Kind, type[AnyWire]]] = {
    "error": WireError,
    "success": WireSuccess,
    "anti": WireAnti,
    "template": WireTemplate,
}
KEYS: Final[dict[Kind, str]] = {
    "error": "error_patterns",
    "success": "success_patterns",
    "anti": "anti_patterns",
    "template": "code_templates",
}
FILES: Final[dict[Kind, str]] = {
    "error": "error-patterns.json",
    "success": "success-patterns.json",
    "anti": "anti-patterns.json",
    "template": "code-templates.json",
}
