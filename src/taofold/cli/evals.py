"""`taofold eval`: agents on a file of cases, one after the other, and their reports side by side;
or cases made of runs in the log, for instance of those that people rated.

Cases, scorers, reports and their comparison are in `taofold.evals`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from taofold.cli import options
from taofold.cli.output import UNREACHED, fail, give, give_json, say

if TYPE_CHECKING:
    from taofold.agent import Agent
    from taofold.evals import Case, Comparison, Report, Trial
    from taofold.log.log import Log


def evaluate(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="Cases: YAML of ours or of pydantic-evals, or samples of Inspect (.jsonl).",
            show_default=False,
        ),
    ] = None,
    agent: options.AgentName = "",
    model: options.ModelName = "",
    against: Annotated[
        str,
        typer.Option("--against", metavar="AGENT", help="Run this one too, and compare them."),
    ] = "",
    judge: Annotated[
        str, typer.Option("--judge", metavar="MODEL", help="The model that judges [the agent's].")
    ] = "",
    repeat: Annotated[
        int | None, typer.Option("--repeat", min=1, metavar="N", help="Run each case N times.")
    ] = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, metavar="N", help="Runs at once.")
    ] = 4,
    least: Annotated[
        float | None,
        typer.Option(
            "--min-rate",
            min=0,
            max=1,
            metavar="RATE",
            help="Below it: exit code 1 [1; none with --against].",
        ),
    ] = None,
    name: Annotated[
        str,
        typer.Option("--name", metavar="NAME", help="Go on with the evaluation of this name."),
    ] = "",
    usd: Annotated[
        float | None,
        typer.Option("--usd", min=0, help="US dollars for each agent's cases, without judges."),
    ] = None,
    runs: Annotated[
        list[str] | None,
        typer.Option(
            "--from", metavar="RUN", help="Print cases made from these runs, and do nothing else."
        ),
    ] = None,
    rated: Annotated[
        bool,
        typer.Option("--from-rated", help="The same of every run that a person has rated."),
    ] = False,
    strict: options.Strict = False,
    root: options.Root = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Run an agent on cases, score the results, and say how sure they are.

    Exit code 1: AGENT's rate is below --min-rate, or with --against it passes less often than the
    other by more than chance explains (the paired test, p < 0.05).
    """
    from taofold.cli.runs.find import with_log

    if runs or rated:
        give(with_log(lambda log: _cases(log, runs or [], rated=rated)))
        return
    if file is None:
        fail("name a file of cases: taofold eval cases.yaml (see docs/evals.md)")
    from taofold.cli.project import home
    from taofold.evals import compare, read_cases
    from taofold.evals.report_files import store_report

    progress: Literal["terminal"] | None = None if quiet or json else "terminal"
    evaluation = _Evaluation(root, judge, concurrency, usd, progress, strict=strict)
    cases = read_cases(file, evaluation.judging)
    named = agent or (str(file.parent / cases.agent) if cases.agent else "")
    if not named:
        fail("no agent is named: write `agent:` into the file, or say --agent FILE")
    evaluation.cases, evaluation.repeat = cases.cases, repeat or cases.repeat
    evaluated = [_Evaluated(named, model, f"{name}-a" if name and against else name)]
    if against:
        evaluated.append(_Evaluated(against, "", f"{name}-b" if name else ""))

    async def work(log: "Log") -> "list[Report]":
        return [await evaluation.report(entry, log, apart=bool(against)) for entry in evaluated]

    reports = with_log(work, create=True)
    comparison = compare(*reports) if against else None
    store_report(home(), name or file.stem, reports, comparison)
    _print(reports, comparison, json=json)
    if least is None:
        least = 0.0 if against else 1.0
    if reports[0].rate < least or (comparison is not None and comparison.lost):
        raise typer.Exit(UNREACHED)


class _Evaluated(NamedTuple):
    """An agent whose runs are scored, and the name by which its evaluation is carried on."""

    agent: str
    model: str
    name: str


