"""Tells decoded JSON apart in a way that type checkers follow. It knows nothing else."""

from typing import Any, TypeGuard


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """A JSON object."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """A JSON array."""
    return isinstance(value, list)
