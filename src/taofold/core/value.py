"""The base of all values: frozen, compared by content, with one compact JSON form."""

from typing import Any, TypeAlias

import msgspec

JSON: TypeAlias = Any
"""What JSON can say: None, bool, int, float, str, list of JSON, dict of str to JSON."""


class Value(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What all values share: immutability and a compact JSON form.

    They hold JSON and one another, never cycles, so the garbage collector need not look.
    """
