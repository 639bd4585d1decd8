"""The program: its commands, and what its errors mean for the exit code (D1).

0 success, 1 the goal was not reached, 2 usage or configuration, 3 waiting for a person,
130 interrupted. Results go to standard output, everything else to standard error.
"""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from taofold import host
from taofold.cli import outcome
from taofold.cli.approvals import app as approvals
from taofold.cli.check import register as add_check
from taofold.cli.demo import register as add_demo
from taofold.cli.doctor import register as add_doctor
from taofold.cli.environment import unknown
from taofold.cli.evals import register as add_eval
from taofold.cli.graph import register as add_graph
from taofold.cli.init import register as add_init
from taofold.cli.log import register as add_log
from taofold.cli.loop import register as add_loop
from taofold.cli.loops import app as loops
from taofold.cli.patterns import register as add_patterns
from taofold.cli.run import register as add_run
from taofold.cli.runs_change import register as add_changing
from taofold.cli.runs_files import register as add_files
from taofold.cli.runs_read import register as add_reading
from taofold.cli.serve import register as add_serve

app = typer.Typer(
    name="taofold",
    no_args_is_help=True,
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
    for text in unknown(os.environ):
        outcome.say(f"warning: {text}")


for add in (add_run, add_eval, add_loop, add_demo, add_check, add_graph, add_init, add_doctor):
    add(app)
for add in (add_reading, add_changing, add_files):
    add(runs)
app.add_typer(runs, name="runs")
app.add_typer(approvals, name="approvals")
app.add_typer(loops, name="loops")
add_patterns(app)
add_serve(app)
add_log(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and exit."""
    if "NO_COLOR" in os.environ and not os.environ["NO_COLOR"]:
        del os.environ["NO_COLOR"]  # no-color.org: empty means unset
    host.seal()
    try:
        app(args=None if arguments is None else list(arguments), prog_name="taofold")
    except Exception as error:
        code = outcome.explain(error)
        if code is None:
            raise
        sys.exit(code)
