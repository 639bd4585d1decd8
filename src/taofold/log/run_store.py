"""`Store`: the state of one run, its records, and its listeners.

`dispatch` changes `state`, with an event or a Redux-style function of the run's data. `rewind`
dispatches that later records no longer count, `travel` only returns an earlier state, and `restore`
adds records that the log already holds. With a log, the records of a store become durable at
`flush`, and only then reach the listeners, so none receives an event that a crash could undo. Blobs
are written along. Time enters here, through `now`, beside a monotonic clock: a run's active time is
counted, without the time of answers (`idle`) and without jumps of the clock. Knows nothing about
strategies, models or tools.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, Final, TypeAlias, cast

from msgspec.structs import replace

from taofold.clocks import clock, lap
from taofold.core import events as e
from taofold.core.errors import ConfigError, LogError
from taofold.core.json_values import is_finite
from taofold.core.state import IDLE, RunState, fold, reduce
from taofold.foreign_code import contained
from taofold.log.log import Log

Listener: TypeAlias = Callable[[e.Record], None]
ActionFunction: TypeAlias = Callable[[dict[str, Any]], tuple[str, Any] | None]
"""A Redux-style action: a pure function of the state's data to a `(key, value)` update."""


DRIFT_MS: Final = 250
"""Milliseconds by which record times may deviate from a steady clock before an event records it."""


class _Write:
    """A running write: its content, and whether it is over and succeeded."""

    def __init__(self, records: list[e.Record], blobs: dict[str, bytes]) -> None:
        self.records, self.blobs = records, blobs
        self.over = self.written = False
        self._ended: asyncio.Event | None = None
        """Created by the waiter: for most writes only their own flush waits."""

    def end(self) -> None:
        """Marks the write as over, successful or not."""
        self.over = True
        if self._ended is not None:
            self._ended.set()

    async def wait(self) -> None:
        """Waits until it is over."""
        if not self.over:
            self._ended = self._ended or asyncio.Event()
            await self._ended.wait()


