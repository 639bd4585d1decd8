"""Runs a loop in front of a person: makes what it depends on, shows it, asks.

`loop_dependencies` puts that together: store, journal, agent, environment, and the learner with
its settings and files, which `patterns` has from here as well. `drive` shows
the loop as it goes, asks the person, and ends the program as the loop ended (D1).
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from taofold.cli import project
from taofold.cli.outcome import INTERRUPTED, give, give_json, invocation, say
from taofold.core.errors import ConfigError

if TYPE_CHECKING:
    from taofold.agent import Agent
    from taofold.learning.settings import Learning
    from taofold.loop.driver import Hear, LoopDependencies
    from taofold.loop.environment import LoopEnvironment
    from taofold.loop.events import LoopRecord
    from taofold.loop.state import LoopState
    from taofold.loop.values import LoopLimits
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
async def loop_dependencies(
    voice: LoopAudience = LoopAudience(), *, create: bool = False
) -> "AsyncGenerator[LoopDependencies]":
    """Everything a loop needs, from this project's `.taofold`.

    Raises:
        ConfigError: there is no store yet, and it is not to be created.
    """
    from taofold.log.builtin import journal_beside
    from taofold.log.patterns.stores import registry_beside
    from taofold.loop.driver import LoopDependencies
    from taofold.loop.learner import CrossLoopLearner
    from taofold.plugins import SEARCHES, load_all

    search = next(iter(load_all(SEARCHES)), None)  # the registry keeps the rates of one
    log = project.open_store(create=create, kind="loops")
    journal, registry = journal_beside(log), registry_beside(log)
    try:
        yield LoopDependencies(
            log=log,
            journal=journal,
            environment=lambda loop, state: loop_environment(loop, state, network=voice.network),
            agent=lambda folder, state: loop_agent(folder, state, voice.approver),
            learner=CrossLoopLearner(
                registry, learning_settings(), repository=repository(), search=search
            ),
            settings=run_settings,
            hear=voice.hear,
            before=voice.before,
        )
    finally:
        # The log last: journal and registry lie in its file or database (`journal_beside`).
        await registry.close()
        await journal.close()
        await log.close()


def with_dependencies(work: "Callable[[LoopDependencies], Awaitable[T]]") -> T:
    """Do `work` on the loops that there are."""
    import asyncio

    async def done() -> T:
        async with loop_dependencies() as dependencies:
            return await work(dependencies)

    return asyncio.run(done())


def loop_agent(
    folder: Path, state: "LoopState", approver: "Approver | None" = None
) -> "Agent[Any, Any]":
    """The agent of a loop, with its tools in the loop's own work root."""
    from taofold.cli.make_agent import Choice, make

    choice = Choice.of(state.wish.agent)
    if not choice.folder:
        raise ConfigError(
            "this loop does not say how to make its agent: it was not started by this program"
        )
    return make(replace(choice, root=str(folder))).but(approve=approver)


def run_settings(state: "LoopState", made: "Agent[Any, Any]") -> dict[str, Any]:
    """What an iteration's run keeps, so that it can be replayed by itself."""
    from taofold.cli.make_agent import Choice

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


def loop_environment(loop: str, state: "LoopState", *, network: bool = False) -> "LoopEnvironment":
    """The real place of a loop."""
    from taofold.loop.environment import open_environment
    from taofold.policy.redaction import Redactor

    redact = Redactor(Redactor.secrets_in(os.environ))
    return open_environment(loop, state, project.home(), network=network, redact=redact)


def learning_settings() -> "Learning":
    """What the configuration says of learning: aiwg.yml < config.yml < environment.

    Raises:
        ExceptionGroup: every fault, with its path.
    """
    from taofold.files.checked_yaml import refuse
    from taofold.files.config import read_learning

    read, faults = read_learning(learning_files(), os.environ)
    if read is None:
        refuse(faults, "the configuration of learning cannot be used")
    return read


def learning_files() -> "list[Path]":
    """Where the keys of learning may stand, the nearest last; not all of them exist."""
    from taofold.files.config import AIWG

    configuration = project.config_path()
    seeds = [project.home().parent / name for name in AIWG]
    return [*seeds, configuration] if configuration else seeds


def repository() -> str:
    """The name under which what is learnt here is known."""
    return project.home().parent.name


async def settle(dependencies: "LoopDependencies", runs: list[str]) -> None:
    """End the runs of a loop that was given up: nobody will go on with them."""
    from taofold.core.errors import TaofoldError
    from taofold.runtime import control

    for run in runs:
        try:
            row = await dependencies.log.row(run)
            if row.status in ("running", "waiting"):
                await control.end(dependencies.log, run)
        except (TaofoldError, LookupError) as error:
            say(f"note: run {run} could not be ended: {error}")


