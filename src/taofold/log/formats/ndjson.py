"""A run as NDJSON: a header, then one line per record. Lossless; the format for backups.

    {"format": "taofold-ndjson", "version": 1, "schema": 2}
    {"run": "r1", "seq": 0, "time": "2026-01-25T10:30:00.000Z", "at": 1769…, "event": {…}}
    {"blob": "5a0c91d2…", "body": "iVBORw0…"}

`at` is the stored value in milliseconds, `time` its readable form. The chain of the run follows
(`evidence`), then the referenced blobs (images, documents, large results), in base64 under their
digest. Knows nothing about files.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from taofold.core.content import blob_digest
from taofold.core.errors import ConfigError, LogError
from taofold.core.events import SCHEMA_VERSION, UPCASTERS, Record, decode, encode
from taofold.core.state import RunState, live, reduce
from taofold.core.text import iso
from taofold.evidence.chain import RunChain, leaf

FORMAT: Final = "taofold-ndjson"
VERSION: Final = 1


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: str
    version: int
    schema: int


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    run: str
    seq: int
    time: str
    at: int
    event: msgspec.Raw
    schema: int | None = None


class _Blob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    blob: str
    body: bytes


class _Head(msgspec.Struct, frozen=True, omit_defaults=True):
    seq: int
    link: str
    at: int
    envelope: msgspec.Raw | None = None
    stamp: bytes = b""


class _Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    log: str
    run: str
    links: list[str]
    heads: list[_Head]
    leaves: dict[str, str] = {}


class _Leaves(msgspec.Struct, frozen=True):
    leaves: dict[str, str] = {}


class _Summary(msgspec.Struct, frozen=True):
    evidence: _Leaves


_BLOB_LINE: Final = '{"blob":'
_EVIDENCE_LINE: Final = '{"evidence":'
_BLOB: Final = msgspec.json.Decoder(_Blob)
_SUMMARY: Final = msgspec.json.Decoder(_Summary)
_HEADER: Final = msgspec.json.Decoder(_Header)
_LINE: Final = msgspec.json.Decoder(_Line)


def dumps(records: Iterable[Record], blobs: Mapping[str, bytes] = {}) -> str:
    """Returns the records as text, one line each after the header, then the `blobs` by digest."""
    lines: list[bytes] = [msgspec.json.encode(_Header(FORMAT, VERSION, SCHEMA_VERSION))]
    for record in records:
        # Written as originally encoded: another decoding could change the stored form.
        event = msgspec.Raw(encode(record.event))
        line = _Line(record.run, record.seq, iso(record.at), record.at, event)
        lines.append(msgspec.json.encode(line))
    return _joined(lines, blobs)


def _joined(lines: list[bytes], blobs: Mapping[str, bytes]) -> str:
    lines += [msgspec.json.encode(_Blob(digest, body)) for digest, body in blobs.items()]
    return b"\n".join([*lines, b""]).decode()


def dumps_chain(
    chain: RunChain, blobs: Mapping[str, bytes] = {}, withheld: Collection[int] = ()
) -> str:
    """Returns the stored records with their chain, then the `blobs` by digest.

    Records are written as they are stored, so that a damaged one stays one. For the `withheld`
    records only the hash is written.
    """
    lines = [msgspec.json.encode(_Header(FORMAT, VERSION, SCHEMA_VERSION))]
    leaves: dict[str, str] = {}
    for record in chain.records:
        if record.seq in withheld:
            leaves[str(record.seq)] = leaf(chain.run, record).hex()
            continue
        # A line break is no part of a value, but would end the line.
        event = msgspec.Raw(record.body.replace(b"\n", b" "))
        line = _stored(chain.run, record.seq, record.at, event)
        if record.schema != SCHEMA_VERSION:
            line["schema"] = record.schema
        lines.append(msgspec.json.encode(line))
    links = [record.link.hex() for record in chain.records]
    heads = [
        _Head(
            head.seq,
            head.link.hex(),
            head.at,
            msgspec.Raw(head.envelope.replace(b"\n", b" ")) if head.envelope else None,
            head.stamp,
        )
        for head in chain.heads
    ]
    evidence = _Evidence(chain.log, chain.run, links, heads, leaves)
    lines.append(msgspec.json.encode({"evidence": evidence}))
    return _joined(lines, blobs)


def _stored(run: str, seq: int, at: Any, event: msgspec.Raw) -> dict[str, Any]:
    try:
        time = iso(at)
    except (TypeError, ValueError, OverflowError):  # of a damaged row
        time = ""
    return {"run": run, "seq": seq, "time": time, "at": at, "event": event}


def loads(text: str, *, run: str = "", source: str = "ndjson") -> list[Record]:
    """Returns the records of an export; `run`, if given, replaces the run id.

    Raises:
        ConfigError: A line is invalid or missing, or the records do not form a run. The path is
            `source` and the line.
    """
    lines, _ = _parts(text, source)
    schema = _schema(lines[0] if lines else "", source)
    _refuse_withheld(text.split("\n")[len(lines)], _at(source, len(lines) + 1))
    records: list[Record] = []
    for number, line in enumerate(lines[1:], 2):
        records.append(_record(line, schema, _at(source, number)))
        _follows(records, _at(source, number))
    if not records:
        raise ConfigError("the export holds no records", path=_at(source, 2))
    _foldable(records, source)
    return [msgspec.structs.replace(r, run=run) for r in records] if run else records


def load_blobs(text: str, records: Iterable[Record], *, source: str = "ndjson") -> dict[str, bytes]:
    """Returns the blobs in an export of `records`, by digest.

    Raises:
        ConfigError: A line after the records is neither evidence nor a blob, the bytes of a blob
            have another digest, or no record references it.
    """
    named = {digest for record in records for digest in record.event.blobs()}
    blobs: dict[str, bytes] = {}
    for number, line in _parts(text, source)[1]:
        try:
            entry = _BLOB.decode(line)
        except msgspec.DecodeError as error:
            raise ConfigError(
                f"not the bytes of a blob: {error}", path=_at(source, number)
            ) from None
        if blob_digest(entry.body) != entry.blob or entry.blob not in named:
            raise ConfigError(
                f"the bytes of {entry.blob!r} have another digest, or no record refers to them",
                path=_at(source, number),
            )
        blobs[entry.blob] = entry.body
    return blobs


def _parts(text: str, source: str) -> tuple[list[str], list[tuple[int, str]]]:
    """Returns the header with the records, and the blobs with their numbers.

    Lines stand in one order: header, records, evidence at most once, blobs.

    Raises:
        ConfigError: The last line has no end, or another line stands after the evidence or a blob.
    """
    lines = text.split("\n")
    # A file without a final line end was cut off while it was written.
    if lines.pop():
        path = _at(source, len(lines) + 1)
        raise ConfigError("the last line has no end: the export is cut off", path=path)
    later = (_BLOB_LINE, _EVIDENCE_LINE)
    end = next((n for n, line in enumerate(lines) if line.startswith(later)), len(lines))
    blobs = list(enumerate(lines[end:], end + 1))
    if blobs and blobs[0][1].startswith(_EVIDENCE_LINE):
        del blobs[0]
    for number, line in blobs:
        if not line.startswith(_BLOB_LINE):
            raise ConfigError(
                "the line is no blob: after the evidence and the first blob only blobs may follow",
                path=_at(source, number),
            )
    return lines[:end], blobs


def _refuse_withheld(line: str, path: str) -> None:
    """Raises `ConfigError` if `line` is evidence that names withheld events."""
    try:
        withheld = _SUMMARY.decode(line).evidence.leaves
    except msgspec.DecodeError:
        return  # another line, or evidence that only a verification reads
    if withheld:
        which = f"event {', '.join(withheld)} is withheld"
        raise ConfigError(f"{which}: such an export can be verified, not imported", path=path)


def _schema(line: str, source: str) -> int:
    path = _at(source, 1)
    try:
        header = _HEADER.decode(line)
    except msgspec.DecodeError as error:
        raise ConfigError(f"not a taofold export: {error}", path=path) from None
    if header.format != FORMAT or header.version != VERSION:
        raise ConfigError(
            f"format {header.format!r} version {header.version} is not {FORMAT!r} {VERSION}",
            path=path,
        )
    # From the oldest version that an upcaster accepts to the current one; a newer one is unknown.
    readable = range(min(UPCASTERS, default=SCHEMA_VERSION), SCHEMA_VERSION + 1)
    if header.schema not in readable:
        raise ConfigError(
            f"schema {header.schema} cannot be read, only {readable[0]} to {SCHEMA_VERSION}: "
            "use the release that wrote it, or a newer one",
            path=path,
        )
    return header.schema


def _record(line: str, schema: int, path: str) -> Record:
    try:
        entry = _LINE.decode(line)
        event = decode(bytes(entry.event), schema if entry.schema is None else entry.schema)
        time = iso(entry.at)
    except (msgspec.DecodeError, OverflowError, KeyError, RecursionError) as error:
        raise ConfigError(f"not a record: {error}", path=path) from None
    # The readable time may have been edited: both must still agree.
    if time != entry.time:
        raise ConfigError(f"time {entry.time!r} is not at {entry.at}, which is {time}", path=path)
    return Record(entry.run, entry.seq, entry.at, event)


def _follows(records: list[Record], path: str) -> None:
    last = records[-1]
    if last.seq != len(records) - 1:
        raise ConfigError(f"seq {last.seq} where {len(records) - 1} must follow", path=path)
    if last.run != records[0].run:
        raise ConfigError(
            f"run {last.run!r} in an export of {records[0].run!r}: export each by itself", path=path
        )


def _foldable(records: list[Record], source: str) -> None:
    """Checks that every record is valid after the ones before it."""
    state = RunState()
    # Rewound records need not fold any more.
    for record in live(records):
        try:
            state = reduce(state, record)
        except LogError as error:
            raise ConfigError(str(error), path=_at(source, record.seq + 2)) from None


def _at(source: str, line: int) -> str:
    return f"{source}:{line}"
