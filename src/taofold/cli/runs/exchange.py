"""`taofold runs export|import`, `taofold log backup|migrate`: runs and logs, into and out of it.

Runs as text that another log can import, and as traces (otlp, opik) with their child runs, in a
file or sent to a back end; with `--content` also what was said, for which the run's agent is made
again. A whole log goes from a file to a database, or back.
"""

import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from taofold.cli import options
from taofold.cli.output import fail, give, invocation, say
from taofold.cli.runs.find import find, records_of, with_log
from taofold.core.errors import ConfigError, Conflict, LogError
from taofold.core.text import times
from taofold.reserved_places import open_named, write_file

if TYPE_CHECKING:
    from taofold.agent import Agent
    from taofold.core.events import Record, RunStarted
    from taofold.log.log import Log
    from taofold.telemetry.projection import Roots
    from taofold.telemetry.prompt import Prompt
    from taofold.telemetry.spans import Span
    from taofold.telemetry.targets import Backend


app = typer.Typer()


def trace_of(run: str, content: bool = False) -> "tuple[str, list[Span]]":
    """The run's id, and the spans of it and of the runs below it.

    With `content` the prompts are those that were sent, as far as its agent can be made and makes
    the same ones; else they are put together from the log.
    """
    from taofold.cli.render.runs import started_of
    from taofold.telemetry.projection import spans_of

    async def work(log: "Log") -> "tuple[str, list[Span]]":
        name = await find(log, run)
        roots: Roots = {}
        waiting: list[tuple[str, Agent[Any, Any] | None]] = [(name, None)]
        spans: list[Span] = []
        # A caller before its children: their spans hang
        # below the root that `roots` remembers of it.
        while waiting:
            current, caller = waiting.pop(0)
            records = await log.read(current)
            driven = _agent(started_of(current, records), caller) if content else None
            spans += spans_of(records, roots, await _prompts(driven, log, current))
            waiting += [(row.run, driven) for row in await log.rows(parent=current, limit=0)]
        return name, spans

    return with_log(work)


async def stored_agent(log: "Log", run: str, name: str = "") -> "Agent[Any, Any]":
    """Returns the agent of a stored run, offline; that of a child run is found by its callers.

    Args:
        log: The log that holds the run.
        run: The run's id.
        name: An agent file or module:attr that takes the place of the recorded one.

    Raises:
        ConfigError: The agent cannot be made.
    """
    from taofold.cli.agent_argument import make, recorded_choice
    from taofold.cli.render.runs import started_of
    from taofold.core.errors import ConfigError
    from taofold.runtime.model import ReplayModel

    started = started_of(run, await log.read(run, limit=1))
    if not started.parent:
        return make(recorded_choice(started, name), ReplayModel(started.model, started.profile))
    found = _agent(started, await stored_agent(log, started.parent, name))
    if found is None:
        raise ConfigError(f"the agent of the calling run {started.parent} has no {started.agent!r}")
    return found


async def _prompts(
    agent: "Agent[Any, Any] | None", log: "Log", run: str
) -> "dict[str, Prompt] | None":
    from taofold.telemetry.prompt import prompts_of

    return None if agent is None else await prompts_of(agent, log, run)


def _agent(started: "RunStarted", caller: "Agent[Any, Any] | None") -> "Agent[Any, Any] | None":
    """The agent of a stored run, if it can be made: a child's is a tool of its caller's."""
    from taofold.agent.prompts import called_agent
    from taofold.cli.agent_argument import make, recorded_choice
    from taofold.core.errors import TaofoldError
    from taofold.runtime.model import ReplayModel

    # An export calls no model: the replies are in the log, only prompts are made anew.
    stand_in = ReplayModel(started.model, started.profile)
    if caller is not None:
        child = called_agent(caller, started.agent)
        return None if child is None else child.replace(model=stand_in)
    try:
        return make(recorded_choice(started), stand_in)
    # The agent's code may be gone or changed; the trace is then made of the log alone.
    except (TaofoldError, ExceptionGroup, ImportError, OSError):
        return None


