"""Drives a loop in front of a person, and ends the program as the loop ended (D1).

The loop is shown as it goes (`render/loops`) and the person is asked where it must be; then its
result is printed, as text or JSON, with the commands that the person may want next. What the loop
works with is in `dependencies`.
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
    """Drive a loop in front of a person, and end the program as it ended."""
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
    """Drive a loop in front of a person. None if it was interrupted."""
    from taofold.cli.render.loops import LoopDisplay
    from taofold.cli.runs.drive import approver, cancellable
    from taofold.loop.stream import Overtaken

    show = LoopDisplay(quiet=quiet).named(loop)

    def hear(happening: Any) -> None:
        show(happening)
        if also is not None:
            also(happening)

    # The spinner stops before a question is asked: it would write over it.
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
        stays = "" if state.is_in_place else ", not brought back"
        give(f"{loop}: {state.status}{stays}{f', {why}' if why else ''}")
        for text in _next(loop, state):
            say(text)
    raise typer.Exit(exit_code(state.status, reason, in_place=state.is_in_place))


def as_json(loop: str, state: "LoopState") -> dict[str, Any]:
    """The result as one JSON object."""
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
    """Commands that a person may want now."""
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
            lines.append(f"what the agent made of protected files is kept in {aside}")
    if state.pause is not None and state.pause.packages:
        lines.append(f"to take the packages in: {call} loops resume {loop} --retake-baseline")
        lines.append(f"or put them back as they were: {call} loops resume {loop}")
    elif state.status in RESUMABLE:
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
