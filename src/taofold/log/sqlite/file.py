"""One open file of a log: short transactions on the calling thread, and waits off it.

A transaction takes about as long as handing it to another thread would. It never waits on the spot:
while another process writes, the call retries between sleeps, and later writes wait behind it.
`Disk` is the one thread that makes the file survive power failures, for all concurrent requests. A
commit in WAL mode is a write to the -wal file, and syncing that file makes all commits so far
durable, as SQLite's `synchronous=FULL` does at each commit. In the thread a sync holds no database
lock, blocks no event loop, and serves every waiting request. Knows nothing about the content.
"""

import asyncio
import errno
import os
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from taofold.core.errors import LogError
from taofold.log import process_fork as forks
from taofold.log.sqlite.open import (
    busy,
    checkpoint,
    connect,
    explain,
    open_for_writing,
    settle_note,
)

_Waiter: TypeAlias = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]
_STOP: Final = "stop"
_FOLD: Final = "fold"

if sys.platform == "darwin":
    from fcntl import F_FULLFSYNC, fcntl

    def full_sync(descriptor: int) -> None:
        """Waits until the file is on the medium; on macOS `fsync` stops at the drive's cache."""
        fcntl(descriptor, F_FULLFSYNC)

else:

    def full_sync(descriptor: int) -> None:
        """Waits until the file is on the medium."""
        os.fsync(descriptor)


class Disk:
    """A thread that syncs the file `path`; `fold` moves its content into the database."""

    def __init__(
        self, path: Path, fold: Callable[[], None], sync: Callable[[int], None] = full_sync
    ) -> None:
        self._path, self._fold, self._sync = path, fold, sync
        self._descriptor = -1
        self._closed = False
        self._start()

    def _start(self) -> None:
        self._asked: SimpleQueue[_Waiter | str] = SimpleQueue()
        self._thread: Thread | None = None
        self._lock = Lock()

    def forked(self) -> None:
        """Discards the thread: a child process has none, and would wait for it forever."""
        self._start()
        # A descriptor is no lock and no connection: the child may close its copy.
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    async def settle(self) -> None:
        """Returns when everything committed before this call survives a power failure.

        Raises:
            OSError: The disk reports an error, or this object was closed in the meantime; commits
                may not be on the medium.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._ask((loop, done))
        await done

    def checkpoint(self) -> None:
        """Requests that the -wal file's content is moved into the database soon."""
        self._ask(_FOLD)

    def close(self) -> None:
        """Finishes pending requests, then stops. Blocks."""
        with self._lock:
            # Under the lock, so that no request arrives after the stop and waits forever.
            self._closed = True
            self._asked.put(_STOP)
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _ask(self, request: _Waiter | str) -> None:
        with self._lock:
            if self._closed:
                raise OSError(errno.EBADF, "the log was closed")
            if self._thread is None:
                self._thread = Thread(target=self._work, name="taofold-log", daemon=True)
                self._thread.start()
            self._asked.put(request)

    def _work(self) -> None:
        running = True
        while running:
            batch = [self._asked.get()]
            with suppress(Empty):
                while True:
                    batch.append(self._asked.get_nowait())
            # Group commit: a sync covers every request made before it started; later ones wait for
            # the next.
            waiters = [request for request in batch if not isinstance(request, str)]
            if waiters:
                _answer(waiters, self._settled())
            # After the answers: folding takes longer, and no request waits for it.
            if _FOLD in batch:
                self._fold()
            running = _STOP not in batch

    def _settled(self) -> OSError | None:
        try:
            if self._descriptor < 0:
                self._descriptor = os.open(self._path, os.O_RDWR)
                _sync_folder(self._path.parent)
            # Syncing a replaced file would give a false guarantee.
            if not os.path.samestat(os.fstat(self._descriptor), self._path.stat()):
                raise OSError(errno.ESTALE, "the -wal file was replaced by another process")
            self._sync(self._descriptor)
        except OSError as error:
            return error
        return None


