"""The connections of one process to one database, in a thread with an event loop of its own.

A log can therefore be used from several event loops, and leases are renewed even if these are
blocked. All writers share one transaction at a time: writes handed in during a commit are batched
into the next one. Broken connections are replaced; a write whose answer was lost raises
`OutcomeUnknown`. Processes notify each other of changes and send short messages by LISTEN and
NOTIFY, and share small documents (`kept`, `keep`). Of runs it knows only their inboxes, which many
callers read at once. A forked child does not touch its parent's connections and starts without any.
"""

import asyncio
import logging
import os
import socket
import struct
import threading
import weakref
from collections import deque
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, Generic, TypeAlias, TypeVar

import psycopg

from taofold.core.errors import LogAway, LogError, OutcomeUnknown
from taofold.log import process_fork as forks
from taofold.log.postgres import schema as schema
from taofold.log.postgres.psycopg_extras import (
    RETRYABLE,
    explain,
    outcome_unknown,
    parse_dsn,
    register,
    unreachable,
    with_keepalive,
    without_password,
)

T = TypeVar("T")
Connection: TypeAlias = psycopg.AsyncConnection[Any]
Row: TypeAlias = tuple[Any, ...]
Values: TypeAlias = Sequence[Any] | Mapping[str, Any]
Listener: TypeAlias = Callable[[str], None]
Bulk: TypeAlias = Callable[[Sequence[Values]], tuple[str, Values]]
"""Builds one statement from many calls; it returns a row for each, in their order."""

MOST: Final = 8
"""Maximum number of pooled connections. Three more write batches, listen, and renew leases."""
ANSWER_S: Final = 30.0
"""Maximum seconds of a statement: a stopped or vanished server does not break the connection."""
_RENEW_S: Final = 3.0
"""The same for lease renewal: it leaves time for another connection before the leases expire."""
_BATCH: Final = 200
_CONNECT_S: Final = 5
_LOCK_MS: Final = 5000
_ATTEMPTS: Final = 5
_PAUSE_S: Final = 0.05
_RELISTEN_S: Final = 1.0
_MESSAGES: Final = 2000
"""Maximum number of unsent broadcasts; beyond it the oldest are lost."""
_LONGEST: Final = 7999

# These commits need not wait for the disk, because no caller waits for them. A commit that notifies
# holds a lock that all other notifying commits wait for.
_BROADCAST: Final = (
    "with quick as materialized (select set_config('synchronous_commit', 'off', true)) "
    "select pg_notify(taofold_channel() || '_live', message) "
    "from quick, unnest(%b::text[]) as message"
)

_INBOX: Final = (
    "select r.run, i.body from taofold_runs r left join taofold_inbox i on i.number = r.number "
    "where r.run = any(%b::bytea[]) order by i.place"
)
_KEPT: Final = "select version, body from taofold_kept where key = %b"
_KEEP: Final = (
    "insert into taofold_kept as k(key, version, body) values(%b, 1, %b) on conflict (key) "
    "do update set version = k.version + 1, body = excluded.body where k.version = %b returning 1"
)

_logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _Call(Generic[T]):
    """A call with a waiting caller."""

    done: "asyncio.Future[T]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    """In the caller's loop: it may be set only there."""


@dataclass(slots=True)
class _Write(_Call[Row]):
    """One call of a writing function, and the future for its result."""

    order: bytes
    """Locks are taken in this order, so that two batches never deadlock."""
    statement: str | Bulk
    values: Values
    disk: bool


@dataclass(slots=True)
class _Read(_Call[list[Row]]):
    """One query of a run's inbox, and the future for its rows."""

    run: bytes


C = TypeVar("C", bound=_Call[Any])


