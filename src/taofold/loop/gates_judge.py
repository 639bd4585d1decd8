"""Decides whether the work is done: audits the tree, runs the gates, and says why not.

A verdict passes only if every gate ended with 0, every report arrived whole, every check of
the baseline was run and passed, and nothing that decides was touched, before or while the
gates ran. Everything doubtful counts as not passed.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from taofold.core.errors import ConfigError
from taofold.core.excerpt import excerpt
from taofold.loop import gates_expect
from taofold.loop.baseline import Baseline, Expected, Kept, above, kept, load, save, scan, walk
from taofold.loop.check import TESTS, Change, Check, Gate, GateResult, Verdict
from taofold.loop.gate import holds
from taofold.loop.gates_bench import Bench, Ran, Trust, contained
from taofold.loop.gates_path import scripts, search_path
from taofold.loop.gates_restore import audit, mended
from taofold.loop.gates_warm import warm
from taofold.policy.redaction import Redactor
from taofold.tools.command import Contain
from taofold.tools.worker import WORKERS

OUTPUT = 12_000
"""Characters of a gate's output that a result keeps."""


class Judge:
    """The gates of one loop. `folder` lies outside the work root and lasts as long as the loop."""

    def __init__(
        self,
        root: Path | str,
        folder: Path | str,
        gates: Sequence[Gate],
        *,
        allow_edit: Sequence[str] = (),
        network: bool = False,
        contain: Contain = "auto",
        redact: Redactor | None = None,
        bytecode: Path | None = None,
    ) -> None:
        self.root, self.folder = Path(root).resolve(), Path(folder).resolve()
        self.bytecode = bytecode or self.folder / "bytecode"
        self.gates, self.allow_edit = tuple(gates), tuple(allow_edit)
        self.network = network
        self.contain: Contain = contain
        self.why_not = contained(contain)
        self.baseline: Baseline | None = None
        self._redact = redact or Redactor()

    @classmethod
    def resume(
        cls,
        root: Path | str,
        folder: Path | str,
        digest: str,
        *,
        network: bool = False,
        contain: Contain = "auto",
        redact: Redactor | None = None,
        bytecode: Path | None = None,
    ) -> "Judge":
        """Go on with the baseline that was kept in `folder`.

        Raises:
            LogError: it is gone, or is not the one with this digest.
            ConfigError: it belongs to another work root.
        """
        baseline = load(Path(folder), digest)
        if baseline.root != str(Path(root).resolve()):
            raise ConfigError(f"this loop works in {baseline.root!r}, not in {str(root)!r}")
        judge = cls(
            root, folder, baseline.gates, allow_edit=baseline.allow_edit, network=network,
            contain=contain, redact=redact, bytecode=bytecode,
        )  # fmt: skip
        judge.baseline = baseline
        return judge

    @property
    def contained(self) -> bool:
        """Do the gates run in a container?"""
        return not self.why_not

    async def begin(self) -> Verdict:
        """Keep the baseline, and run the gates on the untouched tree.

        A verdict that passes means that there is nothing to do.

        Raises:
            ConfigError: the folder lies in the work root, or there is too much to protect.
        """
        if self.folder.is_relative_to(self.root):
            raise ConfigError(
                f"the baseline cannot be kept in {str(self.folder)!r}: an agent that works in "
                f"{str(self.root)!r} could write there"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        baseline = await WORKERS.run(self._captured)
        for gate in self.gates:
            await warm(self.bench(baseline), gate)
        trust = Trust(exempt=baseline.exempt)
        ran = [await self.bench(baseline).run(gate, trust) for gate in self.gates]
        sources = {
            path: (self.root / path).read_text(encoding="utf-8", errors="replace")
            for path in baseline.files
            if path.endswith(".py") and (self.root / path).is_file()
        }
        seen = [gates_expect.expected(one.plan.runner, one.report, sources) for one in ran]
        found = {path: one for path in self._toolchain(ran, baseline) if (one := self._kept(path))}
        baseline = structs.replace(
            baseline, expected=tuple(seen), files={**baseline.files, **found}
        )
        await WORKERS.run(save, self.folder, baseline)
        self.baseline = baseline
        changes = await self._mended(baseline)
        return self._verdict(baseline, ran, changes, "")

    async def verdict(self, *, tree: str = "") -> Verdict:
        """Put back what was touched, run the gates, judge. `tree` names what is judged.

        Raises:
            ConfigError: there is no baseline yet.
            LogError: the baseline's contents were changed.
        """
        baseline = self.baseline
        if baseline is None:
            raise ConfigError("judge.begin() comes first: there is no baseline")
        before = await self._mended(baseline)
        ran: list[Ran] = []
        for gate, was in zip(baseline.gates, baseline.expected, strict=True):
            trust = Trust(was.modules, baseline.exempt)
            ran.append(await self.bench(baseline).run(gate, trust))
        after = await self._mended(baseline)
        changes = before + tuple([change for change in after if change not in before])
        return self._verdict(baseline, ran, changes, tree)

    def _captured(self) -> Baseline:
        named = scripts(self.gates, self.root)
        entries = [path for path, _ in walk(self.root)]
        homes = [p.rpartition("/")[0] for p in entries if p.endswith("/pyvenv.cfg")]
        objects = self.folder / "objects"
        found: dict[str, Kept] = {}
        for path in scan(self.root, named, homes):
            one = kept(self.root, path, objects)
            if one is not None:
                found[path] = one
        modules = {part.removesuffix(".py") for path in entries for part in path.split("/")}
        standard = set(sys.stdlib_module_names)
        return Baseline(
            str(self.root), self.gates, found, named, self.allow_edit, tuple(homes),
            above(self.root), tuple(sorted(modules & standard)), search_path(self.root),
        )  # fmt: skip

    def _kept(self, path: str) -> Kept | None:
        return kept(self.root, path, self.folder / "objects")

    def _toolchain(self, ran: Sequence[Ran], baseline: Baseline) -> list[str]:
        """The runner's own files, where its environment lies in the work root."""
        found = {path for one in ran for path in one.report.toolchain}
        return sorted(path for path in found if path not in baseline.files)

    def bench(self, baseline: Baseline) -> Bench:
        """Runs gates on the files as they are, with those of `baseline` read-only."""
        frozen, kept = tuple(baseline.files), self.bytecode
        return Bench(self.root, baseline.path, self.network, self.contain, frozen, kept)

    async def _mended(self, baseline: Baseline) -> tuple[Change, ...]:
        changes: tuple[Change, ...] = await WORKERS.run(audit, self.root, baseline)
        done: tuple[Change, ...] = await WORKERS.run(
            mended, self.root, self.folder, baseline, changes
        )
        return done

    def _verdict(
        self, baseline: Baseline, ran: Sequence[Ran], changes: tuple[Change, ...], tree: str
    ) -> Verdict:
        results = tuple(
            self._result(gate, one, was)
            for gate, one, was in zip(baseline.gates, ran, baseline.expected, strict=True)
        )
        shares = [
            gates_expect.share(one.plan.runner, was, one.report.checks, result.passed)
            for one, was, result in zip(ran, baseline.expected, results, strict=True)
        ]
        total = sum([count for _, count in shares])
        tampered = any([change.tampering for change in changes])
        reasons = [f"{_done(change)}" for change in changes if change.tampering]
        reasons += [
            f"`{result.gate.command}`: {reason}" for result in results for reason in result.reasons
        ]
        notes = [_done(change) for change in changes if not change.tampering]
        notes += [] if self.contained else [f"the gates are not contained: {self.why_not}"]
        notes += [
            f"`{result.gate.command}`: only its exit code is known, no single test"
            for result in results
            if result.runner == "command"
        ]
        return Verdict(
            passed=not tampered and all([result.passed for result in results]),
            results=results,
            quality=sum([good for good, _ in shares]) / total if total else 0.0,
            tampered=tampered,
            changes=changes,
            missing=tuple(name for result in results for name in result.missing),
            contained=self.contained,
            reasons=tuple(reasons),
            notes=tuple(notes),
            tree=tree,
        )

    def _result(self, gate: Gate, ran: Ran, was: Expected) -> GateResult:
        report, runner = ran.report, ran.plan.runner
        checks = tuple([self._redacted(check) for check in report.checks])
        lacking = gates_expect.missing(runner, was, report.checks)
        reasons = [
            *_ended(gate, ran),
            *_reported(ran),
            *gates_expect.interference(was, report, str(self.root)),
        ]
        reasons += [f"{len(lacking)} tests of the baseline were not run and passed: "
                    + _some(lacking)] if lacking else []  # fmt: skip
        return GateResult(
            gate=gate,
            passed=not reasons,
            code=ran.code,
            runner=runner,
            ran=ran.argv,
            checks=checks,
            missing=lacking,
            output=self._redact.text(excerpt(ran.output, OUTPUT)),
            reasons=tuple([self._redact.text(reason) for reason in reasons]),
            contained=self.contained,
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


def _ended(gate: Gate, ran: Ran) -> list[str]:
    """What its end says against it."""
    if ran.fault:
        return [ran.fault]
    reasons: list[str] = []
    if ran.code is None or ran.code < 0:
        reasons.append(f"it was killed by signal {-(ran.code or 0)}")
    elif ran.code:
        reasons.append(f"exit code {ran.code}")
    if gate.output and not holds(ran.printed, gate.output):
        reasons.append(f"its output does not hold {gate.output!r}")
    return reasons


def _reported(ran: Ran) -> list[str]:
    """What its report says against it, also where the exit code is 0."""
    report, runner = ran.report, ran.plan.runner
    if runner not in TESTS:
        return []
    reasons = list(report.doubts)
    failing = [check.id for check in report.checks if check.status in ("failed", "error")]
    if failing:
        reasons.append(f"{len(failing)} failing: {_some(failing)}")
    if not report.whole and not report.doubts:
        reasons.append(f"{runner} ended without its report: it was stopped, or it never ran")
    elif report.code is not None and ran.code is not None and report.code != ran.code:
        reasons.append(f"{runner} was about to end with {report.code}, but ended with {ran.code}")
    if not failing and not any([check.status == "passed" for check in report.checks]):
        reasons.append("no test passed")
    return reasons


def _done(change: Change) -> str:
    return f"{change.path} was {change.did} and is {change.done}: {change.why}"


def _some(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
