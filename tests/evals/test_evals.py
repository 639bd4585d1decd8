"""Evaluations: scorers, files of cases, rates with intervals, comparisons, judges."""

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, MemoryLog, tool
from taofold.core.errors import ConfigError
from taofold.core.values import Reply, Usage
from taofold.evals import Case, Report, Trial, compare, contains, evaluate, exact, judge, read_cases
from taofold.evals import command as command_scorer
from taofold.evals import schema as schema_scorer
from taofold.evals.evaluation import paired_p, wilson
from taofold.evals.scorers import Score
from taofold.testing import FunctionModel, ScriptedModel
from tests.ports import PATIENCE

pytestmark = pytest.mark.anyio


def answering(answers: dict[str, str], asked: list[str] | None = None, **options: Any) -> Any:
    """An agent that gives the answer whose key its goal has in it."""

    def reply(request: Any) -> Reply:
        goal = request.conversation[-1].text
        if asked is not None:
            asked.append(goal)
        found = [answer for key, answer in answers.items() if key in goal]
        return Reply(found[0] if found else "I do not know.", usage=Usage(10, 1))

    return Agent(FunctionModel(reply), strategy="direct", **options)


CITIES = answering({"Norway": "Oslo", "Italy": "Rome"}, name="cities")


async def test_expected_outputs_are_compared_and_repetitions_are_trials() -> None:
    cases = [Case("Capital of Norway?", "Oslo"), Case("Capital of Italy?", "Milan")]
    report = await evaluate(CITIES, cases, repeat=3)
    assert report.by_case == {"Capital of Norway?": 1.0, "Capital of Italy?": 0.0}
    assert (report.rate, len(report.trials), report.usage.tokens) == (0.5, 6, 66)
    assert "exact: 'Rome', not 'Milan'" in {trial.reason for trial in report.trials}
    assert report.summary.startswith("cities: 50% pass (9% to 91%), 2 cases, 6 trials, 66 tokens")


@pytest.mark.parametrize(
    ("scorer", "output", "value"),
    [
        (contains("oslo"), "It is OSLO.", 1.0),
        (contains("oslo", "fjord"), "It is Oslo.", 0.0),
        (schema_scorer({"total": "number"}), '{"total": 5}', 1.0),
        (schema_scorer({"total": "number"}), '{"total": "5"}', 0.0),
        (schema_scorer({"type": "array", "items": {"type": "integer"}}), "[1, 2]", 1.0),
        (schema_scorer("int"), "forty", 0.0),
        (command_scorer("grep -q Oslo"), "It is Oslo.", 1.0),
        (command_scorer("grep -q Rome"), "It is Oslo.", 0.0),
        (command_scorer("sleep 60", seconds=0.2), "x", 0.0),
        (command_scorer("setsid sleep 90 & exit 0", seconds=60), "x", 1.0),
        (lambda case, result: 0.25, "x", 0.25),
        (lambda case, result: True, "x", 1.0),
        (lambda case, result: 7, "x", 0.0),
        (lambda case, result: 1 / 0, "x", 0.0),
    ],
)
async def test_a_scorer_gives_a_share(scorer: Any, output: str, value: float) -> None:
    report = await evaluate(answering({"g": output}), [Case("g", scorers=[scorer])])
    (score,) = report.trials[0].scores
    assert score.value == value
    assert report.trials[0].passed is (value >= 0.5)


async def test_a_command_that_fails_says_its_last_line() -> None:
    scorer = command_scorer("echo first; echo the sum is wrong; exit 3")
    report = await evaluate(answering({"g": "x"}), [Case("g", scorers=[scorer])])
    assert report.trials[0].reason == "command: exit code 3: the sum is wrong"


async def test_a_cancelled_evaluation_leaves_no_command_running(tmp_path: Path) -> None:
    # Builtins only: a child that the kill orphans would stay in the group until init reaps it.
    scorer = command_scorer("echo $$ > group; exec sleep 60", tmp_path)
    group = tmp_path / "group"
    case = Case("g", scorers=[scorer])
    evaluation = asyncio.ensure_future(evaluate(answering({"g": "x"}), [case]))
    async with asyncio.timeout(PATIENCE):
        while not (group.exists() and group.read_text()):  # noqa: ASYNC110 - another process writes
            await asyncio.sleep(0.01)
    evaluation.cancel()
    assert (await asyncio.wait({evaluation}, timeout=PATIENCE))[0]
    with pytest.raises(ProcessLookupError):
        os.killpg(int(group.read_text()), 0)


