"""Arrays in PostgreSQL's binary format, written at once.

psycopg looks at every element to learn its type, which costs more than everything else about an
append; the log knows its types.
"""

import struct
from collections.abc import Sequence
from typing import Any, Final

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

_BYTEA: Final = 17
_BIGINT: Final = 20


class ByteaArray(bytes):
    """A `bytea[]`."""

    @classmethod
    def of(cls, contents: Sequence[bytes]) -> "ByteaArray":
        """The array with these elements."""
        length = struct.Struct("!i").pack
        parts = [_head(_BYTEA, len(contents))]
        for content in contents:
            parts += (length(len(content)), content)
        return cls(b"".join(parts))


class BigintArray(bytes):
    """A `bigint[]`."""

    @classmethod
    def of(cls, numbers: Sequence[int]) -> "BigintArray":
        """The array with these elements.

        Raises:
            struct.error: one has more than 64 bits.
        """
        # Each element with its length, which is 8.
        flat = [part for number in numbers for part in (8, number)]
        return cls(_head(_BIGINT, len(numbers)) + struct.pack("!" + "iq" * len(numbers), *flat))


def _head(element: int, count: int) -> bytes:
    """Dimensions, no nulls, type of the elements; length and first index if there are any."""
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
    """Let `connection` take both."""
    connection.adapters.register_dumper(ByteaArray, _ByteaArrayDumper)
    connection.adapters.register_dumper(BigintArray, _BigintArrayDumper)
