"""`Store`: the state of one run, the records it was folded from, and who listens.

`dispatch` changes `state`: with an event, or a Redux-style function of the run's data; `rewind`
dispatches that what came later counts no more, `travel` only looks back, `restore` takes in what
the log holds. With a log behind it the records of a store become durable at `flush`, and only then
do listeners hear of them: nobody is told of an event that a crash could take back. Blobs go along.
Time enters here, through `now`, beside a clock that nobody sets: a run's active time is counted,
without what a person took to answer (`idle`) and without jumps of the clock. Knows nothing about
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
"""How far the times of records may stray from a steady clock before an event says so."""


class _Write:
    """A write under way: what it holds, and whether it is over and happened."""

    def __init__(self, records: list[e.Record], blobs: dict[str, bytes]) -> None:
        self.records, self.blobs = records, blobs
        self.over = self.written = False
        self._ended: asyncio.Event | None = None
        """Made by who waits: most writes are waited for by nobody but their own flush."""

    def end(self) -> None:
        """It is over, written or not."""
        self.over = True
        if self._ended is not None:
            self._ended.set()

    async def wait(self) -> None:
        """Until it is over."""
        if not self.over:
            self._ended = self._ended or asyncio.Event()
            await self._ended.wait()


class Store:
    """State as a fold of records. `head` is the sequence number that the next one gets.

    >>> store = Store({"count": 1})
    >>> _ = store.dispatch(lambda data: ("count", data["count"] + 1))
    >>> store.state.data["count"], store.travel(-1).data["count"]
    (2, 1)
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
        """When time was last counted, and by how much the records' times lag behind."""
        self._idle = 0
        self.records: list[e.Record] = []
        self._unsaved: list[e.Record] = []
        self._disk = False
        """Must the next flush survive a power cut?"""
        self._writing: deque[_Write] = deque()
        self._failure: LogError | None = None
        """Of a write: this store is worthless from then on."""
        self._blobs: dict[str, bytes] = {}
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every record from now on. Returns the way to stop it."""
        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def dispatch(self, action: e.Event | ActionFunction, *, name: str = "") -> e.Record | None:
        """Record an event, or run an action and record its update (None: no update).

        An action sees a copy of the data, so it cannot change the state by accident;
        if it raises, nothing is recorded and the error is the caller's.
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
        """Record an event."""
        # Times in a log never run backwards, whatever the machine's clock does.
        state = self.state
        at, last = self._now(), state.at
        if at < last:
            at = last
        # Both clocks are read at every event, or what was done between two would count as neither.
        mark = self._lap()
        if event.timed and state.status not in IDLE:
            if self._idle and not event.derived:
                self._mark = mark  # a message to a run that a person holds up
            self._drift += mark - self._mark - (at - last)
            if not -DRIFT_MS <= self._drift <= DRIFT_MS:
                event = self._timed(event, at - last)
        else:
            # Waiting is no activity: the count begins anew where somebody acts again.
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
        """Nobody is active in this block, though the run does not wait: a person thinks.

        Time before what other branches record meanwhile was theirs, and counts.
        """
        begun = self._lap()
        self._idle += 1
        try:
            yield
        finally:
            self._idle -= 1
            self._mark += self._lap() - max(begun, self._mark)

    def _timed(self, event: e.Event, apparent: int) -> e.Event:
        """`event`, which says how long it took: the records' times (`apparent` ms) do not.

        What is below `DRIFT_MS` was added up, and is not lost either.
        """
        elapsed = max(0, apparent + self._drift)
        self._drift -= elapsed - apparent
        return replace(event, elapsed=elapsed)

    def restore(self, record: e.Record) -> None:
        """Take in a record that the log already holds."""
        self.records.append(record)
        if type(record.event) is e.Rewound:
            self.state = fold(self.records, self._initial)
        else:
            self.state = reduce(self.state, record)

    def announce(self, record: e.Record) -> None:
        """Take in a record that was written with the run itself, and tell the listeners."""
        self.restore(record)
        self._tell((record,))

    def keep(self, digest: str, content: bytes) -> None:
        """Write `content` to the log's blobs with the next flush."""
        self._blobs[digest] = content

    async def blob(self, digest: str) -> bytes:
        """The content with this digest, written or about to be.

        Raises:
            LogError: there is none.
        """
        # A blob may be asked for before its flush is over, as by the next model call.
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
        """Make everything dispatched so far durable, then tell the listeners.

        Returns False, with nothing written, if `if_quiet` and the inbox is not empty.

        Raises:
            Conflict: another owner took the run over; this store is worthless now.
            LogError: this write or an earlier one failed, whoever caught the error of that.
        """
        if self._failure is not None:
            raise self._failure
        if self._log is None:
            return True
        # What was dispatched before may be on its way in the flush of somebody else.
        earlier, write = tuple(self._writing), None
        if self._unsaved or consume or status:
            disk, write = self._disk, _Write(self._unsaved, self._blobs)
            # Taken before the await: what is dispatched meanwhile belongs to the next flush.
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
                # What failed first: a write that then misses the one before it says less.
                self._failure = self._failure or error
                raise self._failure  # noqa: B904 - it may be the one that is handled
            finally:
                # Neither on disk nor to be told of. They stay in `records`: this store is worthless
                # from here on.
                if not write.written:
                    write.records = []
                write.end()
            # Who syncs to disk comes back later than who does not: listeners hear in order.
            # Only from the front: a later write that ended first waits for those before it.
            while self._writing and self._writing[0].over:
                self._tell(self._writing.popleft().records)

        for other in earlier:
            await other.wait()
            if not other.written:
                raise self._failure or LogError("a write was cut off: resume the run")
        return write is None or write.written

    def again(self, head: int) -> "Store":
        """A fresh store of the same run, to re-drive it from a log that ends before `head`."""
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
        """The state as it was after record `seq` (-1: before the first)."""
        return fold((record for record in self.records if record.seq <= seq), self._initial)

    def rewind(self, seq: int) -> RunState:
        """Go back to the state after record `seq`; what came later is kept but no longer counts."""
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
