"""Folders that are needed for one call, and do not stay when the process is killed in it.

Whoever makes one holds a lock on it, which the kernel lets go however a process ends. The next one
that is made, by whatever process of this user, removes those that nobody holds.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Final

PREFIX: Final = "taofold-scratch-"
_PAUSE_S: Final = 60.0
"""Seconds between two looks of one process: the folder for temporary files may hold thousands."""
_looked: dict[str, float] = {}


@contextmanager
def scratch(use: str) -> Generator[Path]:
    """A new folder for `use` (a word of its name), gone at the end of the block."""
    home = tempfile.gettempdir()
    now = monotonic()
    if now - _looked.get(home, -_PAUSE_S) >= _PAUSE_S:
        _looked[home] = now
        sweep(Path(home))
    folder, lock = _make(use)
    try:
        yield folder
    finally:
        remove_tree(folder)
        os.close(lock)


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that is in it, as far as possible. Never raises."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        # Whoever worked in it may have nested folders deeper than Python's stack.
        with suppress(OSError):
            command = ["/bin/rm", "-rf", "--", str(folder)]
            subprocess.run(command, capture_output=True, check=False)


def sweep(home: Path) -> None:
    """Remove what processes of this user left in `home` when they were killed. Never raises."""
    with suppress(OSError), os.scandir(home) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                _remove(Path(entry.path))


def _make(use: str) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{use}-"))
        with suppress(OSError):
            lock = _locked(folder)
            # Whoever swept before it was locked has it, or has removed it already.
            if lock is not None:
                if folder.exists():
                    return folder, lock
                os.close(lock)


def _remove(folder: Path) -> None:
    with suppress(OSError):
        # In /tmp anybody may make a folder of this name.
        if folder.lstat().st_uid != os.geteuid():
            return
        lock = _locked(folder)
        if lock is not None:
            # Under the lock, so that two sweepers do not remove the same folder.
            remove_tree(folder)
            os.close(lock)


def _locked(folder: Path) -> int | None:
    """A descriptor that holds the lock of `folder`; None if another process does."""
    # A link of this name would have another folder locked, and removed.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
