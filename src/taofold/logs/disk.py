"""One thread that makes a log's file survive power cuts, for all who ask at once.

A commit in WAL mode is a write to the -wal file; syncing that file makes everything
committed so far durable, which is what SQLite's `synchronous=FULL` does at each commit.
Done here it holds no database lock, blocks no event loop, and one sync serves
everyone who waited. The same thread folds the -wal file back into the database.
It knows nothing about runs.
"""

import asyncio
import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Final, TypeAlias

_Waiter: TypeAlias = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]
_STOP: Final = "stop"
_FOLD: Final = "fold"

if sys.platform == "darwin":
    from fcntl import F_FULLFSYNC, fcntl

    def full_sync(descriptor: int) -> None:
        """Wait until the file is on the medium; on macOS `fsync` stops at the drive's cache."""
        fcntl(descriptor, F_FULLFSYNC)

else:

    def full_sync(descriptor: int) -> None:
        """Wait until the file is on the medium."""
        os.fsync(descriptor)


class Disk:
    """Syncs the file `path` on request; `fold` moves its content into the database."""

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
        """Forget the thread: a child process has none, and would wait for it for ever."""
        self._start()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    async def settle(self) -> None:
        """Return when everything committed before this call survives a power cut.

        Raises:
            OSError: the disk reports an error, or this was closed meanwhile; what was
                committed may not be on the medium.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._ask((loop, done))
        await done

    def fold(self) -> None:
        """Move the -wal file's content into the database, some time soon."""
        self._ask(_FOLD)

    def close(self) -> None:
        """Finish what was asked for, then stop. Blocks."""
        with self._lock:
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
            waiters = [request for request in batch if not isinstance(request, str)]
            if waiters:
                _answer(waiters, self._settled())
            if _FOLD in batch:
                self._fold()
            running = _STOP not in batch

    def _settled(self) -> OSError | None:
        try:
            if self._descriptor < 0:
                self._descriptor = os.open(self._path, os.O_RDWR)
                _sync_folder(self._path.parent)
            if not os.path.samestat(os.fstat(self._descriptor), self._path.stat()):
                raise OSError(errno.ESTALE, "the -wal file was replaced by somebody else")
            self._sync(self._descriptor)
        except OSError as error:
            return error
        return None


def _sync_folder(folder: Path) -> None:
    """Make a new file's name durable; only POSIX lets one open a folder."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _answer(waiters: list[_Waiter], error: OSError | None) -> None:
    for loop, done in waiters:
        with suppress(RuntimeError):  # the loop was closed while its write was on the way
            loop.call_soon_threadsafe(_finish, done, error)


def _finish(done: "asyncio.Future[None]", error: OSError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
