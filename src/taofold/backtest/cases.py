"""Unit tests of a policy: calls in a YAML file, each with the expected verdict and rule.

`read_cases` reads the file, `check_cases` asks the policy. A tool is that of an agent, or is
declared in the file.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from taofold.backtest.coverage import RuleCoverage, RuleUse
from taofold.backtest.policies import plain_verdict, ruling_on
from taofold.core.text import near
from taofold.core.values import Action, Principal, Sideeffect, Tier
from taofold.files.checked_yaml import Fault, Strict, YamlDocument, check, load
from taofold.policy import Facts, Policy, Ruling
from taofold.runtime.tool_calls import facts
from taofold.tools import BadArguments, Tool

CaseVerdictWord = Literal["allow", "ask", "deny", "invalid"]


class CasePrincipal(Strict):
    """The requester of a case."""

    id: str = "local"
    roles: list[str] = list(Principal().roles)


class ToolEntry(Strict):
    """A tool that no agent declares. The defaults are those of `@tool`."""

    effect: Sideeffect = "once"
    tier: Annotated[int, Field(ge=1, le=4)] | None = None
    role: str = ""
    delegated: bool = False

    def facts(self) -> Facts:
        """Returns the declaration as the policy reads it."""
        declared = "tier" in self.model_fields_set or "effect" in self.model_fields_set
        tier = self.tier if self.tier is not None else (1 if self.effect == "read" else 2)
        return Facts(
            Tier(tier),
            self.effect,
            self.role,
            delegated=self.delegated,
            undeclared=not declared,
        )


class PolicyCase(Strict):
    """One call and its expected verdict. `invalid`: the tool's schema refuses the arguments."""

    tool: str
    expect: CaseVerdictWord
    name: str = ""
    arguments: dict[str, Any] = {}
    principal: CasePrincipal | None = None
    critical: bool = False
    guessed: bool = False
    rule: str = ""

    @property
    def label(self) -> str:
        """The name, or what the case expects."""
        return self.name or f"{self.tool}: {self.expect}"


class PolicyCases(Strict):
    """The keys of a file of cases."""

    cases: Annotated[list[PolicyCase], Field(min_length=1)]
    principal: CasePrincipal = CasePrincipal()
    tools: dict[str, ToolEntry] = {}


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """The verdict on one case.

    Args:
        case: The case.
        line: Its line in the file.
        verdict: The policy's verdict.
        rule: The rule that gave it.
        reason: The reason that a run would record.
    """

    case: PolicyCase
    line: int
    verdict: CaseVerdictWord
    rule: str
    reason: str

    @property
    def passed(self) -> bool:
        """True if verdict and rule are as expected."""
        case = self.case
        return self.verdict == case.expect and case.rule in ("", self.rule)

    def as_json(self) -> dict[str, Any]:
        """Returns the verdict as JSON."""
        case = self.case
        return {
            "name": case.label,
            "line": self.line,
            "passed": self.passed,
            "tool": case.tool,
            "expected": case.expect,
            "expected_rule": case.rule,
            "verdict": self.verdict,
            "rule": self.rule,
            "reason": self.reason,
        }


_LOCAL: Final[Mapping[str, Tool]] = {}


def read_cases(
    path: Path, tools: Mapping[str, Tool] = _LOCAL
) -> tuple[PolicyCases | None, list[Fault], YamlDocument | None]:
    """Returns the cases at `path` with their document, or all faults of the file.

    Args:
        path: The file.
        tools: The tools of the agent, besides those that the file declares.
    """
    document, faults = load(path)
    if document is None:
        return None, faults, None
    cases, faults = check(document, PolicyCases)
    if cases is None:
        return None, faults, document
    names = [*tools, *cases.tools]
    for index, case in enumerate(cases.cases):
        if case.tool not in names:
            hint = near(case.tool, names) if names else ""
            declare = f"declare it: tools: {{{case.tool}: {{effect: once, tier: 2}}}}, or --agent"
            why = f"there is no tool {case.tool!r}"
            faults.append(
                document.fault(("cases", index, "tool"), why, f"{hint}; {declare}".strip("; "))
            )
    return (None if faults else cases), faults, document


def check_cases(
    cases: PolicyCases,
    document: YamlDocument,
    policy: Policy,
    tools: Mapping[str, Tool] = _LOCAL,
    uses: Iterable[RuleUse] = (),
) -> list[CaseVerdict]:
    """Returns the policy's verdict on each case.

    Args:
        cases: The cases.
        document: Their file, for the lines.
        policy: The policy, with the rules of the agent if there is one.
        tools: The tools of the agent.
        uses: Rules whose cases are counted.
    """
    coverage = RuleCoverage(tuple(uses))
    verdicts: list[CaseVerdict] = []
    for index, case in enumerate(cases.cases):
        tool = None if case.tool in cases.tools else tools.get(case.tool)
        declared = cases.tools[case.tool].facts() if tool is None else facts(tool)
        verdict, ruling = _verdict(case, cases.principal, policy, tool, declared)
        line = document.fault(("cases", index), "").line
        verdicts.append(CaseVerdict(case, line, verdict, ruling.rule, ruling.reason))
        coverage.count(case.tool, tool.aliases if tool else (), ruling.rule, case=True)
    return verdicts


def _verdict(
    case: PolicyCase,
    usual: CasePrincipal,
    policy: Policy,
    tool: Tool | None,
    declared: Facts,
) -> tuple[CaseVerdictWord, Ruling]:
    tier = policy.tier(case.tool, declared)
    action = Action(case.tool, dict(case.arguments), guessed=case.guessed)
    if tool is not None:
        try:
            repairs = tool.bind(case.arguments).repairs
        except BadArguments as error:
            return "invalid", Ruling("deny", tier, str(error), "tool.schema")
        if repairs:
            action = tool.fitted(action)
    who = case.principal or usual
    ruling = ruling_on(
        policy,
        action,
        declared,
        Principal(who.id, tuple(who.roles)),
        is_agent=tool is not None and tool.agent is not None,
        critical=case.critical,
    )
    return plain_verdict(ruling.verdict), ruling
