"""Runs: start, resume, advance and replay drive a run; begin, fork, rewind and reopen only write to
the log, for a later drive.

Engines call only `advance`; `reopen` prepares an ended run for it. `start`, `resume` and `advance`
hold the lease while they drive a run, and record its end: a run ends in exactly one `RunFinished`,
or waits as rows in the log. Events up to the last flush survive any end of the process.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from os import urandom
from time import time_ns
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.effects import Strategy
from taofold.core.errors import (
    Conflict,
    LogError,
    Refused,
    ReplayDiverged,
)
from taofold.core.state import ENDED, RunState, ending, fold, is_at_work, live, reduce
from taofold.foreign_code import contained
from taofold.log.log import AT_ONCE, Log, RunRow
from taofold.log.run_store import Store
from taofold.policy.redaction.views import shown_value
from taofold.runtime import ownership
from taofold.runtime.control import asking, pending_in
from taofold.runtime.drive import Drive
from taofold.runtime.endings import (
    MORE,
    MOST_LOST,
    REOPENED,
    RESUMABLE,
    Advanced,
    Finished,
    More,
    Waiting,
    failed,
    from_world,
    interrupted,
    is_due,
    wake_time,
    worn_out,
)
from taofold.runtime.inbox import Inbox
from taofold.runtime.ownership import HEART, LEASE_MS, SILENT_S
from taofold.runtime.record_order import misplaced
from taofold.runtime.recording import Recording, ReplayedRecording
from taofold.runtime.setup import Setup
from taofold.runtime.step_files import check_place
from taofold.tools import Tool

TITLE: Final = "title"
"""The key of `RunStarted.settings` whose text replaces the goal in lists of runs."""


def new_id() -> str:
    """Returns a new run id that sorts by time."""
    # 48 bits of time and 32 random bits, in hex. The first digit is 0 until the year 2527 and is
    # dropped.
    milliseconds = time_ns() // 1_000_000
    return (milliseconds.to_bytes(6) + urandom(4)).hex()[1:]


def last_complete_step(records: Sequence[e.Record], at: int | None = None) -> int:
    """Returns the last sequence number <= `at` at which a step was complete (0: only the start)."""
    state, best = RunState(), 0
    for record in live(records):
        if at is not None and record.seq > at:
            break
        before = len(state.steps)
        state = reduce(state, record)
        # Not in the middle of a fork: a step of another branch may be open, and a copy cut there
        # could not continue in the same way.
        if len(state.steps) > before and not state.open:
            best = record.seq
    return best


_OF_THE_SOURCE: Final = (e.Resumed, e.Parked, e.Rewound, e.Compensated)


def copy_records(records: Sequence[e.Record], upto: int, run: str, now: int) -> list[e.Record]:
    """Returns the live records up to `upto` under a new run id, and the `Forked` event."""
    remaining = [
        record
        for record in live(records)
        # These concern the source's activations, not the copy: a fork was never parked.
        if record.seq <= upto and not isinstance(record.event, _OF_THE_SOURCE)
    ]
    spent = _active(records)
    new: list[e.Record] = []
    active, at = 0, min(remaining[0].at, now) if remaining else now
    for seq, record in enumerate(remaining):
        # A clock may have been ahead. The copy must not spend in the future, beyond its budgets.
        then = min(record.at, now)
        # If a wait was left out, the times of the kept records would count it as activity.
        event, apparent = record.event, max(0, then - at)
        passed, active, at = spent[record.seq] - active, spent[record.seq], then
        timed = event if passed == apparent else replace(event, elapsed=max(0, passed))
        new.append(e.Record(run, seq, then, timed))
    new[:1] = [replace(record, event=_of_fork(record.event, remaining)) for record in new[:1]]
    source = records[0].run
    new.append(e.Record(run, len(new), now, e.Forked(run=source, seq=upto)))
    return new


def _active(records: Sequence[e.Record]) -> dict[int, int]:
    """Returns the milliseconds of activity up to each live record, by its number."""
    state, spent = RunState(), dict[int, int]()
    for record in live(records):
        state = reduce(state, record)
        spent[record.seq] = state.active_ms
    return spent


def _of_fork(event: e.Event, copied_records: Sequence[e.Record]) -> e.Event:
    """Returns a run's start for its copy: for an import, with the number of copied records."""
    if not isinstance(event, e.RunStarted) or event.imported is None:
        return event
    # Dropped records make the import's share smaller; the mark must not cover later records.
    came = sum(record.seq < event.imported.events for record in copied_records)
    return replace(event, imported=replace(event.imported, events=came))


