"""How each runner names its tests: which name is a file that could not be loaded, which tests would
be in it, and whether a name is of a test in some file. Pure.

Names are the ids in the reports. Those of go and cargo say nothing about files.
"""

import ast

from taofold.loop.verdict import Runner

JOINTS = {"pytest": "::", "unittest": ".", "go": ".", "node": " > ", "cargo": "::"}


def is_test_in(runner: Runner, name: str, path: str) -> bool:
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


def is_module(runner: Runner, name: str) -> bool:
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


def prefix_of(runner: Runner, name: str) -> str:
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


def python_file(name: str) -> str:
    """The file in which a test or module of this name is."""
    return name if name.endswith(".py") else name.replace(".", "/") + ".py"


def tests_in(source: str) -> tuple[str, ...]:
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
