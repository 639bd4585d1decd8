"""The users' commands on loops: start, resume, pause, abort, and list (`rows`).

Everything goes through the stream, so it works from any process. A loop whose process is gone is
detected here and marked as crashed; its remains are cleared up and learnt from (`catch_up`). The
number of concurrent loops is limited.

If protected files were changed while a loop was paused, it only continues after a user's decision.
The agent's own changes belong to its iteration, and the next verdict finds them. All others are
refused until the user keeps or restores them.
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Final, Literal, TypeAlias

from msgspec.structs import replace

from taofold.agent.activation import Activation
from taofold.core.errors import ConfigError, Conflict, LogError, Refused, TaofoldError
from taofold.core.state import RunState
from taofold.core.text import times
from taofold.log.memory import MemoryLog
from taofold.loop import events as loop_events
from taofold.loop.decisions import Clear, Learn, decide
from taofold.loop.driver import Driver, LoopDependencies, LoopWork, agent_for
from taofold.loop.environment import LoopEnvironment
from taofold.loop.gates.criteria import asked_for
from taofold.loop.state import LoopState
from taofold.loop.stream import LoopStream, ids, load, lost, suspended
from taofold.loop.values import DRIVEN, ENDED, LIVE, MOST_MEMORY, RESUMABLE, LoopLimits, LoopRequest
from taofold.loop.verdict import Settled
from taofold.parsing.untrusted_text import join_names, one_line
from taofold.runtime import ownership
from taofold.runtime.inbox import environment_redactor

Word: TypeAlias = Literal["", "keep", "restore"]
"""A user's decision about such files; "" = none yet."""

RECENT = 20
"""The number of newest loops that are checked."""

AT_ONCE: Final = 4
"""The most loops that may run at the same time without force."""
PROTECTED: Final = (
    "the task seems to ask for tests or configuration ({}): these are protected, and the gates run "
    "without what the agent writes there. --allow-edit GLOB includes the files that you name"
)
PACKAGES: Final = (
    "the packages that the gates of loop {!r} use changed since it began:\n{}\n"
    "undo that, or pass --retake-baseline: the gates then run again on the files of the "
    "start, and later verdicts compare with this run"
)
_ID: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")

_PATIENCE: Final = 30.0
"""Seconds to wait until the process of an aborted loop lets go."""


@dataclass(frozen=True, slots=True)
class LoopRow:
    """A row in the list of loops. `note` is the problem of its process, if any."""

    loop: str
    state: LoopState
    note: str = ""


def new_id(task: str) -> str:
    """Returns `ralph-<slug of at most 30>-<8 hex digits>`."""
    words = re.sub(r"[^a-z0-9]+", "-", task.lower()).strip("-")
    slug = words[:30].rpartition("-")[0] if len(words) > 30 and "-" in words[:30] else words[:30]
    return f"ralph-{slug.strip('-') or 'loop'}-{token_hex(4)}"


async def start(
    dependencies: LoopDependencies,
    wish: LoopRequest,
    *,
    loop: str = "",
    force: bool = False,
    warn: Callable[[str], None] = lambda text: None,
) -> LoopState:
    """Starts a loop and drives it until it ends or waits.

    Raises:
        ConfigError: The request is invalid; nothing was started.
        Refused: Too many loops run already.
    """
    loop = loop or new_id(wish.task)
    _valid(wish, loop)
    stream = LoopStream(dependencies.journal, loop, now=dependencies.now, heard=dependencies.hear)
    if await dependencies.journal.facts(stream.name, limit=1):
        raise ConfigError(
            f"loop {loop!r} exists already: choose another id, or resume it", path="--loop-id"
        )
    await _room(dependencies, loop, force=force, warn=warn)
    # Before the new loop gets its lessons, so that loops whose process died have taught theirs.
    await catch_up(dependencies)
    state = LoopState(wish=wish, bounds=wish.bounds, place=token_hex(4))
    # An invalid agent must fail here, not in iteration 1 after the baseline.
    _check_agent(dependencies, state)
    opened_at = dependencies.now()
    environment = await asyncio.to_thread(dependencies.environment, loop, state)
    asked = "" if wish.allow_edit else asked_for(wish.task)
    if asked:
        warn(PROTECTED.format(asked))
    if environment.leftovers:
        warn(
            f"an earlier loop {loop!r} that is in no journal any more left files, which this one "
            f"does not use: {', '.join(environment.leftovers)}"
        )
    if not environment.contained:
        warn("the gates run not contained (no bubblewrap): they have your rights")
    me = ownership.me()
    async with stream.driving():
        await stream.append(
            loop_events.LoopStarted(wish=wish, owner=me, place=state.place, opened_at=opened_at)
        )
        if not force:
            await _was_room(dependencies, stream, environment)
        return await _driven(Driver(stream, dependencies, environment, me))


