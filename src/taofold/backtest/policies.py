"""Judges the calls of stored runs under another policy, with the code that rules on live calls.

A backtest is one pass over the log. It holds counts by tool, verdict and rule, and a few examples.
A verdict is derived from the call alone. The log does not hold the consequences of another verdict;
`PolicyBacktest.limits` lists these gaps.
"""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from taofold.backtest import spending
from taofold.backtest.answers import answer_change
from taofold.backtest.coverage import RuleCoverage, RuleUse, rules_of, untested
from taofold.backtest.findings import EXAMPLES, FREED, RuleFindings
from taofold.backtest.stored_agents import StoredAgents, StoredDriver
from taofold.backtest.stored_calls import StoredCall, StoredCallReader, records_of
from taofold.core import events as e
from taofold.core.errors import ConfigError
from taofold.core.text import times
from taofold.core.values import Action, Principal, Tier
from taofold.log.log import Log, RunRow
from taofold.policy import Facts, Policy, Ruling
from taofold.runtime.tool_calls import facts
from taofold.runtime.uncertain_calls import AGAIN, BEGUN
from taofold.tools import Tool

NOT_STARTED: Final = "runs not started on a server"
_MOST_CHANGES: Final = 10_000
"""Changes that are counted apart. A log holds far fewer, unless models invented its tools."""
_LOWEST: Final = Facts(Tier.AUTO, "read")

Verdict = Literal["allow", "ask", "deny"]
_STRICTNESS: Final[dict[Verdict, int]] = {"allow": 0, "ask": 1, "deny": 2}


class ChangeKey(NamedTuple):
    """The common facts of the calls of one change."""

    tool: str
    recorded: Verdict
    now: Verdict
    rule: str


@dataclass(slots=True)
class VerdictChange:
    """Stored calls of one tool whose verdict changes in the same way, by the same rule.

    Args:
        calls: Number of calls.
        runs: Number of runs that have such calls.
        answers: Answers of approvers to the recorded questions: allow, deny, expired, open.
        examples: Some of the calls, as `RUN:SEQ` of their proposals.
        reason: The reason that the newest run would record.
    """

    calls: int = 0
    runs: int = 0
    answers: Counter[str] = field(default_factory=Counter[str])
    examples: list[str] = field(default_factory=list[str])
    reason: str = ""


@dataclass(slots=True)
class PolicyBacktest:
    """The result of a backtest.

    Args:
        rules: The rules of the policy with the calls that meet them.
        runs: Number of runs that were read.
        calls: Number of calls that were judged.
        unchanged: Number of calls with the recorded verdict, by verdict.
        changes: The calls with another verdict.
        refused: Calls that the policy was never asked about, by reason. They would still be
            refused.
        unjudged: Calls that could not be judged, by reason.
        followers: Calls after the first changed call of their run.
        findings: Answers, starts and model calls that the policy would have refused.
        halted: Runs that a budget stopped then, and that has other amounts now.
        untested: Keys that the policy sets and whose use is not in the log of a run.
    """

    rules: list[RuleUse]
    runs: int = 0
    calls: int = 0
    unchanged: Counter[str] = field(default_factory=Counter[str])
    changes: dict[ChangeKey, VerdictChange] = field(default_factory=dict[ChangeKey, VerdictChange])
    refused: Counter[str] = field(default_factory=Counter[str])
    unjudged: Counter[str] = field(default_factory=Counter[str])
    followers: int = 0
    findings: RuleFindings = field(default_factory=RuleFindings)
    halted: int = 0
    untested: tuple[str, ...] = ()

    @property
    def loosened(self) -> int:
        """Number of calls, answers and starts that the policy would treat less strictly."""
        calls = sum([each.calls for key, each in self.changes.items() if is_looser(key)])
        return calls + sum([f.count for key, f in self.findings.items() if key.is_looser])

    @property
    def tightened(self) -> int:
        """Number of calls, answers and starts that the policy would treat more strictly."""
        calls = sum([each.calls for key, each in self.changes.items() if not is_looser(key)])
        return calls + sum([f.count for key, f in self.findings.items() if not key.is_looser])

    @property
    def uncovered(self) -> list[str]:
        """Rules that no stored call meets, and no case either."""
        return [use.rule for use in self.rules if "." in use.rule and not use.met and not use.cases]

    @property
    def limits(self) -> list[str]:
        """The gaps of this result, one sentence each."""
        without = sum([c.calls for key, c in self.changes.items() if key.recorded == "deny"])
        asked = sum([c.calls for key, c in self.changes.items() if key.now == "ask"])
        states = self.refused.total()
        sentences = [
            (without, "a denied call has no result, so its consequences are unknown"),
            (asked, "no approver was asked, so the answer is unknown"),
            (self.followers, "made after a changed call of their run, perhaps because of it"),
            (states, "refused before the policy, from the state of their run, and still refused"),
        ]
        found = [f"{times(count, 'call')}: {text}" for count, text in sentences if count]
        text = "stopped by a budget then, so its further consumption is unknown"
        return [*found, f"{times(self.halted, 'run')}: {text}"] if self.halted else found

    def as_json(self) -> dict[str, Any]:
        """Returns the result as JSON."""
        return {
            "runs": self.runs,
            "calls": self.calls,
            "loosened": self.loosened,
            "tightened": self.tightened,
            "unchanged": dict(self.unchanged),
            "changes": [
                {
                    **key._asdict(),
                    "direction": "loosened" if is_looser(key) else "tightened",
                    "calls": change.calls,
                    "runs": change.runs,
                    "answers": dict(change.answers),
                    "examples": change.examples,
                    "reason": change.reason,
                }
                for key, change in self.ordered()
            ],
            "findings": self.findings.as_json(),
            "rules": [
                {"rule": use.rule, "met": use.met, "decided": use.decided, "cases": use.cases}
                for use in self.rules
            ],
            "uncovered": self.uncovered,
            "refused": dict(self.refused),
            "unjudged": dict(self.unjudged),
            "limits": self.limits,
            "untested": list(self.untested),
        }

    def ordered(self) -> list[tuple[ChangeKey, VerdictChange]]:
        """Returns the changes, loosened ones first, then by the number of calls."""
        return sorted(
            self.changes.items(), key=lambda item: (not is_looser(item[0]), -item[1].calls, item[0])
        )