async def test_the_output_is_data_for_a_command_and_never_part_of_it(tmp_path: Path) -> None:
    evil = f"$(touch {tmp_path}/x); touch {tmp_path}/y"
    await evaluate(answering({"g": evil}), [Case("g", scorers=[command_scorer("cat")])])
    assert list(tmp_path.iterdir()) == []


async def test_a_judge_reads_the_answer_as_data_and_keeps_its_own_log() -> None:
    verdicts = ScriptedModel([json.dumps({"meets": False, "reason": "It is rude."})])
    log = MemoryLog()
    scorer = judge("The answer is polite.", Agent(verdicts, log=log))
    report = await evaluate(answering({"g": "Go away."}), [Case("g", scorers=[scorer])])
    assert report.trials[0].reason == "judge: It is rude."
    (row,) = await log.rows()
    assert json.loads(row.goal) == {
        "criterion": "The answer is polite.", "task": "g", "answer": "Go away.",
    }  # fmt: skip


async def test_a_run_that_waits_or_fails_does_not_pass() -> None:
    @tool(tier=3)
    def danger() -> str:
        """Dangerous."""
        return "boom"

    call = '{"thought": "I must.", "action": {"tool": "danger", "parameters": {}}}'
    waiting = Agent(ScriptedModel([call]), tools=[danger])
    assert (await evaluate(waiting, [Case("g")])).trials[
        0
    ].reason == "run: is waiting: awaiting_approval"
    broken = Agent(ScriptedModel([]), strategy="direct")
    report = await evaluate(broken, [Case("g", scorers=[lambda case, result: True])])
    assert "its script has 0 replies" in report.trials[0].reason


async def test_an_evaluation_with_a_name_goes_on() -> None:
    asked: list[str] = []
    agent = answering({"a": "1", "b": "2"}, asked, log=MemoryLog())
    first = await evaluate(agent, [Case("a", "1")], name="nightly", repeat=2)
    again = await evaluate(agent, [Case("b", "2"), Case("a", "1")], name="nightly", repeat=2)
    assert (first.rate, again.rate) == (1.0, 1.0)
    assert sorted(asked) == ["a", "a", "b", "b"]


# --- figures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "count", "interval"),
    [(0.8, 10, (0.4902, 0.9433)), (0.5, 2, (0.0945, 0.9055)), (1.0, 20, (0.8389, 1.0))],
)
def test_the_interval_is_wilsons(rate: float, count: int, interval: tuple[float, float]) -> None:
    """Figures of statsmodels' `proportion_confint(…, method="wilson")`."""
    assert wilson(rate, count) == pytest.approx(interval, abs=1e-4)


@pytest.mark.parametrize(
    ("gaps", "p"),
    [([], 1.0), ([1.0], 1.0), ([1.0] * 5, 2 / 32), ([1.0] * 6, 2 / 64), ([1.0, -1.0], 1.0)],
)
def test_the_paired_test_counts_every_way_to_swap(gaps: list[float], p: float) -> None:
    assert paired_p(gaps) == pytest.approx(p)


def test_many_differing_cases_are_sampled_and_agree_with_the_sign_test() -> None:
    assert paired_p([1.0] * 16 + [-1.0] * 4) == pytest.approx(0.0118, abs=0.003)
    assert paired_p([1.0, -1.0] * 20) == pytest.approx(1.0, abs=0.01)


def report_of(name: str, passed: list[bool]) -> Report:
    trials = [
        Trial(Case("g", name=str(number)), 0, None, (Score(float(yes), "", "s"),))
        for number, yes in enumerate(passed)
    ]
    return Report(name, name, trials)


def test_two_agents_are_compared_case_by_case() -> None:
    found = compare(report_of("new", [True] * 10), report_of("old", [True] * 2 + [False] * 8))
    assert found.difference == pytest.approx(0.8)
    assert found.p == pytest.approx(2 / 256)
    assert (len(found.better), found.worse) == (8, ())
    assert "too little" not in str(found)
    alike = compare(report_of("new", [True, False]), report_of("old", [True, False]))
    assert str(alike) == "new and old pass alike in all 2 cases"
    few = compare(report_of("new", [True, True]), report_of("old", [True, False]))
    assert "too little to tell them apart" in str(few)
    with pytest.raises(ValueError, match="no case in common"):
        compare(report_of("a", []), report_of("b", [True]))


