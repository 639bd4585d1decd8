"""What a loop was told of earlier ones, and what it taught: values, kept in its stream."""

from taofold.core.values import Value


class Lessons(Value, frozen=True):
    """What the prompt of a loop tells of earlier ones.

    `text` is a whole section for readers, delimited as reference data, or ""; `rates` is one for a
    search policy, or "". In a `control` loop both are "" on purpose; `reasons` say why nothing, or
    not more, was chosen.
    """

    text: str = ""
    patterns: tuple[str, ...] = ()
    control: bool = False
    reasons: tuple[str, ...] = ()
    rates: str = ""


class Used(Value, frozen=True):
    """What came of one injected pattern: applied (D18), and did its check turn green?"""

    pattern: str
    applied: bool = False
    successful: bool = False
    iteration: int = 0
    """The first iteration that used it, 0 if none did."""


class Extracted(Value, frozen=True):
    """A pattern that this loop taught. `new` is false if it merged into a known one."""

    pattern: str
    new: bool = True
    success_rate: float = 0.0


class Learnt(Value, frozen=True):
    """What a finished loop taught, and the estimate of what injection was worth.

    `baseline_iterations` comes from the control share; None = too few loops, `n` says how many.
    """

    injected: tuple[Used, ...] = ()
    extracted: tuple[Extracted, ...] = ()
    baseline_iterations: float | None = None
    improvement: float | None = None
    n: int = 0
    notes: tuple[str, ...] = ()
