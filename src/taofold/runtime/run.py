"""Runs: start, resume, replay, fork, rewind. Each is one way to call the drive.

A run ends in exactly one `RunFinished`, or waits as rows in the log. Whatever happens
to the process, what was dispatched before the last flush is kept.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from taofold.core import events as e
from taofold.core.effects import Answer, Halt, Strategy
from taofold.core.errors import Conflict, LogError, ModelError, Refused, ReplayDiverged, RunError
from taofold.core.state import ENDED, RunState, fold
from taofold.runtime import owner
from taofold.runtime.branch import copied, cut
from taofold.runtime.drive import Drive
from taofold.runtime.inbox import Inbox
from taofold.runtime.setup import Setup
from taofold.runtime.signals import Cancelled, Denied, EndOfTape, Park
from taofold.runtime.tape import Tape
from taofold.store.log import Log, RunRow
from taofold.store.store import Store

MakeStrategy: TypeAlias = Callable[[], Strategy[Any]]

_LIVE: set[tuple[int, str]] = set()
"""Runs that this process is driving now, by log and id."""

_STATUS = {
    "max_steps": "limited",
    "max_tool_calls": "limited",
    "timeout": "limited",
    "budget": "limited",
    "loop_detected": "limited",
    "denied": "failed",
    "error": "failed",
    "cancelled": "cancelled",
}


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
        created_at=setup.now(),
        updated_at=setup.now(),
    )
    await log.create(row)
    claim = await log.claim(run, owner.me())
    store = Store(run=run, log=log, epoch=claim.epoch, now=setup.now)
    for listener in setup.listeners:
        store.subscribe(listener)
    store.dispatch(started)
    await store.flush(status="running")
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
    claim = await log.claim(run, owner.me())
    records = await log.read(run)
    state = fold(records)
    if state.status in ENDED and (state.status != "cancelled" and state.stop_reason != "error"):
        raise Refused(
            f"run {run!r} ended as {state.status} ({state.stop_reason}): fork it to try another way"
        )
    head = records[-1].seq + 1 if records else 0
    store = Store(run=run, log=log, epoch=claim.epoch, head=head, now=setup.now)
    for listener in setup.listeners:
        store.subscribe(listener)
    tape = Tape(records)
    if not tape:
        for record in tape.loose():
            store.restore(record)
    return await _activate(log, store, tape, strategy, setup, resumed=True)


async def replay(log: Log, run: str, strategy: MakeStrategy, setup: Setup) -> RunState:
    """Re-derive the run without touching model, tools or log.

    Raises:
        ReplayDiverged: at the first event that comes out different.
    """
    records = await log.read(run)
    tape = Tape(records)
    store = Store(run=run, head=len(records), now=lambda: records[-1].at)
    drive = Drive(setup, store, tape, Inbox(None, run), exact=True)
    if not tape:
        for record in tape.loose():
            store.restore(record)
    ended = fold(records)
    try:
        finish = _finish(await drive(strategy()))
    except EndOfTape:
        finish = None
    except ModelError as error:
        finish = _failed(error)
    except Denied as denied:
        finish = e.RunFinished(
            status="failed", stop_reason="denied", success=False, error=denied.reason
        )
    world = e.Resolved | e.Started | e.Steered
    surplus = [r for r in tape.rest() if not isinstance(r.event, world)]
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
    claim = await log.claim(run, "")
    records = await log.read(run)
    upto = cut(records, to)
    event = e.Record(run, records[-1].seq + 1, now, e.Rewound(to=upto))
    await log.append(run, claim.epoch, [event], disk=True, status="running")
    return upto


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
    """Drive until the run ends or waits; re-drive if news came in while it was parking."""
    place = (id(log), store.run)
    if place in _LIVE:
        raise Conflict(f"run {store.run!r} is being driven by this process")
    _LIVE.add(place)
    inbox = Inbox(log, store.run)
    try:
        while True:
            await inbox.refresh()
            tape.on_end = (lambda s=store: _resumed(s)) if resumed else None
            if resumed and not tape:
                _resumed(store)
            drive = Drive(setup, store, tape, inbox)
            try:
                event: e.Event = await _outcome(drive, strategy)
            except asyncio.CancelledError:
                store.dispatch(_cancelled("interrupted"))
                await asyncio.shield(_close(store, inbox, "cancelled"))
                raise
            parked = isinstance(event, e.Parked)
            store.dispatch(event)
            status = "waiting" if isinstance(event, e.Parked) else event.status  # type: ignore[union-attr]
            written = await store.flush(
                consume=inbox.consumed(),
                status=status,
                waiting_for=event.reason if isinstance(event, e.Parked) else "",
                if_quiet=parked,
            )
            if written:
                return store
            records = await log.read(store.run)
            store = store.again(len(records))
            tape, resumed = Tape(records), True
    finally:
        _LIVE.discard(place)


async def _outcome(drive: Drive, strategy: MakeStrategy) -> e.RunFinished | e.Parked:
    """Drive once; whatever ends it, as an event."""
    try:
        return _finish(await drive(strategy()))
    except Park as park:
        return e.Parked(reason=park.reason)
    except Cancelled as cancelled:
        return _cancelled(cancelled.by)
    except Denied as denied:
        return e.RunFinished(
            status="failed", stop_reason="denied", success=False, error=denied.reason
        )
    except Halt as halt:
        return _finish(Answer(None, halt.reason))
    except (Conflict, ReplayDiverged, LogError):
        raise
    except RunError as error:
        return _failed(error, drive)
    except Exception as error:
        drive.store.dispatch(_failed(error, drive))
        await drive.store.flush(status="failed", consume=drive.inbox.consumed())
        raise


async def _close(store: Store, inbox: Inbox, status: str) -> None:
    await store.flush(consume=inbox.consumed(), status=status)


def _resumed(store: Store) -> None:
    store.dispatch(e.Resumed(epoch=store.epoch))


def _finish(answer: Any) -> e.RunFinished:
    if not isinstance(answer, Answer):
        answer = Answer(answer)
    status = _STATUS.get(answer.stop, "finished")
    success = status == "finished" and not answer.error
    return e.RunFinished(
        status=status,
        stop_reason=answer.stop,
        success=success,
        output=answer.output,
        error=answer.error,
    )


def _cancelled(by: str) -> e.RunFinished:
    return e.RunFinished(
        status="cancelled", stop_reason="cancelled", success=False, error=f"cancelled by {by}"
    )


def _failed(error: Exception, drive: Drive | None = None) -> e.RunFinished:
    said = f"{type(error).__name__}: {error}"
    if drive is not None:
        said = drive.setup.redactor.text(said)
    return e.RunFinished(status="failed", stop_reason="error", success=False, error=said)