def _sync_folder(folder: Path) -> None:
    """Makes a new file's name durable; only POSIX can open a folder."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _answer(waiters: list[_Waiter], error: OSError | None) -> None:
    for loop, done in waiters:
        with suppress(RuntimeError):  # the loop was closed during its write
            loop.call_soon_threadsafe(_finish, done, error)


def _finish(done: "asyncio.Future[None]", error: OSError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


T = TypeVar("T")
Work: TypeAlias = Callable[[sqlite3.Connection], T]

FOLD_AFTER: Final = 500
"""Number of writes after which the -wal file is folded; at a page or more each, about 2 MB."""
TOO_FAR: Final = 2000
"""Number of writes after which writers wait for it: a continuous loop would starve the thread."""
_FOLD_WAIT_S: Final = 0.5
_FIRST_PAUSE_S: Final = 0.0002
_LONGEST_PAUSE_S: Final = 0.05


class SqliteFile:
    """The database at `path`. Opened at the first use."""

    def __init__(
        self, path: Path, *, wait_s: float, adopt: bool, max_bytes: int, sync: Callable[[int], None]
    ) -> None:
        self.path = path
        self._wait_s, self._adopt, self._max_bytes = wait_s, adopt, max_bytes
        self._connection: sqlite3.Connection | None = None
        self._opened_as = (path, 0, 0)
        """The path of the open file, with its device and inode."""
        self._folding: sqlite3.Connection | None = None
        self._closed = False
        self._inherited = False
        self._lock = Lock()
        self._behind = 0
        self._folded = False
        """True if the -wal file was folded since this object was opened."""
        self._waiting: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[Any]] = (
            WeakKeyDictionary()
        )
        """For each event loop, the last of the writes that had to wait."""
        # Commits are in the -wal file until it is folded, so that file is synced.
        self._disk = Disk(Path(f"{path}-wal"), self._fold, sync)
        forks.tell(self)

    def forked(self) -> None:
        """Releases the parent process's connections without closing them."""
        self._lock = Lock()
        self._disk.forked()
        for connection in (self._folding, self._connection):
            if connection is not None:
                # Closed here, it could fold and delete a -wal file that the parent uses.
                forks.inherit(self.path, connection)
                self._inherited = True
        self._folding = self._connection = None

    def open(self) -> None:
        """Opens or creates the file. Blocks; does nothing if it is open."""
        with self._lock:
            if self._closed:
                raise LogError(f"the log {str(self.path)!r} is closed; open it again to use it")
            self._mine()
            if self._connection is None:
                self._connection = connect(
                    self.path, wait_s=self._wait_s, adopt=self._adopt, max_bytes=self._max_bytes
                )
                # Absolute: a program may change its working directory.
                path = self.path.absolute()
                status = path.stat()
                self._opened_as = (path, status.st_dev, status.st_ino)

    async def read(self, work: Work[T]) -> T:
        """Returns the result of `work`, which only reads."""
        return await self._again(self._read, work, self._deadline())

    async def write(self, work: Work[T]) -> T:
        """Returns the result of `work`, run in one transaction.

        Writes of one event loop keep their order. Once begun, a write is completed even if the
        caller is cancelled.
        """
        result = await self._in_turn(work)
        if self._behind > TOO_FAR:
            # it was written; a request for durability will report the error
            with suppress(LogError):
                await self.settle()
        return result

    def write_now(self, work: Work[T]) -> T:
        """Performs `write` for a thread that may wait; blocks until it is done."""
        self.open()
        until, pause = self._deadline(), _FIRST_PAUSE_S
        while True:
            try:
                return self._try(self._write, work)
            except BlockingIOError as error:
                if time.monotonic() > until:
                    raise self._locked() from error
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def settle(self) -> None:
        """Returns when everything written before this call survives a power failure."""
        self._mine()
        try:
            await self._disk.settle()
        except OSError as error:
            raise LogError(
                f"the log {str(self.path)!r} was written, but the disk reports {error.strerror!r}: "
                "do not rely on what happened since the last good write"
            ) from error

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._closed

    def close(self) -> None:
        """Finishes pending requests and closes the file. Blocks."""
        # First the thread, which may be folding with a connection that is closed below.
        self._disk.close()
        with self._lock:
            self._closed = True
            connections = (self._folding, self._connection)
            self._folding = self._connection = None
        for connection in connections:
            if connection is not None:
                settle_note(connection)
                connection.close()

    async def _in_turn(self, work: Work[T]) -> T:
        loop = asyncio.get_running_loop()
        before = self._waiting.get(loop)
        free = before is None or before.done()
        if free and self._connection is not None:
            # On the calling thread: nearly always the lock is free, and this takes microseconds.
            with suppress(BlockingIOError):
                return self._try(self._write, work)
        # A separate task: a cancelled caller must not separate a write from its result.
        trying = loop.create_task(self._again(self._write, work, self._deadline(), before))
        # Later writes wait behind it: the records of a run are numbered.
        self._waiting[loop] = trying
        try:
            return await asyncio.shield(trying)
        except asyncio.CancelledError:
            await asyncio.wait({trying})
            raise

    async def _again(
        self,
        attempt: Callable[[Work[T]], T],
        work: Work[T],
        until: float,
        before: "asyncio.Task[Any] | None" = None,
    ) -> T:
        """Returns the result of `attempt`, retried until that time, after the task `before`."""
        if before is not None:
            await asyncio.wait({before})
        if self._connection is None:
            await asyncio.to_thread(self.open)
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return self._try(attempt, work)
            except BlockingIOError as error:
                if time.monotonic() > until:
                    raise self._locked() from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    def _try(self, attempt: Callable[[Work[T]], T], work: Work[T]) -> T:
        """Returns `attempt`'s result; raises `BlockingIOError` while another process writes."""
        try:
            return attempt(work)
        except sqlite3.Error as error:
            if busy(error):
                raise BlockingIOError(str(error)) from error
            raise explain(error, self.path) from error
        except UnicodeEncodeError as error:
            raise LogError(f"a name is not valid text: {error}. Nothing was written") from error

    def _deadline(self) -> float:
        return time.monotonic() + self._wait_s

    def _locked(self) -> LogError:
        return LogError(
            f"the log {str(self.path)!r} is locked: another process has been writing "
            f"to it for {self._wait_s:g} s. Nothing of this call was saved; stop that "
            "process or try again"
        )

    def _read(self, work: Work[T]) -> T:
        with self._lock:
            return work(self._opened())

    def _write(self, work: Work[T]) -> T:
        with self._lock:
            connection = self._opened()
            self._still_there()
            # The write lock at once: a transaction that begins as a reader may be unable to write.
            connection.execute("begin immediate")
            try:
                result = work(connection)
                connection.execute("commit")
            # Also for Ctrl-C in the middle: an open transaction would lock all others out.
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise
            self._behind += 1
            # Once at the start: from then on the database records that a -wal file belongs to it.
            due = not self._folded or self._behind % FOLD_AFTER == 0
            self._folded = True
        # Outside the lock: the folding thread does not need it, and the next writer can continue.
        if due:
            with suppress(OSError):  # closed in the meantime: closing folds as well
                self._disk.checkpoint()
        return result

    def _mine(self) -> None:
        if self._inherited:
            raise LogError(forks.message(self.path))

    def _opened(self) -> sqlite3.Connection:
        self._mine()
        if self._connection is None:
            raise LogError(f"the log {str(self.path)!r} is closed; open it again to use it")
        return self._connection

    def _still_there(self) -> None:
        """Raises if the file was replaced or deleted, because writes to it would be lost."""
        path, device, inode = self._opened_as
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            status = None
        except OSError:
            return  # its folder is inaccessible: this is no evidence about the file
        if status is None or (status.st_dev, status.st_ino) != (device, inode):
            what = "replaced" if status else "deleted or moved"
            raise LogError(
                f"the log {str(self.path)!r} was {what} while it is open. Nothing of this was "
                "saved: put the file back, or restart this process"
            )

    def _fold(self) -> None:
        with suppress(sqlite3.Error):  # another process prevented it; it is retried soon
            if self._folding is None:
                # A connection for this thread only: the other one may be in the middle of a write.
                self._folding = open_for_writing(self.path, _FOLD_WAIT_S)
            checkpoint(self._folding)
            # Not exact, since writers continue; it only schedules the next fold.
            self._behind = 0


def file_identity(path: Path) -> str:
    """Returns a name equal for two names of one file; its path while it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return f"sqlite:{path.absolute()}"
    return f"sqlite:{status.st_dev}:{status.st_ino}"
