"""`taofold policy test`: verdicts, exit codes, and what a user sees after a mistake."""

import json
import os
from pathlib import Path

import pytest

from taofold import Policy
from taofold.files.policy import read_policy
from taofold.policy.policy import loosened
from tests.terminal import Taofold

AGENT = '''
import json
from taofold import Agent, tool
from taofold.testing.models import FunctionModel


def act(tool, **parameters):
    action = {"tool": tool, "parameters": parameters, "rationale": "it is needed"}
    return json.dumps({"thought": "I act", "thought_type": "reasoning", "action": action})


REPLIES = (act("look", what="x"), act("deploy", where="prod"), act("finish", answer="ok"))


@tool(effect="read")
def look(what: str) -> str:
    """Look something up."""
    return what


@tool(effect="once")
def deploy(where: str) -> str:
    """Deploy."""
    return where


def answer(request):
    return REPLIES[sum(m.role == "assistant" for m in request.conversation)]


agent = Agent(FunctionModel(answer), tools=[look, deploy], name="ops")
'''


@pytest.fixture
def ops(project: Path, taofold: Taofold, monkeypatch: pytest.MonkeyPatch) -> Taofold:
    """Two runs of the project's agent, in a log that only this user writes."""
    monkeypatch.setenv("TAOFOLD_RECORDED_AGENTS", "1")
    (project / "ops.py").write_text(AGENT)
    for _ in range(2):
        assert taofold("run", "ops.py:agent", "go", "--approve", "all", "-q").code == 0
    return taofold


def written(project: Path, text: str, name: str = "new.yaml") -> str:
    (project / name).write_text(text)
    return name


def test_stored_calls_are_judged_by_the_file(ops: Taofold, project: Path) -> None:
    same = ops("policy", "test", written(project, "autonomy: balanced\n"), "--runs", "30d")
    assert same.code == 0
    assert "4 calls of 2 runs judged" in same.out
    assert "no verdict changes" in same.out

    changed = written(project, "deny: [deploy, rm]\ntiers: {look: 2}\n")
    shown = ops("policy", "test", changed, "--runs", "all")
    assert shown.code == 1
    assert "asked → denied" in shown.out
    assert "deny.deploy (the policy forbids 'deploy')" in shown.out
    assert "2 approved" in shown.out
    assert "no stored call meets: deny.rm" in shown.out
    result = json.loads(ops("policy", "test", changed, "--runs", "all", "--json").out)
    assert not result["passed"]
    assert (result["tightened"], result["loosened"], result["uncovered"]) == (4, 0, ["deny.rm"])
    assert [change["rule"] for change in result["changes"]] == ["deny.deploy", "tiers.look"]


@pytest.mark.parametrize(
    ("failures", "code"),
    [
        (("loosened",), 0),
        (("tightened",), 1),
        (("none",), 0),
        (("uncovered",), 1),
        (("unjudged",), 0),
        (("loosened", "uncovered"), 1),
    ],
)
def test_the_exit_code_names_what_ci_should_stop(
    failures: tuple[str, ...], code: int, ops: Taofold, project: Path
) -> None:
    file = written(project, "deny: [deploy, rm]\n")
    options = [word for failure in failures for word in ("--fail-on", failure)]
    assert ops("policy", "test", file, "--runs", "30d", *options).code == code


def test_cases_fail_with_their_line_and_the_rule(ops: Taofold, project: Path) -> None:
    policy = written(project, "deny: [deploy]\n")
    cases = written(
        project,
        "cases:\n"
        "  - {tool: look, arguments: {what: x}, expect: allow}\n"
        "  - {name: deploys ask, tool: deploy, arguments: {where: prod}, expect: ask}\n",
        "cases.yaml",
    )
    failed = ops("policy", "test", policy, "--cases", cases, "--agent", "ops.py:agent")
    assert failed.code == 1
    assert "FAIL  line 3: deploys ask" in failed.out
    assert "expected ask, got deny by deny.deploy" in failed.out
    assert "1 of 2 cases pass" in failed.out
    fine = written(project, "{}\n", "other.yaml")
    assert ops("policy", "test", fine, "--cases", cases, "--agent", "ops.py:agent").code == 0


