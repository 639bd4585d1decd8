"""Runs the mutants that `draw.py` drew, each against the tests that cover its line.

With the Python of the project, in TREE, a clone of its own (mutants are written into its files):

    python bench/mutation/kill.py cover TREE    # once: which test covers what, and for how long
    python bench/mutation/kill.py run TREE 300  # for so many seconds; goes on where it stopped
    python bench/mutation/kill.py report TREE

A mutant is first shown to the tests of its own room (`tests/core` for `core`), then to the
others that were measured. A process is forked for each: it imports the mutant anew, while
what is not ours has been imported once.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

ROOMS = ("core", "policy", "runtime", "reasoning")
BESIDE = ("agent", "compat", "features", "log/test_forks.py", "log/test_formats.py")
"""Tests of other rooms that run through these; they count only as the second line."""
MOST_TESTS = 150
SLOWEST_SECONDS = 15.0
OPTIONS = [
    "-q",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "-m",
    "not fuzz",
]
FOREIGN = ("pytest", "_pytest", "pydantic", "msgspec", "aiohttp", "hypothesis", "jsonschema",
           "ruamel.yaml", "jinja2", "anyio", "inline_snapshot", "pytest_bdd", "httpx", "typer",
           "rich", "asyncio", "sqlite3", "concurrent.futures", "starlette", "uvicorn")  # fmt: skip


def cover(tree: Path) -> int:
    """Run all tests once, with a coverage context for each; needs `coverage` to be importable."""
    here, sources = Path(__file__).parent, ",".join(f"src/taofold/{room}" for room in ROOMS)
    paths = [str(tree / "src"), str(tree), str(here), os.environ.get("PYTHONPATH", "")]
    files = {"MUTATION_SECONDS": "seconds.json", "COVERAGE_FILE": ".coverage"}
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        **{name: str(tree / file) for name, file in files.items()},
    }
    tests = [f"tests/{room}" for room in (*ROOMS, *BESIDE)]
    command = [sys.executable, "-m", "coverage", "run", f"--source={sources}", "-m", "pytest"]
    command += ["-p", "plugin", *OPTIONS, *tests]
    return subprocess.run(command, cwd=tree, env=environment, check=False).returncode


class Noted:
    """A pytest plugin: the first test that failed, and why a run never began."""

    def __init__(self) -> None:
        self.first, self.ran = "", 0

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.ran += report.when == "call"
        if report.failed and not self.first:
            self.first = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.first:
            self.first = f"import of {report.nodeid}"


def tests_alone(tests: list[str], out: int) -> None:
    """In the child: run the tests, write what became of the mutant, and be gone."""
    import pytest

    noted = Noted()
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        try:
            code = int(pytest.main(["-x", "--tb=no", *OPTIONS, *tests], [noted]))
        except BaseException as error:
            code, noted.first = 1, f"{type(error).__name__} at start"
    if code == 0:
        outcome = "survived" if noted.ran else "untested"
    else:
        outcome = f"killed by {noted.first}" if noted.first else f"unusable: pytest exit {code}"
    os.write(out, outcome.encode())
    os._exit(0)


def shown(tests: list[str], seconds: dict[str, float]) -> str:
    """`killed by TEST`, `survived`, `timeout`, or `untested`."""
    tests = [test for test in tests if seconds[test] < SLOWEST_SECONDS][:MOST_TESTS]
    if not tests:
        return "untested"
    given, taken = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        os.close(given)
        tests_alone(tests, taken)
    os.close(taken)
    # Processor time, not the clock: on a busy machine a slow mutant is not a stuck one.
    most, began = 20 + 4 * sum(seconds[test] for test in tests), time.monotonic()
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        ticks = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:13]
        used = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        if used > most or time.monotonic() - began > 10 * most:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(given)
            return "timeout"
        time.sleep(0.05)
    with os.fdopen(given) as said:
        return said.read() or "killed by a death of the process"


def write(path: Path, code: str) -> None:
    """Write a module. Its bytecode goes: it is judged by size and second, which may agree."""
    path.write_text(code, encoding="utf-8")
    for stale in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        stale.unlink()


def run(tree: Path, most: float) -> None:
    until = time.monotonic() + most
    os.chdir(tree)
    sys.path[:0] = [str(tree / "src"), str(tree)]
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
    for name in FOREIGN:
        importlib.import_module(name)
    seconds = json.loads((tree / "seconds.json").read_text(encoding="utf-8"))
    results = tree / "results.jsonl"
    done = len(results.read_text(encoding="utf-8").splitlines()) if results.exists() else 0
    for mutant in json.loads((tree / "mutants.json").read_text(encoding="utf-8"))[done:]:
        path, began = tree / mutant["path"], time.monotonic()
        if began > until:
            return
        original = path.read_text(encoding="utf-8")
        try:
            write(path, mutant["code"])
            own = shown(mutant["own"], seconds)
            others = shown(mutant["others"], seconds) if own in ("survived", "untested") else ""
        finally:
            write(path, original)
        row = {key: mutant[key] for key in ("path", "line", "operator", "was", "now")}
        row |= {"own": own, "others": others, "seconds": round(time.monotonic() - began, 1)}
        with results.open("a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")


def report(tree: Path) -> None:
    rows = [json.loads(line) for line in (tree / "results.jsonl").read_text().splitlines()]
    for room in (*ROOMS, ""):
        mine = [row for row in rows if row["path"].startswith(f"src/taofold/{room}")]
        own = sum(row["own"].startswith(("killed", "timeout")) for row in mine)
        all_ = own + sum(row["others"].startswith(("killed", "timeout")) for row in mine)
        if mine:
            share, whole = 100 * own / len(mine), 100 * all_ / len(mine)
            print(f"{room or 'all':10} {len(mine):4} own {share:.1f} % with others {whole:.1f} %")
    ended = ("killed", "timeout")
    for row in sorted(rows, key=lambda row: (row["path"], row["line"])):
        if not row["own"].startswith(ended) and not row["others"].startswith(ended):
            print(f"{row['path']}:{row['line']} {row['was']}  ->  {row['now']}  ({row['own']})")
    print(Counter(row["own"].split(" ")[0] for row in rows))


if __name__ == "__main__":
    what, where = sys.argv[1], Path(sys.argv[2]).resolve()
    if what == "cover":
        sys.exit(cover(where))
    run(where, float(sys.argv[3])) if what == "run" else report(where)
