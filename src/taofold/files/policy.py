"""Policy files: rules for tools in YAML, and their combination (`tighten`).

A project's policy may only tighten the operator's (D16). The meaning of a `Policy` is in
`taofold.policy`.
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from taofold.core.values import Tier
from taofold.files.checked_yaml import Fault, KeyPath, Strict, YamlDocument, check, load
from taofold.policy import Policy
from taofold.policy.policy import Autonomy, loosened
from taofold.policy.roles import Right

Level = Annotated[int, Field(ge=1, le=4)]
_OPERATORS: Final = ("roles", "approvers", "rights")
"""Keys about identities, which a project must not set."""


class PolicyFile(Strict):
    """The keys of a policy file. See `Policy`."""

    autonomy: Autonomy = "balanced"
    tiers: dict[str, Level] = {}
    allow: list[str] | None = None
    deny: list[str] = []
    roles: dict[str, Annotated[int, Field(ge=0)]] = {}
    required: dict[str, str] = {}
    production: bool = False
    production_tiers: dict[str, Level] = {}
    approvers: str = ""
    own_approval: bool = True
    approve_seconds: Annotated[float, Field(ge=0)] = 0.0
    rights: dict[Right, str] = {}

    def over(self, base: Policy) -> Policy:
        """Returns `base` changed by this file's keys."""
        # Only written keys: a default must not override the operator's value.
        values: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        for name in ("tiers", "production_tiers"):
            if name in values:
                values[name] = {tool: Tier(level) for tool, level in values[name].items()}
        for name in ("allow", "deny"):
            if values.get(name) is not None:
                values[name] = frozenset(values[name])
        return replace(base, **values)


def read_policy(path: Path, source: str = "") -> tuple[PolicyFile | None, list[Fault]]:
    """Returns the policy file at `path`, or all of its faults."""
    document, faults = load(path, source)
    return (None, faults) if document is None else check(document, PolicyFile)


def tighten(
    operator: Policy, keys: PolicyFile, document: YamlDocument, key_path: KeyPath = ()
) -> tuple[Policy, list[Fault]]:
    """Returns both policies combined. A project's key that would loosen is a fault."""
    # Compared as a whole policy: keys that the project omits are the operator's.
    project = keys.over(operator)
    faults: list[Fault] = []
    foreign = [name for name in _OPERATORS if name in keys.model_fields_set]
    reasons = [f"{name}: only the operator's policy says this" for name in foreign]
    for reason in [*reasons, *loosened(project, operator)]:
        path, _, why = reason.partition(": ")
        where = (*key_path, *path.split(".", 1))
        hint = "a project may only tighten; loosen in your own policy file, or with a flag"
        faults.append(document.fault(where, f"looser than the operator's policy ({why})", hint))
    # Stricter in each point, also after a fault, so nothing is ever loosened.
    return operator.tightened(project), faults
