"""What people do to stop a loop: pause it at the next boundary, or give it up for good.

Both only write into the stream; whoever drives the loop finds it there.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from taofold.core.errors import ConfigError, Conflict, Refused
from taofold.loop import events as e
from taofold.loop.driver import Means
from taofold.loop.liveness import frozen, lost
from taofold.loop.state import LoopState
from taofold.loop.status import DRIVEN, LIVE, RESUMABLE
from taofold.loop.stream import load
from taofold.runtime import owner

_PATIENCE: Final = 30.0
"""Seconds to wait for the process of an aborted loop to let go."""


async def pause(means: Means, loop: str, *, by: str = "local") -> LoopState:
    """Ask whoever drives the loop to stop before the next iteration. To ask twice changes nothing.

    Raises:
        UnknownRun: there is no such loop.
        Refused: nobody drives it, or it is about to end.
    """
    stream = await load(means.journal, loop, now=means.now)
    while True:
        state = stream.state
        row = await means.journal.row(stream.name)
        gone = "" if frozen(state) else lost(means.journal, state, row, means.now())
        why = _idle(state, gone)
        if why:
            raise Refused(f"loop {loop!r} {why}")
        if state.asked is not None:
            return state
        try:
            return await stream.append(e.PauseAsked(by=by))
        except Conflict:
            continue


def _idle(state: LoopState, gone: str) -> str:
    """Why there is nothing to pause, "" if there is."""
    if gone or state.status == "crashed":
        return f"is crashed, nothing goes on: {gone or (state.crash and state.crash.why) or ''}"
    match state.status:
        case "paused":
            return f"is paused already: {state.pause.reason if state.pause else ''}"
        case "completing":
            return "is about to end, there is no further iteration"
        case "pending" | "running":
            return ""
        case _:
            more = "; it can be resumed" if state.status in RESUMABLE else ""
            return f"has ended already: {state.status}{more}"


async def abort(
    means: Means, loop: str, *, keep: bool = True, force: bool = False, by: str = "local"
) -> tuple[LoopState, Sequence[str]]:
    """End a loop for good; with `keep` off its files are put back as they were at the start.

    One that was aborted already can still have its files put back. Returns the state and the
    paths that were put back; `state.cleared` says what became of a worktree or a copy.

    Raises:
        UnknownRun: there is no such loop.
        Refused: it has ended already, or files were changed by others since.
    """
    stream = await load(means.journal, loop, now=means.now)
    while True:
        state = stream.state
        if not keep and state.status == "aborted" and not _reverted(state):
            break
        if state.status not in LIVE and state.status != "crashed":
            raise Refused(f"loop {loop!r} has ended already: {state.status}")
        try:
            word = e.LoopEnded(ending="aborted", reason=f"aborted by {by}", by=by)
            await stream.append(word, disk=True)
            break
        except Conflict:
            continue
    await _let_go(means, stream.name, state)
    if state.baseline is None:
        return stream.state, ()
    try:
        ground = await asyncio.to_thread(means.ground, loop, stream.state)
    except ConfigError:
        if keep:  # there is nothing left to keep
            return stream.state, ()
        raise
    if state.open is not None and state.status != "aborted":
        await ground.snapshot("as it was given up")  # since the last one the agent worked
    paths = await ground.leave(keep=keep, force=force)
    left = await ground.clear(keep="the changes are there, and were to be kept" if keep else "")
    await stream.append(e.Cleared(left=left, reverted=None if keep else tuple(paths)))
    return stream.state, paths


def _reverted(state: LoopState) -> bool:
    return state.cleared is not None and state.cleared.reverted is not None


async def _let_go(means: Means, name: str, state: LoopState) -> None:
    """Wait until the process that drove the loop has stopped."""
    if state.status not in DRIVEN or owner.mine(state.owner):
        return
    waited = 0.0
    while waited < _PATIENCE and not owner.gone(state.owner):
        row = await means.journal.row(name)
        if row is None or not row.held:
            return
        await means.sleep(0.1)
        waited += 0.1
