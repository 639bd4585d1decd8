"""The rules of a policy that decide about calls, and the calls that meet them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from taofold.policy import Policy

_RECORDED = ("start", "approve_own")
"""Rights whose use is in the log of a run."""


@dataclass(slots=True)
class RuleUse:
    """A rule of the policy, and how often stored calls and cases met it.

    Args:
        rule: Its key in the policy file, such as `deny.rm`.
        met: Stored calls that it concerns.
        decided: Stored calls whose verdict it gave.
        cases: Written cases that it concerns.
    """

    rule: str
    met: int = 0
    decided: int = 0
    cases: int = 0


def rules_of(policy: Policy) -> list[RuleUse]:
    """Returns the rules of `policy` that decide about calls of tools, in the order of its keys."""
    tables: dict[str, Iterable[str]] = {
        "tiers": policy.tiers,
        "allow": sorted(policy.allow or ()),
        "deny": sorted(policy.deny),
        "required": policy.required,
        "production_tiers": policy.production_tiers if policy.production else (),
    }
    rules = [f"{key}.{tool}" for key, tools in tables.items() for tool in tools]
    whole = ("autonomy",) if policy.allow is None else ("autonomy", "allow")
    return [RuleUse(rule) for rule in (*whole, *rules)]


def untested(policy: Policy) -> tuple[str, ...]:
    """Returns the keys that `policy` sets and whose use is not in the log of a run."""
    usual, rights = Policy().rights, policy.rights.items()
    return tuple(
        [f"rights.{name}" for name, role in rights if role != usual[name] and name not in _RECORDED]
    )


class RuleCoverage:
    """Counts the calls that meet the rules of one policy."""

    def __init__(self, rules: Sequence[RuleUse]) -> None:
        self._by_tool: dict[str, list[RuleUse]] = {}
        for each in rules:
            _, _, tool = each.rule.partition(".")
            self._by_tool.setdefault(tool, []).append(each)

    def count(
        self, tool: str, aliases: Iterable[str], rule: str, times: int = 1, *, case: bool = False
    ) -> None:
        """Counts calls of `tool` that `rule` decided.

        Args:
            tool: The tool's name.
            aliases: Its further names, under which rules apply.
            rule: `Ruling.rule`.
            times: The number of calls.
            case: True for a written case.
        """
        names = (tool, *aliases)
        section, _, _ = rule.partition(".")
        # A tool that the list of allowed ones lacks is denied by the list as a whole.
        decided = {rule, *[f"{section}.{name}" for name in names]}
        for use in [use for name in ("", *names) for use in self._by_tool.get(name, ())]:
            if "." not in use.rule and use.rule != rule:
                continue
            if case:
                use.cases += times
                continue
            use.met += times
            if use.rule in decided:
                use.decided += times
