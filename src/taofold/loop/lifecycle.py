"""What people do to loops: start, resume, and see which there are.

Everything goes through the stream, so it works from any process; a loop whose process is
gone is found here and marked as crashed.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Final

from msgspec.structs import replace

from taofold.agent.activation import Activation
from taofold.core.errors import ConfigError, Conflict, LogError, Refused
from taofold.core.state import RunState
from taofold.loop import events as e
from taofold.loop.catching import catch_up
from taofold.loop.driver import Driver, Means
from taofold.loop.editing import Word, edits
from taofold.loop.ground import Ground
from taofold.loop.iterating import shaped
from taofold.loop.liveness import frozen, lost
from taofold.loop.state import LoopState
from taofold.loop.status import DRIVEN, RESUMABLE
from taofold.loop.stream import Stream, ids, load
from taofold.loop.values import MOST_MEMORY, Bounds, Wish
from taofold.runtime import owner
from taofold.runtime.lease import HEART, release
from taofold.store.memory import MemoryLog

AT_ONCE: Final = 4
"""Loops that may run at the same time without force."""
_ID: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")


@dataclass(frozen=True, slots=True)
class Row:
    """A loop as a list shows it. `note` says what is wrong with its process, if anything."""

    loop: str
    state: LoopState
    note: str = ""


def new_id(task: str) -> str:
    """`ralph-<slug of at most 30>-<8 hex digits>`."""
    words = re.sub(r"[^a-z0-9]+", "-", task.lower()).strip("-")
    slug = words[:30].rpartition("-")[0] if len(words) > 30 and "-" in words[:30] else words[:30]
    return f"ralph-{slug.strip('-') or 'loop'}-{token_hex(4)}"


async def start(
    means: Means,
    wish: Wish,
    *,
    loop: str = "",
    force: bool = False,
    warn: Callable[[str], None] = lambda text: None,
) -> LoopState:
    """Start a loop and drive it until it ends or waits.

    Raises:
        ConfigError: the wish cannot be fulfilled as it is; nothing was started.
        Refused: too many loops run already.
    """
    loop = loop or new_id(wish.task)
    _valid(wish, loop)
    stream = Stream(means.journal, loop, now=means.now, heard=means.hear)
    if await means.journal.facts(stream.name, limit=1):
        raise ConfigError(f"there is a loop {loop!r} already", path="--loop-id")
    await _room(means, loop, force=force, warn=warn)
    await catch_up(means)
    state = LoopState(wish=wish, bounds=wish.bounds)
    _check_agent(means, state)
    ground = await asyncio.to_thread(means.ground, loop, state)
    if not ground.contained:
        warn("the gates run not contained (no bubblewrap): they have your rights")
    me = owner.me()
    async with _driving(stream):
        await stream.append(e.LoopStarted(wish=wish, owner=me))
        if not force:
            await _was_room(means, stream, ground)
        return await Driver(stream, means, ground, me)()


async def resume(
    means: Means,
    loop: str,
    *,
    bounds: Bounds | None = None,
    force: bool = False,
    edited: Word = "",
    warn: Callable[[str], None] = lambda text: None,
    by: str = "local",
) -> LoopState:
    """Go on with a loop, with other limits if need be, and drive it until it ends or waits.

    `edited` is a person's word about protected files that were changed while it stood still.

    Raises:
        UnknownRun: there is no such loop.
        Refused: it ended for good, goes on elsewhere, its limits leave no room, or protected
            files were changed and nothing was said of them.
    """
    stream = await _loaded(means, loop)
    state = stream.state
    gone = lost(means.journal, state, await means.journal.row(stream.name), means.now())
    await catch_up(means)
    _resumable(loop, state, gone)
    bounds = bounds or state.bounds
    if not gone and state.status != "crashed":  # a crashed one may only have to be finished
        _leaves_room(state, bounds)
    await _room(means, loop, force=force, warn=warn)
    _check_agent(means, replace(state, bounds=bounds))
    ground = await asyncio.to_thread(means.ground, loop, state)
    word = await edits(loop, state, ground, edited, by, warn)
    me = owner.me()
    lost_now = (await stream.read()).status in DRIVEN  # it may have been marked meanwhile
    if means.before is not None:
        means.before(stream.records)
    stream.heard = means.hear
    facts: list[e.LoopEvent] = [e.Crashed(why=gone)] if gone and lost_now else []
    async with _driving(stream):
        await stream.append(*facts, *word, e.Resumed(bounds=bounds, owner=me, by=by))
        return await Driver(stream, means, ground, me)()


@asynccontextmanager
async def _driving(stream: Stream) -> AsyncGenerator[None]:
    """Keep the lease of the loop for as long as the block lasts, then let it go."""
    with HEART.driving(stream.journal, stream.name):
        try:
            yield
        finally:
            await asyncio.to_thread(release, stream.journal, stream.name)


async def rows(means: Means) -> list[Row]:
    """Every loop, the newest first. One whose process is gone is marked as crashed (RLP-12)."""
    found: list[Row] = []
    for loop in await ids(means.journal):
        try:
            found.append(await row(means, loop))
        except LogError as error:
            found.append(Row(loop, LoopState(), f"cannot be read: {error}"))
    return found


async def row(means: Means, loop: str) -> Row:
    """One loop, marked as crashed if its process is gone."""
    stream = await _loaded(means, loop)
    gone = lost(means.journal, stream.state, await means.journal.row(stream.name), means.now())
    if gone and frozen(stream.state):  # it may be thawed: whoever resumes it decides
        return Row(loop, stream.state, "its process is there, but gives no sign of life")
    if gone:
        with suppress(Conflict, Refused):
            await stream.append(e.Crashed(why=gone))
    return Row(loop, stream.state, gone)


async def running(means: Means) -> list[Row]:
    """The loops that a process drives now."""
    return [one for one in await rows(means) if one.state.status in DRIVEN]


def paths(loops: int) -> int:
    """Ways in which so many loops can get in each other's way."""
    return loops * (loops - 1) // 2


