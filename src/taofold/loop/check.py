"""What gates find: checks, what one command's run showed, and the verdict over all of them.

Values only, each with a JSON form. Knows nothing about processes, files or test runners.
"""

from typing import Final, Literal

from taofold.core.checks import Check as Check
from taofold.core.checks import Place as Place
from taofold.core.checks import Status as Status
from taofold.core.values import Value

Runner = Literal["pytest", "unittest", "node", "go", "cargo", "tsc", "ruff", "mypy", "command"]
"""Whose machine-readable results are read; of a "command" only the exit code is known."""
TESTS: Final[frozenset[str]] = frozenset({"pytest", "unittest", "node", "go", "cargo"})
"""Runners whose checks have names that must be found again; the others report findings."""
Did = Literal["changed", "deleted", "planted", "added"]
Done = Literal["restored", "set aside", "kept", "reported", "left out"]


class Gate(Value, frozen=True):
    """A command that proves completion by its exit code."""

    command: str
    """As the person wrote it: arguments, or shell text if `shell`."""
    output: str = ""
    """Text that must stand in the output; a regular expression between slashes."""
    timeout: float = 600.0
    """Seconds."""
    folder: str = "."
    """Directory below the work root."""
    shell: bool = False
    env: dict[str, str] = {}
    """What the person set in front of the command."""
    argv: tuple[str, ...] = ()


class Change(Value, frozen=True):
    """A path that is not what it was and does not join the proof, and what became of it."""

    path: str
    did: Did
    done: Done
    why: str = ""
    tampering: bool = True


class GateResult(Value, frozen=True):
    """The record of one execution of a gate."""

    gate: Gate
    passed: bool
    code: int | None = None
    """Exit code; negative = killed by that signal; None = it did not start or end."""
    runner: Runner = "command"
    ran: tuple[str, ...] = ()
    """The arguments that were run, without the container's."""
    checks: tuple[Check, ...] = ()
    missing: tuple[str, ...] = ()
    """Baseline checks that were not run, or skipped instead of run."""
    output: str = ""
    """Bounded and redacted."""
    reasons: tuple[str, ...] = ()
    """Why it did not pass."""
    contained: bool = False
    reported: bool = False
    """Did the runner's machine-readable report arrive whole?"""
    timed_out: bool = False
    started_ms: int = 0
    ms: int = 0

    @property
    def failing(self) -> tuple[Check, ...]:
        """The checks that failed, in the order in which they ran."""
        return tuple([check for check in self.checks if check.status in ("failed", "error")])


class Verdict(Value, frozen=True):
    """What all gates together say about one state of the tree."""

    passed: bool
    results: tuple[GateResult, ...] = ()
    quality: float = 0.0
    """Share of baseline and new checks that pass, 0 to 1."""
    tampered: bool = False
    changes: tuple[Change, ...] = ()
    missing: tuple[str, ...] = ()
    contained: bool = False
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What a person should know though it decides nothing."""
    tree: str = ""
    """The snapshot that was judged, where the caller named one."""

    @property
    def failing(self) -> tuple[Check, ...]:
        """The checks of all gates that failed."""
        return tuple([check for result in self.results for check in result.failing])


def unexecuted(last: Verdict | None, tree: str) -> str:
    """Why `tree` may not be returned: "" if the last execution judged exactly this tree."""
    if last is None:
        return "no gate was run: there is no record of execution"
    if not any([result.ran for result in last.results]):
        return "no gate could be started: there is no record of execution"
    if last.tree != tree:
        return "the code changed after the last execution of the gates"
    return ""
