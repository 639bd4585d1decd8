"""Chaos: processes of every kind on one log, killed, frozen, rebooted, without disk, out of time.

    python bench/chaos/run.py --faults 2000 --seed 1       # as root: with namespaces
    python bench/chaos/run.py --faults 50                  # a minute on an idle machine
    python bench/chaos/run.py --faults 60 --mutant stale   # must report something: mutants.py

Many small worlds (`harness.py`; `--size` faults each, `--beside` at once) come to more than one
large one: what is looked at stays small, and each must come to rest at its end. Exit code 0:
nothing was lost, repeated or left behind, and every world ended.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HARNESS = Path(__file__).parent / "harness.py"


def one_world(folder: Path, number: int, faults: int, options: argparse.Namespace) -> Any:
    """What happened in one world, from its report; why there is none, if it has none."""
    folder.mkdir()
    command = [sys.executable, str(HARNESS), "--faults", str(faults)]
    command += ["--seed", str(options.seed * 1000 + number), "--loops", str(options.loops)]
    command += ["--seconds", str(options.seconds), "--patience", str(options.patience)]
    environment = os.environ | {"CHAOS_FOLDER": str(folder), "CHAOS_MUTANT": options.mutant}
    with (folder / "harness.txt").open("w") as out:
        ended = subprocess.run(
            command, check=False, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    report = folder / "report.json"
    if not report.exists():
        last = (folder / "harness.txt").read_text()[-2000:]
        return {"wrong": [f"the harness itself ended with {ended.returncode}: {last}"]}
    return json.loads(report.read_text())


def summary(reports: list[Any]) -> dict[str, Any]:
    """The figures of all worlds in one."""
    faults, figures = Counter[str](), Counter[str]()
    for report in reports:
        faults.update(report.get("faults", {}))
        figures.update(report.get("figures", {}))
    return {
        "worlds": len(reports),
        "faults": faults.total(),
        "kinds": dict(faults.most_common()),
        "figures": dict(sorted(figures.items())),
        "boots": sum(report.get("boots", 0) for report in reports),
        "cpu_seconds": sum(report.get("cpu_seconds", 0) for report in reports),
        "namespaces": all(report.get("namespaces") for report in reports),
        "disk": all(report.get("disk") for report in reports),
        "wrong": sum(len(report["wrong"]) for report in reports),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--faults", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=int, default=125, help="faults in one world")
    parser.add_argument("--beside", type=int, default=2, help="worlds at once")
    parser.add_argument("--loops", type=int, default=6, help="loops in one world")
    parser.add_argument("--seconds", type=float, default=900, help="no faults after so long")
    parser.add_argument("--patience", type=float, default=300, help="until all must have ended")
    parser.add_argument("--mutant", default="", help="break the runtime so: see mutants.py")
    parser.add_argument("--keep", action="store_true", help="keep the folders")
    options = parser.parse_args()
    begun, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="chaos-"))
    sizes = [options.size] * (options.faults // options.size)
    if rest := options.faults % options.size:
        sizes.append(rest)

    def world(number: int) -> Any:
        report = one_world(folder / f"world{number}", number, sizes[number], options)
        faults, seconds = report.get("faults", {}), report.get("seconds", 0)
        wrong = len(report["wrong"])
        print(f"world {number}: {faults} in {seconds} s, wrong: {wrong}", flush=True)
        return report

    with ThreadPoolExecutor(options.beside) as pool:
        reports = list(pool.map(world, range(len(sizes))))
    whole = summary(reports) | {"seconds": round(time.monotonic() - begun)}
    print(json.dumps(whole, indent=2))
    for number, report in enumerate(reports):
        for fault in report["wrong"][:50]:
            print(f"world {number}: {fault}")
    if whole["wrong"] or options.keep:
        print(f"what is left lies in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return int(bool(whole["wrong"]))


if __name__ == "__main__":
    sys.exit(main())
