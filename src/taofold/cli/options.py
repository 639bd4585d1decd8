"""Options and arguments that several commands share, and their shell completion.

A completion (ids of runs, loops and approvals) never raises or prints; without a project it is
empty.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from taofold.core.text import clip, visible

if TYPE_CHECKING:
    from taofold.log.log import Log


Offers = list[tuple[str, str]]
"""Completions, each with a description."""
_MOST: Final = 40
_CUT: Final = 50


def runs(incomplete: str) -> Offers:
    """Returns ids of runs with this beginning, the newest first."""

    async def work(log: "Log") -> Offers:
        from taofold.policy.redaction.views import shown_value

        rows = await log.rows(limit=10 * _MOST)
        matches = [
            (row.run, _line(shown_value(row.goal)))
            for row in rows
            if row.run.startswith(incomplete)
        ]
        last = [("last", "the newest run")] if "last".startswith(incomplete) and rows else []
        return matches[:_MOST] + last

    return _asked(work)


def questions(incomplete: str) -> Offers:
    """Returns ids of waiting approvals."""

    async def work(log: "Log") -> Offers:
        from taofold.runtime import control

        waiting = await control.pending(log)
        offers = [
            (approval.id, _line(approval.question or approval.preview)) for approval in waiting
        ]
        return [offer for offer in offers if offer[0].startswith(incomplete)][:_MOST]

    return _asked(work)


def loops(incomplete: str) -> Offers:
    """Returns ids of loops."""

    async def work(log: "Log") -> Offers:
        from taofold.log.open import journal_beside
        from taofold.loop.stream import ids

        journal = journal_beside(log)
        try:
            names = [name for name in await ids(journal) if name.startswith(incomplete)]
        finally:
            await journal.close()
        last = [("last", "the newest loop")] if "last".startswith(incomplete) and names else []
        return [(name, "") for name in names[:_MOST]] + last

    return _asked(work)


def _asked(work: "Callable[[Log], Awaitable[Offers]]") -> Offers:
    from taofold.cli.project import open_store

    async def offers() -> Offers:
        log = open_store()
        try:
            return await work(log)
        finally:
            await log.close()

    # Errors of the project are reported by commands, not during completion.
    with suppress(Exception):
        return asyncio.run(offers())
    return []


def _line(text: str) -> str:
    return clip(" ".join(visible(text).split()), _CUT)


AGENT: Final = "Agent"
LIMITS: Final = "Limits"
PERMISSIONS: Final = "Permissions"
"""Panels of `--help`, for commands with many options."""

Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="The run's id, its beginning, or `last`.",
        autocompletion=runs,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print only the result, as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no trace.")]
Loop = Annotated[
    str,
    typer.Argument(
        metavar="LOOP",
        help="The loop's id, its beginning, or `last`.",
        autocompletion=loops,
    ),
]
AgentName = Annotated[
    str,
    typer.Option(
        "--agent",
        metavar="AGENT",
        help="Agent file or module:attr to use instead.",
        rich_help_panel=AGENT,
    ),
]
ModelName = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help="PROVIDER:NAME, as in openai:gpt-5. Replaces every model that the agent names.",
        rich_help_panel=AGENT,
    ),
]
Approve = Annotated[
    str,
    typer.Option(
        "--approve",
        metavar="ask|all|wait",
        help="ask: ask at this terminal, or wait if there is none. all: approve without asking. "
        "wait: leave the run waiting for `taofold approvals`. Default: ask, unless the code "
        "of the agent sets `approve=`.",
        rich_help_panel=PERMISSIONS,
    ),
]
Seq = Annotated[int | None, typer.Option("--at", metavar="SEQ", help="Event number, from 0.")]
Root = Annotated[
    Path | None,
    typer.Option(
        "--root",
        metavar="DIR",
        help="Folder in which the built-in tools work. Default: the current one.",
        rich_help_panel=AGENT,
    ),
]
Network = Annotated[
    bool,
    typer.Option(
        "--network",
        help="Let sandboxed commands use the network.",
        rich_help_panel=PERMISSIONS,
    ),
]
ProjectInstructions = Annotated[
    bool,
    typer.Option(
        "--project-instructions/--no-project-instructions",
        help="Show models the AGENTS.md of the project, with the default agent or an agent file "
        "that has `project_instructions: true`.",
        rich_help_panel=AGENT,
    ),
]
Snapshots = Annotated[
    bool,
    typer.Option(
        "--snapshots",
        help="Store the files of --root after each step, so that `runs fork` and `runs rewind` "
        "can restore them.",
        rich_help_panel=AGENT,
    ),
]
AllowPython = Annotated[
    bool,
    typer.Option(
        "--allow-python",
        help="Let a flow run Python that its sandbox cannot run, in a contained process.",
        rich_help_panel=PERMISSIONS,
    ),
]
LocalPort = Annotated[
    list[int] | None,
    typer.Option(
        "--local-port",
        metavar="PORT",
        help="Let sandboxed commands use this TCP port of localhost. Repeatable.",
        rich_help_panel=PERMISSIONS,
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Ask the model again, once per turn, if a reply breaks a rule of the loop.",
        rich_help_panel=AGENT,
    ),
]
Autonomy = Annotated[
    str,
    typer.Option(
        "--autonomy",
        metavar="LEVEL",
        help="conservative, balanced or autonomous. Replaces the autonomy in the agent's policy. "
        "Loops are autonomous by default.",
        rich_help_panel=PERMISSIONS,
    ),
]
MaxIterations = Annotated[
    int | None,
    typer.Option(
        "--max-iterations",
        min=1,
        metavar="N",
        help="At most N iterations. Default: 10.",
        rich_help_panel=LIMITS,
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        min=0,
        metavar="MINUTES",
        help="Time for the whole loop. Default: 60.",
        rich_help_panel=LIMITS,
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        "--budget",
        min=0,
        metavar="USD",
        help="At most so many US dollars for the whole loop.",
        rich_help_panel=LIMITS,
    ),
]
Steps = Annotated[
    int | None,
    typer.Option(
        "--steps",
        min=1,
        metavar="N",
        help="At most N steps in one iteration.",
        rich_help_panel=LIMITS,
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Start even if four loops are running already.")
]