async def test_what_cannot_be_evaluated_is_refused() -> None:
    with pytest.raises(ConfigError, match="no case"):
        await evaluate(CITIES, [])
    with pytest.raises(ConfigError, match="repeat"):
        await evaluate(CITIES, [Case("g")], repeat=0)
    with pytest.raises(ConfigError, match="schema"):
        schema_scorer("nope")


# --- files ---------------------------------------------------------------------------------------


async def test_a_file_of_cases_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cases.yaml"
    path.write_text(
        "agent: a.yaml\nrepeat: 2\nscore:\n  - contains: o\ncases:\n"
        "  - goal: Capital of Norway?\n    expect: Oslo\n"
        "  - goal: Capital of Norway?\n    command: grep -q Oslo\n",
        encoding="utf-8",
    )
    file = read_cases(path)
    assert (file.agent, file.repeat) == ("a.yaml", 2)
    assert [case.name for case in file.cases] == ["Capital of Norway?", "Capital of Norway? #2"]
    report = await evaluate(CITIES, file.cases)
    names = [[score.name for score in trial.scores] for trial in report.trials]
    assert names == [["exact", "contains"], ["command", "contains"]]
    assert report.rate == 1.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cases:\n  - gaol: x\n", r"bad.yaml:2: cases\[0\].gaol: unknown key"),
        ("cases: []\n", "at least 1"),
        ("cases:\n  - goal: x\n    judge: polite?\n", "a judge needs a model"),
        ("cases:\n  - goal: x\n    schema: nope\n", "unknown type"),
        ("cases:\n  - inputs: x\n    evaluators: [EqualExpected]\n", "did you mean"),
    ],
)
def test_every_fault_of_a_file_has_its_line(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ExceptionGroup) as refused:
        read_cases(tmp_path / "bad.yaml")
    assert any(re.search(words, str(fault)) for fault in refused.value.exceptions)


PYDANTIC = """\
name: d
cases:
- name: capital
  inputs: Capital of Norway?
  metadata: {d: easy}
  expected_output: Oslo
  evaluators:
  - EqualsExpected
- name: sum
  inputs: {country: Italy}
  metadata: null
  expected_output: null
  evaluators:
  - Contains: Rome
  - Contains: {value: rome, case_sensitive: false}
evaluators:
- IsInstance: str
report_evaluators: []
"""


async def test_a_data_set_of_pydantic_evals_is_read(tmp_path: Path) -> None:
    """The format is that of `Dataset.to_file` in pydantic-evals 1.x."""
    (tmp_path / "d.yaml").write_text(PYDANTIC, encoding="utf-8")
    report = await evaluate(CITIES, read_cases(tmp_path / "d.yaml").cases)
    names = [[score.name for score in trial.scores] for trial in report.trials]
    assert names == [["exact", "schema"], ["contains", "contains", "schema"]]
    assert report.by_case == {"capital": 1.0, "sum": 1.0}


async def test_samples_of_inspect_are_read(tmp_path: Path) -> None:
    samples = [
        {"id": 1, "input": "Capital of Norway?", "target": "oslo"},
        {"id": 2, "input": "Capital of Italy?", "target": ["Milan"]},
    ]
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(map(json.dumps, samples)), encoding="utf-8")
    assert (await evaluate(CITIES, read_cases(path).cases)).by_case == {"1": 1.0, "2": 0.0}
    path.write_text('{"inputs": 5}', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"s.jsonl:1.*input"):
        read_cases(path)


async def test_exact_is_of_types_and_forgives_blanks_at_the_ends() -> None:
    number = Agent(ScriptedModel(["42"]), output=int)
    assert (await evaluate(number, [Case("g", 42, scorers=[exact])])).rate == 1.0
    assert (await evaluate(answering({"g": " Oslo\n"}), [Case("g", "Oslo")])).rate == 1.0
    assert (await evaluate(answering({"g": "42"}), [Case("g", 42)])).rate == 0.0


@pytest.mark.parametrize("cases", [["a"], "a", [{"goal": "a"}], [Case("a"), "b"], (None,)])
async def test_what_are_no_cases_is_refused_with_what_to_write(cases: Any) -> None:
    asked: list[str] = []
    with pytest.raises(ConfigError, match=r"cases: must be Case objects: write \[Case\(goal"):
        await evaluate(answering({}, asked), cases)
    assert not asked
