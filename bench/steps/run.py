"""Measures taofold's cost per step against a bare loop and the targets: `make bench`.

    python bench/steps/run.py [--peers] [--rounds N] [--quick] [--json FILE]

`--peers` also measures other frameworks with the harness beside the checkout, in the same
invocation. docs/internals/benchmarks.md describes the measurements, the method and the limits.
"""

import argparse
import json
import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

import own
import peers
from table import grid

LENGTHS = (10, 100, 400)


def main():
    options = arguments()
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine()}\n{busy('before')}", flush=True)
    found = own.collect(options.rounds, 3 if options.quick else 10, LENGTHS)
    print(f"\n{grid(own.HEAD, own.rows(found, LENGTHS))}\n", flush=True)
    compared = {}
    if options.peers:
        compared = against_peers(options.rounds)
    print(busy("after"))
    if options.json:
        Path(options.json).write_text(json.dumps({"own": found, "peers": compared}))


def arguments():
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--peers", action="store_true", help="measure other frameworks too")
    reader.add_argument("--rounds", type=int, default=3, help="processes per measurement")
    reader.add_argument("--quick", action="store_true", help="fewer repetitions in each")
    reader.add_argument("--json", default="", help="also write every sample to this file")
    return reader.parse_args()


def machine():
    cpu = platform.machine()
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        names = [line for line in facts.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].partition(":")[2].strip() if names else cpu
    packages = ", ".join(f"{name} {version(name)}" for name in ("aiohttp", "pydantic", "msgspec"))
    return f"{os.cpu_count()} x {cpu}, Python {platform.python_version()}, {packages}"


def busy(when):
    load = os.getloadavg()[0]
    warning = "; other work is running, repeat this later" if load > os.cpu_count() else ""
    return f"load {when}: {load:.1f}{warning}"


def against_peers(rounds):
    if not (peers.HARNESS / "measure.py").exists():
        sys.exit(f"--peers needs the harness in {peers.HARNESS}, which is not there")
    versions = peers.prepare(peers.PEERS)
    found = peers.compare(rounds, LENGTHS)
    print(grid(*peer_grid(found, versions)))
    print()
    for line in peer_verdicts(found):
        print(line)
    print()
    return found


def peer_grid(found, versions):
    figures = [
        *[(f"in process, {n} steps, µs/step", f"steps {n}", ".0f") for n in LENGTHS],
        *[(f"kept in SQLite, {n} steps, µs/step", f"sqlite {n}", ".0f") for n in LENGTHS],
        *[(f"kept in SQLite, {n} steps, bytes/step", f"bytes {n}", ",.0f") for n in LENGTHS],
        *[(f"HTTP, {n} steps, µs/step", f"http {n}", ",.0f") for n in LENGTHS],
        ("HTTP, 100 episodes at once, steps/s", "crowd", ",.0f"),
        ("HTTP, 100 episodes at once, CPU µs/step", "crowd CPU", ",.0f"),
        ("HTTP, 100 episodes at once, peak kB/agent", "crowd kB", ".0f"),
        ("streaming, µs/token", "token", ".0f"),
        ("import, ms", "import", ".0f"),
    ]
    head = ("", *[f"{name} {versions.get(name, '')}".strip() for name in found])
    rows = [
        (what, *[_cell(found[name].get(key), form) for name in found])
        for what, key, form in figures
    ]
    return head, rows


def _cell(values, form):
    return format(median(values), form) if values else "–"


def peer_verdicts(found):
    names = [one.name for one in peers.PEERS if found[one.name].get("crowd")]
    ours = {
        figure: median(found["taofold"][figure]) for figure in ("crowd", "crowd CPU", "crowd kB")
    }
    if names:
        best = max(names, key=lambda name: median(found[name]["crowd"]))
        times = ours["crowd"] / median(found[best]["crowd"])
        yield f"100 episodes at once, steps/s: {times:.1f} x {best}, the best peer (target: 10 x)"
        best = min(names, key=lambda name: median(found[name]["crowd CPU"]))
        times = median(found[best]["crowd CPU"]) / ours["crowd CPU"]
        yield f"100 episodes at once, CPU: {times:.1f} x less than {best}, the best peer"
    more = ours["crowd kB"] - median(found["bare loop"]["crowd kB"])
    yield f"peak memory per agent over the bare loop: {more:+.0f} kB (target: 40 kB)"


if __name__ == "__main__":
    main()
