"""Commands `taofold runs fork|rewind|diff`: runs and their files at an earlier step.

`change` has the other commands that change a run, and `go_on`.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taofold.cli import options
from taofold.cli.output import UNREACHED, fail, give, give_json, say
from taofold.cli.runs.change import go_on
from taofold.cli.runs.find import find, records_of, with_log
from taofold.cli.runs.go_on import resume_command
from taofold.core.text import times, visible_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from taofold.agent import Agent
    from taofold.core.events import Record, Restored, Snapshotted
    from taofold.core.file_states import OutsideEffect
    from taofold.log.log import Log
    from taofold.runtime.compensation import Append
    from taofold.runtime.time_travel import PastStep
    from taofold.workspace.run_files import StateChange

app = typer.Typer()

MOST_LINES = 20
"""The most effects or paths that are printed."""
Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        metavar="FOLDER",
        help="New or empty folder for the files. Default: one in ~/.local/state/taofold.",
    ),
]
InPlace = Annotated[
    bool,
    typer.Option(
        "--in-place",
        help="Restore the files where the run works. Refused if it would lose changes.",
    ),
]
NoFiles = Annotated[bool, typer.Option("--no-files", help="Leave the files as they are.")]


@app.command()
def fork(
    run: options.Run,
    at: options.Seq = None,
    folder: Folder = None,
    in_place: InPlace = False,
    no_files: NoFiles = False,
    go: Annotated[bool, typer.Option("--continue", help="Run the new run at once.")] = False,
    agent: options.AgentName = "",
    model: options.ModelName = "",
    approve: options.Approve = "",
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Copy a run up to the last complete step at or before --at.

    If the run stores its files (`run --snapshots`), those of that step are restored into a folder
    of the copy. Effects outside of the files are listed and not undone.
    """
    from taofold.clocks import clock
    from taofold.runtime import run as runs
    from taofold.runtime.run import new_id
    from taofold.runtime.time_travel import keep_states

    _one_place(folder, in_place=in_place, no_files=no_files)
    new = new_id()

    async def work(log: "Log") -> "tuple[PastStep, Restored | None, list[Record], str]":
        name, past = await _past(log, run, at)
        restored = await _restored(past, new, folder, in_place=in_place, no_files=no_files)
        await runs.fork(log, name, new, at=past.seq, now=clock(), restored=restored)
        await keep_states(log, new)
        return past, restored, await log.read(new), await resume_command(log, new, agent, model)

    past, restored, records, command = with_log(work)
    if not json:
        say(f"{new} is a copy of {past.run} up to event {past.seq} (step {past.step})")
        _report(past, restored, _Undoing())
    if go:
        go_on(new, records, agent, model, approve, json=json, quiet=quiet)
    elif json:
        give_json(
            {
                "id": new,
                "from": past.run,
                "seq": past.seq,
                **_report_json(past, restored, _Undoing()),
            }
        )
    else:
        give(new)
        say(f"continue with: {command}")


@app.command()
def rewind(
    run: options.Run,
    at: Annotated[
        int,
        typer.Option(
            "--at", min=0, metavar="SEQ", help="Back to the last complete step at or before SEQ."
        ),
    ],
    folder: Folder = None,
    in_place: InPlace = False,
    no_files: NoFiles = False,
    compensate: Annotated[
        bool,
        typer.Option(
            "--compensate",
            help="Undo effects outside of the files, where the tool can (`compensate=`). Asks "
            "about each, the last one first.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would not be undone.")
    ] = False,
    agent: options.AgentName = "",
    approve: options.Approve = "",
    json: options.Json = False,
) -> None:
    """Take the later steps of a run back. They stay in the log and do not count.

    If the run stores its files (`run --snapshots`), those of that step are restored into a folder,
    where the run continues. Effects outside of the files are listed and not undone.
    """
    from taofold.clocks import clock
    from taofold.runtime import run as runs
    from taofold.runtime.time_travel import check_restore

    if compensate and not dry_run and approve != "all" and not sys.stdin.isatty():
        fail("--compensate asks about each effect: use a terminal, or --approve all")
    _one_place(folder, in_place=in_place, no_files=no_files)
    undoing = _Undoing()

    async def work(log: "Log") -> "tuple[PastStep, Restored | None, str]":
        nonlocal undoing
        name, past = await _past(log, run, at)
        if past.stores_files and not no_files:
            # Before anything is written: a rewind without its files could not be continued.
            await check_restore(past, name, folder, in_place=in_place)
        elif folder is not None or in_place:
            fail(f"{past.run} stores no files: start runs with --snapshots")
        if dry_run:
            undoing = await _planned(log, past, agent, required=compensate)
            return past, None, ""
        undo = await _compensation(log, name, agent, approve) if compensate else None
        restored: list[Restored] = []

        async def restore(append: "Append") -> None:
            nonlocal past
            if undo is not None:
                kept = await undo(past, append)
                undoing.done = tuple([it for it in past.effects if it not in kept])
                past = replace(past, effects=kept)
            event = await _restored(past, name, folder, in_place=in_place, no_files=no_files)
            if event is not None:
                await append(event)
                restored.append(event)

        await runs.rewind(log, name, to=past.seq, now=clock(), restore=restore)
        return past, restored[0] if restored else None, await resume_command(log, name)

    past, restored, command = with_log(work)
    if dry_run:
        if json:
            give_json({"id": past.run, "seq": past.seq, **_report_json(past, None, undoing)})
        else:
            say(f"{past.run} would be rewound to event {past.seq} (step {past.step})")
            _report_effects(past, undoing)
            if undoing.why:
                say(f"unknown which of them can be undone: {undoing.why}")
            elif undoing.possible:
                say("--compensate undoes those that can be undone, and asks about each")
        return
    if json:
        give_json({"id": past.run, "seq": past.seq, **_report_json(past, restored, undoing)})
        return
    say(f"{past.run} is rewound to event {past.seq} (step {past.step})")
    _report(past, restored, undoing)
    say(f"continue with: {command}")


