"""Decides whether an action may run. Pure, and it fails closed (D8, D9, D10).

`Policy.rule` returns allow, ask or deny, from tiers, roles and the effect of a tool. It knows tools
only by their `Facts`, and users by their principal. This module also defines the permitted
deciders, the stricter of two policies (`Policy.tightened`), and the points in which a project's
policy would loosen the operator's. An approval is bound to a `digest` of the tool, its exact
arguments and its definition. Roles and rights are in `roles`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final, Literal, TypeVar

import msgspec

from taofold.core import option_values
from taofold.core.errors import ConfigError
from taofold.core.values import Action, Deciders, Principal, Sideeffect, Tier, Value, Verdict
from taofold.policy.budgets import Budget, checked_budgets, merged, raised
from taofold.policy.roles import RIGHTS, ROLES, Right, check_rights, lacking, may, missing, stricter

T = TypeVar("T")

Autonomy = Literal["conservative", "balanced", "autonomous"]
MOST_SECONDS: Final = 1_000_000_000
"""The longest validity of a question, in seconds: 31 years."""
_DIAL: Final = ("conservative", "balanced", "autonomous")


class Facts(Value, frozen=True):
    """The facts about a tool that the policy needs. `definition` is its digest.

    `delegated`: the tool is an agent, whose own run asks about each of its calls, under this policy
    too.
    `undeclared`: its effect and tier are the defaults, because its author gave neither.
    """

    tier: Tier
    effect: Sideeffect
    role: str = ""
    definition: str = ""
    delegated: bool = False
    undeclared: bool = False


UNDECLARED: Final = (
    "it declares no effect, so it may write; "
    'if it only reads, declare @tool(effect="read") and it runs without asking'
)


class Ruling(Value, frozen=True):
    """The policy's decision on one action. `rule` names the key that decided.

    It is a key of the policy file (`deny.rm`, `tiers.deploy`, `autonomy`), or a fact about the call
    (`tool.tier`, `tool.effect`, `tool.role`, `tool.agent`, `critical`). It is not recorded.
    """

    verdict: Verdict
    tier: Tier
    reason: str = ""
    rule: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules for actions that run at once, need an approval, or are forbidden.

    Args:
        autonomy: "conservative" (every write asks), "balanced", or "autonomous" (asks from tier 3).
        tiers: Tiers by tool; they only raise the declared ones.
        allow: The only tools that may run; None = all.
        deny: Tools that may not run.
        roles: Levels of roles; a higher one includes the lower ones.
        required: Roles required by tool, besides the declared ones.
        production: True raises the tiers named in `production_tiers`.
        production_tiers: Tiers by tool in production.
        approvers: Role that may approve runs of others; "" = only the requester decides.
        own_approval: True if a requester may approve the actions of their own run.
        approve_seconds: Validity of a question in seconds, at most 1,000,000,000; 0 = unlimited.
        rights: Lowest role for each right besides using tools; missing ones are as in `RIGHTS`.
        budgets: Dollars and tokens that many runs share in a period.

    Raises:
        ConfigError: A value is unknown or out of range.

    Example:
        ```python
        from taofold import Agent, Policy, Tier

        policy = Policy(tiers={"deploy": Tier.CONFIRM}, deny=frozenset({"rm"}))
        agent = Agent("openai:gpt-5", policy=policy)
        ```
    """

    autonomy: Autonomy = "balanced"
    tiers: Mapping[str, Tier] = field(default_factory=dict[str, Tier])
    allow: frozenset[str] | None = None
    deny: frozenset[str] = frozenset()
    roles: Mapping[str, int] = field(default_factory=lambda: dict(ROLES))
    required: Mapping[str, str] = field(default_factory=dict[str, str])
    production: bool = False
    production_tiers: Mapping[str, Tier] = field(default_factory=dict[str, Tier])
    approvers: str = ""
    own_approval: bool = True
    approve_seconds: float = 0.0
    rights: Mapping[Right, str] = field(default_factory=lambda: dict(RIGHTS))
    budgets: Sequence[Budget] = ()

    def __post_init__(self) -> None:
        if self.autonomy not in _DIAL:
            message = f"autonomy must be one of {', '.join(_DIAL)}, not {self.autonomy!r}"
            raise ConfigError(message, path="policy")
        _check_kinds(self)
        # The class is frozen. A set of the caller could change later.
        object.__setattr__(
            self, "deny", frozenset(option_values.checked_names(self.deny, "policy.deny"))
        )
        if self.allow is not None:
            allowed = option_values.checked_names(self.allow, "policy.allow")
            object.__setattr__(self, "allow", frozenset(allowed))
        seconds: Any = self.approve_seconds
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            wrong = f"is a number of seconds, not {seconds!r}"
            raise ConfigError(wrong, path="policy.approve_seconds")
        if not 0 <= seconds <= MOST_SECONDS:  # NaN, too, is outside
            wrong = f"is 0 to {MOST_SECONDS:,} seconds, not {seconds!r}"
            raise ConfigError(wrong, path="policy.approve_seconds")
        # The class is frozen: missing rights are filled in once, here.
        object.__setattr__(self, "rights", {**RIGHTS, **self.rights})
        check_rights(self.rights, self.roles)
        object.__setattr__(self, "budgets", checked_budgets(self.budgets))

    @property
    def version(self) -> str:
        """Digest of every field that could change a ruling. Approvals are bound to it."""
        # Sorted, so that two spellings of one policy are one version. `rights`,
        # `approve_seconds` and `budgets` are left out: they change no ruling on an action.
        message = (
            self.autonomy,
            sorted(self.tiers.items()),
            None if self.allow is None else sorted(self.allow),
            sorted(self.deny),
            sorted(self.roles.items()),
            sorted(self.required.items()),
            self.production,
            sorted(self.production_tiers.items()),
            self.approvers,
            self.own_approval,
        )
        return blake2b(msgspec.json.encode(message), digest_size=6).hexdigest()

    @property
    def bounds_usd(self) -> bool:
        """True if a budget is in dollars, so that prices must be known."""
        return any([budget.usd is not None for budget in self.budgets])

    def rule(
        self, action: Action, facts: Facts, principal: Principal, *, critical: bool = False
    ) -> Ruling:
        """Returns the ruling on one action of a known tool.

        Args:
            action: The proposed call.
            facts: The tool's declaration.
            principal: The requester of the run.
            critical: True if the model flagged a critical exception.
        """
        name = action.tool
        # Denials first, the dial last: no later rule can allow what an earlier one has denied.
        tier = self.tier(name, facts)
        if self._forbids(name):
            rule = f"deny.{name}" if name in self.deny else "allow"
            return Ruling("deny", tier, f"the policy forbids {name!r}", rule)
        role = lacking(principal.roles, self._roles_for(name, facts.role), self.roles)
        if role:
            held = ", ".join(principal.roles) or "none"
            rule = f"required.{name}" if role == self.required.get(name) else "tool.role"
            return Ruling("deny", tier, f"access denied: requires role {role}, has {held}", rule)
        if tier >= Tier.FORBIDDEN:
            why = f"{name!r} is forbidden (tier 4)"
            return Ruling("deny", tier, why, self._tier_rule(name, tier))
        # After the denials: a model that flags a critical exception can only cause a question.
        if critical:
            why = "the agent flagged a critical exception"
            return Ruling("ask", max(tier, Tier.CARD), why, "critical")
        return self._consent(name, tier, facts)

    def asks(self, name: str, facts: Facts) -> bool:
        """Returns whether a call of the tool that may run waits for an approval first.

        False for a tool that the policy forbids: its calls never wait.
        """
        tier = self.tier(name, facts)
        if self._forbids(name) or tier >= Tier.FORBIDDEN:
            return False
        return self._consent(name, tier, facts).verdict == "ask"

    def _forbids(self, name: str) -> bool:
        return name in self.deny or (self.allow is not None and name not in self.allow)

    def _consent(self, name: str, tier: Tier, facts: Facts) -> Ruling:
        """Returns the ruling on a call that nothing denies."""
        if facts.delegated and not self._raises(name):
            return Ruling("allow", tier, rule="tool.agent")  # the child run asks itself
        return self._dial(name, tier, facts)

    def _raises(self, name: str) -> bool:
        return name in self.tiers or (self.production and name in self.production_tiers)

    def tier(self, name: str, facts: Facts) -> Tier:
        """Returns the tool's tier under this policy: never lower than declared."""
        tier = facts.tier
        if name in self.tiers:
            tier = max(tier, self.tiers[name])
        if self.production and name in self.production_tiers:
            tier = max(tier, self.production_tiers[name])
        # Tiers from a file are plain ints; the result is compared and shown as a `Tier`.
        return tier if type(tier) is Tier else Tier(tier)

    def _tier_rule(self, name: str, tier: Tier) -> str:
        """Returns the key that gives the tool its `tier`."""
        if self.production and self.production_tiers.get(name) == tier:
            return f"production_tiers.{name}"
        return f"tiers.{name}" if self.tiers.get(name) == tier else "tool.tier"

    def _dial(self, name: str, tier: Tier, facts: Facts) -> Ruling:
        rule = self._tier_rule(name, tier)
        # Before the dial: "autonomous" does not reach tier 3.
        if tier == Tier.CONFIRM:
            return Ruling("ask", tier, "tier 3 always asks", rule)
        if self.autonomy == "conservative" and facts.effect != "read":
            why = "conservative: everything that writes asks"
            return Ruling("ask", max(tier, Tier.CARD), why, "autonomy")
        if tier == Tier.CARD and self.autonomy != "autonomous":
            is_default = facts.undeclared and facts.effect == "once" and not self._raises(name)
            if is_default:
                return Ruling("ask", tier, UNDECLARED, "tool.effect")
            return Ruling("ask", tier, "tier 2 asks", rule)
        return Ruling("allow", tier, rule="autonomy" if tier == Tier.CARD else rule)

    def needs_exact(self, name: str, facts: Facts, *, is_agent: bool = False) -> bool:
        """Returns whether the tool must not run on guessed parameters.

        Args:
            name: The tool's name.
            facts: The tool's declaration.
            is_agent: True if an agent serves the tool.
        """
        # A child agent counts as `once` unless it only reads: it may call such tools.
        once = facts.effect == "once" or (is_agent and facts.effect != "read")
        return once or self.tier(name, facts) >= Tier.CONFIRM

    def tightened(self, other: "Policy") -> "Policy":
        """Returns the stricter of both policies in each point (D15, D16).

        This policy is the authority (the operator, or the parent run): its role levels apply.

        Args:
            other: The other policy.
        """
        dial = min(_DIAL.index(self.autonomy), _DIAL.index(other.autonomy))
        # None means "all tools", so it is never the tighter one.
        allow = self.allow if other.allow is None else other.allow
        if allow is not None and self.allow is not None:
            allow = allow & self.allow
        # 0 means no bound: it is not the smallest one.
        seconds = [s for s in (self.approve_seconds, other.approve_seconds) if s]
        return replace(
            self,
            autonomy=_DIAL[dial],
            tiers=_higher(self.tiers, other.tiers),
            allow=allow,
            deny=self.deny | other.deny,
            required=self._stricter_roles(other),
            production=self.production or other.production,
            production_tiers=_higher(self.production_tiers, other.production_tiers),
            own_approval=self.own_approval and other.own_approval,
            approvers=self._stricter_approvers(other),
            approve_seconds=min(seconds) if seconds else 0.0,
            rights=stricter(self.rights, other.rights, self.roles),
            budgets=merged(self.budgets, other.budgets),
        )

    def covering(self, aliases: Mapping[str, Iterable[str]]) -> "Policy":
        """Returns the same policy with denials and raised tiers of aliases applied to their tools.

        Args:
            aliases: The aliases by name of each tool. An alias in `allow` permits nothing.
        """
        ruled = {*self.deny, *self.tiers, *self.required, *self.production_tiers}
        covered = self
        for name, alias in [(name, form) for name, own in aliases.items() for form in own]:
            if alias not in ruled:
                continue
            covered = covered.tightened(
                replace(
                    self,
                    deny=frozenset({name} if alias in self.deny else ()),
                    tiers=_of(self.tiers, alias, name),
                    required=_of(self.required, alias, name),
                    production_tiers=_of(self.production_tiers, alias, name),
                )
            )
        return covered

    def _stricter_approvers(self, other: "Policy") -> str:
        """Returns the higher of the two roles that may decide for others."""
        # "" is also the value of a policy that does not define it: then the other's role applies,
        # but never if `self` permits no other deciders.
        if not self.approvers or not other.approvers:
            return self.approvers
        return max(self.approvers, other.approvers, key=self._height)

    def _stricter_roles(self, other: "Policy") -> dict[str, str]:
        required = dict(self.required)
        for tool, role in other.required.items():
            if self._height(role) > self._height(required.get(tool, "")):
                required[tool] = role
        return required

    def _height(self, role: str) -> int:
        """Returns the level of a requirement: every principal reaches "", none an unknown role."""
        return self.roles.get(role, 1 << 30) if role else -1

    def lacks(self, principal: Principal, right: Right) -> str:
        """Returns the reason why the principal's roles do not give the right, or ""."""
        return missing(principal.roles, right, self.rights, self.roles)

    def may_decide(self, decider: Principal, requester: Principal, facts: Facts, tool: str) -> str:
        """Returns the reason why `decider` may not decide on the requester's action, or "".

        Agents never may.
        """
        return refusal(self.deciders(tool, facts.role), decider, requester, self.roles)

    def deciders(self, tool: str, role: str) -> Deciders:
        """Returns the permitted deciders on an action of `tool`, which declares `role`."""
        own = self.rights["approve_own"] if self.own_approval else None
        return Deciders(own, self.approvers, self._roles_for(tool, role))

    def role(self, tool: str, declared: str) -> str:
        """Returns the highest role required for `tool`, which itself `declared` one; "" = none."""
        return max(self._roles_for(tool, declared), key=self._height, default="")

    def _roles_for(self, tool: str, role: str) -> tuple[str, ...]:
        """Returns the roles required for `tool`, by itself (`role`) and by this policy."""
        # Both: as with tiers, the policy's requirement is added to the tool's own.
        return tuple(filter(None, (self.required.get(tool, ""), role)))


