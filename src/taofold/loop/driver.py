"""Drives a loop (`Driver`): performs each next move and records its result.

Stops if another process takes the loop. `LoopDependencies` has the objects it needs; `agent_for`
gives the agent its rules, the lessons and the remaining limits.

Only this module of a loop has effects. Its knowledge is in the stream, so another process can
continue after a crash: `resume` folds the facts and asks for the next move. An iteration is a run
with a fresh context, then the gates. The run's id follows from the loop's id and the number, so a
partial iteration is an ordinary resume of its run. The verdict is always computed again from the
current files.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, assert_never

from msgspec import structs

from taofold.agent import Agent
from taofold.agent.instructions import Instructions, instructions_text
from taofold.agent.result import RunResult
from taofold.clocks import clock, steady
from taofold.core.errors import LogError, Refused, TaofoldError, UnknownRun
from taofold.core.events import Record
from taofold.core.happenings import Happening
from taofold.core.state import ENDED, RunState, fold
from taofold.core.values import GOAL_FROM
from taofold.foreign_code import contained
from taofold.log.journal import Journal
from taofold.log.log import Log
from taofold.loop import events as loop_events
from taofold.loop import iteration
from taofold.loop.authorship import authorship, others_at_work
from taofold.loop.course import detect
from taofold.loop.decisions import (
    BestIteration,
    Clear,
    Close,
    Finish,
    Inject,
    Iterate,
    Learn,
    Measure,
    Stop,
    Wait,
    choose,
    decide,
    out_of_time,
)
from taofold.loop.environment import Judged, LoopEnvironment, OpenEnvironment
from taofold.loop.gates.criteria import absent, refusal
from taofold.loop.gates.verdict_texts import left_out
from taofold.loop.iteration import account
from taofold.loop.learner import Learner, NoLearner
from taofold.loop.state import LoopState
from taofold.loop.stream import LoopStream, Overtaken
from taofold.loop.values import Ending, Learnt, Lessons
from taofold.loop.verdict import Verdict
from taofold.parsing.untrusted_text import BAR, join_names
from taofold.runtime.run import TITLE
from taofold.tools.context import RunContext

TOLD: Final = 6000
"""The most characters of the gates' findings in an iteration's prompt."""
GREEN = (
    "the gates passed before iteration 1: nothing was changed, and nothing is learnt from this "
    "loop. If there is something to do, name a command that fails until it is done"
)
PACKAGES: Final = (
    "the gates do not pass, and the packages that they use changed since the loop began: {}"
)
GRACE: Final = 10.0
"""The minimum seconds for a verdict, even if the loop's time is over."""
_CUT: Final = "\n[… the diff is cut here; the snapshots have all of it]"


T = TypeVar("T")

POLL: float = 1.0
"""Seconds between two reads of other processes' writes to the stream."""

MakeAgent: TypeAlias = Callable[[Path, LoopState], Agent[Any, Any]]
"""Creates the agent for a folder, without the loop's instructions, limits and log."""
Settings: TypeAlias = Callable[[LoopState, Agent[Any, Any]], Mapping[str, Any]]
"""Returns further data that an iteration's run stores, so that it can be replayed separately."""
Hear: TypeAlias = Callable[[loop_events.LoopRecord | Happening], None]
"""Receives the loop's facts and everything that happens in its runs."""


