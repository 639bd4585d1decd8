"""`taofold runs export|import`: runs as text."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from taofold.cli import options
from taofold.cli.find import records_of, with_log
from taofold.cli.outcome import fail, give, say
from taofold.cli.program import invocation
from taofold.core.errors import ConfigError, Conflict

if TYPE_CHECKING:
    from taofold.core.events import Record
    from taofold.store.log import Log

FORMATS: Final = ("ndjson", "tao-yaml", "react-json")
_ENDS: Final = {
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".yaml": "tao-yaml",
    ".yml": "tao-yaml",
    ".json": "react-json",
}
_FORMAT: Final = "|".join(FORMATS)
Format = Annotated[str, typer.Option("--format", "-f", metavar=_FORMAT, help="What the text is.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("export")(export_run)
    app.command("import")(import_run)


def export_run(
    run: options.Run,
    format: Format = "ndjson",  # noqa: A002 - the word
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of printing it.")
    ] = None,
) -> None:
    """A run as text: ndjson keeps everything, the others its thoughts, actions, observations."""
    from taofold.store import formats

    _known(format)

    async def work(log: "Log") -> "tuple[str, list[Record]]":
        return await records_of(log, run)

    name, records = with_log(work)
    text = formats.export(records, format)
    if output is None:
        give(text.removesuffix("\n"))
        return
    if output.exists():
        fail(f"{str(output)!r} exists; choose another name")
    output.write_text(text, encoding="utf-8")
    say(f"{name}: {len(records)} events in {output}")


def import_run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="- reads standard input.")],
    format: Format = "",  # noqa: A002 - the word
    name: Annotated[str, typer.Option("--as", metavar="ID", help="Under this run id.")] = "",
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse what would be mended on the way in.")
    ] = False,
) -> None:
    """Take in a run from text. It can be read and measured; going on needs --agent."""
    from taofold.agent.activation import new_id
    from taofold.store import formats
    from taofold.store.store import clock

    form = format or _ENDS.get(file.suffix, "ndjson")
    _known(form)
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", path=str(file)) from error
    fresh = name or ("" if form == "ndjson" else new_id())
    records = formats.read(text, form, run=fresh, at=clock(), strict=strict, source=str(file))

    async def work(log: "Log") -> str:
        return await _take(log, records, str(file))

    run = with_log(work, create=True)
    give(run)
    say(f"{len(records)} events; look at it with: {invocation()} runs show {run}")


async def _take(log: "Log", records: "list[Record]", source: str) -> str:
    """Write the records as a run.

    What a foreign log says about how to make its agent is dropped: it could name any code.
    """
    from msgspec.structs import replace

    from taofold.core.events import RunStarted
    from taofold.core.state import fold
    from taofold.store.log import RunRow

    state, run = fold(records), records[0].run
    kept = [
        replace(one, event=replace(one.event, settings={"imported": source}, session=""))
        if isinstance(one.event, RunStarted)
        else one
        for one in records
    ]
    started = state.started
    row = RunRow(
        run=run,
        goal=state.goal[:500],
        agent=started.agent if started else "",
        principal=started.principal.id if started else "",
        created_at=records[0].at,
        updated_at=records[-1].at,
    )
    try:
        await log.create(row)
    except Conflict as error:
        raise ConfigError(
            f"there is already a run {run!r}; take it in under another id with --as ID"
        ) from error
    claim = await log.claim(run, "")
    waiting = state.waiting_for if state.status == "waiting" else ""
    await log.append(run, claim.epoch, kept, disk=True, status=state.status, waiting_for=waiting)
    return run


def _known(name: str) -> None:
    if name not in FORMATS:
        fail(f"--format is one of {', '.join(FORMATS)}, not {name!r}")
