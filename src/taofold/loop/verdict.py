"""A gate (`Gate`), the result of a run, tampering (`TreeChange`), and the verdict over all gates.
Pure.

Also the result of a user's decision about edited protected files (`Settled`), and the reason
against delivering a passed tree (`unexecuted`). Values with one JSON form. The output of a gate
without a report is parsed as a user would read it; one without recognisable output counts as one
check, named after its command. Knows nothing about processes, files or test runners.
"""

from typing import Final, Literal

from msgspec.structs import replace

from taofold.core.failing_checks import Check
from taofold.core.text import excerpt, times
from taofold.core.values import Value
from taofold.diagnostics import failing_checks

Runner = Literal[
    "pytest", "unittest", "node", "go", "cargo", "tsc", "ruff", "mypy", "eslint", "command"
]
"""Runners with machine-readable results; for a "command" only the exit code is known."""
TESTS: Final[frozenset[str]] = frozenset({"pytest", "unittest", "node", "go", "cargo"})
"""Runners whose checks have names that must occur again; the others report findings."""
_TAIL: Final = 400
"""The most characters of the output of a gate that names no check."""
_OUTPUT: Final = 4000
"""The most characters of a gate's output in the stream of a loop."""
ChangeKind = Literal["changed", "deleted", "planted", "added"]
ChangeOutcome = Literal["restored", "set aside", "kept", "reported", "left out"]


class Gate(Value, frozen=True):
    """A command that proves completion by its exit code."""

    command: str
    """As the user wrote it: arguments, or shell text if `shell`."""
    timeout: float = 600.0
    """Seconds."""
    folder: str = "."
    """Directory below the work root."""
    shell: bool = False
    env: dict[str, str] = {}
    """The variables that the user set before the command."""
    argv: tuple[str, ...] = ()


class TreeChange(Value, frozen=True):
    """A changed path that does not join the proof, and the reaction."""

    path: str
    did: ChangeKind
    done: ChangeOutcome
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
    """The executed arguments, without the container's."""
    checks: tuple[Check, ...] = ()
    missing: tuple[str, ...] = ()
    """Baseline checks that did not run, or were skipped."""
    output: str = ""
    """Bounded and redacted."""
    reasons: tuple[str, ...] = ()
    """The reasons why it did not pass."""
    contained: bool = False
    reported: bool = False
    """True if the runner's machine-readable report arrived completely."""
    timed_out: bool = False
    started_ms: int = 0
    ms: int = 0
    lacking: str = ""
    """The program that could not be started, and the place where it was searched."""
    started: bool = True
    """True if the gate's own program started."""

    @property
    def failing(self) -> tuple[Check, ...]:
        """The checks that failed, in the order in which they ran."""
        return tuple([check for check in self.checks if check.status in ("failed", "error")])

    def _whole(self) -> Check:
        """Returns the single check of a gate that names none: its last output."""
        return Check(
            self.gate.command,
            "failed",
            "timeout" if self.timed_out else "command",
            self.output[-_TAIL:].strip(),
            traceback="; ".join(self.reasons),
        )

    def slim(self) -> "GateResult":
        """Returns the result without the details of passed checks, its output cut to an excerpt."""
        checks = [
            check if check.status in ("failed", "error") else Check(check.id, check.status)
            for check in self.checks
        ]
        # Not only its end: compilers and linters begin with the finding that causes the others.
        return replace(self, checks=tuple(checks), output=excerpt(self.output, _OUTPUT))


class Verdict(Value, frozen=True):
    """The combined result of all gates for one state of the tree."""

    passed: bool
    results: tuple[GateResult, ...] = ()
    quality: float = 0.0
    """Share of baseline and new checks that pass, 0 to 1."""
    tampered: bool = False
    changes: tuple[TreeChange, ...] = ()
    joined: tuple[str, ...] = ()
    """Files of the work with which the gates ran in the proof."""
    missing: tuple[str, ...] = ()
    contained: bool = False
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Information for the user that decides nothing."""
    tree: str = ""
    """The judged snapshot, if the caller named one."""
    packages: tuple[str, ...] = ()
    """Packages outside the work root that changed since the baseline, a line for each."""

    @property
    def failing_names(self) -> tuple[str, ...]:
        """The names of the checks that fail."""
        return tuple([check.id for check in self.errors])

    @property
    def tampered_with(self) -> tuple[str, ...]:
        """The protected files that were changed."""
        return tuple([change.path for change in self.changes if change.tampering])

    @property
    def failing(self) -> tuple[Check, ...]:
        """The failed checks of all gates, as their runners report them."""
        return tuple([check for result in self.results for check in result.failing])

    @property
    def errors(self) -> tuple[Check, ...]:
        """The errors: `failing`, and the output of each failing gate that names no check."""
        checks: list[Check] = []
        for result in self.results:
            named = result.failing
            checks += named
            # A gate without a report must still be comparable with itself in the next iteration.
            if not named and not result.passed:
                checks += failing_checks(result.output) or [result._whole()]
        return tuple(checks)

    @property
    def unstarted(self) -> str:
        """The first gate that could not start something, with its name; "" if none."""
        return next((f"`{r.gate.command}`: {r.lacking}" for r in self.results if r.lacking), "")

    @property
    def passing(self) -> frozenset[str]:
        """The ids of the checks that passed."""
        ids = [
            check.id
            for result in self.results
            for check in result.checks
            if check.status == "passed"
        ]
        ids += [
            result.gate.command for result in self.results if result.passed and not result.checks
        ]
        return frozenset(ids)

    @property
    def signatures(self) -> frozenset[str]:
        """The signatures of `errors`: equal for the same error in two verdicts."""
        return frozenset([check.signature for check in self.errors])

    def slim(self) -> "Verdict":
        """Returns the verdict without details of passed checks, which the stream need not keep."""
        return replace(self, results=tuple([result.slim() for result in self.results]))

    @property
    def counts(self) -> tuple[int, int]:
        """The number of passed checks, and of all checks."""
        # By `errors`, not `failing`: a gate that names no check counts as one that fails.
        good, bad = len(self.passing), len(self.errors)
        return good, good + bad

    @property
    def summary(self) -> str:
        """`12 of 14 checks pass`, and other deciding facts."""
        good, every = self.counts
        summary = f"{good} of {times(every, 'check')} pass{'es' * (every == 1)}"
        if self.missing:
            summary += f"; {len(self.missing)} of the baseline did not run"
        if self.tampered:
            summary += "; protected files were tampered with"
        return summary


class Settled(Value, frozen=True):
    """The result of a user's decision about edited protected files.

    `baseline` is the digest of the new baseline. `dropped` names some of the tests that are no
    longer required, `lost` counts all of them.
    """

    baseline: str = ""
    dropped: tuple[str, ...] = ()
    lost: int = 0


def unexecuted(last: Verdict | None, tree: str) -> str:
    """Returns why `tree` may not be delivered: "" if the last execution judged this tree."""
    if last is None:
        return "no gate was run: there is no record of execution"
    if not any([result.ran for result in last.results]):
        return "no gate could be started: there is no record of execution"
    # Equal trees have equal ids: even a change that was reverted manually does not count.
    if last.tree != tree:
        return "the code changed after the last execution of the gates"
    return ""


def percent(quality: float) -> str:
    """Returns a share of checks as text, rounded down: 100 % only if all pass."""
    return f"{int(quality * 100 + 1e-9)}%"
