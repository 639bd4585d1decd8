"""Places of authority: policy, secrets, logs. No file tool and no sandboxed command reaches them.

A log decides about approvals, a token about identity, the operator's policy about questions. These
files usually are outside the work root, or in `.taofold`, which is hidden from agents. If a work
root contains one of them (it is the home directory, or the log's path is inside it), its owner has
reserved it here, and jail and container check this list at each use. `operator_folder` and
`state_folder` are the folders of the operator's and this user's files. Credentials are in
`project_state_folder`, never in the project: a clone brings its own files.

`open_file` opens every file in such a place; `read_file` and `write_file` use it. They reject
links, FIFOs, devices and files of other users on every component below the place, because a
repository or another user may have planted them. `open_named` opens every other file that a user,
an agent file or a project names: regular files only. Knows nothing about the content of the files.
"""

import os
import re
import stat
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, Final, Literal
from unicodedata import normalize

from taofold.core.errors import ConfigError
from taofold.core.text import visible

PROJECT: Final = ".taofold"
"""The name of a project's folder."""
MARK: Final = "TAOFOLD_STARTED_BY"
"""Set for every unsandboxed process that is started for an agent: the tool that started it."""
SERVER: Final = "MCP server "
"""Prefix of the mark of an MCP server."""
_files: Final[dict[Path, tuple[str, ...]]] = {}


def operator_folder() -> Path:
    """Returns `~/.config/taofold`, or the one in `XDG_CONFIG_HOME`, for the operator's files."""
    return _base("XDG_CONFIG_HOME", ".config") / "taofold"


def state_folder() -> Path:
    """Returns `~/.local/state/taofold`, or the one in `XDG_STATE_HOME`, for this user's secrets."""
    return _base("XDG_STATE_HOME", ".local/state") / "taofold"


def project_state_folder(project: Path) -> Path:
    """Returns this user's folder for the credentials of a project.

    Args:
        project: The project's folder, `.taofold` or the value of `TAOFOLD_HOME`. Its real path is
            the key: another path is another project, with tokens of its own.
    """
    key = blake2b(os.fsencode(_real(project)), digest_size=16).hexdigest()
    return state_folder() / "projects" / key


def _base(variable: str, otherwise: str) -> Path:
    value = os.environ.get(variable, "")
    # The XDG specification: a relative path in such a variable is invalid and ignored.
    return Path(value) if value.startswith("/") else Path.home() / otherwise


def reserve_file(path: Path, beside: tuple[str, ...] = ()) -> None:
    """Reserves the file, and those with its name plus one of the suffixes `beside`."""
    _files[_real(path)] = beside


def folders(root: Path) -> list[Path]:
    """Returns the reserved folders at or below `root` (a real path)."""
    return [reserved_path for reserved_path in _own() if reserved_path.is_relative_to(root)]


def files(root: Path) -> list[Path]:
    """Returns the reserved files below `root` (a real path), with those beside them.

    Files in a reserved folder are left out: the whole folder is reserved.
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
    """Returns whether `path`, below `root` through no link, is a reserved place or in one.

    Names are compared as the most lenient file systems do (`is_same_name`). A place that encloses
    `root` itself does not count: the choice of the root implies it.
    """
    for folder in _own():
        if _within(folder, root) and _within(path, folder):
            return True
    # Files whose names begin like the file's belong to it: -wal, -journal, .lock, a partial copy.
    return any(_within(file, root) and _begins_like(path, file) for file in _files)


def plain_name(name: str) -> str:
    """Returns one form for all names that some file system treats as the same file.

    macOS and Windows ignore case. HFS+ decomposes characters and ignores invisible ones. NTFS
    ignores dots and spaces at the end and takes text after a colon for a stream of the file.
    """
    # On a file system that distinguishes them this only reserves a little more.
    shown = "".join([c for c in normalize("NFKC", name.partition(":")[0]) if visible(c) == c])
    return shown.rstrip(". ").casefold()


# Each file operation of a tool checks each part of its path against each place.
@lru_cache(maxsize=4096)
def is_same_name(name: str, reserved: str) -> bool:
    """Returns whether some file system takes `name` for `reserved`, or for its 8.3 short name."""
    if name == reserved:
        return True
    plain = plain_name(name)
    if plain == plain_name(reserved):
        return True
    short = _SHORT.fullmatch(plain)
    if short is None:
        return False
    # NTFS drops the leading dots: GIT~1, TAOFOL~1. From the fifth equal name on it keeps two
    # letters and writes four digits of a hash: TA1234~1.
    stem, _, end = reserved.lstrip(".").casefold().partition(".")
    stem = stem.replace(" ", "")
    hashed = re.fullmatch(re.escape(stem[:2]) + "[0-9a-f]{4}", short[1]) is not None
    return (short[1] == stem[:6] or hashed) and (short[2] or "") == end[:3]


_SHORT: Final = re.compile(r"(.{1,6})~[0-9]{1,6}(?:\.(.{0,3}))?")


def _within(path: Path, folder: Path) -> bool:
    inner, outer = path.parts, folder.parts
    return len(inner) >= len(outer) and all(map(is_same_name, inner, outer))


def _begins_like(path: Path, file: Path) -> bool:
    if len(path.parts) != len(file.parts) or not _within(path.parent, file.parent):
        return False
    name, reserved = plain_name(path.name), plain_name(file.name)
    begins = name.startswith(reserved) and name[len(reserved) :][:1] in ("", *"-.")
    return begins or is_same_name(path.name, file.name)


def _own() -> tuple[Path, Path]:
    # Computed each time: the XDG variables may be set after this module was imported.
    return _resolve(operator_folder()), _resolve(state_folder())


# realpath is a system call per component, and every file operation of a tool calls it.
@lru_cache(maxsize=64)
def _resolve(path: Path) -> Path:
    return _real(path)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path.expanduser().absolute()))


Trust = Literal["secret", "own", "repository", "content"]
"""The files that may be opened.

