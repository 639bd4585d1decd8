"""Learning that was missed: loops that ended, and whose process died before it could learn."""

import asyncio
from contextlib import suppress

from taofold.core.errors import Conflict, Refused, TaofoldError
from taofold.loop import events as e
from taofold.loop.decide import Learn, decide
from taofold.loop.driver import LoopWork, Means
from taofold.loop.stream import Stream, ids, load
from taofold.runtime import owner

RECENT = 20
"""Loops that are looked at, the newest first."""


async def catch_up(means: Means, *, but: str = "") -> list[str]:
    """Learn from loops that were missed; their ids. What cannot be learnt now is left."""
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
    if not isinstance(decide(loop, state, means.now()), Learn):
        return False
    if not owner.mine(state.owner) and owner.alive(state.owner) is not False:
        return False
    ground = await asyncio.to_thread(means.ground, loop, state)
    learnt = await means.learner.learn(loop, state, LoopWork(means.log, ground))
    with suppress(Conflict, Refused):  # somebody else was quicker
        await stream.append(e.Taught(learnt=learnt))
    return True
