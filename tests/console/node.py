"""Packages of the npm registry, pinned, in a folder outside the tree (`make environments`)."""

import fcntl
import json
import subprocess
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Final

import pytest

from tests import environments
from tests.environments import cache
from tests.prerequisites import NODE

PINNED: Final[Mapping[str, str]] = {
    "@ag-ui/client": "1.0.0",
    "axe-core": "4.14.1",
}
"""Packages that the tests need."""
COPILOTKIT: Final[Mapping[str, str]] = {"@copilotkit/runtime": "1.75.0"}
"""The server side of CopilotKit, which speaks AG-UI to agents."""


def place(pinned: Mapping[str, str] = PINNED) -> Path:
    """The folder that holds `node_modules`, or would."""
    digest = blake2b(json.dumps(pinned).encode(), digest_size=6).hexdigest()
    return cache() / f"npm-{digest}"


def make(pinned: Mapping[str, str] = PINNED) -> Path:
    """Install them unless they are there.

    Raises:
        subprocess.CalledProcessError: npm failed.
        FileNotFoundError: there is no npm.
    """
    folder = place(pinned)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two at once: the second finds them installed
        if not (folder / "done").exists():
            package = {"private": True, "dependencies": dict(pinned)}
            (folder / "package.json").write_text(json.dumps(package))
            flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run(["npm", "install", *flags], cwd=folder, timeout=300, check=True)
            (folder / "done").touch()
    return folder


def needs(pinned: Mapping[str, str] = PINNED) -> Path:
    """Returns the folder. Skips the running test if it does not exist."""
    NODE.need()
    if not (place(pinned) / "done").exists():
        pytest.skip(environments.reason("npm packages"))
    return place(pinned)
