"""What was missed: loops that ended, and whose process died before it could clear up or learn."""

import asyncio
from contextlib import suppress

from taofold.core.errors import Conflict, Refused, TaofoldError
from taofold.loop import events as e
from taofold.loop.decide import Clear, Learn, decide
from taofold.loop.driver import LoopWork, Means
from taofold.loop.stream import Stream, ids, load
from taofold.runtime import owner

RECENT = 20
"""Loops that are looked at, the newest first."""


async def catch_up(means: Means, *, but: str = "") -> list[str]:
    """Clear up after, and learn from, loops that were missed; the ids of those learnt from.

    What cannot be done now is left.
    """
    caught: list[str] = []
    for loop in (await ids(means.journal))[:RECENT]:
        if loop == but:
            continue
        with suppress(TaofoldError):
            if await _caught(means, await load(means.journal, loop, means.now)):
                caught.append(loop)
    return caught


async def _caught(means: Means, stream: Stream) -> bool:
    state, loop = stream.state, stream.loop
    move = decide(loop, state, means.now())
    if not isinstance(move, Learn | Clear):
        return False
    row = await means.journal.row(stream.name)
    if row is not None and row.held and not owner.gone(state.owner):
        return False  # its driver is at it
    ground = await asyncio.to_thread(means.ground, loop, state)
    if isinstance(move, Clear):
        await stream.append(e.Cleared(left=await ground.clear()))
        return await _caught(means, stream)
    learnt = await means.learner.learn(loop, state, LoopWork(means.log, ground))
    with suppress(Conflict, Refused):  # somebody else was quicker
        await stream.append(e.Taught(learnt=learnt))
    return True
