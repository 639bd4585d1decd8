"""The environment of the other parsers: `bench/.venvs/parse`, not in git, apart from ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
VENV = HERE.parent / ".venvs" / "parse"
PACKAGES = ["json_repair", "fast_json_repair", "baml-py", "instructor", "pydantic-ai-slim", "dspy"]
NEEDED = ["pydantic>=2.11", "msgspec>=0.20", "pytest", "atheris"]


def prepare() -> None:
    """Creates the environment and BAML's client once. An interrupted creation is repeated."""
    python = VENV / "bin" / "python"
    ready = VENV / ".ready"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", *NEEDED, *PACKAGES]
        subprocess.run(pip, check=True)
        ready.touch()
    if not (VENV.parent / "baml" / "baml_client").exists():
        subprocess.run([str(python), str(HERE / "baml_project.py")], check=True)
