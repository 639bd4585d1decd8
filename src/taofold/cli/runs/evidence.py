"""Commands `taofold runs verify|sign`, about the evidence of runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from taofold.cli import options
from taofold.cli.output import fail, give, give_json, say
from taofold.cli.project import evidence_signer
from taofold.cli.runs.find import find, with_log
from taofold.cli.stored_runs import RecordedAgents
from taofold.cli.tracebacks import EVIDENCE_KEY
from taofold.core.errors import ConfigError
from taofold.core.text import times

if TYPE_CHECKING:
    from collections.abc import Callable

    from taofold.agent import Agent
    from taofold.core.errors import ReplayDiverged
    from taofold.core.events import Record
    from taofold.evidence.chain import RunChain
    from taofold.evidence.verifier import EvidenceReport
    from taofold.log.log import Log, RunRow

app = typer.Typer()

Derivation: TypeAlias = "tuple[str, int | None, int | None]"
"""A line, the first record that does not follow, and the number of records that were derived."""
DIVERGED: Final = 13
"""Exit code: a record does not follow from those before it."""
UNDERIVED: Final = 14
"""Exit code: the chain was checked, but the decisions could not be derived again."""


@app.command()
def verify(
    target: Annotated[
        str,
        typer.Argument(
            metavar="RUN|FILE", help="A run, or an export (ndjson).", autocompletion=options.runs
        ),
    ] = "",
    key: Annotated[
        list[str],
        typer.Option(
            "--key",
            metavar="KEY",
            help="Public key to trust: 64 digits, or a PEM file. May be repeated.",
        ),
    ] = [],
    agent: options.AgentName = "",
    recorded_agents: RecordedAgents = False,
    chain_only: Annotated[
        bool, typer.Option("--chain-only", help="Do not derive the decisions again.")
    ] = False,
    tsa: Annotated[
        str,
        typer.Option(
            "--tsa", metavar="FILE", help="Certificates (PEM) of trusted time-stamping authorities."
        ),
    ] = "",
    print_verifier: Annotated[
        bool,
        typer.Option("--print-verifier", help="Print a verifier that needs only Python, and exit."),
    ] = False,
    json: options.Json = False,
) -> None:
    """Check the hash chain and signatures of a run, then derive its decisions again.

    Exits with 0 if all records are signed and follow; 10 unsigned; 11 signed by a key that was not
    given; 12 the chain is broken; 13 a record does not follow; 14 not derived.
    """
    from taofold.evidence import verifier

    if print_verifier:
        from inspect import getsource

        give(getsource(verifier).rstrip())
        return
    if not target:
        fail("name a run, or a file with an export")
    from taofold.evidence.statement import public_key

    keys = [public_key(each) for each in key] or own_keys()
    by_file = Path(target).is_file()
    name, text, derivation, row = (
        _of_file(target, agent) if by_file else _of_run(target, agent, foreign=not recorded_agents)
    )
    report = verifier.verify(text, keys)
    stamps = _stamps(report, tsa) if tsa and report.code != verifier.BROKEN else []
    if invalid := [(seq, fault) for seq, _, fault in stamps if fault]:
        report.code, (report.seq, report.text) = verifier.BROKEN, invalid[0]
    stamps = [each for each in stamps if not each[2]]
    code, derived, diverged = _judged(report, row, None if chain_only else derivation)
    if json:
        give_json(
            {
                "run": name,
                "code": code,
                "chain": {"status": report.status, **_fields(report)},
                "stamps": [{"seq": seq, "at": at} for seq, at, _ in stamps],
                "derivation": derived,
                "first": report.seq if report.seq >= 0 else diverged,
            }
        )
    else:
        give(f"{name}: {report.status}: {report.text}")
        for each in report.keys:
            give(f"signed by key {each[:16]}…")
        for each in report.unproved:
            give(f"no given key made the signature that names key {each[:16]}…")
        for seq, at, _ in stamps:
            give(f"records 0 to {seq} existed at {at}")
        give(derived)
    if code:
        raise typer.Exit(code)


def _judged(
    report: "EvidenceReport",
    row: tuple[str, int] | None,
    derivation: "Callable[[], Derivation] | None",
) -> tuple[int, str, int | None]:
    """Returns the exit code, a line, and the first record that does not follow.

    `row` is the fault of the run's row. Without `derivation` only chain and row are judged.
    """
    from taofold.evidence.verifier import BROKEN, withheld

    if report.code == BROKEN:
        return BROKEN, "not derived: the chain is broken", None
    if row is not None:
        return DIVERGED, *row
    if derivation is None:
        return report.code, "not derived: --chain-only", None
    if report.withheld:
        return UNDERIVED, f"not derived: {withheld(report.withheld)}", None
    derived, diverged, count = derivation()
    if diverged is not None:
        return DIVERGED, derived, diverged
    if count is None:
        return UNDERIVED, derived, None
    if count != report.records:
        what = f"{times(report.records, 'record')} verified, {count} derived"
        return UNDERIVED, f"not derived: {what}. If the run goes on, verify it again", None
    return report.code, derived, None


def _stamps(report: "EvidenceReport", tsa: str) -> list[tuple[int, str, str]]:
    """Returns number, time and fault of each head with a stamp and a signature of a given key.

    A stamp of another signature proves nothing about the records.
    """
    from base64 import b64decode
    from contextlib import suppress

    from taofold.evidence.timestamp import stamped_at
    from taofold.reserved_places import read_named

    try:
        roots = read_named(Path(tsa))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", path=tsa) from error
    found: list[tuple[int, str, str]] = []
    for seq, stamp, signatures in report.stamped:
        proved: list[str] = []
        for signature in signatures:
            with suppress(ValueError):
                proved.append(stamped_at(b64decode(signature), b64decode(stamp), roots).isoformat())
        if signatures:
            fault = f"record {seq}: the time stamp is not valid for this signature and authority"
            found.append((seq, proved[0], "") if proved else (seq, "", fault))
    return found


def _fields(report: Any) -> dict[str, Any]:
    from dataclasses import asdict

    fields = asdict(report)
    del fields["code"], fields["seq"], fields["stamped"]
    return fields


def own_keys() -> list[bytes]:
    """Returns the public key that belongs to the configured signing key, if it is a file."""
    public = getattr(evidence_signer(), "public", None)
    return [] if public is None else [public]


_COLUMNS: Final = ("goal", "agent", "session", "parent", "principal", "tags")
"""The columns of a run's row that its first record decides."""


