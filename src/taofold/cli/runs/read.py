"""Commands `taofold runs list|show|log|metrics|check|replay`, which only read.

`render/runs` prints runs.
"""

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from taofold.cli import options
from taofold.cli.output import UNREACHED, fail, give, give_json, say
from taofold.cli.runs.find import find, records_of, with_log
from taofold.core.json_values import plain
from taofold.core.text import times

if TYPE_CHECKING:
    from taofold.agent.prompts import SentPrompt
    from taofold.core.events import Record
    from taofold.log.log import Log, RunRow
    from taofold.runtime.ratings import Rating

app = typer.Typer()


LAST = "last"


@app.command("list")
def list_runs(
    status: Annotated[str, typer.Option(metavar="STATUS", help="Only this status.")] = "",
    session: Annotated[str, typer.Option(metavar="NAME", help="Only this session.")] = "",
    tag: Annotated[str, typer.Option(metavar="NAME=VALUE", help="Only runs with this tag.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most N.")] = 30,
    json: options.Json = False,
) -> None:
    """List the runs of this project, newest first."""
    from taofold.cli.render.tables import runs_table
    from taofold.clocks import clock
    from taofold.core.tags import checked_filter
    from taofold.runtime.shown_status import RUNNING, shown_row
    from taofold.views import run_json

    checked_filter(tag)
    statuses = (*RUNNING, "waiting", "finished", "limited", "failed", "cancelled")
    if status and status not in statuses:
        fail(f"--status is one of {', '.join(statuses)}, not {status!r}")

    async def work(log: "Log") -> "list[RunRow]":
        if status not in RUNNING:
            rows = await log.rows(status=status, session=session, tag=tag, limit=limit)
        else:
            # All rows: the displayed status is known only after reading each run.
            rows = await log.rows(status="running", session=session, tag=tag, limit=0)
        current = [await shown_row(log, row) for row in rows]
        return [row for row in current if status in ("", row.status)][:limit]

    rows = with_log(work)
    if json:
        # The HTTP API's form of a run, with further fields of the log's row.
        give_json([{**_only_here(row), **run_json(row)} for row in rows])
    elif rows:
        runs_table(rows, clock())
    else:
        say("no runs")


def _only_here(row: "RunRow") -> dict[str, Any]:

    fields: dict[str, Any] = plain(row)
    # The HTTP API's name is `id`.
    del fields["run"]
    return fields


class _ShowCommand(TyperCommand):
    """The command `show`. `--prompt` without a number means the last prompt."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Adds the value of a bare `--prompt`."""
        for place, word in enumerate(args):
            following = args[place + 1 : place + 2]
            if word == "--prompt" and (not following or not _is_number(following[0])):
                args = [*args[: place + 1], LAST, *args[place + 1 :]]
                break
        return super().parse_args(ctx, args)


def _is_number(word: str) -> bool:
    return word == LAST or word.isdecimal()


@app.command(cls=_ShowCommand)
def show(
    run: options.Run,
    at: options.Seq = None,
    prompt: Annotated[
        str,
        typer.Option(
            metavar="[N]",
            help="Show the prompt of the N-th model call. Default: the last one.",
        ),
    ] = "",
    agent: options.AgentName = "",
    json: options.Json = False,
) -> None:
    """Show the state and steps of a run; with --at, its state after that event."""
    if prompt:
        _show_prompt(run, prompt, agent, json=json)
        return
    from taofold.cli.render.runs import state_json, tell
    from taofold.core.text import visible
    from taofold.runtime.ratings import ratings
    from taofold.runtime.shown_status import as_seen
    from taofold.views import rating_json

    async def work(log: "Log") -> "tuple[str, list[Record], str, list[Rating]]":
        name, records = await records_of(log, run, at)
        return name, records, as_seen(await log.row(name), records), await ratings(log, name)

    name, records, status, rated = with_log(work)
    if json:
        views = [rating_json(rating) for rating in rated]
        give_json({**state_json(name, records), "ratings": views})
        return
    tell(name, records, travelled=at is not None, status=status)
    for rating in rated:
        note = f": {visible(rating.note)}" if rating.note else ""
        give(f"rated {rating.value:g} by {visible(rating.by)}{note}")