MakeStrategy: TypeAlias = Callable[[], Strategy[Any]]

NEWS = 20
"""Maximum number of drives in one activation before it waits with unread messages."""
_LOOK_S = 0.25


async def begin(
    log: Log,
    started: e.RunStarted,
    run: str,
    setup: Setup,
    blobs: Mapping[str, bytes] = {},
    restored: e.Restored | None = None,
) -> tuple[int, list[e.Record]]:
    """Creates run `run` in the log; returns the epoch of this process's ownership, and its records.

    The caller drives the run next, or has it driven. If its process ends before that, others find
    the run with the media of its goal (`blobs`, digest to bytes).

    Raises:
        Conflict: The id is taken, or the session has another run that has not ended.
    """
    first: list[e.Event] = [started] if restored is None else [started, restored]
    records = [e.Record(run, seq, setup.now(), event) for seq, event in enumerate(first)]
    return await _register(log, row_of(records[0], started), records, blobs), records


def row_of(first: e.Record, started: e.RunStarted) -> RunRow:
    """Returns the row of a new run whose first record is `first`.

    The row serves lists of runs; the record holds all that the run needs to continue.
    """
    # Guessed secrets are masked before the text is cut: a cut secret could not be recognised.
    title = str(started.settings.get(TITLE) or started.goal)[:2000]
    return RunRow(
        run=first.run,
        status="running",
        goal=shown_value(title)[:500],
        agent=started.agent,
        session=started.session,
        parent=started.parent,
        principal=started.principal.id,
        created_at=first.at,
        updated_at=first.at,
        tags=started.tags,
    )


async def start(
    log: Log,
    started: e.RunStarted,
    run: str,
    strategy: MakeStrategy,
    setup: Setup,
    blobs: Mapping[str, bytes] = {},
    restored: e.Restored | None = None,
) -> Store:
    """Creates run `run` and drives it until it ends or waits. `blobs` are the media of its goal.

    `restored` is recorded with its start: the files with which it begins.

    Raises:
        Conflict: The id is taken, or the session has another run that has not ended.
    """
    epoch, records = await begin(log, started, run, setup, blobs, restored)
    with HEART.driving(log, run):
        # `create` has written the records in the same transaction as the row.
        store = Store(run=run, log=log, epoch=epoch, head=len(records), now=setup.now)
        for listener in setup.listeners:
            store.subscribe(listener)
        try:
            for record in records:
                store.announce(record)
        except Exception as error:  # from a listener: the announced record is written all the same
            await _fail(store, error, setup)
            raise
        return await _activate(log, store, Recording([], store), strategy, setup)


async def _register(
    log: Log, row: RunRow, records: Sequence[e.Record], blobs: Mapping[str, bytes]
) -> int:
    """Creates the run with its first records, owned by this process; returns its epoch."""
    # Row, first records and lease are one transaction: a crash leaves all of the run or none.
    claim = await log.create(
        row, records=records, blobs=blobs, owner=ownership.me(), lease_ms=LEASE_MS
    )
    return claim.epoch


