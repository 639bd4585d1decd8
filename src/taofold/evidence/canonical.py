"""The canonical form of JSON (RFC 8785, JCS), from stored bytes.

`msgspec` writes strings, literals and most numbers as RFC 8785 demands. The remaining differences
are handled here: some floats, and the order of keys beyond the BMP. One deviation: a number without
fraction and exponent keeps its digits, also beyond 2^53, where RFC 8785 would round. Pure; knows
nothing about records.
"""

import importlib
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from taofold.core.json_values import is_array, is_object

_EXACT: Final = 2**53
_SMALL: Final = 1e-4
"""From here on, msgspec and ECMAScript both write a fraction without an exponent."""
# UTF-16 orders characters beyond the BMP before U+E000 to U+FFFF, and UTF-8 after them.
_ASTRAL: Final = re.compile(rb"[\xf0-\xf4]")
_LAST_OF_BMP: Final = re.compile(rb"[\xee\xef]")


def _number(text: str) -> Any:
    """Returns a value that msgspec encodes as ECMAScript writes the float `text`."""
    value = float(text)
    if value.is_integer() and -_EXACT < value < _EXACT:
        return int(value)
    if _SMALL <= abs(value) < _EXACT:
        return value
    return msgspec.Raw(_library().dumps(value))


@cache
def _library() -> Any:
    # Loaded with the first unusual number: most logs hold none.
    return importlib.import_module("rfc8785")


_DECODER: Final = msgspec.json.Decoder(float_hook=_number)
_SORTED: Final = msgspec.json.Encoder(order="sorted")
_UNSORTED: Final = msgspec.json.Encoder()

decoded: Final[Callable[[bytes], Any]] = _DECODER.decode
"""Returns the JSON in a text as a value for `canonical_lines`. Raises the errors of `canonical`."""


def canonical(body: bytes) -> bytes:
    """Returns the canonical form of the JSON in `body`.

    >>> canonical(b'{"b": 1.0, "a": [1e30, 12345678901234567890]}')
    b'{"a":[1e+30,12345678901234567890],"b":1}'

    Raises:
        ValueError: `body` is not JSON, or holds a number beyond the range of floats.
        RecursionError: It is nested too deep.
    """
    return canonical_lines([decoded(body)])[0]


def canonical_lines(values: Sequence[Any]) -> list[bytes]:
    """Returns the canonical form of values from `decoded`, or of structs that hold them, in order.

    One call encodes all of them, because most values are small.
    """
    text = _SORTED.encode_lines(values)
    if not text.isascii() and _is_mixed(text):
        text = _UNSORTED.encode_lines([_ordered(value) for value in values])
    # A line break within a text is escaped.
    return text.split(b"\n")[:-1]


def _is_mixed(body: bytes) -> bool:
    """Returns whether the text has characters that UTF-16 and UTF-8 may order differently."""
    return bool(_ASTRAL.search(body) and _LAST_OF_BMP.search(body))


def _ordered(value: Any) -> Any:
    """Returns `value` with the keys of all objects in the order of UTF-16."""
    if isinstance(value, msgspec.Struct):
        value = {name: getattr(value, name) for name in value.__struct_fields__}
    if is_object(value):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return {key: _ordered(value[key]) for key in keys}
    if is_array(value):
        return [_ordered(member) for member in value]
    return value