"secret": this user's files that no other user can read. "own": this user's files that no other user
can write. "repository": this user's files that are not world-writable; with umask 002 the group may
write each file of a clone. "content": files of any user, because their content has no authority.
"""
_FORBIDDEN: Final[Mapping[Trust, int]] = {
    "secret": 0o077,
    "own": 0o022,
    "repository": 0o002,
    "content": 0,
}
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def open_file(
    path: Path, flags: int = os.O_RDONLY, *, trust: Trust = "own", place: Path | None = None
) -> int:
    """Opens a file in a place of authority and returns its descriptor.

    A created file has mode 0600. The folders must exist: `make_folder` creates them.

    Args:
        path: The file.
        flags: As for `os.open`.
        trust: The files that may be opened.
        place: A folder named by a user; the default is the place that contains `path`.

    Raises:
        ConfigError: The file, or a folder from the place down to it, is a link, has another kind,
            belongs to another user, or may be written by others.
        OSError: It cannot be opened.
    """
    with _parent(path, trust, place) as folder:
        # A device may act when it is opened, so its kind is checked before.
        _check_entry(folder, path, trust)
        # O_NONBLOCK: a FIFO that appears after the check must not block this process.
        always = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(path.name, flags | always, 0o600, dir_fd=folder)
    try:
        _check(os.fstat(descriptor), path, trust)
        os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def check_file(path: Path, *, trust: Trust = "own", place: Path | None = None) -> None:
    """Rejects what `open_file` rejects, without opening the file. A missing file is accepted.

    For files that a library opens by name. If it locks them, no other code may open them: POSIX
    drops all locks of a process on a file when it closes any descriptor of it.
    """
    with _parent(path, trust, place) as folder:
        _check_entry(folder, path, trust)


def read_file(path: Path, *, trust: Trust = "own", place: Path | None = None) -> bytes:
    """Returns the content of a file in a place of authority. Arguments and errors: `open_file`."""
    with os.fdopen(open_file(path, trust=trust, place=place), "rb") as file:
        return file.read()


def write_file(path: Path, content: bytes, *, place: Path | None = None) -> None:
    """Replaces a file in a place of authority atomically. Its mode is 0600.

    A crash leaves a `.part` beside it. Raises the errors of `open_file`.
    """
    with _parent(path, "own", place) as folder:
        _check_entry(folder, path, "own")
        partial = f"{path.name}.{token_hex(4)}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(partial, flags, 0o600, dir_fd=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                # Before the rename: otherwise a power failure may leave an empty file under the
                # name.
                os.fsync(file.fileno())
            os.replace(partial, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(partial, dir_fd=folder)
            raise


def make_folder(path: Path, *, place: Path | None = None) -> None:
    """Creates a folder in a place of authority, and the place, for their owner only.

    Folders of a place lose the permissions of others. A folder named by a user keeps its own.

    Raises:
        ConfigError: A component is a link, is no folder, or belongs to another user.
        OSError: It cannot be created.
    """
    folders = _chain(path, place)
    folders[0].parent.mkdir(parents=True, exist_ok=True)
    # Level by level: with `parents=True` the umask decides about access to the parents.
    for folder in folders:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        with _folder(folder, None) as descriptor:
            status = os.fstat(descriptor)
            if _is_place(folder):
                _check(status, folder, "content", kind=stat.S_IFDIR)
                _check_owner(status, folder)
                if status.st_mode & _FORBIDDEN["secret"]:
                    os.fchmod(descriptor, 0o700)


def in_project(path: Path) -> bool:
    """Returns whether the path leads into a project's folder, which may come from a repository."""
    return PROJECT in path.absolute().parts


_SEED: Final = ".aiwg"
"""The seed's folder in a project; `aiwg.yml` beside it is its file."""


def is_seed_settings(path: Path) -> bool:
    """Returns whether `path` is `aiwg.yml` or in `.aiwg`, which may come from a repository."""
    return path.name in ("aiwg.yml", "aiwg.yaml") or path.parent.name == _SEED


