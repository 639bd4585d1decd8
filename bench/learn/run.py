"""Measures the benefit of learning, with real pytest and the built-in model.

    python bench/learn/run.py [FOLDER]

Iterations are candidate edits, each tried with a test run; a bug that is not repaired within the
budget counts as the budget. The same bug without lessons is the other half of each pair.
Each pair is written at once, so an interrupted run keeps its results: a summary so far to
standard error, and with --json a line. At the end a Markdown table on standard output.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bench_loop import Checks
from conditions import CONDITIONS, run
from corpus import bugs
from figures import brief, table
from streams import Bench, Row

OWN = Path(__file__).parent / "bugs"
EACH = 10
"""Pairs after which the cache is kept."""


def worker(given: tuple[str, int, tuple[str, ...], int, str, str]) -> dict[str, object]:
    """Runs every condition on one order of the bugs, for one seed."""
    folder, seed, names, budget, cache, pairs = given
    checks = Checks(cache)

    def came(label: str, rows: list[Row]) -> None:
        """The last of `rows` is new."""
        so_far = brief([asdict(row) for row in rows])
        line = json.dumps({"seed": seed, "stream": label, **asdict(rows[-1])})
        print(f"{label} {len(rows)}/{len(order)}: {so_far}", file=sys.stderr, flush=True)
        if pairs:
            with open(pairs, "a", encoding="utf-8") as file:
                file.write(line + "\n")
        if len(rows) % EACH == 0:
            checks.keep()

    bench = Bench(checks, budget, came)
    usable = [bug for bug in bugs(Path(folder)) if bench.start(bug)]
    order = usable[:]
    random.Random(seed).shuffle(order)
    done: dict[str, object] = {}
    for name in names:
        began = time.monotonic()
        done[name] = asyncio.run(run(name, bench, order, seed))
        checks.keep()
        took = f"{time.monotonic() - began:.0f} s"
        print(f"seed {seed}: {name}, {brief(done[name])}, {took}", file=sys.stderr, flush=True)
    checks.close()
    return {"seed": seed, "conditions": done, "bugs": len(usable), "pytest_runs": checks.real}


def main() -> None:
    said = argparse.ArgumentParser(description=__doc__)
    said.add_argument("folder", nargs="?", type=Path, default=OWN, help="A folder of bugs.")
    said.add_argument("--seeds", type=int, default=2, help="Orders of the stream.")
    said.add_argument("--first", type=int, default=0, help="The first order's number.")
    said.add_argument("--budget", type=int, default=60, help="Candidates per bug.")
    said.add_argument("--only", default="", help=f"Of {', '.join(CONDITIONS)}.")
    said.add_argument("--json", type=Path, help="Add a line for every pair here.")
    said.add_argument("--cache", default="", help="Keep test results of known files here.")
    said.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    given = said.parse_args()
    if not given.folder.is_dir():
        said.error(f"{str(given.folder)!r} is no folder")
    names = tuple(n for n in given.only.split(",") if n) or tuple(CONDITIONS)
    wrong = set(names) - set(CONDITIONS)
    if wrong:
        said.error(f"unknown: {', '.join(sorted(wrong))}")
    began = time.monotonic()
    tasks = [
        (str(given.folder), seed, names, given.budget, given.cache, str(given.json or ""))
        for seed in range(given.first, given.first + given.seeds)
    ]
    with ProcessPoolExecutor(min(given.jobs, len(tasks))) as pool:
        seeds = list(pool.map(worker, tasks))
    if not seeds or not seeds[0]["bugs"]:
        said.error(f"no bug with failing pytest tests below {str(given.folder)!r}")
    print(table(seeds, given.budget, time.monotonic() - began))


if __name__ == "__main__":
    main()
