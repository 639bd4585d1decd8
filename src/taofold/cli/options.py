"""Options and arguments that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from taofold.cli import completion

Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="The run's id, its beginning, or `last`.",
        autocompletion=completion.runs,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print only the result, as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no trace.")]
Loop = Annotated[
    str,
    typer.Argument(
        metavar="LOOP",
        help="The loop's id, its beginning, or `last`.",
        autocompletion=completion.loops,
    ),
]
AgentName = Annotated[
    str, typer.Option("--agent", metavar="AGENT", help="Agent file or module:attr to use instead.")
]
ModelName = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help="provider:model, as in openai:gpt-5; takes the place of every model the agent names.",
    ),
]
Approve = Annotated[
    str,
    typer.Option(
        "--approve",
        metavar="ask|all|wait",
        help="Who approves: you at the terminal, nobody is asked, or the run waits. Without a "
        "terminal `ask` waits.",
    ),
]
Seq = Annotated[int | None, typer.Option("--at", metavar="SEQ", help="Event number, from 0.")]
Root = Annotated[
    Path | None,
    typer.Option("--root", metavar="DIR", help="Work root of the built-in tools (else here)."),
]
Network = Annotated[bool, typer.Option("--network", help="Let contained commands use the network.")]
Autonomy = Annotated[
    str,
    typer.Option("--autonomy", metavar="DIAL", help="conservative, balanced or autonomous."),
]
