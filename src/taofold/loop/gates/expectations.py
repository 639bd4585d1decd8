"""The expected results of a gate after its run before iteration 1, and the verdict on later runs.
Pure.

`expected` takes the report of the first run, `Expectations.verdict` compares later ones with it;
the share of passed checks is the verdict's quality. New tests prove nothing. Each test of the
baseline must have run and passed. A linter's findings of the baseline must be gone, as shown by its
exit code. Doubts are reasons too: replaced parts of the runner (`interference`), files that a
linter no longer checks (`unchecked`), tests that pass only with the product in the same process
(`second_judgement`).

`rebased` selects the user's edits that change the expectation, `homes` finds files with tests by
the tests' ids. `runner_ids` knows the names of tests, `verdict_texts` renders a verdict for a
model.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from msgspec import structs

from taofold.core.failing_checks import Check, Location, Status
from taofold.core.text import excerpt, times
from taofold.loop.gates.baseline import Baseline, Expected
from taofold.loop.gates.reports import RunnerReport
from taofold.loop.gates.runner_ids import (
    JOINTS,
    is_inside,
    is_test_in,
    is_unloaded,
    prefix_of,
    python_source,
    tests_in,
)
from taofold.loop.gates.scope import ScopeRules, exclusion, is_allowed
from taofold.loop.gates.verdict_texts import allowing, change_line, left_out
from taofold.loop.verdict import TESTS, Gate, GateResult, Runner, TreeChange, Verdict
from taofold.parsing.untrusted_text import first_names, join_names, one_line
from taofold.policy.redaction import Redactor
from taofold.tools.container_network import Reach

if TYPE_CHECKING:
    from taofold.loop.gates.gate_run import GateRun


_TESTING = re.compile(r"(?:\A|_)(?:tests?|checks?|specs?)(?:_|\.)")
_NAMED = 5


def expected(runner: Runner, report: RunnerReport, sources: Mapping[str, str]) -> Expected:
    """Returns the expectation for later runs. `sources` are the contents of protected files."""
    checks: dict[str, Status | None] = dict.fromkeys(report.collected)
    checks |= {check.id: check.status for check in report.checks}
    names: dict[str, tuple[str, ...]] = {}
    for check in report.checks:
        if runner in TESTS and is_unloaded(runner, check, sources):
            # A file that could not be loaded is not a test: the tests in it count, once it loads. A
            # file that skips itself may continue to do so.
            if check.status != "skipped":
                del checks[check.id]
            if home := prefix_of(runner, check.id, sources):
                names[home] = tests_in(python_source(home, sources))
    return Expected(checks, names, tuple(report.patched), report.plugins, report.files)


def homes(
    runner: Runner, was: Expected, files: Collection[str], text: Callable[[str], str]
) -> set[str]:
    """Returns files that hold only tests, known only by their ids: `checks/check_a.py`.

    `text` returns the content of a file.
    """
    ids = (*was.checks, *was.names)
    if runner == "unittest":
        # The modules are in the ids of the tests, for any pattern or name by which they were found.
        ends = [tuple(accumulate(name.split("."), "{}.{}".format)) for name in ids]
        modules = {module.replace(".", "/") for each in ends for module in each}
        firsts = {each[0] for each in ends}
        return {
            path
            for path in files
            if path.endswith(".py")
            and (path[:-3] in modules or path[:-3].rpartition("/")[2] in firsts)
            and "unittest" in text(path)
        }
    paths = {name.partition("::")[0] for name in ids if "::" in name}
    return {
        path
        for path in paths & {*files}
        if not path.endswith(".py") or _TESTING.search(path.rpartition("/")[2])
    }


def missing(runner: Runner, was: Expected, checks: Iterable[Check]) -> tuple[str, ...]:
    """Returns checks of the baseline that did not run, or were skipped."""
    if runner not in TESTS:
        return ()
    now = {check.id: check.status for check in checks}
    lacking = [
        name
        for name, before in was.checks.items()
        if name not in was.names and _lacks(before, now.get(name))
    ]
    ran = [name for name, status in now.items() if status != "skipped"]
    joint = JOINTS[runner]
    for whole, tests in was.names.items():
        if now.get(whole) == was.checks.get(whole) == "skipped":
            continue
        inside = [name for name in ran if is_inside(runner, name, whole)]
        if not inside and whole not in now:
            lacking.append(whole)
        # A test with parameters is several checks, `name[…]`.
        functions = {name.rpartition(joint)[2].partition("[")[0] for name in inside}
        lacking += [whole + joint + test for test in tests if test not in functions]
    return tuple(lacking)


def _lacks(before: str | None, now: str | None) -> bool:
    # Skipping a test that ran before is the cheapest way to make it stop failing.
    return now is None or (now == "skipped" and before != "skipped")


def unchecked(
    was: Expected,
    now: Collection[str],
    tree: Collection[str],
    changed: Collection[str],
    allow_edit: Sequence[str] = (),
) -> tuple[str, ...]:
    """Returns the doubts about a linter that checks fewer files than before.

    Args:
        was: The expectation, with the files checked before the work.
        now: The files that it checks.
        tree: The existing files.
        changed: The files that the work changed or created.
        allow_edit: Files that a user allowed to delete or to exclude, as globs.
    """
    bound = [path for path in was.files if path in now or not is_allowed(path, allow_edit)]
    lost = [path for path in bound if path in tree and path not in now]
    gone = [path for path in bound if path not in tree]
    languages = {_language(path) for path in gone} - {""}
    unseen = [path for path in changed if path in tree and path not in (*was.files, *now)]
    aside = [path for path in unseen if _language(path) in languages]
    doubts: list[str] = []
    if lost:
        doubts.append(
            f"not checked any more: {join_names(lost, _NAMED)} ({allowing(lost)} allows it)"
        )
    if len(now) < len(bound):
        fewer = f"{times(len(now), 'file')} checked, {len(was.files)} before the work began"
        doubts.append(f"{fewer} ({allowing([*lost, *gone])} allows it)")
    # A file moved to a place that the linter does not check is not fixed.
    if gone and aside:
        doubts.append(f"{one_line(gone[0])} is gone, and {one_line(aside[0])} is not checked")
    return tuple(doubts)


def out_of_reach(verdict: Verdict, rules: ScopeRules) -> list[str]:
    """Returns the files with findings of linters that no change of an agent's can fix."""
    places = [
        place.path
        for result in verdict.results
        if result.runner not in TESTS
        for check in result.failing
        for place in check.places[-1:]
    ]
    return [path for path in dict.fromkeys(places) if exclusion(path, new=False, rules=rules)]


