"""Tells decoded JSON apart in a way that type checkers follow. It knows nothing else."""

from collections.abc import Sequence
from typing import Any, TypeGuard


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """A JSON object."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[Sequence[Any]]:
    """A JSON array, or a tuple that becomes one."""
    return isinstance(value, list | tuple)
