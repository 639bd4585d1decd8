"""Whose a log's SQLite file is: only one of this user on this machine is opened unasked (D16).

A log that came with a cloned repository holds somebody else's approvals. Two things tell it from
our own: the machine's id, where the system has one, kept as a hash so that a log which is passed on
does not tell it; and a mark beside the file's content that is not copied with it, an extended
attribute, which names the file by its number on its file system. So a container that is made anew
on its volume opens its own log, whatever it is called now, and a file that was cloned, downloaded
or unpacked is not taken for ours.

The -wal file beside a log bears such a mark, too: SQLite takes its content for the newest
content of the log, and one that came with a repository would put approvals into it.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import Final

_SOURCES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_ATTRIBUTE: Final = "user.taofold"


def machine() -> str:
    """The machine's id, "" where the system has none; containers change their host names."""
    for path in _SOURCES:
        try:
            text = path.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
        if len(text) >= 16:  # images are built with "uninitialized"
            return text
    return ""


def creator() -> str:
    """A fingerprint of this user on this machine, "" if the machine has no id."""
    machine_id = machine()
    return _fingerprint(machine_id) if machine_id else ""


def ours(path: Path, noted: Mapping[str, str]) -> bool:
    """Is the log at `path`, which notes this about itself, this user's?"""
    # Where a machine has no id, earlier releases noted its name.
    fingerprint = creator() or _fingerprint(socket.gethostname())
    return noted.get("owner") == fingerprint or _unmoved(path, noted)


def mark_as_ours(path: Path, noted: Mapping[str, str]) -> dict[str, str]:
    """What the log at `path` notes about itself to be ours from now on. Marks the file."""
    notes = {"owner": creator()}
    if not _unmoved(path, noted):
        token = token_hex(16)
        notes |= {"mark": token, "inode": str(path.stat().st_ino)}
        # Attributes are not part of git, tar or a download, and `cp` leaves them out by default.
        if hasattr(os, "setxattr"):
            with suppress(OSError):  # a file system without attributes: its number counts
                os.setxattr(path, _ATTRIBUTE, _seal(path, token))
    return notes


def mark_wal(path: Path) -> None:
    """Marks the -wal file beside a log as written by this user, before anything is in it."""
    if hasattr(os, "setxattr"):
        with suppress(OSError):  # a file system without attributes, or no such file
            os.setxattr(path, _ATTRIBUTE, _seal(path, ""))


def wal_is_ours(path: Path) -> bool:
    """Was the -wal file written here? An empty one is accepted; others must bear our mark."""
    if not path.exists() or path.stat().st_size == 0 or not hasattr(os, "getxattr"):
        return True
    try:
        return os.getxattr(path, _ATTRIBUTE) == _seal(path, "")
    except OSError:
        return not _markable(path)


def _unmoved(path: Path, noted: Mapping[str, str]) -> bool:
    """Is it the very file that this user marked, and no copy of it?"""
    token = noted.get("mark", "")
    # A copy inside one file system has another number, even if it took the attribute along.
    if not token or noted.get("inode") != str(path.stat().st_ino):
        return False
    if not hasattr(os, "getxattr"):
        return True
    try:
        return os.getxattr(path, _ATTRIBUTE) == _seal(path, token)
    except OSError:
        # The mark is gone though this file system keeps marks: it was copied.
        return not _markable(path)


def _markable(path: Path) -> bool:
    """Does the file system keep attributes?"""
    probe = f"{_ATTRIBUTE}.probe"
    try:
        os.setxattr(path, probe, b"")
        os.removexattr(path, probe)
    except OSError:
        return False
    return True


def _seal(path: Path, token: str) -> bytes:
    return _fingerprint(f"{path.stat().st_ino}:{token}").encode()


def _fingerprint(machine_id: str) -> str:
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    return blake2b(f"{user}@{machine_id}".encode(), digest_size=16).hexdigest()
