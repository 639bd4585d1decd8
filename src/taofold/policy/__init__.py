"""Policy: may this action happen? Limits, roles, tiers, repetition; and what must not be written
down or shown, secrets (`redaction`). Pure.
"""

from taofold.policy.limits import Limits
from taofold.policy.policy import Facts, Policy, Ruling, digest, loosened
from taofold.policy.repetition import Repetition
from taofold.policy.roles import ROLES, may

__all__ = [
    "ROLES",
    "Facts",
    "Limits",
    "Policy",
    "Repetition",
    "Ruling",
    "digest",
    "loosened",
    "may",
]