async def resume(
    log: Log, run: str, strategy: MakeStrategy, setup: Setup, *, takeover: bool = False
) -> Store:
    """Continues `run` from the end of its log.

    Raises:
        UnknownRun: There is no such run.
        Refused: The run has ended in a way that cannot be resumed.
        Conflict: Another process drives it, its lease holds, and `takeover` is not set.
        ReplayDiverged: This code would act differently from the record.
    """
    row = await log.row(run)
    if row.status in ENDED:
        # Its end is in the last record, so a long run need not be read to refuse it. Only records
        # with a larger number than this are read, that is, the last one.
        last = await log.read(run, after=row.events - 2)
        _resumable(run, fold(last))
    with HEART.driving(log, run):
        if not takeover:
            # An expired lease proves nothing if this machine's clock jumped: wait and check again.
            row = await _silent(log, row)
        return await _claim_and_drive(log, row, strategy, setup, takeover=takeover)


async def _silent(log: Log, row: RunRow) -> RunRow:
    """Returns the row after a live owner has had time to renew an expired lease."""
    clock = asyncio.get_running_loop().time
    until = clock() + SILENT_S
    while row.status == "running" and not (row.held or _left(row)) and clock() < until:
        await asyncio.sleep(min(_LOOK_S, SILENT_S))
        row = await log.row(row.run)
    return row


async def reopen(log: Log, run: str) -> None:
    """Makes a run that was cancelled, interrupted or has failed continue at its next `advance`.

    A run that has not ended is left unchanged.

    Raises:
        Refused: It has ended in a way that cannot be resumed.
        Conflict: Another process claimed it first.
    """
    row = await log.row(run)
    if row.status not in ENDED:
        return
    _resumable(run, fold(await log.read(run, after=row.events - 2)))
    claim = await log.claim(run, "", epoch=row.epoch)
    await log.append(
        run, claim.epoch, [], disk=True, status="waiting", waiting_for=REOPENED, wake_at=AT_ONCE
    )


async def advance(log: Log, run: str, strategy: MakeStrategy, setup: Setup) -> Advanced:
    """Does everything that can be done for `run` now. The one function that an engine calls.

    It may be called at any time, by any process, any number of times. An ended run stays ended, a
    run waiting for an answer keeps waiting, and a run driven by another process is left to it.

    Raises:
        UnknownRun: There is no such run.
        ReplayDiverged: This code would act differently from the record.
    """
    # Read-only until it is certain that something can be done: engines poll this.
    row = await log.row(run)
    if row.status in ENDED:
        return Finished(run, row.status)
    if row.held and not _free(log, row):
        return Waiting(run, "driven", row.lease_until)
    # A child run may be due before its parent, which then waits for it: the parent is driven.
    wake_at = await _wake_at(log, row)
    if not is_due(row, wake_at, setup.now()):
        return Waiting(run, row.waiting_for, wake_at)
    try:
        async with _apart(log, row) as passed:
            with HEART.driving(log, run):
                await _claim_and_drive(log, row, strategy, setup, takeover=False, passed=passed)
    except Conflict:
        # The row is read again below: it shows the run's status after the other process.
        pass  # another process claimed it first, or took it over

    row = await log.row(run)
    if row.status in ENDED:
        return Finished(run, row.status)
    if row.waiting_for == MORE:
        return More(run)
    if row.status == "running":
        return Waiting(run, "driven", row.lease_until)
    return Waiting(run, row.waiting_for, await _wake_at(log, row))


async def _wake_at(log: Log, row: RunRow) -> int:
    """Returns when a waiting run or one of its children is due first; 0 = at a message."""
    if row.status != "waiting":
        return 0
    children = await log.rows(parent=row.run, status="waiting", limit=0)
    # 0 means no time at all, so it is no minimum.
    times = [row.wake_at, *[await _wake_at(log, child) for child in children]]
    return min(filter(None, times), default=0)


def _resumable(run: str, state: RunState) -> None:
    if state.status in ENDED and state.stop_reason not in RESUMABLE:
        raise Refused(
            f"run {run!r} ended as {state.status} ({state.stop_reason}): fork it to try another way"
        )


