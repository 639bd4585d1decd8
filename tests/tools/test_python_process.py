"""The contained tool `python.process`: files, bounds and hostile code."""

import os
from pathlib import Path
from typing import Any

import pytest

from taofold.core.errors import ConfigError
from taofold.tools import Outcome, RunContext, python_process
from taofold.tools.python_process import contained_python
from tests.prerequisites import CONTAINMENT
from tests.tools.test_command import gone

pytestmark = [pytest.mark.anyio, CONTAINMENT.mark]

FORGED = "import os, sys\nos.write(int(sys.argv[1]), {})\nos._exit(0)"


async def ran(root: Path, code: str, **values: Any) -> Outcome:
    bound = contained_python(root).bind({"code": code, "values": values})
    return await bound.run(RunContext(None))


async def test_code_works_in_the_root_with_values_and_packages(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hi")
    code = """
import glob, yaml
print("so")
with open("b.txt", "w") as file:
    file.write(state["t"])
del state["t"]
return {"files": sorted(glob.glob("*.txt")), "a": open("a.txt").read(),
        "y": yaml.safe_load("b: 1"), "left": state}
"""
    outcome = await ran(tmp_path, code, state={"t": "written"})
    value = {"files": ["a.txt", "b.txt"], "a": "hi", "y": {"b": 1}, "left": {}}
    assert outcome.value == {"value": value, "printed": "so\n"}
    assert (tmp_path / "b.txt").read_text() == "written"


async def test_changes_of_the_state_are_returned_where_they_are_asked_for(tmp_path: Path) -> None:
    code = "state['a'].append(2)\ndel state['n']\nreturn 'so'"
    parameters = {"code": code, "values": {"state": {"a": [1], "n": 1, "b": 3}}, "changes": True}
    outcome = await contained_python(tmp_path).bind(parameters).run(RunContext(None))
    assert outcome.value["value"] == {"value": "so", "changes": {"a": [1, 2], "n": None}}


async def test_an_error_has_the_line_of_the_code(tmp_path: Path) -> None:
    outcome = await ran(tmp_path, "def f():\n    return 1 / 0\n\nreturn f()")
    assert outcome.status == "failure"
    assert outcome.value["error"] == "line 2 of the code: ZeroDivisionError: division by zero"


async def test_the_environment_and_other_files_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x1")
    (tmp_path / "root").mkdir()
    (tmp_path / "beside.txt").write_text("private")
    code = f"""
import os
found = []
for path in ({str(tmp_path / "beside.txt")!r}, "/etc/passwd", os.path.expanduser("~/.ssh")):
    found.append(os.path.exists(path))
return {{"found": found, "secret": os.environ.get("SECRET_TOKEN")}}
"""
    outcome = await ran(tmp_path / "root", code)
    assert outcome.value["value"] == {"found": [False, False, False], "secret": None}


async def test_a_module_of_the_root_does_not_replace_one_of_the_runner(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('replaced')")
    assert (await ran(tmp_path, "return 1")).value["value"] == 1


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("x = ' ' * (3 << 30)", "MemoryError"),
        ("import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))", "maximum limit"),
        ("with open('big', 'wb') as f:\n    f.truncate(1 << 30)", "File too large"),
        ("import os\nos._exit(3)", "the process ended without a result: exit code 3"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "without a result"),
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("print('x' * 100_000_000)", "more than 64,000,000 bytes"),
        ("return 'x' * 2_000_000", "2,000,002 characters"),
        ("return {1}", "the result of the code: TypeError"),
        ("import socket\nsocket.create_connection(('127.0.0.1', 22), 1)", "refused"),
        ("import socket\nsocket.create_connection(('192.0.2.1', 80), 1)", "unreachable"),
        ("import os, sys\nos.write(int(sys.argv[1]), b'x' * 100)\nos._exit(0)", "without a result"),
        ("import os, sys\nos.write(int(sys.argv[1]), b'[1]')\nos._exit(0)", "without a result"),
        (
            "import os, sys\nos.write(int(sys.argv[1]), b'{\"result\": 3}')\nos._exit(0)",
            "no result",
        ),
        ("import os, sys\nos.write(int(sys.argv[1]), b'{}')\nos._exit(0)", "None"),
    ],
)
async def test_hostile_code_reaches_nothing_and_ends(tmp_path: Path, code: str, error: str) -> None:
    outcome = await ran(tmp_path, code)
    assert outcome.status == "failure"
    assert error in outcome.value["error"]


async def test_what_a_code_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    marker = f"36{os.getpid()}.5"
    code = f"import subprocess\nsubprocess.Popen(['sleep', '{marker}'])\nreturn 1"
    assert (await ran(tmp_path, code)).value["value"] == 1
    assert await gone(marker)


def test_without_containment_there_is_no_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_process, "why_not", lambda: "bubblewrap is not installed")
    with pytest.raises(ConfigError, match="cannot be contained: bubblewrap is not installed"):
        contained_python(tmp_path)


def test_it_asks_before_it_runs_and_shows_the_code(tmp_path: Path) -> None:
    tool = contained_python(tmp_path)
    assert (tool.effect, int(tool.tier)) == ("once", 2)
    assert tool.preview is not None
    assert "import os" in tool.preview({"code": "import os"})
    assert os.sep not in tool.name