def is_looser(key: ChangeKey) -> bool:
    """Returns whether the new verdict is less strict than the recorded one."""
    return _STRICTNESS[key.now] < _STRICTNESS[key.recorded]


def ruling_on(
    policy: Policy,
    action: Action,
    own: Facts,
    principal: Principal,
    *,
    is_agent: bool = False,
    critical: bool = False,
) -> Ruling:
    """Returns the ruling on one call of a known tool, whose parameters may have been guessed.

    Args:
        policy: The policy.
        action: The call.
        own: The declaration of its tool.
        principal: The requester.
        is_agent: True if an agent serves the tool.
        critical: True if the model flagged a critical exception.
    """
    if action.guessed and policy.needs_exact(action.tool, own, is_agent=is_agent):
        tier = policy.tier(action.tool, own)
        return Ruling("deny", tier, "its parameters were guessed", "guessed")
    return policy.rule(action, own, principal, critical=critical)


async def backtest(
    log: Log,
    rows: AsyncIterator[RunRow],
    agents: StoredAgents,
    policy: Policy,
    rules: list[RuleUse] | None = None,
    *,
    is_operators: bool = True,
) -> PolicyBacktest:
    """Judges every call of the runs `rows` again.

    Args:
        log: The log that holds the runs. It is only read.
        rows: The runs.
        agents: Makes their agents under `policy`.
        policy: The policy under test, without the rules of the agents.
        rules: Its rules, whose uses are counted. Default: all.
        is_operators: True: it takes the place of the operator's policy, whose rights apply when
            runs are started.

    Returns:
        The counts of calls by their verdicts.
    """
    total = PolicyBacktest(rules_of(policy) if rules is None else rules, untested=untested(policy))
    coverage, spent = RuleCoverage(total.rules), spending.StoredSpending()
    async for row in rows:
        tally = await _tally(log, row.run, agents, policy, is_operators=is_operators)
        if tally is not None:
            _add(total, coverage, tally)
            spent.add(tally.spent)
    if not is_operators and policy.rights["start"] != Policy().rights["start"]:
        total.untested += ("rights.start",)
    if spent.truncated:
        total.untested += ("budgets (too many model calls)",)
    total.findings.add(await spent.refusals(log))
    return total


class _Met(NamedTuple):
    tool: str
    aliases: tuple[str, ...]
    rule: str


