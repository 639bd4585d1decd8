"""The drive: performs the effects of a strategy, one after the other, until it returns.

Run, resume, replay and fork are one operation: drive the strategy, with past results from the
recording and new ones from the world. They differ only in the recording (`recording.py`). Models
and tools are called by `model_calls` and `step_actions`. This module handles the start of a turn
(steering messages, limits, the guard's hint), forks of the strategy, whose branches all run to
their end, and the end of a drive.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, assert_never

from taofold.core import events as e
from taofold.core.content import TextPart
from taofold.core.effects import (
    Act,
    Answer,
    Ask,
    Assess,
    Begin,
    Fork,
    Halt,
    HandOff,
    Lack,
    Note,
    Outlook,
    Strategy,
)
from taofold.core.errors import Conflict, LogError, ModelError, ReplayDiverged, RunError
from taofold.core.values import Message
from taofold.foreign_code import contained
from taofold.policy.limits import LIMIT_OF, REFUSED_ROW, STOP_REASON
from taofold.runtime.endings import cancelled, failed, finished, stopped_by_denial
from taofold.runtime.hand_off import hand_off
from taofold.runtime.ledger import Cancelled, Denied, Ledger, Park
from taofold.runtime.model_calls import ModelCall
from taofold.runtime.recording import EndOfTape
from taofold.runtime.redaction import redact_json
from taofold.runtime.step_actions import ActionBatch


class Drive(Ledger):
    """One activation of one run."""

    async def __call__(self, strategy: Strategy[Any], prefix: str = "") -> Any:
        """Drives `strategy` until it returns, and returns its value."""
        # A generator's first `send` must be None.
        position, result = 0, None
        try:
            while True:
                with contained():  # covers its validators, too
                    effect = strategy.send(result)
                key = f"{prefix}{position}"
                # Its key is that of the next effect; `position` does not move.
                # a note has no place of its own, so a new note moves no other effect
                if isinstance(effect, Note):
                    self.note(key, effect)
                    result = None
                    continue
                if isinstance(effect, Assess):
                    result = self.judged(key, effect)
                    continue
                try:
                    result = await self.resolve(key, effect)
                except Halt as halt:
                    return self._halt(strategy, halt)
                position += 1
        except StopIteration as stop:
            return stop.value
        finally:
            # Its `finally` blocks run now, not at garbage collection.
            strategy.close()

    async def until_end(self, strategy: Strategy[Any]) -> e.RunFinished | e.Parked:
        """Drives `strategy` once and returns its end as an event.

        Raises:
            Conflict: The run belongs to another process.
            ReplayDiverged: This code would act differently from the record.
            LogError: The log cannot be written.
        """
        try:
            return self.finished(await self(strategy))
        except Park as park:
            return e.Parked(reason=park.reason)
        except Cancelled as signal:
            return cancelled(signal.by)
        except Denied as denied:
            return stopped_by_denial(denied.reason)
        except Halt as halt:
            # A limit was hit while the strategy had no last turn to take: its partial result is the
            # answer.
            return self.finished(Answer(None, halt.reason))
        except (Conflict, ReplayDiverged, LogError):
            raise
        except RunError as error:
            return failed(error, self.setup.redactor)

    async def until_end_of_tape(self, strategy: Strategy[Any]) -> e.RunFinished | None:
        """Returns the end that an exact replay derives, or None if the record stops before one."""
        try:
            return self.finished(await self(strategy))
        except EndOfTape:
            return None
        except ModelError as error:
            return failed(error)
        except Denied as denied:
            return stopped_by_denial(denied.reason)

    def finished(self, answer: Any) -> e.RunFinished:
        """Returns the end for a strategy's answer."""
        stop = answer.stop if isinstance(answer, Answer) else ""
        return finished(answer, self.setup.redactor, self._why_limited(stop), self.setup.shown)

    def _why_limited(self, stop: str) -> str:
        """Returns the allowed and consumed amounts if a limit is the reason, else ""."""
        limit = LIMIT_OF.get(stop)
        if limit is None:
            return ""
        for record in reversed(self.store.records):
            if isinstance(record.event, e.LimitHit) and record.event.limit == limit:
                return self.allowance.explained(record.event)
        # A batch may exceed the limit of tool calls in a turn that another limit made the last.
        return self.allowance.explained(e.LimitHit(key="", limit=limit, value=1))

    def resolve(self, key: str, effect: Begin | Ask | Act | Fork | HandOff) -> Awaitable[Any]:
        """Performs one effect."""
        handed = None if isinstance(effect, HandOff) else self.recording.event(e.HandedOff, key)
        if handed is not None:
            # Another agent's records follow, which this agent's must never be taken for.
            raise ReplayDiverged(key, handed.summary, type(effect).__name__)
        match effect:
            case Begin():
                return self.begin(key)
            case Ask():
                return ModelCall(self, key, effect).perform()
            case Act():
                return ActionBatch(self, key, effect).perform()
            case Fork():
                return self.fork(key, effect.branches)
            case HandOff():
                return hand_off(self, key, effect)
            case _:
                assert_never(effect)

    async def begin(self, key: str) -> Outlook:
        """Opens a turn: collects steering messages, near limits and the guard's hints."""
        recording = self.recording
        heard = self.recorded_steering(key) if recording.tape.steered else []
        # New messages belong to the present: a recorded turn does not receive them afterwards.
        if recording.fresh or not recording.covers(key):
            self.live()
            await self.inbox.refresh(self.store)
            if self.inbox.news:
                heard += self.record_steering(key)
        # After the inbox, so that messages are recorded even if the run ends here.
        hit, last = self._limits(key)
        guard = self.guard(key)
        return Outlook(
            heard=tuple([_frame(message) for message in heard]) if heard else (),
            wrap_up=STOP_REASON[last] if last else "",
            stop=STOP_REASON[hit] if hit else "",
            hint=guard.hint,
            toolless=guard.toolless or guard.refused_row >= REFUSED_ROW,
        )

    def _limits(self, key: str) -> tuple[str | None, str | None]:
        """Returns the limit that forbids this turn, and the one that makes it the last."""
        if not self.recording.fresh and self.recording.settles_limits(key):
            recorded = self.recording.event(e.LimitHit, key)
            if recorded is None:
                return None, None
            self.put(recorded)
            # As recorded: -1 makes the turn the last one, 1 forbids it.
            return (None, recorded.limit) if recorded.value < 0 else (recorded.limit, None)
        state, limits = self.store.state, self.allowance.limits
        hit = limits.hit(state)
        last = None if hit else limits.last(state)
        if hit:
            self.put(e.LimitHit(key=key, limit=hit, value=1))
        elif last:
            self.put(e.LimitHit(key=key, limit=last, value=-1))
        return hit, last

    def note(self, key: str, effect: Note) -> None:
        """Records a strategy's note. On resume the past is not written again."""
        data = redact_json(self.setup.redactor, effect.data)
        event: e.Violated | e.Compacted | e.Noted
        if effect.kind == "violation":
            event = e.Violated(
                key=key,
                rule=data["rule"],
                detail=data.get("detail", ""),
                refused=data.get("refused", False),
            )
        elif effect.kind == "compacted":
            event = e.Compacted(key=key, **data)
        else:
            event = e.Noted(key=key, kind=effect.kind, data=data)
        self.annotate(event)

    def judged(self, key: str, effect: Assess) -> Assess:
        """Returns the recorded verdict on a recorded reply, else the one of `effect`.

        If the record ends within the verdict, the rest is that of `effect`. The recorded part keeps
        its wording, which may be that of another runtime: a replay reads it there.
        """
        recorded, is_whole = self.recording.verdict(key)
        if not recorded and not is_whole:
            return effect
        lacks = tuple([Lack(broken.rule, broken.detail) for broken in recorded])
        rest = () if is_whole else effect.lacks[len(lacks) :]
        return Assess((*lacks, *rest), any([broken.refused for broken in recorded]))

    async def fork(self, key: str, branches: Sequence[Strategy[Any]]) -> tuple[Any, ...]:
        """Runs all branches to their end, even if one stops: their work must reach the log."""
        running = len(branches)

        async def whole(number: int, branch: Strategy[Any]) -> Any:
            nonlocal running
            try:
                return await self(branch, f"{key}.{number}.")
            finally:
                running -= 1
                self.allowance.others -= running > 0  # the last one has no branch beside it

        # Each branch shares the remaining budget with the others, from its first call on.
        self.allowance.others += max(0, running - 1)
        drives = [whole(number, branch) for number, branch in enumerate(branches)]
        # Without it the first error would leave the other branches running without an awaiter.
        results = await asyncio.gather(*drives, return_exceptions=True)
        failed = [r for r in results if isinstance(r, BaseException)]
        # Errors first: the other two only mean that there is nothing to do now.
        for error in sorted(failed, key=lambda r: isinstance(r, Park | EndOfTape)):
            raise error
        return tuple(results)

    def _halt(self, strategy: Strategy[Any], halt: Halt) -> Any:
        try:
            strategy.throw(halt)
        except StopIteration as stop:
            return stop.value
        except Halt:
            return Answer(None, halt.reason)
        raise RuntimeError("a strategy yielded an effect after Halt")


def _frame(message: e.Steered) -> Message:
    """Returns a steering message as the model reads it."""
    head = f"[message from {message.by}] "
    return Message(
        "user", (TextPart(head), *message.parts) if message.parts else head + message.text
    )
