"""Tells decoded JSON apart in a way that type checkers follow. It knows nothing else."""

from collections.abc import Sequence
from typing import Any, TypeGuard


def is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    """A JSON array, or a tuple that becomes one."""
    return isinstance(value, list | tuple)
