"""Backtests: what a new policy or a new release would have done in stored runs.

`policies` judges the stored calls under another policy, `cases` tests a policy with written cases,
and `recheck` replays stored runs and groups their first differences by cause. `trials` continues
differing runs on another model and compares them. Replays and backtests only read the log: they
call no model and no tool. Commands are in `taofold.cli`.
"""

from taofold.backtest.cases import CaseVerdict, PolicyCases, check_cases, read_cases
from taofold.backtest.coverage import RuleUse, rules_of
from taofold.backtest.policies import PolicyBacktest, VerdictChange, backtest
from taofold.backtest.stored_agents import StoredAgents, StoredDriver

__all__ = [
    "CaseVerdict",
    "PolicyBacktest",
    "PolicyCases",
    "RuleUse",
    "StoredAgents",
    "StoredDriver",
    "VerdictChange",
    "backtest",
    "check_cases",
    "read_cases",
    "rules_of",
]


def __dir__() -> list[str]:
    return sorted(__all__)