def overlooked(was: Expected, now: Collection[str], new: Iterable[str]) -> list[str]:
    """Returns the new files in a linter's languages that it does not check."""
    languages = {_language(path) for path in was.files} - {""}
    return [path for path in new if _language(path) in languages and path not in now]


def _language(path: str) -> str:
    suffix = path.rpartition(".")[2]
    if suffix in ("py", "pyi"):
        return "python"
    return "javascript" if suffix.strip("cmx") in ("js", "ts") else ""


def rebased(runner: Runner, was: Expected, now: Expected, edited: Collection[str]) -> Expected:
    """Returns the expectation after a user's edit of these files; `now` is a run with them.

    For edited test files their current tests count. An edited file without tests (configuration,
    helpers, data) may add or remove tests anywhere; even then a remaining test must pass if it had
    to before.
    """
    if runner not in TESTS:
        return was
    ids = {*was.checks, *was.names, *now.checks, *now.names}
    # The existing tests may depend on a file without tests: configuration, a helper, data.
    every = not all([any([is_test_in(runner, name, path) for name in ids]) for path in edited])

    def is_edited(name: str) -> bool:
        return any([is_test_in(runner, name, path) for path in edited])

    def moves(name: str) -> bool:
        return every or is_edited(name)

    checks = {name: status for name, status in was.checks.items() if not moves(name)}
    names = {name: tests for name, tests in was.names.items() if not moves(name)}
    names |= {name: tests for name, tests in now.names.items() if moves(name)}
    for name, status in now.checks.items():
        if is_edited(name):
            checks[name] = status
        elif every:
            # A test outside the edited file must pass if it had to before.
            checks[name] = was.checks.get(name, status)
    plugins = tuple(dict.fromkeys([*was.plugins, *(now.plugins if every else ())]))
    patched = tuple(dict.fromkeys([*was.patched, *now.patched]))
    return structs.replace(was, checks=checks, names=names, plugins=plugins, patched=patched)


def interference(was: Expected, report: RunnerReport, root: str) -> tuple[str, ...]:
    """Returns the parts of the runner that were replaced while it ran, beyond those of the
    baseline.

    If some tests could not be loaded before, installed plugins may become active only now.
    """
    reasons = [
        f"{name} was replaced"
        for name, file in report.patched.items()
        if name not in was.patched
        and not (was.names and file.startswith("/") and not file.startswith(f"{root}/"))
    ]
    plugins = [name for name in report.plugins if name not in was.plugins]
    reasons += [f"plugin {name} was added" for name in plugins if not name.endswith("conftest.py")]
    return tuple(reasons)


