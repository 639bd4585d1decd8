"""Policy files: rules for tools in YAML, and their combination (`tighten`).

A project's policy may only tighten the operator's (D16). The meaning of a `Policy` is in
`taofold.policy`.
"""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import Field, field_validator, model_validator

from taofold.core.errors import ConfigError
from taofold.core.values import Tier
from taofold.files.checked_yaml import (
    Fault,
    KeyPath,
    Strict,
    YamlDocument,
    check,
    load,
    parse,
    refuse,
)
from taofold.log.formats import yaml_document as yaml
from taofold.policy import Policy
from taofold.policy.budgets import Budget, Period
from taofold.policy.policy import MOST_SECONDS, Autonomy, loosened
from taofold.policy.roles import Right

Level = Annotated[int, Field(ge=1, le=4)]
_OPERATORS: Final = ("roles", "approvers", "rights")
"""Keys about identities, which a project must not set."""


class BudgetEntry(Strict):
    """An entry of `budgets`. See `Budget`."""

    per: str = "all"
    period: Period = "day"
    usd: Annotated[float, Field(ge=0)] | None = None
    tokens: Annotated[int, Field(ge=0)] | None = None
    warn: Annotated[float, Field(ge=0, le=1)] = 0.8
    name: str = ""

    @field_validator("per")
    @classmethod
    def _is_a_scope(cls, per: str) -> str:
        # Besides the rule of all keys, which is only checked if each key is valid.
        try:
            return Budget(per=per, tokens=0, name="scope").per
        except ConfigError as error:
            raise ValueError(str(error).removeprefix(f"{error.path}: ")) from error

    @model_validator(mode="after")
    def _is_a_budget(self) -> Self:
        try:
            self.budget()
        except ConfigError as error:
            raise ValueError(str(error).removeprefix(f"{error.path}: ")) from error
        return self

    def budget(self) -> Budget:
        """Returns the budget."""
        return Budget(**{name: getattr(self, name) for name in type(self).model_fields})


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
    approve_seconds: Annotated[float, Field(ge=0, le=MOST_SECONDS)] = 0.0
    rights: dict[Right, str] = {}
    budgets: list[BudgetEntry] = []

    @field_validator("budgets")
    @classmethod
    def _have_own_names(cls, entries: list[BudgetEntry]) -> list[BudgetEntry]:
        names = Counter(entry.budget().name for entry in entries)
        for name, count in names.items():
            if count > 1:
                raise ValueError(f"{count} budgets are named {name!r}: give each a `name`")
        return entries

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
        if "budgets" in values:
            # Only those that it names change: a file without the operator's keeps them.
            own = {budget.name: budget for budget in base.budgets}
            own |= {entry.budget().name: entry.budget() for entry in self.budgets}
            values["budgets"] = tuple(own.values())
        return replace(base, **values)


def read_policy(path: Path) -> tuple[PolicyFile | None, list[Fault]]:
    """Returns the policy file at `path`, or all of its faults."""
    document, faults = load(path)
    return (None, faults) if document is None else check(document, PolicyFile)


def parse_policy(text: str, source: str) -> Policy:
    """Returns the policy that `text`, YAML or JSON, describes. It opens no file.

    Raises:
        ExceptionGroup: All faults of the text.
        ConfigError: The values do not fit together.
    """
    document, faults = parse(text, source)
    keys = None
    if document is not None:
        keys, faults = check(document, PolicyFile)
    if keys is None:
        refuse(faults, f"{source} cannot be used")
    return keys.over(Policy())


def policy_text(policy: Policy) -> str:
    """Returns the policy as the text of a policy file, without default values."""
    usual = Policy()
    values: dict[str, Any] = {"autonomy": policy.autonomy}
    for name in PolicyFile.model_fields:
        value = getattr(policy, name)
        if value == getattr(usual, name):
            continue
        if name == "budgets":
            values[name] = [_entry(budget) for budget in policy.budgets]
        elif name in ("allow", "deny"):
            values[name] = sorted(value)
        elif name in ("tiers", "production_tiers"):
            values[name] = {tool: int(tier) for tool, tier in value.items()}
        elif name in ("roles", "required", "rights"):
            values[name] = dict(value)
        else:
            values[name] = value
    return yaml.dump(values)


def _entry(budget: Budget) -> dict[str, Any]:
    usual = BudgetEntry(tokens=0)
    values = {name: getattr(budget, name) for name in BudgetEntry.model_fields}
    return {
        name: value
        for name, value in values.items()
        if value is not None and (name == "tokens" or value != getattr(usual, name))
    }


_NOTES: ContextVar[list[Fault] | None] = ContextVar("notes", default=None)


@contextmanager
def tested_policy() -> Generator[list[Fault]]:
    """Yields the keys of projects that the operator's policy under test would refuse.

    Only for agents that are made to test a policy: elsewhere such a key is a fault.
    """
    notes: list[Fault] = []
    token = _NOTES.set(notes)
    try:
        yield notes
    finally:
        _NOTES.reset(token)


def tighten(
    operator: Policy, keys: PolicyFile, document: YamlDocument, key_path: KeyPath = ()
) -> tuple[Policy, list[Fault]]:
    """Returns both policies combined. A project's key that would loosen is a fault.

    Within `tested_policy` it is only noted, and the stricter value applies.
    """
    # Compared as a whole policy: keys that the project omits are the operator's.
    project = keys.over(operator)
    faults: list[Fault] = []
    foreign = [name for name in _OPERATORS if name in keys.model_fields_set]
    reasons = [f"{name}: only the operator's policy says this" for name in foreign]
    looser = loosened(project, operator)
    notes = _NOTES.get()
    if notes is not None:
        for reason in looser:
            path, _, why = reason.partition(": ")
            notes.append(document.fault((*key_path, *path.split(".", 1)), why))
    else:
        reasons += looser
    for reason in reasons:
        path, _, why = reason.partition(": ")
        where = (*key_path, *path.split(".", 1))
        hint = "a project may only tighten; loosen in your own policy file, or with a flag"
        faults.append(document.fault(where, f"looser than the operator's policy ({why})", hint))
    # Stricter in each point, also after a fault, so nothing is ever loosened.
    return operator.tightened(project), faults