def _row_fault(row: "RunRow", records: "list[Record]") -> tuple[str, int] | None:
    """Returns how the row of a run, which no link covers, differs from its records.

    The number is that of the record that shows it.
    """
    from taofold.core.events import RunStarted
    from taofold.core.state import ENDED, fold
    from taofold.runtime.run import row_of

    started = records[0].event if records else None
    if not isinstance(started, RunStarted):
        return "record 0 does not follow: the run does not begin with run_started", 0
    expected = row_of(records[0], started)
    for name in _COLUMNS:
        listed, recorded = getattr(row, name), getattr(expected, name)
        if listed != recorded:
            return (
                f"record 0 does not follow: the log lists the run with {name} "
                f"{str(listed)[:80]!r}, and its records have {str(recorded)[:80]!r}",
                0,
            )
    status, last = fold(records).status, records[-1].seq
    if status != row.status and not ENDED.isdisjoint({status, row.status}):
        return (
            f"record {last} does not follow: the log lists the run as {row.status}, and its "
            f"records end as {status}",
            last,
        )
    return None


def _of_run(
    reference: str, agent: str, *, foreign: bool
) -> "tuple[str, str | bytes, Any, tuple[str, int] | None]":
    """Returns a run's id, its export, a function that derives it again, and the row's fault."""
    from taofold.cli.runs.exchange import blobs_of
    from taofold.log.formats.ndjson import dumps_chain
    from taofold.log.signed import chain_of

    async def work(log: "Log") -> "tuple[str, RunChain, RunRow]":
        name = await find(log, reference)
        return name, await chain_of(log, name), await log.row(name)

    name, chain, row = with_log(work)

    async def text_of(log: "Log") -> "tuple[str, tuple[str, int] | None]":
        records = await log.read(name)
        return dumps_chain(chain, await blobs_of(log, records)), _row_fault(row, records)

    def derive() -> Derivation:
        return with_log(lambda log: _derived(log, name, agent, foreign=foreign))

    try:
        text, fault = with_log(text_of)
    except Exception as error:  # a damaged record is a finding, not a failure of the command
        from taofold.core.errors import LogError

        if not isinstance(error, LogError):
            raise
        text, fault = dumps_chain(chain), (f"does not follow: {error}", 0)
    return name, text, derive, fault


def _of_file(file: str, agent: str) -> "tuple[str, str | bytes, Any, None]":
    """Returns the id of an exported run, the export, and a function that derives the run again."""
    from taofold.reserved_places import read_named

    try:
        content = read_named(Path(file))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", path=file) from error

    def derive() -> Derivation:
        import asyncio

        # Only an unbroken export is derived, which is UTF-8.
        return asyncio.run(_imported(content.decode(), file, agent))

    return file, content, derive, None


