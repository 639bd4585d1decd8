"""Prerequisites of some tests, and the command that installs each.

    pytestmark = GIT.mark        # skips the module's tests if it is missing
    CHROMIUM.need()              # the same from inside a test or a fixture

A reason names one missing thing, in the same words everywhere: the end of a test run lists each
reason once (`tests/conftest.py`). The environments of `make environments` are in
`tests.environments`.
"""

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from taofold.tools import container_network
from taofold.tools.containment import why_not
from tests.llama import TOOLS


@dataclass(frozen=True)
class Prerequisite:
    """Something outside of Python and the locked packages."""

    missing: Callable[[], str]
    """Function that returns the missing thing; "" if nothing is missing."""
    enable: str
    """The command that brings it, or what else to do."""

    @property
    def reason(self) -> str:
        """Returns the reason to skip a test; "" if the prerequisite exists."""
        missing = self.missing()
        return f"{missing}: {self.enable}" if missing else ""

    @property
    def mark(self) -> pytest.MarkDecorator:
        """Skips what it marks where it is missing."""
        reason = self.reason
        return pytest.mark.skipif(bool(reason), reason=reason or "it is here")

    def need(self) -> None:
        """Skip the running test where it is missing."""
        if reason := self.reason:
            pytest.skip(reason)


def which(*names: str) -> str | None:
    """Returns the first existing program, on the path or beside our Python."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return next((found for name in names if (found := shutil.which(name, path=path))), None)


def _program(*names: str, enable: str) -> Prerequisite:
    return Prerequisite(lambda: "" if which(*names) else f"no {names[0]} is installed", enable)


def chromium() -> str:
    """Returns Chromium's path. Skips the running test if it is missing."""
    CHROMIUM.need()
    return str(which(*_CHROMIUM))


_CHROMIUM: Final = ("chromium", "chromium-browser", "google-chrome")
_SUPERUSER: Final = hasattr(os, "geteuid") and os.geteuid() == 0

CONTAINMENT: Final = Prerequisite(why_not, "apt-get install bubblewrap")
UPLINK: Final = Prerequisite(
    lambda: why_not() or container_network.why_not(), "apt-get install bubblewrap passt slirp4netns"
)
GIT: Final = _program("git", enable="apt-get install git")
CHROMIUM: Final = _program(*_CHROMIUM, enable="apt-get install chromium")
NODE: Final = _program("node", enable="apt-get install nodejs npm")
NPM: Final = _program("npm", enable="apt-get install nodejs npm")
CARGO: Final = _program("cargo", enable="apt-get install cargo")
_RUST: Final = Path(__file__).parents[1] / "rust"


def taofold_rs() -> Path:
    """Returns the path at which `make rust` puts the Rust runtime's program."""
    target = os.environ.get("CARGO_TARGET_DIR") or _RUST / "target"
    return _RUST / target / "debug" / "taofold-rs"


TAOFOLD_RS: Final = Prerequisite(
    lambda: "" if taofold_rs().is_file() else "no taofold-rs is built", "make rust"
)
LLAMA: Final = Prerequisite(
    lambda: "" if (TOOLS / "llama-server").exists() else "no llama.cpp server is here",
    "export TAOFOLD_LLAMA=(a folder with llama-server and its models)",
)


def tea() -> str:
    """Returns the path of The Edge Agent's program, as the environment states it, or ""."""
    return os.environ.get("TAOFOLD_TEA", "")


TEA: Final = Prerequisite(
    lambda: "" if tea() else "no program of The Edge Agent is here",
    "pip install openai and python/ of its repository, export TAOFOLD_TEA=(its program tea)",
)


def tagent_archive() -> str:
    """Returns the folder of TAgent's unpacked source archive, or ""."""
    return os.environ.get("TAOFOLD_TAGENT", "")


TAGENT: Final = Prerequisite(
    lambda: "" if tagent_archive() else "no source archive of TAgent is here",
    "pip download --no-binary :all: --no-deps tagent==0.7.1, export TAOFOLD_TAGENT=(its folder)",
)


def aiwg_schemas() -> str:
    """Returns the folder of AIWG's schemas, as the environment states it, or ""."""
    return os.environ.get("TAOFOLD_AIWG_SCHEMAS", "")


AIWG_SCHEMAS: Final = Prerequisite(
    lambda: "" if aiwg_schemas() else "no JSON Schemas of AIWG are here",
    "export TAOFOLD_AIWG_SCHEMAS=(agentic/code/addons/ralph/schemas of its repository)",
)
TEA_FILES: Final = Prerequisite(
    lambda: "" if os.environ.get("TAOFOLD_TEA_FILES") else "no flows of The Edge Agent are here",
    "clone github.com/fabceolin/the_edge_agent, export TAOFOLD_TEA_FILES=(its folder examples)",
)


def service_apis() -> Path:
    """Returns the folder of the interface descriptions of Jira, GitHub and Confluence."""
    return Path(os.environ.get("TAOFOLD_SERVICE_APIS") or os.devnull)


SERVICE_APIS: Final = Prerequisite(
    lambda: "" if service_apis().is_dir() else "no interface descriptions of services are here",
    "export TAOFOLD_SERVICE_APIS=(a folder with the files of tests/testops/test_descriptions.py)",
)
SKILLS: Final = Prerequisite(
    lambda: "" if os.environ.get("TAOFOLD_SKILLS") else "no public skills are here",
    "clone github.com/anthropics/skills and others, export TAOFOLD_SKILLS=(their folder)",
)
ROOT: Final = Prerequisite(
    lambda: "" if _SUPERUSER else "only root gives files to others", "sudo make test"
)
NOT_ROOT: Final = Prerequisite(
    lambda: "permissions do not bind root" if _SUPERUSER else "", "make test as another user"
)
