"""The house itself: public names, hidden imports, what an import loads."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import taofold

SOURCE = Path(taofold.__file__).parent
GUEST = SOURCE.parent / "taofold_repair"
LAZY = {"models", "telemetry", "bridges", "cli"}
"""Adapters and the command line may import inside functions: optional or heavy things."""


def modules() -> list[Path]:
    """Every module below `src`, the offline search policy's too."""
    found = [*SOURCE.rglob("*.py"), *GUEST.rglob("*.py")]
    return [path for path in sorted(found) if "project" not in path.parts]


def test_the_public_names_are_these() -> None:
    names = (
        (SOURCE.parent.parent / "tests" / "public_names.txt").read_text(encoding="utf-8").split()
    )
    assert sorted(taofold.__all__) == names
    for name in names:
        assert getattr(taofold, name) is not None


def test_no_import_hides_in_a_function_below_the_adapters() -> None:
    hidden: list[str] = []
    for path in modules():
        if path.relative_to(SOURCE.parent).parts[1] in LAZY:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                hidden += [
                    f"{path.relative_to(SOURCE.parent)}:{node.lineno}"
                    for node in ast.walk(function)
                    if isinstance(node, ast.Import | ast.ImportFrom)
                ]
    assert hidden == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(path.relative_to(SOURCE.parent))
        for path in modules()
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_a_public_class_name_means_one_thing() -> None:
    homes: dict[str, list[str]] = {}
    for path in modules():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(str(path.relative_to(SOURCE.parent)))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


@pytest.mark.scenario("PEER-23")
def test_importing_taofold_loads_no_provider_server_cli_or_telemetry_module() -> None:
    """The time itself is measured in bench/steps."""
    loaded = [*printed("import sys, taofold; print(*sys.modules)").split()]
    loaded += printed("import sys\nfrom taofold import Agent\nprint(*sys.modules)").split()
    heavy = {"aiohttp", "typer", "rich", "ruamel", "jinja2", "openai", "anthropic", "opentelemetry"}
    assert not heavy & {name.partition(".")[0] for name in loaded}
    adapters = ("models", "cli", "logs", "log.sqlite", "log.postgres")
    adapters += ("server", "telemetry", "bridges", "testing")
    assert not [n for n in loaded if n.startswith(tuple(f"taofold.{name}" for name in adapters))]
    assert not {"sqlite3", "psycopg"} & set(loaded)


COUNTED = """
import os, sys
count = 0
def opcodes(frame, event, arg):
    global count
    count += event == "opcode"
    return opcodes
def calls(frame, event, arg):
    if os.sep + "taofold" + os.sep in frame.f_code.co_filename:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return opcodes
sys.settrace(calls)
STATEMENT
sys.settrace(None)
print(count)
"""


def printed(script: str) -> str:
    """What a fresh interpreter prints that runs the script."""
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.scenario("PEER-23")
@pytest.mark.parametrize(
    ("statement", "most"), [("import taofold", 1_000), ("from taofold import Agent", 450_000)]
)
def test_importing_taofold_does_little_work(statement: str, most: int) -> None:
    """Counted in bytecode instructions of ours, which no busy machine changes."""
    assert int(printed(COUNTED.replace("STATEMENT", statement))) < most


@pytest.mark.scenario("PEER-23")
def test_an_agent_runs_without_loading_a_provider_or_the_command_line() -> None:
    script = (
        "import sys\nfrom taofold import Agent\nfrom taofold.testing.models import ScriptedModel\n"
        "assert Agent(ScriptedModel(['forty-two'])).run_sync('x').output == 'forty-two'\n"
        "print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"aiohttp", "typer", "rich", "sqlite3"} & {n.partition(".")[0] for n in loaded}
