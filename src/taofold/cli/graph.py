"""`taofold graph`: a flow file as a Mermaid picture."""

from pathlib import Path
from typing import Annotated

import typer

from taofold.cli.outcome import fail, give


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("graph")(graph)


def graph(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A flow file (.yaml).")],
) -> None:
    """Draw a flow: prints Mermaid text, which GitHub and most editors show as a picture."""
    from taofold.spec import FlowFile, read_agent, refuse
    from taofold.spec.flow_graph import mermaid

    read, faults = read_agent(file, source=str(file))
    if read is None:
        refuse(faults, f"{file} cannot be drawn")
    if not isinstance(read, FlowFile):
        fail(f"{str(file)!r} is an agent without nodes: there is nothing to draw")
    give(mermaid(read.flow).rstrip("\n"))