async def resume(
    dependencies: LoopDependencies,
    loop: str,
    *,
    bounds: LoopLimits | None = None,
    force: bool = False,
    edited: Word = "",
    retake: bool = False,
    warn: Callable[[str], None] = lambda text: None,
    by: str = "local",
) -> LoopState:
    """Resumes a loop, optionally with other limits, and drives it until it ends or waits.

    `edited` is a user's decision about protected files that were changed while it was paused.
    `retake` takes the baseline again, with the currently installed packages.

    Raises:
        UnknownRun: There is no such loop.
        Refused: It ended for good, runs elsewhere, its limits are used up, or protected files or
            installed packages changed without a decision.
    """
    stream = await _loaded(dependencies, loop)
    state = stream.state
    gone = await _lost(dependencies, stream)
    await catch_up(dependencies)
    _resumable(loop, state, gone)
    bounds = bounds or state.bounds
    if not gone and state.status != "crashed":  # a crashed one may only have to be finished
        _leaves_room(state, bounds)
    await _room(dependencies, loop, force=force, warn=warn)
    _check_agent(dependencies, replace(state, bounds=bounds))
    environment = await asyncio.to_thread(dependencies.environment, loop, state)
    packages = () if state.baseline is None else await environment.packages()
    if packages and not retake:
        listed = "\n".join([f"  {change}" for change in packages])
        raise Refused(PACKAGES.format(loop, listed))
    word = await edits(loop, state, environment, edited, by, bounds.seconds, warn)
    if retake:
        word += await _retaken(state, environment, packages, by, bounds.seconds, warn)
    me = ownership.me()
    lost_now = (await stream.read()).status in DRIVEN  # it may have been marked in the meantime
    if dependencies.before is not None:
        dependencies.before(stream.records)
    stream.heard = dependencies.hear
    facts: list[loop_events.LoopEvent] = (
        [loop_events.LoopCrashed(why=gone)] if gone and lost_now else []
    )
    async with stream.driving():
        await stream.append(*facts, *word, loop_events.LoopResumed(bounds=bounds, owner=me, by=by))
        return await _driven(Driver(stream, dependencies, environment, me))


async def _driven(driver: Driver) -> LoopState:
    """Drives a loop until it ends or waits, and frees the resources for that."""
    state = await driver()
    with suppress(TaofoldError, OSError):
        await driver.environment.release(ended=state.status in ENDED - RESUMABLE)
    return state


async def pause(dependencies: LoopDependencies, loop: str, *, by: str = "local") -> LoopState:
    """Requests a pause before the next iteration. Idempotent.

    Raises:
        UnknownRun: There is no such loop.
        Refused: No process drives it, or it is about to end.
    """
    stream = await _loaded(dependencies, loop)
    while True:
        state = stream.state
        why = _idle(state, "" if suspended(state) else await _lost(dependencies, stream))
        if why:
            raise Refused(f"loop {loop!r} {why}")
        if state.asked is not None:
            return state
        try:
            return await stream.append(loop_events.PauseAsked(by=by))
        except Conflict:
            continue


async def abort(
    dependencies: LoopDependencies,
    loop: str,
    *,
    keep: bool = True,
    force: bool = False,
    by: str = "local",
) -> tuple[LoopState, Sequence[str]]:
    """Ends a loop for good; without `keep` its files are restored to the start.

    The files of an aborted loop can still be restored. Returns the state and the restored paths;
    `state.cleared` has the result for a worktree or a copy.

    Raises:
        UnknownRun: There is no such loop.
        Refused: It has ended already, or files were changed by others since.
    """
    stream = await _loaded(dependencies, loop)
    state = await _give_up(stream, loop, keep=keep, by=by)
    # The fact is written, but the driver may still change the files until it reads it.
    await _let_go(dependencies, stream.name, state)
    if state.baseline is None:
        return stream.state, ()
    try:
        environment = await asyncio.to_thread(dependencies.environment, loop, stream.state)
    except ConfigError:
        if keep:  # there is nothing left to keep
            return stream.state, ()
        raise
    # The last snapshot precedes the iteration: its agent's later work would be lost.
    if state.open is not None and state.status != "aborted":
        await environment.snapshot("as it was given up")  # the agent worked since the last one
    paths = await environment.leave(keep=keep, force=force)
    left = await environment.clear(
        keep="the changes are there, and were to be kept" if keep else ""
    )
    await stream.append(loop_events.Cleared(left=left, reverted=None if keep else tuple(paths)))
    with suppress(TaofoldError, OSError):
        await environment.release(ended=True)
    return stream.state, paths


