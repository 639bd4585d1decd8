"""The dashboard tool: figures of every service that is set up."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from taofold.tools import Outcome
from taofold_testops.client import ServiceError


class DashboardTools:
    """Collects figures.

    Args:
        figures: A function for each figure. Each asks one service.
    """

    def __init__(self, figures: dict[str, Callable[[], Awaitable[Any]]]) -> None:
        self._figures = figures

    async def dashboard_metrics(self) -> Outcome:
        """Get the figures of all services: open issues, jobs by result, test runs by state."""
        results = await asyncio.gather(*[self._figure(one) for one in self._figures.values()])
        values = dict(zip(self._figures, results, strict=True))
        failed = [name for name, value in values.items() if isinstance(value, ServiceError)]
        shown = {n: f"unavailable: {v}" if n in failed else v for n, v in values.items()}
        if len(failed) == len(values):
            return Outcome(shown, "failure")
        return Outcome(shown, "partial" if failed else "success")

    async def _figure(self, figure: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await figure()
        except ServiceError as error:
            return error
