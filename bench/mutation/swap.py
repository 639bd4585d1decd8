"""Gives functions that are already imported the code of a mutant.

A fresh process would need seconds to import the project and to collect its tests, for a mutant
that most of them notice within milliseconds.
"""

import gc
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FunctionType

IS_FUNCTION = 0x02  # inspect.CO_NEWLOCALS: not set for a module or the body of a class


def nested(code: CodeType) -> list[CodeType]:
    return [const for const in code.co_consts if isinstance(const, CodeType)]


def shallow(code: CodeType) -> tuple[object, ...]:
    """All but the code of the functions and classes inside."""
    consts = [None if isinstance(c, CodeType) else (type(c), c) for c in code.co_consts]
    return code.co_name, code.co_code, consts, code.co_names, code.co_varnames, code.co_freevars


def changed_functions(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The outermost functions that differ. Raises LookupError if anything else differs."""
    if shallow(old) != shallow(new):
        raise LookupError(old.co_name)
    for one, other in zip_longest(nested(old), nested(new)):
        if one == other:
            continue
        if one is None or other is None:
            raise LookupError(old.co_name)
        if one.co_flags & IS_FUNCTION:
            yield one, other
        else:
            yield from changed_functions(one, other)


def swap(path: Path, original: str, mutant: str) -> bool:
    """False: the change is outside of functions, or nothing imported has the function."""
    before, after = (compile(code, str(path), "exec") for code in (original, mutant))
    try:
        changes = list(changed_functions(before, after))
    except LookupError:
        return False
    live = [each for each in gc.get_objects() if isinstance(each, FunctionType)]
    for old, new in changes:
        functions = [f for f in live if f.__code__.co_filename == str(path) and f.__code__ == old]
        if not functions or new.co_freevars != old.co_freevars:
            return False
        for function in functions:
            function.__code__ = new
    return bool(changes)
