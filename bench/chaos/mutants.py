"""Runtimes that break a promise, each in one way: what the harness should report.

    python bench/chaos/run.py --faults 60 --mutant stale

A harness that has never found anything proves nothing. Each function changes the program of all
processes of a world, before the first is forked.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from taofold.core import events as e
from taofold.engine.reconciler import Reconciler
from taofold.log.run_store import Store
from taofold.log.sqlite.log import SqliteLog
from taofold.runtime import ownership
from taofold.runtime.recording import Tape
from taofold.runtime.tool_calls import Invocation
from taofold.runtime.uncertain_calls import PastCall


def stale() -> None:
    """An answer counts for a newer start than the one it was about."""

    def attempts(self: Tape, key: str, index: int) -> list[e.Record]:
        started = self._at[key, "Started", index]
        taken = [started.popleft()]
        for kind in ("Decided", "Resolved"):
            queue = self._at.get((key, kind, index))
            while queue and queue[0].seq < taken[0].seq:
                taken.append(queue.popleft())
        taken += started
        started.clear()
        return sorted(taken, key=lambda record: record.seq)

    Tape.attempts = attempts  # type: ignore[method-assign]


def unrenewed() -> None:
    """Leases are taken and never renewed."""
    ownership.Heartbeat._renew = lambda self: None  # type: ignore[method-assign]


def swallowed() -> None:
    """Every other start of a call is not written."""
    whole = Store.record

    def record(self: Store, event: e.Event) -> e.Record:
        if isinstance(event, e.Started) and random.random() < 0.5:
            return e.Record(self.run, self.head, self.now(), event)
        return whole(self, event)

    Store.record = record  # type: ignore[method-assign]


_tasks: set[asyncio.Task[None]] = set()


def late() -> None:
    """Records a write a moment before it happens."""
    append = SqliteLog.append

    async def soon(self: SqliteLog, *args: Any, **named: Any) -> bool:
        task = asyncio.get_running_loop().create_task(_later(append, self, args, named))
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)
        return True

    SqliteLog.append = soon  # type: ignore[method-assign,assignment]


async def _later(append: Any, log: SqliteLog, args: Any, named: Any) -> None:
    await asyncio.sleep(0.05)
    await append(log, *args, **named)


def asleep() -> None:
    """Engines never look at runs whose owner is gone."""
    Reconciler._abandoned = lambda self, row: False  # type: ignore[method-assign]


def eager() -> None:
    """Repeats an interrupted call without verification."""

    async def again(self: PastCall, bound: Any, attempts: Any) -> Any:
        assert self.tool is not None
        invocation = Invocation(self.ledger, self.key, self.index, self.action, self.tool)
        if self.tool.agent is not None:
            return self.action, await invocation.delegate()
        invocation.start()
        return self.action, await invocation.perform(bound, attempts.answer)

    PastCall.doubt = again  # type: ignore[method-assign]


MUTANTS: dict[str, Callable[[], None]] = {
    mutant.__name__: mutant for mutant in (stale, unrenewed, swallowed, late, asleep, eager)
}
