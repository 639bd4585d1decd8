"""Roles and their levels. Unknown roles and unknown requirements deny (D9)."""

from collections.abc import Iterable, Mapping
from typing import Final

ROLES: Final[Mapping[str, int]] = {
    "VIEWER": 10,
    "BILLING": 20,
    "USER": 30,
    "EDITOR": 30,
    "ADMIN": 40,
}


def may(held: Iterable[str], required: str, levels: Mapping[str, int] = ROLES) -> bool:
    """Does any of the `held` roles reach `required`? An empty requirement is open to all."""
    if not required:
        return True
    need = levels.get(required)
    return need is not None and any(levels.get(role, -1) >= need for role in held)
