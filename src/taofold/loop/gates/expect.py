"""What a gate must show after what it showed before iteration 1. Pure.

New tests are welcome and prove nothing; each test of the baseline must have been run, and
must have passed. A linter's findings of the baseline must be gone, which its exit code says.
"""

import ast
import re
from collections.abc import Collection, Iterable, Mapping

from msgspec import structs

from taofold.core.checks import Check, Status
from taofold.loop.checks.report import RunnerReport
from taofold.loop.gates.baseline import Expected
from taofold.loop.verdict import TESTS, Runner

_TESTING = re.compile(r"(?:\A|_)(?:tests?|checks?|specs?)(?:_|\.)")
_JOINTS = {"pytest": "::", "unittest": ".", "go": ".", "node": " > ", "cargo": "::"}


def expected(runner: Runner, report: RunnerReport, sources: Mapping[str, str]) -> Expected:
    """What to hold later runs to. `sources` are the contents of protected Python files."""
    checks: dict[str, Status | None] = dict.fromkeys(report.collected)
    checks |= {check.id: check.status for check in report.checks}
    names: dict[str, tuple[str, ...]] = {}
    for check in report.checks:
        if runner in TESTS and check.status in ("error", "skipped") and _whole(runner, check.id):
            # A file that could not be loaded is no test: what counts is the
            # tests in it, once it loads.
            del checks[check.id]
            if home := _home(runner, check.id):
                names[home] = _tests(sources.get(_file(check.id), ""))
    return Expected(checks, names, tuple(report.patched), report.plugins, report.files)


def homes(was: Expected, files: Collection[str]) -> set[str]:
    """Files that hold tests and nothing else, which only their ids tell: `checks/check_a.py`."""
    paths = {name.partition("::")[0] for name in (*was.checks, *was.names) if "::" in name}
    return {
        path
        for path in paths & {*files}
        if not path.endswith(".py") or _TESTING.search(path.rpartition("/")[2])
    }


def missing(runner: Runner, was: Expected, checks: Iterable[Check]) -> tuple[str, ...]:
    """Checks of the baseline that were not run, or were skipped instead of run."""
    if runner not in TESTS:
        return ()
    now = {check.id: check.status for check in checks}
    lacking: list[str] = []
    for name, status in was.checks.items():
        current = now.get(name)
        # To skip a test that ran before is the cheapest way to make it stop failing.
        if current is None or (current == "skipped" and status != "skipped"):
            lacking.append(name)
    ran = [name for name, status in now.items() if status != "skipped"]
    joint = _JOINTS[runner]
    for whole, tests in was.names.items():
        inside = [name for name in ran if name.startswith(whole + joint)]
        if not inside and now.get(whole) is None:
            lacking.append(whole)
        parts = {part.partition("[")[0] for name in inside for part in [name.rpartition(joint)[2]]}
        lacking += [f"{whole}{joint}{test}" for test in tests if test not in parts]
    return tuple(lacking)


def unchecked(was: Expected, now: Collection[str], tree: Collection[str]) -> tuple[str, ...]:
    """What speaks against a linter: it looks at less than before. `tree` is what there is now."""
    lost = [path for path in was.files if path in tree and path not in now]
    gone = [path for path in was.files if path not in tree]
    languages = {_language(path) for path in gone}
    aside = [
        path
        for path in tree
        if path not in was.files and path not in now and _language(path) in languages - {""}
    ]
    doubts: list[str] = []
    if lost:
        doubts.append(f"not checked any more: {', '.join(lost[:5])}")
    if len(now) < len(was.files):
        doubts.append(f"{len(now)} files were checked, {len(was.files)} before the work began")
    # A file that was moved to where the linter does not look is not mended.
    if gone and aside:
        doubts.append(f"{gone[0]} is gone, and {aside[0]} is not checked")
    return tuple(doubts)


def _language(path: str) -> str:
    suffix = path.rpartition(".")[2]
    if suffix in ("py", "pyi"):
        return "python"
    return "javascript" if suffix.strip("cmx") in ("js", "ts") else ""


