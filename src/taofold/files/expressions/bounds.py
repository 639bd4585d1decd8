"""Operators of expressions, and their limits of work and size. Pure.

Templates and conditions share them. A unit is one turn of a loop, 200 characters that are read, or
20 values of a list or mapping, at any depth. Results are weighed with everything they contain: a
list of references to one list costs nothing until it is written out or compared. This module does
not depend on Jinja.
"""

from collections.abc import Callable, Generator, ItemsView, KeysView, ValuesView
from contextlib import contextmanager
from contextvars import ContextVar
from math import isfinite
from typing import Any, Final

# Values here are any JSON, or come from an untyped library.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false


LARGEST: Final = 1 << 20
"""Maximum characters of a text, or characters and values of a list with its contents."""
PASSED: Final = 4 * LARGEST
"""The same for values that are only passed on: the maximum size of a tool's result."""
WORK: Final = 100_000
"""Units of work for one rendering."""
_BITS: Final = 4096
"""Maximum bits of an integer."""
_KILO: Final = 1000
_READ: Final = 200
_VALUES: Final = 20
_INFINITE: Final = "it makes a number that is not finite: JSON has none"
_COLLECTIONS: Final = (str, list, dict, tuple, ItemsView, KeysView, ValuesView)


class TooMuch(ValueError):
    """The expression exceeds a limit."""


# A context variable, because several tasks may render templates at once.
_left: ContextVar[int] = ContextVar("taofold_template_work")


@contextmanager
def budget() -> Generator[None]:
    """Limits the work inside to `WORK` units."""
    token = _left.set(WORK)
    try:
        yield
    finally:
        _left.reset(token)


def spend(units: int = 1) -> None:
    """Takes units from the budget.

    Raises:
        TooMuch: The budget is used up.
    """
    left = _left.get(WORK) - units
    if left < 0:
        raise TooMuch(f"it loops too long: more than {WORK:,} units of work")
    _left.set(left)


def charge(value: Any) -> None:
    """Charges the cost of reading all of `value`."""
    if isinstance(value, str):
        spend(1 + len(value) // _READ)
    elif isinstance(value, list | dict | tuple):
        weigh(value, PASSED)
    elif isinstance(value, float) and not isfinite(value):
        raise TooMuch(_INFINITE)
    else:
        skim(value)


def skim(value: Any) -> None:
    """Charges the cost of one pass over `value`, not over its contents."""
    spend(1 + (len(value) // _VALUES if isinstance(value, _COLLECTIONS) else 0))


def weigh(value: Any, most: int = LARGEST) -> int:
    """Returns the number of characters and values in `value`. Shared values count repeatedly.

    Raises:
        TooMuch: The number exceeds `most`, or the budget is used up.
    """
    # A stack of iterators: depth needs no recursion, and nothing is copied.
    weight, read, rest = 0, 0, [iter((value,))]
    while rest:
        for part in rest[-1]:
            weight += 1
            read += 1
            if isinstance(part, str):
                weight += len(part)
                read += len(part) // (_READ // _VALUES)
            elif isinstance(part, list | tuple | dict):
                if isinstance(part, dict):
                    # Keys are written out as well.
                    weight += sum([len(key) for key in part if isinstance(key, str)])
                rest.append(iter(part.values() if isinstance(part, dict) else part))
                break
            elif isinstance(part, float) and not isfinite(part):
                raise TooMuch(_INFINITE)
            if weight > most:
                break
        else:
            rest.pop()
        # In portions, because charging for each value would cost more than reading it.
        if read >= _KILO:
            spend(read // _VALUES)
            read = 0
        check_size(weight, most)
    spend(1 + read // _VALUES)
    return weight


def _weight(value: str | list[Any]) -> int:
    return len(value) if isinstance(value, str) else weigh(value)


def within_bounds(value: Any) -> Any:
    """Returns `value`, the result of an expression, if it is not too large."""
    weigh(value)
    return value


def check_size(length: int, most: int = LARGEST) -> None:
    """Checks a size.

    Raises:
        TooMuch: `length` exceeds `most`.
    """
    if length > most:
        raise TooMuch(f"it makes {length:,} characters or values; at most {most:,} are allowed")


def digits(count: Any) -> int:
    """Returns a number of digits for rounding.

    Raises:
        TooMuch: Python would compute a power of ten with this many digits.
    """
    if abs(int(count)) > _KILO:
        raise TooMuch(f"{int(count)} digits are too many")
    return int(count)


def binary(operator: str, left: Any, right: Any) -> Any:
    """Returns `left operator right`, bounded.

    Raises:
        TooMuch: The result would be too large.
        TypeError: The operator does not apply to these types.
        ZeroDivisionError: As in Python.
    """
    spend()
    if _numbers(left, right):
        return _arithmetic(operator, left, right)
    if operator == "+" and type(left) is type(right) and isinstance(left, str | list):
        # Checked before the allocation.
        check_size(_weight(left) + _weight(right))
        return left + right
    if operator == "*" and isinstance(left, str | list) and isinstance(right, int):
        grown = _weight(left) * max(0, right)
        check_size(grown)
        spend(grown // _READ)
        return left * right
    kinds = f"{type(left).__name__} and {type(right).__name__}"
    raise TypeError(f"{operator} is not for {kinds}")


def _numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) for value in values)


def _power(left: float, right: float) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        # An upper bound of the result's bits, without computing it.
        if max(left.bit_length(), 1) * abs(right) > _BITS:
            raise TooMuch(f"{left} ** {right} is too large")
    elif abs(right) > _KILO:
        raise TooMuch("the exponent is too large")
    return left**right


def _product(left: float, right: float) -> Any:
    bits = [side.bit_length() for side in (left, right) if isinstance(side, int)]
    if len(bits) == 2 and sum(bits) > _BITS:
        raise TooMuch("the product is too large")
    return left * right


_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": _product,
    "/": lambda left, right: left / right,
    "//": lambda left, right: left // right,
    "%": lambda left, right: left % right,
    "**": _power,
}


def _arithmetic(operator: str, left: float, right: float) -> Any:
    try:
        return _ARITHMETIC[operator](left, right)
    except OverflowError as error:
        raise TooMuch(f"the number is too large: {error}") from None
