"""Compares the work root with its baseline and puts back what an agent may not change.

Every component of a path is opened without following links, because the tree may hold links
that were laid to have this write elsewhere. Nothing is thrown away: what is taken out of the
tree is moved to a folder outside.
"""

import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from taofold.core.errors import LogError
from taofold.loop.baseline import Baseline, Kept, above, content, kept, scan
from taofold.loop.check import Change, Did
from taofold.loop.protect import allowed, innocent, planted
from taofold.tools.jail import Jail


def audit(root: Path, baseline: Baseline) -> tuple[Change, ...]:
    """What is not as it was. Nothing is touched."""
    changes: list[Change] = []
    for path, was in baseline.files.items():
        now = kept(root, path)
        if now == was or (now is not None and _same(now, was)):
            continue
        free = allowed(path, baseline.allow_edit)
        did: Did = "deleted" if now is None else "changed"
        changes.append(
            Change(path, did, "kept" if free else "reported", "it is protected", not free)
        )
    for path, protected in scan(root, baseline.named, baseline.environments).items():
        if path not in baseline.files and not allowed(path, baseline.allow_edit):
            why = planted(path, protected)
            if why and (protected != "environment" or _decides(root, path, baseline)):
                changes.append(Change(path, "planted", "reported", why, not innocent(path)))
    changes += _shadows(root, baseline)
    now_above = above(root)
    for path in {**baseline.parents, **now_above}:
        if baseline.parents.get(path) != now_above.get(path):
            why = "it configures the gate from above the work root, where nothing is restored"
            changes.append(Change(path, "changed", "reported", why))
    return tuple(changes)


def mended(
    root: Path, folder: Path, baseline: Baseline, changes: Iterable[Change]
) -> tuple[Change, ...]:
    """Put back what was changed or deleted, move away what was planted.

    Raises:
        LogError: the baseline's own content was changed.
    """
    done: list[Change] = []
    for change in changes:
        if change.done == "reported" and not Path(change.path).is_absolute():
            try:
                change = _mended(root, folder, baseline, change)
            except (OSError, ValueError) as error:
                why = f"{change.why}; it could not be put right: {error}"
                change = Change(change.path, change.did, "reported", why)
        done.append(change)
    return tuple(done)


def _mended(root: Path, folder: Path, baseline: Baseline, change: Change) -> Change:
    was = baseline.files.get(change.path)
    if was is None:
        _aside(root, folder, change.path)
        return Change(change.path, change.did, "set aside", change.why, change.tampering)
    if not was.stored:
        raise ValueError("its content is too large to have been kept")
    data = content(folder / "objects", was.digest) if was.digest else b""
    _clear(root, folder, change.path)
    if was.link:
        place = root / change.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(was.link)
    else:
        jail = Jail(root, (), ())
        jail.write(change.path, data)
        _mode(jail, change.path, was.mode)
    return Change(change.path, change.did, "restored", change.why, change.tampering)


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


def _same(now: Kept, was: Kept) -> bool:
    """Group and others' rights to write are the umask's, not the agent's doing."""
    return (now.digest, now.link, now.mode & 0o755) == (was.digest, was.link, was.mode & 0o755)


def _decides(root: Path, path: str, baseline: Baseline) -> bool:
    """Does this new file of a virtual environment change what a gate runs?"""
    if not any([path.startswith(f"{folder}/") for folder in baseline.environments]):
        return False  # an environment of the agent's own, which no gate uses
    folder, _, name = path.rpartition("/")
    if name == "entry_points.txt":
        with suppress(OSError, UnicodeDecodeError):
            return "pytest11" in (root / path).read_text(encoding="utf-8")
    if folder.rpartition("/")[2].casefold() in ("bin", "scripts"):
        others = [p for p in baseline.path.split(os.pathsep) if Path(p) != root / folder]
        return any([(Path(p) / name).exists() for p in others])
    return True


def _shadows(root: Path, baseline: Baseline) -> list[Change]:
    """Packages and compiled modules beside protected ones, which Python would prefer."""
    stems: dict[str, set[str]] = {}
    for known in baseline.files:
        folder, _, name = known.rpartition("/")
        if name.endswith(".py"):
            stems.setdefault(folder, set()).add(name.removesuffix(".py"))
    found: list[Change] = []
    for folder, names in stems.items():
        with suppress(OSError):
            for place in sorted((root / folder).iterdir()):
                stem = place.name.partition(".")[0]
                if stem not in names:
                    continue
                inner = place / "__init__.py" if place.name == stem else place
                path = inner.relative_to(root).as_posix()
                compiled = place.name.endswith((".so", ".pyd"))
                package = place.name == stem and inner.exists()
                free = path in baseline.files or allowed(path, baseline.allow_edit)
                if (compiled or package) and not free:
                    why = f"it would be imported in place of {folder}/{stem}.py".replace(" /", " ")
                    found.append(Change(path, "planted", "reported", why))
    return found
