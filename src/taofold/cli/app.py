"""The program `taofold`: its commands and the guard around them. `output` has the exit codes (D1).

A process that an agent started may call only some of the commands (`GuardedProgram`, `authority`).
"""

import os
import sys
from collections.abc import Sequence
from inspect import cleandoc
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from taofold.cli import help_examples, output
from taofold.cli.approvals import app as approvals
from taofold.cli.authority import refuse
from taofold.cli.budgets import app as budgets
from taofold.cli.demo import demo
from taofold.cli.doctor import doctor
from taofold.cli.evals import evaluate
from taofold.cli.file_commands import check, graph, init
from taofold.cli.loops import commands as loops
from taofold.cli.loops.start import ALIAS, loop
from taofold.cli.mcp import app as mcp
from taofold.cli.memory import app as memory
from taofold.cli.patterns import register as add_patterns
from taofold.cli.policy import app as policy
from taofold.cli.project import relative, unknown
from taofold.cli.runs.change import app as changing
from taofold.cli.runs.drive import run
from taofold.cli.runs.evidence import app as evidence
from taofold.cli.runs.exchange import app as exchange
from taofold.cli.runs.exchange import log_app
from taofold.cli.runs.read import app as reading
from taofold.cli.runs.recheck import app as rechecking
from taofold.cli.runs.travel import app as traveling
from taofold.cli.serve.commands import register as add_serve
from taofold.cli.skills import app as skills
from taofold.cli.tracebacks import hide_secrets, print_traceback

ALLOWED_FOR_AGENTS: Final = frozenset(
    {
        *("run", "eval", "loop", "ralph", "demo", "check", "graph", "init", "doctor"),
        *("runs list", "runs show", "runs log", "runs metrics", "runs check", "runs diff"),
        *("runs replay", "runs recheck", "runs export", "approvals list", "mcp list", "mcp pins"),
        *("loops list", "loops status", "loops report", "loops export"),
        *("patterns list", "patterns show", "patterns lineage", "patterns metrics"),
        *("patterns export", "serve start", "skills list", "skills check", "skills show"),
        *("budget list", "policy test"),
    }
)
"""Commands that a process started by an agent may call: they read, or begin work of their own.

All other commands are refused, including commands added later. `serve start` checks its options
itself, because it may serve MCP to the agent that started it.
"""


class GuardedProgram(TyperGroup):
    """The top-level group. It guards every command when it is created."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        guard(self)


def guard(command: Any, path: tuple[str, ...] = ()) -> None:
    """Makes each click command below `command` refuse agents, except `ALLOWED_FOR_AGENTS`."""
    _tidy(command)
    if hasattr(command, "commands"):
        for name, verb in command.commands.items():
            guard(verb, (*path, name))
        return
    called = " ".join(path)
    # `ralph-patterns list` and `ralph-extract-patterns` are the seed's names of the same commands.
    if called.replace("ralph-patterns ", "patterns ") in ALLOWED_FOR_AGENTS:
        return
    invoke = command.invoke

    def refused_or_done(context: Any) -> Any:
        refuse(f"call `taofold {called}`")
        return invoke(context)

    command.invoke = refused_or_done


def _tidy(command: Any) -> None:
    """Prepares a command's `--help`: paragraphs fill the line, and flags show no type."""
    if command.help:
        paragraphs = cleandoc(command.help).split("\n\n")
        command.help = "\n\n".join(" ".join(text.split()) for text in paragraphs)
    help_option = command.get_help_option

    def without_type(context: Any) -> Any:
        option = help_option(context)
        if option is not None:
            option.metavar = ""
        return option

    command.get_help_option = without_type
    for option in command.params:
        # Typer shows `<bool>` after a flag, which reads as if the flag took a value.
        if getattr(option, "is_flag", False) and option.metavar is None:
            option.metavar = ""


app = typer.Typer(
    name="taofold",
    cls=GuardedProgram,
    no_args_is_help=True,
    # Typer's tracebacks print local variables, and those may hold keys.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Agents you can trust, replay and teach. Results go to standard output, progress and "
    "messages to standard error.",
    epilog=help_examples.PROGRAM,
)
runs = typer.Typer(
    no_args_is_help=True,
    help="List, inspect, resume, fork, rewind and export runs. "
    "RUN is an id, its beginning, or `last`.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from taofold import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    # A misspelled variable would otherwise be ignored silently.
    for text in (*unknown(os.environ), *relative(os.environ)):
        output.say(f"warning: {text}")


for name, command, examples in (
    ("run", run, help_examples.RUN),
    ("eval", evaluate, help_examples.EVAL),
    ("loop", loop, help_examples.LOOP),
    (ALIAS, loop, help_examples.LOOP),
    ("demo", demo, None),
    ("check", check, help_examples.CHECK),
    ("graph", graph, None),
    ("init", init, help_examples.INIT),
    ("doctor", doctor, None),
):
    app.command(name, hidden=name == ALIAS, epilog=examples)(command)
# Added without names, so their commands become commands of `runs`, in this order.
for verbs in (reading, rechecking, changing, traveling, exchange, evidence):
    runs.add_typer(verbs)
app.add_typer(runs, name="runs")
app.add_typer(approvals, name="approvals")
app.add_typer(budgets, name="budget")
app.add_typer(policy, name="policy")
app.add_typer(loops.app, name="loops")
# Hidden: the names of AIWG, for its users.
app.command("ralph-status", hidden=True)(loops.status)
app.command("ralph-resume", hidden=True)(loops.resume)
app.command("ralph-abort", hidden=True)(loops.abort)
add_patterns(app)
add_serve(app)
app.add_typer(skills, name="skills")
app.add_typer(memory, name="memory")
app.add_typer(mcp, name="mcp")
app.add_typer(log_app, name="log")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the program and exits."""
    if "NO_COLOR" in os.environ and not os.environ["NO_COLOR"]:
        del os.environ["NO_COLOR"]  # no-color.org: empty means unset
    hide_secrets()
    try:
        app(args=None if arguments is None else list(arguments), prog_name="taofold")
    except Exception as error:
        code = output.explain(error)
        if code is None:
            # A bug of taofold or of foreign code: print its traceback without secrets.
            sys.excepthook = print_traceback
            raise
        sys.exit(code)
