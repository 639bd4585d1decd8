"""The drive: feeds a strategy until it returns. The heart of the system.

Run, resume, replay and fork are one operation: drive the strategy, answering from
the tape what was already recorded and from the world what was not. They differ only
in how long the tape is, and in whether the world may be touched (`exact`: it may not).
"""

import asyncio
from collections.abc import Sequence
from typing import Any, assert_never

from taofold.core import events as e
from taofold.core.effects import (
    Act,
    Answer,
    Ask,
    Begin,
    Effect,
    Fork,
    Halt,
    Note,
    Outlook,
    Strategy,
)
from taofold.core.errors import ReplayDiverged
from taofold.core.values import Message, Step
from taofold.policy import Repetition
from taofold.policy.limits import REFUSED_ROW, STOP_REASON, Held
from taofold.runtime.acting import act
from taofold.runtime.asking import ask
from taofold.runtime.inbox import Inbox
from taofold.runtime.setup import Setup
from taofold.runtime.signals import Cancelled, EndOfTape, Park
from taofold.runtime.tape import Tape, essence
from taofold.store.store import Store


class Drive:
    """One activation of one run."""

    def __init__(
        self,
        setup: Setup,
        store: Store,
        tape: Tape,
        inbox: Inbox,
        *,
        exact: bool = False,
        resumed: bool = False,
    ) -> None:
        self.setup, self.store, self.tape, self.inbox = setup, store, tape, inbox
        self.exact, self.resumed = exact, resumed
        self.held: dict[str, Held] = {}
        """What calls under way may still consume, by place."""
        self.queue: set[str] = set()
        """Places of child runs that are about to start."""
        self.others = 0
        """How many branches run beside the one that asks."""
        self._live = self._fresh = False
        self._late: list[e.Event] = []
        self._guards: dict[str, Repetition] = {}
        self._mutating = frozenset(t.name for t in setup.tools.values() if t.effect != "read")

    async def __call__(self, strategy: Strategy[Any], prefix: str = "") -> Any:
        """Feed `strategy` until it returns; its value is returned."""
        position, result = 0, None
        try:
            while True:
                effect = strategy.send(result)
                try:
                    result = await self.resolve(f"{prefix}{position}", effect)
                except Halt as halt:
                    return self._halted(strategy, halt)
                if type(effect) is not Note:  # so that a new note moves no other effect
                    position += 1
        except StopIteration as stop:
            return stop.value
        finally:
            strategy.close()

    async def resolve(self, key: str, effect: Effect) -> Any:
        """Answer one effect."""
        match effect:
            case Begin():
                return await self.begin(key)
            case Ask():
                return await ask(self, key, effect)
            case Act():
                return await act(self, key, effect)
            case Note():
                self.note(key, effect)
                return None
            case Fork():
                return await self.fork(key, effect.branches)
            case _:
                assert_never(effect)

    async def begin(self, key: str) -> Outlook:
        """Open a turn: what people said meanwhile, which limits are near, what the guard says."""
        heard = await self.inbox.steering(self, key)
        hit, last = self._limits(key)
        messages = tuple([Message("user", f"[message from {s.by}] {s.text}") for s in heard])
        guard = self.guard(key)
        return Outlook(
            heard=messages,
            wrap_up=STOP_REASON[last] if last else "",
            stop=STOP_REASON[hit] if hit else "",
            hint=guard.hint,
            toolless=guard.toolless or guard.refused_row >= REFUSED_ROW,
        )

    def _limits(self, key: str) -> tuple[str | None, str | None]:
        """The limit that forbids this turn, and the one that makes it the last."""
        if self.tape.behind(key) and (not self.exact or "." in key):
            recorded = self.tape.peek(e.LimitHit, key)
            if recorded is None:
                return None, None
            self.put(recorded)
            return (None, recorded.limit) if recorded.value < 0 else (recorded.limit, None)
        state, limits = self.store.state, self.setup.limits
        hit = limits.hit(state)
        last = None if hit else limits.last(state)
        if hit:
            self.put(e.LimitHit(key=key, limit=hit, value=1))
        elif last:
            self.put(e.LimitHit(key=key, limit=last, value=-1))
        return hit, last

    def guard(self, key: str) -> Repetition:
        """The repetition guard of the branch in which `key` stands."""
        branch = key.rpartition(".")[0]
        guard = self._guards.get(branch)
        if guard is None:
            guard = self._guards[branch] = Repetition()
        return guard

    def saw(self, key: str, step: Step) -> None:
        """Show the guard a step that is complete."""
        keys = tuple([self.loop_key(a.tool, a.parameters) for a in step.actions])
        self.guard(key).seen(step, mutating=self._mutating, keys=keys)

    def note(self, key: str, effect: Note) -> None:
        """Record what the strategy derived. The past is not written anew on resume."""
        data = effect.data
        event: e.Event
        if effect.kind == "violation":
            event = e.Violated(key=key, rule=data["rule"], detail=data.get("detail", ""))
        elif effect.kind == "compacted":
            event = e.Compacted(key=key, **data)
        else:
            event = e.Noted(key=key, kind=effect.kind, data=data)
        if self.exact or not self.tape.behind(key) or self.tape.peek(type(event), key) is not None:
            self.put(event)

    async def fork(self, key: str, branches: Sequence[Strategy[Any]]) -> tuple[Any, ...]:
        """Run all branches to their end, even when one stops: their work must reach the log."""
        drives = [self(branch, f"{key}.{i}.") for i, branch in enumerate(branches)]
        self.others += len(drives) - 1
        results = await asyncio.gather(*drives, return_exceptions=True)
        self.others -= len(drives) - 1
        failed = [r for r in results if isinstance(r, BaseException)]
        for error in sorted(failed, key=lambda r: isinstance(r, Park | EndOfTape)):
            raise error
        return tuple(results)

    def put(self, event: e.Event) -> e.Record:
        """Record `event`, or find that the tape already has it.

        Raises:
            ReplayDiverged: the tape has something else there.
        """
        if self._fresh:
            return self.store.record(event)
        key: str = getattr(event, "key", "")
        record = self.tape.take(_kind(event), key, getattr(event, "index", 0))
        if record is None:
            if self.exact:
                self._unrecorded(key, event)
            return self.new(event)
        if self.exact and record.event != event:
            raise ReplayDiverged(key, record.event, event)
        if not self.exact and essence(record.event) != essence(event):
            raise ReplayDiverged(key, essence(record.event), essence(event))
        self.replayed(record)
        return record

    def new(self, event: e.Event) -> e.Record:
        """Record what never happened before."""
        if not self._live:
            self.live()
        return self.store.record(event)

    def overruled(self, key: str, index: int) -> None:
        """On resume the policy says something else about an action that did not start yet."""
        for kind in (e.Decided, e.Resolved):
            while (record := self.tape.take(kind, key, index)) is not None:
                self.replayed(record)

    def replayed(self, record: e.Record) -> None:
        """Take in a recorded record, and whatever lies before it in the log."""
        for one in self.tape.until(record.seq):
            self.store.restore(one)

    def live(self) -> None:
        """From here on it happens now: take in the rest of the log and say who resumed it."""
        if self._live or self.exact:
            return
        self._live = True
        for one in self.tape.until():
            self.store.restore(one)
        if self.resumed:
            self.store.dispatch(e.Resumed(epoch=self.store.epoch))
        for event in self._late:
            self.store.dispatch(event)
        self._fresh = not self.tape.rest()

    def reworded(self, key: str, recorded: str, requested: str) -> None:
        """This code builds another prompt than the one recorded: said once per activation."""
        if not self._late:
            self._late.append(e.PromptChanged(key=key, recorded=recorded, requested=requested))

    def touch(self, key: str) -> None:
        """Call before touching the world: an exact replay never does."""
        if self.exact:
            raise EndOfTape(key)
        self.live()

    async def save(self) -> None:
        """Make what happened so far durable; honour a cancellation that arrived meanwhile."""
        await self.store.flush(consume=self.inbox.spend())
        if self.inbox.stale:
            await self.inbox.refresh()
        by = self.inbox.cancelled()
        if by:
            raise Cancelled(by)

    async def flush(self) -> None:
        """Make what happened so far durable, and what the inbox held of it gone."""
        await self.store.flush(consume=self.inbox.spend())

    def _unrecorded(self, key: str, event: e.Event) -> None:
        if self.tape.behind(key):
            raise ReplayDiverged(key, None, event)
        raise EndOfTape(key)

    def loop_key(self, name: str, parameters: dict[str, Any]) -> str:
        """The tool's own idea of what a repetition is, or ""."""
        tool = self.setup.tools.get(name)
        return tool.loop_key(parameters) if tool is not None and tool.loop_key is not None else ""

    def _halted(self, strategy: Strategy[Any], halt: Halt) -> Any:
        try:
            strategy.throw(halt)
        except StopIteration as stop:
            return stop.value
        except Halt:
            return Answer(None, halt.reason)
        raise RuntimeError("a strategy yielded an effect after Halt")


def _kind(event: e.Event) -> type[e.Happened]:
    return e.Started if isinstance(event, e.Started) else type(event)
