"""Chaos: processes of every kind on one log, killed, frozen, rebooted, without disk, out of time.

    python bench/chaos/run.py --faults 2000 --seed 1       # as root: with namespaces
    python bench/chaos/run.py --faults 50                  # a minute on an idle machine
    python bench/chaos/run.py --faults 60 --mutant eager   # must report something: mutants.py

Many small worlds (`harness.py`; `--size` faults each, `--beside` at once) come to more than one
large one: what is looked at stays small, and each must come to rest at its end. Exit code 0:
nothing was lost, repeated or left behind, and every world ended.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import harness
import host
import mutants


def begun(folder: Path, number: int, faults: int, options: argparse.Namespace) -> int:
    """A world in a process of its own, forked from this one, which has loaded everything."""
    folder.mkdir()
    pid = os.fork()
    if pid:
        return pid
    try:
        out = os.open(folder / "harness.txt", os.O_WRONLY | os.O_CREAT)
        for target in (1, 2):
            os.dup2(out, target)
        harness.main(folder, faults, options.seed * 1000 + number, options)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def ended(folder: Path) -> Any:
    """Returns a world's summary from its report, or the reason of a missing report."""
    report = folder / "report.json"
    if not report.exists():
        last = (folder / "harness.txt").read_text()[-2000:]
        return {"wrong": [f"the harness itself ended: {last}"]}
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
    since, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="chaos-"))
    host.load()
    if options.mutant:
        mutants.MUTANTS[options.mutant]()
    sizes = [options.size] * (options.faults // options.size)
    if rest := options.faults % options.size:
        sizes.append(rest)

    reports: list[Any] = [None] * len(sizes)
    waiting, working = list(range(len(sizes))), dict[int, int]()
    while waiting or working:
        while waiting and len(working) < options.beside:
            number = waiting.pop(0)
            working[begun(folder / f"world{number}", number, sizes[number], options)] = number
        number = working.pop(os.wait()[0])
        report = reports[number] = ended(folder / f"world{number}")
        faults, seconds = report.get("faults", {}), report.get("seconds", 0)
        print(f"world {number}: {faults} in {seconds} s, wrong: {len(report['wrong'])}", flush=True)
    whole = summary(reports) | {"seconds": round(time.monotonic() - since)}
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
