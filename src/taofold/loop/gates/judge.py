"""Decides if the work is done: lays a fresh tree, runs the gates there, gives reasons.

The *proof* is a run in a tree with the baseline and the changes that are part of the work
(`scope`): no test, no configuration and no tool in it is the agent's. If it passes and there are
further changes, the gates run once more with all of them, which can only revoke the verdict. If
possible, tests also run with the product in a separate process. Everything doubtful counts as not
passed.

A user's decision about protected files that were edited while the loop was paused is a user
command, which no iteration can issue. Keeping an edit makes it part of the baseline; the expected
results of the edited tests come from one run of the gates.
"""

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Final, TypedDict

from msgspec import structs
from typing_extensions import Unpack

from taofold.core.errors import ConfigError, Refused
from taofold.loop.gates.baseline import Baseline, Expected, load, save
from taofold.loop.gates.baseline_capture import LoopFolder, capture, completed, learnt, with_outside
from taofold.loop.gates.expectations import (
    Expectations,
    expected,
    interference,
    out_of_reach,
    overlooked,
    rebased,
    second_judgement,
    unchecked,
)
from taofold.loop.gates.gate_run import Bench, GateRun, contained, warm
from taofold.loop.gates.installed import package_changes, unseen_changes
from taofold.loop.gates.scope import DECIDES, OUTSIDE, role
from taofold.loop.gates.tree import FileCache, KeptFile, Tree, TreeWalk, content, remove_folder
from taofold.loop.gates.verdict_texts import allowing, change_line, suspicious
from taofold.loop.gates.work_diff import (
    Texts,
    WorkDiff,
    above,
    changed_work,
    observe_work,
    remove_planted,
    restore_file,
)
from taofold.loop.verdict import TESTS, Gate, GateResult, Settled, TreeChange, Verdict
from taofold.parsing.untrusted_text import first_names, one_line
from taofold.policy.redaction import Redactor
from taofold.tools import container_network
from taofold.tools.command import Contain
from taofold.tools.container_network import Reach
from taofold.tools.containment import node_modules_above
from taofold.tools.jail import Jail
from taofold.tools.threads import WORKERS

_MOST: Final = 50
"""The most tests that are listed as no longer expected."""
_LINTERS: Final = ("ruff", "mypy", "tsc", "eslint")
SILENCED: Final = (
    "findings were silenced in place, not fixed: {}. Without these marks the gate does not pass; "
    "the user can allow them with --allow-edit"
)
MEDDLING: Final = (
    "new code ends the process of its tests, prints results, or detects its runner: {}; "
    "read the difference"
)
BARRED: Final = (
    "findings lie in files that are not the agent's to change: {}; without {} the gate cannot pass"
)
PACKAGES: Final = "the packages that the gates use changed since their first run: {}"
UNSEEN: Final = "the gates use the packages of the start, without what changed since: {}"
OVERLOOKED: Final = "`{}` does not look at new files: {}"
REPOSITORY = "git would treat it as a repository, and run the programs in its configuration"


class JudgeOptions(TypedDict, total=False):
    """The options of a judge that are not in its baseline."""

    reach: Reach
    contain: Contain
    redact: Redactor | None
    bytecode: Path | None
    second: bool


