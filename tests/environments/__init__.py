"""Virtual environments of third-party software, for tests that run against the real programs.

Some packages cannot live beside ours (CrewAI pins old versions) or are too large to (Phoenix has
824 MB). Each has an environment of its own outside the tree, made once from the pinned file
`<name>.txt` in this folder and reached through a process:

    python -m tests.environments phoenix restate    # without names: all, as `make environments`

    crewai = environments.needs("crewai")        # skips the test if it is missing
    crewai.run("script.py", "argument", timeout=60)

The cache is `$TAOFOLD_TEST_CACHE`, else `~/.cache/taofold-tests`. An environment is identified by
its file's content: a changed pin is another environment.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FILES = Path(__file__).parent


@dataclass(frozen=True)
class Environment:
    """A virtual environment with what `<name>.txt` pins."""

    name: str
    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def program(self, name: str) -> Path:
        """A command that was installed with it: `phoenix`."""
        return self.folder / "bin" / name

    def run(
        self, *arguments: str | Path, timeout: float = 600, env: Mapping[str, str] = {}, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        """Runs its Python, isolated from ours. The caller checks `returncode`."""
        return subprocess.run(
            [self.python, *map(str, arguments)],
            env=scrubbed(env), text=True, capture_output=True, timeout=timeout, check=False, **more,
        )  # fmt: skip


def scrubbed(more: Mapping[str, str] = {}) -> dict[str, str]:
    """Our environment without what would make another Python find our packages."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return {**kept, **more}


def cache() -> Path:
    """Returns the folder of everything that tests keep between runs."""
    return Path(os.environ.get("TAOFOLD_TEST_CACHE") or "~/.cache/taofold-tests").expanduser()


def names() -> list[str]:
    return sorted(file.stem for file in FILES.glob("*.txt"))


def place(name: str) -> Environment:
    """Returns the path of that environment, existing or not."""
    pins = (FILES / f"{name}.txt").read_bytes()
    digest = hashlib.sha256(pins).hexdigest()[:12]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Environment(name, cache() / f"{name}-{version}-{digest}")


def find(name: str) -> Environment | None:
    """The environment if it was made whole, else None."""
    environment = place(name)
    return environment if (environment.folder / "whole").exists() else None


def reason(missing: str) -> str:
    """Why a test is skipped that needs what `make environments` brings."""
    return f"no {missing} is made: make environments"


def needs(name: str) -> Environment:
    """Returns the environment. Skips the running test with the setup command if it is missing."""
    if (environment := find(name)) is None:
        pytest.skip(reason(f"environment {name!r}"))
    return environment


def make(name: str) -> Environment:
    """Creates it unless it exists. A concurrent call waits and uses it.

    Raises:
        subprocess.CalledProcessError: a package could not be installed. Nothing is kept.
    """
    environment = place(name)
    environment.folder.parent.mkdir(parents=True, exist_ok=True)
    with environment.folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if find(name) is None:
            shutil.rmtree(environment.folder, ignore_errors=True)
            install(environment)
            (environment.folder / "whole").touch()
    return environment


def install(environment: Environment) -> None:
    """Installs the pinned packages, with uv if installed, else with pip.

    Every package is pinned in the file, so `--no-deps` disables the resolver.
    """
    beside = Path(sys.executable).parent  # our own environment's, which need not be on the path
    uv = shutil.which("uv") or shutil.which("uv", path=beside)
    venv.create(environment.folder, with_pip=uv is None, symlinks=True)
    by_uv = [uv, "pip", "install", "--python", environment.python] if uv else []
    by_pip = [environment.python, "-m", "pip", "install", "--disable-pip-version-check"]
    pins = FILES / f"{environment.name}.txt"
    command = [*(by_uv or by_pip), "--no-deps", "-q", "-r", pins]
    subprocess.run([str(word) for word in command], check=True, env=scrubbed())
