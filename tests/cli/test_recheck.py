"""`taofold runs recheck`: causes, exit codes, forks, and mistakes of a user."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import postgres
from tests.cli.test_policy_test import AGENT, ops, written
from tests.terminal import Taofold

__all__ = ["ops"]


def forget(file: Path) -> None:
    """Lets the file be imported again, as in another process."""
    for name, module in list(sys.modules.items()):
        if getattr(module, "__file__", None) == str(file):
            del sys.modules[name]


def changed(project: Path, old: str, new: str, code: str = AGENT) -> str:
    assert old in code
    code = code.replace(old, new)
    (project / "ops.py").write_text(code)
    forget(project / "ops.py")
    return code


def free(project: Path) -> str:
    """Returns the code of the agent with tools that need no approval."""
    return changed(project, '@tool(effect="once")', '@tool(effect="read")')


def causes(taofold: Taofold, *options: str) -> tuple[int, dict[str, int]]:
    ended = taofold("runs", "recheck", "--json", *options)
    return ended.code, json.loads(ended.out)["causes"]


def test_runs_without_a_change_are_identical(ops: Taofold) -> None:
    ended = ops("runs", "recheck")
    assert ended.code == 0
    assert "2 runs with 6 steps replayed: 2 identical, 0 different" in ended.out


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ('name="ops"', 'name="ops", instructions="Be brief."', "prompt"),
        ("look(what: str)", "look(what: str, deep: bool = False)", "schema"),
        ('@tool(effect="read")', '@tool(effect="read", tier=2)', "policy"),
        ('name="ops"', 'name="ops", strategy="plan"', "strategy"),
    ],
)
def test_a_changed_agent_is_found_with_its_cause(
    old: str, new: str, cause: str, ops: Taofold, project: Path
) -> None:
    changed(project, old, new)
    assert causes(ops) == (1, {cause: 2})
    assert causes(ops, "--accept", cause) == (0, {cause: 2})
    shown = ops("runs", "recheck", "--runs", "last")
    assert "1 run with 3 steps replayed: 0 identical, 1 different" in shown.out


def test_a_policy_in_place_of_the_operators(ops: Taofold, project: Path) -> None:
    """Mutants: the hint has no --policy; the whole difference of a named run is not shown."""
    file = written(project, "tiers: {look: 2}\n")
    assert causes(ops, "--policy", file) == (1, {"policy": 2})
    shown = ops("runs", "recheck", "--policy", file)
    assert "policy verdict: allow (tool look)" in shown.out
    assert "→ policy verdict: ask (tool look)" in shown.out
    hint = shown.err.partition("see the whole difference of one: ")[2]
    arguments = hint.split()[hint.split().index("runs") :]
    whole = ops(*arguments)
    assert whole.code == 1
    assert ", verdict:\n  recorded  policy verdict: allow (tool look)\n" in whole.out
    assert "  now       policy verdict: ask (tool look)" in whole.out


def test_runs_of_other_agents_are_not_replayed_with_an_agent_file(
    ops: Taofold, project: Path
) -> None:
    (project / "other.py").write_text(AGENT.replace('name="ops"', 'name="other"'))
    ended = ops("runs", "recheck", "--agent", "other.py:agent")
    assert ended.code == 1
    assert "not replayed: 2 runs: a run of the agent 'ops', not of 'other'" in ended.out
    assert causes(ops, "--agent", "ops.py:agent") == (0, {})


def test_differing_runs_are_forked_and_compared(ops: Taofold, project: Path) -> None:
    changed(project, 'name="ops"', 'name="ops", instructions="Be brief."')
    asked = ops("runs", "recheck", "--fork", "--limit", "1")
    assert asked.code == 1
    assert "forking 1 run: they call models and tools; questions wait" in asked.err
    assert "0 forks ended, 1 wait" in asked.out
    changed(project, 'name="ops"', 'name="ops", instructions="Be."', free(project))
    body = json.loads(ops("runs", "recheck", "--fork", "--json").out)["forks"]
    assert body["pairs"] == 2
    assert body["success"]["after"]["rate"] == 1.0
    assert body["differences"]["steps"] == {"mean": 0.0, "interval": None}
    again = json.loads(ops("runs", "recheck", "--fork", "--json").out)
    # The forks are in the log, but do not count.
    assert (again["runs"], again["left_out"]) == (2, 3)
    assert [each["run"] for each in again["forks"]["forks"]] == [
        each["run"] for each in body["forks"]
    ]


def test_waiting_forks_of_a_tested_policy_do_not_count_in_later_tests(
    ops: Taofold, project: Path
) -> None:
    """Mutants: forks have no tag; their row has it and their start does not."""
    strict = written(project, "tiers: {look: 2}\n")
    asked = ops("runs", "recheck", "--policy", strict, "--fork")
    assert "0 forks ended, 2 wait" in asked.out
    plain = ops("runs", "recheck")
    assert plain.code == 0
    assert "2 runs with 6 steps replayed: 2 identical" in plain.out
    assert "left out: 2 runs of forks that `runs recheck` made" in plain.out
    same = written(project, "autonomy: balanced\n", "same.yaml")
    tested = ops("policy", "test", same, "--runs", "30d")
    assert tested.code == 0
    assert "4 calls of 2 runs judged" in tested.out
    assert "left out: 2 runs" in tested.out
    body = json.loads(ops("runs", "recheck", "--policy", strict, "--fork", "--json").out)
    [fork, _] = [each["fork"] for each in body["forks"]["forks"]]
    [first, *_] = ops("runs", "log", fork, "--json").out.splitlines()
    assert json.loads(first)["event"]["tags"] == {"taofold.recheck": "fork"}
    named = json.loads(ops("runs", "recheck", "--runs", fork, "--json").out)
    assert (named["runs"], named["left_out"]) == (1, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--runs", "nope"), "no run 'nope'"),
        (("--runs", "10y"), "'10y' is neither a run nor a period: a period is a number and m, h"),
        (("--limit", "3"), "it needs --fork"),
        (("--agent", "ops.py:deploy"), "'ops.py:deploy' is of the type Tool, not an Agent"),
        (("--runs", "30d", "--runs", "x"), "one period or some runs"),
        (("--agent", "ops.py:agent", "--agent", "ops.py:agent"), "two agents are named 'ops'"),
        (("--accept", "pront"), "--accept is one of prompt"),
        (("--model", "test:tools"), "--model needs --fork"),
        (("--agent", "nope.yaml"), "no agent file 'nope.yaml'"),
        (("--policy", "nope.yaml"), "cannot be read"),
    ],
)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], message: str, ops: Taofold) -> None:
    ended = ops("runs", "recheck", *arguments)
    assert ended.code in (1, 2)
    assert message in ended.err
    assert "Traceback" not in ended.err


def test_if_no_run_could_be_replayed_the_check_fails(ops: Taofold, project: Path) -> None:
    (project / "ops.py").unlink()
    forget(project / "ops.py")
    ended = ops("runs", "recheck")
    assert ended.code == 1
    assert "not replayed: 2 runs: its agent cannot be made" in ended.out


def test_a_log_in_postgresql_is_only_read(
    taofold: Taofold, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row of every table is the same before and after."""
    address = postgres.server().url()
    monkeypatch.setenv("TAOFOLD_LOG", address)
    (project / "ops.py").write_text(AGENT)
    for _ in range(2):
        assert taofold("run", "ops.py:agent", "go", "--approve", "all", "-q").code == 0
    before = everything(address)
    agent = ("--agent", "ops.py:agent")
    checked = taofold("runs", "recheck", *agent)
    assert "2 runs with 6 steps replayed: 2 identical, 0 different" in checked.out
    tested = taofold(
        "policy", "test", written(project, "deny: [deploy]\n"), "--runs", "all", *agent
    )
    assert "asked → denied" in tested.out
    assert "all derived again" in taofold("runs", "verify", "last", *agent).out
    assert everything(address) == before


def everything(address: str) -> dict[str, list[Any]]:
    """Returns all rows of all tables in a schema of PostgreSQL."""
    import psycopg
    from psycopg.sql import SQL, Identifier

    with psycopg.connect(address) as db:
        tables = db.execute(
            "select tablename from pg_tables where schemaname = current_schema order by 1"
        ).fetchall()
        return {
            name: db.execute(
                SQL("select * from {} order by 1, 2").format(Identifier(name))
            ).fetchall()
            for (name,) in tables
        }