def rebased(runner: Runner, was: Expected, now: Expected, edited: Collection[str]) -> Expected:
    """What must be shown after a person's edit of these files, `now` being a run with them.

    Of edited test files it is what they hold now. An edited file that holds no tests itself
    (configuration, helpers, data) may change which tests there are anywhere; even then a test
    that is still there must pass if it had to.
    """
    if runner not in TESTS:
        return was
    ids = {*was.checks, *was.names, *now.checks, *now.names}
    # Which tests exist may follow from a file that holds none: configuration, a helper, data.
    every = not all([any([_in(runner, name, path) for name in ids]) for path in edited])

    def mine(name: str) -> bool:
        return any([_in(runner, name, path) for path in edited])

    checks = {name: status for name, status in was.checks.items() if not (every or mine(name))}
    names = {name: tests for name, tests in was.names.items() if not (every or mine(name))}
    for name, status in now.checks.items():
        if every or mine(name):
            # A test that the edited file does not hold must pass if it had to before.
            checks[name] = status if mine(name) else was.checks.get(name, status)
    names |= {name: tests for name, tests in now.names.items() if every or mine(name)}
    plugins = tuple(dict.fromkeys([*was.plugins, *(now.plugins if every else ())]))
    patched = tuple(dict.fromkeys([*was.patched, *now.patched]))
    return structs.replace(was, checks=checks, names=names, plugins=plugins, patched=patched)


def _in(runner: Runner, name: str, path: str) -> bool:
    """Is this the name of a test in the file at `path`?"""
    match runner:
        case "pytest":
            return name == path or name.startswith(f"{path}::")
        case "node":
            return name == path or name.startswith(f"{path} > ")
        case "unittest":
            whole = path.removesuffix(".py").replace("/", ".")
            modules = {whole, whole.rpartition(".")[2]}  # also where the start is a folder below
            return any([name == module or name.startswith(f"{module}.") for module in modules])
        case _:
            return False  # names of these say nothing about files: any test may be meant


def interference(was: Expected, report: RunnerReport, root: str) -> tuple[str, ...]:
    """What replaced parts of the runner while it ran, beyond what did so before.

    Where some tests could not be loaded before, installed plugins may only now come to it.
    """
    reasons = [
        f"{name} was replaced"
        for name, file in report.patched.items()
        if name not in was.patched
        and not (was.names and file.startswith("/") and not file.startswith(f"{root}/"))
    ]
    plugins = [name for name in report.plugins if name not in was.plugins]
    reasons += [f"plugin {name} was added" for name in plugins if not name.endswith("conftest.py")]
    return tuple(reasons)


def share(runner: Runner, was: Expected, checks: Iterable[Check], passed: bool) -> tuple[int, int]:
    """How many of the baseline's and the new checks pass, and how many there are."""
    now = {check.id: check.status for check in checks}
    # Without checks the exit code is all there is.
    if runner == "command" or not (was.checks or was.names or now):
        return int(passed), 1
    names = {**was.checks, **dict.fromkeys(now)}
    if runner not in TESTS:  # findings: what is no longer found is right
        return len([name for name in names if name not in now]), len(names)
    # Tests that were skipped and still are say nothing in either direction.
    counted = [n for n in names if not (now.get(n) == was.checks.get(n) == "skipped")]
    lost = [n for n in was.names if now.get(n) not in (None, "passed")]
    good = len([name for name in counted if now.get(name) == "passed"])
    return good, max(len({*counted, *lost}), 1)


def _whole(runner: Runner, name: str) -> bool:
    """Is it a file, module or package that could not be loaded, and no test in one?"""
    match runner:
        case "pytest":
            return "::" not in name
        case "unittest":
            return not name.rpartition(".")[2].startswith("test_") or "." not in name
        case "go":
            return not name.rpartition(".")[2].startswith(("Test", "Example", "Fuzz"))
        case "node":
            parts = name.split(" > ")
            return len(parts) == 2 and parts[0] != "" and parts[1].endswith(parts[0])
        case "cargo":
            return "::" not in name.partition(": ")[0] and ": " in name
        case _:
            return False


def _home(runner: Runner, name: str) -> str:
    """What the names of the tests begin with that are in what could not be loaded; "" = unknown."""
    match runner:
        case "node":
            # A file's own entry is named after it twice: by its path here and by the whole one.
            return name.partition(" > ")[0]
        case "cargo":
            # A compiler's finding names a file, and tests are named by their modules.
            return ""
        case _:
            return name


def _file(name: str) -> str:
    return name if name.endswith(".py") else name.replace(".", "/") + ".py"


def _tests(source: str) -> tuple[str, ...]:
    """The test functions that a Python file defines, whatever it takes to import it."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()
    functions = [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return tuple(dict.fromkeys([name for name in functions if name.startswith("test")]))
