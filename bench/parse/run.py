"""Runs our parser beside the others on the same rows: `python bench/parse/run.py [--full]`.

The other parsers live in `bench/.venvs/parse`, which the first run creates (`--only taofold`
needs none of them). `--corpus` and `--schemas` point at another corpus of the same form.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from cases import BAD, CORPUS, GOOD, GROUPS, SCHEMAS, load  # noqa: E402
from contestants import CONTESTANTS  # noqa: E402
from others import VENV, prepare  # noqa: E402

SHARED = Path("../shared/bench/parse")
DESTRUCTIVE = ("delete_call", "write_call", "shell_call", "tao_delete", "tao_write", "edit_call")


def measure(name: str, python: str, args: argparse.Namespace, track: str) -> dict[str, Any]:
    """Runs one contestant. A row that hangs or kills the process is recorded and skipped."""
    results: dict[str, Any] = {}
    while True:
        command = [python, str(HERE / "worker.py"), name, str(args.corpus), str(args.schemas)]
        command += [track, json.dumps(sorted(results))]
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent.parent / "src")}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, bufsize=0
        )
        running, done, hung = _follow(process, results, args.timeout)
        process.kill()
        process.wait()
        if done:
            return results
        if running is None:
            raise SystemExit(f"{name} did not start")
        results[running] = {"o": "timeout" if hung else "crash", "us": args.timeout * 1e6}


def _follow(
    process: subprocess.Popen[bytes], results: dict[str, Any], timeout: float
) -> tuple[str | None, bool, bool]:
    assert process.stdout is not None
    selector = selectors.DefaultSelector()
    selector.register(process.stdout, selectors.EVENT_READ)
    running: str | None = None
    patience = 180.0  # imports
    while selector.select(patience):
        line = process.stdout.readline()
        if not line:
            return running, False, False
        event = json.loads(line)
        if "done" in event:
            return None, True, False
        if "start" in event:
            running, patience = event["start"], timeout
        else:
            results[event["id"]], running = event, None
    return running, False, True


def row_of(name: str, rows: list[dict[str, Any]], results: dict[str, Any]) -> list[str]:
    def count(cases: list[dict[str, Any]], kinds: Any) -> int:
        return sum(results[case["id"]]["o"] in kinds for case in cases)

    groups = [[r for r in rows if r["category"] in group] for group in GROUPS.values()]
    shares = [count(group, GOOD) / len(group) for group in groups if group]
    must = [r for r in rows if r["verdict"] == "accept"]
    never = [r for r in rows if r["verdict"] == "reject"]
    cut = [r for r in never if r["category"] == "truncated" and r["schema"] in DESTRUCTIVE]
    times = sorted(results[r["id"]]["us"] for r in rows)
    wrong, right = count(rows, BAD), count(must, ("correct",))
    return [
        name,
        f"{100 * sum(shares) / max(1, len(shares)):.1f}",
        f"{right}/{len(must)} ({100 * right / len(must):.0f} %)",
        f"{count(never, ('rejected',))}/{len(never)}",
        f"{wrong} ({100 * wrong / len(rows):.1f} %)",
        f"{count(cut, ('accepted',))}/{len(cut)}",
        f"{times[len(times) // 2]:.0f}",
        f"{times[int(len(times) * 0.95)]:.0f}",
        f"{count(rows, ('crash',))}/{count(rows, ('timeout',))}",
    ]


def size_row(name: str, rows: list[dict[str, Any]], results: dict[str, Any]) -> list[str]:
    tally = Counter(results[row["id"]]["o"] for row in rows)
    good = sum(tally[kind] for kind in GOOD)
    slowest = max(rows, key=lambda row: results[row["id"]]["us"])
    seconds = results[slowest["id"]]["us"] / 1e6
    return [
        name, f"{good}/{len(rows)}", str(tally["timeout"]), str(tally["crash"]),
        str(sum(tally[kind] for kind in BAD)), f"{seconds:.2f} ({slowest['gen'][0]})",
    ]  # fmt: skip


def table(header: list[str], rows: list[list[str]]) -> None:
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for number, row in enumerate([header, *rows]):
        cells = zip(row, widths, strict=True)
        print("| " + " | ".join(cell.ljust(width) for cell, width in cells) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def overhead(rows: list[dict[str, Any]], found: dict[str, dict[str, Any]]) -> None:
    if "taofold" in found and "bare validator" in found:
        ids = [row["id"] for row in rows if row["category"].startswith("valid")]
        plain = [i for i in ids if found["bare validator"][i]["o"] == "correct"]
        extra = sorted(found["taofold"][i]["us"] - found["bare validator"][i]["us"] for i in plain)
        if extra:
            middle = extra[len(extra) // 2]
            print(f"\nvalid JSON, n={len(extra)}: {middle:.1f} µs over the bare validator", end="")
            print(f" (median), {extra[-1]:.1f} µs (largest)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="the whole public corpus in ../shared")
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    parser.add_argument("--schemas", type=Path, default=SCHEMAS)
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds for one row")
    parser.add_argument("--tracks", default="main,size")
    args = parser.parse_args()
    if args.full:
        args.corpus, args.schemas = SHARED / "corpus_public.jsonl", SHARED / "schemas.json"
    names = [name for name in CONTESTANTS if not args.only or name in args.only.split(",")]
    if set(names) - {"taofold", "bare validator"}:
        prepare()
    for track in args.tracks.split(","):
        rows = load(args.corpus, track)
        started = time.perf_counter()
        found: dict[str, dict[str, Any]] = {}
        for name in names:
            ours = name in ("taofold", "bare validator")
            python = sys.executable if ours else str(VENV / "bin" / "python")
            found[name] = measure(name, python, args, track)
        print(f"\n{track}: {len(rows)} rows of {args.corpus.name}", end="")
        print(f" ({time.perf_counter() - started:.0f} s)\n")
        if track == "size":
            header = ["parser", "right", "time-outs", "crashes", "wrong", "slowest, s"]
            table(header, [size_row(name, rows, each) for name, each in found.items()])
        else:
            header = ["parser", "macro %", "recovered", "rejected", "silently wrong"]
            header += ["cut-off destructive accepted", "µs median", "µs p95", "crashes/time-outs"]
            table(header, [row_of(name, rows, each) for name, each in found.items()])
            overhead(rows, found)


if __name__ == "__main__":
    main()
