"""Protected files that were edited while a loop stood still, and a person's word about them.

The word is a command of a person: nothing here is reached from an iteration. To keep an edit
makes it what later verdicts are compared with, and what the edited tests must show is taken
from one run of the gates; all other tests stay as the baseline has them.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from msgspec import structs

from taofold.core.errors import Refused
from taofold.loop.check import TESTS, Change
from taofold.loop.gates import expect
from taofold.loop.gates.baseline import Baseline, Expected, save_beside
from taofold.loop.gates.bench import Ran
from taofold.loop.gates.capture import sources
from taofold.loop.gates.judge import Judge
from taofold.loop.gates.restore import above, removed, restored
from taofold.loop.gates.scope import role
from taofold.loop.gates.work import Work, observed
from taofold.loop.ground import Settled
from taofold.tools.worker import WORKERS

_MOST: Final = 50
"""Tests that are named as no longer expected."""


async def touched(judge: Judge) -> dict[str, str]:
    """Paths that decide and are not as the baseline has them, and a mark of what is there.

    Old files that no proof would take as they are now, and new ones that would configure a gate;
    "" = nothing is there any more.
    """
    if judge.baseline is None:
        return {}
    found: dict[str, str] = await WORKERS.run(_touched, judge, judge.baseline)
    return found


async def restore(judge: Judge, paths: Collection[str]) -> Settled:
    """Put these files back; what was new is moved aside.

    Raises:
        Refused: it cannot be done, as above the tree.
    """
    baseline = _baseline(judge)
    left: list[str] = []
    for path in paths:
        change = await WORKERS.run(_restored, judge, baseline, path)
        left += [f"{path} ({change.why})"] if change.done == "reported" else []
    if left:
        raise Refused(f"cannot be put back, do it by hand: {', '.join(left)}")
    return Settled(baseline.digest)


async def keep(judge: Judge, paths: Collection[str]) -> Settled:
    """Make these files what the gates are compared with from now on.

    Raises:
        Refused: the gates cannot be run on them, or the loop's code interferes with the runner.
    """
    was = _baseline(judge)
    fresh: Baseline = await WORKERS.run(_taken, judge, was, paths)
    work: Work = await WORKERS.run(observed, judge.root, fresh, judge.files, None)
    bench = judge.bench(fresh)
    await WORKERS.run(bench.tree.lay, work.proof(fresh), work.new(fresh))
    seen: list[Expected] = []
    dropped: dict[str, None] = {}
    texts = sources(fresh, judge.own.objects)
    for gate, before in zip(was.gates, was.expected, strict=True):
        ran = await bench.run(gate)
        doubts = _doubts(ran, before, judge.root, paths)
        if doubts:
            raise Refused(f"the edited files cannot be taken over: `{gate.command}`: {doubts[0]}")
        runner = ran.plan.runner
        after = expect.expected(runner, ran.report, texts)
        merged = expect.rebased(runner, before, after, paths)
        dropped |= dict.fromkeys([*before.checks, *before.names])
        seen.append(merged)
    known = {name for one in seen for name in (*one.checks, *one.names)}
    fresh = structs.replace(fresh, expected=tuple(seen))
    await WORKERS.run(save_beside, judge.folder, fresh)
    judge.baseline = fresh
    gone = [name for name in dropped if name not in known]
    return Settled(fresh.digest, tuple(gone[:_MOST]), len(gone))


def _baseline(judge: Judge) -> Baseline:
    if judge.baseline is None:
        raise Refused("there is no baseline yet")
    return judge.baseline


def _touched(judge: Judge, baseline: Baseline) -> dict[str, str]:
    work = observed(judge.root, baseline, judge.files)
    found: dict[str, str] = {}
    for path in work.left_out:
        now = work.now[path]
        if path in baseline.files or role(path, baseline.named) == "runner":
            found[path] = "" if now is None else f"{now.digest or now.link} {now.mode & 0o755:o}"
    above_now = {} if judge.contained else above(judge.own.tree)
    for path in {**baseline.parents, **above_now}:
        if baseline.parents.get(path) != above_now.get(path):
            found[path] = above_now.get(path, "")
    return found


def _restored(judge: Judge, baseline: Baseline, path: str) -> Change:
    if _outside(path):
        return Change(path, "changed", "reported", "it lies above the work root")
    if path in baseline.files:
        return restored(judge.root, judge.folder, baseline, path, judge.files.kept(path))
    return removed(judge.root, judge.folder, path, "it was not there")


def _taken(judge: Judge, was: Baseline, paths: Collection[str]) -> Baseline:
    """The baseline with these files as they are now; their contents are stored."""
    files, parents = dict(was.files), dict(was.parents)
    for path in paths:
        if _outside(path):
            parents = above(judge.own.tree)
            continue
        now = judge.files.kept(path)
        if now is None:
            files.pop(path, None)
        else:
            files[path] = now
    return structs.replace(was, files=files, parents=parents)


def _doubts(ran: Ran, was: Expected, root: Path, paths: Collection[str]) -> list[str]:
    """Why this run says nothing that could be relied on later."""
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
    return doubts + list(expect.interference(was, report, str(root)))


def _outside(path: str) -> bool:
    return Path(path).is_absolute()
