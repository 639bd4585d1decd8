"""`taofold budget`: the spending of many runs, and a lift by an administrator."""

import json
import os
from pathlib import Path

from tests.terminal import Taofold

SPENDER = """
from taofold import Agent
from taofold.core.values import Reply, Usage
from taofold.testing import FunctionModel

agent = Agent(FunctionModel(lambda _: Reply("Hello.", usage=Usage(900, 100))), strategy="direct")
"""


def operator(text: str) -> None:
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "taofold"
    config.mkdir(parents=True, exist_ok=True)
    (config / "policy.yaml").write_text(text)


def test_a_budget_ends_runs_is_listed_and_lifted_once(taofold: Taofold, project: Path) -> None:
    (project / "spender.py").write_text(SPENDER)
    operator(
        "budgets: [{per: principal, tokens: 900}, {name: house, period: month, tokens: 90000}]"
    )
    assert taofold("run", "spender.py:agent", "go").code == 0
    refused = taofold("run", "spender.py:agent", "go", "--json")
    assert json.loads(refused.out)["stop_reason"] == "max_budget"
    listed = {row["name"]: row for row in json.loads(taofold("budget", "list", "--json").out)}
    row = listed["principal-day"]
    assert (row["scope"], row["spent_tokens"], row["tokens"]) == ("principal:local", 1000, 900)
    assert (listed["house"]["scope"], row["lifted"]) == ("all", None)
    for wrong, why in ((("x",), "no budget 'x'"), (("principal-day",), "principal:NAME")):
        failed = taofold("budget", "lift", *wrong)
        assert failed.code == 1
        assert why in failed.err
    lift = ("budget", "lift", "principal-day", "principal:local", "--reason", "release")
    done = taofold(*lift)
    assert done.code == 0
    assert "once more until" in done.err + done.out
    assert taofold(*lift).code == 1
    assert "by local" in taofold("budget", "list").out
    assert taofold("run", "spender.py:agent", "go").code == 0


def test_without_budgets_the_list_says_how_to_have_one(taofold: Taofold, project: Path) -> None:
    told = taofold("budget", "list")
    assert told.code == 0
    assert "no budgets" in told.err + told.out


def test_budgets_are_listed_before_the_first_run(taofold: Taofold, project: Path) -> None:
    """Mutant: the list opens the log, which does not exist yet."""
    operator("budgets: [{name: house, tokens: 900}]")
    listed = taofold("budget", "list")
    assert (listed.code, taofold("budget", "list", "--json").out.strip()) == (0, "[]")
    assert "the budgets are house" in listed.err + listed.out


def test_the_command_of_the_error_lifts_a_budget_of_an_agent_file(
    taofold: Taofold, project: Path
) -> None:
    """Mutant: `_agent_option` returns nothing."""
    (project / "bot.yaml").write_text(
        "model: test:tools\nname: bot\npolicy: {budgets: [{name: own, tokens: 1}]}\n"
    )
    assert taofold("run", "bot.yaml", "go").code == 0
    refused = json.loads(taofold("run", "bot.yaml", "go", "--json").out)
    command = refused["error"].rpartition(": ")[2]
    assert command == "taofold budget lift own --agent bot.yaml"
    failed = taofold("budget", "lift", "own")
    assert failed.code == 1
    assert "For a budget of an agent add --agent FILE" in failed.err
    assert taofold(*command.split()[1:]).code == 0


def test_a_lift_of_a_scope_that_never_spent_is_noted_and_listed(
    taofold: Taofold, project: Path
) -> None:
    """Mutants: `never_spent` is False; only scopes with spending are listed."""
    (project / "spender.py").write_text(SPENDER)
    operator("budgets: [{per: principal, tokens: 900}]")
    assert taofold("run", "spender.py:agent", "go").code == 0
    known = taofold("budget", "lift", "principal-day", "principal:local")
    assert "check the spelling" not in known.err + known.out
    unknown = taofold("budget", "lift", "principal-day", "principal:lokal")
    assert unknown.code == 0
    assert "nothing has been spent by 'principal:lokal' yet: check the spelling" in unknown.err
    rows = {row["scope"]: row for row in json.loads(taofold("budget", "list", "--json").out)}
    row = rows["principal:lokal"]
    assert (row["spent_tokens"], row["lifted"]["by"]) == (0, "local")
