"""`taofold log migrate`: from a file to a database, or back."""

from typing import Annotated

import typer

from taofold.cli.outcome import give, say

app = typer.Typer(no_args_is_help=True, help="The log as a whole.")


@app.command("migrate")
def migrate(
    source: Annotated[str, typer.Argument(metavar="FROM", help="sqlite:PATH or postgresql://…")],
    target: Annotated[str, typer.Argument(metavar="TO", help="An empty one, of either kind.")],
) -> None:
    """Copy a log, with loops and patterns, to an empty one, and check that everything arrived.

    Nobody may drive runs of it meanwhile: stop servers and workers first. The source stays as it
    is; take it away afterwards, so that nobody goes on with it.
    """
    from taofold.log.transfer import migrate as moved

    done = moved(source, target)
    for table, rows in done.rows.items():
        give(f"{table:8} {rows}")
    say(f"everything arrived: digest {done.digest}")


@app.callback()
def log() -> None:
    """The log as a whole."""
