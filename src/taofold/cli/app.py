"""The program: its commands, and what its errors mean for the exit code (D1).

0 success, 1 the goal was not reached, 2 usage or configuration, 3 waiting for a person,
130 interrupted. Results go to standard output, everything else to standard error.
"""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from taofold.cli import outcome
from taofold.cli.ancestry import GuardedProgram
from taofold.cli.approvals import app as approvals
from taofold.cli.demo import demo
from taofold.cli.doctor import doctor
from taofold.cli.evals import evaluate
from taofold.cli.files import check, graph, init
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
from taofold.host import seal

app = typer.Typer(
    name="taofold",
    cls=GuardedProgram,
    no_args_is_help=True,
    # Typer's tracebacks print local variables, and those may hold keys.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Agents one can trust, replay and teach. Results go to standard output, the rest to "
    "standard error.",
    epilog="Exit codes: 0 success, 1 goal not reached, 2 usage or configuration, "
    "3 waiting for a person, 130 interrupted.",
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
        outcome.say(f"warning: {text}")


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
    # Before a command imports anything: no module comes from the folder that agents work in.
    seal()
    try:
        app(args=None if arguments is None else list(arguments), prog_name="taofold")
    except Exception as error:
        code = outcome.explain(error)
        if code is None:
            raise
        sys.exit(code)
