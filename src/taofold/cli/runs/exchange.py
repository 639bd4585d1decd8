"""Commands `taofold runs export|import` and `taofold log backup|migrate`.

A run is exported as text for another log, or as a trace (otlp, opik) with its child runs, to a file
or a back end. `--content` adds prompts and replies, for which the run's agent is made again. A
whole log is copied between a file and a database.
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
    """Returns the run's id and the spans of it and its child runs.

    With `content` the spans have the sent prompts if the agent can be made and derives the same
    ones; otherwise prompts are assembled from the log.
    """
    from taofold.cli.render.runs import started_of
    from taofold.telemetry.projection import spans_of

    async def work(log: "Log") -> "tuple[str, list[Span]]":
        name = await find(log, run)
        roots: Roots = {}
        waiting: list[tuple[str, Agent[Any, Any] | None]] = [(name, None)]
        spans: list[Span] = []
        # A caller comes before its children, whose spans are below the caller's root in `roots`.
        while waiting:
            current, caller = waiting.pop(0)
            records = await log.read(current)
            driven = _agent(started_of(current, records), caller) if content else None
            spans += spans_of(records, roots, await _prompts(driven, log, current))
            waiting += [(row.run, driven) for row in await log.rows(parent=current, limit=0)]
        return name, spans

    return with_log(work)


async def stored_agent(
    log: "Log", run: str, name: str = "", *, foreign: bool = False
) -> "Agent[Any, Any]":
    """Returns the agent of a stored run, offline. A child run's agent is found through its callers.

    Args:
        log: The log that holds the run.
        run: The run's id.
        name: An agent file or module:attr that replaces the recorded one.
        foreign: True: what the run records names no code; only `name` does.

    Raises:
        ConfigError: The agent cannot be made.
    """
    from taofold.backtest import StoredAgents
    from taofold.cli.agent_argument import make, named_choice, recorded_choice
    from taofold.cli.render.runs import started_of
    from taofold.runtime.model import ReplayModel

    choice = named_choice if foreign else recorded_choice
    started = started_of(run, await log.read(run, limit=1))
    # Replies come from the log, so no key and no network is needed.
    agents = StoredAgents(log, lambda root: make(choice(root, name), ReplayModel()))
    return (await agents.of(started)).agent


async def _prompts(
    agent: "Agent[Any, Any] | None", log: "Log", run: str
) -> "dict[str, Prompt] | None":
    from taofold.telemetry.prompt import prompts_of

    return None if agent is None else await prompts_of(agent, log, run)


def _agent(started: "RunStarted", caller: "Agent[Any, Any] | None") -> "Agent[Any, Any] | None":
    """Returns the agent of a stored run, or None. A child's agent is a tool of its caller."""
    from taofold.agent.prompts import called_agent
    from taofold.cli.agent_argument import make, recorded_choice
    from taofold.core.errors import TaofoldError
    from taofold.runtime.model import ReplayModel

    # An export calls no model: the replies are in the log, only prompts are derived again.
    stand_in = ReplayModel(started.model, started.profile)
    if caller is not None:
        child = called_agent(caller, started.agent)
        return None if child is None else child.replace(model=stand_in)
    try:
        return make(recorded_choice(started), stand_in)
    # The agent's code may be gone or changed; then the trace uses the log only.
    except (TaofoldError, ExceptionGroup, ImportError, OSError):
        return None


FORMATS: Final = ("ndjson", "tao-yaml", "tao-iteration", "react-json")
WRITTEN: Final = (*FORMATS, "tao-text")
ENVELOPE: Final = "dsse"
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
Format = Annotated[str, typer.Option("--format", "-f", metavar=_FORMAT, help="Format of the text.")]
_OUT: Final = "|".join((*WRITTEN, *TRACES, ENVELOPE))
OutFormat = Annotated[str, typer.Option("--format", "-f", metavar=_OUT, help="Format to write.")]