class Database:
    """Connections to the database at `dsn`. Connects at the first use.

    Args:
        dsn: `postgresql://USER:PASSWORD@HOST:PORT/DATABASE?OPTION=VALUE`; the option `pool_max` is
            the size of the pool, all others are libpq's.
        most: Maximum number of connections, if the address does not set it.
        wait_s: Maximum wait in seconds for a free connection, and of a read for an unreachable
            server.
        answer_s: Maximum seconds of a statement; then its connection is dropped.

    Raises:
        ConfigError: `dsn` is no address.
    """

    def __init__(
        self, dsn: str, *, most: int = MOST, wait_s: float = 10.0, answer_s: float = ANSWER_S
    ) -> None:
        self._dsn, named = parse_dsn(dsn)
        self.name = without_password(self._dsn)
        self._most, self._wait_s, self._answer_s = named or most, wait_s, answer_s
        self._address = with_keepalive(self._dsn)
        self._guard = threading.Lock()
        self._closed = False
        self._identity = ""
        self._start()
        forks.tell(self)

    def _start(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._idle: list[Connection] = []
        self._free, self._renewing = asyncio.Semaphore(self._most), asyncio.Semaphore(1)
        self._queue: deque[_Write] = deque()
        self._woken = False
        self._writer: Connection | None = None
        self._made: set[Connection] = set()
        self._writing: asyncio.Task[None] | None = None
        self._questions: deque[_Read] = deque()
        self._reading: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._calls: set[Future[Any]] = set()
        """Calls that other threads wait for, each until it is done."""
        self._listeners: list[Listener] = []
        self._broadcast_listeners: list[Listener] = []
        self._listening = False
        self._messages: deque[str] = deque(maxlen=_MESSAGES)
        self._sending = False
        self._weak = False
        """True if the server by default acknowledges commits before they are on disk."""

    def forked(self) -> None:
        """Resets a child process, which has no thread and must not use its parent's connections."""
        # The parent's lock may have been held by another thread at the fork.
        self._guard = threading.Lock()
        # Kept alive forever: closing a connection here would end the parent's session on the
        # server.
        _inherited.append((self._made, self._loop, self._tasks))
        self._start()

    @property
    def dsn(self) -> str:
        """Its address for libpq, with the password."""
        return self._dsn

    @property
    def closed(self) -> bool:
        """True after `close`. It does not open again."""
        return self._closed

    @property
    def identity(self) -> str:
        """The identity of the tables: two addresses may lead to the same. Blocks the first time."""
        if not self._identity:
            self.open()
        return self._identity

    def open(self) -> None:
        """Connects, and creates or upgrades the tables, now. Blocks.

        Raises:
            LogError: The database cannot be reached or used; the message has the reason.
            Incompatible: It is newer than this release.
        """
        self.call_now(self._opened)

    def call_now(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Returns the result of `work` in the database's thread. Blocks."""
        return self._submit(work).result()

    async def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Returns the result of `work` in the database's thread.

        A cancellation of the caller is raised after that: a write has happened or not when it
        returns.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        result = self._submit(work)

        def finished(_: "Future[T]") -> None:
            with suppress(RuntimeError):  # the caller's loop has been closed
                loop.call_soon_threadsafe(_finish, done)

        result.add_done_callback(finished)
        await _waited(done)
        return result.result()

    async def fetch(self, statement: str, values: Values = ()) -> list[Row]:
        """Returns the rows of a reading statement; repeated if the connection is lost."""
        return await self.call(lambda: self._fetch(statement, values))

    async def inbox(self, run: bytes) -> list[Row]:
        """Returns the body of each message of a run, in order; one None if there is no message.

        No row if there is no such run. Requests that arrive while a query is running share the next
        statement, so that many runs cost one round trip.
        """
        rows: list[Row] = await self._hand_in(self._questions, _Read(run))
        return rows

    async def write(
        self, order: bytes, statement: str | Bulk, values: Values, *, disk: bool = False
    ) -> Row:
        """Returns the result of a writing function, batched with others in one transaction.

        Two writes of this process with the same `order` keep their order. Adjacent calls of one
        `Bulk` become one statement.
        """
        row: Row = await self._hand_in(self._queue, _Write(order, statement, values, disk))
        return row

    async def alone(self, statement: str, values: Sequence[Any], *, disk: bool = False) -> Row:
        """Returns the result of a writing function, in a transaction of its own."""
        return await self.call(lambda: self._alone(statement, values, disk))

    def renew_now(self, statement: str, values: Sequence[Any]) -> list[Row]:
        """Returns the rows of a statement that renews leases. Blocks, for seconds at most."""
        return self.call_now(lambda: self._renewed(statement, values))

    def kept(self, key: str) -> tuple[int, bytes]:
        """Returns the shared document `key` with its version; (0, b"") if there is none. Blocks.

        It does not wait for an unreachable server.
        """
        rows = self.call_now(lambda: self._rows(_KEPT, (key,)))
        return (rows[0][0], rows[0][1]) if rows else (0, b"")

    def keep(self, key: str, version: int, body: bytes) -> bool:
        """Replaces version `version` by `body`; False if another process was faster. Blocks."""
        return bool(self.call_now(lambda: self._rows(_KEEP, (key, body, version))))

    def on_run_changed(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener`, in the database's thread, with each changed run.

        "" stands for any run: after a broken connection changes may have been missed. Only statuses
        and messages are notified, not events. Returns a function that stops it.
        """
        return self._subscribed(self._listeners, listener)

    def on_broadcast(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener`, in the database's thread, with each broadcast, including own ones.

        Returns a function that stops it.
        """
        return self._subscribed(self._broadcast_listeners, listener)

    def _subscribed(self, listeners: list[Listener], listener: Listener) -> Callable[[], None]:
        async def begin() -> None:
            listeners.append(listener)
            if not self._listening:
                self._listening = True
                self._keep(self._listen())

        def stop() -> None:
            with suppress(ValueError):
                listeners.remove(listener)

        self.call_now(begin)
        return stop

    def broadcast(self, message: str) -> None:
        """Sends `message`, ASCII of less than 8000 bytes, to all listeners. Does not wait.

        It may be lost if the server is unreachable, or if too many messages are queued.

        Raises:
            LogError: It is too long, or this database is closed.
        """
        if len(message) > _LONGEST or not message.isascii():
            raise LogError(f"a broadcast is ASCII of at most {_LONGEST} bytes")

        async def hand_in() -> None:
            self._messages.append(message)
            if not self._sending:
                self._sending = True
                self._keep(self._send_all())

        self._submit(hand_in)

    def close(self) -> None:
        """Finishes pending calls, and closes all connections. Blocks."""
        with self._guard:
            if self._closed:
                return
            # First, under the guard, so that no more calls are accepted while the rest is finished.
            self._closed = True
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    # ------------------------------------------------------------------ in the thread
    def _submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> "Future[T]":
        with self._guard:
            if self._closed:
                raise LogError("this log is closed; open it again to use it")
            call = asyncio.run_coroutine_threadsafe(work(), self._started())
            self._calls.add(call)
        # Not under the guard: it is called at once if the work is done already.
        call.add_done_callback(self._calls.discard)
        return call

    def _started(self) -> asyncio.AbstractEventLoop:
        """Returns the loop of the thread, started if necessary. Under the guard."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=_run, args=(self._loop,), name="taofold-postgres", daemon=True
            )
            self._thread.start()
            # Without a reference to self, which would keep the database alive forever.
            weakref.finalize(self, _let_go, os.getpid(), self._loop, self._made)
        return self._loop

    async def _hand_in(self, queue: deque[C], call: C) -> Any:
        """Queues the call, wakes the thread once for all calls until it runs, and waits."""
        with self._guard:
            if self._closed:
                raise LogError("this log is closed; open it again to use it")
            loop = self._started()
            queue.append(call)
            if not self._woken:
                self._woken = True
                loop.call_soon_threadsafe(self._take)
        await _waited(call.done)
        return call.done.result()

    def _take(self) -> None:
        """Starts a task that writes the queue, and one that runs the queries, if needed."""
        # Before the queues are read: later calls wake the thread again.
        self._woken = False
        # One task writes at a time; it takes all writes that arrived during the last commit.
        if self._queue and self._writing is None:
            self._writing = self._keep(self._write_all())
        if self._questions and self._reading is None:
            self._reading = self._keep(self._read_all())

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _stop(self) -> None:
        # First: these may queue writes. No more calls are accepted.
        calls = [asyncio.wrap_future(call) for call in tuple(self._calls)]
        await asyncio.gather(*calls, return_exceptions=True)
        if self._writing is not None:
            await asyncio.wait([self._writing])
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in self._made:
            await connection.close()
        self._made.clear()

    async def _opened(self) -> None:
        async with self._connection():
            pass

    async def _connect(self) -> Connection:
        """Returns a new connection to prepared tables.

        Raises:
            LogError: The server is unreachable, refuses, or the tables cannot be used.
        """
        try:
            db = await psycopg.AsyncConnection.connect(
                self._address,
                autocommit=True,
                connect_timeout=_CONNECT_S,
                application_name="taofold",
                # The same few statements recur: from the third time on the server has prepared
                # plans.
                prepare_threshold=2,
            )
        except psycopg.Error as error:
            raise unreachable(error, self.name) from error

        register(db)
        self._made -= {connection for connection in self._made if connection.closed}
        self._made.add(db)
        try:
            # A row that stays locked is an error after 5 s instead of a hanging run.
            with self._patience(db):
                await db.execute(f"set lock_timeout = {_LOCK_MS}".encode())
                # Some servers acknowledge a commit before it is on disk; then `disk=True` must
                # request it.
                weak = await (await db.execute("show synchronous_commit")).fetchone()
            if not self._identity:
                # An upgrade of large tables takes long.
                self._identity = f"postgres:{await schema.prepare(db, self.name)}"
            self._weak = weak is not None and weak[0] == "off"
        except psycopg.Error as error:
            await db.close()
            raise explain(error, self.name) from error
        except BaseException:
            await db.close()
            raise
        return db

    @contextmanager
    def _patience(self, db: Connection, seconds: float = 0) -> Generator[None]:
        """Breaks the connection if it does not respond in time (0: `answer_s`)."""
        seconds = seconds or self._answer_s
        timer = asyncio.get_running_loop().call_later(seconds, self._hang_up, db, seconds)
        try:
            yield
        finally:
            timer.cancel()

    def _hang_up(self, db: Connection, seconds: float) -> None:
        _logger.warning(
            "the log %r has not answered for %g s: its connection is given up", self.name, seconds
        )
        # Shut down, not closed: a waiting statement fails as on a broken connection.
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(db.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)

    @asynccontextmanager
    async def _connection(self, *, renews: bool = False) -> AsyncGenerator[Connection]:
        """Yields a connection of the pool. Lease renewal has an extra one and does not wait.

        Raises:
            LogError: None became free, or none can be made.
        """
        free = self._renewing if renews else self._free
        try:
            async with asyncio.timeout(self._wait_s):
                await free.acquire()
        except TimeoutError:
            raise LogError(
                f"all {self._most} connections to the log {self.name!r} were in use for "
                f"{self._wait_s:g} s. Nothing was written: try again, or raise pool_max in its "
                "address"
            ) from None

        try:
            db = self._idle.pop() if self._idle else await self._connect()
            try:
                yield db
            except BaseException:
                # After an error reported by the server the connection is still usable.
                if not db.closed and db.info.transaction_status == _AT_REST:
                    self._idle.append(db)
                else:
                    await self._drop(db)
                raise
            self._idle.append(db)
        finally:
            free.release()

    async def _drop(self, db: Connection) -> None:
        """Closes a broken connection and all idle ones, which are most likely broken too."""
        # After a restart of the server all connections of the pool are dead; the next call makes
        # new ones.
        stale, self._idle = [*self._idle, db], []
        for connection in stale:
            with suppress(psycopg.Error):
                await connection.close()

    async def _renewed(self, statement: str, values: Values) -> list[Row]:
        try:
            return await self._rows(statement, values, renews=True)
        except _Lost:
            # Idempotent, and with a new connection there is still time.
            return await self._rows(statement, values, renews=True)

    async def _fetch(self, statement: str, values: Values) -> list[Row]:
        return await self._patiently(lambda: self._rows(statement, values), (LogAway, _Lost))

    async def _patiently(
        self, work: Callable[[], Awaitable[T]], causes: tuple[type[LogError], ...]
    ) -> T:
        """Returns the result of `work`, repeated for a while if it fails for one of `causes`."""
        clock = asyncio.get_running_loop()
        deadline = clock.time() + self._wait_s
        while True:
            try:
                return await work()
            except causes as error:
                # A server that was reached before may return; an address that never worked is
                # wrong.
                if clock.time() > deadline or not self._identity:
                    kind = LogAway if isinstance(error, LogAway) else LogError
                    raise kind(str(error)) from error
            await asyncio.sleep(_PAUSE_S)

    async def _rows(self, statement: str, values: Values, *, renews: bool = False) -> list[Row]:
        """Returns the rows of one statement, in a transaction of its own.

        Raises:
            OutcomeUnknown: The connection broke (as `_Lost`).
            LogError: The server refuses.
        """
        for attempt in range(_ATTEMPTS):
            async with self._connection(renews=renews) as db:
                try:
                    with self._patience(db, _RENEW_S if renews else 0):
                        return await (await db.execute(statement.encode(), values)).fetchall()
                except psycopg.Error as error:
                    if db.closed:
                        await self._drop(db)
                        # Reads are repeated (`_fetch`); a write may have happened, so the caller
                        # must determine that.
                        raise _Lost(str(outcome_unknown(error, self.name))) from error
                    if error.sqlstate not in RETRYABLE or attempt == _ATTEMPTS - 1:
                        raise explain(error, self.name) from error
            await asyncio.sleep(_PAUSE_S * attempt)
        raise AssertionError("unreachable")

    async def _alone(self, statement: str, values: Sequence[Any], disk: bool) -> Row:
        if disk and self._weak:
            # Only the writer can turn synchronous_commit on for one transaction.
            write = _Write(b"", statement, values, disk)
            self._queue.append(write)
            self._take()
            return await write.done
        rows = await self._patiently(lambda: self._rows(statement, values), (LogAway,))
        return rows[0]

    async def _read_all(self) -> None:
        """Runs the queued queries, many keys at once, until none is left."""
        batch: list[_Read] = []
        try:
            while self._questions:
                batch = list(self._questions)
                self._questions.clear()
                await self._read_batch(batch)
        except BaseException as error:
            batch += self._questions
            self._questions.clear()
            _refuse(batch, LogError(f"the log stopped: {error!r}"))
            raise
        finally:
            self._reading = None

    async def _read_batch(self, batch: Sequence[_Read]) -> None:
        runs = list({read.run for read in batch})
        try:
            rows = await self._fetch(_INBOX, (runs,))
        except LogError as error:
            _refuse(batch, error)
            return
        inboxes: dict[bytes, list[Row]] = {run: [] for run in runs}
        for run, *row in rows:
            inboxes[run].append(tuple(row))
        _tell_all([(read, inboxes[read.run]) for read in batch])

    async def _write_all(self) -> None:
        """Writes the queue, one transaction per batch, until it is empty."""
        batch: list[_Write] = []
        try:
            while self._queue:
                batch = [self._queue.popleft() for _ in range(min(len(self._queue), _BATCH))]
                await self._write_batch(batch)
        except BaseException as error:
            # It is unknown whether the batch was committed; the writes still queued were not sent.
            # One by one: others may be queued during this, and none may be forgotten.
            while self._queue:
                batch.append(self._queue.popleft())
            _refuse(batch, OutcomeUnknown(f"the log stopped: {error!r}"))
            raise
        finally:
            self._writing = None

    async def _write_batch(self, batch: list[_Write]) -> None:
        try:
            await self._patiently(lambda: self._transact(batch), (LogAway,))
        except _Undone as error:
            # Nothing of it happened: single transactions show which write was at fault.
            if len(batch) == 1 and not error.again:
                _refuse(batch, explain(error.cause, self.name))
                return
            # In order: two writes to one run must not overtake each other.
            for write in batch:
                await self._write_one(write)
        except LogError as error:
            _refuse(batch, error)

    async def _write_one(self, write: _Write) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                await self._transact([write])
                return
            except _Undone as error:
                if not error.again or attempt == _ATTEMPTS - 1:
                    _refuse([write], explain(error.cause, self.name))
                    return
                await asyncio.sleep(_PAUSE_S * attempt)
            except LogError as error:
                _refuse([write], error)
                return

    async def _transact(self, batch: list[_Write]) -> None:
        """Performs all writes of the batch in one transaction.

        Raises:
            _Undone: The server refused one, so none happened.
            OutcomeUnknown: The connection broke.
            LogError: There is no connection.
        """
        # A connection of its own, so that writes do not wait for reads.
        if self._writer is None or self._writer.closed:
            self._writer = await self._connect()
        db = self._writer
        try:
            with self._patience(db):
                rows = await self._sent(db, batch)
        except psycopg.Error as error:
            # The server rolled back and reported why; on a broken connection the outcome is
            # unknown.
            if not db.closed and db.info.transaction_status == _AT_REST:
                raise _Undone(error) from error
            self._writer = None
            await self._drop(db)
            raise outcome_unknown(error, self.name) from error
        # After the commit: until then none of them has happened.
        _tell_all(rows)

    async def _sent(self, db: Connection, batch: list[_Write]) -> list[tuple[_Write, Row]]:
        """Returns each write with its result."""
        disk = self._weak and any(write.disk for write in batch)
        calls = list(_calls(batch))
        if len(calls) == 1 and not disk:
            ((writes, statement, values),) = calls
            cursor = await db.execute(statement.encode(), values)
            return list(zip(writes, await cursor.fetchall(), strict=True))
        # All statements are sent and answered at once: one round trip for a whole batch.
        async with db.pipeline(), db.transaction():
            if disk:
                await db.execute("set local synchronous_commit = on")
            cursors = [
                (writes, await db.execute(statement.encode(), values))
                for writes, statement, values in calls
            ]
        return [
            pair
            for writes, cursor in cursors
            for pair in zip(writes, await cursor.fetchall(), strict=True)
        ]

    async def _send_all(self) -> None:
        """Sends queued broadcasts, all waiting ones in one transaction."""
        try:
            while self._messages:
                messages = list(self._messages)
                self._messages.clear()
                await self._rows(_BROADCAST, (messages,))
        except LogError as error:
            self._messages.clear()
            _logger.info("a broadcast was lost: %s", error)
        finally:
            self._sending = False

    async def _listen(self) -> None:
        while True:
            db: Connection | None = None
            try:
                db = await self._connect()
                with self._patience(db):
                    row = await (await db.execute("select taofold_channel()")).fetchone()
                    channel = row[0] if row else ""
                    await db.execute(f'listen "{channel}"'.encode())
                    await db.execute(f'listen "{channel}_live"'.encode())
                # From now on changes are received; earlier ones may have been missed.
                self._tell(self._listeners, "")
                async for notice in db.notifies():
                    if notice.channel == channel:
                        run = bytes.fromhex(notice.payload).decode("utf-8", "replace")
                        self._tell(self._listeners, run)
                    else:
                        self._tell(self._broadcast_listeners, notice.payload)
            except (LogError, psycopg.Error) as error:
                _logger.info("changes of the log are not notified now, trying again: %s", error)
            finally:
                if db is not None:
                    with suppress(psycopg.Error):
                        await db.close()
            await asyncio.sleep(_RELISTEN_S)

    def _tell(self, listeners: list[Listener], message: str) -> None:
        for listener in list(listeners):
            try:
                listener(message)
            except Exception:
                _logger.exception("a listener of changes failed")


_AT_REST: Final = psycopg.pq.TransactionStatus.IDLE


class _Lost(OutcomeUnknown):
    """The connection broke while a statement was running."""


class _Undone(Exception):
    """The server rolled back a transaction. `again`: only because of another one."""

    def __init__(self, cause: psycopg.Error) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.again = cause.sqlstate in RETRYABLE


_inherited: Final[list[object]] = []
"""Connections of a parent process: a child never closes them, because they are shared."""


def _run(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


def _let_go(process: int, loop: asyncio.AbstractEventLoop, connections: set[Connection]) -> None:
    """Closes the connections of a database that was not closed."""
    if process != os.getpid() or loop.is_closed():
        return
    for connection in connections:
        connection.pgconn.finish()
    with suppress(RuntimeError):  # it was closed just now
        loop.call_soon_threadsafe(loop.stop)


def _calls(batch: list[_Write]) -> Iterator[tuple[list[_Write], str, Values]]:
    """Yields the statements of a batch, in the order of locks, each with its writes."""
    ordered = sorted(batch, key=lambda write: write.order)
    for statement, group in groupby(ordered, key=lambda write: write.statement):
        writes = list(group)
        if callable(statement):
            try:
                text, values = statement([write.values for write in writes])
            except (struct.error, TypeError, ValueError) as error:
                # As if the server refused a value: then each write is tried alone.
                raise psycopg.DataError(f"a value cannot be written: {error}") from error
            yield writes, text, values
        else:
            yield from (([write], statement, write.values) for write in writes)


def _refuse(batch: Sequence[_Call[Any]], error: LogError) -> None:
    _tell_all([(call, type(error)(str(error))) for call in batch])


def _tell_all(outcomes: Sequence[tuple[_Call[Any], Any]]) -> None:
    """Delivers the outcomes of calls, a result or a `LogError`.

    Each loop is woken once for all of them.
    """
    loops: dict[asyncio.AbstractEventLoop, list[tuple[_Call[Any], Any]]] = {}
    for call, outcome in outcomes:
        loops.setdefault(call.done.get_loop(), []).append((call, outcome))
    for loop, finished_calls in loops.items():
        with suppress(RuntimeError):  # the callers' loop has been closed
            loop.call_soon_threadsafe(_settle, finished_calls)


def _settle(outcomes: Sequence[tuple[_Call[Any], Any]]) -> None:
    for call, outcome in outcomes:
        if call.done.done():
            continue
        if isinstance(outcome, LogError):
            call.done.set_exception(outcome)
        else:
            call.done.set_result(outcome)


async def _waited(done: "asyncio.Future[Any]") -> None:
    """Waits for `done`, even if the caller is cancelled, because a running write has an outcome.

    The cancellation is delivered afterwards.
    """
    cancelled = False
    while not done.done():
        try:
            # Unlike `shield` it does not raise the exception of `done`, which is for the caller.
            await asyncio.wait([done])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        _cancel_later()


def _finish(done: "asyncio.Future[None]") -> None:
    if not done.done():
        done.set_result(None)


def _cancel_later() -> None:
    """Delivers a cancellation that was held back during a write, at the next await."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()  # it is counted again
        task.cancel()