def _show_prompt(run: str, number: str, agent: str, *, json: bool) -> None:
    from taofold.cli.render.prompts import prompt_text
    from taofold.cli.runs.exchange import stored_agent
    from taofold.policy.redaction import Redactor
    from taofold.views import prompt_json

    async def work(log: "Log") -> "list[SentPrompt]":
        name = await find(log, run)
        return await (await stored_agent(log, name, agent)).replace(log=log).prompts(name)

    sent = with_log(work)
    if not sent:
        fail("this run has made no model call")
    if not _is_number(number):
        fail(f"--prompt is the number of a model call or {LAST!r}, not {number!r}")
    chosen = len(sent) if number == LAST else int(number)
    if not 1 <= chosen <= len(sent):
        fail(f"this run has {times(len(sent), 'model call')}: --prompt is 1 to {len(sent)}")
    before = sent[chosen - 2] if chosen > 1 else None
    view = Redactor(Redactor.secrets_in(os.environ)).json(prompt_json(sent[chosen - 1], before))
    if json:
        give_json(view)
    else:
        give(prompt_text(view, len(sent)))
    if sent[chosen - 1].missing:
        raise typer.Exit(UNREACHED)


@app.command("log")
def log_of(run: options.Run, at: options.Seq = None, json: options.Json = False) -> None:
    """Print the events of a run, one per line; with --json complete, as NDJSON."""
    import msgspec

    from taofold.core.events import Observed
    from taofold.core.text import iso, line
    from taofold.policy.redaction.views import shown

    _, records = with_log(lambda log: records_of(log, run, at))
    for record in records:
        event = shown(record).event
        if json:
            row = {
                "run": record.run,
                "seq": record.seq,
                "at": record.at,
                "event": msgspec.to_builtins(event),
            }
            give_json(row, indent=None)
        else:
            summary = line(event.summary, 120)
            give(f"{record.seq:>4}  {iso(record.at)[11:23]}  {event.tag:<16} {summary}".rstrip())
            if isinstance(event, Observed) and event.observation.conflicts:
                for text in event.observation.conflicts.lines:
                    give(f"      ! {line(text, 300)}")


@app.command()
def metrics(run: options.Run, json: options.Json = False) -> None:
    """Show the metrics of a run, computed from its log."""
    from taofold.core.metrics import measure
    from taofold.core.text import value

    measured = measure(with_log(lambda log: records_of(log, run))[1]).as_dict()
    if json:
        give_json(measured)
        return
    for name, figure in measured.items():
        give(f"{name:<26} {'—' if figure is None else value(figure, 120)}")


@app.command()
def check(
    run: options.Run,
    strict: Annotated[
        bool, typer.Option("--strict", help="Judge a lenient run as a strict one.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Check a run against the seven points of the TAO checklist.

    Points that a lenient run need not fulfil are printed as notes. Exits with 1 if a point fails.
    """
    from msgspec import structs

    from taofold.core.checklist import check as judge

    items = judge(with_log(lambda log: records_of(log, run))[1])
    if json:
        give_json([structs.asdict(item) for item in items])
    else:
        for item in items:
            sign = "pass" if item.passed else "FAIL" if strict or item.demanded else "note"
            give(
                f"{sign}  {item.name.replace('_', ' ')}{f': {item.detail}' if item.detail else ''}"
            )
        say("not judged: " + "; ".join([item.unjudged for item in items if item.unjudged]))
    if not all(item.passed or not (strict or item.demanded) for item in items):
        raise typer.Exit(UNREACHED)


@app.command()
def replay(run: options.Run, agent: options.AgentName = "", json: options.Json = False) -> None:
    """Derive a run again from its log, offline. Exits with 1 at the first difference."""
    from taofold.cli.runs.exchange import stored_agent
    from taofold.core.errors import ReplayDiverged

    async def work(log: "Log") -> tuple[str, int, ReplayDiverged | None]:
        name = await find(log, run)
        records = await log.read(name)
        replayed = await stored_agent(log, name, agent)
        try:
            await replayed.replace(log=log).replay(name)
        except ReplayDiverged as error:
            return name, len(records), error
        return name, len(records), None

    name, count, error = with_log(work)
    if json:
        give_json({"run": name, "events": count, "identical": error is None, **_divergence(error)})
    elif error is None:
        give(f"identical: {times(count, 'event')} of {name}, all derived again")
    else:
        give(str(error))
    if error is not None:
        raise typer.Exit(UNREACHED)


def _divergence(error: Any) -> dict[str, Any]:
    if error is None:
        return {}
    return {"key": error.key, "recorded": repr(error.recorded), "requested": repr(error.requested)}
