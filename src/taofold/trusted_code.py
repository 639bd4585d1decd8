"""Keeps this process from running or importing code from folders where agents work.

An agent may write below its work root. A program found there by `PATH`, or a module found there by
`sys.path`, would be its code with all rights of the user who started it. So programs are searched
elsewhere (`program`), processes of ours import from elsewhere (`seal`), and the parts of this
Python below a work root are read-only (`frozen`).
"""

import os
import shutil
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Final

_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


def program(name: str, outside: Path | None = None) -> str:
    """Returns the path of a program on `PATH` that is not in `outside`; "" if there is none.

    Links are followed: a program elsewhere that leads into `outside` is rejected too.
    """
    # Entry by entry, because `which` over all of PATH would return only the first hit.
    for entry in os.environ.get("PATH", _PATH).split(os.pathsep):
        folder = Path(entry)
        # "" and "." in PATH mean the working directory, where the agent writes.
        if not folder.is_absolute() or _within(folder, outside):
            continue
        path = shutil.which(name, path=entry)
        if path and not _within(Path(path), outside):
            return path
    return ""


def homes() -> tuple[Path, ...]:
    """Returns the directories that this Python runs from, and taofold's own source."""
    folders = {Path(sys.prefix), Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}
    folders.add(Path(__file__).resolve().parents[2])  # an editable install is elsewhere
    return tuple(sorted(folders))


def frozen(root: Path) -> tuple[str, ...]:
    """Returns directories below `root` that this Python runs from, relative to it, to be read-only.

    A root inside one of them, such as an example in taofold's own repository, is not frozen.
    """
    inside = [home.relative_to(root) for home in homes() if home.is_relative_to(root)]
    return tuple(sorted({folder.as_posix() for folder in inside} - {"."}))


class Outside:
    """An import finder that precedes all others and rejects modules below `roots`.

    Loaded modules stay loaded. The directories of this Python are accepted even inside a root;
    agents cannot write there (see `frozen`).
    """

    def __init__(self) -> None:
        self.roots: set[Path] = set()
        # In the context, not the thread: a run in a thread of its own belongs to the load, too.
        self._open = ContextVar("a person's own module is loaded", default=False)

    @property
    def loading(self) -> bool:
        """True while a module of the user's is loaded."""
        return self._open.get()

    @contextmanager
    def open(self) -> Generator[None]:
        """Accepts imports from anywhere while a user's own module is loaded."""
        token = self._open.set(True)
        try:
            yield
        finally:
            self._open.reset(token)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the result of the other finders, unless it is below a root.

        Raises:
            ModuleNotFoundError: It is.
        """
        # None lets the next finder search: nothing is restricted before the roots are known.
        if not self.roots or self.loading:
            return None
        refused = False
        for finder in sys.meta_path:
            # Called here instead of by Python, because the results must be checked first.
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and self._theirs(spec):
                refused = True
                where = sys.path if path is None else path
                # "" in sys.path is the working directory.
                allowed = [entry for entry in where if not self._inside(Path(entry or "."))]
                spec = PathFinder.find_spec(name, allowed, target)
            if spec is not None:
                return spec

        if refused:
            raise ModuleNotFoundError(
                f"the module {name!r} lies in a folder where an agent works; nothing there is "
                "imported once the agents are loaded. Import it at the top of the module that "
                "needs it",
                name=name,
            )
        return None

    def _theirs(self, spec: ModuleSpec) -> bool:
        paths = [*(spec.submodule_search_locations or ())]
        paths += [spec.origin] if spec.has_location and spec.origin else []
        return any([self._inside(Path(path)) for path in paths])

    def _inside(self, path: Path) -> bool:
        # A link inside the root to a module outside may come from the agent as well.
        real = path.resolve()
        roots = [root for root in self.roots if real.is_relative_to(root)]
        ours = [home for home in homes() if real.is_relative_to(home)]
        return any([not any([home.is_relative_to(root) for home in ours]) for root in roots])


OUTSIDE: Final = Outside()


def seal() -> None:
    """Rejects modules from agents' folders from now on: for our own processes.

    The folder that the process was started in is rejected as well.
    """
    here = os.path.realpath(".")
    # In place: other modules may hold a reference to the list.
    sys.path[:] = [entry for entry in sys.path if entry and os.path.realpath(entry) != here]
    if OUTSIDE not in sys.meta_path:
        sys.meta_path.insert(0, OUTSIDE)


def _within(path: Path, root: Path | None) -> bool:
    if root is None:
        return False
    return path.is_relative_to(root) or path.resolve().is_relative_to(root)
