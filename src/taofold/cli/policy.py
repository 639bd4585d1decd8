"""Command `taofold policy test`: a policy on the calls of stored runs, and on written cases."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from taofold.cli import options
from taofold.cli.output import UNREACHED, fail, give, give_json, invocation, say
from taofold.cli.stored_runs import (
    RecordedAgents,
    StoredAgents,
    StoredChoices,
    StoredRuns,
    StoredSelection,
)
from taofold.core.text import line, times

if TYPE_CHECKING:
    from taofold.backtest import CaseVerdict, PolicyBacktest, PolicyCases
    from taofold.files.checked_yaml import Fault, YamlDocument
    from taofold.log.log import Log
    from taofold.policy import Policy
    from taofold.tools import Tool

app = typer.Typer(no_args_is_help=True, help="Test a policy before it applies.")
LOOSENED: Final = "loosened"
_FAILURES: Final = (LOOSENED, "tightened", "uncovered", "unjudged")
_NONE: Final = "none"
_WORDS: Final = {"allow": "allowed", "ask": "asked", "deny": "denied"}


# The callback keeps `test` a subcommand: with one command Typer would drop its name.
@app.callback()
def _policy() -> None:
    """Test a policy before it applies."""


@app.command("test")
def run_test(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The policy file to test.")],
    runs: StoredRuns = None,
    cases: Annotated[
        list[Path] | None,
        typer.Option(
            "--cases",
            metavar="FILE",
            help="Unit tests of the policy: calls with the expected verdict and rule. Repeatable.",
        ),
    ] = None,
    agent: StoredAgents = None,
    recorded_agents: RecordedAgents = False,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="|".join((*_FAILURES, _NONE)),
            help="Exit with 1 for this. Repeatable. Default: loosened and tightened.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Show which stored calls another policy would allow, ask about or deny, and by which rule.

    FILE takes the place of the operator's policy; the rules of agents still apply. Nothing is
    called, asked or changed. Exits with 1 if a case fails, a stored call would be judged
    differently (see --fail-on), or no run was found or no stored call could be judged.
    """
    from taofold.cli.project import policy_at

    failures = _failures(fail_on)
    if not runs and not cases:
        fail("give --runs 30d (stored calls), --cases FILE (written ones), or both")
    policy = policy_at(file, "the policy")
    choices = StoredChoices(policy, agent or (), recorded_agents)
    selection = StoredSelection.of(runs) if runs else None
    verdicts, result = _tested(policy, choices, selection, cases or [])
    failed = [verdict for verdict in verdicts if not verdict.passed]
    found = _found(result) if result is not None else {}
    reached = not failed and not any([found.get(name) for name in failures])
    # A test that judged nothing must not look like a test that passed.
    reached = reached and (result is None or _has_judged(result))
    if json:
        body = {} if result is None else result.as_json()
        tested = [verdict.as_json() for verdict in verdicts]
        out = {"left_out": selection.left_out} if selection is not None else {}
        give_json({"policy": str(file), "passed": reached, "cases": tested, **body, **out})
    else:
        _show_cases(verdicts)
        if result is not None:
            _show(result)
        if selection is not None and selection.left_out:
            give(selection.note())
    if not reached:
        raise typer.Exit(UNREACHED)


def _has_judged(result: "PolicyBacktest") -> bool:
    """Returns whether a call was judged, or the runs made none."""
    return result.calls > 0 or (result.runs > 0 and not result.unjudged)


def _failures(words: list[str] | None) -> tuple[str, ...]:
    if words is None or not words:
        return LOOSENED, "tightened"
    for word in words:
        if word not in (*_FAILURES, _NONE):
            fail(f"--fail-on is one of {', '.join((*_FAILURES, _NONE))}, not {word!r}")
    return tuple([word for word in words if word != _NONE])


def _found(result: "PolicyBacktest") -> dict[str, int]:
    return {
        "loosened": result.loosened,
        "tightened": result.tightened,
        "uncovered": len(result.uncovered),
        "unjudged": result.unjudged.total(),
    }


