"""Folders for one call that do not survive a killed process.

The process that makes a folder holds a lock on it, which the kernel releases when the process ends.
The next folder made by any process of this user triggers a removal of unlocked ones.
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
"""Minimum seconds between two sweeps of one process. The directory may hold thousands of files."""
_looked: dict[str, float] = {}


@contextmanager
def scratch(use: str) -> Generator[Path]:
    """Yields a new folder, removed at the end of the block. `use` is part of its name."""
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
    """Removes a folder with its contents, as far as possible. Never raises."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        # Folders may be nested deeper than Python's stack.
        with suppress(OSError):
            command = ["/bin/rm", "-rf", "--", str(folder)]
            subprocess.run(command, capture_output=True, check=False)


def sweep(home: Path) -> None:
    """Removes the folders in `home` that killed processes of this user left. Never raises."""
    with suppress(OSError), os.scandir(home) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                _remove(Path(entry.path))


def _make(use: str) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{use}-"))
        with suppress(OSError):
            lock = _locked(folder)
            # Another process may have swept it before it was locked.
            if lock is not None:
                if folder.exists():
                    return folder, lock
                os.close(lock)


def _remove(folder: Path) -> None:
    with suppress(OSError):
        # In /tmp any user may create a folder of this name.
        if folder.lstat().st_uid != os.geteuid():
            return
        lock = _locked(folder)
        if lock is not None:
            # Under the lock, so that two sweepers do not remove the same folder.
            remove_tree(folder)
            os.close(lock)


def _locked(folder: Path) -> int | None:
    """Returns a descriptor that holds the lock of `folder`, or None if another process does."""
    # Following a link would lock and remove another folder.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
