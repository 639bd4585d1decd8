"""Small broken Python projects to repair, shipped as package data.

The files have the suffix `.txt`, so that no test runner, linter or type checker of this repository
includes them.
"""

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

PROJECTS: Final = ("storeroom", "library")
"""The first is for learning, the second has similar bugs in other places."""
GOAL: Final = "Make the failing tests pass: `python -m pytest -q` has to be green."
_ENDING: Final = ".txt"


def demo_project(target: Path, name: str = "storeroom") -> Path:
    """Copies the project `name` into the directory `target`, creating it if needed; returns
    `target`.

    Raises:
        ValueError: There is no such project.
        FileExistsError: `target` is not empty.
    """
    if name not in PROJECTS:
        raise ValueError(f"no demo project {name!r}: choose one of {', '.join(PROJECTS)}")
    if target.is_dir() and any(target.iterdir()):
        raise FileExistsError(f"{str(target)!r} is not empty: choose a new directory")
    for path, text in _contents(files(__name__).joinpath("project", name), ""):
        destination = target / path.removesuffix(_ENDING)
        destination.parent.mkdir(parents=True, exist_ok=True)
        destination.write_text(text, encoding="utf-8")
    return target


def _contents(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    """Yields path and text of every file below `folder`, sorted."""
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            yield from _contents(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(_ENDING):
            yield f"{prefix}{entry.name}", entry.read_text(encoding="utf-8")
