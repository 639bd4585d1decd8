"""Measures a step of the Rust runtime, the Python runtime and a bare loop in each language.

    python bench/rust/run.py [--steps N] [--runs N] [--rounds N] [--cpu]

Builds `rust/taofold/examples/steps.rs` and the program `taofold-rs` for release. Each measurement
is a process of its own, in turn; the table has the median of the rounds, with the ratio to the bare
loop in Rust and that of Python to Rust. Both runtimes read the same replies, as text.

On a machine with other work `--cpu` counts the time of the processor, less that of one step.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from time import perf_counter

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MODES = ("floor", "memory", "sqlite")


def main():
    options = arguments()
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "rust" / "target").resolve()
    build = ["cargo", "build", "--release", "--locked", "--quiet", "--bins", "--examples"]
    subprocess.run(build, cwd=ROOT / "rust", check=True)
    release = target / "release"
    programs = {
        "Rust": [release / "examples" / "steps"],
        "Python": [sys.executable, HERE / "steps.py"],
    }
    starts = {
        "Rust": [release / "taofold-rs", "--version"],
        "Python": [sys.executable, "-m", "taofold.cli", "--version"],
    }
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; {options.steps} steps")
    found = {}
    for _ in range(options.rounds):
        for name, program in programs.items():
            for mode in MODES:
                words = [*program, mode, str(options.steps), str(options.runs)]
                told, spent = measured(words)
                if options.cpu:
                    _, least = measured([*program, mode, "1", "1"])
                    told["us"] = 1e6 * (spent - least) / (options.steps * options.runs - 1)
                found.setdefault((name, mode, "us"), []).append(told["us"])
                found.setdefault((name, mode, "kb"), []).append(told["kb"])
        for name, words in starts.items():
            began = perf_counter()
            _, spent = measured(words)
            taken = spent if options.cpu else perf_counter() - began
            found.setdefault((name, "start", "ms"), []).append(taken * 1e3)
    figures = {key: median(samples) for key, samples in found.items()}
    floor = figures["Rust", "floor", "us"]
    print("| | Rust | to its floor | Python | Python : Rust |\n|---|---|---|---|---|")
    for mode in MODES:
        rust, python = figures["Rust", mode, "us"], figures["Python", mode, "us"]
        row = f"| {mode}, µs a step | {rust:.1f} | {rust / floor:.1f} | {python:.1f} "
        print(f"{row}| {python / rust:.1f} |")
    for name, mode, unit in (("peak of memory", "memory", "kb"), ("start-up", "start", "ms")):
        rust, python = figures["Rust", mode, unit], figures["Python", mode, unit]
        print(f"| {name}, {unit} | {rust:.1f} | | {python:.1f} | {python / rust:.1f} |")
    size = (release / "taofold-rs").stat().st_size / 1e6
    print(f"taofold-rs: {size:.1f} MB")


def measured(words):
    """Returns a process's output, as JSON if possible, and its processor time in seconds."""
    before = getrusage(RUSAGE_CHILDREN)
    out = subprocess.run(words, check=True, capture_output=True).stdout
    after = getrusage(RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(out) if out.startswith(b"{") else {}, spent


def arguments():
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--steps", type=int, default=100, help="turns of each run")
    reader.add_argument("--runs", type=int, default=30, help="runs in each process")
    reader.add_argument("--rounds", type=int, default=3, help="processes of each measurement")
    reader.add_argument("--cpu", action="store_true", help="time of the processor, not the clock")
    return reader.parse_args()


if __name__ == "__main__":
    main()
