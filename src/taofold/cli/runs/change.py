"""Commands `taofold runs resume|cancel|steer|rate|delete|adopt`, which change runs.

`drive` drives and displays a resumed run.
"""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from taofold.cli import options
from taofold.cli.output import USAGE, fail, give_json, say
from taofold.cli.runs.find import find, with_log
from taofold.cli.runs.go_on import resume_command
from taofold.core.text import times

if TYPE_CHECKING:
    from taofold.agent import Agent
    from taofold.core.events import Record
    from taofold.log.log import Log, RunRow

app = typer.Typer()


_WORDS: Final = {"good": 1.0, "bad": 0.0}


@app.command()
def resume(
    run: options.Run,
    agent: options.AgentName = "",
    model: options.ModelName = "",
    approve: options.Approve = "",
    takeover: Annotated[
        bool,
        typer.Option("--takeover", help="Take the run from a live but stuck process."),
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Continue a run that waits, was interrupted, forked or cancelled, or failed with an error.

    `runs list` shows the status of runs. Completed actions are not repeated.
    """

    async def work(log: "Log") -> "tuple[str, list[Record]]":
        name = await find(log, run)
        return name, await log.read(name)

    name, records = with_log(work)
    go_on(name, records, agent, model, approve, takeover=takeover, json=json, quiet=quiet)


def go_on(
    name: str,
    records: "list[Record]",
    agent: str = "",
    model: str = "",
    approve: str = "",
    *,
    takeover: bool = False,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Resumes run `name` at the terminal and exits with its exit code."""
    from taofold.cli.agent_argument import approved_by, make, recorded_choice
    from taofold.cli.project import open_store
    from taofold.cli.render.runs import started_of
    from taofold.cli.runs.drive import drive, finish
    from taofold.core.file_states import place_of

    # Made before the log is opened, so that a faulty agent file does not change the run.
    choice = recorded_choice(started_of(name, records), agent, model)
    place = place_of(records)
    if place:
        # The files of the run were restored into a folder of its own.
        choice = replace(choice, root=place, snapshots=True)
    resumed: Agent[Any, Any] = make(choice, own_approver=True)
    command = with_log(lambda log: resume_command(log, name, agent, model))
    log = open_store()
    result = drive(
        log,
        name,
        lambda listener, approver: (
            approved_by(resumed, approve, approver)
            .replace(log=log)
            .resume(name, listener=listener, takeover=takeover)
        ),
        approve=approve,
        json=json,
        quiet=quiet,
        told=records,
        go_on=command,
    )
    finish(result)


@app.command()
def cancel(run: options.Run) -> None:
    """Stop a run. No further action starts; its log is kept."""
    from taofold.runtime import control

    async def work(log: "Log") -> tuple[str, bool]:
        name = await find(log, run)
        return name, await control.cancel(log, name)

    name, ended = with_log(work)
    say(f"{name} is cancelled" if ended else f"{name} will stop at its next turn")


@app.command()
def steer(
    run: options.Run,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Message to the model.")],
) -> None:
    """Send a message to the run's model, which reads it at its next turn."""
    from taofold.runtime import control

    if not text.strip():
        fail("the message is empty")

    async def work(log: "Log") -> "tuple[RunRow, str]":
        name = await find(log, run)
        await control.steer(log, name, text)
        return await log.row(name), await resume_command(log, name)

    row, command = with_log(work)
    say(f"sent to {row.run}")
    if row.status == "waiting":
        say(f"the run waits; it reads the message after: {command}")


@app.command()
def rate(
    run: options.Run,
    value: Annotated[
        str,
        typer.Argument(metavar="VALUE", help="good, bad, or a number from 0 (bad) to 1 (good)."),
    ],
    note: Annotated[
        str, typer.Option("--note", "-m", metavar="TEXT", help="Reason, or the right answer.")
    ] = "",
    json: options.Json = False,
) -> None:
    """Rate a run. A new rating replaces your earlier one.

    Ratings are stored beside the log. `runs show` displays them, and `eval --from-rated` uses them.
    """
    from taofold.runtime.ratings import Rating, rate
    from taofold.views import rating_json

    try:
        number = _WORDS[value] if value in _WORDS else float(value)
    except ValueError:
        fail(f"VALUE is good, bad, or a number from 0 to 1, not {value!r}", USAGE)

    async def work(log: "Log") -> tuple[str, Rating]:
        name = await find(log, run)
        return name, await rate(log, name, number, note)

    name, rating = with_log(work)
    if json:
        give_json({"run": name, **rating_json(rating)})
    else:
        say(f"rated {rating.value:g}: {name}")


@app.command()
def delete(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Ids or their beginnings.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete runs permanently, with their child runs and results that only they use."""
    from taofold.runtime.control import children
    from taofold.runtime.ownership import driven

    async def named(log: "Log") -> list[str]:
        names: list[str] = []
        for prefix in runs:
            name = await find(log, prefix)
            names += [name, *await children(log, name)]
        # All runs are checked before the first is deleted.
        for name in names:
            if driven(await log.row(name)):
                fail(f"{name} is being driven by a live process; cancel it first", code=1)
        # A named run may also be a child of another named run.
        return list(dict.fromkeys(names))

    names = with_log(named)
    many = times(len(names), "run")
    if not yes:
        if not sys.stdin.isatty():
            fail(f"this deletes {many} permanently; confirm with --yes", USAGE)
        say("\n".join(names))
        from taofold.runtime.approvers import discard_typed

        discard_typed()
        typer.confirm(f"delete {many} permanently?", abort=True, err=True)

    # Opened again, so that the database is not locked during the question.
    async def work(log: "Log") -> None:
        from taofold.runtime.ratings import forget
        from taofold.runtime.time_travel import forget_states

        # Before the records, which name the states.
        await forget_states(log, names)
        # Before the runs, because deleting them also wipes dropped data from the file.
        await forget(log, names)
        for name in names:
            await log.delete(name)

    with_log(work)
    say(f"deleted: {', '.join(names)}")


@app.command()
def adopt() -> None:
    """Trust this project's log that another user or machine created, or that is a copy.

    The approvals in it then count as yours, so check its runs.
    """
    import asyncio

    from taofold.cli.project import FILE, LOG, home, log_address, open_store
    from taofold.core.errors import ConfigError
    from taofold.log.sqlite.open import lacks_records

    address = log_address()
    if address:
        raise ConfigError("a log named by the environment is already trusted", path=LOG)
    lacking = lacks_records(home() / FILE)
    log = open_store(adopt=True)

    async def count() -> dict[str, int]:
        counted = await log.count()
        await log.close()
        return counted

    counted = asyncio.run(count())
    say(
        f"{str(home() / FILE)!r} is now trusted: "
        f"{times(sum(counted.values()), 'run')}, {counted.get('waiting', 0)} of them waiting"
    )
    if lacking:
        say(
            f"its last records are missing: it was copied in use, without {FILE}-wal; "
            "actions could be repeated, so check the runs that have not ended"
        )