def share(runner: Runner, was: Expected, checks: Iterable[Check], passed: bool) -> tuple[int, int]:
    """Returns how many of the baseline's and the new checks pass, and their total."""
    now = {check.id: check.status for check in checks}
    # Without checks the exit code is the only result.
    if runner == "command" or not (was.checks or was.names or now):
        return int(passed), 1
    names = {**was.checks, **dict.fromkeys(now)}
    if runner not in TESTS:  # findings: those that are gone count as passed
        return len(names.keys() - now.keys()), len(names)
    # Tests that were and are skipped count in neither direction.
    idle = _of_status(now, "skipped") & _of_status(was.checks, "skipped")
    lost = {name for name in was.names if now.get(name) not in (None, "passed")}
    gone = {name for name in was.names if name not in now}
    counted = ((names.keys() - gone) | lost) - idle
    return len(_of_status(now, "passed")), max(len(counted), 1)


def _of_status(checks: Mapping[str, str | None], status: Status) -> set[str]:
    return {name for name, its in checks.items() if its == status}


OUTPUT: Final = 12_000
"""The most characters of a gate's output in a result."""
_NOT_REACHED: Final = re.compile(
    r"\b(?:ECONNREFUSED|ENETUNREACH|EAI_AGAIN|ENOTFOUND)\b"
    r"|(?i:connection refused|network is unreachable|name or service not known"
    r"|temporary failure in name resolution|could not resolve host"
    r"|no such host|nodename nor servname provided)"
)
"""Messages of programs that did not reach an address."""
_NO_NETWORK: Final = (
    "gates run without a network. --network gives them one, and --local-port PORT a service on "
    "this machine"
)
_OWN_NETWORK: Final = (
    "gates have a network of their own, from which services on this machine are reached with "
    "--local-port PORT alone"
)
LEFT_OUT: Final = "no source files of this task, so the proof ran without these changes"


class Expectations:
    """The requirements on runs: the baseline, its place, and the secrets to redact."""

    def __init__(
        self,
        baseline: Baseline,
        redact: Redactor,
        not_contained: str,
        shared: str = "",
        reach: Reach = Reach(),
    ) -> None:
        """`shared`: why the gates have no network of their own, if they share the machine's."""
        self._reach = reach
        self._baseline, self._redact, self._not_contained = baseline, redact, not_contained
        self._shared = shared

    def results(
        self, ran: Sequence["GateRun"], doubts: Sequence[Sequence[str]], prefix: str = ""
    ) -> list[GateResult]:
        """Returns one result per gate. `doubts` count against each; reasons begin with `prefix`."""
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
        """Returns the verdict on all results together."""
        passed = all([result.passed for result in results])
        tampered = any([change.tampering for change in changes])
        return Verdict(
            passed=not tampered and passed,
            results=tuple(results),
            quality=self._quality(ran, results),
            tampered=tampered,
            changes=changes,
            missing=tuple(name for result in results for name in result.missing),
            contained=not self._not_contained,
            reasons=tuple(_reasons(results, changes, passed=passed)),
            notes=tuple(self._notes(changes, results)),
            tree=tree,
        )

    def _quality(self, ran: Sequence["GateRun"], results: Sequence[GateResult]) -> float:
        """Returns the share of all gates' checks that pass."""
        shares = [
            share(run.plan.runner, was, run.report.checks, result.passed)
            for run, was, result in zip(ran, self._baseline.expected, results, strict=True)
        ]
        total = sum([count for _, count in shares])
        return sum([good for good, _ in shares]) / total if total else 0.0

    def _notes(self, changes: Sequence[TreeChange], results: Sequence[GateResult]) -> list[str]:
        """Returns notes that do not count against the work."""
        notes = [change_line(change) for change in changes if change.done == "kept"]
        if self._not_contained:
            notes.append(f"the gates are not contained: {self._not_contained}")
        elif self._shared:
            notes.append(f"the gates share this machine's network: {self._shared}")
        elif found := _unreachable(results):
            notes.append(f"{found!r}: {_OWN_NETWORK if self._reach else _NO_NETWORK}")
        return notes

    def _result(
        self, gate: Gate, ran: "GateRun", was: Expected, doubts: Sequence[str], prefix: str
    ) -> GateResult:
        report, runner = ran.report, ran.plan.runner
        lacking = missing(runner, was, report.checks)
        reasons = [
            *_ended(gate, ran),
            *_reported(ran),
            *interference(was, report, self._baseline.root),
            *doubts,
        ]
        if lacking:
            count = f"{times(len(lacking), 'test')} of the baseline not run and passed"
            reasons.append(f"{count}: {first_names(lacking)}")
        return GateResult(
            gate=gate,
            passed=not reasons,
            code=ran.code,
            runner=runner,
            ran=ran.argv,
            checks=tuple([self._redacted(check) for check in report.checks]),
            missing=lacking,
            output=self._redact.text(excerpt(self._relative(ran.output), OUTPUT)),
            reasons=tuple([self._redact.text(f"{prefix}{reason}") for reason in reasons]),
            contained=not self._not_contained,
            reported=report.whole and runner != "command",
            timed_out=ran.timed_out,
            started_ms=ran.started_ms,
            ms=ran.ms,
            lacking="" if ran.unstarted is None else self._redact.text(ran.unstarted.why),
            started=ran.unstarted is None or not ran.unstarted.whole,
        )

    def _relative(self, output: str) -> str:
        """Returns the output with paths as the agent and the snapshots name them."""
        root = self._baseline.root.rstrip("/")
        return output.replace(f"file://{root}/", "").replace(f"{root}/", "") if root else output

    def _redacted(self, check: Check) -> Check:
        redact = self._redact.text
        # An exception's class may be made from a value, and a folder named after one.
        return structs.replace(
            check,
            id=redact(check.id),
            error_type=redact(check.error_type),
            message=redact(check.message),
            places=tuple(
                [
                    Location(redact(location.path), location.line, redact(location.function))
                    for location in check.places
                ]
            ),
            traceback=redact(check.traceback),
        )


