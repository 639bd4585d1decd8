"""A small JSON document shared by several processes: a file of its owner, or a database entry.

The file is read again after a change, so a change applies everywhere at once. One process at a time
changes it, atomically. A database entry applies on every machine within a quarter of a second.
Knows nothing about the content.
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
"""Seconds for which a value from a database is cached."""
_TRIES: Final = 50


class Shelf(Protocol):
    """Entries shared by servers of several machines. Both methods block and may raise LogError."""

    def kept(self, key: str) -> tuple[int, bytes]:
        """Returns the entry `key` with its version; (0, b"") if there is none."""
        ...

    def keep(self, key: str, version: int, body: bytes) -> bool:
        """Replaces version `version` by `body`; False if another process was faster."""
        ...


def lock_file(path: Path) -> int:
    """Waits for the file's lock. Returns a descriptor that holds it until it is closed."""
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
    """The JSON form of a value."""

    empty: T
    """The value of a missing file."""
    decode: Callable[[Any], T]
    """Decodes JSON. ValueError, TypeError and KeyError mean that the file has another format."""
    encode: Callable[[T], Any]


class SharedDocument(Generic[T]):
    """The value in the file or database place `path`; None: in memory."""

    def __init__(self, path: Path | Shared | None, form: DocumentFormat[T]) -> None:
        self.path, self._form = path, form
        self._read_at = 0.0
        if isinstance(path, Path):
            reserve_file(path)
        self._known: tuple[_Seen | None, T] = (None, form.empty)
        self._lock = Lock()

    def value(self) -> T:
        """Returns the current value.

        Raises:
            ConfigError: It cannot be read, or others can read it.
        """
        if self.path is None:
            return self._known[1]
        if isinstance(self.path, Shared):
            # Every request reads the tokens: a query each time would be the most frequent one.
            if not self._read_at or monotonic() - self._read_at > FRESH_S:
                self._look(self.path)
            return self._known[1]

        try:
            # One `stat` per request instead of a read: a revoked token is refused at the next
            # request. Links are not followed: a link is refused when it is opened.
            stat = self.path.lstat()
        except FileNotFoundError:
            self._known = (None, self._form.empty)
            return self._form.empty
        except OSError as error:
            raise ConfigError(f"{str(self.path)!r} cannot be read: {error.strerror}") from error

        # A writer replaces the file, so its inode changes even if two writes share a timestamp.
        stamp = (stat.st_mtime_ns, stat.st_ino, stat.st_mode)
        if stamp != self._known[0]:
            self._known = (stamp, self._read(self.path))
        return self._known[1]

    def newest(self) -> T:
        """Returns the value including the latest changes of others. Blocks.

        Raises:
            ConfigError: It cannot be read.
        """
        # 0 means never read: the next `value` reads again, however fresh the cached value is.
        self._read_at = 0.0
        return self.value()

    def _look(self, place: Shared) -> int:
        """Reads the entry; returns its version."""
        try:
            version, body = place.shelf.kept(place.key)
            value = self._form.decode(json.loads(body)) if version else self._form.empty
        except (LogError, ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"{place} cannot be read: {error}") from error
        self._known, self._read_at = (None, value), monotonic()
        return version

    def _change(self, place: Shared, step: Callable[[T], T]) -> None:
        # Compare and swap: the loser of a race reads the other's value and tries again.
        for _ in range(_TRIES):
            version = self._look(place)
            changed = step(self._known[1])
            body = json.dumps(self._form.encode(changed)).encode()
            if place.shelf.keep(place.key, version, body):
                self._known, self._read_at = (None, changed), monotonic()
                return
        raise LogError(f"{place} cannot be written: {_TRIES} times another process was faster")

    def change(self, step: Callable[[T], T]) -> None:
        """Writes the result of `step` on the value. Blocks while another process changes it.

        Raises:
            ConfigError: It cannot be read; nothing was changed.
            LogError: It cannot be written; nothing was changed.
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
            # The lock is a separate file: every change replaces the document itself.
            lock = lock_file(Path(f"{self.path}.lock"))
            try:
                yield
            finally:
                # Closing releases the lock. Its file stays: unlinking it would let two writers lock
                # two files.
                os.close(lock)

    def _read(self, path: Path) -> T:
        try:
            # A file that is open to others is rejected: they may have read the secrets already.
            return self._form.decode(json.loads(read_file(path, trust="secret")))
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"{str(path)!r} is damaged: {error}") from error

    def _write(self, path: Path, value: T) -> None:
        body = json.dumps(self._form.encode(value), indent=1) + "\n"
        # Readers see the old file or the new one, never half of it.
        write_file(path, body.encode())
