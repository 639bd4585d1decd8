"""What the four kinds of pattern say. Field for field the schema of the exported files.

An error and its fix (`ErrorFix`), a way of working that led to success (`Approach`), one that
failed (`Avoidance`), and code with holes (`CodeTemplate`). Knows nothing about how often a pattern
helped; that is `pattern`.
"""

from typing import Literal, TypeAlias

from taofold.core.values import Value

Kind = Literal["error", "success", "anti", "template"]
ErrorType = Literal[
    "TypeError",
    "ReferenceError",
    "AssertionError",
    "SyntaxError",
    "RuntimeError",
    "TimeoutError",
    "ValidationError",
    "Other",
]
FixCategory = Literal[
    "add_null_check",
    "add_type_validation",
    "add_error_handling",
    "fix_logic_error",
    "add_import",
    "update_dependency",
    "refactor_code_structure",
    "other",
]
TaskCategory = Literal[
    "implementation",
    "debugging",
    "refactoring",
    "testing",
    "documentation",
    "architecture",
    "migration",
    "optimization",
]
FailureMode = Literal[
    "infinite_loop",
    "quality_degradation",
    "scope_creep",
    "repeated_same_error",
    "incorrect_fix",
    "breaking_change",
    "performance_regression",
]
Language = Literal["typescript", "javascript", "python", "go", "rust", "java", "other"]


class ErrorSignature(Value, frozen=True):
    """What an error looks like.

    `type` is one of the schema's eight, `name` the real class such as "KeyError". `pattern`
    is the message with `.*` where it varied; it is never run as a regular expression.
    `hints` are places such as `*.py:validate*`. `example` is one such message word for word, and
    `seen` where it stood, as `path:function`; `caller` the lines, of a test or a program, by
    which it came up; `raised` the line that raised it. `causes` are the exceptions that led to it,
    the first one first, each as `class: message`.
    """

    type: ErrorType = "Other"
    pattern: str = ""
    hints: tuple[str, ...] = ()
    name: str = ""
    example: str = ""
    seen: str = ""
    caller: str = ""
    raised: str = ""
    causes: tuple[str, ...] = ()


class Fix(Value, frozen=True):
    """What made the error go away.

    `category` is one of the schema's eight, `template` the finer word for the shape of the
    edit, such as "off_by_one", where there is one. `code` is a template with `{{holes}}`, `diff`
    the removed and added lines under their true names, each behind `-` or `+` (with holes in
    patterns of release 0.1), and lines around them behind a space. `files` are the files that
    it changed; `vain` are edits that the same loop had tried before, which left the error there;
    `partial`: it was made together with other changes, of which nobody knows what they were for.
    `cause` is a sentence of imported files.
    """

    description: str = ""
    category: FixCategory = "other"
    template: str = ""
    code: str = ""
    language: str = ""
    diff: str = ""
    cause: str = ""
    files: tuple[str, ...] = ()
    vain: tuple[str, ...] = ()
    partial: bool = False


class ErrorFix(Value, frozen=True, tag_field="kind", tag="error"):
    """An error and what fixed it."""

    signature: ErrorSignature
    fix: Fix


class IterationSpread(Value, frozen=True):
    """How many iterations loops took."""

    average: float = 0.0
    minimum: int = 0
    maximum: int = 0


class Approach(Value, frozen=True, tag_field="kind", tag="success"):
    """A way of working that led to success. `task` is a text with `.*` for what varies."""

    category: TaskCategory = "implementation"
    description: str = ""
    steps: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    typical: IterationSpread = IterationSpread()
    task: str = ""
    average: float | None = None
    """Iterations of the loops that went this way; None = as `typical` says."""
    preconditions: tuple[str, ...] = ()
    benefits: tuple[str, ...] = ()
    limitations: tuple[str, ...] = ()

    @property
    def average_iterations(self) -> float:
        """Iterations on average, 0 if unknown."""
        return self.typical.average if self.average is None else self.average


class Avoidance(Value, frozen=True, tag_field="kind", tag="anti"):
    """A way of working that failed. `better_id` is the id of a success pattern."""

    approach: str
    mode: FailureMode = "repeated_same_error"
    symptoms: tuple[str, ...] = ()
    why: str = ""
    better: str = ""
    better_id: str = ""
    category: TaskCategory | None = None
    signature: ErrorSignature | None = None
    """The error that kept coming back, if it was one."""


class CodeTemplate(Value, frozen=True, tag_field="kind", tag="template"):
    """Code with `{{holes}}`; `holes` says what each stands for."""

    code: str
    language: Language = "other"
    use: str = ""
    holes: dict[str, str] = {}
    category: TaskCategory | None = None


Body: TypeAlias = ErrorFix | Approach | Avoidance | CodeTemplate