def _unreachable(results: Sequence[GateResult]) -> str:
    """Returns the network error in the output of a gate that did not pass; "" if there is none."""
    for result in results:
        said = [result.output, *[f"{c.message}\n{c.traceback}" for c in result.failing]]
        for text in said if not result.passed else ():
            if match := _NOT_REACHED.search(text):
                return match[0]
    return ""


def _reasons(
    results: Sequence[GateResult], changes: Sequence[TreeChange], *, passed: bool
) -> list[str]:
    """Returns the reasons against the work: tampering, each gate's own reasons, omitted files."""
    reasons = [change_line(change) for change in changes if change.tampering]
    reasons += [f"`{result.gate.command}`: {why}" for result in results for why in result.reasons]
    left = left_out(changes)
    if left and not passed:
        reasons.append(f"{LEFT_OUT}: {first_names(left)} ({allowing(left)} includes them)")
    return reasons


def second_judgement(first: "GateRun", second: "GateRun") -> tuple[tuple[str, ...], str]:
    """Returns the doubts and a note from a run with the product in a separate process.

    Tests that need more of the product than plain data cannot run this way; the note counts them.
    """
    good = [check.id for check in first.report.checks if check.status == "passed"]
    now = {check.id: check for check in second.report.checks}
    # No doubt follows from these: a test that passes objects to the product cannot run this way.
    cannot = [name for name in good if name not in now or now[name].error_type == "Apart"]
    lost = [name for name in good if name not in cannot and now[name].status != "passed"]
    note = f"second judge: {len(good) - len(cannot) - len(lost)} of {len(good)} tests also pass "
    note += "with the product in a process of its own"
    if cannot:
        why = next((now[name].message for name in cannot if name in now), "")
        note += f"; {len(cannot)} need more of it than plain data: {first_names(cannot)}"
        note += f" ({why})" if why else ""
    if not lost:
        return (), note
    return (
        f"{len(lost)} pass only with the product in their own process: {first_names(lost)}",
    ), note


def _ended(gate: Gate, ran: "GateRun") -> list[str]:
    """Returns the reasons in the end of a run."""
    if ran.unstarted is not None:
        return [ran.unstarted.why]
    if ran.fault:
        return [ran.fault]
    reasons: list[str] = []
    # A signal is never a verdict: it may be the kernel's, for lack of memory.
    if ran.code is None or ran.code < 0:
        reasons.append(f"it was killed by signal {-(ran.code or 0)}")
    elif ran.code:
        reasons.append(f"exit code {ran.code}")
    return reasons


def _reported(ran: "GateRun") -> list[str]:
    """Returns the reasons in its report, even if the exit code is 0."""
    report, runner = ran.report, ran.plan.runner
    if runner not in TESTS:
        return []
    reasons = list(report.doubts)
    failing = [check.id for check in report.checks if check.status in ("failed", "error")]
    if failing:
        reasons.append(f"{len(failing)} failing: {first_names(failing)}")
    if not report.whole and not report.doubts:
        reasons.append(f"{runner} ended without its report: it was stopped, or it never ran")
    # Code under test may call `os._exit(0)` after a failure: the reporter knows the real code.
    elif report.code is not None and ran.code is not None and report.code != ran.code:
        reasons.append(f"{runner} was about to end with {report.code}, but ended with {ran.code}")
    # A run without a single passing test proves nothing, for any exit code.
    if not failing and not any([check.status == "passed" for check in report.checks]):
        reasons.append("no test passed")
    return reasons
