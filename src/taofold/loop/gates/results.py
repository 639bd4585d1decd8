"""From what the gates' runs showed to a verdict, its reasons, and what a model reads of it. Pure.

What tests print is data: quoted, shortened and redacted.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import structs

from taofold.core.checks import Check
from taofold.core.text import excerpt
from taofold.loop.gates import expect
from taofold.loop.gates.baseline import Baseline, Expected
from taofold.loop.gates.criteria import holds
from taofold.loop.verdict import TESTS, Gate, GateResult, Runner, TreeChange, Verdict
from taofold.policy.redaction import Redactor

if TYPE_CHECKING:
    from taofold.loop.gates.bench import GateRun


OUTPUT: Final = 12_000
"""Characters of a gate's output that a result keeps."""
LEFT_OUT: Final = (
    "no source files of this task, so the proof ran without these changes "
    "(a person can allow them with --allow-edit)"
)
_IN_PROCESS: Final = (
    "the product runs in the process of its tests: code written to deceive them (it detects them, "
    "changes their runner in memory, prints their results) is not found out; read the diff"
)
_ANY: Final = "tests that test little, or that the task does not reach, prove little"
_COMMAND: Final = (
    "only its exit code is known: what it imports or calls of the product can end it with 0"
)
_LINTER: Final = "what it cannot see (casts, `Any`, code made at run time) is not found"


class Expectations:
    """What runs are held to: the baseline, where it ran, and what may not be shown."""

    def __init__(
        self, baseline: Baseline, redact: Redactor, not_contained: str, shared: str = ""
    ) -> None:
        """`shared`: why the gates cannot have a network of their own, where they have one."""
        self._baseline, self._redact, self._not_contained = baseline, redact, not_contained
        self._shared = shared

    def results(
        self, ran: Sequence["GateRun"], doubts: Sequence[Sequence[str]], prefix: str = ""
    ) -> list[GateResult]:
        """One result per gate. `doubts` speak against each; reasons begin with `prefix`."""
        baseline = self._baseline
        runs = zip(baseline.gates, ran, baseline.expected, doubts, strict=True)
        return [self._result(*run, prefix) for run in runs]

    def verdict(
        self,
        ran: Sequence["GateRun"],
        results: Sequence[GateResult],
        changes: tuple[TreeChange, ...],
        tree: str,
    ) -> Verdict:
        """All results together."""
        shares = [
            expect.share(run.plan.runner, was, run.report.checks, result.passed)
            for run, was, result in zip(ran, self._baseline.expected, results, strict=True)
        ]
        total = sum([count for _, count in shares])
        tampered = any([change.tampering for change in changes])
        passed = all([result.passed for result in results])
        reasons = [told(change) for change in changes if change.tampering]
        reasons += [
            f"`{result.gate.command}`: {reason}" for result in results for reason in result.reasons
        ]
        left = [change.path for change in changes if change.done == "left out"]
        if left and not passed:
            reasons.append(f"{LEFT_OUT}: {some(left)}")
        notes = [told(change) for change in changes if not change.tampering]
        if self._not_contained:
            notes.append(f"the gates are not contained: {self._not_contained}")
        elif self._shared:
            notes.append(f"the gates share this machine's network: {self._shared}")
        return Verdict(
            passed=not tampered and passed,
            results=tuple(results),
            quality=sum([good for good, _ in shares]) / total if total else 0.0,
            tampered=tampered,
            changes=changes,
            missing=tuple(name for result in results for name in result.missing),
            contained=not self._not_contained,
            reasons=tuple(reasons),
            notes=tuple(notes),
            tree=tree,
        )

    def _result(
        self, gate: Gate, ran: "GateRun", was: Expected, doubts: Sequence[str], prefix: str
    ) -> GateResult:
        report, runner = ran.report, ran.plan.runner
        lacking = expect.missing(runner, was, report.checks)
        reasons = [
            *_ended(gate, ran),
            *_reported(ran),
            *expect.interference(was, report, self._baseline.root),
            *doubts,
        ]
        if lacking:
            count = f"{len(lacking)} tests of the baseline were not run and passed"
            reasons.append(f"{count}: {some(lacking)}")
        return GateResult(
            gate=gate,
            passed=not reasons,
            code=ran.code,
            runner=runner,
            ran=ran.argv,
            checks=tuple([self._redacted(check) for check in report.checks]),
            missing=lacking,
            output=self._redact.text(excerpt(ran.output, OUTPUT)),
            reasons=tuple([self._redact.text(f"{prefix}{reason}") for reason in reasons]),
            contained=not self._not_contained,
            reported=report.whole and runner != "command",
            timed_out=ran.timed_out,
            started_ms=ran.started_ms,
            ms=ran.ms,
        )

    def _redacted(self, check: Check) -> Check:
        return structs.replace(
            check,
            id=self._redact.text(check.id),
            message=self._redact.text(check.message),
            traceback=self._redact.text(check.traceback),
        )


