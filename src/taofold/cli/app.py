"""The program: its commands, and who may call them. How they end is in `output` (D1).

A person's verbs are refused to what an agent started (`GuardedProgram`, `authority`).
"""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from taofold.cli import output
from taofold.cli.approvals import app as approvals
from taofold.cli.authority import refuse
from taofold.cli.demo import demo
from taofold.cli.doctor import doctor
from taofold.cli.evals import evaluate
from taofold.cli.file_commands import check, graph, init
from taofold.cli.loops.commands import app as loops
from taofold.cli.loops.start import ALIAS, loop
from taofold.cli.mcp import app as mcp
from taofold.cli.patterns import register as add_patterns
from taofold.cli.project import unknown
from taofold.cli.runs.change import app as changing
from taofold.cli.runs.drive import run
from taofold.cli.runs.exchange import app as exchange
from taofold.cli.runs.exchange import log_app
from taofold.cli.runs.read import app as reading
from taofold.cli.serve.commands import register as add_serve
from taofold.cli.tracebacks import hide_secrets, print_traceback

ALLOWED_FOR_AGENTS: Final = frozenset(
    {
        *("run", "eval", "loop", "ralph", "demo", "check", "graph", "init", "doctor"),
        *("runs list", "runs show", "runs log", "runs metrics", "runs check", "runs diff"),
        *("runs replay", "runs export", "approvals list", "mcp list", "mcp pins"),
        *("loops list", "loops status", "loops report", "loops export"),
        *("patterns list", "patterns show", "patterns lineage", "patterns metrics"),
        *("patterns export", "serve start"),
    }
)
"""What a process that an agent started may call: it looks, or begins work of its own.

Whatever else there is, a verb of tomorrow included, is a person's. `serve start` asks by itself:
it may serve MCP to the agent that started it.
"""


class GuardedProgram(TyperGroup):
    """The program, whoever invokes it: made with every verb guarded."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        guard(self)


def guard(command: Any, path: tuple[str, ...] = ()) -> None:
    """Have each verb below `command` (of click) refuse, if it is not `ALLOWED_FOR_AGENTS`."""
    if hasattr(command, "commands"):
        for name, verb in command.commands.items():
            guard(verb, (*path, name))
        return
    called = " ".join(path)
    # The seed's names for the same verbs: `ralph-patterns list`, `ralph-extract-patterns`.
    if called.replace("ralph-patterns ", "patterns ") in ALLOWED_FOR_AGENTS:
        return
    invoke = command.invoke

    def refused_or_done(context: Any) -> Any:
        refuse(f"call `taofold {called}`")
        return invoke(context)

    command.invoke = refused_or_done


app = typer.Typer(
    name="taofold",
    cls=GuardedProgram,
    no_args_is_help=True,
    # Typer's tracebacks print local variables, and those may hold keys.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Agents you can trust, replay and teach. Results go to standard output, the rest to "
    "standard error.",
    epilog="Exit codes: 0 success, 1 goal not reached, 2 usage or configuration, "
    "3 waiting for an answer, 130 interrupted.",
)
runs = typer.Typer(
    no_args_is_help=True,
    help="Look at runs, travel in them, and change their course. RUN is an id or the beginning "
    "of one.",
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
    # A misspelled variable would otherwise be a setting that silently does not hold.
    for text in unknown(os.environ):
        output.say(f"warning: {text}")


for name, command in (
    ("run", run),
    ("eval", evaluate),
    ("loop", loop),
    (ALIAS, loop),
    ("demo", demo),
    ("check", check),
    ("graph", graph),
    ("init", init),
    ("doctor", doctor),
):
    app.command(name, hidden=name == ALIAS)(command)
# Without a name: their verbs are those of `runs`, in this order.
for verbs in (reading, changing, exchange):
    runs.add_typer(verbs)
app.add_typer(runs, name="runs")
app.add_typer(approvals, name="approvals")
app.add_typer(loops, name="loops")
add_patterns(app)
add_serve(app)
app.add_typer(mcp, name="mcp")
app.add_typer(log_app, name="log")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and exit."""
    if "NO_COLOR" in os.environ and not os.environ["NO_COLOR"]:
        del os.environ["NO_COLOR"]  # no-color.org: empty means unset
    hide_secrets()
    try:
        app(args=None if arguments is None else list(arguments), prog_name="taofold")
    except Exception as error:
        code = output.explain(error)
        if code is None:
            # A bug, or code of others: its traceback is printed without secrets.
            sys.excepthook = print_traceback
            raise
        sys.exit(code)