def test_a_test_that_found_no_run_does_not_pass(ops: Taofold, project: Path) -> None:
    """Mutant, tried: only calls that could not be judged count."""
    done = ops("policy", "test", written(project, "{}\n"), "--runs", "0d")
    assert (done.code, done.out) == (1, "0 calls of 0 runs judged\n")
    assert "no run was found" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("new.yaml",), "give --runs 30d"),
        (("new.yaml", "--runs", "30x"), "'30x' is neither a run nor a period"),
        (("new.yaml", "--runs", "1h30m"), "'1h30m' is neither a run nor a period"),
        (("new.yaml", "--runs=-1d"), "'-1d' is neither a run nor a period"),
        (("new.yaml", "--runs", "2026-01-01"), "'2026-01-01' is neither a run nor a period"),
        (("new.yaml", "--runs", "ALL"), "'ALL' is neither a run nor a period"),
        (("new.yaml", "--runs", "nosuch"), "no run 'nosuch'"),
        (("new.yaml", "--runs", "30d", "--runs", "last"), "one period or some runs"),
        (("missing.yaml", "--runs", "30d"), "cannot be read"),
        (("new.yaml", "--runs", "30d", "--fail-on", "all"), "--fail-on is one of"),
        (("new.yaml", "--cases", "missing.yaml"), "cannot be read"),
        (("wrong.yaml", "--runs", "30d"), "tiers.look"),
        (("new.yaml", "--runs", "30d", "--agent", "nope.yaml"), "no agent file"),
    ],
)
def test_a_mistake_is_one_line_and_exits_with_2(
    arguments: tuple[str, ...], message: str, ops: Taofold, project: Path
) -> None:
    written(project, "{}\n")
    written(project, "tiers: {look: 7}\n", "wrong.yaml")
    ended = ops("policy", "test", *arguments)
    assert ended.code == 2, ended
    assert message in ended.err
    assert "Traceback" not in ended.err


def test_a_stricter_policy_is_tested_with_a_project_that_says_more(
    ops: Taofold, project: Path
) -> None:
    """Mutants: the project's key is a fault; its looser value applies; it is no fault at start."""
    (project / "rules.yaml").write_text("autonomy: balanced\ntiers: {look: 1}\n")
    agent = "name: ops\nmodel: test:tools\ntools: [ops:look, ops:deploy]\npolicy: rules.yaml\n"
    (project / "bot.yaml").write_text(agent)
    strict = written(project, "autonomy: conservative\ntiers: {look: 2}\n")
    tested = ops("policy", "test", strict, "--runs", "30d", "--agent", "bot.yaml")
    assert "4 calls of 2 runs judged" in tested.out
    assert "tiers.look" in tested.out
    assert "rules.yaml:1: autonomy: looser than the tested policy" in tested.err
    assert tested.err.count("would not start") == 2
    checked = ops("runs", "recheck", "--policy", strict, "--agent", "bot.yaml")
    assert "2 runs with 6 steps replayed" in checked.out
    operators = Path(os.environ["XDG_CONFIG_HOME"]) / "taofold"
    operators.mkdir(parents=True, exist_ok=True)
    (operators / "policy.yaml").write_text("autonomy: conservative\n")
    refused = ops("run", "bot.yaml", "x")
    assert refused.code == 2
    assert "looser than the operator's policy" in refused.err


def test_the_policy_that_init_writes_accepts_a_stricter_operator(
    ops: Taofold, project: Path
) -> None:
    (project / "new").mkdir()
    assert ops("init", "new").code == 0
    keys, faults = read_policy(project / "new" / "policy.yaml")
    assert faults == []
    assert keys is not None
    operator = Policy(autonomy="conservative", deny=frozenset({"x"}), approve_seconds=5)
    assert loosened(keys.over(operator), operator) == []
