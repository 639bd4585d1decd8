"""Licences of exported patterns: the measured effect and the runs, signed, and their check.

A licence is signed as a head of a run is (`taofold.evidence`): an in-toto statement in a DSSE
envelope. Its subject is the content of the pattern, so a changed text has no licence. A check needs
a trusted key; with the exports of runs, each run that the licence names must be there and hold.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from taofold.core.errors import ConfigError, UnknownRun
from taofold.core.json_values import is_array, is_object
from taofold.evidence.canonical import canonical
from taofold.evidence.statement import Signer, envelope_of, keyid
from taofold.evidence.verifier import (
    BROKEN,
    STATEMENT,
    open_envelope,
    read_export,
    verify,
)
from taofold.learning.exchange.exports import MOST_RUNS, RunHash
from taofold.learning.exchange.imports import LicenceCheck, UntrustedLicence
from taofold.learning.exchange.records import Json, pattern_of, written
from taofold.learning.patterns.pattern import Licence, Pattern
from taofold.log.log import Log
from taofold.log.signed import tip_of
from taofold.reserved_places import read_named

PREDICATE: Final = "https://taofold.dev/evidence/lesson/v1"
MOST_LOOPS: Final = 200
"""The most loops whose runs an export names, the newest first."""
_MOST_BYTES: Final = 64_000
_MOST_SIGNATURES: Final = 4
_NAMED: Final = 16
"""The characters of a key's name that are stored."""


def content_digest(pattern: Pattern) -> str:
    """Returns SHA-256 of the canonical form of the kind and body of a pattern, in hexadecimal."""
    return sha256(canonical(msgspec.json.encode(pattern.body))).hexdigest()


def statement_of(pattern: Pattern, licence: Mapping[str, Any]) -> bytes:
    """Returns the statement about a pattern, in canonical form."""
    subject = {"digest": {"sha256": content_digest(pattern)}, "name": "taofold-lesson"}
    value = {
        "_type": STATEMENT,
        "predicate": dict(licence),
        "predicateType": PREDICATE,
        "subject": [subject],
    }
    return canonical(msgspec.json.encode(value))


def signing(signer: Signer) -> Callable[[Pattern, Json], Json]:
    """Returns the function of an export that signs the licence of a pattern."""

    def sign(pattern: Pattern, licence: Json) -> Json:
        # An importer sees the pattern of the file, in which numbers are rounded.
        read = pattern_of(pattern.kind, written(pattern), 0)
        signed: Json = msgspec.json.decode(envelope_of(statement_of(read, licence), signer))
        return signed

    return sign


async def run_hashes(log: Log, loops: Mapping[str, Sequence[str]]) -> dict[str, list[RunHash]]:
    """Returns the last links of the runs of each loop. Runs that the log does not have are left
    out.
    """
    found: dict[str, list[RunHash]] = {}
    for loop, runs in loops.items():
        for run in runs[-MOST_RUNS:]:
            try:
                chain = await tip_of(log, run)
            except UnknownRun:
                continue
            for head in chain.heads:
                found.setdefault(loop, []).append(RunHash(run, head.seq, head.link.hex()))
    return found


def checking(
    keys: Sequence[bytes], links: Mapping[tuple[str, int], str] | None = None
) -> LicenceCheck:
    """Returns the check of an import.

    Args:
        keys: The trusted public keys, 32 bytes each.
        links: The links of verified runs, by run and record. None: runs are not compared.
    """

    def check(pattern: Pattern, licence: Any) -> Licence:
        if not is_object(licence) or "envelope" not in licence:
            raise UntrustedLicence("it is not signed")
        if not keys:
            raise UntrustedLicence("no key is trusted: pass --key with the author's public key")
        payload, key = _signed_payload(licence["envelope"], keys)
        stated = {name: value for name, value in licence.items() if name != "envelope"}
        if payload != statement_of(pattern, stated):
            raise ValueError("the lesson or its figures were changed after they were signed")
        runs = stated.get("runs")
        if not is_array(runs) or len(runs) > MOST_RUNS:
            raise ValueError("its runs are damaged")
        hashes = [msgspec.convert(run, _Run) for run in runs]
        if links is not None:
            if not hashes:
                raise ValueError("it names no run that could be compared with the exports of runs")
            _compare(hashes, links)
        return _licence(stated, keyid(key)[:_NAMED], len(hashes))

    return check


def links_in(folder: Path) -> dict[tuple[str, int], str]:
    """Returns the links of the runs whose exports (`*.ndjson`) are in a folder.

    Raises:
        ConfigError: An export cannot be read, has no evidence or no records, or its chain is
            broken, or there is no such folder.
    """
    if not folder.is_dir():
        raise ConfigError("there is no such folder with exports of runs", path=str(folder))
    links: dict[tuple[str, int], str] = {}
    for path in sorted(folder.glob("*.ndjson")):
        try:
            content = read_named(path)
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror}", path=str(path)) from error
        report = verify(content, [])
        if report.code == BROKEN:
            raise ConfigError(f"its chain is broken: {report.text}", path=str(path))
        # As the verifier read it: a second reader could see other lines.
        export = read_export(content)
        evidence = export.evidence
        if evidence is None:
            raise ConfigError("the export has no evidence", path=str(path))
        if not export.records:
            raise ConfigError("the export holds no records", path=str(path))
        links |= {(evidence["run"], seq): link for seq, link in enumerate(evidence["links"])}
    return links


class _Run(msgspec.Struct, frozen=True):
    run: str
    seq: int
    sha256: str


class _Stated(msgspec.Struct, frozen=True):
    loops_shown: int
    control_loops: int
    control_share: float
    iterations: float | None = None
    interval_95: tuple[float, float] | None = None


def _licence(stated: Mapping[str, Any], signer: str, runs: int) -> Licence:
    read = msgspec.convert(stated, _Stated)
    low, high = read.interval_95 or (None, None)
    return Licence(
        signer,
        read.loops_shown,
        read.control_loops,
        read.iterations,
        low,
        high,
        read.control_share,
        runs,
    )


def _compare(runs: Iterable[_Run], links: Mapping[tuple[str, int], str]) -> None:
    for run in runs:
        link = links.get((run.run, run.seq))
        if link is None:
            raise ValueError(f"run {run.run[:80]!r} is not among the exports of runs")
        if link != run.sha256:
            raise ValueError(f"run {run.run[:80]!r} has another hash in its export")


def _signed_payload(envelope: Any, keys: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Returns the payload that one of `keys` signed, and the key.

    Raises:
        ValueError: None of them signed it.
    """
    try:
        if len(envelope["payload"]) > _MOST_BYTES:
            raise ValueError("its envelope is of another kind")
        bounded = {**envelope, "signatures": envelope["signatures"][:_MOST_SIGNATURES]}
    except (KeyError, TypeError) as error:
        raise ValueError("its envelope is damaged") from error
    payload, found = open_envelope(bounded, list(keys))
    for _, key in found:
        if key is not None:
            return payload, key
    raise UntrustedLicence("none of the given keys signed it")