def _free(log: Log, row: RunRow) -> bool:
    """Returns whether the run certainly has no driver, even if its lease holds."""
    if ownership.mine(row.owner):
        return not HEART.drives(log, row.run)
    return ownership.gone(row.owner)


def _left(row: RunRow) -> bool:
    """Returns whether the run's last driver has left it. Called inside `HEART.driving`.

    No other call of this process drives it then, so a run of this process was left by an earlier
    call.
    """
    return ownership.mine(row.owner) or ownership.gone(row.owner)


_SUSPECTS: Final = WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]()
"""For each event loop: held by the one running run that may end its process."""


@asynccontextmanager
async def _apart(log: Log, row: RunRow) -> AsyncGenerator[Callable[[e.Record], None]]:
    """Lets only one of the runs that may end this process be driven at a time.

    When a process ends, all its runs look alike: the one that ended it, and those beside it. A run
    that was interrupted almost as often as is allowed waits here until no other suspect is driven.
    Yields a listener of its records: with the first result another suspect may begin.
    """
    # A run that has only begun was interrupted once at most.
    if row.events < 2 or not _was_cut_off(row) or _worst(await log.read(row.run)) < MOST_LOST - 1:
        yield lambda record: None
        return
    lock = _SUSPECTS.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    await lock.acquire()
    is_held = True

    def release(record: e.Record | None = None) -> None:
        nonlocal is_held
        if is_held and (record is None or isinstance(record.event, e.Replied | e.Observed)):
            is_held = False
            lock.release()

    try:
        yield release
    finally:
        release()


def _was_cut_off(row: RunRow) -> bool:
    """Returns whether the last owner recorded no end, as after a kill."""
    return row.status == "running" and row.lease_until > 0


def _worst(records: Sequence[e.Record]) -> int:
    """Returns the number of interruptions at the run's current place, including the last one."""
    opened = fold(records).open.values()
    calls = [slot.lost + 1 for step in opened for slot in step.slots if is_at_work(slot)]
    return max([_deaths(records), *calls])


async def _claim_and_drive(
    log: Log,
    row: RunRow,
    strategy: MakeStrategy,
    setup: Setup,
    *,
    takeover: bool,
    passed: Callable[[e.Record], None] | None = None,
) -> Store:
    """Claims the run, reads its log and drives it."""
    run, free = row.run, _left(row)
    if row.held and not free and not takeover:
        raise Conflict(
            f"run {run!r} is being driven by {ownership.described(row.owner)}: wait until its "
            "lease is over, or take it over if you know that it is stuck"
        )

    # Only a worker that taofold spawned is killed; for any other owner the epoch is enough.
    if row.status == "running" and not free:
        ownership.kill(row.owner)
    # `epoch` is that of the row: if another process claimed since, this raises and changes nothing.
    claim = await log.claim(
        run, ownership.me(), epoch=row.epoch, lease_ms=LEASE_MS, force=free or takeover
    )
    records = await log.read(run)
    state = fold(records)
    try:
        _resumable(run, state)  # its owner may have ended it between the check and the claim
        check_place(run, records, setup)
    except Refused:
        # The claim set the row to running: it is restored.
        ended = state.status in ENDED
        status, waiting_for = (state.status, "") if ended else ("waiting", row.waiting_for)
        await log.append(run, claim.epoch, [], status=status, waiting_for=waiting_for)
        raise

    # The store starts empty: the drive restores the records one by one as it reaches them. `head`
    # is the next number to write; the claim also fences other writers of that number.
    head = records[-1].seq + 1 if records else 0
    store = Store(run=run, log=log, epoch=claim.epoch, head=head, now=setup.now)
    for listener in setup.listeners:
        store.subscribe(listener)
    # A run that was only begun starts for the first time.
    resumed = len(records) > 1
    if passed is not None:
        store.subscribe(passed)
    # Epoch 1 of a run that was only begun is no activation.
    if state.status == "running" and _was_cut_off(row) and (row.epoch > 1 or len(records) > 1):
        for record in records:
            store.restore(record)
        if _deaths(records) >= MOST_LOST and not _delegates(state, setup):
            store.dispatch(worn_out())
            await store.flush(status="failed")
            return store
        # Recorded before anything else: code that ends the process while the past is derived again
        # must be counted, too.
        records = [*records, store.record(e.Resumed(epoch=claim.epoch))]
        await store.flush()
        store, resumed = store.again(store.head), False
    return await _activate(log, store, Recording(records, store), strategy, setup, resumed=resumed)


