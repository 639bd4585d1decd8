"""Additions to psycopg: addresses, error messages, and binary arrays.

An address may contain the size of the pool, which libpq does not know. It gets keepalives, and is
shown without its password. Errors tell the operator what to do. Arrays are encoded directly:
psycopg inspects every element to determine its type, which costs more than the rest of an append,
whereas the log knows its types.
"""

import struct
from collections.abc import Sequence
from typing import Any, Final

import psycopg
from psycopg.adapt import Dumper
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Format

from taofold.core.errors import ConfigError, LogAway, LogError, OutcomeUnknown
from taofold.log.log import NOTHING_SAVED

RETRYABLE: Final = frozenset({"40001", "40P01"})
"""Errors of a transaction that was rolled back because of another one: it may be repeated."""

_TEXTS: Final = {
    "42501": "refuses: the role lacks a right. {saved} Let an administrator grant it (CREATE on "
    "the schema for the first start; SELECT, INSERT, UPDATE, DELETE on taofold_* afterwards)",
    "53100": "cannot grow: its disk is full. {saved} Free some space, then resume",
    "53200": "is out of memory. {saved}",
    "53300": "takes no more connections. {saved} Raise max_connections, or lower pool_max in the "
    "log's address",
    "54000": "cannot take a name of this length. {saved}",
    "25006": "is read-only: a standby, or a role that may not write. {saved} Name the primary "
    "server in the log's address (target_session_attrs=read-write)",
    "55P03": "is busy: a row stayed locked by another session. {saved} Try again",
    "57014": "gave the statement up: it took too long. {saved} Try again",
    "57P03": "is starting or stopping. {saved} Try again",
    "3D000": "does not exist. Create it first (createdb NAME)",
    "28P01": "refuses the password",
    "28000": "refuses the role",
    "42P01": "has lost its tables: {saved} Restore a backup",
    "42883": "has lost its functions: {saved} Restore a backup",
}


def parse_dsn(dsn: str) -> tuple[str, int]:
    """Returns the address for libpq, and its pool size (0 = none).

    Raises:
        ConfigError: It is not an address of a PostgreSQL database.
    """
    address, most = _without_pool(dsn)
    try:
        conninfo_to_dict(address)
    except psycopg.ProgrammingError as error:
        # The text of the error repeats the address, including a password.
        raise ConfigError(
            "the log's address is not one of a PostgreSQL database: write "
            "postgresql://USER@HOST:PORT/DATABASE, with %-codes for special characters",
            path="log",
        ) from error.with_traceback(None).__cause__
    return address, most


def _without_pool(dsn: str) -> tuple[str, int]:
    base, mark, query = dsn.partition("?")
    most, others = 0, list[str]()
    for part in query.split("&") if mark else []:
        name, _, value = part.partition("=")
        if name != "pool_max":
            others.append(part)
        elif value.isdecimal() and 0 < int(value) < 1000:
            most = int(value)
        else:
            raise ConfigError(f"pool_max must be 1 to 999, not {value[:20]!r}", path="log")
    return base + ("?" + "&".join(others) if others else ""), most


def with_keepalive(dsn: str) -> str:
    """Returns the address with keepalive options, unless it has its own.

    Without them libpq would not detect a vanished server while it only listens.
    """
    defaults: dict[str, Any] = {
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 30_000,
    }
    return make_conninfo(dsn, **(defaults | conninfo_to_dict(dsn)))


def without_password(dsn: str) -> str:
    """Returns the address without its password."""
    fields = {**conninfo_to_dict(dsn)}
    fields.pop("password", None)
    return make_conninfo("", **{name: value for name, value in fields.items() if value is not None})


def explain(error: psycopg.Error, name: str) -> LogError:
    """Returns the error to raise for one reported by the server: nothing was written."""
    text = _TEXTS.get(error.sqlstate or "")
    if text is None:
        return LogError(f"the log {name!r} failed: {_line(error)}. {NOTHING_SAVED}")
    return LogError(f"the log {name!r} {text.format(saved=NOTHING_SAVED)} ({_line(error)})")


def unreachable(error: psycopg.Error, name: str) -> LogError:
    """Returns the error for a failed connection: `LogAway` if it is temporary."""
    kind = LogAway if passing(error) else LogError
    text = _TEXTS.get(error.sqlstate or "")
    if text is not None:
        return kind(f"the log {name!r} {text.format(saved=NOTHING_SAVED)} ({_line(error)})")
    return kind(
        f"the log {name!r} cannot be reached ({_line(error)}): check the address and that the "
        "server is up"
    )


def passing(error: psycopg.Error) -> bool:
    """Returns whether the error is temporary, like a restart. A wrong password is not."""
    # 57P01 to 57P03: shutting down, crashed, starting; 08…: no connection. None: the socket failed.
    return error.sqlstate is None or error.sqlstate.startswith(("57P", "08"))


def outcome_unknown(error: psycopg.Error, name: str) -> OutcomeUnknown:
    """Returns the error to raise when the connection broke during a write."""
    return OutcomeUnknown(f"the connection to the log {name!r} was lost: {_line(error)}")


def _line(error: psycopg.Error) -> str:
    return " ".join(str(error).split())[:400]


_BYTEA: Final = 17
_BIGINT: Final = 20


class ByteaArray(bytes):
    """A `bytea[]`."""

    @classmethod
    def of(cls, contents: Sequence[bytes]) -> "ByteaArray":
        """Returns the array with these elements."""
        length = struct.Struct("!i").pack
        parts = [_head(_BYTEA, len(contents))]
        for content in contents:
            parts += (length(len(content)), content)
        return cls(b"".join(parts))


class BigintArray(bytes):
    """A `bigint[]`."""

    @classmethod
    def of(cls, numbers: Sequence[int]) -> "BigintArray":
        """Returns the array with these elements.

        Raises:
            struct.error: One has more than 64 bits.
        """
        # Each element with its length, which is 8.
        flat = [part for number in numbers for part in (8, number)]
        return cls(_head(_BIGINT, len(numbers)) + struct.pack("!" + "iq" * len(numbers), *flat))


def _head(element: int, count: int) -> bytes:
    """Returns dimensions, no nulls, element type; length and first index if there are elements."""
    if not count:
        return struct.pack("!iii", 0, 0, element)
    return struct.pack("!iiiii", 1, 0, element, count, 1)


class _BinaryDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: bytes) -> bytes:
        return bytes(obj)


class _ByteaArrayDumper(_BinaryDumper):
    oid = 1001


class _BigintArrayDumper(_BinaryDumper):
    oid = 1016


def register(connection: psycopg.AsyncConnection[Any]) -> None:
    """Registers both array types at `connection`."""
    connection.adapters.register_dumper(ByteaArray, _ByteaArrayDumper)
    connection.adapters.register_dumper(BigintArray, _BigintArrayDumper)
