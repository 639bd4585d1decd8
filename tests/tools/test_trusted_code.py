"""This process imports and runs no code that an agent wrote.

Mutants: the project's folder stays on `sys.path`; the finder accepts every module; programs are
searched on an unchanged `PATH`; the interpreter's own folder is writable.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from taofold import trusted_code
from taofold.files.python_references import load
from taofold.tools.containment import Containment
from taofold.tools.jail import OutsideJail, jail

EVIL = "import os, pathlib\npathlib.Path('{0}').write_text('ran')\n"


def child(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own, with the folder as the current one."""
    return subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )


def test_a_folder_is_on_the_path_only_while_a_module_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "agents_of_path.py").write_text("import helper_of_path\nmade = helper_of_path.X\n")
    (tmp_path / "helper_of_path.py").write_text("X = 3\n")
    before = list(sys.path)
    assert load("agents_of_path:made", tmp_path) == 3
    assert sys.path == before
    (tmp_path / "later_of_path.py").write_text("")
    with pytest.raises(ModuleNotFoundError):
        __import__("later_of_path")


SEALED = """
import sys
from pathlib import Path
from taofold import trusted_code
from taofold.tools.jail import jail
from taofold.files.python_references import load
load("agents:made", Path("."))
sys.path.insert(0, str(Path(".").absolute()))     # as `python -m` or PYTHONPATH have it
trusted_code.seal()
sys.path.insert(0, str(Path(".").absolute()))     # and somebody's tool later
jail(".")
Path("colorsys.py").write_text("print('ran')")    # a module that was not yet imported
Path("planted.py").write_text("print('ran')")
import colorsys
assert colorsys.rgb_to_hsv, colorsys.__file__
try:
    import planted
except ModuleNotFoundError as error:
    print("refused:", error)
import package.inner                              # what was loaded may not load more either
"""


def test_a_sealed_process_takes_no_module_from_where_an_agent_works(tmp_path: Path) -> None:
    (tmp_path / "agents.py").write_text("import package\nmade = 1\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").write_text("")
    (tmp_path / "package/inner.py").write_text("print('ran')\n")
    done = child(tmp_path, SEALED)
    assert "refused: the module 'planted' lies in a folder where an agent works" in done.stdout
    assert "'package.inner' lies in a folder where an agent works" in done.stderr
    assert "ran" not in done.stdout.replace("refused", "")


def test_the_command_line_is_sealed(tmp_path: Path) -> None:
    """An `aiohttp.py` that lies in the current folder is not what the program imports."""
    for name in ("aiohttp", "yaml", "typer", "msgspec_extra", "taofold"):
        (tmp_path / f"{name}.py").write_text(EVIL.format(tmp_path / "proof"))
    script = (
        "import sys; sys.path.pop(0)\n"
        "from taofold.cli import main\nsys.path.insert(0, '')\n"
        "try:\n    main(['doctor'])\nexcept SystemExit:\n    pass\n"
        "from taofold import trusted_code\nassert trusted_code.OUTSIDE in sys.meta_path\n"
        "assert '' not in sys.path and sys.path.count(__import__('os').getcwd()) == 0\n"
        "import aiohttp\nassert aiohttp.ClientSession\n"
    )
    done = child(tmp_path, script)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "proof").exists()


def test_a_program_is_not_taken_from_where_an_agent_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    for name in ("git", "bwrap"):
        (root / "bin" / name).write_text("#!/bin/sh\n")
        (root / "bin" / name).chmod(0o755)
    (tmp_path / "link").symlink_to(root / "bin")
    monkeypatch.setenv("PATH", f"{root}/bin:{tmp_path}/link:.:bin:/usr/bin:/bin")
    monkeypatch.chdir(root)
    assert trusted_code.program("git") == str(root / "bin/git")
    found = trusted_code.program("git", root)
    assert not found or not Path(found).resolve().is_relative_to(root)
    monkeypatch.setenv("PATH", f"{root}/bin:{tmp_path}/link:.")
    assert trusted_code.program("bwrap", root) == ""
    program = Containment(root).wrap(["true"], root)[0]
    assert not Path(program).exists()


def test_what_this_python_runs_from_cannot_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / ".venv"
    (home / "bin").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(home))
    files = jail(tmp_path)
    for path in (".venv/bin/python", ".venv/lib/aiohttp.py", ".venv/new.pth"):
        with pytest.raises(OutsideJail, match="runs from there"):
            files.write(path, b"x")
    files.write(".venv-2/free", b"x")
    assert files.read(".venv-2/free", 10) == b"x"