def _tested(
    policy: "Policy",
    choices: StoredChoices,
    selection: StoredSelection | None,
    files: list[Path],
) -> "tuple[list[CaseVerdict], PolicyBacktest | None]":
    from taofold.backtest import StoredAgents, backtest, check_cases, rules_of
    from taofold.cli.agent_argument import chosen
    from taofold.cli.runs.find import with_log

    if files and len(choices.agents) > 1:
        fail("the cases are about the tools of one agent: give one --agent")
    own = choices.made(chosen(choices.agents[0])) if choices.agents else None
    tools: Mapping[str, Tool] = own.toolset if own is not None else {}
    rules = rules_of(policy)
    verdicts: list[CaseVerdict] = []
    for cases, document in _read(files, tools):
        applied = policy if own is None else own.plan.policy
        verdicts += check_cases(cases, document, applied, tools, rules)
    if selection is None:
        return verdicts, None

    async def work(log: "Log") -> "PolicyBacktest":
        agents = StoredAgents(log, choices)
        return await backtest(log, selection.rows(log), agents, policy, rules)

    return verdicts, with_log(work)


def _read(
    files: list[Path], tools: "Mapping[str, Tool]"
) -> "list[tuple[PolicyCases, YamlDocument]]":
    """Returns the files of cases. All faults of all files are reported at once."""
    from taofold.backtest import read_cases
    from taofold.files.checked_yaml import refuse

    read: list[tuple[PolicyCases, YamlDocument]] = []
    faults: list[Fault] = []
    for path in files:
        cases, wrong, document = read_cases(path, tools)
        faults += wrong
        if cases is not None and document is not None:
            read.append((cases, document))
    if faults:
        refuse(faults, "the cases cannot be used")
    return read


def _show_cases(verdicts: "list[CaseVerdict]") -> None:
    for verdict in verdicts:
        if verdict.passed:
            continue
        case = verdict.case
        wanted = f"{case.expect} by {case.rule}" if case.rule else case.expect
        found = f"{verdict.verdict} by {verdict.rule}"
        reason = f" ({line(verdict.reason, 120)})" if verdict.reason else ""
        give(f"FAIL  line {verdict.line}: {line(case.label, 80)}")
        give(f"      expected {wanted}, got {found}{reason}")
    if verdicts:
        passed = sum([verdict.passed for verdict in verdicts])
        give(f"{passed} of {times(len(verdicts), 'case')} pass")


def _show(result: "PolicyBacktest") -> None:
    from taofold.backtest.policies import is_looser
    from taofold.cli.render.tables import table

    same = ", ".join([f"{n:,} {_WORDS[v]}" for v, n in sorted(result.unchanged.items())])
    judged = f"{result.calls:,} {'call' if result.calls == 1 else 'calls'}"
    give(f"{judged} of {times(result.runs, 'run')} judged")
    if same:
        give(f"unchanged: {same}")
    rows = [
        (
            LOOSENED if is_looser(key) else "tightened",
            line(key.tool, 30),
            f"{_WORDS[key.recorded]} → {_WORDS[key.now]}",
            f"{change.calls:,}",
            f"{change.runs:,}",
            _answers(change.answers),
            change.examples[0] if change.examples else "",
            f"{key.rule} ({line(change.reason, 80)})" if change.reason else key.rule,
        )
        for key, change in result.ordered()
    ]
    if rows:
        head = ("change", "tool", "verdict", "calls", "runs", "answered", "example", "rule")
        table(head, rows)
    elif result.calls:
        give("no verdict changes")
    found = [
        (
            key.effect,
            f"{finding.count:,}",
            f"{finding.runs:,}",
            finding.examples[0],
            f"{key.rule} ({line(finding.reason, 80)})" if finding.reason else key.rule,
        )
        for key, finding in result.findings.ordered()
    ]
    if found:
        table(("effect", "count", "runs", "example", "rule"), found)
    idle = [use.rule for use in result.rules if "." in use.rule and not use.met]
    if idle:
        give(f"no stored call meets: {', '.join(idle)}")
    for reason, count in sorted(result.unjudged.items()):
        give(f"not judged: {times(count, 'call')}: {reason}")
    for sentence in result.limits:
        give(f"not derived: {sentence}")
    if result.untested:
        give(f"not tested, as the log of a run has no trace of it: {', '.join(result.untested)}")
    if result.runs == 0:
        say(f"no run was found; see `{invocation()} runs list`, or pass --runs all")
    elif result.calls == 0 and not result.unjudged:
        say("no stored call was found in these runs")


def _answers(answers: "dict[str, int]") -> str:
    words = {"allow": "approved", "deny": "denied", "void": "void", "done": "done"}
    return ", ".join([f"{n:,} {words.get(word, word)}" for word, n in sorted(answers.items())])
