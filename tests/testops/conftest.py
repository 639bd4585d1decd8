"""An office of four services behind a real port, and the testops tools that reach it."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from taofold import RunContext, Toolset
from taofold.tools import Outcome
from taofold_testops.tools import toolset

EXAMPLE = Path(__file__).parents[2] / "examples" / "testops"


def pytest_configure() -> None:
    if str(EXAMPLE) not in sys.path:
        sys.path.insert(0, str(EXAMPLE))


class Desk:
    """The tools of one office, and calls of them."""

    def __init__(self, office: Any) -> None:
        self.office = office
        self.tools = {
            "cloud": toolset(office.accounts(cloud=True)),
            "server": toolset(office.accounts(cloud=False)),
        }

    def all(self, kind: str = "cloud") -> Toolset:
        """Returns all tools."""
        return self.tools[kind]

    async def outcome(self, name: str, kind: str = "cloud", /, **parameters: Any) -> Outcome:
        """Returns the outcome of one call."""
        bound = self.tools[kind][name].bind(parameters)
        return await bound.run(RunContext(None, effect_id="e1"))

    async def call(self, name: str, kind: str = "cloud", /, **parameters: Any) -> Any:
        """Returns the value of a call that succeeds."""
        outcome = await self.outcome(name, kind, **parameters)
        assert outcome.status == "success", outcome.value
        return outcome.value

    async def failure(self, name: str, kind: str = "cloud", /, **parameters: Any) -> str:
        """Returns the text of a call that fails."""
        outcome = await self.outcome(name, kind, **parameters)
        assert outcome.status == "failure", outcome
        return str(outcome.value)

    def sent(self, method: str) -> list[str]:
        """Returns the targets of the requests with a method."""
        return [target for one, target in self.office.requests if one == method]


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    """Yields the tools; afterwards, every request must have been a documented one."""
    from testops.office import Office
    from testops.served import application

    office = Office()
    runner = web.AppRunner(application(office))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    office.url = f"http://127.0.0.1:{port}"
    yield Desk(office)
    await runner.cleanup()
    assert office.faults == []
