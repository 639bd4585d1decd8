"""Command `taofold eval`: runs agents on a file of cases and compares their reports.

It also writes cases from runs in the log, for instance from rated runs. Cases, scorers, reports and
their comparison are in `taofold.evals`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

import typer

from taofold.cli import options
from taofold.cli.output import UNREACHED, fail, give, give_json, say

if TYPE_CHECKING:
    from taofold.agent import Agent
    from taofold.evals import Case, Comparison, Report, Trial
    from taofold.log.log import Log


_RUNS: Final = "Runs"
_EXTRACT: Final = "Cases from the log"


def evaluate(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="Cases: YAML of taofold or pydantic-evals, or samples of Inspect (.jsonl).",
            show_default=False,
        ),
    ] = None,
    agent: options.AgentName = "",
    model: options.ModelName = "",
    against: Annotated[
        str,
        typer.Option(
            "--against",
            metavar="AGENT",
            help="Run this second agent too, and compare both.",
            rich_help_panel=options.AGENT,
        ),
    ] = "",
    judge: Annotated[
        str,
        typer.Option(
            "--judge",
            metavar="MODEL",
            help="Model for scorers that judge. Default: the agent's model.",
            rich_help_panel=options.AGENT,
        ),
    ] = "",
    repeat: Annotated[
        int | None,
        typer.Option(
            "--repeat", min=1, metavar="N", help="Run each case N times.", rich_help_panel=_RUNS
        ),
    ] = None,
    concurrency: Annotated[
        int,
        typer.Option(
            "--concurrency",
            min=1,
            metavar="N",
            help="At most N runs at once.",
            rich_help_panel=_RUNS,
        ),
    ] = 4,
    least: Annotated[
        float | None,
        typer.Option(
            "--min-rate",
            min=0,
            max=1,
            metavar="RATE",
            help="Exit with 1 if the pass rate is lower. Default: 1.0, or 0.0 with --against.",
            rich_help_panel=_RUNS,
        ),
    ] = None,
    name: Annotated[
        str,
        typer.Option(
            "--name",
            metavar="NAME",
            help="Name of the evaluation. The same name continues an interrupted one.",
            rich_help_panel=_RUNS,
        ),
    ] = "",
    usd: Annotated[
        float | None,
        typer.Option(
            "--usd",
            min=0,
            metavar="N",
            help="At most N US dollars for each agent's cases, without judges.",
            rich_help_panel=_RUNS,
        ),
    ] = None,
    runs: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Print cases made from this run, and run nothing. Repeatable.",
            rich_help_panel=_EXTRACT,
        ),
    ] = None,
    rated: Annotated[
        bool,
        typer.Option(
            "--from-rated",
            help="Print cases made from all rated runs (`taofold runs rate`), and run nothing.",
            rich_help_panel=_EXTRACT,
        ),
    ] = False,
    strict: options.Strict = False,
    root: options.Root = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Run an agent on cases, score the results, and print pass rates with confidence intervals.

    Exits with 1 if the pass rate is below --min-rate. With --against also if the agent passes
    significantly fewer cases than the other one (paired test, p < 0.05).
    """
    from taofold.cli.runs.find import with_log

    if runs or rated:
        give(with_log(lambda log: _cases(log, runs or [], rated=rated)))
        return
    if file is None:
        fail("FILE is missing: taofold eval cases.yaml (its format is in docs/evals.md)")
    from taofold.cli.project import home
    from taofold.evals import compare, read_cases
    from taofold.evals.report_files import store_report

    progress: Literal["terminal"] | None = None if quiet or json else "terminal"
    evaluation = _Evaluation(root, judge, concurrency, usd, progress, strict=strict)
    cases = read_cases(file, evaluation.judging)
    named = agent or (str(file.parent / cases.agent) if cases.agent else "")
    if not named:
        fail("no agent is named: add `agent: FILE` to the cases, or give --agent FILE")
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
    """An agent to evaluate, its model, and the name of its evaluation."""

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
        """Returns the agent that judges a result: the evaluated agent, with the judge's model."""
        agent = self._agent
        assert agent is not None, "cases are judged while an agent is evaluated"
        return agent.replace(model=self.judge) if self.judge else agent

    async def report(self, entry: _Evaluated, log: "Log", *, apart: bool) -> "Report":
        """Evaluates one agent. `apart` adds the file's name to the agent's name."""
        from taofold.cli.agent_argument import chosen, make
        from taofold.evals import evaluate

        choice = chosen(entry.agent, self.root, model=entry.model, strict=self.strict)
        agent = make(choice).replace(approve=None, log=log)
        # Reports show the agent's name, so two compared agents need different names.
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
    """Prints the reports. Ends the program if every run failed."""
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
        fail(f"every run failed, so nothing was measured: {trials[0].reason}")


def _unmeasured(trial: "Trial") -> bool:
    """Returns whether the run failed for a reason unrelated to the agent, as a dead server."""
    return trial.result is None or trial.result.stop_reason == "error"


def _label(path: str, name: str) -> str:
    """Returns the agent's name, with the file's stem if they differ."""
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
    """Returns cases in YAML for runs of the log; `rated` adds all rated runs."""
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
            except UnknownRun:  # deleted since it was listed
                continue
            case = from_state(fold(records), await ratings.of(run))
            expected = {} if case.expect is UNSET else {"expect": case.expect}
            cases.append(
                {"goal": case.goal, **expected, **({"note": case.note} if case.note else {})}
            )
    finally:
        await ratings.close()
    if not cases:
        fail("no run is rated; rate one: taofold runs rate RUN good|bad")
    return yaml.dump({"cases": cases}).rstrip()