class _Tally:
    """The counts of one run. They are dropped at a fork: its first records are copies."""

    def __init__(self) -> None:
        self.reader = StoredCallReader()
        self.met = Counter[_Met]()
        self.unruled = Counter[str]()
        """Calls without a ruling, by tool. They meet the rules for it all the same."""
        self.unchanged = Counter[str]()
        self.refused = Counter[str]()
        self.unjudged = Counter[str]()
        self.changes: dict[ChangeKey, VerdictChange] = {}
        self.followers = 0
        self.findings = RuleFindings()
        self.halted = 0
        self.spent: list[spending.Spent] = []


async def _tally(
    log: Log, run: str, agents: StoredAgents, policy: Policy, *, is_operators: bool
) -> "_Tally | None":
    tally, judge, spender = _Tally(), None, None
    judges: list[tuple[int, CallJudge]] = []
    """Those at the start of the run and after each hand-off, with the numbers of the records."""
    async for record in records_of(log, run):
        event = record.event
        if isinstance(event, e.RunStarted):
            judge = await _judge(event, agents, policy)
            judges = [(record.seq, judge)]
            spender = (
                None if event.imported is not None else spending.Spender(run, event, record.at)
            )
            if is_operators:
                judge.start(tally, run, event, policy)
        elif isinstance(event, e.HandedOff) and judge is not None:
            judge = judge.handed_to(event.agent)
            judges.append((record.seq, judge))
        elif isinstance(event, e.Rewound):
            judges = [each for each in judges if each[0] <= event.to]
            judge = judges[-1][1] if judges else judge
        elif isinstance(event, e.Forked):
            tally = _Tally()
        if judge is None:
            continue
        if spender is not None:
            judge.spend(tally, record, spender)
        for call in tally.reader.feed(record):
            judge.count(tally, run, call)
    if judge is None:
        return None
    for call in tally.reader.rest():
        judge.count(tally, run, call)
    return tally


async def _judge(started: e.RunStarted, agents: StoredAgents, policy: Policy) -> "CallJudge":
    try:
        return CallJudge(await agents.of(started), started.principal)
    except ConfigError as error:
        return CallJudge(None, started.principal, policy, str(error))


class CallJudge:
    """Judges calls as the runtime does.

    Args:
        driver: The agent and the policy; None if the agent is unknown.
        principal: The requester of the run.
        policy: The policy of a run without an agent: only its denials are certain.
        why: The reason why there is no agent.
    """

    def __init__(
        self,
        driver: StoredDriver | None,
        principal: Principal,
        policy: Policy | None = None,
        why: str = "",
    ) -> None:
        self._first = driver
        """The driver at the start of the run: each hand-off is judged from it."""
        self._tools: dict[str, Tool] = {} if driver is None else dict(driver.agent.toolset)
        self._policy = driver.policy if driver is not None else policy or Policy()
        self._principal, self._why = principal, why
        self._known = driver is not None

    def handed_to(self, agent: str) -> "CallJudge":
        """Returns the judge of the calls after a hand-off to `agent`."""
        if self._first is None:
            return self
        try:
            judge = CallJudge(self._first.handed_to(agent), self._principal)
        except ConfigError as error:
            judge = CallJudge(None, self._principal, self._policy, str(error))
        judge._first = self._first
        return judge

    def rule(self, call: StoredCall) -> Ruling | str:
        """Returns the ruling on the call, or the reason why it cannot be derived."""
        tool, policy = self._tools.get(call.action.tool), self._policy
        if tool is None:
            # No declaration makes a denied call run.
            ruling = policy.rule(call.action, _LOWEST, self._principal)
            if ruling.verdict == "deny":
                return ruling
            return "the agent has no such tool now" if self._known else self._why
        ruling = ruling_on(
            policy,
            call.action,
            facts(tool),
            self._principal,
            is_agent=tool.agent is not None,
            critical=call.critical,
        )
        return _doubted(ruling, call, tool)

    def start(self, tally: _Tally, run: str, started: e.RunStarted, operator: Policy) -> None:
        """Counts a root run that the requester's roles would not start on a server."""
        why = "" if started.parent else operator.lacks(self._principal, "start")
        if why and started.imported is None:
            tally.findings.count("rights.start", NOT_STARTED, f"{run}:0", why)

    def spend(self, tally: _Tally, record: e.Record, spender: spending.Spender) -> None:
        """Counts what a record consumed, and a stop by a budget."""
        budgets, event = self._policy.budgets, record.event
        spent = spending.spent_of(record, spender, budgets)
        if spent is not None:
            tally.spent.append(spent)
        if not isinstance(event, e.LimitHit) or not event.budget:
            return
        if self._known and event.budget not in [budget.name for budget in budgets]:
            place = f"{spender.run}:{record.seq}"
            tally.findings.count(f"budgets.{event.budget}", FREED, place)
        else:
            tally.halted += 1

    def count(self, tally: _Tally, run: str, call: StoredCall) -> None:
        """Counts the call."""
        if call.is_local:
            return
        recorded = recorded_verdict(call)
        if isinstance(recorded, _Refusal):
            # Only guessed parameters are refused because of the policy.
            if recorded.kind != "guessed" or not self._runs_on_guess(call):
                tally.refused[recorded.kind] += 1
                return
            recorded = "deny"
        if recorded is None:
            tally.unjudged["their run ended before the policy ruled on them"] += 1
            return
        ruling = self.rule(call)
        if isinstance(ruling, str):
            tally.unjudged[ruling] += 1
            tally.unruled[call.action.tool] += 1
            return
        tool = self._tools.get(call.action.tool)
        tally.met[_Met(call.action.tool, tool.aliases if tool else (), ruling.rule)] += 1
        if tally.changes:
            tally.followers += 1
        now = plain_verdict(ruling.verdict)
        if recorded == now == "ask":
            self._answer(tally, run, call, "" if tool is None else tool.role)
        if now == recorded:
            tally.unchanged[now] += 1
            return
        key = ChangeKey(call.action.tool, recorded, now, ruling.rule)
        change = tally.changes.setdefault(key, VerdictChange(runs=1, reason=ruling.reason))
        change.calls += 1
        if recorded == "ask":
            answer = "open" if call.resolved is None else call.resolved.verdict
            change.answers[answer] += 1
        if len(change.examples) < EXAMPLES:
            change.examples.append(f"{run}:{call.seq}")

    def _answer(self, tally: _Tally, run: str, call: StoredCall, role: str) -> None:
        change = answer_change(call, self._policy, self._principal, role)
        if change is None:
            return
        rule, effect, why = change
        tally.findings.count(rule, effect, f"{run}:{call.seq}", why)

    def _runs_on_guess(self, call: StoredCall) -> bool:
        tool = self._tools.get(call.action.tool)
        if tool is None:
            return False
        is_agent = tool.agent is not None
        return not self._policy.needs_exact(tool.name, facts(tool), is_agent=is_agent)


