"""The JSON form of patterns as files hold it, key for key the seed's schema.

The one place that says which key holds which part of a `Pattern`: `At("body.fix.diff")` beside a
field. `records` reads and writes by it, so a new key is one line here. What the schema has no key
for stands under `taofold`. Knows nothing about what is believed.
"""

from typing import Annotated, Final, NamedTuple, TypeAlias

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


class At(NamedTuple):
    """Where a pattern keeps what a key of the file holds, as a path of attributes.

    If two keys of a kind have one path, the outer key is written and read first: the schema gives
    some parts a key of their own in one kind of pattern and none in the others.
    """

    path: str


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

    repository: Annotated[Text, At("scope.repository")] = ""
    language: Annotated[Text, At("scope.language")] = ""
    tool: Annotated[Text, At("scope.tool")] = ""


class WireSignature(WireStruct, frozen=True):
    """`error_signature`."""

    error_type: Annotated[ErrorType, At("body.signature.type")]
    error_pattern: Annotated[Text, At("body.signature.pattern")]
    error_location_hints: Annotated[Texts, At("body.signature.hints")] = ()


class WireExtra(WireStruct, frozen=True):
    """What the schema has no key for."""

    name: Annotated[Text, At("name")] = ""
    scope: WireScope | None = None
    error_class: Annotated[Text, At("body.signature.name")] = ""
    error_signs: Texts = ()
    """Written by release 0.1; read, and not used."""
    error_example: Annotated[Text, At("body.signature.example")] = ""
    error_seen: Annotated[Text, At("body.signature.seen")] = ""
    fix_cause: Annotated[Text, At("body.fix.cause")] = ""
    fix_files: Annotated[Texts, At("body.fix.files")] = ()
    error_caller: Annotated[Text, At("body.signature.caller")] = ""
    fix_vain: Annotated[Texts, At("body.fix.vain")] = ()
    fix_elsewhere: Annotated[bool, At("body.fix.elsewhere")] = False
    fix_partial: Annotated[bool, At("body.fix.partial")] = False
    fix_template: Annotated[Text, At("body.fix.template")] = ""
    fix_language: Text = ""
    task_category: Annotated[TaskCategory | None, At("body.category")] = None
    error_signature: WireSignature | None = None
    related_patterns: Annotated[Texts, At("related")] = ()
    effectiveness_trend: Annotated[tuple[WirePoint, ...], At("trend")] = ()
    first_discovered: Annotated[str, At("first_discovered")] = ""
    last_used: Annotated[str, At("last_used")] = ""
    retired: Annotated[Text, At("retired")] = ""
    successes: Count | None = None
    failures: Count | None = None
    tags: Annotated[Texts, At("tags")] = ()


class WirePattern(WireStruct, frozen=True, kw_only=True):
    """What every kind of pattern has; behind its own keys."""

    source_loops: tuple[WireLoop | Text, ...] = ()
    """Ids alone are read as well; entries are what is written."""
    taofold: WireExtra = WireExtra()


class WireTagged(WirePattern, frozen=True, kw_only=True):
    """What all kinds but anti-patterns have."""

    tags: Annotated[Texts, At("tags")] = ()


class WireFix(WireStruct, frozen=True):
    """`fix_approach`."""

    description: Annotated[str, Meta(min_length=20, max_length=20_000), At("body.fix.description")]
    fix_category: Annotated[FixCategory, At("body.fix.category")]
    code_template: Annotated[Text, At("body.fix.code")] = ""
    code_template_language: Annotated[Text, At("body.fix.language")] = ""
    diff_pattern: Annotated[Text, At("body.fix.diff")] = ""


class WireError(WireTagged, frozen=True):
    """An error pattern."""

    pattern_id: Annotated[str, _id("error"), At("id")]
    error_signature: WireSignature
    fix_approach: WireFix
    success_rate: Rate
    usage_count: Count
    # Written for readers of the file; what counts is the key or the id it stands under.
    type: str = "error_pattern"
    successful_applications: Count | None = None
    failed_applications: Count | None = None
    last_used: Annotated[str, At("last_used")] = ""
    first_discovered: Annotated[str, At("first_discovered")] = ""
    effectiveness_trend: Annotated[tuple[WirePoint, ...], At("trend")] = ()
    related_patterns: Annotated[Texts, At("related")] = ()


class WireIterations(WireStruct, frozen=True):
    """`typical_iterations`."""

    average: Annotated[float, Meta(ge=0), At("body.typical.average")] = 0.0
    minimum: Annotated[Count, At("body.typical.minimum")] = 0
    maximum: Annotated[Count, At("body.typical.maximum")] = 0


class WireApproach(WireStruct, frozen=True):
    """`approach`."""

    description: Annotated[Text, At("body.description")]
    steps: Annotated[Texts, At("body.steps")] = ()
    tools_used: Annotated[Texts, At("body.tools")] = ()
    typical_iterations: WireIterations = WireIterations()


class WireSuccess(WireTagged, frozen=True):
    """A success pattern."""

    pattern_id: Annotated[str, _id("success"), At("id")]
    task_category: Annotated[TaskCategory, At("body.category")]
    approach: WireApproach
    success_rate: Rate
    usage_count: Count
    type: str = "success_pattern"
    task_description_pattern: Annotated[Text, At("body.task")] = ""
    average_iterations: Annotated[Annotated[float, Meta(ge=0)] | None, At("body.average")] = None
    preconditions: Annotated[Texts, At("body.preconditions")] = ()
    benefits: Annotated[Texts, At("body.benefits")] = ()
    limitations: Annotated[Texts, At("body.limitations")] = ()


class WireBetter(WireStruct, frozen=True):
    """`better_alternative`."""

    description: Annotated[Text, At("body.better")] = ""
    success_pattern_id: Annotated[
        str, Meta(pattern=f"^(|{FORMS['success'].pattern})$"), At("body.better_id")
    ] = ""


class WireAnti(WirePattern, frozen=True):
    """An anti-pattern."""

    pattern_id: Annotated[str, _id("anti"), At("id")]
    approach_description: Annotated[Text, At("body.approach")]
    failure_mode: Annotated[FailureMode, At("body.mode")]
    failure_rate: Rate
    occurrence_count: Count
    type: str = "anti_pattern"
    failure_symptoms: Annotated[Texts, At("body.symptoms")] = ()
    why_it_fails: Annotated[Text, At("body.why")] = ""
    better_alternative: WireBetter | None = None


class WireTemplate(WireTagged, frozen=True):
    """A code template."""

    template_id: Annotated[str, _id("template"), At("id")]
    language: Annotated[Language, At("body.language")]
    template_code: Annotated[Text, At("body.code")]
    usage_count: Count
    type: str = "code_template"
    placeholders: Annotated[dict[str, Text], At("body.holes")] = {}
    use_case: Annotated[Text, At("body.use")] = ""
    success_rate: Rate | None = None


AnyWire: TypeAlias = WireError | WireSuccess | WireAnti | WireTemplate


class Form(NamedTuple):
    """How one kind of pattern stands in files: its struct, its key in a file, its own file."""

    wire: type[AnyWire]
    key: str
    file: str


FORMATS: Final[dict[Kind, Form]] = {
    "error": Form(WireError, "error_patterns", "error-patterns.json"),
    "success": Form(WireSuccess, "success_patterns", "success-patterns.json"),
    "anti": Form(WireAnti, "anti_patterns", "anti-patterns.json"),
    "template": Form(WireTemplate, "code_templates", "code-templates.json"),
}
