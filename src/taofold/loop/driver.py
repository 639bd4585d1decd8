"""Drives a loop: asks what is next, does it, records what came of it.

It is the only place of a loop with effects. What it knows is in the stream; a process that
dies leaves nothing that another cannot take up: `resume` folds the facts and asks again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, assert_never

from taofold.agent import Agent
from taofold.agent.result import Happening
from taofold.core.errors import LogError, TaofoldError
from taofold.core.events import Record
from taofold.loop import decide as d
from taofold.loop import events as e
from taofold.loop.check import Verdict
from taofold.loop.findings import failing, slim
from taofold.loop.finishing import finish
from taofold.loop.gate import refusal
from taofold.loop.gates.absent import absent
from taofold.loop.ground import Ground, MakeGround
from taofold.loop.iterating import iterate
from taofold.loop.learned import Learnt, Lessons
from taofold.loop.learning import Learner, NoLearner
from taofold.loop.state import LoopState
from taofold.loop.stream import Overtaken, Stream
from taofold.store.journal import Journal
from taofold.store.log import Log
from taofold.store.store import clock, steady

T = TypeVar("T")

POLL: float = 1.0
"""Seconds between two looks at what others wrote into the stream."""

MakeAgent: TypeAlias = Callable[[Path, LoopState], Agent[Any, Any]]
"""The agent that works in a folder, without the loop's instructions, limits and log."""
Settings: TypeAlias = Callable[[LoopState, Agent[Any, Any]], Mapping[str, Any]]
"""What an iteration's run keeps besides, so that it can be looked at and replayed by itself."""
Hear: TypeAlias = Callable[[e.LoopRecord | Happening], None]
"""Hears the loop's facts and everything that happens in its runs."""


