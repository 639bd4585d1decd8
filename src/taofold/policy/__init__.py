"""Policy: whether an action may run (limits, roles, tiers, repetition), and which secrets must not
be written or shown (`redaction`). Pure.
"""

from taofold.policy.budgets import Budget
from taofold.policy.limits import Limits
from taofold.policy.policy import Facts, Policy, Ruling, digest, loosened
from taofold.policy.repetition import Repetition
from taofold.policy.roles import ROLES, may

__all__ = [
    "ROLES",
    "Budget",
    "Facts",
    "Limits",
    "Policy",
    "Repetition",
    "Ruling",
    "digest",
    "loosened",
    "may",
]
