"""Lets a deadline of an event loop pass without waiting for it.

A test that sleeps past a deadline of 50 ms fails on a busy machine, where the work before the
deadline takes longer. Here the deadline can be a minute, and the test chooses the moment when it
passes:

    clock = LoopClock()

    @tool(effect="read", timeout=60)
    async def slow() -> str:
        clock.jump(90)  # the deadline passes now, while the tool runs
        await asyncio.Event().wait()
"""

import asyncio


class LoopClock:
    """The clock of the running event loop, which a test moves ahead."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ahead, time = 0.0, self._loop.time
        self._loop.time = lambda: time() + self._ahead  # type: ignore[method-assign]

    def jump(self, seconds: float) -> None:
        """Moves the clock ahead. Any thread may call it."""
        self._loop.call_soon_threadsafe(self._jump, seconds)

    def _jump(self, seconds: float) -> None:
        self._ahead += seconds

    async def jumped(self, seconds: float) -> None:
        """Moves the clock ahead. Returns after the timers that are due by then."""
        self._jump(seconds)
        await asyncio.sleep(0)  # the timers run after this turn
        await asyncio.sleep(0)  # a timer's cancellation takes effect in the next turn
