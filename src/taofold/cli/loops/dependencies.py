"""What a loop is driven with on the command line: store, journal, agent, workspace, learner."""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from taofold.cli import project
from taofold.cli.agents import Choice, make
from taofold.cli.outcome import say
from taofold.core.errors import ConfigError

if TYPE_CHECKING:
    from taofold.agent import Agent
    from taofold.learning.settings import Learning
    from taofold.loop.driver import Hear, LoopDependencies
    from taofold.loop.environment import LoopEnvironment
    from taofold.loop.events import LoopRecord
    from taofold.loop.state import LoopState
    from taofold.runtime.setup import Approver


T = TypeVar("T")


@dataclass(frozen=True)
class LoopAudience:
    """Who hears of a loop, and who is asked. Empty for commands that only read."""

    hear: "Hear | None" = None
    before: "Callable[[Sequence[LoopRecord]], None] | None" = None
    approver: "Approver | None" = None
    network: bool = False


@asynccontextmanager
async def means(
    voice: LoopAudience = LoopAudience(), *, create: bool = False
) -> "AsyncGenerator[LoopDependencies]":
    """Everything a loop needs, from this project's `.taofold`.

    Raises:
        ConfigError: there is no store yet, and it is not to be created.
    """
    from taofold.cli.project import embedder
    from taofold.log.builtin import journal_beside
    from taofold.log.patterns.stores import registry_beside
    from taofold.loop.driver import LoopDependencies
    from taofold.loop.learner import CrossLoopLearner
    from taofold.plugins import SEARCHES, load_all

    # Before the store is opened: a wrong variable must not leave an open log behind.
    model = embedder()
    search = next(iter(load_all(SEARCHES)), None)  # the registry keeps the rates of one
    log = project.open_store(create=create, kind="loops")
    journal, registry = journal_beside(log), registry_beside(log, embedder=model)
    try:
        yield LoopDependencies(
            log=log,
            journal=journal,
            environment=lambda loop, state: ground(loop, state, network=voice.network),
            agent=lambda folder, state: agent(folder, state, voice.approver),
            learner=CrossLoopLearner(registry, learning(), repository=repository(), search=search),
            settings=settings,
            hear=voice.hear,
            before=voice.before,
        )
    finally:
        # The log last: journal and registry lie in its file or database (`journal_beside`).
        await registry.close()
        await journal.close()
        await log.close()


def with_means(work: "Callable[[LoopDependencies], Awaitable[T]]") -> T:
    """Do `work` on the loops that there are."""
    import asyncio

    async def done() -> T:
        async with means() as dependencies:
            return await work(dependencies)

    return asyncio.run(done())


def agent(
    folder: Path, state: "LoopState", approver: "Approver | None" = None
) -> "Agent[Any, Any]":
    """The agent of a loop, with its tools in the loop's own work root."""
    choice = Choice.of(state.wish.agent)
    if not choice.folder:
        raise ConfigError(
            "this loop does not say how to make its agent: it was not started by this program"
        )
    return make(replace(choice, root=str(folder))).but(approve=approver)


def settings(state: "LoopState", made: "Agent[Any, Any]") -> dict[str, Any]:
    """What an iteration's run keeps, so that it can be replayed by itself."""
    limits = {
        name: value
        for name in ("steps", "seconds", "usd")
        if (value := getattr(made.limits, name)) is not None
    }
    # Where the iteration worked: a worktree or a copy has a folder of its own.
    folder = state.baseline.folder if state.baseline is not None else state.wish.root
    choice = replace(
        Choice.of(state.wish.agent),
        root=folder,
        limits=limits,
        strict=made.strict,
        instructions=made.instructions,
    )
    return choice.settings()


def ground(loop: str, state: "LoopState", *, network: bool = False) -> "LoopEnvironment":
    """The real place of a loop."""
    from taofold.loop.environment import open_environment
    from taofold.policy.redaction import Redactor

    redact = Redactor(Redactor.secrets_in(os.environ))
    return open_environment(loop, state, project.home(), network=network, redact=redact)


def learning() -> "Learning":
    """What the configuration says of learning: aiwg.yml < config.yml < environment.

    Raises:
        ExceptionGroup: every fault, with its path.
    """
    from taofold.files import refuse
    from taofold.files.learning import read_learning

    read, faults = read_learning(learning_files(), os.environ)
    if read is None:
        refuse(faults, "the configuration of learning cannot be used")
    return read


def learning_files() -> "list[Path]":
    """Where the keys of learning may stand, the nearest last; not all of them exist."""
    from taofold.files.learning import AIWG

    configuration = project.config_path()
    seeds = [project.home().parent / name for name in AIWG]
    return [*seeds, configuration] if configuration else seeds


def repository() -> str:
    """The name under which what is learnt here is known."""
    return project.home().parent.name


async def settle(dependencies: "LoopDependencies", runs: list[str]) -> None:
    """End the runs of a loop that was given up: nobody will go on with them."""
    from taofold.cli.runs import status
    from taofold.core.errors import TaofoldError

    for run in runs:
        try:
            row = await dependencies.log.row(run)
            if row.status in ("running", "waiting"):
                await status.end(dependencies.log, run)
        except (TaofoldError, LookupError) as error:
            say(f"note: run {run} could not be ended: {error}")
