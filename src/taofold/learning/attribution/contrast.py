"""How what was found differs from what was expected: `negated`, `one-less`, `reordered`, ….

Messages of failing assertions hold the values of one case; how the two sides differ says more
about the cause, and is the same from project to project. Knows nothing about patterns.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import isclose
from typing import Any, Final, cast

_COMPARED: Final = re.compile(
    r"^(?:\w*Error: )?assert (.{1,300}?) (==|is|<=|>=|<|>) (.{1,300})$", re.MULTILINE
)
_BARE: Final = re.compile(r"^(?:\w*Error: )?assert (not )?(\w+)\b", re.MULTILINE)
_UNREAD: Final = object()
_MOST_ITEMS: Final = 200


@lru_cache(maxsize=1024)
def contrast(message: str) -> frozenset[str]:
    """Words for how the two sides of a failed assertion differ; empty if it cannot be told."""
    compared = _COMPARED.search(message)
    if compared is None:
        bare = _BARE.search(message)
        return frozenset({"denied" if bare[1] else "false"}) if bare else frozenset()
    if compared[2] in ("<", "<=", ">", ">="):
        return frozenset({"bound"})
    return frozenset(_unlike(_value(compared[1]), _value(compared[3])))


def _value(text: str) -> Any:
    """The Python value that `text` spells. `literal_eval` runs nothing."""
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return _UNREAD


def _unlike(found: Any, wanted: Any) -> Iterator[str]:
    if found is _UNREAD or wanted is _UNREAD:
        return
    match found, wanted:
        case bool(), bool():
            yield "true" if found else "false"
        case int() | float(), int() | float():
            yield from _numbers(found, wanted)
        case str(), str():
            yield from _texts(found, wanted)
        case (list(), list()) | (tuple(), tuple()):
            yield from _sequences(cast("Sequence[Any]", found), cast("Sequence[Any]", wanted))
        case dict(), dict():
            yield from _mappings(cast("dict[Any, Any]", found), cast("dict[Any, Any]", wanted))
        case set(), set():
            yield "missing" if found < wanted else "surplus" if found > wanted else "other"
        case None, _:
            yield "none"
        case _, None:
            yield "not-none"
        case _:
            yield f"{type(found).__name__}-for-{type(wanted).__name__}"


def _numbers(found: float, wanted: float) -> Iterator[str]:
    if found == -wanted:
        yield "negated"
    elif found == 0:
        yield "nothing"
    elif found - wanted in (1, -1):
        yield "one-more" if found > wanted else "one-less"
    elif isclose(found, wanted, rel_tol=0.01, abs_tol=0.01):
        yield "nearly"
    elif (found < 0) != (wanted < 0):
        yield "wrong-sign"
    elif wanted == 0:
        yield "something"
    else:
        yield "more" if found > wanted else "less"
        if wanted and found % wanted == 0:
            yield "multiple"


def _texts(found: str, wanted: str) -> Iterator[str]:
    if found.lower() == wanted.lower():
        yield "case"
    elif "".join(found.split()) == "".join(wanted.split()):
        yield "spaces"
    elif found in wanted or wanted in found:
        yield "text-shorter" if len(found) < len(wanted) else "text-longer"
    else:
        yield "text"


def _sequences(found: Sequence[Any], wanted: Sequence[Any]) -> Iterator[str]:
    few, many = len(found), len(wanted)
    if few == many:
        if sorted(map(repr, found)) == sorted(map(repr, wanted)):
            yield "reordered"
            return
        pairs = zip(found[:_MOST_ITEMS], wanted[:_MOST_ITEMS], strict=True)
        told = {word for one, other in pairs if one != other for word in _unlike(one, other)}
        yield from sorted(told) if len(told) <= 2 else ["items"]
        return
    ahead = "short" if few < many else "long"
    less, more = (found, wanted) if few < many else (wanted, found)
    if not less:
        yield "empty" if few < many else "not-empty"
    elif more[: len(less)] == less:
        yield f"{ahead}-end"
    elif more[-len(less) :] == less:
        yield f"{ahead}-start"
    else:
        yield ahead


def _mappings(found: dict[Any, Any], wanted: dict[Any, Any]) -> Iterator[str]:
    if found.keys() < wanted.keys():
        yield "missing"
    elif found.keys() > wanted.keys():
        yield "surplus"
    elif found.keys() == wanted.keys():
        if found == wanted:
            return
        told = {
            word
            for key in list(found)[:_MOST_ITEMS]
            if found[key] != wanted[key]
            for word in _unlike(found[key], wanted[key])
        }
        yield from sorted(told)[:2]
    else:
        yield "other"