class Store:
    """The state of a run as a fold of its records.

    Args:
        initial: Data before the first record.
        run: The id of the run.
        log: The log that `flush` writes to; None keeps everything in memory.
        epoch: The fencing token of the run's owner.
        head: The sequence number of the next record.
        now: A clock in milliseconds since the epoch.
        passed: A monotonic clock in milliseconds. Default: the machine's, or `now` if that is
            another one.

    Example:
        ```python
        from taofold import Store

        store = Store({"count": 1})
        store.dispatch(lambda data: ("count", data["count"] + 1))
        print(store.state.data["count"], store.travel(-1).data["count"])  # 2 1
        ```
    """

    def __init__(
        self,
        initial: Mapping[str, Any] | None = None,
        *,
        run: str = "store",
        log: Log | None = None,
        epoch: int = 0,
        head: int = 0,
        now: Callable[[], int] = clock,
        passed: Callable[[], int] | None = None,
    ) -> None:
        self._initial = RunState(data=dict(initial or {}))
        self.state = self._initial
        self.run, self.epoch, self.head = run, epoch, head
        self._log, self._now = log, now
        self._lap = passed or (lap if now is clock else now)
        self._mark, self._drift = self._lap(), 0
        """The time of the last count, and the lag of the records' times."""
        self._idle = 0
        self.records: list[e.Record] = []
        self._unsaved: list[e.Record] = []
        self._disk = False
        """True if the next flush must survive a power failure."""
        self._writing: deque[_Write] = deque()
        self._failure: LogError | None = None
        """The error of a failed write: the store must not be used after it."""
        self._blobs: dict[str, bytes] = {}
        self._listeners: list[Listener] = []

    @property
    def log(self) -> Log | None:
        """The log that `flush` writes to."""
        return self._log

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Calls a listener with every record from now on.

        Args:
            listener: Called with each record.

        Returns:
            A function that ends the subscription.
        """
        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def dispatch(self, action: e.Event | ActionFunction, *, name: str = "") -> e.Record | None:
        """Records an event, or runs an action and records its update (None: no update).

        An action gets a copy of the data, so it cannot change the state by accident; if it raises,
        nothing is recorded and the error is raised to the caller.

        Args:
            action: An event, or a function of the data that returns `(key, value)` or None.
            name: The name of the action in the log. Default: the function's name.

        Raises:
            ConfigError: The action returned anything else, or a value that is not JSON.
        """
        if not isinstance(action, e.Happened):
            update = action(deepcopy(dict(self.state.data)))
            if update is None:
                return None
            key, value = _check_update(update)
            action = e.Updated(
                name=key, value=value, action=name or getattr(action, "__name__", "")
            )
        return self.record(cast("e.Event", action))

    def record(self, event: e.Event) -> e.Record:
        """Records an event."""
        # Times in a log never run backwards, even if the machine's clock does.
        state = self.state
        at, last = self._now(), state.at
        if at < last:
            at = last
        # Both clocks are read at every event, or work between two events would count for neither.
        mark = self._lap()
        if event.timed and state.status not in IDLE:
            if self._idle and not event.derived:
                self._mark = mark  # a message to a run that waits for an answer
            self._drift += mark - self._mark - (at - last)
            if not -DRIFT_MS <= self._drift <= DRIFT_MS:
                event = self._timed(event, at - last)
        else:
            # Waiting is no activity: the count restarts at the next activity.
            self._drift = 0

        self._mark = mark
        record = e.Record(self.run, self.head, at, event)
        self.head += 1
        self.restore(record)
        if self._log is None:
            self._tell((record,))
            return record
        self._unsaved.append(record)
        if event.disk:
            # One such event makes the whole flush wait for the disk: they are written together.
            self._disk = True
        return record

    @contextmanager
    def idle(self) -> Generator[None]:
        """Marks a block as idle although the run does not wait: an approver is deciding.

        Time before records of other branches is their activity, and counts.
        """
        begun = self._lap()
        self._idle += 1
        try:
            yield
        finally:
            self._idle -= 1
            self._mark += self._lap() - max(begun, self._mark)

    def _timed(self, event: e.Event, apparent: int) -> e.Event:
        """Returns `event` with its own duration: the records' times (`apparent` ms) are wrong.

        Deviations below `DRIFT_MS` were accumulated and are included.
        """
        elapsed = max(0, apparent + self._drift)
        self._drift -= elapsed - apparent
        return replace(event, elapsed=elapsed)

    def restore(self, record: e.Record) -> None:
        """Adds a record that the log already holds."""
        self.records.append(record)
        if type(record.event) is e.Rewound:
            self.state = fold(self.records, self._initial)
        else:
            self.state = reduce(self.state, record)

    def announce(self, record: e.Record) -> None:
        """Adds a record that was written with the run itself, and notifies the listeners."""
        self.restore(record)
        self._tell((record,))

    def keep(self, digest: str, content: bytes) -> None:
        """Writes `content` to the log's blobs with the next flush."""
        self._blobs[digest] = content

    async def blob(self, digest: str) -> bytes:
        """Returns the content with this digest, written or pending.

        Raises:
            LogError: There is none.
        """
        # A blob may be needed before its flush is over, for example by the next model call.
        for blobs in (self._blobs, *[write.blobs for write in self._writing]):
            if digest in blobs:
                return blobs[digest]
        if self._log is None:
            raise LogError(f"no blob {digest!r}: this store has no log")
        return await self._log.blob(digest)

    async def flush(
        self,
        *,
        consume: Sequence[str] = (),
        status: str = "",
        waiting_for: str = "",
        wake_at: int = 0,
        if_quiet: bool = False,
    ) -> bool:
        """Makes everything dispatched so far durable, then notifies the listeners.

        Args:
            consume: Ids of inbox messages that are consumed with this write.
            status: The run's new status; "" keeps it.
            waiting_for: Reason for which a waiting run waits.
            wake_at: When a waiting run is due, in milliseconds since the epoch; 0 = never.
            if_quiet: Writes only if the inbox is empty.

        Returns:
            False, with nothing written, if `if_quiet` is set and the inbox is not empty.

        Raises:
            Conflict: Another owner took the run over; the store must not be used any more.
            LogError: This write or an earlier one failed, even if that error was caught.
        """
        if self._failure is not None:
            raise self._failure
        if self._log is None:
            return True
        # Earlier events may be in a concurrent flush.
        earlier, write = tuple(self._writing), None
        if self._unsaved or consume or status:
            disk, write = self._disk, _Write(self._unsaved, self._blobs)
            # Taken before the await: later events belong to the next flush.
            self._unsaved, self._disk, self._blobs = [], False, {}
            # A place in the queue now, before anything is awaited.
            self._writing.append(write)
            try:
                write.written = await self._log.append(
                    self.run,
                    self.epoch,
                    write.records,
                    disk=disk,
                    consume=consume,
                    blobs=write.blobs or None,
                    status=status,
                    waiting_for=waiting_for,
                    wake_at=wake_at,
                    if_quiet=if_quiet,
                )
            except LogError as error:
                # The first error: a later write that misses its predecessor is less informative.
                self._failure = self._failure or error
                raise self._failure  # noqa: B904 - it may be the one that is handled
            finally:
                # Neither durable nor announced. They stay in `records`: the store is unusable from
                # here on.
                if not write.written:
                    write.records = []
                write.end()
            # Synced writes return later than others, but listeners get records in order. Only from
            # the front: a later write that ended first waits for its predecessors.
            while self._writing and self._writing[0].over:
                self._tell(self._writing.popleft().records)

        for other in earlier:
            await other.wait()
            if not other.written:
                raise self._failure or LogError("a write was cut off: resume the run")
        return write is None or write.written

    def again(self, head: int) -> "Store":
        """Returns a new store of the same run, to drive it again from before `head`."""
        store = Store(
            run=self.run,
            log=self._log,
            epoch=self.epoch,
            head=head,
            now=self._now,
            passed=self._lap,
        )
        store._listeners = self._listeners
        return store

    def travel(self, seq: int) -> RunState:
        """Returns the state after a record.

        Args:
            seq: The number of the record; -1 is the state before the first.
        """
        return fold((record for record in self.records if record.seq <= seq), self._initial)

    def rewind(self, seq: int) -> RunState:
        """Returns to the state after a record; later records are kept but no longer count.

        Args:
            seq: The number of the record; -1 is the state before the first.

        Raises:
            ConfigError: There is no such record.
        """
        if not -1 <= seq < self.head:
            raise ConfigError(f"cannot rewind to {seq}: the records run from 0 to {self.head - 1}")
        self.dispatch(e.Rewound(to=seq))
        return self.state

    def _tell(self, records: Sequence[e.Record]) -> None:
        if not self._listeners:
            return
        # A copy: a listener may unsubscribe while it is called.
        for listener in tuple(self._listeners):
            for record in records:
                with contained():
                    listener(record)


def _check_update(update: object) -> tuple[str, Any]:
    if not (isinstance(update, tuple) and len(update) == 2 and isinstance(update[0], str)):  # pyright: ignore[reportUnknownArgumentType]
        raise ConfigError(f"an action returns (key, value) or None, not {update!r}")
    if not is_finite(update[1]):  # pyright: ignore[reportUnknownArgumentType]
        raise ConfigError("a run's data is JSON, which has no NaN and no Infinity")
    return update[0], update[1]  # pyright: ignore[reportUnknownVariableType]