@dataclass(slots=True)
class _Undoing:
    """The undoing of effects: what was undone, or what can be."""

    done: "tuple[OutsideEffect, ...]" = ()
    possible: "tuple[OutsideEffect, ...] | None" = None
    """Those that can be undone. None: unknown, or the question is over."""
    why: str = ""
    """Why it is unknown."""


async def _planned(log: "Log", past: "PastStep", agent: str, *, required: bool) -> _Undoing:
    """Returns which effects can be undone. An agent that is `required` and has a fault raises."""
    from taofold.core.errors import ConfigError
    from taofold.runtime.compensation import undoable

    if not past.effects and not required:
        return _Undoing(possible=())
    try:
        tools = (await _agent_of(log, past.run, agent)).toolset
    except (ConfigError, ExceptionGroup) as error:
        if required:
            raise
        return _Undoing(why=str(error))
    return _Undoing(possible=tuple([it for it in past.effects if undoable(it, past.run, tools)]))


async def _agent_of(log: "Log", run: str, agent: str) -> "Agent[Any, Any]":
    """Returns the run's agent, whose model is not called."""
    from taofold.cli.agent_argument import make, recorded_choice
    from taofold.cli.render.runs import started_of
    from taofold.runtime.model import ReplayModel

    started = started_of(run, await log.read(run, limit=1))
    model = ReplayModel(started.model, started.profile)
    return make(recorded_choice(started, agent), model).replace(log=log)


async def _compensation(
    log: "Log", run: str, agent: str, approve: str
) -> "Callable[[PastStep, Append], Awaitable[tuple[OutsideEffect, ...]]]":
    """Returns the function that undoes effects, with the tools of the run's agent."""
    from taofold.policy.redaction import Redactor
    from taofold.runtime.approvers import approve_all, at_terminal
    from taofold.runtime.compensation import compensate

    made = await _agent_of(log, run, agent)
    approver = approve_all if approve == "all" else at_terminal

    async def undo(past: "PastStep", append: "Append") -> "tuple[OutsideEffect, ...]":
        # Also the secrets of agents that it asks: their tools may raise.
        redactor = Redactor(tuple(made.known_secrets()))
        return await compensate(past, made.toolset, approver, append, redactor)

    return undo


def _one_place(folder: Path | None, *, in_place: bool, no_files: bool) -> None:
    if (folder is not None) + in_place + no_files > 1:
        fail("choose one of --folder, --in-place and --no-files")


async def _past(log: "Log", run: str, at: int | None) -> "tuple[str, PastStep]":
    from taofold.runtime.time_travel import look_back

    name, _ = await records_of(log, run, at)
    return name, await look_back(log, name, at)


async def _restored(
    past: "PastStep", run: str, folder: Path | None, *, in_place: bool, no_files: bool
) -> "Restored | None":
    """Restores the files of the step; returns the event, or None if the run stores no files."""
    from taofold.core.events import Restored
    from taofold.runtime.time_travel import restore_files

    if not past.stores_files:
        if folder is not None or in_place:
            fail(f"{past.run} stores no files: start runs with --snapshots")
        return None
    if no_files:
        kept = tuple([effect.line for effect in past.effects])
        return Restored(step=past.step, folder=past.place, kept=kept)
    return await restore_files(past, run, folder, in_place=in_place)


def _report(past: "PastStep", restored: "Restored | None", undoing: _Undoing) -> None:
    """Prints where the files are, which no state holds, and which effects were undone or stay."""
    from taofold.core.events import Snapshotted

    if restored is None:
        say("files were not restored: the run stores none (`taofold run --snapshots`)")
    elif not restored.tree:
        say(f"files were left as they are in {visible_line(restored.folder)}")
    else:
        say(f"files of step {restored.step} are in {visible_line(restored.folder)}")
        state = past.state
        if isinstance(state, Snapshotted) and state.left_out:
            names = ", ".join(map(visible_line, state.left_out))
            more = f" and {state.more} more" if state.more else ""
            say(f"not restored, because they are ignored, too large or repositories: {names}{more}")
    _report_effects(past, undoing)


