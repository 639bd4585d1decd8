"""The dependencies of a loop of this project: log, journal, agent, environment and learner.

`loop_dependencies` makes them from `.taofold` and closes them. A `LoopAudience`, made by `drive`,
displays the loop and answers its approvals. `taofold.loop` uses the dependencies.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from taofold.cli.project import home, learning_settings, open_store
from taofold.core.errors import ConfigError

if TYPE_CHECKING:
    from taofold.agent import Agent
    from taofold.loop.driver import Hear, LoopDependencies
    from taofold.loop.environment import LoopEnvironment
    from taofold.loop.events import LoopRecord
    from taofold.loop.state import LoopState
    from taofold.runtime.setup import Approver
    from taofold.tools.container_network import Reach


T = TypeVar("T")


@dataclass(frozen=True)
class LoopAudience:
    """The listeners and the approver of a loop. Empty for commands that only read."""

    hear: "Hear | None" = None
    before: "Callable[[Sequence[LoopRecord]], None] | None" = None
    approver: "Approver | None" = None
    approve: str = ""
    """The value of `--approve`."""
    reach: "Reach | None" = None
    """Network access of gates; None = none."""


@asynccontextmanager
async def loop_dependencies(
    voice: LoopAudience = LoopAudience(), *, create: bool = False
) -> "AsyncGenerator[LoopDependencies]":
    """Opens a loop's dependencies from this project's `.taofold`.

    Raises:
        ConfigError: There is no store, and `create` is False.
    """
    from taofold.log.open import journal_beside
    from taofold.log.patterns.stores import registry_beside
    from taofold.loop.driver import LoopDependencies
    from taofold.loop.learner import CrossLoopLearner
    from taofold.plugins import SEARCHES, load_all

    search = next(iter(load_all(SEARCHES)), None)  # the registry stores rates of one search
    log = open_store(create=create, kind="loops")
    journal, registry = journal_beside(log), registry_beside(log)
    try:
        yield LoopDependencies(
            log=log,
            journal=journal,
            environment=lambda loop, state: loop_environment(loop, state, voice.reach),
            agent=lambda folder, state: loop_agent(folder, state, voice),
            learner=CrossLoopLearner(registry, learning_settings(), search=search),
            settings=run_settings,
            hear=voice.hear,
            before=voice.before,
        )
    finally:
        # The log last: journal and registry use its file or database (`journal_beside`).
        await registry.close()
        await journal.close()
        await log.close()


def with_dependencies(work: "Callable[[LoopDependencies], Awaitable[T]]") -> T:
    """Runs `work` with the dependencies of existing loops."""

    async def done() -> T:
        async with loop_dependencies() as dependencies:
            return await work(dependencies)

    return asyncio.run(done())


def loop_agent(
    folder: Path, state: "LoopState", audience: LoopAudience = LoopAudience()
) -> "Agent[Any, Any]":
    """Makes the agent of a loop, with its tools in the loop's work root.

    An agent from Python without tools gets the tools of the default agent.
    """
    from taofold.cli.agent_argument import (
        AgentChoice,
        approved_by,
        has_own_tools,
        made_per_folder,
        make,
        tools_for_work,
    )

    choice = AgentChoice.of(state.wish.agent)
    if not choice.folder:
        raise ConfigError(
            "this loop does not record how to make its agent: another program started it"
        )
    agent = make(replace(choice, root=str(folder)), own_approver=True)
    if not made_per_folder(choice.agent) and not has_own_tools(agent):
        agent = agent.replace(tools=tools_for_work(folder, choice.reach))
    return approved_by(agent, audience.approve, audience.approver)


def run_settings(state: "LoopState", agent: "Agent[Any, Any]") -> dict[str, Any]:
    """Returns the settings that an iteration's run records, so that it can be replayed alone."""
    from taofold.cli.agent_argument import AgentChoice

    limits = {
        name: value
        for name in ("steps", "seconds", "usd")
        if (value := getattr(agent.limits, name)) is not None
    }
    # The iteration's folder: a worktree or a copy has its own.
    folder = state.baseline.folder if state.baseline is not None else state.wish.root
    choice = replace(
        AgentChoice.of(state.wish.agent),
        root=folder,
        limits=limits,
        strict=agent.strict,
        # Instructions from a function are in the run's own settings.
        instructions=agent.instructions if isinstance(agent.instructions, str) else "",
    )
    return choice.settings()


def loop_environment(
    loop: str, state: "LoopState", reach: "Reach | None" = None
) -> "LoopEnvironment":
    """Makes the environment of a loop on this machine."""
    from taofold.loop.environment import open_environment
    from taofold.policy.redaction import Redactor
    from taofold.tools.container_network import Reach

    redact = Redactor(Redactor.secrets_in(os.environ))
    return open_environment(loop, state, home(), reach=reach or Reach(), redact=redact)
