"""The state of the protected files before iteration 1, and the way back to it.

Digests and contents lie in a folder outside the work root. The folder need not be trusted
further than the digest of the baseline, which the loop keeps in its log: every content is
checked against it before it is used.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from taofold.core.errors import ConfigError, LogError
from taofold.core.values import Value
from taofold.loop.check import Gate, Status
from taofold.loop.protect import PARENTS, TEST_ROOTS, UNWALKED, environment, kind

FILE: Final = "baseline.json"
LARGEST: Final = 64_000_000
"""Bytes of a file whose content is kept; of larger ones only the digest is."""
MOST: Final = 100_000
"""Protected files."""


class Kept(Value, frozen=True):
    """A protected file: the digest of its content, or where the link leads."""

    digest: str = ""
    mode: int = 0
    link: str = ""
    stored: bool = True


class Expected(Value, frozen=True):
    """What one gate's run showed before iteration 1."""

    checks: dict[str, Status | None] = {}
    """Every id, with its status; None = collected but not run."""
    names: dict[str, tuple[str, ...]] = {}
    """Tests in files that could not be loaded, by the name of what could not."""
    patched: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


class Baseline(Value, frozen=True):
    """All that later runs of the gates are compared with."""

    root: str
    gates: tuple[Gate, ...] = ()
    files: dict[str, Kept] = {}
    named: tuple[str, ...] = ()
    allow_edit: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    """Virtual environments in the work root."""
    parents: dict[str, str] = {}
    """Digests of configuration in the directories above; "" = there is none."""
    exempt: tuple[str, ...] = ()
    """Modules of the product that have a name of the standard library."""
    path: str = ""
    """`PATH` at the loop's start, without what an agent could write to."""
    expected: tuple[Expected, ...] = ()

    @property
    def digest(self) -> str:
        """What the loop writes into its log."""
        return hashlib.sha256(_encoded(self)).hexdigest()


def walk(root: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Files and links below `root`, none followed; of environments what decides."""
    todo: list[tuple[str, bool]] = [("", False)]
    while todo:
        folder, inside = todo.pop()
        try:
            with os.scandir(root / folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:  # it vanished, or nobody may read it: nothing in it is run either
            continue
        inside = inside or any([entry.name == "pyvenv.cfg" for entry in entries])
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in UNWALKED or (inside and entry.name == ".cache"):
                    todo.append((path, inside))
            elif (not inside or environment(path)) and _wanted(path):
                yield path, entry


def _wanted(path: str) -> bool:
    """Of installed packages only the programs: their tests and settings decide nothing."""
    before, found, after = path.rpartition("node_modules/")
    if not found:
        return True
    return not before and after.startswith((".bin/", "typescript/bin/", "typescript/lib/tsc"))


def scan(root: Path, named: Sequence[str], environments: Sequence[str]) -> dict[str, str]:
    """The files that decide, each with why it is protected."""
    found: dict[str, str] = {}
    for path, entry in walk(root):
        why = kind(path, named)
        if why is None and _within(path, environments):
            why = "environment"
        if why is None and path.startswith("node_modules/"):
            why = "environment"
        if why is None and entry.is_symlink() and entry.name.casefold() in TEST_ROOTS:
            why = "test"
        if why is not None:
            found[path] = why
    if len(found) > MOST:
        raise ConfigError(f"{len(found):,} protected files below {str(root)!r}; at most {MOST:,}")
    return found


def kept(root: Path, path: str, objects: Path | None = None) -> Kept | None:
    """What lies at `path` now; None if nothing does. Its content is stored in `objects`."""
    place = root / path
    try:
        found = place.lstat()
        if stat.S_ISLNK(found.st_mode):
            return Kept(link=str(place.readlink()))
        if not stat.S_ISREG(found.st_mode):
            return Kept(link="\0other")
        fd = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        mode = stat.S_IMODE(found.st_mode) & 0o777
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        stored = found.st_size <= LARGEST
        if objects is not None and stored:
            file.seek(0)
            store(objects, digest, file.read())
        return Kept(digest, mode, stored=stored)


def store(objects: Path, digest: str, content: bytes) -> None:
    """Keep `content` under its digest, once."""
    target = objects / digest[:2] / digest
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_suffix(f".{os.getpid()}")
        temporary.write_bytes(content)
        temporary.rename(target)


def content(objects: Path, digest: str) -> bytes:
    """What was kept under `digest`.

    Raises:
        LogError: it is gone, or is not what was kept.
    """
    try:
        found = (objects / digest[:2] / digest).read_bytes()
    except OSError as error:
        raise LogError(f"the baseline's content {digest[:12]} is gone: {error}") from error
    if hashlib.sha256(found).hexdigest() != digest:
        raise LogError(f"the baseline's content {digest[:12]} was changed")
    return found


def above(root: Path) -> dict[str, str]:
    """Digests of what configures runners in the directories above `root`; "" = nothing."""
    found: dict[str, str] = {}
    for folder in root.parents:
        for name in PARENTS:
            with suppress(OSError):
                found[str(folder / name)] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    return found


def save(folder: Path, baseline: Baseline) -> None:
    """Write it down, in one step."""
    temporary = folder / f"{FILE}.new"
    temporary.write_bytes(_encoded(baseline))
    temporary.rename(folder / FILE)


def save_beside(folder: Path, baseline: Baseline) -> None:
    """Write one that takes the first one's place, which stays until the loop's log says so."""
    name = f"baseline-{baseline.digest[:16]}.json"
    temporary = folder / f"{name}.{os.getpid()}"
    temporary.write_bytes(_encoded(baseline))
    temporary.rename(folder / name)


def load(folder: Path, digest: str) -> Baseline:
    """The baseline that was saved in `folder` and has this digest.

    Raises:
        LogError: there is none, or it was changed.
    """
    later = folder / f"baseline-{digest[:16]}.json"
    try:
        raw = (later if later.exists() else folder / FILE).read_bytes()
    except OSError as error:
        raise LogError(f"the loop's baseline cannot be read: {error}") from error
    if hashlib.sha256(raw).hexdigest() != digest:
        raise LogError(f"the loop's baseline in {str(folder)!r} was changed; it is not used")
    return msgspec.json.decode(raw, type=Baseline)


def _encoded(baseline: Baseline) -> bytes:
    return msgspec.json.encode(baseline, order="deterministic")


def _within(path: str, folders: Sequence[str]) -> bool:
    return any([path.startswith(f"{folder}/") for folder in folders])
