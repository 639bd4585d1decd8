"""A small JSON document that several processes share: a file of its owner's, or a database entry.

The file is read again when it changed, so a change holds at once everywhere; it is changed by one
process at a time, as a whole or not at all. What lies in a database holds on every machine
within a quarter of a second. Knows nothing of what it holds.
"""

import fcntl
import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, Final, Generic, Protocol, TypeVar

from taofold.core.errors import ConfigError, LogError
from taofold.reserved_places import open_file, read_file, reserve_file, write_file

T = TypeVar("T")
_Seen = tuple[int, int, int]
FRESH_S: Final = 0.25
"""How long what a database said is believed."""
_TRIES: Final = 50


class Shelf(Protocol):
    """Entries that servers of several machines share. Both may raise `LogError`, and block."""

    def kept(self, key: str) -> tuple[int, bytes]:
        """What lies under `key`, with its version; (0, b"") if nothing."""
        ...

    def keep(self, key: str, version: int, body: bytes) -> bool:
        """Put `body` where `version` was; False if somebody else was quicker."""
        ...


def lock_file(path: Path) -> int:
    """A descriptor that holds the lock of the file, until it is closed. Blocks while others do."""
    descriptor = open_file(path, os.O_WRONLY | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@dataclass(frozen=True)
class Shared:
    """A place in a database."""

    shelf: Shelf
    key: str

    def __str__(self) -> str:
        return f"{self.key} in the log's database"


@dataclass(frozen=True)
class DocumentFormat(Generic[T]):
    """How a value stands in the file."""

    empty: T
    """What a file that does not exist says."""
    decode: Callable[[Any], T]
    """From JSON. ValueError, TypeError and KeyError mean that it is not such a file."""
    encode: Callable[[T], Any]


class SharedDocument(Generic[T]):
    """The value in the file, or the place of a database, `path`; None: it lives in memory."""

    def __init__(self, path: Path | Shared | None, form: DocumentFormat[T]) -> None:
        self.path, self._form = path, form
        self._read_at = 0.0
        if isinstance(path, Path):
            reserve_file(path)
        self._known: tuple[_Seen | None, T] = (None, form.empty)
        self._lock = Lock()

    def value(self) -> T:
        """What the file says now.

        Raises:
            ConfigError: it cannot be read, or others can read it.
        """
        if self.path is None:
            return self._known[1]
        if isinstance(self.path, Shared):
            # Every request asks who is signed in: a query
            # each time would be the most frequent one.
            if not self._read_at or monotonic() - self._read_at > FRESH_S:
                self._look(self.path)
            return self._known[1]

        try:
            # One `stat` per request instead of a read: a
            # revoked token is refused at the next request.
            # Not followed: a link is refused when it is opened.
            stat = self.path.lstat()
        except FileNotFoundError:
            self._known = (None, self._form.empty)
            return self._form.empty
        except OSError as error:
            raise ConfigError(f"{str(self.path)!r} cannot be read: {error.strerror}") from error

        # A writer replaces the file, so its inode changes even where two writes share a timestamp.
        stamp = (stat.st_mtime_ns, stat.st_ino, stat.st_mode)
        if stamp != self._known[0]:
            self._known = (stamp, self._read(self.path))
        return self._known[1]

    def newest(self) -> T:
        """What others may have written just now. Blocks.

        Raises:
            ConfigError: it cannot be read.
        """
        # 0 means never read: the next `value` looks, however fresh the last reading is.
        self._read_at = 0.0
        return self.value()

    def _look(self, place: Shared) -> int:
        """Read the entry; returns its version."""
        try:
            version, body = place.shelf.kept(place.key)
            value = self._form.decode(json.loads(body)) if version else self._form.empty
        except (LogError, ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"{place} cannot be read: {error}") from error
        self._known, self._read_at = (None, value), monotonic()
        return version

    def _change(self, place: Shared, step: Callable[[T], T]) -> None:
        # Compare and swap: whoever lost the race reads what the other wrote and tries again.
        for _ in range(_TRIES):
            version = self._look(place)
            changed = step(self._known[1])
            body = json.dumps(self._form.encode(changed)).encode()
            if place.shelf.keep(place.key, version, body):
                self._known, self._read_at = (None, changed), monotonic()
                return
        raise LogError(f"{place} cannot be written: {_TRIES} times somebody was quicker")

    def change(self, step: Callable[[T], T]) -> None:
        """Write what `step` makes of the value. Blocks while somebody else does so.

        Raises:
            ConfigError: it cannot be read; nothing was changed.
            LogError: it cannot be written; nothing was changed.
        """
        if isinstance(self.path, Shared):
            with self._lock:
                self._change(self.path, step)
            return
        try:
            with self._alone():
                changed = step(self.value())
                if isinstance(self.path, Path):
                    self._write(self.path, changed)
                else:
                    self._known = (None, changed)
        except OSError as error:
            raise LogError(f"{str(self.path)!r} cannot be written: {error.strerror}") from error

    @contextmanager
    def _alone(self) -> Generator[None]:
        with self._lock:
            if not isinstance(self.path, Path):
                yield
                return
            # The lock is a file of its own: the document itself is replaced by every change.
            lock = lock_file(Path(f"{self.path}.lock"))
            try:
                yield
            finally:
                # Closing releases the lock. Its file stays:
                # unlinking it would let two writers lock two files.
                os.close(lock)

    def _read(self, path: Path) -> T:
        try:
            # A file that is open to others is refused: they may have read the secrets already.
            return self._form.decode(json.loads(read_file(path, trust="secret")))
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"{str(path)!r} is damaged: {error}") from error

    def _write(self, path: Path, value: T) -> None:
        body = json.dumps(self._form.encode(value), indent=1) + "\n"
        # Readers see the old file or the new one, never half of it.
        write_file(path, body.encode())
