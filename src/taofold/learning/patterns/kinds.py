"""The bodies of the four kinds of pattern, field for field the schema of the exported files.

An error and its fix (`ErrorFix`), an approach that led to success (`Approach`), one that failed
(`Avoidance`), and code with holes (`CodeTemplate`). Knows nothing about a pattern's success; that
is in `pattern`.
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
    """The recognisable form of an error.

    `type` is one of the schema's eight, `name` the language's own class such as "KeyError".
    `pattern` is the message with `.*` for varying parts; it is never run as a regular expression.
    `hints` are places such as `*.py:validate*`. `example` is one such message verbatim, and `seen`
    its place as `path:function`. `caller` are the lines of a test or a program that led to it,
    `raised` the line that raised it. `causes` are the exceptions that led to it, the first one
    first, each as `class: message`.
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
    """The change that made the error go away.

    `category` is one of the schema's eight. `code` is a template with `{{holes}}`. `diff` has the
    removed and added lines with their original names, prefixed by `-` or `+`, and context lines
    prefixed by a space. `files` are the changed files. `vain` are
    earlier edits of the same loop that left the error in place. `partial`: the change was made
    together with others of unknown purpose. `cause` is a sentence of imported files.
    """

    description: str = ""
    category: FixCategory = "other"
    code: str = ""
    language: str = ""
    diff: str = ""
    cause: str = ""
    files: tuple[str, ...] = ()
    vain: tuple[str, ...] = ()
    partial: bool = False


class ErrorFix(Value, frozen=True, tag_field="kind", tag="error"):
    """An error and its fix."""

    signature: ErrorSignature
    fix: Fix


class IterationSpread(Value, frozen=True):
    """The numbers of iterations of loops."""

    average: float = 0.0
    minimum: int | float = 0
    maximum: int | float = 0


class Approach(Value, frozen=True, tag_field="kind", tag="success"):
    """A way of working that led to success. `task` is a text with `.*` for varying parts."""

    category: TaskCategory = "implementation"
    description: str = ""
    steps: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    typical: IterationSpread = IterationSpread()
    task: str = ""
    average: float | None = None
    """Mean iterations of the loops that used it; None = as in `typical`."""
    preconditions: tuple[str, ...] = ()
    benefits: tuple[str, ...] = ()
    limitations: tuple[str, ...] = ()

    @property
    def average_iterations(self) -> float:
        """Mean iterations, 0 if unknown."""
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
    """The recurring error, if there was one."""


class CodeTemplate(Value, frozen=True, tag_field="kind", tag="template"):
    """Code with `{{holes}}`; `holes` describes each of them. `description` is from a file."""

    code: str
    language: Language = "other"
    use: str = ""
    holes: dict[str, str] = {}
    category: TaskCategory | None = None
    description: str = ""


Body: TypeAlias = ErrorFix | Approach | Avoidance | CodeTemplate