_LEVEL: Final = "is a level: a whole number from 0"
_ROLE: Final = "is the name of a role"
_TIER: Final = "is a Tier, such as Tier.CONFIRM, or 1 to 4"


def _is_tier(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in tuple(Tier)


def _check_kinds(policy: Policy) -> None:
    """Raises `ConfigError` if a table, a role or a flag of the policy is of another kind."""
    tables = (
        ("tiers", "{'deploy': Tier.CONFIRM}", _is_tier, _TIER),
        ("production_tiers", "{'deploy': Tier.CONFIRM}", _is_tier, _TIER),
        ("roles", "{'EDITOR': 30}", option_values.is_count, _LEVEL),
        ("required", "{'deploy': 'ADMIN'}", option_values.is_text, _ROLE),
        ("rights", "{'start': 'EDITOR'}", option_values.is_text, _ROLE),
    )
    for name, example, fits, wanted in tables:
        option_values.check_table(getattr(policy, name), f"policy.{name}", example, fits, wanted)
    for name in ("production", "own_approval"):
        option_values.check_flag(getattr(policy, name), f"policy.{name}")
    approvers: Any = policy.approvers
    if not isinstance(approvers, str):
        raise ConfigError(f"{_ROLE}, not {approvers!r}", path="policy.approvers")


def refusal(
    deciders: Deciders, decider: Principal, requester: Principal, levels: Mapping[str, int] = ROLES
) -> str:
    """Returns the reason why `decider` is not among the `deciders` on the action, or ""."""
    if decider.id.startswith("agent:"):
        return "an agent may not approve"
    # By id only: roles grant rights and do not identify a principal.
    if decider.id == requester.id:
        if deciders.own is None:
            return "the requester may not approve his own actions here"
        why = missing(decider.roles, "approve_own", {"approve_own": deciders.own}, levels)
        if why:
            return why
    elif not (deciders.others and may(decider.roles, deciders.others, levels)):
        return f"not yours to decide: the run belongs to {requester.id!r}"
    role = lacking(decider.roles, deciders.roles, levels)
    return f"access denied: requires role {role}" if role else ""


def _of(table: Mapping[str, T], alias: str, name: str) -> dict[str, T]:
    """Returns the table's entry for `alias` as a table for `name`."""
    return {name: table[alias]} if alias in table else {}


def _higher(own: Mapping[str, Tier], other: Mapping[str, Tier]) -> dict[str, Tier]:
    """Returns both tables of tiers; where both name a tool, the higher tier."""
    both = {**own, **other}
    return {name: max(own.get(name, tier), tier) for name, tier in both.items()}


def loosened(project: Policy, operator: Policy) -> Sequence[str]:
    """Returns the points in which a project's policy would loosen the operator's (D16).

    `roles`, `approvers` and `rights` are not compared: a project may not set them at all.
    """
    conflicts: list[str] = []
    if _DIAL.index(project.autonomy) > _DIAL.index(operator.autonomy):
        conflicts.append(f"autonomy: {project.autonomy!r} is looser than {operator.autonomy!r}")
    conflicts += _lowered("tiers", project.tiers, operator.tiers)
    conflicts += _lowered("production_tiers", project.production_tiers, operator.production_tiers)
    if operator.production and not project.production:
        conflicts.append("production: false is looser than true")
    if operator.allow is not None and project.allow is not None:
        extra = sorted(project.allow - operator.allow)
        conflicts += [f"allow: {name!r} is not allowed" for name in extra]
    for tool, role in operator.required.items():
        own_role = project.required.get(tool, role)
        # By the operator's levels: a project with its own levels could rank any role above ADMIN.
        if operator._height(own_role) < operator._height(role):
            conflicts.append(f"required.{tool}: {own_role} is below {role}")
    if project.own_approval and not operator.own_approval:
        conflicts.append("own_approval: true is looser than false")
    # 0 means no bound, which is looser than any.
    if operator.approve_seconds and not 0 < project.approve_seconds <= operator.approve_seconds:
        conflicts.append(f"approve_seconds: at most {operator.approve_seconds:g} is allowed")
    return conflicts + raised(project.budgets, operator.budgets)


def _lowered(key: str, own: Mapping[str, Tier], his: Mapping[str, Tier]) -> list[str]:
    # A tool that the project does not name keeps the operator's tier: no conflict.
    return [
        f"{key}.{tool}: {int(own[tool])} is below {int(tier)}"
        for tool, tier in his.items()
        if own.get(tool, tier) < tier
    ]


def digest(action: Action, definition: str) -> str:
    """Returns the digest that binds an approval: of tool, exact arguments and definition (D10)."""
    encoded = msgspec.json.encode(
        (action.tool, action.parameters, definition), order="deterministic"
    )
    return blake2b(encoded, digest_size=10).hexdigest()
