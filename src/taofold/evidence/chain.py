"""Hash chains over the records of a run.

    leaf(n) = SHA-256(canonical({"at", "event", "run", "schema", "seq"} of record n))
    link(n) = SHA-256(link(n - 1) || leaf(n))
    link(-1) = SHA-256("taofold chain 1\\n" || log id || "\\n" || run id)

Pure; knows nothing about databases and signatures.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final

import msgspec

from taofold.core.json_values import Value
from taofold.evidence.canonical import canonical_lines, decoded

PURPOSE: Final = b"taofold chain 1\n"
"""The beginning of the text that the first link covers."""


class StoredRecord(Value, frozen=True):
    """A record as its log holds it. `body` is the event's JSON; `link` is b"" until it is computed.

    A record that an export withholds has only its hash, `leaf`.
    """

    seq: int
    at: int
    schema: int
    body: bytes
    link: bytes = b""
    leaf: bytes = b""


class ChainHead(Value, frozen=True):
    """A link that was stored beside the records, in milliseconds since the epoch `at`.

    `envelope` is the signed statement, `stamp` the answer of a time-stamping authority about it.
    """

    seq: int
    link: bytes
    at: int = 0
    envelope: bytes = b""
    stamp: bytes = b""


class RunChain(Value, frozen=True):
    """The chain of one run: its log's id, its records and its heads, by number."""

    log: str
    run: str
    records: tuple[StoredRecord, ...] = ()
    heads: tuple[ChainHead, ...] = ()


class _Leaf(msgspec.Struct, gc=False):
    """The content that the hash of a record covers."""

    at: int
    event: Any
    run: str
    schema: int
    seq: int


def genesis(log: str, run: str) -> bytes:
    """Returns the link before the first record of `run` in the log with this id."""
    return sha256(PURPOSE + log.encode() + b"\n" + run.encode()).digest()


def leaves(run: str, schema: int, rows: Iterable[tuple[int, int, bytes]]) -> list[bytes]:
    """Returns the hashes of records of `run`, each given by its number, time and body.

    Raises:
        ValueError: A body is not JSON.
        RecursionError: It is nested too deep.
    """
    records = [_Leaf(at, decoded(body), run, schema, seq) for seq, at, body in rows]
    return [sha256(line).digest() for line in canonical_lines(records)]


def leaf(run: str, record: StoredRecord) -> bytes:
    """Returns the hash of one record. Raises as `leaves` does."""
    if record.leaf:
        return record.leaf
    if type(record.at) is not int:
        raise TypeError(f"{record.at!r} is not a time")
    (done,) = leaves(run, record.schema, ((record.seq, record.at, record.body),))
    return done


def links(previous: bytes, leaves: Iterable[bytes]) -> list[bytes]:
    """Returns the links of consecutive records after the link `previous`."""
    done: list[bytes] = []
    for each in leaves:
        previous = sha256(previous + each).digest()
        done.append(previous)
    return done