FORMATS: Final = ("ndjson", "tao-yaml", "react-json")
TRACES: Final = ("otlp", "opik")
"""Both are OTLP: they differ in the URL and the headers with which a trace is sent."""
_ENDS: Final = {
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".yaml": "tao-yaml",
    ".yml": "tao-yaml",
    ".json": "react-json",
}
_FORMAT: Final = "|".join(FORMATS)
Format = Annotated[str, typer.Option("--format", "-f", metavar=_FORMAT, help="What the text is.")]
_OUT: Final = "|".join((*FORMATS, *TRACES))
OutFormat = Annotated[str, typer.Option("--format", "-f", metavar=_OUT, help="What to write.")]


@app.command("export")
def export_run(
    run: options.Run,
    format: OutFormat = "ndjson",  # noqa: A002 - the word
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of printing it.")
    ] = None,
    endpoint: Annotated[
        str,
        typer.Option(
            "--endpoint",
            metavar="URL",
            help="Send the trace there. Keys come from OTEL_EXPORTER_OTLP_HEADERS or OPIK_API_KEY.",
        ),
    ] = "",
    content: Annotated[
        bool, typer.Option("--content", help="With what was said, redacted, in the trace.")
    ] = False,
) -> None:
    """A run as text, or as a trace (otlp, opik) with its child runs.

    ndjson keeps everything, also images and large results; tao-yaml and react-json its thoughts,
    actions, observations.
    """
    from taofold.log.formats import export as formats

    if format in TRACES:
        _export_trace(run, format, output, endpoint, content)
        return
    if endpoint or content:
        fail(f"--endpoint and --content go with --format {' or '.join(TRACES)}")
    _known(format, writing=True)

    async def work(log: "Log") -> "tuple[str, list[Record], dict[str, bytes]]":
        name, records = await records_of(log, run)
        return name, records, await _blobs(log, records) if format == "ndjson" else {}

    name, records, blobs = with_log(work)
    _write(
        formats.export(records, format, blobs), output, f"{name}: {times(len(records), 'event')}"
    )


async def _blobs(log: "Log", records: "list[Record]") -> dict[str, bytes]:
    """The bytes that the records name; what is gone from the log is said."""
    blobs: dict[str, bytes] = {}
    for digest in dict.fromkeys([d for record in records for d in record.event.blobs()]):
        try:
            blobs[digest] = await log.blob(digest)
        except LogError as error:
            say(f"note: the export lacks bytes that the run names: {error}")
    return blobs


def _export_trace(run: str, format: str, output: Path | None, endpoint: str, content: bool) -> None:  # noqa: A002
    if endpoint and output is not None:
        fail("--endpoint sends the trace, --output writes it: give one of them")
    from taofold.telemetry import otel

    name, spans = trace_of(run, content)
    translate = otel.OtelTranslation(content=content)
    if endpoint:
        # Keys come from the environment, never from the command line, where `ps` shows them.
        backend: Backend = "opik" if format == "opik" else "otlp"
        where = otel.post(spans, translate, backend=backend, endpoint=endpoint)
        say(f"{name}: {len(spans)} spans sent to {where}")
        return
    _write(otel.dumps(spans, translate), output, f"{name}: {len(spans)} spans")


def _write(text: str, output: Path | None, what: str) -> None:
    if output is None:
        give(text.removesuffix("\n"))
        return
    # An export never writes over a file, nor through a link: there is no --force.
    if os.path.lexists(output):
        fail(f"{str(output)!r} exists; choose another name")
    write_file(output, text.encode())
    say(f"{what} in {output}")


