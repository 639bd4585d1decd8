"""Puts back in a work root what an agent may not change. Nothing is thrown away.

Every component of a path is opened without following links, because the tree may hold links
that were laid to have this write elsewhere. What is taken out is moved to a folder outside.
"""

import hashlib
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from taofold.core.errors import LogError
from taofold.loop.check import Change, Did
from taofold.loop.gates.baseline import Baseline, Kept, content
from taofold.tools.jail import Jail

PARENTS: Final = (
    *("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini"),
    *("pyproject.toml", "setup.cfg", "package.json", "ruff.toml", ".ruff.toml", "mypy.ini"),
    *("setup.py", "tsconfig.json", "go.work", "Cargo.toml", ".cargo/config.toml", "go.mod"),
)
"""Files that also count in the directories above a tree, where those are in sight."""


def above(tree: Path) -> dict[str, str]:
    """Digests of what configures runners in the directories above `tree`."""
    found: dict[str, str] = {}
    for folder in tree.parents:
        for name in PARENTS:
            with suppress(OSError):
                found[str(folder / name)] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    return found


def restored(root: Path, folder: Path, baseline: Baseline, path: str, now: Kept | None) -> Change:
    """Put the file at `path` back as the baseline has it; what is there is moved aside.

    Raises:
        LogError: the baseline's own content was changed.
    """
    was = baseline.files[path]
    did: Did = "deleted" if now is None else "changed"
    try:
        if not was.stored:
            raise ValueError("its content is too large to have been kept")
        data = content(folder / "objects", was.digest) if was.digest else b""
        _clear(root, folder, path)
        if was.link:
            place = root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(was.link)
        else:
            jail = Jail(root, (), ())
            jail.write(path, data)
            _mode(jail, path, was.mode)
    except (OSError, ValueError) as error:
        return Change(path, did, "reported", f"it is protected; it could not be put right: {error}")
    return Change(path, did, "restored", "it is protected")


def removed(root: Path, folder: Path, path: str, why: str) -> Change:
    """Move what was planted out of the tree."""
    try:
        _aside(root, folder, path)
    except (OSError, ValueError) as error:
        return Change(path, "planted", "reported", f"{why}; it could not be moved: {error}")
    return Change(path, "planted", "set aside", why)


def _clear(root: Path, folder: Path, path: str) -> None:
    """Make way for `path`: links and files where directories were, and what has its name."""
    parts = path.split("/")
    for count in range(1, len(parts) + 1):
        part = "/".join(parts[:count])
        try:
            found = (root / part).lstat()
        except FileNotFoundError:
            return
        last = count == len(parts)
        if last or not stat.S_ISDIR(found.st_mode):
            _aside(root, folder, part)
            return


def _aside(root: Path, folder: Path, path: str) -> None:
    """Move `path` out of the tree; nobody has to guess what it was."""
    for number in range(1, 100_000):
        target = folder / "set-aside" / str(number) / path
        if not os.path.lexists(target) and not os.path.lexists(target.parents[path.count("/")]):
            break
    else:
        raise LogError(f"{str(folder)!r} is full of files that were set aside")
    target.parent.mkdir(parents=True)
    with Jail(root, (), ()).directory(tuple(path.split("/")[:-1])):
        shutil.move(root / path, target)


def _mode(jail: Jail, path: str, mode: int) -> None:
    *folders, name = path.split("/")
    with jail.directory(tuple(folders)) as opened:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=opened)
        with suppress(OSError):
            os.fchmod(fd, mode)
        os.close(fd)