@dataclass(frozen=True)
class Means:
    """What a loop is driven with: the live things that its stream cannot hold."""

    log: Log
    journal: Journal
    ground: MakeGround
    agent: MakeAgent
    settings: Settings = lambda state, made: {}
    learner: Learner = field(default_factory=NoLearner)
    hear: Hear | None = None
    before: Callable[[Sequence[e.LoopRecord]], None] | None = None
    """Is told the facts of a loop that is resumed, before `hear` hears new ones."""
    now: Callable[[], int] = clock
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class Driver:
    """One activation of one loop, by the process `owner`."""

    def __init__(self, stream: Stream, means: Means, ground: Ground, owner: str) -> None:
        self.stream, self.means, self.ground, self.owner = stream, means, ground, owner
        # One clock for the whole activation, which nobody can set: a jump of the machine's neither
        # ends the loop nor gives it more time.
        self.now = stream.now = steady(means.now, stream.state.at)
        self._busy: asyncio.Future[Any] | None = None
        self._taken: Overtaken | None = None

    @property
    def state(self) -> LoopState:
        """Where the loop stands."""
        return self.stream.state

    @property
    def loop(self) -> str:
        """Its id."""
        return self.stream.loop

    async def __call__(self) -> LoopState:
        """Go on until the loop ends or waits.

        Raises:
            Overtaken: somebody else ended it or took it over; what was done is kept.
        """
        self.stream.begin()
        watching = asyncio.create_task(self._watch())
        try:
            while await self._move():
                pass
            return self.state
        except asyncio.CancelledError:
            if self._taken is not None:
                raise self._taken from None
            await asyncio.shield(self._interrupted())
            raise
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def record(self, *events: e.LoopEvent, disk: bool = False) -> None:
        """Append facts as the owner of the loop."""
        await self.stream.record(self.owner, *events, disk=disk)

    async def during(self, work: Awaitable[T], seconds: float | None = None) -> T | None:
        """`work`, which ends early if somebody else takes the loop, or after `seconds` (None)."""
        task = asyncio.ensure_future(work)
        self._busy = task
        late = [] if seconds is None else [asyncio.ensure_future(self.means.sleep(seconds))]
        try:
            await asyncio.wait([task, *late], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                return None
            if task.cancelled() and self._taken is not None:
                raise self._taken
            return task.result()
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise
        finally:
            self._busy = None
            for timer in late:
                timer.cancel()

    async def paused(self, reason: str, run: str = "") -> e.Paused:
        """The fact that it pauses, with what an open iteration has done to protected files."""
        if self.state.open is None or self.state.baseline is None:
            return e.Paused(reason=reason, run=run)
        try:
            touched = dict(await self.ground.touched())
        except (TaofoldError, OSError):
            return e.Paused(reason=reason, run=run)
        return e.Paused(reason=reason, run=run, touched=touched)

    def tell(self, happening: Happening) -> None:
        """Pass on what happens in an iteration's run."""
        if self.means.hear is not None:
            self.means.hear(happening)

    async def _move(self) -> bool:
        """Make one move; False if there is nothing left to do."""
        move = d.decide(self.loop, self.state, self.now())
        match move:
            case d.Measure():
                await self._measure()
            case d.Ask():
                await self._ask()
            case d.Iterate():
                return await iterate(self, move)
            case d.Wait():
                await self.record(await self.paused(move.reason))
                return False
            case d.Close():
                await self.record(e.Completing(ending=move.ending, reason=move.reason))
            case d.Finish():
                await finish(self)
            case d.Clear():
                await self.record(e.Cleared(left=await self.ground.clear()))
            case d.Learn():
                await self.record(e.Taught(learnt=await self._learnt()))
            case d.Stop():
                return False
            case _:
                assert_never(move)
        return True

    async def _measure(self) -> None:
        begun = await self.during(self.ground.begin())
        assert begun is not None
        judged, baseline = begun
        await self._runnable(judged.verdict)
        await self.record(
            e.BaselineTaken(
                verdict=slim(judged.verdict),
                snapshot=judged.snapshot,
                baseline=baseline,
                folder=str(self.ground.root),
            )
        )

    async def _runnable(self, verdict: Verdict) -> None:
        """Give the loop up before iteration 1 if a gate names what is not there.

        Raises:
            ConfigError: so it is, and what to write instead.
        """
        found = absent(verdict.results)
        if found is None:
            return
        error = refusal(found[0].command, found[1], self.ground.root)
        why = f"a gate cannot be run: {found[0].command}"
        await self.record(e.LoopEnded(ending="aborted", reason=why))
        await self.record(e.Cleared(left=await self.ground.clear()))
        raise error

    async def _ask(self) -> None:
        """Earlier loops' lessons; a registry that fails costs the lessons, not the loop."""
        baseline = self.state.baseline
        assert baseline is not None
        if not self.state.wish.cross_task:
            lessons = Lessons(reasons=("learning from other tasks is switched off",))
        else:
            try:
                errors = failing(baseline.verdict)
                lessons = await self.means.learner.lessons(self.loop, self.state, errors)
            except TaofoldError as error:
                lessons = Lessons(reasons=(f"the lessons could not be read: {error}",))
        await self.record(e.Injected(number=1, lessons=lessons))

    async def _learnt(self) -> Learnt:
        try:
            return await self.means.learner.learn(
                self.loop, self.state, LoopWork(self.means.log, self.ground)
            )
        except TaofoldError as error:
            return Learnt(notes=(f"nothing could be learnt: {error}",))

    async def _watch(self) -> None:
        """Notice what others wrote."""
        while True:
            await self.means.sleep(POLL)
            with suppress(LogError):
                await self.stream.read()
            try:
                self.stream.hold(self.owner)
            except Overtaken as taken:
                self._taken = taken
                if self._busy is not None:
                    self._busy.cancel()
                return

    async def _interrupted(self) -> None:
        """Ctrl-C: the iteration stays open, the loop waits to be resumed."""
        with suppress(TaofoldError):
            if self.state.status == "running":
                await self.record(await self.paused("interrupted"))


class LoopWork:
    """What a learner may read of a loop."""

    def __init__(self, log: Log, ground: Ground) -> None:
        self._log, self._ground = log, ground

    async def records(self, run: str) -> Sequence[Record]:
        """The log of an iteration's run."""
        try:
            return await self._log.read(run)
        except LookupError:
            return ()

    async def text(self, snapshot: str, path: str) -> str | None:
        """A file of a snapshot."""
        return await self._ground.text(snapshot, path)