@app.command("import")
def import_run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="- reads standard input.")],
    format: Format = "",  # noqa: A002 - the word
    name: Annotated[str, typer.Option("--as", metavar="ID", help="Under this run id.")] = "",
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse what would be mended on the way in.")
    ] = False,
) -> None:
    """Take in a run from text. It can be read and measured; going on needs --agent.

    What it says of decisions is history: whatever is not done is asked anew.
    """
    from taofold.clocks import clock
    from taofold.log.formats import export as formats
    from taofold.runtime.run import new_id

    form = format or _ENDS.get(file.suffix, "ndjson")
    _known(form)
    try:
        text = sys.stdin.read() if str(file) == "-" else _text(file)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", path=str(file)) from error
    # NDJSON names its run; the other formats do not.
    fresh = name or ("" if form == "ndjson" else new_id())
    records = formats.read(text, form, run=fresh, at=clock(), strict=strict, source=str(file))

    blobs = formats.read_blobs(text, records, form, source=str(file))

    async def work(log: "Log") -> str:
        return await _take(log, records, blobs, str(file))

    run = with_log(work, create=True)
    give(run)
    say(f"{times(len(records), 'event')}; look at it with: {invocation()} runs show {run}")


def _text(file: Path) -> str:
    with TextIOWrapper(open_named(file), encoding="utf-8") as lines:
        return lines.read()


async def _take(log: "Log", records: "list[Record]", blobs: dict[str, bytes], source: str) -> str:
    """Write the records as a run of whoever takes them in: as history, without authority."""
    from msgspec.structs import replace

    from taofold.clocks import clock
    from taofold.core.imported_runs import as_import
    from taofold.core.state import fold
    from taofold.core.values import Principal
    from taofold.runtime.run import row_of

    owner = Principal()
    try:
        history = as_import(records, source, principal=owner, at=clock())
    except ValueError as error:
        raise ConfigError(f"it is no run: {error}", path=source) from error
    state, run = fold(history), history[0].run
    started = state.started
    assert started is not None, "an import begins with run_started"
    row = replace(
        row_of(history[0], started),
        status=state.status,
        waiting_for=state.waiting_for if state.status == "waiting" else "",
        updated_at=history[-1].at,
    )
    try:
        # All or nothing: a crash leaves no half of a run behind.
        await log.create(row, records=history, blobs=blobs, disk=True)
    except Conflict as error:
        raise ConfigError(
            f"there is already a run {run!r}; take it in under another id with --as ID"
        ) from error
    for claim in started.imported.claims if started.imported else ():
        claimed = [*claim.decisions, *(["begun"] if claim.started else [])]
        say(f"note: {claim.tool}: the file says {', '.join(claimed)}; that counts for nothing here")
    return run


def _known(name: str, *, writing: bool = False) -> None:
    if name not in FORMATS:
        choices = ", ".join((*FORMATS, *TRACES)) if writing else ", ".join(FORMATS)
        fail(f"--format is one of {choices}, not {name!r}")


log_app = typer.Typer(no_args_is_help=True, help="The log as a whole.")


@log_app.command("migrate")
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


@log_app.command("backup")
def backup(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")],
) -> None:
    """Copy this project's log to a file, complete, while servers and workers use it.

    A copy of runs.db alone would lack what lies in runs.db-wal. To restore: stop what uses the log,
    put the file in place of .taofold/runs.db and delete runs.db-wal and runs.db-shm beside it. A
    copy of the backup, or one from another machine, is then trusted by `taofold runs adopt`.
    """
    from sqlite3 import Error

    from taofold.cli.project import FILE, LOG, home, log_address
    from taofold.log.sqlite.open import copy_to, explain, faults_in

    if log_address():
        raise ConfigError("back it up as its database is: pg_dump, or a base backup", path=LOG)
    source = home() / FILE
    if not source.exists():
        fail(f"there is no log: {str(source)!r} does not exist")
    if target.exists():
        fail(f"{str(target)!r} exists: name a new file")
    try:
        copy_to(source, target)
    except Error as error:
        raise explain(error, source) from error
    except OSError as error:
        fail(f"{str(target)!r} cannot be written: {error.strerror}")
    faults = faults_in(target)
    for fault in faults:
        say(fault)
    if faults:
        fail(f"{str(target)!r} was written, but the log is damaged")
    give(str(target))


@log_app.callback()
def log() -> None:
    """The log as a whole."""