async def revert(
    dependencies: LoopDependencies, loop: str, *, force: bool = False
) -> tuple[LoopState, Sequence[str]]:
    """Restores the files from before an ended loop, for any ending.

    Returns:
        The state, and the restored paths.

    Raises:
        UnknownRun: There is no such loop.
        Refused: It is still live, its files were restored already, or others changed them since.
    """
    stream = await _loaded(dependencies, loop)
    state = stream.state
    if state.status not in ENDED:
        raise Refused(f"loop {loop!r} is {state.status}: end it with `loops abort --revert`")
    if state.reverted or state.baseline is None:
        raise Refused(f"the files of loop {loop!r} were reverted already, or never changed")
    environment = await asyncio.to_thread(dependencies.environment, loop, state)
    paths = await environment.leave(keep=False, force=force)
    left = await environment.clear()
    await stream.append(loop_events.Cleared(left=left, reverted=tuple(paths)))
    return stream.state, paths


async def _give_up(stream: LoopStream, loop: str, *, keep: bool, by: str) -> LoopState:
    """Records the abort, retrying on concurrent writes; returns the state just before."""
    while True:
        state = stream.state
        # A loop that was aborted with its files kept may still have them restored later.
        if not keep and state.status == "aborted" and not state.reverted:
            return state
        if state.status not in LIVE and state.status != "crashed":
            raise Refused(f"loop {loop!r} has ended already: {state.status}")
        try:
            word = loop_events.LoopEnded(ending="aborted", reason=f"aborted by {by}", by=by)
            await stream.append(word, disk=True)
            return state
        except Conflict:
            continue


async def rows(dependencies: LoopDependencies) -> list[LoopRow]:
    """Returns every loop, the newest first, marking those without a process as crashed (RLP-12)."""
    listed: list[LoopRow] = []
    for loop in await ids(dependencies.journal):
        try:
            listed.append(await row(dependencies, loop))
        except LogError as error:
            listed.append(LoopRow(loop, LoopState(), f"cannot be read: {error}"))
    return listed


async def row(dependencies: LoopDependencies, loop: str) -> LoopRow:
    """Returns one loop, marked as crashed if its process is gone."""
    stream = await _loaded(dependencies, loop)
    gone = await _lost(dependencies, stream)
    if gone and suspended(stream.state):  # it may continue: the user who resumes it decides
        return LoopRow(loop, stream.state, "its process is there, but gives no sign of life")
    if gone:
        with suppress(Conflict, Refused):
            await stream.append(loop_events.LoopCrashed(why=gone))
    return LoopRow(loop, stream.state, gone)


async def running(dependencies: LoopDependencies) -> list[LoopRow]:
    """Returns the loops that a process drives now."""
    return [row for row in await rows(dependencies) if row.state.status in DRIVEN]


def paths(loops: int) -> int:
    """Returns the number of pairs of loops that may conflict."""
    return loops * (loops - 1) // 2


async def edits(
    loop: str,
    state: LoopState,
    environment: LoopEnvironment,
    word: Word,
    by: str,
    seconds: float,
    warn: Callable[[str], None] = lambda text: None,
) -> list[loop_events.LoopEvent]:
    """Returns the facts about changed files before a loop continues: none, or the user's decision.

    Gates that must run for it may take `seconds` together.

    Raises:
        Refused: There are such files and no decision.
    """
    if state.baseline is None:
        return []
    touched = await environment.touched()
    before = state.touched_before
    paths = tuple([path for path in touched if before is None or before.get(path) != touched[path]])
    if not paths:
        if word:
            warn("no protected file was changed while the loop was paused")
        return []
    if not word:
        raise Refused(
            _question(loop, state, environment, {path: touched[path] for path in paths}, before)
        )
    done = await environment.settle(paths, keep=word == "keep", seconds=seconds)
    _warn_of_dropped(done, warn)
    keep = word == "keep"
    return [
        loop_events.Edited(
            paths=paths, kept=keep, baseline=done.baseline, dropped=done.dropped, by=by
        )
    ]


