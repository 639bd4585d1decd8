"""Third-party MCP servers and the official conformance suite, at pinned versions.

The npm packages are below the cache of `tests.environments`, with an environment for the Python
servers. `make environments` prepares them. `needs()` skips a test if they are missing.
"""

import hashlib
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import environments

PACKAGES = {
    "@modelcontextprotocol/server-everything": "2026.8.31",
    "@modelcontextprotocol/server-filesystem": "2026.8.31",
    "@modelcontextprotocol/server-memory": "2026.8.31",
    "@modelcontextprotocol/client": "2.4.0",
    "@modelcontextprotocol/server": "2.4.0",
    "@modelcontextprotocol/sdk": "1.32.2",
    "zod": "4.6.7",
    "@modelcontextprotocol/conformance": "0.2.0-alpha.12",
    "node": "22.23.3",
}
PYTHON = "mcp-servers"


@dataclass(frozen=True)
class Servers:
    """Paths of the servers."""

    npm: Path
    python: environments.Environment

    @property
    def node(self) -> str:
        """Node 22: the suite needs it, and the servers do not mind."""
        return str(self.npm / "node_modules" / "node" / "bin" / "node")

    def command(self, name: str, *more: str) -> list[str]:
        """Returns the command of the server `name`: everything, filesystem, memory, git or time."""
        if name in ("git", "time"):
            return [str(self.python.program(f"mcp-server-{name}")), *more]
        folder = self.npm / "node_modules" / "@modelcontextprotocol" / f"server-{name}"
        return [self.node, str(folder / "dist" / "index.js"), *more]

    @property
    def conformance(self) -> list[str]:
        """Returns the command of the official suite."""
        folder = self.npm / "node_modules" / "@modelcontextprotocol" / "conformance"
        return [self.node, str(folder / "dist" / "index.js")]


def folder() -> Path:
    pins = json.dumps(PACKAGES, sort_keys=True).encode()
    return environments.cache() / f"mcp-npm-{hashlib.sha256(pins).hexdigest()[:12]}"


def needs() -> Servers:
    """Returns the servers. Skips the running test if they are not prepared."""
    if not (folder() / "whole").exists():
        pytest.skip(environments.reason("MCP servers"))
    return Servers(folder(), environments.needs(PYTHON))


def make() -> Servers:
    """Prepares the missing servers.

    Raises:
        subprocess.CalledProcessError: a package could not be installed. Nothing is kept.
    """
    python, place = environments.make(PYTHON), folder()
    if not (place / "whole").exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        (place / "package.json").write_text('{"private": true}')
        wanted = [f"{name}@{version}" for name, version in PACKAGES.items()]
        install = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--save-exact"]
        subprocess.run([*install, *wanted], cwd=place, check=True)
        (place / "whole").touch()
    return Servers(place, python)