def drive(
    loop: str,
    work: "Callable[[LoopDependencies], Awaitable[LoopState]]",
    *,
    create: bool = False,
    approve: str = "ask",
    network: bool = False,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Drive a loop in front of a person, and end the program as it ended."""
    state = drive_visibly(
        loop, work, create=create, approve=approve, network=network, quiet=quiet or json
    )
    finish(loop, state, json=json)


def drive_visibly(
    loop: str,
    work: "Callable[[LoopDependencies], Awaitable[LoopState]]",
    *,
    create: bool = False,
    approve: str = "ask",
    network: bool = False,
    quiet: bool = False,
    also: "Callable[[Any], None] | None" = None,
) -> "LoopState | None":
    """Drive a loop in front of a person. None if it was interrupted."""
    from taofold.cli.render.loops import Show
    from taofold.cli.runs.drive import approver, cancellable
    from taofold.loop.stream import Overtaken

    show = Show(quiet=quiet).named(loop)

    def hear(happening: Any) -> None:
        show(happening)
        if also is not None:
            also(happening)

    # The spinner stops before a question is asked: it would write over it.
    asking = approver(approve, lambda: show.busy(""))

    async def driving() -> "LoopState":
        async with loop_dependencies(
            LoopAudience(hear, show.before, asking, network), create=create
        ) as dependencies:
            return await cancellable(work(dependencies), dependencies.log)

    try:
        return asyncio.run(driving())
    except (KeyboardInterrupt, asyncio.CancelledError):
        show.busy("")
        say(f"interrupted; what was done is kept. Go on with: {invocation()} loops resume {loop}")
        return None
    # Another process drives the loop now; this one has nothing to undo.
    except Overtaken as taken:
        show.busy("")
        say(str(taken))
        return None
    finally:
        show.busy("")


def finish(loop: str, state: "LoopState | None", *, json: bool = False) -> None:
    """The result on standard output, what to do next on standard error, and the exit code."""
    from taofold.loop.values import exit_code

    if state is None:
        raise typer.Exit(INTERRUPTED)
    reason = state.pause.reason if state.status == "paused" and state.pause else ""
    if json:
        give_json(as_json(loop, state))
    else:
        why = reason or (state.ended.reason if state.ended is not None else "")
        give(f"{loop}: {state.status}{f', {why}' if why else ''}")
        for text in _next(loop, state):
            say(text)
    raise typer.Exit(exit_code(state.status, reason))


def as_json(loop: str, state: "LoopState") -> dict[str, Any]:
    """The result as one JSON object."""
    from taofold.loop.report import cross_loop

    ended = state.ended
    return {
        "loop_id": loop,
        "status": state.status,
        "reason": (state.pause.reason if state.pause else "") or (ended.reason if ended else ""),
        "iterations": len(state.done),
        "best": ended.best if ended is not None else None,
        "warning": ended.warning if ended is not None else "",
        "quality": [round(iteration.quality, 4) for iteration in state.done],
        "steps": state.spent.steps,
        "tokens": state.spent.usage.tokens,
        "usd": round(state.spent.usage.usd, 9),
        "seconds": state.spent.ms / 1000,
        "run": state.pause.run if state.pause else "",
        "cross_loop_learning": cross_loop(state),
    }


def _next(loop: str, state: "LoopState") -> list[str]:
    """Commands that a person may want now."""
    from taofold.loop.values import RESUMABLE

    call = invocation()
    lines: list[str] = []
    if state.status == "paused" and state.pause is not None and state.pause.run:
        lines += [*_questions(state.pause.run), f"{call} approvals list"]
    if state.status in RESUMABLE:
        # Without more iterations it would be exhausted again at once.
        more = " --max-iterations N" if state.status == "exhausted" else ""
        lines.append(f"{call} loops resume {loop}{more}")
    return [*lines, f"{call} loops report {loop}"]


def _questions(run: str) -> list[str]:
    """What an iteration's run waits for, and the commands that answer it."""
    from taofold.cli.render.story import question
    from taofold.runtime.control import pending

    approvals = with_dependencies(lambda dependencies: pending(dependencies.log, run))
    return [text for approval in approvals for text in question(approval)]


def warn(text: str) -> None:
    """Say what a person should know before a loop starts."""
    say(f"warning: {text}")


def bounds_of(
    state: "LoopState",
    iterations: int | None,
    minutes: float | None,
    budget: float | None,
    steps: int | None,
) -> "LoopLimits":
    """The limits of a loop that is resumed: what is said now, else what was."""
    from msgspec.structs import replace

    bounds = state.bounds
    return replace(
        bounds,
        # `or`: the option begins at 1. The others may be 0 on purpose.
        iterations=iterations or bounds.iterations,
        seconds=bounds.seconds if minutes is None else minutes * 60,
        usd=bounds.usd if budget is None else budget,
        steps=bounds.steps if steps is None else steps,
    )
