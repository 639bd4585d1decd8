"""`taofold run`, and `--set KEY=VALUE`: what the run's state starts with."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

from taofold.cli import options
from taofold.cli.outcome import fail, invocation

_NAME: Final = re.compile(r"[^\W\d][\w-]*")


def assignments(said: Sequence[str]) -> dict[str, Any]:
    """The values by key: JSON where a value can be read as such, else its text.

    Ends the program if one is not KEY=VALUE, or a key is given twice.
    """
    assignments: dict[str, Any] = {}
    for assignment in said:
        key, sign, text = assignment.partition("=")
        if not sign or not _NAME.fullmatch(key):
            fail(f"--set takes KEY=VALUE, KEY being a name, not {assignment!r}")
        if key in assignments:
            fail(f"--set gives {key!r} twice")
        assignments[key] = _value(text)
    return assignments


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return text


def _no_number(said: str) -> NoReturn:
    """`NaN` and `Infinity` are Python's, not JSON's."""
    raise ValueError(said)


def run(
    agent: Annotated[
        str,
        typer.Argument(
            metavar="AGENT",
            help="Agent file (.yaml) or module:attr. Left out, an agent with file and command "
            "tools works on the current directory.",
            show_default=False,
        ),
    ] = "",
    goal: Annotated[
        str,
        typer.Argument(metavar="GOAL", help="What to do; - reads it from standard input."),
    ] = "",
    model: options.ModelName = "",
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Start with this in the run's state, `state.KEY` in a flow: VALUE is JSON if it "
            "can be read as such, else text. May be given again, for other keys.",
        ),
    ] = None,
    tools: Annotated[
        list[Path] | None,
        typer.Option(
            "--tools",
            metavar="DIR",
            help="Run the files tagent.tools.py and taofold_tools.py in and below DIR, and offer "
            "their tools too. May be given again.",
        ),
    ] = None,
    recursive: Annotated[
        bool, typer.Option("--recursive/--no-recursive", help="Look below DIR too.")
    ] = True,
    attach: Annotated[
        list[Path] | None,
        typer.Option(
            "--attach",
            metavar="FILE",
            help="A file for the model to look at: an image, a PDF, text. May be given again.",
        ),
    ] = None,
    session: Annotated[
        str, typer.Option("--session", metavar="NAME", help="Carry on the conversation NAME.")
    ] = "",
    approve: options.Approve = "ask",
    autonomy: options.Autonomy = "",
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Record broken rules instead of correcting them.")
    ] = False,
    steps: Annotated[int | None, typer.Option(min=0, help="At most so many steps.")] = None,
    tool_calls: Annotated[int | None, typer.Option(min=0, help="At most so many calls.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0, help="At most so long.")] = None,
    tokens: Annotated[int | None, typer.Option(min=0, help="At most so many tokens.")] = None,
    usd: Annotated[float | None, typer.Option(min=0, help="At most so many US dollars.")] = None,
    root: options.Root = None,
    network: options.Network = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Let an agent work on a goal, and watch it think, act and observe.

    Commands run contained (bubblewrap) where that works; otherwise they have your rights, are
    marked "not contained" and always ask.
    """
    from taofold.agent.activation import new_id
    from taofold.cli.agents import chosen, make
    from taofold.cli.project import open_store
    from taofold.cli.runs.drive import drive, finish
    from taofold.tools.media import Attachment

    agent, goal = _arguments(agent, goal)
    data = assignments(values or [])
    files = [Attachment(path) for path in attach or ()]
    for file in files:
        file.load()  # what is wrong with a file is said before anything else happens
    bounds = {
        "steps": steps,
        "tool_calls": tool_calls,
        "seconds": seconds,
        "tokens": tokens,
        "usd": usd,
    }
    limits: dict[str, float] = {name: v for name, v in bounds.items() if v is not None}
    choice = chosen(
        agent,
        root,
        model=model,
        autonomy=autonomy,
        strict=False if lenient else None,
        network=network,
        limits=limits,
        tools=tools or (),
        recursive=recursive,
    )
    # Before the store is made: a faulty agent file leaves no `.taofold` behind.
    chosen_agent = make(choice)
    log = open_store(create=True)
    name = new_id()
    result = drive(
        log,
        name,
        lambda listener, approver: chosen_agent.but(approve=approver, log=log).run(
            [goal, *files] if files else goal,
            run_id=name,
            session=session,
            data=data,
            listener=listener,
            settings=choice.settings(),
        ),
        approve=approve,
        json=json,
        quiet=quiet,
    )
    finish(result)


def _arguments(agent: str, goal: str) -> tuple[str, str]:
    """AGENT may be left out: then the one argument is the goal."""
    from taofold.cli.agents import is_file
    from taofold.files.references import is_name

    if not goal:
        # One argument that looks like an agent is one whose goal was forgotten, not a goal.
        if is_file(agent) or is_name(agent):
            fail(f'GOAL is missing: {invocation()} run {agent} "what to do"')
        agent, goal = "", agent
    if goal == "-":
        goal = sys.stdin.read()
    if not goal.strip():
        fail("GOAL is empty: say what to do")
    return agent, goal
