"""Commands `taofold loops list|status|resume|pause|abort|revert|clean|report|export`.

LOOP is an id, its beginning, or `last`; it may be omitted if only one loop fits (`which`). `abort`
can revert a loop's changes. This module prints lists and states; `render/loops` shows a running
loop.
"""

import json as jsons
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from taofold.cli import options
from taofold.cli.loops.drive import as_json, drive, warn
from taofold.cli.options import Budget, Force, MaxIterations, Steps, Timeout
from taofold.cli.output import fail, give, give_json, say
from taofold.core.errors import ConfigError, UnknownRun
from taofold.core.text import dollars, duration, line, times, tokens
from taofold.policy.redaction.views import shown_value
from taofold.reserved_places import write_file

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from taofold.loop.driver import LoopDependencies
    from taofold.loop.lifecycle import LoopRow, Word
    from taofold.loop.state import LoopState
    from taofold.loop.values import LoopLimits


_SHOWN: Final = 10
"""Number of loops that an error lists as candidates."""


async def which(
    dependencies: "LoopDependencies", reference: str, fit: "Collection[str]" = ()
) -> str:
    """Resolves `reference` to a loop id; without one, returns the only fitting loop (RLP-14)."""
    from taofold.loop.stream import ids, load

    names = list(await ids(dependencies.journal))
    if reference:
        return _named_loop(names, reference)
    if fit:
        names = [
            name for name in names if (await load(dependencies.journal, name)).state.status in fit
        ]
    if len(names) == 1:
        return names[0]
    if not names:
        raise ConfigError("there is no loop for this command; see `loops list`")
    listed = _some([f"  {name}" for name in names], "\n")
    raise ConfigError(f"LOOP is missing; {len(names)} loops are possible:\n{listed}")


