"""What the server does for its runs: begins them, and advances them with their agents.

An engine decides when; this says with which agent, as whom, and who hears of it.
"""

from collections.abc import Callable
from typing import Any

from taofold.agent.result import Happening
from taofold.core.errors import Refused, UnknownRun
from taofold.core.events import RunStarted
from taofold.core.trace import opening
from taofold.core.values import Principal
from taofold.engine import Engine
from taofold.log.log import Log
from taofold.runtime.endings import Advanced
from taofold.runtime.setup import Pause
from taofold.server.catalog import AnyAgent, Catalog
from taofold.server.hub import Hub
from taofold.tools.media import Prompt


class Worker:
    """The server's part in driving runs."""

    def __init__(
        self, log: Log, catalog: Catalog, hub: Hub, *, current: Callable[[Principal], Principal]
    ) -> None:
        """`current` says which roles a run's principal has today."""
        self._log, self._catalog, self._hub, self._current = log, catalog, hub, current

    async def begin(
        self, engine: Engine, agent: AnyAgent, run: str, goal: Prompt, **options: Any
    ) -> None:
        """Start a run and return as soon as it is in the log.

        Raises:
            Conflict: its session has another run that has not ended, or its id is taken.
            ConfigError: it cannot be started so.
            Refused: the server stops.
        """
        if engine.stopping:
            raise Refused("the server stops: ask another one, or ask again")
        await agent.begin(goal, run_id=run, **options)
        await engine.wake(run)

    async def offered(self, run: str) -> bool:
        """Was the run started by a server that offers its agent as this one does?"""
        try:
            return self._catalog.ours(await self._started(run))
        except UnknownRun:
            return False

    async def advance(self, run: str, pause: Pause) -> Advanced:
        """Advance a run with the agent that it was started with, and tell who watches."""
        started = await self._started(run)
        agent = self._catalog.of(run, started)

        def heard(happening: Happening) -> None:
            self._hub.hear(run, happening)

        try:
            return await agent.advance(
                run, principal=self._current(started.principal), listener=heard, pause=pause
            )
        finally:
            self._hub.forget(run)
            self._hub.poke(run)

    async def _started(self, run: str) -> RunStarted:
        started = opening(await self._log.read(run, limit=1))
        if started is None:
            raise UnknownRun(f"run {run!r} never began")
        return started
