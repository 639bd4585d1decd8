"""Runs the mutants that `draw.py` drew, each against the tests that cover its line.

With the Python of the project, in TREE, a clone of its own (mutants are written into its files):

    python bench/mutation/kill.py cover TREE    # once: which test covers what, and for how long
    python bench/mutation/kill.py run TREE 300  # for so many seconds; goes on where it stopped
    python bench/mutation/kill.py run TREE 300 inf  # to all tests of its room, not to five seconds
    python bench/mutation/kill.py report TREE

A mutant is first shown to the tests of its own room (`tests/core` for `core`), then to the
others that were measured, the quickest first. The tests are collected once, and a process is
forked for each mutant; one outside of functions, or of a line that runs at import, gets a
fresh process. A test that fails without its mutant too is left out.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

ROOMS = ("core", "policy", "runtime", "reasoning")
BESIDE = (
    *("agent", "compat", "features", "log/test_forks.py", "log/test_formats.py"),
    "test_conformance_kit.py",
)
"""Tests of other rooms that run through these; they count only as the second line."""
SLOWEST_SECONDS, MOST_SECONDS = 3.0, 5.0
FEW_FILES = 3
"""A fresh process begins with so many files: collecting them all takes longer than their tests."""
STUCK_SECONDS = 40.0
OPTIONS = ["-q", "-p", "no:cacheprovider", "-m", "not fuzz"]
PLUGINS = ["-p", "anyio", "-p", "pytest_bdd.plugin", "-p", "taofold.testing.plugin"]
"""What the tests need. To import the others that are installed takes most of a fresh process."""
TESTS = [f"tests/{room}" for room in (*ROOMS, *BESIDE)]
KILLED = ("killed", "timeout")
Json = dict[str, Any]


def surroundings(tree: Path) -> dict[str, str]:
    paths = [str(tree / "src"), str(tree), str(Path(__file__).parent)]
    paths += filter(None, [os.environ.get("PYTHONPATH")])
    path = os.pathsep.join(paths)
    return {**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def cover(tree: Path) -> int:
    """Run all tests once, with a coverage context for each; needs `coverage` to be importable."""
    sources = ",".join(f"src/taofold/{room}" for room in ROOMS)
    files = {"MUTATION_SECONDS": "seconds.json", "COVERAGE_FILE": ".coverage"}
    environment = surroundings(tree) | {name: str(tree / file) for name, file in files.items()}
    command = [sys.executable, "-m", "coverage", "run", f"--source={sources}", "-m", "pytest"]
    command += ["-p", "plugin", *PLUGINS, *OPTIONS, *TESTS]
    return subprocess.run(command, cwd=tree, env=environment, check=False).returncode


def write(path: Path, code: str) -> None:
    """Write a module. Its bytecode goes: it is judged by size and second, which may agree."""
    path.write_text(code, encoding="utf-8")
    for stale in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        stale.unlink()


def file_of(test: str) -> str:
    return test.partition("::")[0]


class Failures:
    """A pytest plugin: which test failed first."""

    def __init__(self) -> None:
        self.first = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.first:
            self.first = report.nodeid


def ended(child: int, most: float) -> bool:
    """Wait for a process group; False if it had to be killed.

    Processor time is measured, not the clock: on a busy machine a slow mutant is not a stuck one.
    """
    began = moved = time.monotonic()
    last = 0.0
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        ticks = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:15]
        used, now = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"), time.monotonic()
        if used > last + 0.1:
            last, moved = used, now
        if used > most or now - moved > STUCK_SECONDS or now - began > 10 * most:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        time.sleep(0.02)
    return True


class Mutants:
    """A pytest plugin that shows the mutants to the collected tests, in place of running them."""

    def __init__(self, tree: Path, until: float, most: float) -> None:
        self.tree, self.until, self.most = tree, until, most
        self.seconds: dict[str, float] = json.loads((tree / "seconds.json").read_text())
        self.trusted: set[str] = set()
        self.broken: set[str] = set()
        self.items: dict[str, Any] = {}

    def pytest_runtestloop(self, session: Any) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        results = self.tree / "results.jsonl"
        done = len(results.read_text().splitlines()) if results.exists() else 0
        for mutant in json.loads((self.tree / "mutants.json").read_text())[done:]:
            if time.monotonic() > self.until:
                break
            with results.open("a", encoding="utf-8") as out:
                out.write(json.dumps(self.judged(mutant)) + "\n")
        return True

    def judged(self, mutant: Json) -> Json:
        began, path = time.monotonic(), self.tree / mutant["path"]
        original = path.read_text(encoding="utf-8")
        try:
            write(path, mutant["code"])
            own = self.shown(mutant, original, mutant["own"], self.most)
            others = (
                ""
                if own.startswith(KILLED)
                else self.shown(mutant, original, mutant["others"], MOST_SECONDS)
            )
        finally:
            write(path, original)
        row = {key: mutant[key] for key in ("path", "line", "operator", "was", "now", "weight")}
        return row | {"own": own, "others": others, "seconds": round(time.monotonic() - began, 1)}

    def shown(self, mutant: Json, original: str, tests: list[str], most: float) -> str:
        """`killed by TEST`, `survived`, `timeout` or `untested`."""
        while True:
            left, chosen = most, []
            for test in tests:
                seconds = self.seconds[test]
                if test in self.items and test not in self.broken and seconds < SLOWEST_SECONDS:
                    if (left := left - seconds) < 0:
                        break
                    chosen.append(test)
            if not chosen:
                return "untested"
            outcome = self.forked(chosen, mutant, original)
            fresh = outcome == "fresh"
            if fresh:
                often = Counter(map(file_of, chosen)).most_common(FEW_FILES)
                first = [test for test in chosen if file_of(test) in dict(often)]
                outcome = self.fresh(first)
                if outcome == "survived" and len(first) < len(chosen):
                    outcome = self.fresh([test for test in chosen if test not in first])
            test = outcome.removeprefix("killed by ")
            if test == outcome or test in self.trusted or test not in self.items:
                return outcome
            if self.without_mutant(test, mutant, original, fresh=fresh):
                self.trusted.add(test)
                return outcome
            self.broken.add(test)

    def without_mutant(self, test: str, mutant: Json, original: str, *, fresh: bool) -> bool:
        path = self.tree / mutant["path"]
        write(path, original)
        try:
            alone = self.fresh([test]) if fresh else self.forked([test], None, original)
            return alone == "survived"
        finally:
            write(path, mutant["code"])

    def forked(self, tests: list[str], mutant: Json | None, original: str) -> str:
        out, into = os.pipe()
        child = os.fork()
        if not child:
            os.setsid()
            os.close(out)
            outcome = "killed by a death of the process"
            try:
                outcome = self.ran(tests, mutant, original)
            finally:
                os.write(into, outcome.encode())
                os._exit(0)
        os.close(into)
        most = 20 + 4 * sum(self.seconds[test] for test in tests)
        in_time = ended(child, most)
        with os.fdopen(out) as outcome_of_child:
            outcome = outcome_of_child.read()
        return (outcome or "killed by a death of the process") if in_time else "timeout"

    def ran(self, tests: list[str], mutant: Json | None, original: str) -> str:
        from swap import swap

        if mutant is not None:
            path = self.tree / mutant["path"]
            if mutant["at_import"] or not swap(path, original, mutant["code"]):
                return "fresh"
        failures = Failures()
        items = [self.items[test] for test in tests]
        items[0].config.pluginmanager.register(failures)
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
            for item, after in zip(items, [*items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                if failures.first:
                    return f"killed by {failures.first}"
        return "survived"

    def fresh(self, tests: list[str]) -> str:
        """In a process that imports the mutant anew."""
        command = [sys.executable, "-m", "pytest", "-x", "--tb=no", *PLUGINS, *OPTIONS, *tests]
        process = subprocess.Popen(
            command, cwd=self.tree, env=surroundings(self.tree), text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        most = 60 + 4 * sum(self.seconds[test] for test in tests)
        try:
            said, _ = process.communicate(timeout=3 * most)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return "timeout"
        if process.returncode == 0:
            return "survived"
        failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", said, re.MULTILINE)
        return f"killed by {failed[1] if failed else 'a failing import'}"


def run(tree: Path, until: float, most: float) -> int:
    import pytest

    os.chdir(tree)
    os.environ.update(surroundings(tree))
    sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
    mutants = Mutants(tree, time.monotonic() + until, most)
    return int(pytest.main([*PLUGINS, *OPTIONS, *TESTS], [mutants]))


def report(tree: Path) -> None:
    rows = [json.loads(line) for line in (tree / "results.jsonl").read_text().splitlines()]
    killed = {"own": 0.0, "any": 0.0, "weight": 0.0}
    print("room        mutants  by own tests  by any  of them timeouts")
    for room in ROOMS:
        mine = [row for row in rows if row["path"].startswith(f"src/taofold/{room}/")]
        own = sum(row["own"].startswith(KILLED) for row in mine)
        any_ = own + sum(row["others"].startswith(KILLED) for row in mine)
        stuck = sum("timeout" in (row["own"], row["others"]) for row in mine)
        if mine:
            print(
                f"{room:10} {len(mine):8} {own / len(mine):12.1%} {any_ / len(mine):8.1%} {stuck:4}"
            )
            killed["own"] += mine[0]["weight"] * own / len(mine)
            killed["any"] += mine[0]["weight"] * any_ / len(mine)
            killed["weight"] += mine[0]["weight"]
    own_share, any_share = (killed[name] / killed["weight"] for name in ("own", "any"))
    print(f"{'weighted':10} {len(rows):8} {own_share:12.1%} {any_share:8.1%}")
    for row in sorted(rows, key=lambda row: (row["path"], row["line"])):
        if not row["own"].startswith(KILLED):
            print(f"{row['path']}:{row['line']} {row['was']}  ->  {row['now']}")
            print(f"    {row['operator']}  own {row['own']}, others {row['others']}")


if __name__ == "__main__":
    what, where = sys.argv[1], Path(sys.argv[2]).resolve()
    if what == "cover":
        sys.exit(cover(where))
    if what == "run":
        most = float(sys.argv[4]) if len(sys.argv) > 4 else MOST_SECONDS
        sys.exit(run(where, float(sys.argv[3]), most))
    report(where)