def _deaths(records: Sequence[e.Record]) -> int:
    """Returns the number of consecutive activations that ended without new records, up to now."""
    epochs: set[int] = set()
    for record in reversed(records):
        match record.event:
            case e.Resumed(epoch=epoch):
                epochs.add(epoch)
            case e.PromptChanged():
                continue
            case e.Parked() | e.RunFinished() | e.Forked() | e.Rewound():
                return len(epochs)
            case e.Restored() | e.Compensated():
                return len(epochs)
            case _:  # the last new record: its activation got no further
                return len(epochs) + 1
    return len(epochs)


def _delegates(state: RunState, setup: Setup) -> bool:
    """Returns whether a child run is active, whose own log shows its progress."""
    tools: Mapping[str, Tool] = setup.tools
    if state.agent != setup.agent and setup.successors is not None:
        tools = setup.successors.tools(state.agent)
    return any(
        is_at_work(slot)
        and (tool := tools.get(slot.action.tool)) is not None
        and tool.agent is not None
        for step in state.open.values()
        for slot in step.slots
    )


async def replay(log: Log, run: str, strategy: MakeStrategy, setup: Setup) -> RunState:
    """Derives the run again without contact with model, tools or log.

    Raises:
        ReplayDiverged: At the first event that differs.
    """
    records = await log.read(run)
    if (fault := misplaced(records)) is not None:
        record, why = fault
        key = "end" if isinstance(record.event, e.RunFinished) else getattr(record.event, "key", "")
        raise ReplayDiverged(key, record.event, f"no such event: {why}", seq=record.seq)
    store = Store(run=run, head=len(records), now=lambda: records[-1].at)
    # Without a log behind it the inbox stays empty: all user actions are on record.
    recording = ReplayedRecording(records, store)
    drive = Drive(setup, store, recording, Inbox(None, run))
    ended = fold(records)
    derived = await drive.until_end_of_tape(strategy())

    # Repeated starts and void answers are not consumed by a replay.
    surplus = [r for r in recording.tape.rest() if not isinstance(r.event, e.Resolved | e.Started)]
    # Events that this code does not produce are a divergence like events that differ.
    if surplus:
        raise ReplayDiverged(getattr(surplus[0].event, "key", ""), surplus[0].event, None)

    end = ending(records)
    if end is None:
        return ended
    recorded = end.timeless()
    if derived is not None and recording.agree(recorded, derived):
        return ended
    by_world = from_world(recorded)
    # An error that the records give has their text.
    known = derived is not None and derived.stop_reason == end.stop_reason == "error"
    if known or recorded != by_world:
        raise ReplayDiverged("end", recorded, derived or by_world)
    return ended


