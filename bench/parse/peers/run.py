"""Measures readers on the suites of other servers, fetched by you.

    python bench/parse/peers/run.py vllm=PATH smg=PATH ollama=PATH llama.cpp=PATH [--only taofold]

Each PATH is a checkout. The Python suites (`python_suites.SUITES`) run as they are, the reader in
the place of their parsers; the tables of the others are read out of their
sources. Nothing of them is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from assertions import candle, mistral_rs, openvino  # noqa: E402
from others import VENV, prepare  # noqa: E402
from python_suites import SUITES, copy, verdict_of  # noqa: E402
from rendered import rendered  # noqa: E402
from rows import verdict  # noqa: E402
from scope import out_of_scope  # noqa: E402
from sources import dynamo, llama_cpp, local_ai, ollama, recorded, rust  # noqa: E402

SOURCES = {"ollama": ollama, "smg": rust, "llama.cpp": llama_cpp, "localai": local_ai}
SOURCES |= {"dynamo": dynamo, "recorded": recorded, "openvino": openvino}
SOURCES |= {"mistral.rs": mistral_rs, "candle-vllm": candle, "rendered": rendered}
OURS = ("taofold",)
KINDS = ("right", "missed", "prose", "marked", "wrong", "disputed")


def python_rows(reader: str, suite: str, root: Path, scratch: Path) -> list[dict[str, Any]]:
    folder = scratch / suite
    if not folder.exists():
        copy(root, suite, folder)
    results = scratch / f"{suite}.{reader}.jsonl"
    results.unlink(missing_ok=True)
    paths = [str(HERE), str(HERE.parent), str(HERE.parents[2] / "src"), str(folder)]
    environment = {**os.environ, "CONTESTANT": reader, "RESULTS": str(results), "SUITE": suite}
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    python = sys.executable if reader in OURS else str(VENV / "bin" / "python")
    command = [python, "-m", "pytest", "-q", "-p", "python_suites", "--assert=plain", "--tb=no"]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(folder)]
    command += ["-c", os.devnull, "--continue-on-collection-errors", str(folder)]
    log = scratch / f"{suite}.{reader}.log"
    with log.open("w") as out:
        subprocess.run(command, env=environment, cwd=folder, stdout=out, stderr=out, check=False)
    if not results.exists():
        raise SystemExit(f"{suite} did not run: {log}")
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    rows = [
        {"suite": suite, "id": line["id"], "verdict": verdict_of(line), **line}
        for line in lines
        if not line["xfail"]
    ]
    dispute(rows)
    return rows


def dispute(rows: list[dict[str, Any]]) -> None:
    """Sets apart what a suite wants in one test and forbids in another.

    Some settings of a server are in neither the text nor the tools (which of two formats a
    request asks for): a reader that is given only these gives one answer to both tests.
    """
    texts = [
        json.dumps([(each["text"], each["tools"]) for each in row["readings"]], sort_keys=True)
        for row in rows
    ]
    agreed = {text for text, row in zip(texts, rows, strict=True) if row["verdict"] == "right"}
    for text, row in zip(texts, rows, strict=True):
        if row["verdict"] != "right" and text in agreed:
            row["verdict"] = "disputed"


def source_rows(reader: str, suite: str, root: Path, scratch: Path) -> list[dict[str, Any]]:
    out = scratch / f"{suite}.{reader}.jsonl"
    python = sys.executable if reader in OURS else str(VENV / "bin" / "python")
    paths = [str(HERE), str(HERE.parent), str(HERE.parents[2] / "src")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [python, str(HERE / "run.py"), "--rows", reader, str(out), f"{suite}={root}"]
    subprocess.run(command, env=environment, check=True)
    return [json.loads(line) for line in out.read_text().splitlines()]


def read_rows(reader: str, out: Path, suite: str, root: Path) -> None:
    from contestants import READERS

    read = READERS[reader]()
    with out.open("w", encoding="utf-8") as lines:
        for row in SOURCES[suite](root):
            try:
                reading = read(row.text, row.tools)
                found = verdict(row, reading)
            except Exception as error:  # a crash of a contestant is a finding of its own
                found, reading = "crash", None
                print(f"{row.id}: {error!r}", file=sys.stderr)
            line = {"suite": suite, "id": row.id, "verdict": found, "text": row.text}
            line |= {"tools": row.tools, "wanted": [vars(each) for each in row.calls]}
            line |= {"reading": vars(reading) if reading else None}
            lines.write(json.dumps(line, default=str, ensure_ascii=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="+", help="NAME=PATH")
    parser.add_argument("--only", default="", help="names of readers, separated by commas")
    parser.add_argument("--show", action="store_true", help="the rows that are not right")
    parser.add_argument("--keep", type=Path, help="a folder for the results")
    parser.add_argument("--rows", nargs=2, metavar=("READER", "OUT"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    suites = [(each.partition("=")[0], Path(each.partition("=")[2])) for each in args.suites]
    if args.rows:
        read_rows(args.rows[0], Path(args.rows[1]), *suites[0])
        return
    from contestants import READERS

    names = [name for name in READERS if not args.only or name in args.only.split(",")]
    if set(names) - set(OURS):
        prepare()
    print("| reader | rows | " + " | ".join(KINDS) + " | right % |")
    print("|" + "---|" * (len(KINDS) + 3))
    with tempfile.TemporaryDirectory() as folder:
        scratch = args.keep or Path(folder)
        scratch.mkdir(parents=True, exist_ok=True)
        for name in names:
            rows: list[dict[str, Any]] = []
            for suite, root in suites:
                kind = python_rows if suite in SUITES else source_rows
                rows += kind(name, suite.partition("@")[0], root, scratch)
            _print(name, rows, [suite for suite, _ in suites])
            _print_scope(name, rows)
            if args.show:
                for row in rows:
                    if row["verdict"] != "right":
                        print(row["suite"], row["id"], row["verdict"])


def _print(name: str, rows: list[dict[str, Any]], suites: list[str], total: bool = True) -> None:
    for suite in [*suites, *([""] if total else [])]:
        chosen = [row for row in rows if not suite or row["suite"] == suite]
        tally = Counter(row["verdict"] for row in chosen)
        share = 100 * tally["right"] / max(1, len(chosen) - tally["disputed"])
        cells = " | ".join(str(tally[kind]) for kind in KINDS)
        print(f"| {name} {suite or 'all'} | {len(chosen)} | {cells} | {share:.1f} |", flush=True)


def _print_scope(name: str, rows: list[dict[str, Any]]) -> None:
    """The same over the rows in scope, and how many rows each rule of `scope.py` takes out."""
    rules = Counter(map(out_of_scope, rows))
    inside = [row for row in rows if not out_of_scope(row)]
    _print(name, [{**row, "suite": "in scope"} for row in inside], ["in scope"], total=False)
    taken = ", ".join(f"{count} {rule}" for rule, count in sorted(rules.items()) if rule)
    print(f"\nout of scope: {taken}\n", flush=True)


if __name__ == "__main__":
    main()
