"""The base of all values: frozen, compared by content, with one compact JSON form."""

from collections.abc import Sequence
from math import isfinite
from typing import Any, TypeAlias, cast

import msgspec

JSON: TypeAlias = Any
"""What JSON can say: None, bool, int, float, str, list of JSON, dict of str to JSON."""


class Value(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What all values share: immutability and a compact JSON form.

    They hold JSON and one another, never cycles, so the garbage collector need not look.
    """


def is_finite(value: JSON) -> bool:
    """Are all numbers in `value`, which is not nested too deep to be JSON, numbers of JSON?"""
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, dict):
        return all(map(is_finite, cast("dict[str, JSON]", value).values()))
    if isinstance(value, list | tuple):
        return all(map(is_finite, cast("Sequence[JSON]", value)))
    return True