def open_named(path: Path) -> BinaryIO:
    """Opens a file named by a user, an agent file or a project, for reading.

    Links are followed, as in a folder of dotfiles, but not for settings that a repository may
    bring: there the rules of `open_file` apply.

    Raises:
        ConfigError: It is not a regular file, or `open_file` rejects it. A FIFO would never end,
            and a device may act when it is opened.
        OSError: It cannot be opened.
    """
    if in_project(path) or is_seed_settings(path):
        inside = path.absolute().parent
        place = inside.parent if inside.name == _SEED else inside
        return os.fdopen(open_file(path, trust="repository", place=place), "rb")
    _check_regular(path.stat(), path)
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb")
    try:
        _check_regular(os.fstat(file.fileno()), path)
        os.set_blocking(file.fileno(), True)
    except BaseException:
        file.close()
        raise
    return file


def read_named(path: Path) -> bytes:
    """Returns the content of a file named by a user or a project. Errors: `open_named`."""
    with open_named(path) as file:
        return file.read()


def _check_regular(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "of an unknown kind")
        raise ConfigError(f"{str(path)!r} is {kind}, which is not read: name a file")


@contextmanager
def _parent(path: Path, trust: Trust, place: Path | None) -> Generator[int]:
    """Opens the folder that holds `path`, and checks each folder from the place down to it."""
    descriptor: int | None = None
    with ExitStack() as opened:
        for depth, folder in enumerate(_chain(path.parent, place)):
            descriptor = opened.enter_context(_folder(folder, descriptor))
            # The folder of a path outside all places is the user's choice (`/tmp`).
            if (depth or _is_place(folder)) and trust != "content":
                _check(os.fstat(descriptor), folder, "repository", kind=stat.S_IFDIR)
        assert descriptor is not None
        yield descriptor


@contextmanager
def _folder(path: Path, above: int | None) -> Generator[int]:
    try:
        descriptor = os.open(
            path if above is None else path.name, _FOLDER | os.O_NOFOLLOW, dir_fd=above
        )
    except NotADirectoryError as error:
        # With O_DIRECTORY a link is reported in this way, too.
        kind = "a link" if path.is_symlink() else "no folder"
        raise ConfigError(
            f"{str(path)!r} is {kind}: nothing in it is used. Inspect it, then delete it"
        ) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _chain(folder: Path, named: Path | None) -> list[Path]:
    """Returns the place that contains `folder`, and the folders from there down to it.

    A place is the folder `named`, a project's, the operator's or the user's; any other folder is
    its own place. Links above a place are the user's own (`/home`, a linked `~/.local`).
    """
    folder = folder.absolute()
    own = [each for each in (operator_folder(), state_folder()) if folder.is_relative_to(each)]
    projects = [each for each in (folder, *folder.parents) if each.name == PROJECT]
    if projects and not own:
        start = place = projects[-1]
    else:
        start = own[0] if own else (named or folder).absolute()
        place = _real(start)
    parts = folder.relative_to(start).parts
    if ".." in parts:
        raise ConfigError(f"{str(folder)!r} leaves its folder: write it without '..'")
    return [place.joinpath(*parts[:count]) for count in range(len(parts) + 1)]


def _is_place(folder: Path) -> bool:
    return PROJECT in folder.parts or any(folder.is_relative_to(each) for each in _own())


def _check_entry(folder: int, path: Path, trust: Trust) -> None:
    with suppress(FileNotFoundError):
        _check(os.stat(path.name, dir_fd=folder, follow_symlinks=False), path, trust)


_KINDS: Final = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
    stat.S_IFREG: "a file",
}


def _check(status: os.stat_result, path: Path, trust: Trust, *, kind: int = stat.S_IFREG) -> None:
    found, name = stat.S_IFMT(status.st_mode), str(path)
    if found != kind:
        raise ConfigError(
            f"{name!r} is {_KINDS.get(found, 'of an unknown kind')}, not {_KINDS[kind]}: "
            "it was not opened. Inspect it, then delete it"
        )
    if trust == "content":
        return
    _check_owner(status, path)
    # A second name of the user's own file elsewhere is a link, too.
    if kind == stat.S_IFREG and status.st_nlink > 1:
        raise ConfigError(
            f"{name!r} has another name elsewhere (a hard link): it was not opened. "
            "Replace it by a copy"
        )
    if status.st_mode & _FORBIDDEN[trust]:
        mode = "700" if kind == stat.S_IFDIR else "600"
        raise ConfigError(f"{name!r} is open to others: chmod {mode} it")


def _check_owner(status: os.stat_result, path: Path) -> None:
    # Root can do anything in any case, and images are often built by root.
    if status.st_uid not in (os.geteuid(), 0):
        raise ConfigError(
            f"{str(path)!r} belongs to another user ({status.st_uid}): it was not opened. "
            "Inspect it, then delete it"
        )