class Judge:
    """The gates of one loop. `folder` lies outside the work root and lasts as long as the loop."""

    def __init__(
        self,
        root: Path | str,
        folder: Path | str,
        gates: Sequence[Gate],
        *,
        allow_edit: Sequence[str] = (),
        scope: Sequence[str] = (),
        reach: Reach = Reach(),
        contain: Contain = "auto",
        redact: Redactor | None = None,
        bytecode: Path | None = None,
        second: bool = False,
    ) -> None:
        self.root, self.folder = Path(root).resolve(), Path(folder).resolve()
        self.bytecode = bytecode or self.folder / "bytecode"
        self.gates, self.allow_edit = tuple(gates), tuple(allow_edit)
        self.scope = tuple(scope)
        self.reach = reach
        self.contain: Contain = contain
        # Determined once: a verdict must not depend on whether containment works at that moment.
        self.why_not = contained(contain, reach)
        self.second = second
        """True to run passed tests again with the product in a separate process."""
        self.baseline: Baseline | None = None
        self.own = LoopFolder(self.folder)
        self.files = FileCache(self.root, self.own.objects)
        self._redact = redact or Redactor()
        self._tree: Tree | None = None

    @classmethod
    def resume(
        cls,
        root: Path | str,
        folder: Path | str,
        digest: str,
        **options: Unpack[JudgeOptions],
    ) -> "Judge":
        """Continues with the baseline stored in `folder`.

        Raises:
            LogError: It is gone, or has another digest.
            ConfigError: It belongs to another work root.
        """
        baseline = load(Path(folder), digest)
        if baseline.root != str(Path(root).resolve()):
            raise ConfigError(f"this loop works in {baseline.root!r}, not in {str(root)!r}")
        judge = cls(
            root,
            folder,
            baseline.gates,
            allow_edit=baseline.allow_edit,
            scope=baseline.scope,
            **options,
        )
        judge.baseline = baseline
        return judge

    @property
    def contained(self) -> bool:
        """True if the gates run in a container."""
        return not self.why_not

    async def begin(self) -> Verdict:
        """Stores the baseline, and runs the gates on the untouched tree.

        A verdict that passes means that there is nothing to do.

        Raises:
            ConfigError: The folder lies in the work root, or the tree is too large.
        """
        if self.folder.is_relative_to(self.root):
            raise ConfigError(
                f"the baseline cannot be kept in {str(self.folder)!r}: an agent that works in "
                f"{str(self.root)!r} could write there"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        # The tree is captured before a gate runs in it: gates write files too.
        captured: Baseline = await WORKERS.run(self._captured)
        baseline, ran = await self._first_run(self.bench(captured), captured)
        await WORKERS.run(save, self.folder, baseline)
        self._taken_on(baseline)
        verdict = self._first_verdict(baseline, ran)
        barred = out_of_reach(verdict, baseline.rules())
        if not barred:
            return verdict
        note = BARRED.format(first_names(barred), allowing(barred))
        return structs.replace(verdict, notes=(note, *verdict.notes))

    async def _first_run(self, bench: Bench, baseline: Baseline) -> tuple[Baseline, list[GateRun]]:
        """Runs the gates on the files of the start; returns the baseline with their results."""
        ran: list[GateRun] = []
        for gate in baseline.gates:
            await WORKERS.run(bench.tree.lay, baseline.files, ())
            await warm(bench, gate)
            run = await bench.run(gate)
            baseline = await WORKERS.run(learnt, baseline, self.own, bench.tree, run)
            ran.append(run)
        baseline = await with_outside(baseline, bench, self.own)
        return await WORKERS.run(completed, baseline, self.own), ran

    def release(self, *, ended: bool) -> None:
        """Removes data that the next activation creates again; if `ended`, everything but facts.

        The baseline and files that were moved aside stay.
        """
        folders = [self.own.tree]
        if ended:
            own = ("objects", "environments", "outputs", "bytecode")
            folders += [self.folder / name for name in own]
        for folder in folders:
            if folder.exists():
                remove_folder(folder)
        self._tree = None

    def _taken_on(self, baseline: Baseline) -> None:
        """Uses this baseline from now on; the next tree has its build outputs."""
        self.baseline, laid = baseline, self._tree
        self._tree = self._new_tree(baseline)
        if laid is not None:
            # Untouched files there need not be laid again.
            self._tree = replace(laid, shown=self._tree.shown, outputs=self._tree.outputs)

    def _first_verdict(self, baseline: Baseline, ran: Sequence[GateRun]) -> Verdict:
        bar = self._bar(baseline)
        return bar.verdict(ran, bar.results(ran, [()] * len(ran)), (), "")

    async def verdict(
        self, *, tree: str = "", snapshot: Collection[str] | None = None, until: float = inf
    ) -> Verdict:
        """Reverts protected files, lays a fresh tree, runs the gates there, and judges.

        Args:
            tree: The name of the judged tree, for the record.
            snapshot: Files of the work that will be kept; other new ones are ignored.
            until: The time at which gates are stopped, in seconds of the monotonic clock.

        Raises:
            ConfigError: There is no baseline yet.
            LogError: The baseline's contents were changed.
        """
        baseline = self.baseline
        if baseline is None:
            raise ConfigError("there is no baseline: call judge.begin() first")
        # Everything below judges this one observation of the work root; later changes are not
        # delivered.
        work: WorkDiff = await WORKERS.run(observe_work, self.root, baseline, self.files, snapshot)
        # Reverted before the gates run: uncontained ones could look at the work root.
        changes: tuple[TreeChange, ...] = await WORKERS.run(self._mended, baseline, work)
        changes += work.changes(baseline)
        texts = Texts(baseline, work, self.own.objects)
        proof: dict[str, KeptFile] = await WORKERS.run(texts.proof)
        # Computed before the gates run, like `proof`: neither may depend on a gate's writes.
        delivery = work.delivery(baseline)
        bench = replace(self.bench(baseline), until=until)
        ran, results, files = await self._run(bench, baseline, work, texts, proof, "")
        # A scope names the product, so no warning is needed.
        notes = [] if baseline.scope else suspicious(work.joined, baseline.suspects)
        meddling: list[str] = await WORKERS.run(texts.meddling)
        if meddling:
            notes.append(MEDDLING.format(", ".join(meddling[:_MOST])))
        new = [path for path in work.joined if path in proof and path not in baseline.files]
        for gate, run, was in zip(baseline.gates, ran, baseline.expected, strict=True):
            unseen = overlooked(was, run.report.files, new)
            if unseen:
                notes.append(OVERLOOKED.format(gate.command, first_names(unseen)))
        if self.second and all([result.passed for result in results]):
            results, more = await self._apart(bench, baseline, work, ran, results, proof)
            notes += more
        # The proof holds only files that may join it. The delivered files are more, and must pass
        # as well.
        if all([result.passed for result in results]) and delivery != proof:
            prefix = "with all that was changed, "
            ran, results, files = await self._run(bench, baseline, work, texts, delivery, prefix)
        verdict = self._bar(baseline).verdict(ran, results, changes, tree)
        # After the gates: a package that was installed while they ran counts, too.
        packages, unseen = await WORKERS.run(self._packages, baseline)
        notes += [PACKAGES.format(first_names(packages))] if packages else []
        notes += [UNSEEN.format(first_names(unseen))] if unseen else []
        verdict = structs.replace(
            verdict, notes=(*notes, *verdict.notes), joined=work.joined, packages=packages
        )
        if verdict.passed:
            await WORKERS.run(self._brought_back, baseline, files)
        return verdict

    async def trial(
        self, changes: Mapping[str, tuple[int, bytes] | None], *, until: float = inf
    ) -> Verdict:
        """Runs the gates on the files of the start with `changes`, apart from the work root.

        Nothing is reverted or written there.

        Args:
            changes: Mode and content of each changed file, None if it is gone.
            until: The time at which gates are stopped, in seconds of the monotonic clock.
        """
        baseline = self._present()
        work: WorkDiff = await WORKERS.run(changed_work, baseline, changes, self.own.objects)
        texts = Texts(baseline, work, self.own.objects)
        proof: dict[str, KeptFile] = await WORKERS.run(texts.proof)
        bench = replace(self.bench(baseline), until=until)
        ran, results, _ = await self._run(bench, baseline, work, texts, proof, "")
        return self._bar(baseline).verdict(ran, results, (), "")

    async def disarm(self) -> tuple[str, ...]:
        """Moves planted git repositories out of the work root; returns the moved ones.

        A git command below one, for instance in a shell's prompt, would run its configuration.
        """
        baseline = self.baseline
        if baseline is None:
            return ()
        walk: TreeWalk = await WORKERS.run(TreeWalk, self.root, baseline.environments)
        planted = [path for path in walk.repositories if path not in baseline.repositories]
        return tuple(
            [
                change_line(
                    await WORKERS.run(remove_planted, self.root, self.folder, path, REPOSITORY)
                )
                for path in planted
            ]
        )

    def bench(self, baseline: Baseline) -> Bench:
        """Returns the bench that runs gates in this judge's tree."""
        if self._tree is None:
            self._tree = self._new_tree(baseline)
        return Bench(self._tree, baseline.path, self.reach, self.contain, self.bytecode)

    async def _run(
        self,
        bench: Bench,
        baseline: Baseline,
        work: WorkDiff,
        texts: Texts,
        files: Mapping[str, KeptFile],
        prefix: str,
    ) -> tuple[list[GateRun], list[GateResult], Mapping[str, KeptFile]]:
        """Runs each gate in a fresh tree of `files`; reasons begin with `prefix`.

        Returns the runs, the results, and the files as formatters changed them.
        """
        ran: list[GateRun] = []
        each: list[tuple[str, ...]] = []
        made: dict[str, str] = {}
        for gate, was in zip(baseline.gates, baseline.expected, strict=True):
            await WORKERS.run(bench.tree.lay, files, work.new())
            run = await bench.run(gate)
            doubts = await WORKERS.run(self._doubts, baseline, work, bench.tree)
            doubts += _lacks(made, run)
            made |= dict.fromkeys(await WORKERS.run(bench.tree.made), gate.command)
            # Source files changed by a formatter are kept, so the next gate judges them.
            files = {**files, **await WORKERS.run(self._formatted, baseline, bench.tree)}
            if texts.silenced and (run.code == 0 or run.plan.runner in _LINTERS):
                laid = await WORKERS.run(texts.unsilenced, files)
                await WORKERS.run(bench.tree.lay, laid, work.new())
                run, hidden = _with_hidden(run, await bench.run(gate), texts.silenced)
                doubts += hidden
            ran.append(run)
            each.append(
                (
                    *doubts,
                    *texts.doubts(run.plan.runner),
                    *unchecked(was, run.report.files, files, work.now, baseline.allow_edit),
                )
            )
        return ran, self._bar(baseline).results(ran, each, prefix), files

    async def _apart(
        self,
        bench: Bench,
        baseline: Baseline,
        work: WorkDiff,
        ran: Sequence[GateRun],
        results: Sequence[GateResult],
        proof: Mapping[str, KeptFile],
    ) -> tuple[list[GateResult], list[str]]:
        """Runs Python tests once more, with the product in another process."""
        # Only changeable files are loaded separately: tests and their helpers stay in their own
        # process.
        product = [
            path
            for path in proof
            if path.endswith(".py") and role(path, baseline.named) == "source"
        ]
        judged: list[GateResult] = []
        notes: list[str] = []
        for gate, run, result in zip(baseline.gates, ran, results, strict=True):
            if run.plan.runner not in ("pytest", "unittest"):
                notes.append(f"second judge: `{gate.command}` cannot be run with the product apart")
                judged.append(result)
                continue
            await WORKERS.run(bench.tree.lay, proof, work.new())
            doubts, note = second_judgement(run, await bench.run(gate, product))
            notes.append(f"`{gate.command}`: {note}")
            judged.append(structs.replace(result, passed=not doubts, reasons=doubts))
        return judged, notes

    def _bar(self, baseline: Baseline) -> Expectations:
        shared = container_network.why_not() if self.reach.world and not self.why_not else ""
        return Expectations(baseline, self._redact, self.why_not, shared, self.reach)

    def _captured(self) -> Baseline:
        return capture(
            self.root,
            self.own,
            self.files,
            self.gates,
            self.allow_edit,
            self.scope,
            contained=self.contained,
        )

    def _new_tree(self, baseline: Baseline) -> Tree:
        folders: dict[str, Path] = {}
        for number, environment in enumerate(baseline.environments):
            copy = self.own.environment(number)
            folders[environment] = copy if copy.exists() else self.root / environment
        folders |= {path: Path(target) for path, target in baseline.linked.items()}
        # Tools such as setuptools_scm or ruff call git; it is shown read-only, never copied.
        if (self.root / ".git").exists():
            folders[".git"] = self.root / ".git"
        folders |= {path: self.root / path for path, k in baseline.files.items() if not k.stored}
        outputs = {name: self.own.output(number) for number, name in enumerate(baseline.outputs)}
        above = node_modules_above(self.root)
        if above and not self.contained:
            # The tree lies elsewhere: this gives Node the same packages above it as above the work
            # root.
            link = self.own.tree.parent / "node_modules"
            link.unlink(missing_ok=True)
            link.symlink_to(above[0])
        return Tree(self.own.tree, self.root, self.own.objects, self.contained, folders, outputs)

    def _mended(self, baseline: Baseline, work: WorkDiff) -> tuple[TreeChange, ...]:
        """Reverts the deciding files in the work root."""
        done = [
            restore_file(self.root, self.folder, baseline, path, work.now[path])
            for path in work.tampering
        ]
        now = {} if self.contained else above(self.own.tree)
        for path in {**baseline.parents, **now}:
            if baseline.parents.get(path) != now.get(path):
                why = "it configures the gate from above the tree, where nothing is restored"
                done.append(TreeChange(path, "changed", "reported", why))
        return tuple(done)

    def _doubts(self, baseline: Baseline, work: WorkDiff, tree: Tree) -> tuple[str, ...]:
        """Returns the deciding files that changed while the gates ran."""
        touched = [
            path
            for path in tree.touched()
            if path in baseline.files
            and path not in baseline.rewritten
            and role(path, baseline.named) in DECIDES
        ]
        large = [
            path for path, file in baseline.files.items() if not file.stored and path in work.now
        ]
        doubts = [f"changed while the gates ran: {first_names(touched)}"] if touched else []
        doubts += [f"too large to be kept, and changed: {first_names(large)}"] if large else []
        return tuple(doubts)

    def _formatted(self, baseline: Baseline, tree: Tree) -> dict[str, KeptFile]:
        """Returns the source files that a gate changed in its tree, in their current state."""
        # A test or a setting that a gate wrote is only for itself.
        cache = FileCache(tree.folder, self.own.objects)
        now = {
            path: cache.kept(path)
            for path in tree.touched()
            if role(path, baseline.named) == "source"
        }
        return {path: file for path, file in now.items() if file and not file.link}

    def _brought_back(self, baseline: Baseline, files: Mapping[str, KeptFile]) -> None:
        """Writes source files that gates changed to the work root: a formatter's result is work."""
        jail = Jail(self.root, (), ())
        for path, file in files.items():
            if role(path, baseline.named) != "source" or not file.stored:
                continue
            now = self.files.kept(path)
            if now is not None and not now.link and now.digest != file.digest:
                with suppress(OSError, ValueError):
                    jail.write(path, content(self.own.objects, file.digest))

    async def touched(self) -> dict[str, str]:
        """Returns deciding paths that differ from the baseline, with a mark of their content.

        These are old files that no proof would use in their current state, and new ones that would
        configure a gate; "" = the file is gone.
        """
        if self.baseline is None:
            return {}
        edited: dict[str, str] = await WORKERS.run(self._touched, self.baseline)
        return edited

    async def restore(self, paths: Collection[str]) -> Settled:
        """Reverts these files; new ones are moved aside.

        Raises:
            Refused: It is not possible, as above the tree.
        """
        baseline = self._present()
        left: list[str] = []
        for path in paths:
            change = await WORKERS.run(self._restored, baseline, path)
            left += [f"{one_line(path)} ({change.why})"] if change.done == "reported" else []
        if left:
            raise Refused(
                f"restore these files manually, it cannot be done here: {', '.join(left)}"
            )
        return Settled(baseline.digest)

    async def keep(self, paths: Collection[str], *, until: float = inf) -> Settled:
        """Makes the current state of these files part of the baseline.

        `until` is the time at which gates are stopped, in seconds of the monotonic clock.

        Raises:
            Refused: The gates cannot run on them, or the loop's code interferes with the runner.
        """
        was = self._present()
        fresh: Baseline = await WORKERS.run(self._taken, was, paths)
        work: WorkDiff = await WORKERS.run(observe_work, self.root, fresh, self.files, None)
        bench = replace(self.bench(fresh), until=until)
        proof = work.proof(fresh)
        expectations: list[Expected] = []
        texts = fresh.test_sources(self.own.objects)
        for gate, before in zip(was.gates, was.expected, strict=True):
            await WORKERS.run(bench.tree.lay, proof, work.new())
            ran = await bench.run(gate)
            # An untrusted run must not become the reference of later runs.
            doubts = _doubts(ran, before, self.root, paths)
            if doubts:
                raise Refused(
                    f"the edited files cannot be taken over: `{gate.command}`: {doubts[0]}"
                )
            runner = ran.plan.runner
            after = expected(runner, ran.report, texts)
            expectations.append(rebased(runner, before, after, paths))
        fresh = structs.replace(fresh, expected=tuple(expectations))
        await WORKERS.run(partial(save, self.folder, fresh, beside=True))
        self.baseline = fresh
        return _settled(fresh, was.expected)

    async def packages(self) -> tuple[str, ...]:
        """Returns the packages outside the work root that changed since the baseline, as lines."""
        baseline = self._present()
        changes: tuple[str, ...] = await WORKERS.run(package_changes, baseline.installed)
        return changes

    async def retake(self, *, until: float = inf) -> tuple[Verdict, Settled]:
        """Runs the gates again on the files of the start, and makes this the new baseline.

        The current packages outside the work root count. The work is not included, and environments
        in the work root stay as they were at the start.

        Args:
            until: The time at which gates are stopped, in seconds of the monotonic clock.

        Raises:
            Refused: A gate was cut off, or shows nothing of its earlier results.
        """
        was = self._present()
        bench = replace(self.bench(was), until=until)
        fresh, ran = await self._first_run(bench, structs.replace(was, expected=()))
        runs = zip(was.gates, ran, was.expected, fresh.expected, strict=True)
        for gate, run, before, after in runs:
            known, found = _shown(before), _shown(after)
            # A baseline with fewer expectations than possible would let too much pass.
            if known and (not found or (run.fault and known - found)):
                why = run.fault or "it shows nothing of what it showed at the start"
                raise Refused(f"the baseline cannot be taken again: `{gate.command}`: {why}")
        await WORKERS.run(partial(save, self.folder, fresh, beside=True))
        self._taken_on(fresh)
        return self._first_verdict(fresh, ran), _settled(fresh, was.expected)

    def _packages(self, baseline: Baseline) -> tuple[tuple[str, ...], list[str]]:
        """Returns changes of packages that gates use, and of those that they do not see."""
        unseen = [
            line
            for number, name in enumerate(baseline.environments)
            for line in unseen_changes(self.root / name, self.own.environment(number), name)
        ]
        return package_changes(baseline.installed), unseen

    def _present(self) -> Baseline:
        if self.baseline is None:
            raise Refused("there is no baseline yet")
        return self.baseline

    def _touched(self, baseline: Baseline) -> dict[str, str]:
        work = observe_work(self.root, baseline, self.files)
        edited: dict[str, str] = {}
        for path, why in work.left_out.items():
            now = work.now[path]
            # Nothing is compared with these.
            if why == OUTSIDE:
                continue
            # A new test is no edit of an existing file; a new file that configures the gate is.
            if path in baseline.files or role(path, baseline.named) == "runner":
                edited[path] = (
                    "" if now is None else f"{now.digest or now.link} {now.mode & 0o755:o}"
                )
        above_now = {} if self.contained else above(self.own.tree)
        for path in {**baseline.parents, **above_now}:
            if baseline.parents.get(path) != above_now.get(path):
                edited[path] = above_now.get(path, "")
        return edited

    def _restored(self, baseline: Baseline, path: str) -> TreeChange:
        if _outside(path):
            return TreeChange(path, "changed", "reported", "it lies above the work root")
        if path in baseline.files:
            return restore_file(self.root, self.folder, baseline, path, self.files.kept(path))
        return remove_planted(self.root, self.folder, path, "it was not there")

    def _taken(self, was: Baseline, paths: Collection[str]) -> Baseline:
        """Returns the baseline with the current state of these files; their contents are stored."""
        files, parents = dict(was.files), dict(was.parents)
        for path in paths:
            if _outside(path):
                parents = above(self.own.tree)
                continue
            now = self.files.kept(path)
            if now is None:
                files.pop(path, None)
            else:
                files[path] = now
        return structs.replace(was, files=files, parents=parents)


def _with_hidden(
    ran: GateRun, again: GateRun, silenced: Collection[str]
) -> tuple[GateRun, tuple[str, ...]]:
    """Compares a run with one in a tree where the work silences nothing.

    Returns the run with the hidden findings, and the reason against it.
    """
    known = {check.id for check in ran.report.checks}
    found = [check.id for check in again.report.checks if check.id not in known]
    # Marks that hide nothing from this gate are harmless: its exit code did not change.
    if again.code == ran.code and not (found and ran.plan.runner in _LINTERS):
        return ran, ()
    checks = again.report.checks or ran.report.checks
    report = structs.replace(ran.report, checks=checks)
    return replace(ran, report=report), (SILENCED.format(first_names([*silenced])),)


def _lacks(made: Mapping[str, str], ran: GateRun) -> tuple[str, ...]:
    """Returns a hint if a failed gate names a file that an earlier gate made in its own tree."""
    for path, command in made.items() if ran.code else ():
        if re.search(rf"(?<![\w.-]){re.escape(path)}(?![\w-])", ran.printed):
            both = shlex.quote(f"{command} && {shlex.join(ran.plan.argv)}")
            return (
                f"{one_line(path)} is made by `{command}`, and each gate has a fresh tree: "
                f"for one that needs it, write one gate: sh -c {both}",
            )
    return ()


def _doubts(ran: GateRun, was: Expected, root: Path, paths: Collection[str]) -> list[str]:
    """Returns why this run is not reliable as a reference."""
    if ran.fault:
        return [ran.fault]
    if ran.plan.runner not in TESTS:
        return []
    doubts = list(ran.report.doubts)
    if not ran.report.whole and not doubts:
        doubts.append(f"{ran.plan.runner} ended without its report")
    files: Mapping[str, str] = ran.report.patched
    foreign = {
        name: file
        for name, file in files.items()
        if name not in was.patched and file.removeprefix(f"{root}/") not in paths
    }
    report = structs.replace(ran.report, patched=foreign, plugins=())
    return doubts + list(interference(was, report, str(root)))


def _shown(expectation: Expected) -> set[str]:
    """Returns names of the checks and files that a gate showed."""
    return {*expectation.checks, *expectation.names, *expectation.files}


def _settled(fresh: Baseline, was: Sequence[Expected]) -> Settled:
    """Returns the new baseline, with the tests that are no longer required."""
    remaining = {name for each in fresh.expected for name in (*each.checks, *each.names)}
    dropped = dict.fromkeys([name for each in was for name in (*each.checks, *each.names)])
    gone = [name for name in dropped if name not in remaining]
    return Settled(fresh.digest, tuple(gone[:_MOST]), len(gone))


def _outside(path: str) -> bool:
    return Path(path).is_absolute()
