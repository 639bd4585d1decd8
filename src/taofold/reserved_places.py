"""Places of authority: policy, secrets, logs. No file tool and no contained command reaches them.

A log decides what was approved, a token who somebody is, the operator's policy what needs a person.
They usually lie outside the work root, or in `.taofold`, which does not exist for an agent. Where a
work root encloses one of them all the same (it is the home directory, or the log is given by a path
inside it), whoever keeps it has reserved it here, and jail and container look here each time they
are used. `operator_folder` and `state_folder` are where the operator's and this user's files lie.
Knows nothing of what the places hold.
"""

import os
from functools import lru_cache
from pathlib import Path
from typing import Final

MARK: Final = "TAOFOLD_STARTED_BY"
"""Set for every uncontained process that is started for an agent: which tool started it."""
SERVER: Final = "MCP server "
"""What the mark of an MCP server begins with."""
_files: Final[dict[Path, tuple[str, ...]]] = {}


def operator_folder() -> Path:
    """`~/.config/taofold`, where `XDG_CONFIG_HOME` says so elsewhere: what the operator decides."""
    return _base("XDG_CONFIG_HOME", ".config") / "taofold"


def state_folder() -> Path:
    """`~/.local/state/taofold`, where `XDG_STATE_HOME` says so elsewhere: this user's secrets."""
    return _base("XDG_STATE_HOME", ".local/state") / "taofold"


def _base(variable: str, otherwise: str) -> Path:
    value = os.environ.get(variable, "")
    # The XDG specification: a relative path in such a variable is invalid and ignored.
    return Path(value) if value.startswith("/") else Path.home() / otherwise


def reserve_file(path: Path, beside: tuple[str, ...] = ()) -> None:
    """Keep the file out of reach, and what has its name with one of `beside` behind it."""
    _files[_real(path)] = beside


def folders(root: Path) -> list[Path]:
    """The reserved folders at or below `root` (a real path)."""
    return [reserved_path for reserved_path in _own() if reserved_path.is_relative_to(root)]


def files(root: Path) -> list[Path]:
    """The reserved files below `root` (a real path), with those beside them.

    Those in a reserved folder are left out: it is out of reach as a whole.
    """
    covered = folders(root)
    inside = [
        path
        for path in sorted(_files)
        if path.is_relative_to(root) and not any(map(path.is_relative_to, covered))
    ]
    # SQLite's -wal and -shm hold the newest records: reserving the log alone is not enough.
    return [path.with_name(path.name + end) for path in inside for end in ("", *_files[path])]


def holds(root: Path, path: Path) -> bool:
    """Is `path`, below `root` through no link, a reserved place or in one? Case is ignored.

    A place that encloses `root` itself does not count: whoever chose the root has said so.
    """
    # macOS and Windows take `.TAOFOLD` for `.taofold`; on Linux this only reserves a little more.
    path_text, start = str(path).casefold(), str(root).casefold()
    for folder in _own():
        folder_text = str(folder).casefold()
        if _within(folder_text, start) and _within(path_text, folder_text):
            return True
    for file in _files:
        name = str(file).casefold()
        # What begins like the file belongs to it: -wal, -journal, .lock, a copy in the making.
        if (
            _within(name, start)
            and path_text.startswith(name)
            and path_text[len(name) :][:1] in ("", *"-.")
        ):
            return True
    return False


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _own() -> tuple[Path, Path]:
    # Looked up each time: the XDG variables may be set after this module was imported.
    return _resolve(operator_folder()), _resolve(state_folder())


# realpath is a system call per component, and every file operation of a tool asks.
@lru_cache(maxsize=64)
def _resolve(path: Path) -> Path:
    return _real(path)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path.expanduser().absolute()))
