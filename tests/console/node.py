"""Packages of the npm registry, pinned, in a folder outside the tree; installed when first used."""

import fcntl
import json
import shutil
import subprocess
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Final

import pytest
from tests.environments import cache

PINNED: Final[Mapping[str, str]] = {
    "@ag-ui/client": "1.0.0",
    "axe-core": "4.14.1",
}
"""What the tests need."""


def install() -> Path | str:
    """The folder that holds `node_modules`, or why there is none."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return "node and npm are not installed"
    digest = blake2b(json.dumps(PINNED).encode(), digest_size=6).hexdigest()
    folder = cache() / f"npm-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers, one installation
        return folder if (folder / "done").exists() else _install(npm, folder)


def _install(npm: str, folder: Path) -> Path | str:
    (folder / "package.json").write_text(json.dumps({"private": True, "dependencies": PINNED}))
    command = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    try:
        made = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
        )
    except subprocess.TimeoutExpired:
        return "npm install took longer than 300 s"
    if made.returncode:
        return f"npm install failed: {made.stderr.strip()[-300:]}"
    (folder / "done").touch()
    return folder


def needs() -> Path:
    """The folder; without one the test is skipped, and says why."""
    found = install()
    if isinstance(found, str):
        pytest.skip(f"no npm packages: {found}")
    return found


if __name__ == "__main__":
    print(install())
