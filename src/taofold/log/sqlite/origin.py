"""The origin of a log's SQLite file: only this user's, from this machine, is opened unasked (D16).

A log from a cloned repository holds foreign approvals, and its author can read every log that was
passed on. So no content of a file proves its origin by itself. A mark beside its content does: an
extended attribute that names the file's number on its file system, and that git, archives and
downloads do not transfer. A new container on the same volume opens its own log.

If a file system keeps no attributes, a seal in the file replaces it: over the file's number, made
with a secret in this user's state folder. It proves less: a recipient of the log may return it
changed, and a recreated file may have the old number.

A copy has another number, so its owner has to adopt it.

The -wal file beside a log has such a mark, too. SQLite treats its content as the newest content of
the log, and one from a repository would add approvals to it.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from secrets import token_bytes, token_hex
from shutil import rmtree
from typing import Final

from taofold.core.errors import ConfigError, LogError
from taofold.reserved_places import make_folder, read_file, state_folder, write_file

KEY_FILE: Final = "logs/key"
"""The file of the secret, in the user's state folder: 32 random bytes, alone in its folder."""
_SECRET_BYTES: Final = 32
_ATTRIBUTE: Final = "user.taofold"
_LOOKS: Final = 1000
"""How often a -wal file is looked at while other processes change it."""


def ours(path: Path, noted: Mapping[str, str]) -> bool:
    """Returns whether the log at `path`, with these notes about itself, is this user's.

    Raises:
        LogError: The secret's file is a link, another user's, or open to others.
    """
    token = noted.get("mark", "")
    if not token:
        return False
    if _keeps_attributes(path):
        return _attribute(path) == _mark(path, token)
    secret = _secret(make=False)
    return bool(secret) and compare_digest(
        noted.get("owner", "").encode(), _sealed(path, token, secret).encode()
    )


def mark_as_ours(path: Path) -> dict[str, str]:
    """Marks the log at `path` as ours. Returns the notes to write into it.

    Raises:
        LogError: The secret's file is a link, another user's, or open to others.
    """
    token = token_hex(16)
    # Attributes are not part of git, tar or a download, and `cp` leaves them out by default.
    _set_attribute(path, _mark(path, token))
    secret = _secret(make=True)
    return {"mark": token, "owner": _sealed(path, token, secret) if secret else ""}


def mark_wal(path: Path) -> None:
    """Marks the -wal file beside a log as written by this user, before it has content."""
    with suppress(FileNotFoundError):
        _set_attribute(path, _mark(path, ""))


def wal_is_ours(path: Path) -> bool:
    """Returns whether the -wal file was written here: it is absent, empty, or has our mark.

    Another process may remove, create and write the file at any moment. So a missing mark counts
    only if the file was the same before and after.
    """
    with suppress(FileNotFoundError):
        for _ in range(_LOOKS):
            before = path.stat()
            if before.st_size == 0:
                return True
            if _attribute(path) == _mark(path, ""):
                return True
            if _version(path.stat()) == _version(before):
                # On a file system without attributes no -wal file can have a mark.
                return not _keeps_attributes(path)
        return False
    return True


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_ctime_ns


def _secret(*, make: bool) -> bytes:
    """Returns this user's secret; empty if there is none, or if it cannot be stored."""
    # Without a home, or on a read-only one, the mark beside the content has to suffice.
    with suppress(OSError, RuntimeError):
        path = state_folder() / KEY_FILE
        try:
            with suppress(FileNotFoundError):
                return _checked(read_file(path, trust="secret"), path)
            if make:
                _make_secret(path)
                return _checked(read_file(path, trust="secret"), path)
        except ConfigError as error:
            raise LogError(str(error)) from error
    return b""


def _checked(secret: bytes, path: Path) -> bytes:
    if len(secret) != _SECRET_BYTES:
        raise LogError(
            f"{str(path)!r} is damaged: delete it. Logs that are not recognised afterwards are "
            "accepted again by `taofold runs adopt`"
        )
    return secret


def _make_secret(path: Path) -> None:
    """Creates the secret. If another process does so at the same moment, its secret is kept."""
    folder = path.parent.with_name(f"{path.parent.name}.{token_hex(4)}.part")
    make_folder(folder)
    try:
        write_file(folder / path.name, token_bytes(_SECRET_BYTES))
        # A folder replaces no other that has content.
        with suppress(OSError):
            folder.rename(path.parent)
    finally:
        rmtree(folder, ignore_errors=True)


def _sealed(path: Path, token: str, secret: bytes) -> str:
    text = f"{path.stat().st_ino}:{token}".encode()
    return blake2b(text, key=secret, digest_size=16).hexdigest()


def _mark(path: Path, token: str) -> bytes:
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    text = f"{user}@{path.stat().st_ino}:{token}".encode()
    return blake2b(text, digest_size=16).hexdigest().encode()


def _attribute(path: Path) -> bytes:
    if hasattr(os, "getxattr"):
        with suppress(OSError):  # a file system without attributes, or a file without a mark
            return os.getxattr(path, _ATTRIBUTE)
    return b""


def _set_attribute(path: Path, value: bytes) -> None:
    if hasattr(os, "setxattr"):
        with suppress(OSError):  # a file system without attributes
            os.setxattr(path, _ATTRIBUTE, value)


def _keeps_attributes(path: Path) -> bool:
    if not hasattr(os, "setxattr"):
        return False
    probe = f"{_ATTRIBUTE}.probe"
    try:
        os.setxattr(path, probe, b"")
        os.removexattr(path, probe)
    except OSError:
        return False
    return True
