"""The drive: feeds a strategy until it returns. The heart of the system.

Run, resume, replay and fork are one operation: drive the strategy, answering from
the tape what was already recorded and from the world what was not. They differ only
in how long the tape is, and in whether the world may be touched (`exact`: it may not).
"""

import asyncio
from collections.abc import Sequence
from typing import Any, assert_never

from taofold.core import events as e
from taofold.core.effects import Act, Answer, Ask, Begin, Effect, Fork, Halt, Note, Outlook, Strategy
from taofold.core.errors import ReplayDiverged
from taofold.core.values import Message
from taofold.policy import Repetition
from taofold.policy.limits import REFUSED_ROW, STOP_REASON
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
        self, setup: Setup, store: Store, tape: Tape, inbox: Inbox, *, exact: bool = False
    ) -> None:
        self.setup, self.store, self.tape, self.inbox = setup, store, tape, inbox
        self.exact = exact
        self.repetition = Repetition()
        self._fed = 0
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
                position += 1
        except StopIteration as stop:
            return stop.value
        finally:
            strategy.close()

    async def resolve(self, key: str, effect: Effect) -> Any:
        """Answer one effect."""
        match effect:
            case Ask():
                return await ask(self, key, effect)
            case Act():
                return await act(self, key, effect)
            case Begin():
                return await self.begin(key)
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
        state, limits = self.store.state, self.setup.limits
        self._feed()
        recorded = self.tape.peek(e.LimitHit, key) if "." in key or not self.exact else None
        hit = limits.hit(state)
        last = None if hit else limits.last(state)
        if recorded is not None and self.tape:
            hit, last = (None, recorded.limit) if recorded.value < 0 else (recorded.limit, None)
        if hit:
            self.put(e.LimitHit(key=key, limit=hit, value=1))
        elif last:
            self.put(e.LimitHit(key=key, limit=last, value=-1))
        messages = tuple([Message("user", f"[message from {s.by}] {s.text}") for s in heard])
        toolless = self.repetition.toolless or state.refused_row >= REFUSED_ROW
        return Outlook(
            heard=messages,
            wrap_up=STOP_REASON[last] if last else "",
            stop=STOP_REASON[hit] if hit else "",
            hint=self.repetition.hint,
            toolless=toolless,
        )

    def note(self, key: str, effect: Note) -> None:
        """Record what the strategy derived."""
        data = effect.data
        if effect.kind == "violation":
            self.put(e.Violated(key=key, rule=data["rule"], detail=data.get("detail", "")))
        elif effect.kind == "compacted":
            self.put(e.Compacted(key=key, **data))
        else:
            self.put(e.Noted(key=key, kind=effect.kind, data=data))

    async def fork(self, key: str, branches: Sequence[Strategy[Any]]) -> tuple[Any, ...]:
        """Run all branches to their end, even when one stops: their work must reach the log."""
        drives = [self(branch, f"{key}.{i}.") for i, branch in enumerate(branches)]
        results = await asyncio.gather(*drives, return_exceptions=True)
        failed = [r for r in results if isinstance(r, BaseException)]
        for error in sorted(failed, key=lambda r: isinstance(r, Park | EndOfTape)):
            raise error
        return tuple(results)

    def put(self, event: e.Event) -> e.Record:
        """Record `event`, or find that the tape already has it.

        Raises:
            ReplayDiverged: the tape has something else there.
        """
        if not self.tape and not self.exact:
            return self.store.record(event)
        key: str = getattr(event, "key", "")
        record = self.tape.take(_kind(event), key, getattr(event, "index", 0))
        if record is None:
            if self.exact:
                self._unrecorded(key, event)
            return self.store.record(event)
        if self.exact and record.event != event:
            raise ReplayDiverged(key, record.event, event)
        if not self.exact and essence(record.event) != essence(event):
            raise ReplayDiverged(key, essence(record.event), essence(event))
        self.replayed(record)
        return record

    def replayed(self, record: e.Record) -> None:
        """Take in a recorded record, and whatever without a place lies before it."""
        for loose in self.tape.loose(before=record.seq):
            self.store.restore(loose)
        self.store.restore(record)
        if not self.tape:
            for loose in self.tape.loose():
                self.store.restore(loose)
            if self.tape.on_end is not None:
                on_end, self.tape.on_end = self.tape.on_end, None
                on_end()

    def touch(self, key: str) -> None:
        """Call before touching the world: an exact replay never does."""
        if self.exact:
            raise EndOfTape(key)

    async def save(self) -> None:
        """Make what happened so far durable; honour a cancellation that arrived meanwhile."""
        await self.store.flush()
        if self.inbox.cancelled():
            raise Cancelled(self.inbox.cancelled())

    def _unrecorded(self, key: str, event: e.Event) -> None:
        if self.tape:
            raise ReplayDiverged(key, None, event)
        raise EndOfTape(key)

    def _feed(self) -> None:
        """Show the repetition guard the steps it has not seen."""
        steps = self.store.state.steps
        while self._fed < len(steps):
            step = steps[self._fed]
            keys = tuple([self.loop_key(a.tool, a.parameters) for a in step.actions])
            self.repetition.seen(step, mutating=self._mutating, keys=keys)
            self._fed += 1

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