async def _retaken(
    state: LoopState,
    environment: LoopEnvironment,
    packages: tuple[str, ...],
    by: str,
    seconds: float,
    warn: Callable[[str], None],
) -> list[loop_events.LoopEvent]:
    """Returns the fact of a retaken baseline; nothing if there is none yet."""
    if state.baseline is None:
        return []
    verdict, done = await environment.retake(seconds)
    _warn_of_dropped(done, warn)
    return [
        loop_events.BaselineRetaken(
            verdict=verdict.slim(),
            baseline=done.baseline,
            packages=packages,
            dropped=done.dropped,
            by=by,
        )
    ]


def _warn_of_dropped(done: Settled, warn: Callable[[str], None]) -> None:
    if done.lost:
        some = join_names(done.dropped, 5)
        warn(f"{times(done.lost, 'test')} need not be there any more: {some}")


async def catch_up(dependencies: LoopDependencies) -> list[str]:
    """Clears up and learns from unfinished loops; returns the ids of those learnt from.

    Work that is impossible now is left for later.
    """
    caught: list[str] = []
    for loop in (await ids(dependencies.journal))[:RECENT]:
        # One loop that cannot be cleared must not keep others from starting.
        with suppress(TaofoldError):
            if await _caught(dependencies, await _loaded(dependencies, loop)):
                caught.append(loop)
    return caught


def _question(
    loop: str,
    state: LoopState,
    environment: LoopEnvironment,
    found: Mapping[str, str],
    before: Mapping[str, str] | None,
) -> str:
    named: list[str] = []
    for path, mark in found.items():
        did = "changed" if mark else "deleted"
        also = ", and it was not as at the start when the loop paused" * (path in (before or {}))
        named.append(f"  {one_line(path)} ({did}{also})")
    head = f"protected files were changed while loop {loop!r} was paused"
    if before is None and state.open is not None:
        head = (
            f"protected files were changed, and loop {loop!r} stopped in the middle of iteration "
            f"{state.open.number}: this may be its agent's work"
        )
    listed = "\n".join(named)
    return (
        f"{head}:\n{listed}\nlook at them in {environment.root}, then pass one of:\n"
        "  --keep-edits  later verdicts compare with these files\n"
        "  --restore     reverts them; the current files are moved aside"
    )


async def _caught(dependencies: LoopDependencies, stream: LoopStream) -> bool:
    state, loop = stream.state, stream.loop
    move = decide(loop, state, dependencies.now())
    if not isinstance(move, Learn | Clear):
        return False
    row = await dependencies.journal.row(stream.name)
    if row is not None and row.held and not ownership.gone(state.owner):
        return False  # its driver will do it
    # In a thread: opening a worktree or a copy of a large project blocks for seconds.
    environment = await asyncio.to_thread(dependencies.environment, loop, state)
    if isinstance(move, Clear):
        await stream.append(loop_events.Cleared(left=await environment.clear()))
        return await _caught(dependencies, stream)
    learnt = await dependencies.learner.learn(loop, state, LoopWork(dependencies.log, environment))
    with suppress(Conflict, Refused):  # another process was faster
        await stream.append(loop_events.Taught(learnt=learnt))
    return True


async def _room(
    dependencies: LoopDependencies, loop: str, *, force: bool, warn: Callable[[str], None]
) -> None:
    others = [row.loop for row in await running(dependencies) if row.loop != loop]
    if len(others) < AT_ONCE:
        return
    listed = "\n".join([f"  {name}" for name in others])
    if not force:
        raise Refused(
            f"{len(others)} loops run already, and {AT_ONCE} is the limit:\n{listed}\n"
            "wait for one, abort one, or pass --force"
        )
    count = len(others) + 1
    warn(f"{count} loops at once have {paths(count)} ways to get in each other's way")


async def _was_room(
    dependencies: LoopDependencies, stream: LoopStream, environment: LoopEnvironment
) -> None:
    """Ends this loop if it is beyond the limit among loops started at the same moment."""
    # Both processes see the same order, so that exactly the loops beyond the limit end.
    rows = sorted(await running(dependencies), key=lambda row: (row.state.started_at, row.loop))
    first = [row.loop for row in rows[:AT_ONCE]]
    if stream.loop in first:
        return
    word = loop_events.LoopEnded(ending="aborted", reason="other loops started first", by="loop")
    await stream.append(word)
    await stream.append(loop_events.Cleared(left=await environment.clear()))
    raise Refused(f"{AT_ONCE} other loops started at the same time: {', '.join(first)}")


