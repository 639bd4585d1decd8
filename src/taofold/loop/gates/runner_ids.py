"""The names of tests in each runner: unloaded files, the tests inside them, the file of a test.
Pure.

Names are the ids in the reports. Those of go and cargo contain no file.
"""

import ast
import re
from collections.abc import Mapping
from typing import Final

from taofold.core.failing_checks import Check
from taofold.loop.verdict import Runner

JOINTS = {"pytest": "::", "unittest": ".", "go": ".", "node": " > ", "cargo": "::"}
_UNITTEST_LOADER: Final = "Failed to import test module: "
_FIXTURE: Final = re.compile(r"(?:setUp|tearDown)(?:Class|Module) \((?P<of>[^()]+)\)")
_GO_TEST_BUILD: Final = re.compile(r"\S+ \[(?P<package>\S+)\.test\]")
_GO_MODULE: Final = re.compile(r"(?m)^module\s+\"?(?P<name>[^\s\"]+)")


def is_test_in(runner: Runner, name: str, path: str) -> bool:
    """Returns whether this is the name of a test in the file at `path`."""
    match runner:
        case "pytest":
            return name == path or name.startswith(f"{path}::")
        case "node":
            return name == path or name.startswith(f"{path} > ")
        case "unittest":
            whole = path.removesuffix(".py").replace("/", ".")
            modules = {whole, whole.rpartition(".")[2]}  # also if the start is a folder below
            return any([name == module or name.startswith(f"{module}.") for module in modules])
        case _:
            return False  # these names contain no file: any test may be meant


def is_unloaded(runner: Runner, check: Check, sources: Mapping[str, str]) -> bool:
    """Returns whether it stands for a file, module or package that failed to load."""
    # Node reports a file that ended without an error of its own as a failed test.
    if check.status not in ("error", "skipped", *(["failed"] if runner == "node" else [])):
        return False
    name = check.id
    match runner:
        case "pytest":
            return "::" not in name
        case "unittest":
            # `tests.test_calc` and `test_calc.T.test_add` look alike: the loader's message
            # distinguishes them.
            return (
                any(
                    [text.startswith(_UNITTEST_LOADER) for text in (check.message, check.traceback)]
                )
                or "." not in name
                or _FIXTURE.fullmatch(name) is not None
                or not name.rpartition(".")[2].startswith("test")
                or bool(python_source(name, sources))
            )
        case "go":
            return not name.rpartition(".")[2].startswith(("Test", "Example", "Fuzz"))
        case "node":
            # A script that only asserts is its own test, and is reported again when it passes.
            path = name.partition(" > ")[0]
            return _is_node_file(name) and "node:test" in sources.get(path, "node:test")
        case "cargo":
            return "::" not in name.partition(": ")[0] and ": " in name
        case _:
            return False


def prefix_of(runner: Runner, name: str, sources: Mapping[str, str]) -> str:
    """Returns the name prefix of the tests in a file that failed to load.

    "" if it is unknown, or if there are no tests in it.
    """
    match runner:
        case "node":
            return name.partition(" > ")[0]
        case "cargo":
            # A compiler's finding names a file, and tests are named by their modules.
            return ""
        case "unittest":
            # `setUpClass (tests.test_calc.Sums)`, `setUpModule (tests.test_calc)`
            fixture = _FIXTURE.fullmatch(name)
            return fixture["of"] if fixture else name
        case "go":
            # A package is built once more for its tests: `x [x.test]`, `x_test [x.test]`.
            built = _GO_TEST_BUILD.fullmatch(name)
            package = built["package"] if built else name
            return "" if _is_untested(package, sources) else package
        case _:
            return name


def is_inside(runner: Runner, name: str, whole: str) -> bool:
    """Returns whether this is the name of a test in the file, module or package `whole`."""
    joint = JOINTS[runner]
    # Node reports a file without any test as a passed test.
    if runner == "node" and _is_node_file(name):
        return False
    # unittest calls a module that was requested by name and cannot be imported by its last name.
    if runner == "unittest" and joint not in whole and f"{joint}{whole}{joint}" in name:
        return True
    # A folder of pytest's whose own configuration could not be loaded.
    if runner == "pytest" and name.startswith(f"{whole}/"):
        return True
    return name.startswith(whole + joint)


def _is_node_file(name: str) -> bool:
    """Returns whether it is a file's own entry, named by its path here and its full path."""
    parts = name.split(" > ")
    return len(parts) == 2 and parts[0] != "" and parts[1].endswith(parts[0])


def _is_untested(package: str, sources: Mapping[str, str]) -> bool:
    """Returns whether a package of go is known to have no test. It then only needs to build."""
    for path, text in sources.items():
        module = _GO_MODULE.search(text) if path.rpartition("/")[2] == "go.mod" else None
        if module and f"{package}/".startswith(f"{module['name']}/"):
            below = package.removeprefix(module["name"])
            folder = f"{path.removesuffix('go.mod')}{below.strip('/')}".strip("/")
            return not any(
                other.endswith("_test.go") and other.rpartition("/")[0] == folder
                for other in sources
            )
    return False


def python_source(name: str, sources: Mapping[str, str]) -> str:
    """Returns the text of the file with a test or module of this name; "" if it is unknown."""
    path = name if name.endswith(".py") else name.replace(".", "/") + ".py"
    if path in sources:
        return sources[path]
    # Names begin at the runner's start folder, which may be a folder below.
    ends = [text for other, text in sources.items() if other.endswith(f"/{path}")]
    return ends[0] if len(ends) == 1 else ""


def tests_in(source: str) -> tuple[str, ...]:
    """Returns the test functions that a Python file defines, without importing it."""
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
