"""What an expression of a file may cost: a budget for work, bounds for sizes. Pure.

Templates and conditions share it. A unit is one turn of a loop, or a thousand characters
that a filter reads. Knows nothing about Jinja.
"""

# Values here are JSON of any shape, or come from a library without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

LARGEST: Final = 1 << 20
"""Characters of a text, or entries of a list, that an expression may make."""
WORK: Final = 100_000
"""Units of work for one rendering."""
_BITS: Final = 4096
"""Of a whole number."""
_KILO: Final = 1000


class TooMuch(ValueError):
    """The expression would cost more than it may."""


_left: ContextVar[int] = ContextVar("taofold_template_work")


@contextmanager
def budget(units: int = WORK) -> Generator[None]:
    """What runs inside may spend `units`."""
    token = _left.set(units)
    try:
        yield
    finally:
        _left.reset(token)


def spend(units: int = 1) -> None:
    """Take from the budget.

    Raises:
        TooMuch: nothing is left.
    """
    left = _left.get(WORK) - units
    if left < 0:
        raise TooMuch(f"it loops too long: more than {WORK:,} units of work")
    _left.set(left)


def charge(value: Any) -> None:
    """Take from the budget what reading `value` costs."""
    size = len(value) if isinstance(value, str | list | dict | tuple) else 0
    spend(1 + size // _KILO)


def sized(length: int) -> None:
    """Refuse what would be too large.

    Raises:
        TooMuch: it would.
    """
    if length > LARGEST:
        raise TooMuch(f"it makes {length:,} characters or entries; at most {LARGEST:,} are allowed")


def binary(operator: str, left: Any, right: Any) -> Any:
    """`left operator right`, bounded.

    Raises:
        TooMuch: the result would be too large.
        TypeError: the operator is not for these.
        ZeroDivisionError: as in Python.
    """
    spend()
    if _numbers(left, right):
        return _arithmetic(operator, left, right)
    if operator == "+" and type(left) is type(right) and isinstance(left, str | list):
        sized(len(left) + len(right))
        return left + right
    if operator == "*" and isinstance(left, str | list) and isinstance(right, int):
        sized(len(left) * right)
        return left * right
    kinds = f"{type(left).__name__} and {type(right).__name__}"
    raise TypeError(f"{operator} is not for {kinds}")


def _numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) for value in values)


def _power(left: float, right: float) -> Any:
    if isinstance(left, int) and isinstance(right, int):
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