def apart(first: "GateRun", second: "GateRun") -> tuple[tuple[str, ...], str]:
    """What a run with the product in a process of its own says: doubts, and a note.

    Tests that need more of the product than plain data cannot be run so; the note counts them.
    """
    good = [check.id for check in first.report.checks if check.status == "passed"]
    now = {check.id: check for check in second.report.checks}
    # No doubt follows from these: a test that passes objects to the product cannot be run so.
    cannot = [name for name in good if name not in now or now[name].error_type == "Apart"]
    lost = [name for name in good if name not in cannot and now[name].status != "passed"]
    note = f"second judge: {len(good) - len(cannot) - len(lost)} of {len(good)} tests also pass "
    note += "with the product in a process of its own"
    if cannot:
        why = next((now[name].message for name in cannot if name in now), "")
        note += f"; {len(cannot)} need more of it than plain data: {some(cannot)}"
        note += f" ({why})" if why else ""
    if not lost:
        return (), note
    return (f"{len(lost)} pass only with the product in their own process: {some(lost)}",), note


def limits(verdict: Verdict) -> tuple[str, ...]:
    """What this verdict cannot tell, for the end of every report."""
    limits: dict[str, None] = {}
    for result in verdict.results:
        limits[f"`{result.gate.command}`: {_limit(result.runner)}"] = None
    limits[_ANY] = None
    if not verdict.contained:
        limits["not contained: programs of the agent may still run, and write anywhere"] = None
    return tuple(limits)


def _limit(runner: Runner) -> str:
    if runner == "command":
        return _COMMAND
    return _IN_PROCESS if runner in TESTS else _LINTER


def told(change: TreeChange) -> str:
    """A change in one line."""
    return f"{change.path} was {change.did} and is {change.done}: {change.why}"


def some(names: Sequence[str], most: int = 5) -> str:
    """The first of many names."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _ended(gate: Gate, ran: "GateRun") -> list[str]:
    """What its end says against it."""
    if ran.fault:
        return [ran.fault]
    reasons: list[str] = []
    # A signal is never a verdict: it may be the kernel's, for want of memory.
    if ran.code is None or ran.code < 0:
        reasons.append(f"it was killed by signal {-(ran.code or 0)}")
    elif ran.code:
        reasons.append(f"exit code {ran.code}")
    if gate.output and not holds(ran.printed, gate.output):
        reasons.append(f"its output does not hold {gate.output!r}")
    return reasons


def _reported(ran: "GateRun") -> list[str]:
    """What its report says against it, also where the exit code is 0."""
    report, runner = ran.report, ran.plan.runner
    if runner not in TESTS:
        return []
    reasons = list(report.doubts)
    failing = [check.id for check in report.checks if check.status in ("failed", "error")]
    if failing:
        reasons.append(f"{len(failing)} failing: {some(failing)}")
    if not report.whole and not report.doubts:
        reasons.append(f"{runner} ended without its report: it was stopped, or it never ran")
    # Code under test may call `os._exit(0)` after a failure: the reporter knows the real code.
    elif report.code is not None and ran.code is not None and report.code != ran.code:
        reasons.append(f"{runner} was about to end with {report.code}, but ended with {ran.code}")
    # A run without a single passing test proves nothing, whatever it exits with.
    if not failing and not any([check.status == "passed" for check in report.checks]):
        reasons.append("no test passed")
    return reasons


LIMIT = 6_000
"""Characters."""
_SHOWN = 8


def observation(verdict: Verdict, limit: int = LIMIT) -> str:
    """What is still wrong, the most telling first, in at most about `limit` characters."""
    lines = ["The gates pass." if verdict.passed else "The gates do not pass yet."]
    lines += [
        f"{change.path} was {change.did} and is {change.done}: {change.why}. "
        "It belongs to the check; solve the task without touching it."
        for change in verdict.changes
        if change.done not in ("kept", "left out")
    ]
    left = [change for change in verdict.changes if change.done == "left out"]
    if left and not verdict.passed:
        lines += [f"The gates ran without your change of {c.path}: {c.why}." for c in left[:_SHOWN]]
    # At least half is for the failures, however much there is to say about protected files.
    room = max(limit - sum(map(len, lines)), limit // 2)
    failed = [result for result in verdict.results if not result.passed]
    lines += [_told(result, room // len(failed)) for result in failed]
    return excerpt("\n".join(lines), limit)


def _told(result: GateResult, room: int) -> str:
    lines = [f"$ {result.gate.command}"]
    lines += [f"  {reason}" for reason in result.reasons]
    failing = result.failing
    share = max(room // max(min(len(failing), _SHOWN), 1), 200)
    lines += [_shown(check, share) for check in failing[:_SHOWN]]
    if len(failing) > _SHOWN:
        rest = ", ".join([check.id for check in failing[_SHOWN : _SHOWN + 20]])
        lines.append(f"also failing: {rest}")
    if not failing and result.output.strip():
        lines.append(excerpt(result.output.strip(), room // 2))
    return "\n".join(lines)


def _shown(check: Check, room: int) -> str:
    position = f"{check.places[-1].path}:{check.places[-1].line}" if check.places else ""
    summary = ": ".join([part for part in (check.error_type, check.message) if part])
    head = f"{check.status.upper()} {check.id} ({position}) {summary}".replace(" ()", "")
    body = excerpt(check.traceback.strip(), room) if check.traceback else ""
    return f"{excerpt(head, 600)}\n{body}".rstrip()
