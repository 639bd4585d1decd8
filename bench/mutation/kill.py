"""Runs the mutants that `draw.py` drew, each against all tests of its room that run its line.

With the Python of the project, in TREE, a clone of its own (mutants are written into its files):

    python bench/mutation/kill.py cover TREE    # once: which test covers what, and for how long
    python bench/mutation/kill.py run TREE 300  # for so many seconds; goes on where it stopped
    python bench/mutation/kill.py report TREE

The tests of a room are those of its folder (`tests/core` for `core`); the quickest come first and
the first that fails ends the judgement. They are collected once, and a process is forked for each
mutant; one outside of functions, or of a line that runs at import, gets fresh processes. A test
that fails without its mutant too is left out. One that does not end counts if it does not end a
second time, alone, while it does without the mutant.
"""

import json
import math
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
FEW_FILES = 3
"""A fresh process begins with so many files: collecting them all takes longer than their tests."""
HANGING_SECONDS, HANGING_TIMES = 20.0, 4.0
"""A test hangs after so long on the processor, and so many times what it took unchanged."""
IDLE_SECONDS = 60.0
"""A process that used no processor for so long waits for what will not come."""
OPTIONS = ["-q", "-p", "no:cacheprovider", "-m", "not fuzz"]
PLUGINS = ["-p", "anyio", "-p", "pytest_bdd.plugin", "-p", "taofold.testing.plugin"]
"""Modules that the tests need.

Importing the other installed ones would dominate a fresh process.
"""
TESTS = [f"tests/{room}" for room in ROOMS]
Json = dict[str, Any]


def surroundings(tree: Path) -> dict[str, str]:
    paths = [str(tree / "src"), str(tree), str(Path(__file__).parent)]
    paths += filter(None, [os.environ.get("PYTHONPATH")])
    path = os.pathsep.join(paths)
    return {**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def cover(tree: Path) -> int:
    """Runs all tests once with a coverage context for each. `coverage` must be importable."""
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


def ended(child: int, most: float = math.inf) -> bool:
    """Waits for a process group. False if it had to be killed.

    The limit is in processor time: on a busy machine a slow mutant is not a stuck one.
    """
    moved, last = time.monotonic(), 0.0
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        ticks = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:15]
        used, now = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"), time.monotonic()
        if used > last + 0.1:
            last, moved = used, now
        if used > most or now - moved > IDLE_SECONDS:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        time.sleep(0.02)
    return True


