"""Policy: may this action happen? Limits, roles, tiers, repetition. Pure."""

from taofold.policy.limits import Limits
from taofold.policy.policy import ROLES, Facts, Policy, Ruling, digest, loosened, may
from taofold.policy.repetition import Repetition

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
