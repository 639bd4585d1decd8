"""Prints the time of a snapshot of a tree with 10,000 files, of which few change.

    python bench/snapshots.py [FILES]

Milliseconds of wall time and of CPU time of all processes together, each the median of the rounds.
`git status` of the same tree is the comparison; a ratio is the median of the rounds' ratios.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from taofold.workspace.run_files import RunFiles

ROUNDS = 20


class Cost(NamedTuple):
    """Milliseconds."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:.0f} ms (CPU {self.cpu:.0f})"


def cost(work: Callable[[], object]) -> Cost:
    began, cpu = time.perf_counter(), _cpu()
    work()
    return Cost((time.perf_counter() - began) * 1000, (_cpu() - cpu) * 1000)


def middle(costs: list[Cost]) -> Cost:
    return Cost(median([each.wall for each in costs]), median([each.cpu for each in costs]))


def _cpu() -> float:
    own, others = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as place:
        os.environ["XDG_STATE_HOME"] = f"{place}/state"
        tree = Path(place) / "tree"
        for number in range(count):
            path = tree / f"d{number % 100}" / "src" / f"f{number}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"value = {number}\n" * 20)
        subprocess.run(["git", "init", "-q", str(tree)], check=True)
        subprocess.run(["git", "-C", str(tree), "add", "."], check=True)
        files = RunFiles.of(tree)
        first = cost(lambda: files.take("run"))
        files.take("run")

        def change(number: int) -> Cost:
            for file in range(3):
                (tree / f"d{file}" / "src" / f"f{file + 100 * number}.py").write_text(f"{number}")
            return cost(lambda: files.take("run"))

        # The first ones read new files again, whose times do not show each change yet.
        time.sleep(3)
        for number in range(3):
            change(number)
        changed, same, compared = list[Cost](), list[Cost](), list[Cost]()
        status = ["git", "-C", str(tree), "status", "--porcelain"]
        # In turn: a busy machine slows all three.
        for number in range(3, 3 + ROUNDS):
            changed.append(change(number))
            same.append(cost(lambda: files.take("run")))
            compared.append(cost(lambda: subprocess.run(status, check=True, capture_output=True)))
        print(f"{count:,} files, load {os.getloadavg()[0]:.1f}: first {first}")
        for name, costs in (("3 changed", changed), ("none changed", same)):
            pairs = [*zip(costs, compared, strict=True)]
            wall = median([ours.wall / theirs.wall for ours, theirs in pairs])
            cpu = median([ours.cpu / theirs.cpu for ours, theirs in pairs])
            print(f"{name}: {middle(costs)}, {wall:.1f} times git status (CPU {cpu:.1f})")
        print(f"git status: {middle(compared)}")


if __name__ == "__main__":
    main()
