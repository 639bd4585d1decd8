"""Runs: start, resume, replay, fork, rewind. Each is one way to call the drive.

A run ends in exactly one `RunFinished`, or waits as rows in the log. Whatever happens
to the process, what was dispatched before the last flush is kept.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from taofold.core import events as e
from taofold.core.effects import Answer, Halt, Strategy
from taofold.core.errors import (
    Conflict,
    LogError,
    ModelError,
    Refused,
    ReplayDiverged,
    RunError,
    UnknownRun,
)
from taofold.core.provenance import trusted
from taofold.core.state import ENDED, RunState, fold
from taofold.runtime import owner
from taofold.runtime.branch import copied, cut
from taofold.runtime.drive import Drive
from taofold.runtime.ending import cancelled, failed, finished
from taofold.runtime.inbox import Inbox
from taofold.runtime.people import asking
from taofold.runtime.setup import Setup
from taofold.runtime.signals import Cancelled, Denied, EndOfTape, Park
from taofold.runtime.tape import Tape
from taofold.store.log import Log, RunRow
from taofold.store.store import Store

MakeStrategy: TypeAlias = Callable[[], Strategy[Any]]

NEWS = 20
"""How often an activation is driven anew before it waits with unread news."""
_LIVE: set[tuple[int, str]] = set()
"""Runs that this process is driving now, by log and id."""


async def start(
    log: Log, started: e.RunStarted, run: str, strategy: MakeStrategy, setup: Setup
) -> Store:
    """Create run `run` and drive it until it ends or waits.

    Raises:
        Conflict: the id is taken, or the session has another run that has not ended.
    """
    row = RunRow(
        run=run,
        status="running",
        goal=started.goal[:500],
        agent=started.agent,
        session=started.session,
        parent=started.parent,
        principal=started.principal.id,
        created_at=(now := setup.now()),
        updated_at=now,
    )
    epoch = 0
    try:
        await log.create(row)
    except Conflict:
        left = await _abandoned(log, run)
        if left is None:
            raise
        epoch = left.epoch
    claim = await log.claim(run, owner.me(), epoch=epoch)
    store = Store(run=run, log=log, epoch=claim.epoch, now=setup.now)
    for listener in setup.listeners:
        store.subscribe(listener)
    store.dispatch(started)
    try:
        await store.flush(status="running")
    except LogError:
        raise
    except Exception as error:  # a listener's: what it was told is written all the same
        await _fail(store, error, setup)
        raise
    return await _activate(log, store, Tape(), strategy, setup)


async def resume(
    log: Log, run: str, strategy: MakeStrategy, setup: Setup, *, takeover: bool = False
) -> Store:
    """Carry on from wherever the log of `run` ends.

    Raises:
        Refused: the run has ended in a way that cannot be resumed.
        Conflict: another live process drives it and `takeover` is not set.
        ReplayDiverged: this code would do something else than what is recorded.
    """
    row = await log.row(run)
    _check_owner(log, row, takeover)
    claim = await log.claim(run, owner.me(), epoch=row.epoch)
    records = await log.read(run)
    state = fold(records)
    if state.status in ENDED and (state.status != "cancelled" and state.stop_reason != "error"):
        raise Refused(
            f"run {run!r} ended as {state.status} ({state.stop_reason}): fork it to try another way"
        )
    if not trusted(records):
        raise Refused(
            f"run {run!r} was imported by an older release, with calls that it says were decided "
            "or begun: import its file again, then what is not done is asked anew"
        )
    head = records[-1].seq + 1 if records else 0
    store = Store(run=run, log=log, epoch=claim.epoch, head=head, now=setup.now)
    for listener in setup.listeners:
        store.subscribe(listener)
    await log.append(run, claim.epoch, [], status="running")
    return await _activate(log, store, Tape(records), strategy, setup, resumed=True)


async def replay(log: Log, run: str, strategy: MakeStrategy, setup: Setup) -> RunState:
    """Re-derive the run without touching model, tools or log.

    Raises:
        ReplayDiverged: at the first event that comes out different.
    """
    records = await log.read(run)
    tape = Tape(records)
    store = Store(run=run, head=len(records), now=lambda: records[-1].at)
    drive = Drive(setup, store, tape, Inbox(None, run), exact=True)
    ended = fold(records)
    try:
        finish = finished(await drive(strategy()), setup.redactor)
    except EndOfTape:
        finish = None
    except ModelError as error:
        finish = failed(error)
    except Denied as denied:
        finish = e.RunFinished(
            status="failed", stop_reason="denied", success=False, error=denied.reason
        )
    surplus = [r for r in tape.rest() if not isinstance(r.event, e.Resolved | e.Started)]
    if surplus:
        raise ReplayDiverged(getattr(surplus[0].event, "key", ""), surplus[0].event, None)
    recorded = next(
        (r.event for r in reversed(records) if isinstance(r.event, e.RunFinished)), None
    )
    world = recorded is None or recorded.stop_reason in ("cancelled", "error")
    if finish is not None and not world and recorded != finish:
        raise ReplayDiverged("end", recorded, finish)
    if finish is None and not world:
        raise ReplayDiverged("end", recorded, None)
    return ended


async def fork(log: Log, run: str, new: str, *, at: int | None = None, now: int) -> int:
    """Copy `run` up to the last complete step at or before `at` under the id `new`.

    Returns the sequence number where it was cut. `resume` the new run to go on.
    """
    records = await log.read(run)
    if not records:
        raise Refused(f"run {run!r} has no events")
    upto = cut(records, at)
    row = await log.row(run)
    await log.create(
        msgspec.structs.replace(
            row,
            run=new,
            status="running",
            created_at=now,
            updated_at=now,
            session="",
            waiting_for="",
        )
    )
    claim = await log.claim(new, "")
    await log.append(new, claim.epoch, copied(records, upto, new, now), disk=True, status="running")
    return upto


async def rewind(log: Log, run: str, *, to: int | None, now: int) -> int:
    """Take back everything after the last complete step at or before `to`."""
    row = await log.row(run)
    _check_owner(log, row, takeover=False)
    claim = await log.claim(run, "", epoch=row.epoch)
    records = await log.read(run)
    upto = cut(records, to)
    event = e.Record(run, records[-1].seq + 1, now, e.Rewound(to=upto))
    await log.append(run, claim.epoch, [event], disk=True, status="running")
    return upto


async def _abandoned(log: Log, run: str) -> RunRow | None:
    """The run, if it was registered by a process that died before it wrote anything."""
    try:
        row = await log.row(run)
    except UnknownRun:
        return None
    dead = not row.owner or owner.alive(row.owner) is False
    return row if dead and row.events == 0 else None


def _check_owner(log: Log, row: RunRow, takeover: bool) -> None:
    if (id(log), row.run) in _LIVE:
        raise Conflict(f"run {row.run!r} is being driven by this process")
    if row.status != "running" or not row.owner or owner.mine(row.owner):
        return
    if owner.alive(row.owner) is False:
        return
    if not takeover:
        raise Conflict(
            f"run {row.run!r} is being driven by another live process; "
            "take it over only if you know that it is stuck"
        )
    owner.kill(row.owner)


async def _activate(
    log: Log,
    store: Store,
    tape: Tape,
    strategy: MakeStrategy,
    setup: Setup,
    *,
    resumed: bool = False,
) -> Store:
    """Drive until the run ends or waits; re-drive if news came in while it was parking.

    At the `NEWS`th time it waits all the same: what came in is read when it is resumed.
    """
    place = (id(log), store.run)
    if place in _LIVE:
        raise Conflict(f"run {store.run!r} is being driven by this process")
    _LIVE.add(place)
    turn = 0
    try:
        while True:
            turn += 1
            inbox = Inbox(log, store.run, setup.redactor)
            drive = Drive(setup, store, tape, inbox, resumed=resumed)
            try:
                event: e.RunFinished | e.Parked = await _outcome(drive, strategy)
            except asyncio.CancelledError:
                drive.live()
                store.dispatch(cancelled("interrupted"))
                with suppress(LogError):  # a write was interrupted: then the run stays open
                    await asyncio.shield(store.flush(consume=inbox.spend(), status="cancelled"))
                raise
            drive.live()
            if await _written(store, inbox, event, quiet=turn < NEWS):
                return store
            records = await log.read(store.run)
            store = store.again(len(records))
            tape, resumed = Tape(records), True
    finally:
        _LIVE.discard(place)


async def _written(
    store: Store, inbox: Inbox, event: e.RunFinished | e.Parked, *, quiet: bool = True
) -> bool:
    """Write how the activation ended. False: news came in while it was parking `quiet`ly."""
    await inbox.refresh(store)
    if isinstance(event, e.RunFinished):
        store.dispatch(event)
        return await store.flush(consume=inbox.spend(), status=event.status)
    open_ = frozenset([asked.seq for asked in asking(store.records)])
    for signal in inbox.late(open_):
        said = f"{store.run}:{signal.data.get('seq')}"
        why = "it was resolved already"
        store.dispatch(e.DecisionRefused(id=said, by=signal.by, why=why, at=signal.at))
        inbox.take(signal)
    store.dispatch(event)
    return await store.flush(
        consume=inbox.spend(), status="waiting", waiting_for=event.reason, if_quiet=quiet
    )


async def _outcome(drive: Drive, strategy: MakeStrategy) -> e.RunFinished | e.Parked:
    """Drive once; whatever ends it, as an event."""
    try:
        return finished(await drive(strategy()), drive.setup.redactor)
    except Park as park:
        return e.Parked(reason=park.reason)
    except Cancelled as signal:
        return cancelled(signal.by)
    except Denied as denied:
        return e.RunFinished(
            status="failed", stop_reason="denied", success=False, error=denied.reason
        )
    except Halt as halt:
        return finished(Answer(None, halt.reason))
    except (Conflict, ReplayDiverged, LogError):
        raise
    except RunError as error:
        return failed(error, drive.setup.redactor)
    except Exception as error:
        drive.live()
        await _fail(drive.store, error, drive.setup, drive.inbox.spend())
        raise


async def _fail(store: Store, error: Exception, setup: Setup, spent: Sequence[str] = ()) -> None:
    store.dispatch(failed(error, setup.redactor))
    await store.flush(consume=spent, status="failed")
