"""Bugs as folders: project files with pytest tests in any layout, and an optional `bug.toml`.

`bug.toml` names the family. Only the statistics read it: it is not copied to the agent's folder,
which has a neutral name.
"""

import re
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HIDDEN = shutil.ignore_patterns(
    "bug.toml", "__pycache__", ".git", ".pytest_cache", "*.pyc", "solution*", "fixed*", "*.diff",
    "*.patch",
)  # fmt: skip
TEST = re.compile(r"(?:^test_.*|.*_test)\.py$")


@dataclass(frozen=True)
class Bug:
    name: str
    folder: Path
    family: str

    def copy(self, target: Path) -> Path:
        """The project without what only the statistics may know."""
        shutil.copytree(self.folder, target, ignore=HIDDEN)
        return target


def bugs(folder: Path) -> list[Bug]:
    """Every bug below `folder`: the folders that hold tests and are not part of another bug."""
    return [Bug(str(one.relative_to(folder)), one, _family(one)) for one in _found(folder)]


def _found(folder: Path) -> Iterator[Path]:
    for one in sorted(folder.iterdir()):
        if not one.is_dir() or one.name.startswith((".", "__")):
            continue
        if (
            (one / "bug.toml").exists()
            or any(TEST.match(p.name) for p in one.glob("*.py"))
            or (one / "tests").is_dir()
            or (one / "test").is_dir()
        ):
            yield one
        else:
            yield from _found(one)


def _family(folder: Path) -> str:
    try:
        said = tomllib.loads((folder / "bug.toml").read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError):
        return ""
    return str(said.get("family", ""))