async def fork(
    log: Log,
    run: str,
    new: str,
    *,
    at: int | None = None,
    now: int,
    driven: bool = False,
    restored: e.Restored | None = None,
    tags: Mapping[str, str] | None = None,
) -> int:
    """Copies `run` up to the last complete step at or before `at` under the id `new`.

    `restored` is recorded in the copy: the files of its last step, restored before this call.
    `tags` are added to those of the run.
    Returns the sequence number of the cut. `resume` the new run to continue it. One that is
    `driven` belongs to this process; if it is abandoned, another process continues it.
    """
    records = await log.read(run)
    if not records:
        raise Refused(f"run {run!r} has no events")
    _require_event(run, records[-1].seq, at)
    upto = last_complete_step(records, at)
    row = await log.row(run)
    row = msgspec.structs.replace(
        row,
        run=new,
        status="running",
        created_at=now,
        updated_at=now,
        session="",
        waiting_for="",
        wake_at=0,
        tags={**row.tags, **(tags or {})},
    )
    copy = copy_records(records, upto, new, now)
    # Child runs inherit the tags of the event.
    copy[:1] = [_tagged(record, tags or {}) for record in copy[:1]]
    if restored is not None:
        copy.append(e.Record(new, len(copy), now, restored))
    await log.create(
        row,
        records=copy,
        # Created with its owner in one transaction, so that no other process starts to drive it.
        owner=ownership.me() if driven else "",
        lease_ms=LEASE_MS if driven else 0,
        disk=True,
    )
    return upto


def _tagged(record: e.Record, tags: Mapping[str, str]) -> e.Record:
    event = record.event
    if not isinstance(event, e.RunStarted):
        return record
    return replace(record, event=replace(event, tags={**event.tags, **tags}))


def _require_event(run: str, last: int, seq: int | None) -> None:
    """Raises `Refused` unless the run, whose last event is `last`, has the event `seq`."""
    if seq is not None and not 0 <= seq <= last:
        raise Refused(f"run {run!r} has no event {seq}: its events are 0 to {last}")


async def rewind(
    log: Log,
    run: str,
    *,
    to: int | None,
    now: int,
    restore: Callable[[Callable[[e.Event], Awaitable[None]]], Awaitable[None]] | None = None,
) -> int:
    """Rewinds the run to the last complete step at or before `to`. Returns its number.

    `restore` restores the files of that step, after the rewind is on record. It gets a function
    that appends events, and ends with a `Restored`. If it fails, the run is not resumed before
    another rewind.
    """
    row = await log.row(run)
    if row.held and not _free(log, row):
        raise Conflict(f"run {run!r} is being driven by {ownership.described(row.owner)}")
    _require_event(run, row.events - 1, to)
    # A claim without an owner: the epoch advances, which fences off a remaining driver.
    claim = await log.claim(run, "", epoch=row.epoch, force=_free(log, row))
    records = await log.read(run)
    upto = last_complete_step(records, to)
    seq = records[-1].seq + 1
    event = e.Record(run, seq, now, e.Rewound(to=upto))
    await log.append(run, claim.epoch, [event], disk=True, status="running")
    if restore is not None:

        async def append(event: e.Event) -> None:
            nonlocal seq
            seq += 1
            await log.append(run, claim.epoch, [e.Record(run, seq, now, event)], disk=True)

        await restore(append)
    return upto


async def _activate(
    log: Log,
    store: Store,
    recording: Recording,
    strategy: MakeStrategy,
    setup: Setup,
    *,
    resumed: bool = False,
) -> Store:
    """Drives until the run ends or waits. Frees the run for others at any early end."""
    try:
        return await _drive(log, store, recording, strategy, setup, resumed=resumed)
    except GeneratorExit:
        raise  # its event loop is gone: nothing can be awaited any more
    except BaseException:
        # BaseException: also after Ctrl-C or a cancelled task the lease must end at once.
        await asyncio.to_thread(HEART.release, log, store.run)
        raise


