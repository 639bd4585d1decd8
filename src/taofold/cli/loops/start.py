"""Command `taofold loop`, also `taofold ralph`: iterates until a command proves completion.

A missing completion command is inferred from the task and confirmed at the terminal. Without a
terminal the program ends with a suggestion. `--interactive` asks five questions.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from taofold.cli import options
from taofold.cli.loops.drive import drive, warn
from taofold.cli.options import Budget, Force, MaxIterations, Steps, Timeout
from taofold.cli.output import fail, invocation, say
from taofold.core.errors import ConfigError

if TYPE_CHECKING:
    from taofold.loop.values import Mode

ALIAS: Final = "ralph"
_DONE: Final = "Completion"
_WORKSPACE: Final = "Workspace"
_LEARNING: Final = "Learning"


def loop(
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task in words.")] = "",
    completion: Annotated[
        list[str] | None,
        typer.Option(
            "--completion",
            "-c",
            metavar="CMD",
            help="Command that exits with 0 when the work is done. Repeatable, or `A AND B`: all "
            "must succeed.",
            rich_help_panel=_DONE,
        ),
    ] = None,
    max_iterations: MaxIterations = None,
    timeout: Timeout = None,
    budget: Budget = None,
    steps: Steps = None,
    model: options.ModelName = "",
    agent: Annotated[
        str,
        typer.Option(
            "--agent",
            metavar="AGENT",
            help="Agent file, module:attr, or a coding agent with its arguments: claude, codex, "
            "gemini, opencode, aider, or 'cmd: COMMAND {prompt_file}'.",
            rich_help_panel=options.AGENT,
        ),
    ] = "",
    in_place: Annotated[
        bool,
        typer.Option(
            "--in-place",
            help="Work on the project's own files (default).",
            rich_help_panel=_WORKSPACE,
        ),
    ] = False,
    worktree: Annotated[
        bool,
        typer.Option(
            "--worktree",
            help="Work in a git worktree, then apply the result to the project.",
            rich_help_panel=_WORKSPACE,
        ),
    ] = False,
    copy: Annotated[
        bool,
        typer.Option(
            "--copy",
            help="Work on a copy, then apply the result to the project.",
            rich_help_panel=_WORKSPACE,
        ),
    ] = False,
    commit: Annotated[
        bool | None,
        typer.Option(
            "--commit/--no-commit",
            help="Commit each iteration on a separate branch.",
            rich_help_panel=_WORKSPACE,
        ),
    ] = None,
    branch: Annotated[
        str,
        typer.Option(
            "--branch",
            metavar="NAME",
            help="Name of that branch; implies --commit. Default: ralph/LOOP.",
            rich_help_panel=_WORKSPACE,
        ),
    ] = "",
    allow_edit: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-edit",
            metavar="GLOB",
            help="Protected files (tests, build, CI) that the agent may change. Repeatable.",
            rich_help_panel=_WORKSPACE,
        ),
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            metavar="GLOB",
            help="Files that make up the product. The completion commands ignore changes to other "
            "files. Default: all sources. Repeatable.",
            rich_help_panel=_WORKSPACE,
        ),
    ] = None,
    second_judge: Annotated[
        bool,
        typer.Option(
            "--second-judge",
            help="Run passing Python tests once more, with the product in a separate process.",
            rich_help_panel=_DONE,
        ),
    ] = False,
    loop_id: Annotated[str, typer.Option("--loop-id", metavar="ID", help="Id of the loop.")] = "",
    force: Force = False,
    interactive: Annotated[
        bool,
        typer.Option(
            "--interactive", "-i", help="Ask for task, completion command, limits and workspace."
        ),
    ] = False,
    keep_improving: Annotated[
        bool,
        typer.Option(
            "--keep-improving",
            help="Continue after the commands succeed, and keep the best result.",
            rich_help_panel=_DONE,
        ),
    ] = False,
    unexecuted: Annotated[
        str,
        typer.Option(
            "--skip-execution",
            metavar="REASON",
            help="Accept code that the agent did not run after its last change. REASON is logged.",
            rich_help_panel=_DONE,
        ),
    ] = "",
    memory: Annotated[
        str,
        typer.Option(
            "--memory",
            metavar="N|PRESET",
            help="Number of earlier iterations in the prompt: simple (1), moderate (3), "
            "complex (5), maximum (10).",
            rich_help_panel=_LEARNING,
        ),
    ] = "moderate",
    cross_task: Annotated[
        bool,
        typer.Option(
            "--cross-task/--no-cross-task",
            help="Use lessons of other loops, and record lessons for them.",
            rich_help_panel=_LEARNING,
        ),
    ] = True,
    within_project: Annotated[
        bool,
        typer.Option(
            "--within-project",
            help="Use lessons of this project only, and keep new ones in it.",
            rich_help_panel=_LEARNING,
        ),
    ] = False,
    min_rate: Annotated[
        float | None,
        typer.Option(
            "--min-pattern-success-rate",
            min=0,
            max=1,
            metavar="X",
            help="Show only lessons with at least this success rate.",
            rich_help_panel=_LEARNING,
        ),
    ] = None,
    approve: options.Approve = "",
    autonomy: options.Autonomy = "",
    strict: options.Strict = False,
    network: options.Network = False,
    project_instructions: options.ProjectInstructions = True,
    local_port: options.LocalPort = None,
    root: options.Root = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Let an agent iterate on TASK until a command proves that it is done.

    The loop runs the completion commands itself, outside the agent's reach. The agent cannot
    change tests, build and CI files. Its own claim to be done does not count. Stop with Ctrl-C,
    continue with `taofold loops resume`.
    """
    from taofold.cli.agent_argument import chosen, has_own_tools, made_per_folder, make
    from taofold.cli.prerequisites import lacking_for
    from taofold.loop.gates.installed import editable
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
        fail(f'TASK is missing: {invocation()} loop "the task" --completion CMD')
    if not commands:
        commands = confirmed_gates(task, work)
    choice = chosen(
        agent,
        root,
        model=model,
        autonomy=autonomy,
        unsaid_autonomy="autonomous",
        strict=strict,
        network=network,
        project_instructions=project_instructions,
        ports=local_port or (),
    )
    # Made before anything is written, so that errors leave no files.
    described = make(choice, own_approver=True)
    # The tools of an agent from Python are already bound to folders.
    if mode != "in-place" and not made_per_folder(agent) and has_own_tools(described):
        fail(
            f"the tools of {agent!r} were made for the project and would not work in the {mode}: "
            "use --in-place, an agent file, or the agent without tools (the loop gives it "
            f"files and commands of the {mode})"
        )
    if mode != "in-place" and (names := editable(work)):
        say(
            f"warning: {', '.join(names)} is installed from this folder (pip install -e), which a "
            f"{mode} does not show: name the sources in the gate (PYTHONPATH=src …), or use "
            "--in-place"
        )
    if reason := lacking_for(described, task, " AND ".join(commands)):
        fail(reason)
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
        scope=tuple(scope or ()),
        second_judge=second_judge,
        # `--branch` implies `--commit`, but `--no-commit` takes precedence.
        commit=bool(branch) if commit is None else commit,
        branch=branch,
        memory=_memory(memory),
        keep_improving=keep_improving,
        cross_task=cross_task,
        within_project=within_project,
        min_success_rate=min_rate,
        unexecuted=unexecuted,
        agent=choice.told(),
        model=getattr(described.model, "name", model),
        notes=notes,
    )
    # Named here, so that the message of an early interruption can name the loop.
    name = loop_id or new_id(task)
    drive(
        name,
        lambda dependencies: start(dependencies, wish, loop=name, force=force, warn=warn),
        create=True,
        approve=approve,
        reach=choice.reach,
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


def _memory(word: str) -> int:
    from taofold.loop.values import MEMORY, MOST_MEMORY

    if word in MEMORY:
        return MEMORY[word]
    if word.isdigit() and int(word) <= MOST_MEMORY:
        return int(word)
    return fail(f"--memory is 0 to {MOST_MEMORY} or one of {', '.join(MEMORY)}, not {word!r}")


Ask = Callable[[str], Awaitable[str | None]]
"""Asks the user for a line; None at the end of the input."""
MODES: Final = ("in-place", "worktree", "copy")


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers to the five questions. Empty = unchanged."""

    task: str
    commands: tuple[str, ...]
    notes: tuple[str, ...] = ()
    iterations: int | None = None
    mode: str = ""


def terminal() -> bool:
    """Returns whether there is a terminal for questions."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def at_terminal() -> Ask:
    """Returns a function that asks at the terminal."""
    from taofold.cli.approval_prompt import Terminal
    from taofold.cli.render.story import can_colour

    return Terminal(colours=can_colour(sys.stderr)).ask


def inferred_gate(task: str, root: Path) -> str:
    """Returns the completion command that a task such as "fix the tests" implies here; "" if
    none.
    """
    from taofold.loop.gates.criteria import suggestion

    return suggestion(task, root)


def confirmed_gates(task: str, root: Path) -> tuple[str, ...]:
    """Returns the completion commands of a task without any: inferred and confirmed by the user.

    Exits with 2 if there is no terminal or no command.
    """
    guess = inferred_gate(task, root)
    if not terminal():
        hint = f"; did you mean --completion {guess!r}?" if guess else ""
        fail(
            "--completion is missing: name a command that succeeds when the work is done"
            f"{hint}\nusage: {invocation()} loop TASK --completion CMD [--completion CMD …]"
        )
    commands = asyncio.run(gate(at_terminal(), guess, root))
    if not commands:
        fail("a loop needs a command that proves completion")
    return commands


async def gate(ask: Ask, guess: str, root: Path) -> tuple[str, ...]:
    """Asks for a completion command until one can be run. Returns () if the user gives up."""
    from taofold.loop.gates.criteria import gates

    while True:
        offer = f" [enter = {guess}]" if guess else ""
        reply = await ask(f"Which command succeeds when the work is done?{offer}")
        if reply is None:
            return ()
        command = reply.strip() or guess
        if not command:
            continue
        try:
            # Only a check; `start` makes the gates of the loop.
            gates([command], root)
        except ConfigError as error:
            say(f"error: {error}")
            continue
        return (command,)


async def questions(ask: Ask, task: str, commands: tuple[str, ...], root: Path) -> Answers:
    """Asks the five questions: task, completion, protected things, iterations, workspace."""
    if not task.strip():
        task = (await ask("1/5 What is the task?") or "").strip()
    else:
        more = (await ask(f"1/5 The task is {task!r}. Anything to add? [enter = no]") or "").strip()
        task = f"{task}. {more}" if more else task
    if not commands:
        say("2/5 Which command proves that it is done?")
        commands = await gate(ask, inferred_gate(task, root), root)
    else:
        also = await ask(f"2/5 Done when {' AND '.join(commands)}. One more command? [enter = no]")
        commands = (*commands, also.strip()) if also and also.strip() else commands
    border = (await ask("3/5 What must not be changed? [enter = nothing]") or "").strip()
    notes = (f"must be kept: {border}",) if border else ()
    iterations = await _number(ask, "4/5 Maximum number of iterations? [enter = 10]")
    mode = await _mode(ask)
    return Answers(task, commands, notes, iterations, mode)


async def _number(ask: Ask, question: str) -> int | None:
    while True:
        reply = (await ask(question) or "").strip()
        if not reply:
            return None
        if reply.isdigit() and int(reply) > 0:
            return int(reply)
        say(f"{reply!r} is not a positive whole number")


async def _mode(ask: Ask) -> str:
    while True:
        reply = (await ask(f"5/5 Workspace: {', '.join(MODES)}? [enter = in-place]") or "").strip()
        if not reply or reply in MODES:
            return reply
        say(f"{reply!r} is none of {', '.join(MODES)}")