def _named_loop(names: "Sequence[str]", reference: str) -> str:
    """Returns the loop with this id or beginning; `names` has the newest first."""
    if reference == "last" and names:
        return names[0]
    if reference in names:
        return reference
    # A complete id is matched first, because it may be the beginning of others.
    matching = [name for name in names if name.startswith(reference)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise ConfigError(
            f"{reference!r} is the beginning of {len(matching)}: {_some(matching, ', ')}"
        )
    raise UnknownRun(f"no loop {reference!r}; there are {_some(names, ', ') or 'none'}")


def _some(names: "Sequence[str]", between: str) -> str:
    """Joins the newest names, with the number of omitted ones."""
    more = [f"… and {len(names) - _SHOWN} more"] * (len(names) > _SHOWN)
    return between.join([*names[:_SHOWN], *more])


def checks(row: "LoopRow") -> str:
    """Returns the number of passing checks and of all checks, as in "3/5"."""
    last = row.state.verdict
    if last is None:
        return ""
    good, every = last.counts
    return f"{good}/{every}"


def tell(row: "LoopRow", *, verbose: bool) -> None:
    """Prints the state of a loop."""
    from taofold.loop.debug_memory import root_cause
    from taofold.parsing.untrusted_text import join_names

    state = row.state
    give(f"{row.loop}: {state.status}{f' ({row.note})' if row.note else ''}")
    give(f"  task        {line(shown_value(state.wish.task), 200)}")
    give(f"  done when   {' AND '.join(state.wish.commands)}")
    give(f"  iterations  {len(state.done)} of {state.bounds.iterations}")
    last = state.verdict
    if last is not None:
        give(f"  checks      {last.summary}")
        for check in last.errors[:3]:
            give(f"              ✗ {line(check.id, 80)}  {line(root_cause(check), 120)}")
    spent = state.spent
    give(
        f"  spent       {times(spent.steps, 'step')}, {tokens(spent.usage.tokens)}, "
        f"{dollars(spent.usage.usd)}, {duration(spent.ms)}"
    )
    if state.pause is not None:
        of = f" of {state.pause.run}" * bool(state.pause.run)
        give(f"  waits for   {line(state.pause.reason, 400)}{of}")
    if state.asked is not None:
        give(f"  will pause  before the next iteration, asked to by {state.asked.by}")
    if state.ended is not None:
        give(f"  ended       {line(state.ended.reason, 400)}")
    if state.cleared is not None and state.cleared.left.remove:
        left = state.cleared.left
        give(f"  folder      {line(left.folder, 400)}: {line(left.why, 1000)}")
        give(f"  remove it   {left.remove}")
    if not verbose:
        return
    for iteration in state.done:
        changed = join_names(iteration.changed, 10) or "nothing"
        head = f"{iteration.number:>3}  {iteration.quality:>4.0%}  {iteration.run}"
        give(f"  {head}  changed {line(changed, 80)}")


app = typer.Typer(
    no_args_is_help=True,
    help="List, inspect and control loops. LOOP is an id, its beginning, or `last`; it may be "
    "omitted if only one loop fits.",
)
ROWS: Final = 30


@app.command("list")
def list_loops(
    status: Annotated[str, typer.Option(metavar="STATUS", help="Only this status.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most N.")] = ROWS,
    json: options.Json = False,
) -> None:
    """List the loops of this project, newest first."""
    from taofold.cli.loops.dependencies import with_dependencies
    from taofold.cli.render.tables import ago, table
    from taofold.clocks import clock
    from taofold.core.text import line
    from taofold.loop.lifecycle import rows
    from taofold.loop.values import status_of

    try:
        only = status_of(status) if status else ""
    except ValueError as error:
        fail(str(error))
    shown_rows = [row for row in with_dependencies(rows) if only in ("", row.state.status)][:limit]
    if json:
        give_json([{**as_json(row.loop, row.state), "note": row.note} for row in shown_rows])
    elif not shown_rows:
        say(f"no loops that are {only}" if only else "no loops")
    else:
        now = clock()
        table(
            ("loop", "status", "changed", "iterations", "checks", "cost", "task"),
            [
                (
                    row.loop,
                    row.state.status,
                    ago(row.state.at, now),
                    f"{len(row.state.done)}/{row.state.bounds.iterations}",
                    checks(row),
                    dollars(row.state.spent.usage.usd),
                    line(row.note or shown_value(row.state.wish.task), 60),
                )
                for row in shown_rows
            ],
        )


@app.command("status")
def status(
    loop: options.Loop = "",
    every: Annotated[bool, typer.Option("--all", help="All unfinished loops.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every iteration.")] = False,
    json: options.Json = False,
) -> None:
    """Show the state of a loop. A loop whose process is gone is marked as crashed."""
    from taofold.cli.loops.dependencies import with_dependencies
    from taofold.loop.lifecycle import row, rows
    from taofold.loop.values import LIVE

    async def work(dependencies: "LoopDependencies") -> "list[LoopRow]":
        if every:
            return [
                candidate
                for candidate in await rows(dependencies)
                if candidate.state.status in {*LIVE, "crashed"}
            ]
        return [await row(dependencies, await which(dependencies, loop))]

    standing = with_dependencies(work)
    if json:
        document: Any = [
            {**as_json(loop_row.loop, loop_row.state), "note": loop_row.note}
            for loop_row in standing
        ]
        give_json(document if every else document[0])
        return
    for loop_row in standing:
        tell(loop_row, verbose=verbose)
    if not standing:
        say("no unfinished loops")


@app.command("resume")
def resume(
    loop: options.Loop = "",
    max_iterations: MaxIterations = None,
    timeout: Timeout = None,
    budget: Budget = None,
    steps: Steps = None,
    force: Force = False,
    keep_edits: Annotated[
        bool,
        typer.Option(
            "--keep-edits",
            help="Accept protected files that were edited while the loop stood still.",
        ),
    ] = False,
    restore: Annotated[bool, typer.Option("--restore", help="Restore those files.")] = False,
    retake_baseline: Annotated[
        bool,
        typer.Option(
            "--retake-baseline",
            help="Run the completion commands again on the initial files, with current packages.",
        ),
    ] = False,
    approve: options.Approve = "",
    network: options.Network = False,
    local_port: options.LocalPort = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Continue a loop that waits, crashed or reached a limit.

    It continues at the next iteration, with its lessons and a new timer.
    """
    from taofold.cli.loops.dependencies import with_dependencies
    from taofold.loop.lifecycle import resume as go_on
    from taofold.loop.stream import load
    from taofold.loop.values import DRIVEN, RESUMABLE
    from taofold.tools.container_network import Reach

    async def find(dependencies: "LoopDependencies") -> "tuple[str, Any]":
        name = await which(dependencies, loop, {*RESUMABLE, *DRIVEN})
        return name, await load(dependencies.journal, name)

    if keep_edits and restore:
        fail("--keep-edits and --restore exclude one another")
    word: Word = "keep" if keep_edits else "restore" if restore else ""
    # Found in a separate session, because `drive` opens the dependencies with a display.
    name, stream = with_dependencies(find)
    bounds = _bounds_of(stream.state, max_iterations, timeout, budget, steps)
    drive(
        name,
        lambda dependencies: go_on(
            dependencies,
            name,
            bounds=bounds,
            force=force,
            edited=word,
            retake=retake_baseline,
            warn=warn,
        ),
        approve=approve,
        reach=Reach(network, tuple(local_port or ())),
        json=json,
        quiet=quiet,
    )


@app.command("pause")
def pause(loop: options.Loop = "", json: options.Json = False) -> None:
    """Pause a loop after its current iteration. Continue it with `loops resume`."""
    from taofold.cli.loops.dependencies import with_dependencies
    from taofold.loop.lifecycle import pause as ask
    from taofold.loop.values import DRIVEN

    async def work(dependencies: "LoopDependencies") -> "tuple[str, LoopState]":
        name = await which(dependencies, loop, DRIVEN)
        return name, await ask(dependencies, name)

    name, state = with_dependencies(work)
    after = len(state.iterations)
    if json:
        give_json({"loop_id": name, "status": state.status, "pauses_after": after})
        return
    give(f"{name}: pauses {f'after iteration {after}' if after else 'before iteration 1'}")
    say("it ends earlier if its gates pass or a limit is reached")


_Force: TypeAlias = Annotated[
    bool, typer.Option("--force", help="Revert even if files changed since.")
]
_Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before reverting.")]


@app.command("abort")
def abort(
    loop: options.Loop = "",
    revert: Annotated[
        bool,
        typer.Option("--revert/--keep-changes", help="Revert the loop's changes."),
    ] = False,
    force: _Force = False,
    yes: _Yes = False,
    json: options.Json = False,
) -> None:
    """End a loop permanently. It cannot be resumed."""
    from taofold.cli.loops.dependencies import with_dependencies
    from taofold.loop.lifecycle import abort as give_up
    from taofold.loop.values import LIVE

    async def work(dependencies: "LoopDependencies") -> "tuple[str, LoopState, Sequence[str]]":
        name = await which(dependencies, loop, {*LIVE, "crashed"})
        state, paths = await give_up(dependencies, name, keep=not revert, force=force)
        # After the loop has ended, so that no other iteration begins in between.
        await _settle(
            dependencies,
            [iteration.run for iteration in state.iterations if iteration.ended is None],
        )
        return name, state, paths

    if revert and not yes:
        _confirm()
    name, state, paths = with_dependencies(work)
    left = state.cleared.left if state.cleared is not None else None
    stays = left is not None and bool(left.remove)
    if json:
        folder = left.folder if left is not None and stays else None
        document = {"loop_id": name, "status": "aborted", "reverted": list(paths), "folder": folder}
        give_json(document)
        return
    count = f"{times(len(paths), 'file')} put back"
    gone = f", the {state.wish.mode} was removed" if left is not None and left.removed else ""
    give(f"{name}: aborted, {count if revert else 'changes kept'}{gone}")
    if left is not None and stays:
        say(f"{left.folder} stays: {line(left.why, 1000)}. Remove it with: {left.remove}")


@app.command("revert")
def revert(
    loop: options.Loop = "",
    force: _Force = False,
    yes: _Yes = False,
    json: options.Json = False,
) -> None:
    """Restore the files to their state before a loop that has ended."""
    from taofold.cli.loops.dependencies import with_dependencies
    from taofold.loop.lifecycle import revert as put_back
    from taofold.loop.values import ENDED

    async def work(dependencies: "LoopDependencies") -> "tuple[str, LoopState, Sequence[str]]":
        name = await which(dependencies, loop, ENDED)
        return name, *await put_back(dependencies, name, force=force)

    if not yes:
        _confirm()
    name, state, paths = with_dependencies(work)
    if json:
        give_json({"loop_id": name, "status": state.status, "reverted": list(paths)})
    else:
        give(f"{name}: {times(len(paths), 'file')} put back")


def _confirm(
    what: str = "this overwrites files",
    question: str = "restore the files to their state before the loop?",
) -> None:
    """Asks for confirmation of an action that cannot be undone."""
    from taofold.cli.loops.start import terminal
    from taofold.runtime.approvers import discard_typed

    if not terminal():
        fail(f"{what}: confirm with --yes")
    discard_typed()
    if not typer.confirm(question, err=True):
        fail("nothing was changed", 1)


@app.command("clean")
def clean(
    loop: options.Loop = "",
    every: Annotated[
        bool, typer.Option("--all", help="Include resumable loops, which then cannot be resumed.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be removed.")
    ] = False,
    yes: _Yes = False,
    json: options.Json = False,
) -> None:
    """Remove the snapshots of loops that have ended, and print their sizes.

    The record and the report of a loop stay, but it can no longer be reverted. Snapshots of running
    and resumable loops, and of work that was not applied to the project, are kept.
    """
    from taofold.cli.loops.dependencies import with_dependencies
    from taofold.cli.project import home
    from taofold.loop.lifecycle import rows
    from taofold.loop.values import ENDED, RESUMABLE
    from taofold.loop.workspace import KeptFolder, kept_folders, state_folder

    project = Path.cwd()

    async def work(dependencies: "LoopDependencies") -> "list[tuple[KeptFolder, str, str]]":
        known = {
            state_folder(project, home(), row.loop, row.state.place): row.state
            for row in await rows(dependencies)
        }
        found: list[tuple[KeptFolder, str, str]] = []
        for folder in kept_folders(project, home()):
            state = known.get(folder.path)
            status = "of no known loop" if state is None else state.status
            why = ""
            if loop and folder.loop_id != loop:
                continue
            if state is not None and status not in ENDED:
                why = "the loop is not over"
            elif status in RESUMABLE and not every:
                why = "it can be resumed; --all removes it"
            elif (
                folder.has_work
                and state is not None
                and not (state.ended and state.ended.delivered)
            ):
                why = f"its work was not applied: {folder.path / 'work'}"
            found.append((folder, status, why))
        return found

    found = with_dependencies(work)
    doomed = [folder for folder, _, why in found if not why]
    for folder, status, why in found if not json else ():
        kept = f"  kept: {why}" if why else ""
        say(f"{folder.size / 1e6:8.1f} MB  {folder.loop_id}  {status}{kept}")
    if doomed and not (dry_run or yes):
        _confirm("this removes snapshots", f"remove {times(len(doomed), 'folder')}?")
    for folder in () if dry_run else doomed:
        folder.remove(project)
    freed = sum([folder.size for folder in doomed])
    if json:
        give_json({"folders": [str(folder.path) for folder in doomed], "bytes": freed})
    else:
        would = "would be removed" if dry_run else "removed"
        give(f"{times(len(doomed), 'folder')} {would}, {freed / 1e6:.1f} MB")


@app.command("report")
def report(
    loop: options.Loop = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Print a loop's history, command output and diff, as Markdown or JSON."""
    from taofold.cli.loops.dependencies import with_dependencies
    from taofold.loop.report import report_json, report_markdown
    from taofold.loop.stream import load

    async def work(dependencies: "LoopDependencies") -> "tuple[str, Any, str]":
        name = await which(dependencies, loop)
        stream = await load(dependencies.journal, name)
        return name, stream, await _diff(dependencies, name, stream.state)

    name, stream, diff = with_dependencies(work)
    if json:
        text = jsons.dumps(report_json(name, stream.records, diff), ensure_ascii=False, indent=2)
    else:
        text = report_markdown(name, stream.records, diff).rstrip()
    if output is None:
        give(text)
        return
    write_file(output, f"{text}\n".encode())
    say(f"written: {output}")


async def _diff(dependencies: "LoopDependencies", loop: str, state: "LoopState") -> str:
    """Returns the diff from the start to the kept state.

    If the workspace is gone, returns the last iteration's diff.
    """
    import asyncio

    from taofold.core.errors import TaofoldError
    from taofold.loop.decisions import choose

    choice = choose(state)
    if state.baseline is None or choice is None:
        return ""
    try:
        ground = await asyncio.to_thread(dependencies.environment, loop, state)
        return await ground.diff(state.baseline.snapshot, choice.snapshot, 100_000)
    except (TaofoldError, OSError):
        # The workspace is gone or unreadable, so the recorded diff is used.
        return state.done[-1].diff


@app.command("export")
def export(
    loop: options.Loop = "",
    every: Annotated[bool, typer.Option("--all", help="Export all loops.")] = False,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to write into.")
    ] = Path(),
    json: options.Json = False,
) -> None:
    """Write a loop in AIWG's layout: state, iterations, analytics, debug memory, reflections.

    The registry of active loops is written beside them.
    """
    from taofold.cli.loops.dependencies import with_dependencies
    from taofold.log.patterns.json_files import write_files
    from taofold.loop.exchange import loop_files, registry_file
    from taofold.loop.lifecycle import rows
    from taofold.loop.stream import load

    if every and loop:
        fail("give either LOOP or --all")

    async def work(dependencies: "LoopDependencies") -> list[Path]:
        known = [row for row in await rows(dependencies) if row.state.head >= 0]
        names = [row.loop for row in known] if every else [await which(dependencies, loop)]
        contents: dict[str, Any] = {}
        for name in names:
            contents |= loop_files(name, (await load(dependencies.journal, name)).records)
        active = registry_file([(row.loop, row.state) for row in known], dependencies.now())
        return await write_files(contents | {"registry.json": active}, output)

    written = with_dependencies(work)
    if json:
        give_json([str(path) for path in written])
        return
    for path in written:
        give(str(path))


async def _settle(dependencies: "LoopDependencies", runs: list[str]) -> None:
    """Ends the open runs of an aborted loop."""
    from taofold.core.errors import TaofoldError
    from taofold.runtime import control

    for run in runs:
        try:
            row = await dependencies.log.row(run)
            if row.status in ("running", "waiting"):
                await control.cancel(dependencies.log, run)
        except (TaofoldError, LookupError) as error:
            say(f"note: run {run} could not be ended: {error}")


def _bounds_of(
    state: "LoopState",
    iterations: int | None,
    minutes: float | None,
    budget: float | None,
    steps: int | None,
) -> "LoopLimits":
    """Returns the limits of a resumed loop: the given options, else the earlier limits."""
    from msgspec.structs import replace

    bounds = state.bounds
    return replace(
        bounds,
        # `or`, because the option's minimum is 1. The others may be 0.
        iterations=iterations or bounds.iterations,
        seconds=bounds.seconds if minutes is None else minutes * 60,
        usd=bounds.usd if budget is None else budget,
        steps=bounds.steps if steps is None else steps,
    )