def _doubted(ruling: Ruling, call: StoredCall, tool: Tool) -> Ruling:
    """Returns `ruling`, or the question about a call that may have happened before.

    It comes from the state of the run, as recorded.
    """
    reason = "" if call.decided is None else call.decided.reason
    if ruling.verdict != "allow" or tool.effect == "read" or tool.agent is not None:
        return ruling
    if reason == BEGUN or (reason == AGAIN and tool.effect == "once"):
        return Ruling("ask", max(ruling.tier, Tier.CONFIRM), reason, "repetition")
    return ruling


class _Refusal(NamedTuple):
    kind: str


def recorded_verdict(call: StoredCall) -> "Verdict | _Refusal | None":
    """Returns the recorded verdict, or a refusal before the policy, or None if there is neither."""
    if call.decided is not None:
        return plain_verdict(call.decided.verdict)
    if call.started:  # an imported run records no decisions
        return "allow"
    if call.observation is None:
        return None
    return _Refusal("hook" if call.hooked else call.observation.refused)


def plain_verdict(verdict: str) -> Verdict:
    """Returns the verdict of the policy that a recorded or new verdict means."""
    return "deny" if verdict == "deny" else "ask" if verdict == "ask" else "allow"


def _add(total: PolicyBacktest, coverage: RuleCoverage, tally: _Tally) -> None:
    total.runs += 1
    total.calls += tally.met.total()
    total.unchanged += tally.unchanged
    total.refused += tally.refused
    total.unjudged += tally.unjudged
    total.followers += tally.followers
    total.findings.add(tally.findings)
    total.halted += tally.halted
    for met, count in tally.met.items():
        coverage.count(*met, count)
    for tool, count in tally.unruled.items():
        coverage.count(tool, (), "", count)
    for key, change in tally.changes.items():
        if key not in total.changes and len(total.changes) >= _MOST_CHANGES:
            key = key._replace(tool="(others)")
        kept = total.changes.setdefault(key, VerdictChange(reason=change.reason))
        kept.calls += change.calls
        kept.runs += change.runs
        kept.answers += change.answers
        kept.examples += change.examples[: EXAMPLES - len(kept.examples)]
