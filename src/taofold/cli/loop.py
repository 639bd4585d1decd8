"""`taofold loop`, also `taofold ralph`: iterate until a command proves that the work is done."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from taofold.cli import options
from taofold.cli.loop_drive import drive, warn
from taofold.cli.outcome import fail
from taofold.cli.program import invocation

if TYPE_CHECKING:
    from taofold.loop.values import Mode

ALIAS: Final = "ralph"

MaxIterations = Annotated[
    int | None, typer.Option("--max-iterations", min=1, metavar="N", help="At most so many (10).")
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", min=0, metavar="MINUTES", help="For the whole loop (60)."),
]
Budget = Annotated[
    float | None, typer.Option("--budget", min=0, metavar="USD", help="At most so many dollars.")
]
Steps = Annotated[
    int | None, typer.Option("--steps", min=1, metavar="N", help="Steps of one iteration.")
]
Force = Annotated[bool, typer.Option("--force", help="Start although four loops run already.")]


def register(app: typer.Typer) -> None:
    """Add the command and its alias."""
    app.command("loop")(loop)
    app.command(ALIAS, hidden=True)(loop)


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
    from taofold.cli.agents import chosen, is_file
    from taofold.cli.loop_ask import confirmed
    from taofold.loop.lifecycle import new_id, start
    from taofold.loop.values import LoopLimits, Wish

    work = (Path.cwd() / root if root else Path.cwd()).resolve()
    commands = tuple(completion or ())
    notes: tuple[str, ...] = ()
    mode = _mode(in_place=in_place, worktree=worktree, copy=copy)
    if interactive:
        task, commands, notes, max_iterations, mode = _asked(
            task, commands, work, max_iterations, mode
        )
    if not task.strip():
        fail(f'TASK is missing: {invocation()} loop "what is to be done" --completion CMD')
    if not commands:
        commands = confirmed(task, work)
    if agent and mode != "in-place" and not is_file(agent):
        fail(
            f"{agent!r} brings its own tools, which would not work in the {mode}: "
            "use --in-place, or an agent file"
        )
    choice = chosen(agent, root, model=model, autonomy=autonomy, network=network)
    bounds = LoopLimits()
    wish = Wish(
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
    name = loop_id or new_id(task)
    drive(
        name,
        lambda given: start(given, wish, loop=name, force=force, warn=warn),
        create=True,
        approve=approve,
        network=network,
        json=json,
        quiet=quiet,
    )


def _asked(
    task: str, commands: tuple[str, ...], root: Path, iterations: int | None, mode: "Mode"
) -> tuple[str, tuple[str, ...], tuple[str, ...], int | None, Any]:
    from taofold.cli.loop_ask import at_terminal, questions, terminal

    if not terminal():
        fail("--interactive needs a terminal")
    said = asyncio.run(questions(at_terminal(), task, commands, root))
    return said.task, said.commands, said.notes, said.iterations or iterations, said.mode or mode


def _mode(*, in_place: bool, worktree: bool, copy: bool) -> "Mode":
    wanted: list[str] = []
    for name, on in (("in-place", in_place), ("worktree", worktree), ("copy", copy)):
        wanted += [name] * on
    if len(wanted) > 1:
        fail("--in-place, --worktree and --copy exclude one another")
    match wanted:
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
