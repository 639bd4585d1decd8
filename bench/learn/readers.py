"""Measures whether readers get the right lesson: `python bench/learn/readers.py FOLDER...`

A search policy reads no lessons, so what `run.py` and `simulate.py` count does not depend on how
lessons are extracted and chosen. This does.
The built-in model repairs each bug once, without memory, and its attempts are kept in a file
beside the folder. Then each order of the bugs is replayed through the real learner: a bug requests
lessons first, and its own are stored afterwards.

Counted for each bug of a stream:

* told: it gets a lesson, at once, or if its own first attempt has failed;
* right: one of these lessons comes from a bug whose whole repair changes the same tokens, names
  apart, as the repair of this one;
* whole: the lesson that is learnt of a repaired bug is its repair, no line more and no line less.

Intervals are 95 %, bootstrapped over bugs, with the orders of a bug kept together.
"""

import argparse
import asyncio
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import msgspec
from bench_loop import GOAL, Checks, repair, start
from corpus import Bug, bugs
from streams import Ticks, learner

from taofold.core.failing_checks import Check
from taofold.core.values import Value
from taofold.learning.extraction.diffs import changed_lines, delta, sides
from taofold.learning.extraction.history import FileChange, LoopHistory, RepairAttempt, read_run
from taofold.learning.patterns.kinds import ErrorFix
from taofold.loop.learner import CrossLoopLearner, case_of

DRAWS = 2000


class Recorded(Value, frozen=True):
    """One bug as repaired without memory."""

    bug: str
    failing: tuple[Check, ...]
    attempts: tuple[RepairAttempt, ...]
    solved: bool

    @property
    def repair(self) -> tuple[list[str], list[str]]:
        """The lines that the whole repair takes out and puts in, without their margins."""
        first: dict[str, str] = {}
        last: dict[str, str] = {}
        for change in [change for attempt in self.attempts for change in attempt.changes]:
            first.setdefault(change.path, change.before)
            last[change.path] = change.after
        gone, new = [], []
        for path, before in first.items():
            both = changed_lines(FileChange(path, before, last[path]))
            gone += [line for _, line in both[0]]
            new += [line for _, line in both[1]]
        return gone, new

    @property
    def shape(self) -> Counter[str]:
        return Counter(delta(*self.repair))


class Counted(NamedTuple):
    """The counts of one bug of one order."""

    bug: str
    told: bool
    right: bool
    told_later: bool
    right_later: bool
    lesson: bool
    whole: bool


async def record(bug: Bug, checks: Checks, budget: int) -> Recorded:
    failing = start(bug, checks)
    if not failing:
        return Recorded(bug.name, (), (), solved=False)
    trial = await repair(bug, "", checks, budget)
    texts = {
        str(file.relative_to(bug.folder)): file.read_text(encoding="utf-8")
        for file in bug.folder.rglob("*.py")
    }
    # Includes the files' texts, as a real loop has them from its snapshots.
    reading = read_run(trial.records, 1, failing, texts)
    attempts = tuple([attempt for attempt in reading.attempts if attempt.judged][:budget])
    return Recorded(bug.name, failing, attempts, trial.solved)


def recorded(folder: Path, most: int, budget: int) -> list[Recorded]:
    """Returns the usable bugs of the folder. Stored results are not repaired again."""
    kept = folder.with_suffix(".readers.json")
    known: dict[str, Recorded] = {}
    if kept.exists():
        found = msgspec.json.decode(kept.read_bytes(), type=list[Recorded])
        known = {each.bug: each for each in found}
    drawn = bugs(folder)
    random.Random(0).shuffle(drawn)
    checks = Checks()
    for number, bug in enumerate(drawn[:most], 1):
        if bug.name not in known:
            known[bug.name] = asyncio.run(record(bug, checks, budget))
            if number % 10 == 0:
                kept.write_bytes(msgspec.json.encode([*known.values()]))
    checks.close()
    kept.write_bytes(msgspec.json.encode([*known.values()]))
    return [known[bug.name] for bug in drawn[:most] if known[bug.name].failing]