async def _drive(
    log: Log,
    store: Store,
    recording: Recording,
    strategy: MakeStrategy,
    setup: Setup,
    *,
    resumed: bool,
) -> Store:
    """Drives until the run ends or waits; drives again if messages arrived while it was parking.

    At the `NEWS`th time it waits all the same: the messages are read when it is resumed.
    """
    turn = 0
    while True:
        turn += 1
        inbox = Inbox(log, store.run, setup.redactor)
        drive = Drive(setup, store, recording, inbox, resumed=resumed)
        try:
            # A new generator for each drive: the old one has been consumed. Exceptions that pass
            # the guards of single calls (listeners, clients of foreign packages) end here.
            with contained():
                event = await drive.until_end(strategy())
        # The task was cancelled: a deadline, Ctrl-C, or a stopping server (then `pause` has a
        # reason).
        except asyncio.CancelledError:
            drive.live()
            with suppress(LogError):  # a write was interrupted: then the run stays open
                # The cancellation must not interrupt the write that records it.
                await asyncio.shield(_cut_off(log, store, inbox, setup.pause()))
            raise
        # Nothing may be written then: the run belongs to another process, or this code does not fit
        # it.
        except (Conflict, ReplayDiverged, LogError):
            raise
        except Exception as error:
            drive.live()
            await _fail(store, error, setup, inbox.spend())
            raise
        drive.live()
        # With `if_quiet` the log refuses to park while an unread message exists. This closes the
        # race between the last check of the inbox and the write.
        if await _write_ending(store, inbox, event, quiet=turn < NEWS):
            return store
        records = await log.read(store.run)
        # A message came between the last check and the write: drive again with all of it on record.
        store = store.again(len(records))
        recording, resumed = Recording(records, store), True


async def _cut_off(log: Log, store: Store, inbox: Inbox, reason: str) -> None:
    """Records an interruption: with a `reason` the run waits, without one it has ended.

    A run with an open question waits, too: the answer may come from another process, or later.
    """
    reason = reason or await _waiting_for_a_person(log, store)
    if reason:
        await _write_ending(store, inbox, e.Parked(reason=reason), quiet=False)
        return
    event = interrupted()
    store.dispatch(event)
    await store.flush(consume=inbox.spend(), status=event.status)


async def _waiting_for_a_person(log: Log, store: Store) -> str:
    """Returns the reason why an interrupted run waits: its open question or a child run's."""
    for request in pending_in(store.records):
        return request.waits_for
    for child in await log.rows(status="waiting", parent=store.run, limit=1):
        return child.waiting_for
    return ""


async def _write_ending(
    store: Store, inbox: Inbox, event: e.RunFinished | e.Parked, *, quiet: bool = True
) -> bool:
    """Records the end of the activation. False: a message prevented parking (`quiet`)."""
    await inbox.refresh(store)
    if isinstance(event, e.RunFinished):
        store.dispatch(event)
        return await store.flush(consume=inbox.spend(), status=event.status)
    # Late decisions are recorded as refused: no question would ever read these messages.
    open_ = asking(store.records)
    for signal in inbox.late(frozenset([request.seq for request in open_])):
        name = f"{store.run}:{signal.data.get('seq')}"
        why = "it was resolved already"
        store.dispatch(e.DecisionRefused(id=name, by=signal.by, why=why, at=signal.at))
        inbox.take(signal)

    listener_error: Exception | None = None
    if quiet:
        # Separately: if a message prevents parking, only the parking is not written, and no paid
        # reply is lost.
        try:
            await store.flush(consume=inbox.spend())
        except LogError:
            raise
        except Exception as error:  # noqa: BLE001 - raised below: the run must not seem to continue
            listener_error = error

    store.dispatch(event)
    parked = await store.flush(
        consume=inbox.spend(),
        status="waiting",
        waiting_for=event.reason,
        wake_at=wake_time(event.reason, open_, quiet=quiet),
        if_quiet=quiet and listener_error is None,
    )
    if listener_error is not None:
        raise listener_error
    return parked


async def _fail(store: Store, error: Exception, setup: Setup, spent: Sequence[str] = ()) -> None:
    store.dispatch(failed(error, setup.redactor))
    await store.flush(consume=spent, status="failed")
