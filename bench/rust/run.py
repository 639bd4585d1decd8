"""What a step costs in the runtime in Rust, beside the Python runtime and a bare loop in each.

    python bench/rust/run.py [--steps N] [--runs N] [--rounds N]

Builds `rust/taofold/examples/steps.rs` and the program `taofold-rs` for release. Each measurement
is a process of its own, in turn; the table has the median of the rounds, with the ratio to the bare
loop in Rust and that of Python to Rust. Both runtimes read the same replies, as text.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
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
                told = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
                found.setdefault((name, mode, "us"), []).append(told["us"])
                found.setdefault((name, mode, "kb"), []).append(told["kb"])
        for name, words in starts.items():
            began = perf_counter()
            subprocess.run(words, check=True, capture_output=True)
            found.setdefault((name, "start", "ms"), []).append((perf_counter() - began) * 1e3)
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


def arguments():
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--steps", type=int, default=100, help="turns of each run")
    reader.add_argument("--runs", type=int, default=30, help="runs in each process")
    reader.add_argument("--rounds", type=int, default=3, help="processes of each measurement")
    return reader.parse_args()


if __name__ == "__main__":
    main()
