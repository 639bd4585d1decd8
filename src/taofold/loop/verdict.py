"""A gate (`Gate`), what one run of it showed, what was tampered with (`TreeChange`), what became of
protected files that a person edited (`Settled`), and the verdict over all gates, with why a tree
may not be returned though it passed (`unexecuted`). Pure.

Values with one JSON form. A gate whose runner gave no report is read like a person would read it,
from its output; one that printed nothing recognisable counts as one check, named after its command.
Knows nothing about processes, files or test runners.
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
"""Whose machine-readable results are read; of a "command" only the exit code is known."""
TESTS: Final[frozenset[str]] = frozenset({"pytest", "unittest", "node", "go", "cargo"})
"""Runners whose checks have names that must be found again; the others report findings."""
_TAIL: Final = 400
"""Characters of the output of a gate that names no check."""
_OUTPUT: Final = 4000
"""Characters of a gate's output that the stream of a loop keeps."""
ChangeKind = Literal["changed", "deleted", "planted", "added"]
ChangeOutcome = Literal["restored", "set aside", "kept", "reported", "left out"]


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


class TreeChange(Value, frozen=True):
    """A path that is not what it was and does not join the proof, and what became of it."""

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
    lacking: str = ""
    """What could not be started, and where it was looked for."""
    started: bool = True
    """Did the gate's own program start?"""

    @property
    def failing(self) -> tuple[Check, ...]:
        """The checks that failed, in the order in which they ran."""
        return tuple([check for check in self.checks if check.status in ("failed", "error")])

    def _whole(self) -> Check:
        """The one check of a gate that names none: its last words, never its exit code."""
        return Check(
            self.gate.command,
            "failed",
            "timeout" if self.timed_out else "command",
            self.output[-_TAIL:].strip(),
            traceback="; ".join(self.reasons),
        )

    def slim(self) -> "GateResult":
        """The result without the details of what passed, its output cut to an excerpt."""
        checks = [
            check if check.status in ("failed", "error") else Check(check.id, check.status)
            for check in self.checks
        ]
        # Not its end alone: compilers and linters begin with the finding that others follow from.
        return replace(self, checks=tuple(checks), output=excerpt(self.output, _OUTPUT))


class Verdict(Value, frozen=True):
    """What all gates together say about one state of the tree."""

    passed: bool
    results: tuple[GateResult, ...] = ()
    quality: float = 0.0
    """Share of baseline and new checks that pass, 0 to 1."""
    tampered: bool = False
    changes: tuple[TreeChange, ...] = ()
    joined: tuple[str, ...] = ()
    """Files of the work that the gates ran with in the proof."""
    missing: tuple[str, ...] = ()
    contained: bool = False
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What a person should know though it decides nothing."""
    tree: str = ""
    """The snapshot that was judged, where the caller named one."""
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
        """The checks of all gates that failed, as their runners report them."""
        return tuple([check for result in self.results for check in result.failing])

    @property
    def errors(self) -> tuple[Check, ...]:
        """What is wrong: `failing`, and for a failing gate that names no check what it printed."""
        checks: list[Check] = []
        for result in self.results:
            named = result.failing
            checks += named
            # A gate without a report still has to be told apart from itself in the next iteration.
            if not named and not result.passed:
                checks += failing_checks(result.output) or [result._whole()]
        return tuple(checks)

    @property
    def unstarted(self) -> str:
        """The first gate that could not start something, and what; "" if none."""
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
        """The verdict without what the loop's stream need not keep: details of what passed."""
        return replace(self, results=tuple([result.slim() for result in self.results]))

    @property
    def counts(self) -> tuple[int, int]:
        """How many checks pass, and how many there are."""
        # By `errors`, not `failing`: a gate that names no check counts as one that fails.
        good, bad = len(self.passing), len(self.errors)
        return good, good + bad

    @property
    def summary(self) -> str:
        """`12 of 14 checks pass`, and what else decides."""
        good, every = self.counts
        summary = f"{good} of {times(every, 'check')} pass{'es' * (every == 1)}"
        if self.missing:
            summary += f"; {len(self.missing)} of the baseline did not run"
        if self.tampered:
            summary += "; protected files were tampered with"
        return summary


class Settled(Value, frozen=True):
    """What became of protected files that a person edited.

    `baseline` is the digest of what verdicts are compared with from now on; `dropped` names some
    of the tests that need not be there any more, `lost` counts all of them.
    """

    baseline: str = ""
    dropped: tuple[str, ...] = ()
    lost: int = 0


def unexecuted(last: Verdict | None, tree: str) -> str:
    """Why `tree` may not be returned: "" if the last execution judged exactly this tree."""
    if last is None:
        return "no gate was run: there is no record of execution"
    if not any([result.ran for result in last.results]):
        return "no gate could be started: there is no record of execution"
    # Equal trees have equal ids: even a change that was undone by hand does not count.
    if last.tree != tree:
        return "the code changed after the last execution of the gates"
    return ""


def percent(quality: float) -> str:
    """A share of checks as text, rounded down: it is 100 % only where all pass."""
    return f"{int(quality * 100 + 1e-9)}%"