async def replay(order: Sequence[Recorded]) -> list[Counted]:
    """Replays one stream through an empty registry."""
    mind = learner(clock=Ticks())
    shapes = {each.bug: each.shape for each in order if each.solved}
    counted: list[Counted] = []
    for each in order:
        case = case_of(GOAL, each.failing)
        failed = msgspec.structs.replace(case, failed=tuple([c.id for c in each.failing]))
        told, right = await _asked(mind, case, each, shapes)
        told_later, right_later = await _asked(mind, failed, each, shapes)
        await mind.inject(each.bug, case, mind.learning.injection)
        outcome = "completed" if each.solved else "exhausted"
        history = LoopHistory(each.bug, GOAL, "python", outcome, each.attempts, 1, agent="bench")
        learnt = await mind.take_in(history)
        fixes = [await _lines(mind, one.pattern) for one in learnt.extracted]
        gone, new = each.repair
        counted.append(
            Counted(
                each.bug, told, right, told_later, right_later, each.solved,
                each.solved and (sorted(gone), sorted(new)) in fixes,
            )
        )  # fmt: skip
    return counted


async def _asked(
    mind: CrossLoopLearner, case: object, bug: Recorded, shapes: dict[str, Counter[str]]
) -> tuple[bool, bool]:
    """Returns whether a lesson is shown for the case, and whether it is right."""
    choice = await mind.registry.candidates(case, mind.learning.injection)  # type: ignore[arg-type]
    loops = {loop for each in choice.chosen for loop in each.pattern.loops}
    right = bug.solved and any(shapes.get(loop) == bug.shape for loop in loops)
    return bool(choice.chosen), right


async def _lines(mind: CrossLoopLearner, pattern: str) -> tuple[list[str], list[str]]:
    """The lines that a lesson takes out and puts in."""
    body = (await mind.registry.show(pattern)).body
    gone, new = sides(body.fix.diff) if isinstance(body, ErrorFix) else ([], [])
    return sorted(line.strip() for line in gone), sorted(line.strip() for line in new)


def share(rows: Iterable[Counted], of: str, among: str = "") -> float:
    chosen = [row for row in rows if not among or getattr(row, among)]
    return 100 * sum(getattr(row, of) for row in chosen) / len(chosen) if chosen else 0.0


def interval(rows: Sequence[Counted], of: str, among: str = "") -> str:
    groups: dict[str, list[Counted]] = defaultdict(list)
    for row in rows:
        groups[row.bug].append(row)
    names, chance = sorted(groups), random.Random(0)
    drawn = sorted(
        share([row for name in chance.choices(names, k=len(names)) for row in groups[name]],
              of, among)
        for _ in range(DRAWS)
    )  # fmt: skip
    low, high = drawn[int(0.025 * DRAWS)], drawn[int(0.975 * DRAWS)]
    return f"{share(rows, of, among):.1f} ({low:.1f} to {high:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=3, help="Orders of the stream.")
    parser.add_argument("--most", type=int, default=10_000, help="Bugs, drawn at random.")
    parser.add_argument("--budget", type=int, default=30, help="Candidates per bug.")
    options = parser.parse_args()
    print("| set | bugs | told at once | right | told after a failure | right | whole |")
    print("|---|---|---|---|---|---|---|")
    for folder in options.folders:
        usable = recorded(folder, options.most, options.budget)
        rows: list[Counted] = []
        for seed in range(options.seeds):
            order = sorted(usable, key=lambda each: each.bug)
            random.Random(seed).shuffle(order)
            rows += asyncio.run(replay(order))
        asked = [("told", ""), ("right", ""), ("told_later", ""), ("right_later", "")]
        cells = [interval(rows, *pair) for pair in [*asked, ("whole", "lesson")]]
        print(f"| {folder.name} | {len(usable)} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
