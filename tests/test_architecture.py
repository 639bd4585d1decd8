"""The house itself: public names, hidden imports, what an import loads."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import taofold

SOURCE = Path(taofold.__file__).parent
GUESTS = [SOURCE.parent / "taofold_repair", SOURCE.parent / "taofold_testops"]
LAZY = {"models", "telemetry", "bridges", "cli"}
"""Adapters and the command line may import inside functions: optional or heavy things."""


def modules() -> list[Path]:
    """Every module below `src`, those of the guests too."""
    found = [path for folder in (SOURCE, *GUESTS) for path in folder.rglob("*.py")]
    return [path for path in sorted(found) if "project" not in path.parts]


def test_the_public_names_are_these() -> None:
    names = (
        (SOURCE.parent.parent / "tests" / "public_names.txt").read_text(encoding="utf-8").split()
    )
    assert sorted(taofold.__all__) == names
    for name in names:
        assert getattr(taofold, name) is not None


FIRST_RUN = {"agent/agent.py", "agent/result.py", "tools/signature.py"}
"""Modules that load what runs an agent with its first run: a program that only describes agents,
or prints its help, starts a fifth sooner."""


def test_no_import_hides_in_a_function_below_the_adapters() -> None:
    hidden: list[str] = []
    for path in modules():
        place = path.relative_to(SOURCE.parent)
        if place.parts[1] in LAZY or "/".join(place.parts[1:]) in FIRST_RUN:
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
    """Returns the output of a fresh interpreter that runs the script."""
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


OPENS_FILES = {
    "reserved_places.py": "opens files in places of authority for all others",
    "bridges/mcp/client/secret_requests.py": "a list of words of this package",
    "bridges/mcp/client/session.py": "pipes of a server's process",
    "cli/authority.py": "/proc",
    "cli/demo.py": "a new folder of the demo's own",
    "cli/file_commands.py": "agent.yaml and policy.yaml, which a person asked for",
    "evidence/verifier.py": "what its user names; it imports no other module",
    "log/sqlite/file.py": "the -wal file of an open log, to sync it",
    "loop/environment.py": "a digest of a file of the work",
    "loop/gates/": "fresh trees and files of the work",
    "loop/runners/": "pipes of a product's process",
    "workspace/": "stores of git, and folders for restored files",
    "loop/workspace.py": "work roots of loops",
    "models/prices.py": "a table of this package",
    "runtime/ownership.py": "/proc",
    "server/console.py": "files of this package",
    "skills/skill.py": "a copy of a skill in a new folder of one call",
    "shared_document.py": "descriptors of `open_file`",
    "testing/": "cassettes of a program's own tests",
    "tools/": "the work root and its container",
}
"""Modules below taofold that open files otherwise than by `reserved_places`, and which files."""
_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "touch", "mkdir", "makedirs"}


def opened_in(source: str) -> list[int]:
    """The lines on which a module opens or makes a file or a folder by itself."""
    lines: list[int] = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        owner = getattr(getattr(node.func, "value", None), "id", "")
        mode = node.args[0] if node.args else None
        if (
            (name in _METHODS and owner != "ledger")
            or getattr(node.func, "id", "") == "open"
            or (name == "open" and (owner in ("os", "io") or isinstance(mode, ast.Constant)))
        ):
            lines.append(node.lineno)
    return lines


def test_files_in_places_of_authority_are_opened_by_one_function() -> None:
    """Else a link, a FIFO or another user's file is read or written: see docs/security.md."""
    found = {
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line in opened_in(path.read_text(encoding="utf-8"))
    }
    unlisted = [place for place in sorted(found) if not place.startswith(tuple(OPENS_FILES))]
    assert unlisted == [], "use open_file, read_file, write_file, make_folder of reserved_places"


@pytest.mark.parametrize(
    "line",
    ["open(p)", "p.open('w')", "os.open(p, 0)", "p.read_text()", "p.write_bytes(b'')", "p.touch()"],
)
def test_the_rule_above_sees_each_way_to_open_a_file(line: str) -> None:
    assert opened_in(f"import os\n{line}\n") == [2]
    assert opened_in("log.open()\nself._file.open()\n") == []
