"""Policy files: the operator's, and a project's, which may only tighten it (D16)."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from taofold.core.values import Tier
from taofold.policy import Policy
from taofold.policy.policy import Autonomy, Right, loosened
from taofold.spec.document import Document, Place, Strict, check, load
from taofold.spec.faults import Fault

Level = Annotated[int, Field(ge=1, le=4)]

_OPERATORS: Final = ("roles", "approvers", "rights")
"""Keys that say who is who: never a project's business."""


class PolicyFile(Strict):
    """The keys of a policy file; see `Policy`."""

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
        """`base` with what this file says, and nothing else, changed."""
        given: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        for name in ("tiers", "production_tiers"):
            if name in given:
                given[name] = {tool: Tier(level) for tool, level in given[name].items()}
        for name in ("allow", "deny"):
            if given.get(name) is not None:
                given[name] = frozenset(given[name])
        return replace(base, **given)


@dataclass(frozen=True, slots=True)
class _Change:
    project: Policy
    operator: Policy
    given: frozenset[str]

    def said(self) -> list[str]:
        """Every point in which the project would loosen the operator's policy."""
        mine, his = self.project, self.operator
        said = [f"{name}: only the operator's policy says this" for name in self._foreign()]
        said += loosened(mine, his)
        if mine.own_approval and not his.own_approval:
            said.append("own_approval: true is looser than false")
        if his.production and not mine.production:
            said.append("production: false is looser than true")
        if his.approve_seconds and not 0 < mine.approve_seconds <= his.approve_seconds:
            said.append(f"approve_seconds: at most {his.approve_seconds:g} is allowed")
        for tool, tier in his.production_tiers.items():
            if mine.production_tiers.get(tool, tier) < tier:
                said.append(f"production_tiers.{tool}: below {int(tier)}")
        return said

    def _foreign(self) -> list[str]:
        return [name for name in _OPERATORS if name in self.given]


def read_policy(path: Path, source: str = "") -> tuple[PolicyFile | None, list[Fault]]:
    """The policy file at `path`, or everything wrong with it."""
    document, faults = load(path, source)
    return (None, faults) if document is None else check(document, PolicyFile)


def tighten(
    operator: Policy, keys: PolicyFile, document: Document, place: Place = ()
) -> tuple[Policy, list[Fault]]:
    """Both policies at once; a project's key that would loosen is a fault."""
    project = keys.over(operator)
    faults: list[Fault] = []
    for said in _Change(project, operator, frozenset(keys.model_fields_set)).said():
        path, _, why = said.partition(": ")
        where = (*place, *path.split(".", 1))
        hint = "a project may only tighten; loosen in your own policy file, or with a flag"
        faults.append(document.fault(where, f"looser than the operator's policy ({why})", hint))
    return operator.tightened(project), faults