@dataclass(frozen=True)
class LoopDependencies:
    """The live objects that drive a loop and cannot be stored in its stream.

    Example: `start(LoopDependencies(log, journal, open_folder, make_agent), LoopRequest(...))`.
    """

    log: Log
    journal: Journal
    environment: OpenEnvironment
    agent: MakeAgent
    settings: Settings = lambda state, made: {}
    learner: Learner = field(default_factory=NoLearner)
    hear: Hear | None = None
    before: Callable[[Sequence[loop_events.LoopRecord]], None] | None = None
    """Called with the facts of a resumed loop, before `hear` gets new ones."""
    now: Callable[[], int] = clock
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class Driver:
    """One activation of one loop, by the process `owner`."""

    def __init__(
        self,
        stream: LoopStream,
        dependencies: LoopDependencies,
        environment: LoopEnvironment,
        owner: str,
    ) -> None:
        self.stream, self.dependencies, self.environment, self.owner = (
            stream,
            dependencies,
            environment,
            owner,
        )
        # One steady clock for the whole activation: a jump of the machine's clock neither ends the
        # loop nor gives it more time.
        self.now = stream.now = steady(dependencies.now, stream.state.at)
        self._busy: asyncio.Future[Any] | None = None
        self._taken: Overtaken | None = None

    @property
    def state(self) -> LoopState:
        """The current state of the loop."""
        return self.stream.state

    @property
    def loop(self) -> str:
        """The id of the loop."""
        return self.stream.loop

    async def __call__(self) -> LoopState:
        """Drives the loop until it ends or waits.

        Raises:
            Overtaken: Another process ended it or took it over; the work so far is kept.
        """
        # Earlier writes of other processes were read and taken into account; only later ones can
        # take the loop away.
        self.stream.begin()
        watching = asyncio.create_task(self._watch())
        try:
            while await self._move():
                pass
            return self.state
        except asyncio.CancelledError:
            # The watcher cancelled the work because another process took the loop: this is not
            # Ctrl-C.
            if self._taken is not None:
                raise self._taken from None
            # Shielded, so that a second Ctrl-C cannot lose the fact that the loop waits to be
            # resumed.
            await asyncio.shield(self._interrupted())
            raise
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def record(self, *events: loop_events.LoopEvent, disk: bool = False) -> None:
        """Appends facts as the owner of the loop."""
        await self.stream.record(self.owner, *events, disk=disk)

    async def during(self, work: Awaitable[T], seconds: float | None = None) -> T | None:
        """Awaits `work`, at most `seconds` (then None); ends early if another process takes the
        loop.
        """
        task = asyncio.ensure_future(work)
        self._busy = task
        # A sleep of the dependencies and not `asyncio.timeout`: tests use their own clock.
        late = [] if seconds is None else [asyncio.ensure_future(self.dependencies.sleep(seconds))]
        try:
            await asyncio.wait([task, *late], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                # Awaited below: an agent that is being cancelled may still write files and log
                # records.
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

    async def paused(self, reason: str, run: str = "") -> loop_events.LoopPaused:
        """Returns the fact of a pause, with an open iteration's changes of protected files."""
        if self.state.open is None or self.state.baseline is None:
            return loop_events.LoopPaused(reason=reason, run=run)
        try:
            # Without this, an edit by the agent could not be distinguished from a user's on resume.
            touched = dict(await self.environment.touched())
        except (TaofoldError, OSError):
            return loop_events.LoopPaused(reason=reason, run=run)
        return loop_events.LoopPaused(reason=reason, run=run, touched=touched)

    def tell(self, happening: Happening) -> None:
        """Forwards an event of an iteration's run."""
        if self.dependencies.hear is not None:
            with contained():
                self.dependencies.hear(happening)

    async def _move(self) -> bool:
        """Makes one move; returns False if there is nothing left to do."""
        move = decide(self.loop, self.state, self.now())
        match move:
            case Measure():
                await self._measure()
            case Inject():
                lessons = await self._lessons()
                await self.record(loop_events.LessonsInjected(number=1, lessons=lessons))
            case Iterate():
                return await self._iterate(move)
            case Wait():
                await self.record(await self.paused(move.reason))
                return False
            case Close():
                await self.record(loop_events.Completing(ending=move.ending, reason=move.reason))
            case Finish():
                await self._finish()
            case Clear():
                await self.record(loop_events.Cleared(left=await self.environment.clear()))
            case Learn():
                await self.record(loop_events.Taught(learnt=await self._learnt()))
            case Stop():
                return False
            case _:
                assert_never(move)
        return True

    async def _measure(self) -> None:
        begun = await self.during(self.environment.begin(), self._left())
        if begun is None:
            # A baseline that was cut off would require too little of every later verdict.
            close = out_of_time(self.state)
            await self.record(loop_events.Completing(ending=close.ending, reason=close.reason))
            return
        judged, baseline = begun
        # Before the baseline is a fact: a loop whose gate can never run leaves nothing to resume.
        await self._runnable(judged.verdict)
        await self.record(
            loop_events.BaselineTaken(
                verdict=judged.verdict.slim(),
                snapshot=judged.snapshot,
                baseline=baseline,
                folder=str(self.environment.root),
            )
        )

    async def _runnable(self, verdict: Verdict) -> None:
        """Aborts the loop before iteration 1 if a gate names something that does not exist.

        Raises:
            ConfigError: A gate cannot run; the error suggests a command.
        """
        lacking = absent(verdict.results)
        if lacking is None:
            return
        error = refusal(lacking[0].command, lacking[1], self.environment.root)
        why = f"a gate cannot be run: {lacking[0].command}"
        await self.record(loop_events.LoopEnded(ending="aborted", reason=why))
        await self.record(loop_events.Cleared(left=await self.environment.clear()))
        raise error

    async def _lessons(self) -> Lessons:
        """Returns earlier loops' lessons; a registry failure costs the lessons, not the loop."""
        verdict = self.state.verdict
        assert verdict is not None
        if not self.state.wish.cross_task:
            return Lessons(reasons=("learning from other tasks is switched off",))
        try:
            return await self.dependencies.learner.lessons(self.loop, self.state, verdict.errors)
        except TaofoldError as error:
            return Lessons(reasons=(f"the lessons could not be read: {error}",))

    async def _learnt(self) -> Learnt:
        try:
            return await self.dependencies.learner.learn(
                self.loop, self.state, LoopWork(self.dependencies.log, self.environment)
            )
        except TaofoldError as error:
            return Learnt(notes=(f"nothing could be learnt: {error}",))

    async def _watch(self) -> None:
        """Polls the stream for other processes' writes."""
        while True:
            await self.dependencies.sleep(POLL)
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
        """Handles Ctrl-C: the iteration stays open, the loop waits to be resumed."""
        with suppress(TaofoldError):
            if self.state.status == "running":
                await self.record(await self.paused("interrupted"))

    async def _iterate(self, move: Iterate) -> bool:
        """Runs an iteration to its end; returns False if it waits for a user."""
        environment = self.environment
        if not move.going:
            before = await environment.snapshot(f"before iteration {move.number}")
            begun = loop_events.IterationStarted(number=move.number, run=move.run, before=before)
            # After the loop has failed at an error, lessons may be shown that were withheld at
            # first.
            lessons = await self._lessons() if move.number > 1 else Lessons()
            if lessons.text or lessons.reasons:
                injection = loop_events.LessonsInjected(number=move.number, lessons=lessons)
                await self.record(injection, begun)
            else:
                await self.record(begun)
        # After a crash the run may have ended already, or be incomplete: `_work` checks it.
        await self._work(move)
        records = await self._records(move.run)
        state = fold(records)
        if state.status == "waiting":
            await self.record(await self.paused(state.waiting_for, move.run))
            return False
        # The gates run even if the run failed or was cut off: only the files count, not the answer.
        seconds = self._verdict_seconds()
        judged = await self.during(environment.judge(f"iteration {move.number}", seconds))
        assert judged is not None
        verdict = judged.verdict
        # The iteration stays open, so that its work is judged again and no lesson counts as failed.
        # Tampering is recorded in any case: the next verdict would not find it any more.
        if verdict.packages and not (verdict.passed or verdict.tampered):
            reason = PACKAGES.format(join_names(verdict.packages, 5))
            pause = await self.paused(reason)
            await self.record(structs.replace(pause, packages=verdict.packages))
            return False
        ended = await self._ended(move, records, judged)
        await self.record(ended, *detect(self.state, ended))
        return True

    async def _work(self, move: Iterate) -> None:
        """Starts the iteration's run, continues it, or skips it if it ended already."""
        state, dependencies = self.state, self.dependencies
        records = await self._records(move.run)
        had = fold(records)
        # A run that was cancelled or failed by an error continues; every other end is final.
        if had.status in ENDED and had.status != "cancelled" and had.stop_reason != "error":
            return
        now = self.now()
        with contained():
            worker = dependencies.agent(self.environment.root, state)
        agent = agent_for(worker, state, now, had).replace(log=dependencies.log)
        if records:
            work = agent.resume(move.run, listener=self.tell)
        else:
            goal = iteration.goal(state, move.number, self._failing())
            title = f"{self.loop}, iteration {move.number}: {state.wish.task}"
            marks = {"loop": self.loop, "iteration": move.number, "reference": BAR, TITLE: title}
            # The goal has output of commands and lessons of other loops.
            marks[GOAL_FROM] = "loop"
            with contained():
                settings = {**dependencies.settings(state, agent), **marks}
            work = agent.run(goal, run_id=move.run, listener=self.tell, settings=settings)
        _: RunResult[Any] | None = await self.during(work, self._left())

    def _left(self) -> float:
        """Returns the seconds that this activation may still take."""
        return max(0.0, self.state.left_ms(self.now()) / 1000)

    def _verdict_seconds(self) -> float:
        """Returns the seconds that the gates may take together.

        The files of a run that was cut off are judged like any others: for as long as the gates may
        need by their first run, but not for as long as a hanging gate would take.
        """
        baseline = self.state.baseline
        results = () if baseline is None else baseline.verdict.results
        took = sum([result.ms for result in results]) / 1000
        return max(self._left(), 2 * took, GRACE)

    def _failing(self) -> str:
        """Returns the last findings of the gates."""
        last = self.state.verdict
        return "" if last is None else self.environment.observation(last, TOLD)

    async def _records(self, run: str) -> Sequence[Record]:
        try:
            return await self.dependencies.log.read(run)
        except UnknownRun:
            return ()

    async def _ended(
        self, move: Iterate, records: Sequence[Record], judged: Judged
    ) -> loop_events.IterationEnded:
        """Returns the complete result of the iteration as one fact."""
        state, environment = self.state, self.environment
        going = state.open
        assert going is not None
        assert state.baseline is not None
        report = account(records)
        shared = await self._shared(records, judged)
        changed: Sequence[str]
        if shared is None:
            before, after = going.before, judged.snapshot
            changed = await environment.changed(before, after)
        else:
            before, after = shared.base, shared.own
            changed = await environment.changed(before, after)
        # The digest covers more of the diff than is stored, so that long diffs with a late
        # difference stay distinct.
        full = await environment.diff(before, after, 10 * loop_events.DIFF)
        diff = full if len(full) <= loop_events.DIFF else full[: loop_events.DIFF] + _CUT
        apart = await environment.changed(state.baseline.snapshot, judged.snapshot)
        files = dict(await environment.digests(apart))
        blocked = "" if state.wish.unexecuted else judged.blocked
        commit = ""
        if state.wish.commit and changed:
            body = f"{judged.verdict.summary}\n\n{state.wish.task[:500]}"
            commit = await environment.commit(move.number, body, state.wish.branch)
        return loop_events.IterationEnded(
            number=move.number,
            run=move.run,
            verdict=judged.verdict.slim(),
            snapshot=judged.snapshot,
            status=report.status,
            stop_reason=report.stop_reason,
            said=report.said,
            confidence=report.confidence,
            diff=diff,
            digest=sha256(full.encode("utf-8", "replace")).hexdigest()[:16],
            changed=tuple(changed),
            files=files,
            failed=report.failed,
            executed=report.executed,
            # Without a difference from the start there is nothing that a gate should have run.
            blocked=blocked if changed or apart else "",
            tools=report.tools,
            spent=structs.replace(report.spent, ms=max(0, self.now() - going.started_at)),
            commit=commit,
            undone=judged.undone,
            shared=shared,
        )

    async def _shared(
        self, records: Sequence[Record], judged: Judged
    ) -> loop_events.SharedFolder | None:
        """Returns the loop's own part of the changes, None if all of them are its own.

        The gates then run on this part alone: others may have repaired or broken a check.
        """
        state, environment = self.state, self.environment
        assert state.baseline is not None
        last = state.last
        base = state.baseline.snapshot if last is None else last.snapshot
        made = judged.made or judged.snapshot
        loops = await others_at_work(
            self.dependencies.journal, self.loop, state, _verdict_at(self.stream.records)
        )
        authors = await authorship(records, base, made, environment, shared=bool(loops))
        if authors.alone:
            return None
        own = await environment.composed(base, made, authors.own, authors.texts)
        before = after = None
        if authors.own and state.wish.cross_task:
            seconds = self._verdict_seconds() / 2
            trials = [
                await self.during(environment.trial(tree, seconds), 2 * seconds)
                for tree in (base, own)
            ]
            # A gate without an end shows nothing about its checks.
            if all([t and not any([r.timed_out for r in t.results]) for t in trials]):
                before, after = [trial.slim() for trial in trials if trial is not None]
        return loop_events.SharedFolder(
            authors.others, authors.unsure, loops, base, own, before, after
        )

    async def _finish(self) -> None:
        """Completes the remaining work of the loop, and records its end."""
        state, environment = self.state, self.environment
        closing = state.closing
        assert closing is not None
        choice = choose(state)
        # After a crash between restoring and recording the end, `restored` is set: not done twice.
        if choice is not None and state.restored is None and choice.snapshot != _standing(state):
            await environment.snapshot("as the last iteration left it")  # so that nothing is lost
            await environment.restore(choice.snapshot)
            await self.record(
                loop_events.FilesRestored(
                    number=choice.number, snapshot=choice.snapshot, reason=choice.reason
                )
            )
        delivered, warning = await self._handed_over(closing.ending)
        if closing.ending != "completed" and choice is not None:
            warning = "; ".join([text for text in (warning, _unproven(state, choice)) if text])
        await self.record(_last_word(closing, choice, warning, delivered=delivered), disk=True)

    async def _handed_over(self, ending: Ending) -> tuple[bool, str]:
        """Delivers finished work to the project.

        Returns True if complete, and a warning for the user.
        """
        state, environment = self.state, self.environment
        if not state.iterations:
            return ending == "completed", GREEN if ending == "completed" else ""
        apart = state.wish.mode != "in-place"
        warning = ""
        if ending == "completed":
            delivered, warning = await self._delivered()
            if delivered:
                return True, warning
        elif apart:
            warning = f"the work is in {environment.root}; it was not brought to {state.wish.root}"
        # A worktree or a copy with undelivered work is never removed here.
        if apart:
            left = await environment.clear(keep=warning)
            warning += f". When you have what you want of it: {left.remove}"
        return False, warning

    async def _delivered(self) -> tuple[bool, str]:
        """Delivers the work to the project. Returns True if possible, and the warning to show."""
        try:
            merged = await self.environment.deliver()
        except Refused as refused:
            return False, f"the work stays in {self.environment.root}: {refused}"
        if not merged:
            return True, ""
        names = join_names(merged, 5)
        return (
            True,
            f"merged with later changes in the project: {names}; no gate has run on the result",
        )


class LoopWork:
    """The parts of a loop that a learner may read."""

    def __init__(self, log: Log, environment: LoopEnvironment) -> None:
        self._log, self._ground = log, environment

    async def records(self, run: str) -> Sequence[Record]:
        """Returns the log of an iteration's run."""
        try:
            return await self._log.read(run)
        except LookupError:
            return ()

    async def text(self, snapshot: str, path: str) -> str | None:
        """Returns a file of a snapshot."""
        return await self._ground.text(snapshot, path)


def agent_for(agent: Agent[Any, Any], state: LoopState, now: int, had: RunState) -> Agent[Any, Any]:
    """Returns the agent for the loop: with its rules, the lessons, and the remaining limits.

    `had` is the state of the run so far; its own counters continue from there.
    """
    bounds, limits = state.bounds, agent.limits
    # The run's own limit counts from its beginning, the loop's from this activation.
    seconds = max(0.0, state.left_ms(now) / 1000) + had.active_ms / 1000
    if limits.seconds is not None:
        seconds = min(seconds, limits.seconds)
    usd = limits.usd
    if bounds.usd is not None:
        left = max(0.0, bounds.usd - state.spent.usage.priced_usd)
        usd = left if usd is None else min(usd, left)
    changes: dict[str, Any] = {"seconds": seconds, "usd": usd}
    if bounds.steps is not None:
        changes["steps"] = bounds.steps
    return agent.replace(
        instructions=_instructions(agent, state),
        limits=replace(limits, **changes),
    )


def _instructions(agent: Agent[Any, Any], state: LoopState) -> Instructions[Any]:
    own = agent.instructions
    if isinstance(own, str):
        return iteration.instructions(own, state)

    async def written(context: RunContext[Any]) -> str:
        return iteration.instructions(await instructions_text(own, context), state)

    return written


def _unproven(state: LoopState, choice: BestIteration) -> str:
    """Names the remaining files that no gate has run with; they may influence a check."""
    kept = [iteration for iteration in state.done if iteration.number == choice.number]
    left = left_out([change for iteration in kept for change in iteration.verdict.changes])
    if not left:
        return ""
    return (
        f"the files contain changes that no gate has run with and that may influence a check: "
        f"{join_names(left, 10)}"
    )


def _verdict_at(records: Sequence[loop_events.LoopRecord]) -> int:
    """Returns a time before the snapshot that the last verdict judged, in ms since the epoch."""
    starts = [r.at for r in records if isinstance(r.event, loop_events.IterationEnded)]
    if starts:
        return starts[-1]
    started = records[0].event
    assert isinstance(started, loop_events.LoopStarted)
    return started.opened_at or records[0].at


def _standing(state: LoopState) -> str:
    """Returns the snapshot of the current files."""
    return state.done[-1].snapshot if state.done else ""


def _last_word(
    closing: loop_events.Completing, choice: BestIteration | None, warning: str, *, delivered: bool
) -> loop_events.LoopEnded:
    return loop_events.LoopEnded(
        ending=closing.ending,
        reason=closing.reason,
        best=choice.number if choice is not None else 0,
        why_best=choice.reason if choice is not None else "",
        degraded=choice.degraded if choice is not None else False,
        delivered=delivered,
        warning=warning,
    )