def _valid(wish: LoopRequest, loop: str) -> None:
    faults: list[ConfigError] = []
    redactor = environment_redactor().viewing()

    def fault(bad: bool, path: str, text: str) -> None:
        if bad:
            faults.append(ConfigError(text, path=path))

    # All faults at once, so that the user need not find them one by one.
    fault(not wish.task.strip(), "TASK", "it is empty: describe the task")
    fault(not wish.commands, "--completion", "name a command that succeeds when the work is done")
    # A loop resumes from its stored form, so a command with a secret could neither be stored nor
    # run.
    fault(
        any(redactor.text(command) != command for command in wish.commands),
        "--completion",
        "a command holds a secret, and commands are stored and shown to the model: put it into the "
        "environment and write `NAME=$NAME COMMAND`",
    )
    fault(wish.bounds.iterations < 1, "--max-iterations", "at least 1")
    fault(wish.bounds.seconds <= 0, "--timeout", "more than 0 minutes")
    fault(wish.bounds.usd is not None and wish.bounds.usd <= 0, "--budget", "more than 0 dollars")
    fault(not 0 <= wish.memory <= MOST_MEMORY, "--memory", f"0 to {MOST_MEMORY} iterations")
    fault(
        _ID.fullmatch(loop) is None,
        "--loop-id",
        f"{loop!r} is not an id: use only a-z, 0-9, -, _ and .",
    )
    fault(not Path(wish.root).is_dir(), "--root", f"{wish.root!r} is not a directory")
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise ExceptionGroup("the loop cannot start", faults)


def _check_agent(dependencies: LoopDependencies, state: LoopState) -> None:
    """Finds errors of the agent before anything is started."""
    worker = dependencies.agent(Path(state.wish.root), state)
    from_now = replace(state, active_at=dependencies.now())
    agent = agent_for(worker, from_now, dependencies.now(), RunState()).replace(log=None)
    Activation(agent, None, None, None, MemoryLog())


def _resumable(loop: str, state: LoopState, gone: str) -> None:
    if state.status in DRIVEN and not gone:
        raise Refused(
            f"loop {loop!r} is {state.status}, driven by {ownership.described(state.owner)}: abort "
            "it first, or wait until its lease is over"
        )
    if state.status not in RESUMABLE and not gone:
        why = {
            "completed": "its gates passed; start a new loop for new work",
            "aborted": "it was given up for good; start a new loop",
            "tampered": "protected files were changed; look at its report and start a new loop",
        }.get(state.status, "it has failed; look at its report and start a new loop")
        raise Refused(f"loop {loop!r} is {state.status} and cannot be resumed: {why}")


def _leaves_room(state: LoopState, bounds: LoopLimits) -> None:
    """Refuses limits that would end the loop at once."""
    # An open iteration may still be finished, even if it is the last allowed one.
    if state.open is None and len(state.iterations) >= bounds.iterations:
        raise Refused(
            f"{times(len(state.iterations), 'iteration')} used: resume with --max-iterations "
            f"{len(state.iterations) + 1} or more"
        )
    spent = state.spent.usage.priced_usd
    if bounds.usd is not None and spent >= bounds.usd:
        raise Refused(f"${spent:.2f} were spent: resume with a --budget above that")


async def _loaded(dependencies: LoopDependencies, loop: str) -> LoopStream:
    return await load(dependencies.journal, loop, now=dependencies.now)


async def _lost(dependencies: LoopDependencies, stream: LoopStream) -> str:
    """Returns why the process of the loop is gone; "" if it is not."""
    row = await dependencies.journal.row(stream.name)
    return lost(dependencies.journal, stream.state, row, dependencies.now())


def _idle(state: LoopState, gone: str) -> str:
    """Returns why there is nothing to pause, "" if there is."""
    if gone or state.status == "crashed":
        return f"has crashed: {gone or (state.crash and state.crash.why) or ''}"
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


async def _let_go(dependencies: LoopDependencies, name: str, state: LoopState) -> None:
    """Waits until the process that drove the loop has stopped."""
    if state.status not in DRIVEN or ownership.mine(state.owner):
        return
    # Polled: the process may be on another machine, whose only sign is its lease.
    waited = 0.0
    while waited < _PATIENCE and not ownership.gone(state.owner):
        row = await dependencies.journal.row(name)
        if row is None or not row.held:
            return
        await dependencies.sleep(0.1)
        waited += 0.1