class Mutants:
    """A pytest plugin that shows the mutants to the collected tests, in place of running them."""

    def __init__(self, tree: Path, until: float) -> None:
        self.tree, self.until = tree, until
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
            outcome = self.outcome(mutant, original)
        finally:
            write(path, original)
        row = {key: mutant[key] for key in ("path", "line", "operator", "was", "now", "weight")}
        shown, seconds = len(mutant["tests"]), round(time.monotonic() - began, 1)
        return row | {"outcome": outcome, "tests": shown, "seconds": seconds}

    def outcome(self, mutant: Json, original: str) -> str:
        """`killed by TEST`, `hung in TEST` (or it ended the process), `survived` or `untested`."""
        path = self.tree / mutant["path"]
        tests = shown = [test for test in mutant["tests"] if test in self.items]
        while tests := [test for test in tests if test not in self.broken]:
            fresh = False
            outcome = self.forked(tests, mutant, original)
            if outcome == "fresh":
                fresh, outcome = True, self.few_files_first(tests)
            verdict, _, test = outcome.partition(" in " if "hung in" in outcome else " by ")
            if test not in self.items:
                return outcome
            if test not in self.trusted:
                write(path, original)
                alone = self.fresh([test]) if fresh else self.forked([test], None, original)
                write(path, mutant["code"])
                (self.trusted if alone == "survived" else self.broken).add(test)
            if test in self.broken:
                continue
            if verdict == "killed":
                return outcome
            again = self.fresh([test]) if fresh else self.forked([test], mutant, original)
            if again != "survived":
                return again
            tests = tests[tests.index(test) + 1 :]
        return "survived" if set(shown) - self.broken else "untested"

    def few_files_first(self, tests: list[str]) -> str:
        often = dict(Counter(map(file_of, tests)).most_common(FEW_FILES))
        first = [test for test in tests if file_of(test) in often]
        rest = [test for test in tests if file_of(test) not in often]
        outcome = self.fresh(first)
        return self.fresh(rest) if rest and outcome == "survived" else outcome

    def most(self, tests: list[str]) -> float:
        """The processor seconds after which tests hang."""
        return HANGING_SECONDS + HANGING_TIMES * sum(self.seconds.get(test, 0) for test in tests)

    def forked(self, tests: list[str], mutant: Json | None, original: str) -> str:
        out, into = os.pipe()
        child = os.fork()
        if not child:
            os.setsid()
            os.close(out)
            try:
                outcome = self.ran(tests, mutant, original, into)
                os.write(into, f"{outcome}\n".encode())
            finally:
                os._exit(0)
        os.close(into)
        ended(child)
        with os.fdopen(out) as lines:
            last = lines.read().splitlines()[-1]
        return f"hung in {tests[int(last)]}" if last.isdigit() else last

    def ran(self, tests: list[str], mutant: Json | None, original: str, progress: int) -> str:
        from swap import swap

        if mutant is not None:
            path = self.tree / mutant["path"]
            if mutant["at_import"] or not swap(path, original, mutant["code"]):
                return "fresh"
        failures = Failures()
        items = [self.items[test] for test in tests]
        items[0].config.pluginmanager.register(failures)
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
            for number, item in enumerate(items):
                os.write(progress, f"{number}\n".encode())
                signal.setitimer(signal.ITIMER_PROF, self.most([item.nodeid]))  # ends the process
                after = items[number + 1] if item is not items[-1] else None
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                if failures.first:
                    return f"killed by {failures.first}"
        return "survived"

    def fresh(self, tests: list[str]) -> str:
        """Runs the test in a process that imports the mutant again."""
        command = [sys.executable, "-m", "pytest", "-x", "-v", "--tb=no", *PLUGINS, *OPTIONS[1:]]
        command.append(f"--basetemp={self.tree / 'temporary-fresh'}")
        log = self.tree / "fresh.log"
        with log.open("w") as out:
            process = subprocess.Popen(
                [*command, *tests], cwd=self.tree, env=surroundings(self.tree), stdout=out,
                stderr=out, start_new_session=True,
            )  # fmt: skip
            in_time = ended(process.pid, self.most(tests))
        # It is already reaped. Otherwise it would warn, and fail, in the test that frees it.
        process.returncode = 0
        lines = log.read_text(encoding="utf-8", errors="replace")
        if not in_time:
            shown = re.findall(r"^(tests/\S+::.*?)(?: [A-Z]+ .*)?$", lines, re.MULTILINE)
            return f"hung in {shown[-1].strip()}" if shown else "hung in an import"
        if failed := re.search(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", lines, re.MULTILINE):
            return f"killed by {failed[1]}"
        passed = re.search(r"^=+ \d+ passed", lines, re.MULTILINE)
        return "survived" if passed else "killed by a failing import"


def run(tree: Path, until: float) -> int:
    import pytest

    os.chdir(tree)
    os.environ.update(surroundings(tree))
    sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
    mutants = Mutants(tree, time.monotonic() + until)
    # Folders of its own: the numbered ones of pytest are shared by all that run on this machine.
    folder = f"--basetemp={tree / 'temporary'}"
    return int(pytest.main([*PLUGINS, *OPTIONS, folder, *TESTS], [mutants]))


def report(tree: Path) -> None:
    rows = [json.loads(line) for line in (tree / "results.jsonl").read_text().splitlines()]
    share = spread = whole = 0.0
    print("room        mutants  killed  of them hung")
    for room in ROOMS:
        mine = [row for row in rows if row["path"].startswith(f"src/taofold/{room}/")]
        if not mine:
            continue
        noticed = [row for row in mine if row["outcome"].startswith(("killed", "hung"))]
        hung = sum(row["outcome"].startswith("hung") for row in mine)
        killed, weight = len(noticed) / len(mine), mine[0]["weight"]
        print(f"{room:10} {len(mine):8} {killed:7.1%} {hung:5}")
        share += weight * killed
        spread += weight**2 * killed * (1 - killed) / len(mine)
        whole += weight
    half = 1.96 * spread**0.5 / whole
    print(f"{'weighted':10} {len(rows):8} {share / whole:7.1%}, 95 % within {half:.1%} of it")
    for row in sorted(rows, key=lambda row: (row["path"], row["line"])):
        if not row["outcome"].startswith(("killed", "hung")):
            print(f"{row['path']}:{row['line']} {row['was']}  ->  {row['now']}")
            print(f"    {row['operator']}  {row['outcome']} {row['tests']} tests")


if __name__ == "__main__":
    what, where = sys.argv[1], Path(sys.argv[2]).resolve()
    if what == "cover":
        sys.exit(cover(where))
    if what == "run":
        sys.exit(run(where, float(sys.argv[3])))
    report(where)