@dataclass
class _Evaluation:
    """Runs agents on the cases of one file, one agent after the other."""

    root: Path | None
    judge: str
    concurrency: int
    usd: float | None
    progress: Literal["terminal"] | None
    cases: "Sequence[Case]" = ()
    repeat: int = 1
    strict: bool = False
    _agent: "Agent[Any, Any] | None" = None

    def judging(self) -> "Agent[Any, Any]":
        """The agent that judges a result: the one that gave it, perhaps with another model."""
        agent = self._agent
        assert agent is not None, "cases are judged while an agent is evaluated"
        return agent.replace(model=self.judge) if self.judge else agent

    async def report(self, entry: _Evaluated, log: "Log", *, apart: bool) -> "Report":
        """Evaluate one agent; `apart`: tell it from another of its name."""
        from taofold.cli.agent_argument import chosen, make
        from taofold.evals import evaluate

        choice = chosen(entry.agent, self.root, model=entry.model, strict=self.strict)
        agent = make(choice).replace(approve=None, log=log)
        # The reports name their agent: two of one name could not be told apart.
        label = _label(entry.agent, agent.name) if apart else agent.name
        self._agent = agent = agent.replace(name=label)
        return await evaluate(
            agent,
            self.cases,
            repeat=self.repeat,
            concurrency=self.concurrency,
            name=entry.name,
            usd=self.usd,
            progress=self.progress,
        )


def _print(reports: "Sequence[Report]", comparison: "Comparison | None", *, json: bool) -> None:
    """The reports; ends the program if nothing was measured."""
    if json:
        document: dict[str, Any] = {"reports": [report.as_json() for report in reports]}
        if comparison is not None:
            document["comparison"] = comparison.as_json()
        give_json(document)
    else:
        for report in reports:
            _show(report)
        if comparison is not None:
            give(str(comparison))
    trials = [trial for report in reports for trial in report.trials]
    if trials and all(map(_unmeasured, trials)):
        fail(f"nothing was measured, every run failed: {trials[0].reason}")


def _unmeasured(trial: "Trial") -> bool:
    """Did the run end for an error that says nothing about the agent, such as a dead server?"""
    return trial.result is None or trial.result.stop_reason == "error"


def _label(path: str, name: str) -> str:
    """What tells two agents of one name apart."""
    stem = Path(path).stem
    return name if name == stem else f"{name} ({stem})"


def _show(report: "Report") -> None:
    from taofold.cli.render.tables import table

    rows: list[tuple[str, ...]] = []
    for case, rate in report.by_case.items():
        trials = [trial for trial in report.trials if trial.case.label == case]
        failed = [trial for trial in trials if not trial.passed]
        passed = f"{len(trials) - len(failed)}/{len(trials)}"
        why, run = (failed[0].reason, failed[0].run_id) if failed else ("", "")
        rows.append((case, passed, f"{rate:.0%}", why, run))
    table(("case", "passed", "rate", "why not", "run"), rows)
    if len(report.by_scorer) > 1:
        say("by scorer: " + ", ".join([f"{n} {v:.2f}" for n, v in report.by_scorer.items()]))
    give(report.summary)


async def _cases(log: "Log", references: list[str], *, rated: bool) -> str:
    """Cases in YAML for runs of the log, those that people rated among them if `rated`."""
    from taofold.cli.runs.find import find
    from taofold.core.errors import UnknownRun
    from taofold.core.state import fold
    from taofold.evals.cases import UNSET, from_state
    from taofold.log.formats import yaml_document as yaml
    from taofold.runtime.ratings import ratings_beside

    ratings = ratings_beside(log)
    cases: list[dict[str, Any]] = []
    try:
        names = [await find(log, reference) for reference in references]
        for run in dict.fromkeys([*names, *(await ratings.runs() if rated else ())]):
            try:
                records = await log.read(run)
            except UnknownRun:  # deleted meanwhile
                continue
            case = from_state(fold(records), await ratings.of(run))
            expected = {} if case.expect is UNSET else {"expect": case.expect}
            cases.append(
                {"goal": case.goal, **expected, **({"note": case.note} if case.note else {})}
            )
    finally:
        await ratings.close()
    if not cases:
        fail("no run was rated yet: taofold runs rate RUN good|bad")
    return yaml.dump({"cases": cases}).rstrip()
