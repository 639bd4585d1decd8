"""`taofold loop`, also `taofold ralph`: iterate until a command proves that the work is done.

What was not said is asked at the terminal (`interview`).
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from taofold.cli import options
from taofold.cli.loops.drive import drive, warn
from taofold.cli.loops.interview import at_terminal, confirmed_gates, questions, terminal
from taofold.cli.options import Budget, Force, MaxIterations, Steps, Timeout
from taofold.cli.outcome import fail, invocation

if TYPE_CHECKING:
    from taofold.loop.values import Mode


ALIAS: Final = "ralph"


def loop(
    task: Annotated[str, typer.Argument(metavar="TASK", help="What is to be done.")] = "",
    completion: Annotated[
        list[str] | None,
        typer.Option(
            "--completion",
            "-c",
            metavar="CMD",
            help="A command that succeeds when the work is done; `A AND B`, or the option given "
            "again: all must hold.",
        ),
    ] = None,
    max_iterations: MaxIterations = None,
    timeout: Timeout = None,
    budget: Budget = None,
    steps: Steps = None,
    model: options.ModelName = "",
    agent: Annotated[
        str, typer.Option("--agent", metavar="AGENT", help="Agent file or module:attr.")
    ] = "",
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Work on the files themselves (default).")
    ] = False,
    worktree: Annotated[
        bool, typer.Option("--worktree", help="Work in a git worktree; bring the result back.")
    ] = False,
    copy: Annotated[
        bool, typer.Option("--copy", help="Work on a copy; bring the result back.")
    ] = False,
    commit: Annotated[
        bool | None,
        typer.Option("--commit/--no-commit", help="Commit each iteration on a branch of its own."),
    ] = None,
    branch: Annotated[
        str,
        typer.Option("--branch", metavar="B", help="That branch (ralph/LOOP); implies --commit."),
    ] = "",
    allow_edit: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-edit",
            metavar="GLOB",
            help="Protected files (tests, build, CI) that may be changed.",
        ),
    ] = None,
    second_judge: Annotated[
        bool,
        typer.Option(
            "--second-judge",
            help="Run Python tests that pass once more, with the product in another process.",
        ),
    ] = False,
    loop_id: Annotated[str, typer.Option("--loop-id", metavar="ID", help="Name it.")] = "",
    force: Force = False,
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Ask five questions first.")
    ] = False,
    keep_improving: Annotated[
        bool, typer.Option("--keep-improving", help="Go on after green; keep the best.")
    ] = False,
    unexecuted: Annotated[
        str,
        typer.Option(
            "--skip-execution",
            metavar="REASON",
            help="Why code may be returned that changed after its last execution.",
        ),
    ] = "",
    memory: Annotated[
        str,
        typer.Option(
            "--memory",
            metavar="N|PRESET",
            help="Earlier iterations that are told: simple 1, moderate 3, complex 5, maximum 10.",
        ),
    ] = "moderate",
    cross_task: Annotated[
        bool,
        typer.Option("--cross-task/--no-cross-task", help="Learn from and for others."),
    ] = True,
    min_rate: Annotated[
        float | None,
        typer.Option("--min-pattern-success-rate", min=0, max=1, metavar="X", help="0 to 1."),
    ] = None,
    approve: options.Approve = "ask",
    autonomy: options.Autonomy = "autonomous",
    network: options.Network = False,
    root: options.Root = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Let an agent iterate on TASK until a command proves that it is done.

    Gates are run by the loop, outside the agent's reach; tests, build and CI files are protected.
    What a model says of its work is never believed. Stop with Ctrl-C, go on with `loops resume`.
    """
    from taofold.cli.make_agent import chosen, is_file
    from taofold.loop.lifecycle import new_id, start
    from taofold.loop.values import LoopLimits, LoopRequest

    work = (Path.cwd() / root if root else Path.cwd()).resolve()
    commands = tuple(completion or ())
    notes: tuple[str, ...] = ()
    mode = _workspace(in_place=in_place, worktree=worktree, copy=copy)
    if interactive:
        task, commands, notes, max_iterations, mode = _asked(
            task, commands, work, max_iterations, mode
        )
    if not task.strip():
        fail(f'TASK is missing: {invocation()} loop "what is to be done" --completion CMD')
    if not commands:
        commands = confirmed_gates(task, work)
    # An agent made in Python has bound its tools to
    # folders already; a file's are made per folder.
    if agent and mode != "in-place" and not is_file(agent):
        fail(
            f"{agent!r} brings its own tools, which would not work in the {mode}: "
            "use --in-place, or an agent file"
        )
    choice = chosen(agent, root, model=model, autonomy=autonomy, network=network)
    bounds = LoopLimits()
    wish = LoopRequest(
        task=task,
        commands=commands,
        root=str(work),
        bounds=LoopLimits(
            max_iterations or bounds.iterations,
            bounds.seconds if timeout is None else timeout * 60,
            budget,
            steps,
        ),
        mode=mode,
        allow_edit=tuple(allow_edit or ()),
        second_judge=second_judge,
        # `--branch` implies `--commit`; a plain `--no-commit` still wins.
        commit=bool(branch) if commit is None else commit,
        branch=branch,
        memory=_memory(memory),
        keep_improving=keep_improving,
        cross_task=cross_task,
        min_success_rate=min_rate,
        unexecuted=unexecuted,
        agent=choice.told(),
        model=model,
        notes=notes,
    )
    # Named here, so that an interruption before the first fact can still say what to resume.
    name = loop_id or new_id(task)
    drive(
        name,
        lambda dependencies: start(dependencies, wish, loop=name, force=force, warn=warn),
        create=True,
        approve=approve,
        network=network,
        json=json,
        quiet=quiet,
    )


def _asked(
    task: str, commands: tuple[str, ...], root: Path, iterations: int | None, mode: "Mode"
) -> tuple[str, tuple[str, ...], tuple[str, ...], int | None, Any]:
    if not terminal():
        fail("--interactive needs a terminal")
    answers = asyncio.run(questions(at_terminal(), task, commands, root))
    return (
        answers.task,
        answers.commands,
        answers.notes,
        answers.iterations or iterations,
        answers.mode or mode,
    )


def _workspace(*, in_place: bool, worktree: bool, copy: bool) -> "Mode":
    modes: list[str] = []
    for name, on in (("in-place", in_place), ("worktree", worktree), ("copy", copy)):
        modes += [name] * on
    if len(modes) > 1:
        fail("--in-place, --worktree and --copy exclude one another")
    match modes:
        case [] | ["in-place"]:
            return "in-place"
        case ["worktree"]:
            return "worktree"
        case _:
            return "copy"


def _memory(said: str) -> int:
    from taofold.loop.values import MEMORY, MOST_MEMORY

    if said in MEMORY:
        return MEMORY[said]
    if said.isdigit() and int(said) <= MOST_MEMORY:
        return int(said)
    return fail(f"--memory is 0 to {MOST_MEMORY} or one of {', '.join(MEMORY)}, not {said!r}")
