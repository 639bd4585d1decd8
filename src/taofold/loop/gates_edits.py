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
from taofold.loop import gates_expect
from taofold.loop.baseline import Baseline, Expected, above, kept, save_beside
from taofold.loop.check import TESTS, Change
from taofold.loop.gates_bench import Ran, Trust
from taofold.loop.gates_judge import Judge
from taofold.loop.gates_restore import audit, mended
from taofold.loop.ground import Settled
from taofold.tools.worker import WORKERS

_MOST: Final = 50
"""Tests that are named as no longer expected."""


async def touched(judge: Judge) -> dict[str, str]:
    """Protected paths that are not as the baseline has them, with what is there ("" = nothing)."""
    baseline = judge.baseline
    if baseline is None:
        return {}
    found: tuple[Change, ...] = await WORKERS.run(audit, judge.root, baseline)
    now = above(judge.root)
    return {
        one.path: now.get(one.path, "") if _outside(one.path) else _mark(judge.root, one.path)
        for one in found
        if one.done == "reported"
    }


async def restore(judge: Judge, paths: Collection[str]) -> Settled:
    """Put these files back; what was new is moved aside.

    Raises:
        Refused: it cannot be done, as above the work root.
    """
    baseline = _baseline(judge)
    found: tuple[Change, ...] = await WORKERS.run(audit, judge.root, baseline)
    mine = [one for one in found if one.path in paths]
    done: tuple[Change, ...] = await WORKERS.run(mended, judge.root, judge.folder, baseline, mine)
    left = [f"{one.path} ({one.why})" for one in done if one.done == "reported"]
    if left:
        raise Refused(f"cannot be put back, do it by hand: {', '.join(left)}")
    return Settled(baseline.digest)


async def keep(judge: Judge, paths: Collection[str]) -> Settled:
    """Make these files what the gates are compared with from now on.

    Raises:
        Refused: the gates cannot be run on them, or the loop's code interferes with the runner.
    """
    was = _baseline(judge)
    fresh = await WORKERS.run(_taken, judge, was, paths)
    seen: list[Expected] = []
    dropped: dict[str, None] = {}
    sources = {
        path: (judge.root / path).read_text(encoding="utf-8", errors="replace")
        for path in fresh.files
        if path.endswith(".py") and (judge.root / path).is_file()
    }
    for gate, before in zip(was.gates, was.expected, strict=True):
        ran = await judge.bench(fresh).run(gate, Trust(before.modules, was.exempt))
        doubts = _doubts(ran, before, judge.root, paths)
        if doubts:
            raise Refused(f"the edited files cannot be taken over: `{gate.command}`: {doubts[0]}")
        runner = ran.plan.runner
        after = gates_expect.expected(runner, ran.report, sources)
        merged = gates_expect.rebased(runner, before, after, paths)
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


def _taken(judge: Judge, was: Baseline, paths: Collection[str]) -> Baseline:
    """The baseline with these files as they are now; their contents are stored."""
    files, parents = dict(was.files), dict(was.parents)
    for path in paths:
        if _outside(path):
            parents = above(judge.root)
            continue
        now = kept(judge.root, path, judge.folder / "objects")
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
    return doubts + list(gates_expect.interference(was, report, str(root)))


def _mark(root: Path, path: str) -> str:
    now = kept(root, path)
    return "" if now is None else f"{now.digest or now.link} {now.mode & 0o755:o}"


def _outside(path: str) -> bool:
    return Path(path).is_absolute()
