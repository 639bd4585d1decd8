"""Drives a loop at the terminal, and exits with the loop's exit code (D1).

The loop is displayed while it runs (`render/loops`), and approvals are asked at the terminal. Then
the result is printed, as text or JSON, with suggested commands. `dependencies` provides the loop's
parts.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from taofold.cli.loops.dependencies import LoopAudience, loop_dependencies, with_dependencies
from taofold.cli.output import INTERRUPTED, give, give_json, invocation, say

if TYPE_CHECKING:
    from taofold.loop.driver import LoopDependencies
    from taofold.loop.state import LoopState
    from taofold.tools.container_network import Reach


def drive(
    loop: str,
    work: "Callable[[LoopDependencies], Awaitable[LoopState]]",
    *,
    create: bool = False,
    approve: str = "",
    reach: "Reach | None" = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Drives a loop at the terminal and exits with its exit code."""
    state = drive_visibly(
        loop, work, create=create, approve=approve, reach=reach, quiet=quiet or json
    )
    finish(loop, state, json=json)


def drive_visibly(
    loop: str,
    work: "Callable[[LoopDependencies], Awaitable[LoopState]]",
    *,
    create: bool = False,
    approve: str = "",
    reach: "Reach | None" = None,
    quiet: bool = False,
    also: "Callable[[Any], None] | None" = None,
) -> "LoopState | None":
    """Drives a loop at the terminal. Returns None if it was interrupted."""
    from taofold.cli.render.loops import LoopDisplay
    from taofold.cli.runs.drive import approver, cancellable
    from taofold.loop.stream import Overtaken

    show = LoopDisplay(quiet=quiet).named(loop)

    def hear(happening: Any) -> None:
        show(happening)
        if also is not None:
            also(happening)

    # The spinner stops before a question, which it would overwrite.
    asking = approver(approve, lambda: show.busy(""))

    async def driving() -> "LoopState":
        async with loop_dependencies(
            LoopAudience(hear, show.before, asking, approve, reach), create=create
        ) as dependencies:
            return await cancellable(work(dependencies), dependencies.log)

    try:
        return asyncio.run(driving())
    except (KeyboardInterrupt, asyncio.CancelledError):
        show.busy("")
        say(f"interrupted; all work is kept. Continue with: {invocation()} loops resume {loop}")
        return None
    # Another process drives the loop now, so there is nothing to undo here.
    except Overtaken as taken:
        show.busy("")
        say(str(taken))
        return None
    finally:
        show.busy("")


def finish(loop: str, state: "LoopState | None", *, json: bool = False) -> None:
    """Prints the result to standard output and suggestions to standard error, then exits."""
    from taofold.loop.values import exit_code

    if state is None:
        raise typer.Exit(INTERRUPTED)
    reason = state.pause.reason if state.status == "paused" and state.pause else ""
    if json:
        give_json(as_json(loop, state))
    else:
        why = reason or (state.ended.reason if state.ended is not None else "")
        stays = "" if state.is_in_place else ", not applied to the project"
        give(f"{loop}: {state.status}{stays}{f', {why}' if why else ''}")
        for text in _next(loop, state):
            say(text)
    raise typer.Exit(exit_code(state.status, reason, in_place=state.is_in_place))


def as_json(loop: str, state: "LoopState") -> dict[str, Any]:
    """Returns the result as one JSON object."""
    from taofold.loop.report import cross_loop

    ended = state.ended
    return {
        "loop_id": loop,
        "status": state.status,
        "brought_back": ended is not None and ended.delivered,
        "reason": (state.pause.reason if state.pause else "") or (ended.reason if ended else ""),
        "iterations": len(state.done),
        "best": ended.best if ended is not None else None,
        "warning": ended.warning if ended is not None else "",
        "quality": [round(iteration.quality, 4) for iteration in state.done],
        "steps": state.spent.steps,
        "tokens": state.spent.usage.tokens,
        "usd": state.spent.usage.shown_usd,
        "seconds": state.spent.ms / 1000,
        "run": state.pause.run if state.pause else "",
        "cross_loop_learning": cross_loop(state),
    }


def _next(loop: str, state: "LoopState") -> list[str]:
    """Returns suggested commands."""
    from taofold.cli.project import home
    from taofold.loop.gates.work_diff import SET_ASIDE
    from taofold.loop.values import RESUMABLE
    from taofold.loop.workspace import state_folder

    call = invocation()
    lines: list[str] = []
    if state.status == "paused" and state.pause is not None and state.pause.run:
        lines += [*_questions(state.pause.run), f"{call} approvals list"]
    if state.status == "tampered":
        aside = state_folder(Path(state.wish.root), home(), loop, state.place) / SET_ASIDE
        if aside.is_dir():
            lines.append(f"the agent's versions of protected files are in {aside}")
    if state.pause is not None and state.pause.packages:
        lines.append(f"to accept the packages: {call} loops resume {loop} --retake-baseline")
        lines.append(f"or restore them, then: {call} loops resume {loop}")
    elif state.status in RESUMABLE:
        # Without more iterations it would reach the limit again at once.
        more = " --max-iterations N" if state.status == "exhausted" else ""
        lines.append(f"{call} loops resume {loop}{more}")
    return [*lines, f"{call} loops report {loop}"]


def _questions(run: str) -> list[str]:
    """Returns the waiting approvals of an iteration's run, and the commands that decide them."""
    from taofold.cli.render.story import question
    from taofold.runtime.control import pending

    approvals = with_dependencies(lambda dependencies: pending(dependencies.log, run))
    return [text for approval in approvals for text in question(approval)]


def warn(text: str) -> None:
    """Prints a warning before a loop starts."""
    say(f"warning: {text}")
