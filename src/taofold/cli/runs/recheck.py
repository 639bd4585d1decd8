"""Command `taofold runs recheck`: stored runs against this release, an agent file or a policy."""

from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from taofold.cli import options
from taofold.cli.authority import refuse
from taofold.cli.output import UNREACHED, fail, give, give_json, invocation, say
from taofold.cli.runs.find import with_log
from taofold.cli.stored_runs import (
    RecordedAgents,
    StoredAgents,
    StoredChoices,
    StoredRuns,
    StoredSelection,
)
from taofold.core.text import dollars, line, times

if TYPE_CHECKING:
    from taofold.backtest.causes import RunDifference
    from taofold.backtest.recheck import CheckedRun, RecheckReport
    from taofold.backtest.trials import ForkComparison, MeanDifference
    from taofold.log.log import Log

app = typer.Typer()
_PERIOD: Final = "30d"
_FORKS: Final = 10
_CAUSES: Final = "prompt|parser|policy|schema|strategy"


@app.command()
def recheck(
    runs: StoredRuns = None,
    agent: StoredAgents = None,
    recorded_agents: RecordedAgents = False,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="Policy file in place of the operator's."),
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option("--accept", metavar=_CAUSES, help="Do not fail for this cause. Repeatable."),
    ] = None,
    fork: Annotated[
        bool,
        typer.Option(
            "--fork",
            help="Continue the runs that differ in forks, and compare. Calls models and tools.",
        ),
    ] = False,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="With --fork: the model of the forks, which begin at the start of each run.",
        ),
    ] = "",
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            min=1,
            metavar="N",
            help=f"With --fork: at most N forks. Default: {_FORKS}.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Replay stored runs offline, and group the first differences by cause.

    Compares each run with what this release, its agent as it is now, and the policy would do with
    the same replies and results. Exits with 1 if a run differs, or none could be replayed.
    """
    from taofold.backtest.causes import CAUSES
    from taofold.cli.project import policy_at

    accepted = accept or []
    for cause in accepted:
        if cause not in CAUSES:
            fail(f"--accept is one of {', '.join(CAUSES)}, not {cause!r}")
    if model and not fork:
        fail("a replay asks no model: --model needs --fork, which continues the runs on it")
    if limit is not None and not fork:
        fail("--limit is the number of forks: it needs --fork; --runs selects what is replayed")
    if fork:
        refuse("fork runs with `taofold runs recheck --fork`")
    selection = StoredSelection.of(runs or [_PERIOD])
    operator = None if policy is None else policy_at(policy, "the policy")
    choices = StoredChoices(operator, agent or (), recorded_agents, bool(selection.runs))
    forks_of = (model, limit or _FORKS) if fork else None
    report, differing, forks = with_log(lambda log: _rechecked(log, selection, choices, forks_of))
    failed = any([count for cause, count in report.causes.items() if cause not in accepted])
    reached = not failed and report.runs > 0 and not (forks is not None and forks.lost)
    if json:
        body = {"passed": reached, **report.as_json(), "left_out": selection.left_out}
        give_json(body if forks is None else {**body, "forks": forks.as_json()})
    else:
        _show(report)
        if selection.runs:
            _show_differences(differing)
        elif report.groups:
            command = _command(report.ordered()[0][1].examples[0], choices, policy)
            say(f"see the whole difference of one: {command}")
        if selection.left_out:
            give(selection.note())
        if forks is not None:
            _show_forks(forks)
    if not reached:
        raise typer.Exit(UNREACHED)


async def _rechecked(
    log: "Log",
    selection: StoredSelection,
    choices: StoredChoices,
    forks_of: tuple[str, int] | None,
) -> "tuple[RecheckReport, list[CheckedRun], ForkComparison | None]":
    """Replays the runs. Returns also the named ones that differ, and the forks.

    `forks_of`: the model ("": their own) and the number of forks.
    """
    from taofold.backtest.recheck import RecheckReport
    from taofold.backtest.recheck import recheck as replays
    from taofold.backtest.stored_agents import StoredAgents

    model, limit = forks_of or ("", 0)
    report, chosen, differing = RecheckReport(), list["CheckedRun"](), list["CheckedRun"]()
    async for checked in replays(log, selection.rows(log), StoredAgents(log, choices)):
        report.add(checked)
        if selection.runs and checked.difference is not None:
            differing.append(checked)
        is_candidate = checked.difference is not None or bool(model)
        if not checked.unchecked and is_candidate and len(chosen) < limit:
            chosen += [checked] if await _can_fork(log, checked) else []
    forks = None if forks_of is None else await _forked(log, chosen, choices, model)
    return report, differing, forks


async def _can_fork(log: "Log", checked: "CheckedRun") -> bool:
    """Returns whether the run is a root run that has ended, and no fork."""
    from taofold.core.state import ENDED

    row = await log.row(checked.run)
    return not checked.forked and not row.parent and row.status in ENDED


async def _forked(
    log: "Log", chosen: "list[CheckedRun]", choices: StoredChoices, model: str
) -> "ForkComparison":
    from taofold.backtest.trials import ForkComparison, ForkTrial, RunOutcome, fork_run
    from taofold.core.errors import ConfigError
    from taofold.core.events import RunStarted
    from taofold.core.state import fold

    say(f"forking {times(len(chosen), 'run')}: they call models and tools; questions wait")
    trials: list[ForkTrial] = []
    for checked in chosen:
        [first] = await log.read(checked.run, limit=1)
        assert isinstance(first.event, RunStarted)
        try:
            driver = choices.driver(first.event, model)
        except (ConfigError, ExceptionGroup) as error:
            before = RunOutcome.of(checked.run, fold(await log.read(checked.run)))
            trials.append(ForkTrial(before, None, line(str(error))))
            continue
        # Another model would have replied otherwise from the start.
        at = 0 if model else checked.at
        trials.append(await fork_run(log, checked.run, driver, at))
    return ForkComparison(trials)


def _show(report: "RecheckReport") -> None:
    from taofold.cli.render.tables import table

    steps = f"{report.steps:,} {'step' if report.steps == 1 else 'steps'}"
    same = report.runs - report.differing
    give(
        f"{times(report.runs, 'run')} with {steps} replayed: {same:,} identical, "
        f"{report.differing:,} different"
    )
    if report.groups:
        rows = [
            (
                cause,
                what,
                f"{group.runs:,}",
                group.examples[0],
                _values(group.first),
            )
            for (cause, what), group in report.ordered()
        ]
        table(("cause", "difference", "runs", "example", "recorded → now"), rows)
    for reason, count in sorted(report.unchecked.items()):
        give(f"not replayed: {times(count, 'run')}: {reason}")
    if not report.runs and not report.unchecked:
        say(f"no run was found; see `{invocation()} runs list`, or pass --runs all")


def _command(run: str, choices: StoredChoices, policy: Path | None) -> str:
    """Returns the command that shows the whole difference of a run."""
    words = ["--runs", run]
    for agent in choices.agents:
        words += ["--agent", agent]
    words += ["--recorded-agents"] if choices.recorded else []
    words += ["--policy", str(policy)] if policy is not None else []
    return f"{invocation()} runs recheck {join(words)}"


def _show_differences(checked_runs: "list[CheckedRun]") -> None:
    for checked in checked_runs:
        difference = checked.difference
        assert difference is not None
        where = f" at effect {difference.key!r}" if difference.key else ""
        place = f", {difference.place}" if difference.place else ""
        give(f"{checked.run} differs{where}{place}:")
        if difference.recorded or difference.now:
            give(f"  recorded  {difference.recorded}")
            give(f"  now       {difference.now}")
        if difference.hint:
            give(f"  {line(difference.hint, 200)}")


def _values(difference: "RunDifference") -> str:
    if not difference.recorded and not difference.now:
        return ""
    return f"{line(difference.recorded, 60)} → {line(difference.now, 60)}"


def _show_forks(forks: "ForkComparison") -> None:
    pairs = len(forks.pairs)
    give(f"{times(pairs, 'fork')} ended, {forks.waiting} wait")
    for trial in forks.trials:
        if trial.error:
            give(f"not forked: {trial.before.run}: {trial.error}")
    if not pairs:
        return
    for name, is_fork in (("recorded", False), ("forks", True)):
        rate, (low, high) = forks.rate(forks=is_fork)
        give(f"{name:<9} {rate:.0%} succeed ({low:.0%} to {high:.0%})")
    give(f"paired test of the outcomes: p = {forks.p:.3f}")
    usd = forks.difference(lambda outcome: outcome.usd)
    steps = forks.difference(lambda outcome: outcome.steps)
    tokens = forks.difference(lambda outcome: outcome.tokens)
    give(f"cost      {_change(usd, dollars)}")
    give(f"tokens    {_change(tokens, '{:,.0f}'.format)}")
    give(f"steps     {_change(steps, '{:.1f}'.format)}")


def _change(difference: "MeanDifference", text: Any) -> str:
    def signed(value: float) -> str:
        return f"{'-' if value < 0 else '+'}{text(abs(value))}"

    if difference.interval is None:
        return f"{signed(difference.mean)} per run (too few for an interval)"
    low, high = difference.interval
    return f"{signed(difference.mean)} per run ({signed(low)} to {signed(high)})"