async def _room(means: Means, loop: str, *, force: bool, warn: Callable[[str], None]) -> None:
    others = [one.loop for one in await running(means) if one.loop != loop]
    if len(others) < AT_ONCE:
        return
    listed = "\n".join([f"  {one}" for one in others])
    if not force:
        raise Refused(
            f"{len(others)} loops run already, and {AT_ONCE} is the limit:\n{listed}\n"
            "wait for one, abort one, or say --force"
        )
    count = len(others) + 1
    warn(f"{count} loops at once have {paths(count)} ways to get in each other's way")


async def _was_room(means: Means, stream: Stream, ground: Ground) -> None:
    """Of loops that started at the same moment the last ones give way."""
    rows = sorted(await running(means), key=lambda one: (one.state.started_at, one.loop))
    first = [one.loop for one in rows[:AT_ONCE]]
    if stream.loop in first:
        return
    word = e.LoopEnded(ending="aborted", reason="other loops started first", by="loop")
    await stream.append(word)
    await stream.append(e.Cleared(left=await ground.clear()))
    raise Refused(f"{AT_ONCE} other loops started at the same time: {', '.join(first)}")


def _valid(wish: Wish, loop: str) -> None:
    faults: list[ConfigError] = []

    def fault(bad: bool, path: str, text: str) -> None:
        if bad:
            faults.append(ConfigError(text, path=path))

    fault(not wish.task.strip(), "TASK", "it is empty: say what is to be done")
    fault(not wish.commands, "--completion", "name a command that succeeds when the work is done")
    fault(wish.bounds.iterations < 1, "--max-iterations", "at least 1")
    fault(wish.bounds.seconds <= 0, "--timeout", "more than 0 minutes")
    fault(wish.bounds.usd is not None and wish.bounds.usd <= 0, "--budget", "more than 0 dollars")
    fault(not 0 <= wish.memory <= MOST_MEMORY, "--memory", f"0 to {MOST_MEMORY} iterations")
    fault(_ID.fullmatch(loop) is None, "--loop-id", f"{loop!r} is no id: a-z, 0-9, - and . only")
    fault(not Path(wish.root).is_dir(), "--root", f"{wish.root!r} is no directory")
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise ExceptionGroup("the loop cannot start", faults)


def _check_agent(means: Means, state: LoopState) -> None:
    """Find what is wrong with the agent before anything is started."""
    made = means.agent(Path(state.wish.root), state)
    from_now = replace(state, active_at=means.now())
    agent = shaped(made, from_now, means.now(), RunState()).but(log=None)
    Activation(agent, None, None, None, MemoryLog())


def _resumable(loop: str, state: LoopState, gone: str) -> None:
    if state.status in DRIVEN and not gone:
        raise Refused(
            f"loop {loop!r} is {state.status}, driven by {owner.described(state.owner)}: abort it "
            "first, or wait until its lease is over"
        )
    if state.status not in RESUMABLE and not gone:
        why = {
            "completed": "its gates passed; start a new loop for new work",
            "aborted": "it was given up for good; start a new loop",
            "tampered": "protected files were changed; look at its report and start a new loop",
        }.get(state.status, "it has failed; look at its report and start a new loop")
        raise Refused(f"loop {loop!r} is {state.status} and cannot be resumed: {why}")


def _leaves_room(state: LoopState, bounds: Bounds) -> None:
    """Refuse limits that would end the loop at once."""
    if state.open is None and len(state.iterations) >= bounds.iterations:
        raise Refused(
            f"{len(state.iterations)} iterations were used: resume with --max-iterations "
            f"{len(state.iterations) + 1} or more"
        )
    spent = state.spent.usage.usd
    if bounds.usd is not None and spent >= bounds.usd:
        raise Refused(f"${spent:.2f} were spent: resume with a --budget above that")


async def _loaded(means: Means, loop: str) -> Stream:
    return await load(means.journal, loop, now=means.now)
