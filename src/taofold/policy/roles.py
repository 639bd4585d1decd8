"""Roles and rights: the order of roles, and the rights that each gives on a server. Pure.

Roles have levels; unknown roles and unknown requirements deny. Rights cover everything besides
using tools: every role from a named one on has a right, and a principal without a role has none.
`stricter` takes the higher of two roles for each right. Deciding on the runs of others is not in
the table: each agent's policy names the role for it (`Policy.approvers`), by default none.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal, get_args

from taofold.core.errors import ConfigError

ROLES: Final[Mapping[str, int]] = {
    "VIEWER": 10,
    "BILLING": 20,
    "USER": 30,
    "EDITOR": 30,
    "ADMIN": 40,
}


def may(held: Iterable[str], required: str, levels: Mapping[str, int] = ROLES) -> bool:
    """Returns whether any of the `held` roles reaches `required`. "" is open to all."""
    if not required:
        return True
    need = levels.get(required)
    # An unknown requirement (None) denies, an unknown role reaches nothing.
    return need is not None and any(role in levels and levels[role] >= need for role in held)


Right = Literal["read", "start", "cancel", "approve_own", "metrics", "learning", "budgets"]

RIGHTS: Final[Mapping[Right, str]] = {
    "read": "VIEWER",  # own runs, and those on which the principal may decide
    "start": "USER",  # start, steer, fork and resume own runs
    "cancel": "USER",  # own runs
    "approve_own": "USER",  # decide on actions of own runs; a policy may forbid it to all
    "metrics": "VIEWER",  # counters of the server, without any particular run
    "learning": "ADMIN",  # loops and patterns, which belong to the machine
    "budgets": "ADMIN",  # all budgets, and lifting one; own amounts need only "read"
}
"""The lowest role that has each right, unless the operator's policy sets another."""


def missing(
    held: Iterable[str],
    right: Right,
    rights: Mapping[Right, str] = RIGHTS,
    levels: Mapping[str, int] = ROLES,
) -> str:
    """Returns the reason why the roles `held` lack the right, or "".

    A right that `rights` does not name, or gives an unknown or empty role, is denied to all. A role
    of `ROLES` that a custom table omits keeps its level from `ROLES`.
    """
    required = rights.get(right, "")
    need = _level(required, levels)
    held = tuple(held)
    if need is not None and any(levels.get(role, -1) >= need for role in held):
        return ""
    had = ", ".join(held) or "no role"
    return f"access denied: {right} requires the role {required or '(none has it)'}, not {had}"


def _level(role: str, levels: Mapping[str, int]) -> int | None:
    return levels.get(role, ROLES.get(role))


def check_rights(rights: Mapping[Right, str], levels: Mapping[str, int]) -> None:
    """Checks that every right and every role is known.

    Raises:
        ConfigError: One is not; the message names the first.
    """
    for right, role in rights.items():
        if right not in get_args(Right):
            names = ", ".join(get_args(Right))
            raise ConfigError(f"unknown right {right!r}; there are {names}", path="rights")
        if role and _level(role, levels) is None:
            message = f"{right} names the unknown role {role!r}; there are {', '.join(levels)}"
            raise ConfigError(message, path="rights")


def stricter(
    one: Mapping[Right, str], other: Mapping[Right, str], levels: Mapping[str, int]
) -> dict[Right, str]:
    """Returns for each right the higher of both roles."""
    # Above every level: a right that no role has is the strictest of all.
    nobody = 1 << 30
    merged = dict(one)
    for right, role in other.items():
        own_level = _level(one.get(right, ""), levels)
        his = _level(role, levels)
        if (nobody if his is None else his) > (nobody if own_level is None else own_level):
            merged[right] = role
    return merged


def lacking(held: Iterable[str], required: Iterable[str], levels: Mapping[str, int]) -> str:
    """Returns the first of the `required` roles that none of the `held` ones reaches, or ""."""
    held = tuple(held)
    return next((role for role in required if not may(held, role, levels)), "")