@app.command("export")
def export_run(
    run: options.Run,
    format: OutFormat = "ndjson",  # noqa: A002 - the word
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file.")
    ] = None,
    endpoint: Annotated[
        str,
        typer.Option(
            "--endpoint",
            metavar="URL",
            help="Send the trace to this URL. Keys: OTEL_EXPORTER_OTLP_HEADERS or OPIK_API_KEY.",
        ),
    ] = "",
    content: Annotated[
        bool, typer.Option("--content", help="Add redacted prompts and replies to the trace.")
    ] = False,
    withhold: Annotated[
        list[int],
        typer.Option(
            "--withhold", metavar="SEQ", help="Write only the hash of this event. May be repeated."
        ),
    ] = [],
) -> None:
    """Export a run as text, or as a trace (otlp, opik) with its child runs.

    ndjson has everything, including images, large results and evidence (`runs verify`). tao-yaml,
    tao-iteration, react-json and tao-text have thoughts, actions and observations. tao-text cannot
    be imported. dsse is the signed statement about the run's records alone.
    """
    from taofold.log.formats import export as formats

    if format in TRACES:
        _export_trace(run, format, output, endpoint, content)
        return
    if format == ENVELOPE:
        _export_envelope(run, output)
        return
    if endpoint or content:
        fail(f"--endpoint and --content go with --format {' or '.join(TRACES)}")
    _known(format, writing=True)

    if withhold and format != "ndjson":
        fail("--withhold goes with --format ndjson")
    from taofold.log.formats.ndjson import dumps_chain
    from taofold.log.signed import chain_of, chains

    async def work(log: "Log") -> "tuple[str, list[Record], str]":
        name, records = await records_of(log, run)
        if format != "ndjson":
            return name, records, formats.export(records, format)
        blobs = await blobs_of(log, records)
        # A log of another package may not chain its records.
        if not chains(log):
            if withhold:
                fail("--withhold needs a log that chains its records")
            return name, records, formats.export(records, format, blobs)
        chain = await chain_of(log, name)
        _check_withheld(withhold, len(chain.records))
        return name, records, dumps_chain(chain, blobs, set(withhold))

    name, records, text = with_log(work)
    left_out = len(set(withhold))
    what = times(len(records) - left_out, "event") + (f", {left_out} withheld" if left_out else "")
    _write(text, output, f"{name}: {what}")


def _check_withheld(withhold: "list[int]", records: int) -> None:
    """Refuses numbers that are no record of a run with this many records."""
    if wrong := [str(seq) for seq in withhold if not 0 <= seq < records]:
        fail(f"--withhold: the run has no event {', '.join(wrong)}, only 0 to {records - 1}")


def _export_envelope(run: str, output: Path | None) -> None:
    """Writes the last signed statement about the run's chain."""
    from taofold.log.signed import chain_of

    async def work(log: "Log") -> tuple[str, list[bytes]]:
        name = await find(log, run)
        chain = await chain_of(log, name)
        return name, [head.envelope for head in chain.heads if head.envelope]

    name, envelopes = with_log(work)
    if not envelopes:
        fail(f"{name} is not signed: {invocation()} runs sign {name}")
    _write(envelopes[-1].decode() + "\n", output, f"{name}: a signed statement")


async def blobs_of(log: "Log", records: "list[Record]") -> dict[str, bytes]:
    """Returns the blobs of the records. Reports missing ones."""
    blobs: dict[str, bytes] = {}
    for digest in dict.fromkeys([d for record in records for d in record.event.blobs()]):
        try:
            blobs[digest] = await log.blob(digest)
        except LogError as error:
            say(f"note: data of the run is missing in the export: {error}")
    return blobs


def _export_trace(run: str, format: str, output: Path | None, endpoint: str, content: bool) -> None:  # noqa: A002
    if endpoint and output is not None:
        fail("give either --endpoint, which sends the trace, or --output, which writes it")
    from taofold.telemetry import otel

    name, spans = trace_of(run, content)
    translate = otel.OtelTranslation(content=content)
    if endpoint:
        # Keys come from the environment, because `ps` shows command lines.
        backend: Backend = "opik" if format == "opik" else "otlp"
        where = otel.post(spans, translate, backend=backend, endpoint=endpoint)
        say(f"{name}: {len(spans)} spans sent to {where}")
        return
    _write(otel.dumps(spans, translate), output, f"{name}: {len(spans)} spans")


def _write(text: str, output: Path | None, what: str) -> None:
    if output is None:
        give(text.removesuffix("\n"))
        return
    # An export never overwrites a file or follows a link.
    if os.path.lexists(output):
        fail(f"{str(output)!r} already exists; choose another name")
    write_file(output, text.encode())
    say(f"{what} in {output}")