async def _imported(text: str, file: str, agent: str) -> Derivation:
    from taofold.core.events import RunStarted
    from taofold.log.formats import ndjson
    from taofold.log.memory import MemoryLog
    from taofold.runtime.run import row_of

    try:
        records = ndjson.loads(text, source=file)
        blobs = ndjson.load_blobs(text, records, source=file)
    except ConfigError as error:
        return f"not derived: {error}", None, None
    started = records[0].event
    if not isinstance(started, RunStarted):
        return "not derived: the run does not begin with run_started", 0, None
    log = MemoryLog()
    await log.create(row_of(records[0], started), records=records, blobs=blobs)
    return await _derived(log, records[0].run, agent, foreign=True)


async def _derived(log: "Log", name: str, agent: str, *, foreign: bool = False) -> Derivation:
    """Returns the outcome of deriving a run again.

    `foreign`: the run names no code that runs.
    """
    from taofold.cli.runs.exchange import stored_agent
    from taofold.core.errors import LogError, ReplayDiverged, TaofoldError
    from taofold.core.state import fold

    try:
        records = await log.read(name)
        fold(records)
    except LogError as error:
        return f"does not follow: {error}", 0, None
    try:
        made: Agent[Any, Any] = await stored_agent(log, name, agent, foreign=foreign)
        await made.replace(log=log).replay(name)
    except ReplayDiverged as error:
        seq = _place(records, error)
        return f"record {seq} does not follow: {error}", seq, None
    # The agent's code may be gone or changed.
    except (TaofoldError, ExceptionGroup, ImportError, OSError) as error:
        return f"not derived: {error}", None, None
    count = len(records)
    return f"identical: {times(count, 'event')}, all derived again", None, count


def _place(records: "list[Record]", error: "ReplayDiverged") -> int:
    """Returns the number of the record at which a replay diverged."""
    from taofold.core.state import live

    if error.seq is not None:
        return error.seq
    # Equal records that a rewind revoked were not derived.
    counted = live(records)
    for record in counted:
        if record.event is error.recorded or record.event == error.recorded:
            return record.seq
    keyed = [each.seq for each in counted if getattr(each.event, "key", None) == error.key]
    return keyed[0] if keyed else counted[-1].seq


@app.command()
def sign(
    run: options.Run,
    key: Annotated[
        str,
        typer.Option(
            "--key",
            metavar="KEY",
            help=f"PEM file with the private key, or SCHEME://… of a key service. "
            f"Default: {EVIDENCE_KEY}.",
        ),
    ] = "",
    timestamp: Annotated[
        str,
        typer.Option(
            "--timestamp", metavar="URL", help="Have a time-stamping authority (RFC 3161) stamp it."
        ),
    ] = "",
    json: options.Json = False,
) -> None:
    """Sign the last record of a run, and with it the whole chain before it.

    With TAOFOLD_EVIDENCE_KEY runs are signed whenever they rest or end. A broken chain is not
    signed (exit code 12).
    """
    from taofold.evidence.verifier import BROKEN
    from taofold.log.signed import sign_run

    signer = evidence_signer(key)
    if signer is None:
        fail(
            f"name a key: --key FILE, or {EVIDENCE_KEY}. Make one with: openssl genpkey "
            "-algorithm ed25519 -out key.pem"
        )

    async def work(log: "Log") -> "tuple[str, RunChain, str]":
        name = await find(log, run)
        if fault := await _chain_fault(log, name):
            fail(f"{name} is not signed, because its chain is broken: {fault}", BROKEN)
        chain = await sign_run(log, name, signer, timestamp)
        return name, chain, await _agent_option(log, name)

    name, chain, agent = with_log(work)
    head = chain.heads[-1]
    public = getattr(signer, "public", b"").hex()
    if json:
        give_json(
            {
                "run": name,
                "seq": head.seq,
                "link": head.link.hex(),
                "keyid": signer.keyid,
                "public": public,
            }
        )
        return
    give(f"{name}: signed up to record {head.seq}, whose link is {head.link.hex()}")
    if public:
        say(f"verify with: taofold runs verify {name} --key {public}{agent}")


async def _chain_fault(log: "Log", run: str) -> str:
    """Returns the first fault of the chain of a run; "" if it holds."""
    from taofold.evidence.verifier import BROKEN, verify
    from taofold.log.formats.ndjson import dumps_chain
    from taofold.log.signed import chain_of

    report = verify(dumps_chain(await chain_of(log, run)), [])
    return report.text if report.code == BROKEN else ""


async def _agent_option(log: "Log", run: str) -> str:
    """Returns the option that `verify` needs, with a space; "" for the default agent.

    The agent that the run records is not suggested: a forged run could name any code.
    """
    from taofold.cli.agent_argument import named_choice
    from taofold.cli.render.runs import started_of

    try:
        named_choice(started_of(run, await log.read(run, limit=1)))
    except ConfigError:
        return " --agent AGENT"
    return ""