def _report_effects(past: "PastStep", undoing: _Undoing) -> None:
    from taofold.policy.redaction.views import shown_value

    for effect in undoing.done:
        say(f"undone: {visible_line(shown_value(effect.line))}")
    if past.effects:
        calls = times(len(past.effects), "later call")
        say(f"not undone: {calls} that may have had effects outside of these files")
        for effect in past.effects[:MOST_LINES]:
            mark = " (can be undone)" if effect in (undoing.possible or ()) else ""
            say(f"  {visible_line(shown_value(effect.line))}{mark}")
        if len(past.effects) > MOST_LINES:
            say(f"  … and {len(past.effects) - MOST_LINES} more")


def _report_json(
    past: "PastStep", restored: "Restored | None", undoing: _Undoing
) -> dict[str, Any]:
    kept = [_effect_json(effect) for effect in past.effects]
    if undoing.possible is not None or undoing.why:
        for effect, fields in zip(past.effects, kept, strict=True):
            possible = undoing.possible
            fields["undoable"] = None if possible is None else effect in possible
    folder = restored.folder if restored is not None and restored.tree else None
    undone = [_effect_json(effect) for effect in undoing.done]
    return {"step": past.step, "folder": folder, "effects_kept": kept, "effects_undone": undone}


def _effect_json(effect: "OutsideEffect") -> dict[str, Any]:
    from taofold.policy.redaction.views import shown_value

    return {
        "run": effect.run,
        "step": effect.step,
        "tool": effect.action.tool,
        "call": shown_value(effect.line),
        "done": effect.done,
    }


@app.command()
def diff(
    first: Annotated[str, typer.Argument(metavar="A", help="A run, or RUN@STEP.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another run, or RUN@STEP.")],
    patch: Annotated[
        bool, typer.Option("--patch", help="Show the lines of the files that differ.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Compare two runs: the first different event, each step, and the files that they stored.

    With RUN@STEP only the files of these steps are compared, also of one run. Exits with 1 if they
    differ.
    """
    from taofold.cli.render.runs import compare, difference_text

    async def work(log: "Log") -> "list[tuple[str, int | None, list[Record]]]":
        sides: list[tuple[str, int | None, list[Record]]] = []
        for reference in (first, second):
            name, step = await _at_step(log, reference)
            sides.append((name, step, await log.read(name)))
        return sides

    one, two = with_log(work)
    at_steps = one[1] is not None or two[1] is not None
    files = _file_changes(one, two, patch=patch, needed=at_steps or patch)
    changes, lines = files if files is not None else ([], "")
    difference = None if at_steps else compare(one[2], two[2])
    same = not changes and (difference is None or difference.same)
    if json:
        shown = [{"kind": it.kind, "path": visible_line(it.path)} for it in changes]
        events = {} if difference is None else difference.as_json()
        listed = {} if files is None else {"files": shown, **({"patch": lines} if patch else {})}
        give_json({**events, "same": same, **listed})
    else:
        if difference is not None:
            give(difference_text(difference))
        if files is not None:
            give(_changes_text(changes))
        if lines:
            give("\n".join([visible_line(line) for line in lines.split("\n")]))
    if not same:
        raise typer.Exit(UNREACHED)


async def _at_step(log: "Log", reference: str) -> tuple[str, int | None]:
    """Resolves `RUN` or `RUN@STEP`."""
    from taofold.core.errors import UnknownRun

    name, at, step = reference.rpartition("@")
    try:
        return await find(log, reference), None
    except UnknownRun:
        if not (at and step.isdecimal() and step.isascii()):
            raise
    return await find(log, name), int(step)


def _file_changes(
    one: "tuple[str, int | None, list[Record]]",
    two: "tuple[str, int | None, list[Record]]",
    *,
    patch: bool,
    needed: bool,
) -> "tuple[list[StateChange], str] | None":
    """Returns the files that differ, and their lines; None if a run stores no files."""
    from taofold.runtime.time_travel import compared

    states = [_state_of(*side, needed=needed) for side in (one, two)]
    first, second = states
    return None if first is None or second is None else compared(first, second, patch=patch)


def _state_of(
    name: str, step: int | None, records: "list[Record]", *, needed: bool
) -> "Snapshotted | Restored | None":
    """Returns the state of the files at a step, or the last one."""
    from taofold.core.file_states import stored_states

    states = stored_states(records)
    if step is None and states:
        step = max(states)
    if step in states:
        return states[step]
    if needed:
        some = ", ".join(map(str, sorted(states))) or "none: start runs with --snapshots"
        what = "stored files" if step is None else f"files of step {step}"
        fail(f"{name} has no {what}; steps with files: {some}")
    return None


def _changes_text(changes: "list[StateChange]") -> str:
    if not changes:
        return "the same files"
    lines = [f"{times(len(changes), 'file')} differ:" if len(changes) > 1 else "1 file differs:"]
    lines += [f"  {it.kind:<8} {visible_line(it.path)}" for it in changes]
    return "\n".join(lines)