@app.command("import")
def import_run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="- reads standard input.")],
    format: Format = "",  # noqa: A002 - the word
    name: Annotated[str, typer.Option("--as", metavar="ID", help="Run id to use.")] = "",
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse text that needs repairs.")
    ] = False,
) -> None:
    """Import a run from text. It can be read and measured; to continue it, name its --agent.

    Decisions in the text are only history: actions that are not done need approval again.
    """
    from taofold.clocks import clock
    from taofold.log.formats import export as formats
    from taofold.runtime.run import new_id

    form = format or _ENDS.get(file.suffix, "ndjson")
    _known(form)
    named = format or file.suffix in _ENDS
    try:
        text = sys.stdin.read() if str(file) == "-" else _text(file)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", path=str(file)) from error
    # NDJSON names its run; the other formats do not.
    fresh = name or ("" if form == "ndjson" else new_id())
    try:
        records = formats.read(text, form, run=fresh, at=clock(), strict=strict, source=str(file))
    except ConfigError as error:
        if named:
            raise
        raise ConfigError(
            f"{error}. The text was read as {form}; TAO logs need the suffix .yaml or "
            "--format tao-yaml"
        ) from error

    blobs = formats.read_blobs(text, records, form, source=str(file))
    run = with_log(lambda log: _take(log, records, blobs, str(file)), create=True)
    give(run)
    say(f"{times(len(records), 'event')}; look at it with: {invocation()} runs show {run}")


def _text(file: Path) -> str:
    with TextIOWrapper(open_named(file), encoding="utf-8") as lines:
        return lines.read()


async def _take(log: "Log", records: "list[Record]", blobs: dict[str, bytes], source: str) -> str:
    """Stores the records as a run of the importing user. Its decisions have no authority."""
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
        raise ConfigError(f"not a run: {error}", path=source) from error
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
        # One transaction, so that a crash leaves no partial run.
        await log.create(row, records=history, blobs=blobs, disk=True)
    except Conflict as error:
        raise ConfigError(
            f"there is already a run {run!r}; import it under another id with --as ID"
        ) from error
    for claim in started.imported.claims if started.imported else ():
        claimed = list(claim.decisions)
        if claimed:
            say(f"note: {claim.tool}: the file says {', '.join(claimed)}, which has no effect here")
        if claim.started:
            say(f"note: {claim.tool}: the call has no result in the file, so it counts as not made")
    return run


def _known(name: str, *, writing: bool = False) -> None:
    if name in WRITTEN and name not in FORMATS and not writing:
        fail(f"{name} is only written; --format is one of {', '.join(FORMATS)}")
    if name not in (WRITTEN if writing else FORMATS):
        choices = ", ".join((*WRITTEN, *TRACES, ENVELOPE)) if writing else ", ".join(FORMATS)
        fail(f"--format is one of {choices}, not {name!r}")


log_app = typer.Typer(no_args_is_help=True, help="Back up or migrate the whole log.")


@log_app.command("migrate")
def migrate(
    source: Annotated[str, typer.Argument(metavar="FROM", help="sqlite:PATH or postgresql://…")],
    target: Annotated[str, typer.Argument(metavar="TO", help="An empty log, of either kind.")],
) -> None:
    """Copy a log, with loops and patterns, to an empty one, and verify the copy.

    Stop all servers and workers first. The source is not changed; remove it afterwards, so that it
    is not used by mistake.
    """
    from taofold.log.transfer import migrate as moved

    done = moved(source, target)
    for table, rows in done.rows.items():
        give(f"{table:8} {rows}")
    say(f"the copy is complete: digest {done.digest}")


@log_app.command("backup")
def backup(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")],
) -> None:
    """Copy this project's log completely to a file, even while servers and workers use it.

    A plain copy of runs.db lacks the records in runs.db-wal. To restore, stop all programs that use
    the log, replace .taofold/runs.db by the backup, and delete runs.db-wal and runs.db-shm. If the
    backup was copied or is from another machine, trust it with `taofold runs adopt`.
    """
    from sqlite3 import Error

    from taofold.cli.project import FILE, LOG, home, log_address
    from taofold.log.sqlite.open import copy_to, explain, faults_in

    if log_address():
        raise ConfigError("back up its database with pg_dump or a base backup", path=LOG)
    source = home() / FILE
    if not source.exists():
        fail(f"there is no log: {str(source)!r} does not exist")
    if target.exists():
        fail(f"{str(target)!r} already exists: name a new file")
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
    """Back up or migrate the whole log."""
