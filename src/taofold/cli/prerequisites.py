"""Checks, before a run starts, whether the tests that a model or the demo will run can run here."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any


def lacking_for(agent: Any, goal: str, gates: str = "") -> str:
    """Returns why the agent's model cannot run the tests that `goal` is about; "" if it can.

    Only models with `command_for` are checked, such as `offline:repair`.
    """
    command_for = getattr(agent.model, "command_for", None)
    command: Any = command_for(f"{goal}\n{gates}") if callable(command_for) else ""
    reason = lacking(command)
    if not reason:
        return ""
    return (
        f"{agent.model.name} repairs a project by running its tests: {reason}. Or name in the goal "
        "the command that runs them, such as `.venv/bin/python -m pytest -q`"
    )


def lacking(command: str) -> str:
    """Returns why a command that runs pytest cannot run here, and what to do; "" if it can.

    Checks the Python that agents' commands get, without `PYTHONPATH` and user packages.
    """
    program = shlex.split(command)[0] if command else ""
    # A program given by its path belongs to the project and may be created later.
    if not program or "/" in program:
        return ""
    path = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    python = shutil.which("python", path=path) or shutil.which("python3", path=path)
    if not program.startswith("python"):
        found = shutil.which(program, path=path) is not None
        return "" if found else f"there is no {program!r} on your PATH: pip install pytest"
    if python is None:
        return f"there is no `python` for {command!r}: put one on your PATH"
    done = subprocess.run([python, "-I", "-c", "import pytest"], capture_output=True, check=False)
    if done.returncode == 0:
        return ""
    return f"{python} cannot import pytest: {shlex.quote(python)} -m pip install pytest"
