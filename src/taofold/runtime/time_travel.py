"""Going back to a step of a run: its files, and the effects that no files hold.

`look_back` reads what a fork or a rewind would do; `restore_files` restores the files of that step.
`run.fork` and `run.rewind` change the log. Knows nothing about agents.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from taofold.core import events as e
from taofold.core.call_ids import child_id
from taofold.core.errors import Refused
from taofold.core.file_states import (
    OutsideEffect,
    effects_after,
    place_of,
    state_at,
    steps_at,
    stored_states,
    stores_files,
)
from taofold.core.state import fold
from taofold.core.text import utf8
from taofold.log.log import Log
from taofold.runtime.run import last_complete_step
from taofold.workspace.run_files import RunFiles, StateChange


@dataclass(frozen=True, slots=True)
class PastStep:
    """The last complete step at or before an event of a run."""

    run: str
    seq: int
    """The event that completed it."""
    step: int
    """Its number; 0 is the state before the first step."""
    state: e.Snapshotted | e.Restored | None
    """Its files. None if they are not stored."""
    stores_files: bool
    """True if the run stores states of its files."""
    stored: tuple[int, ...]
    """The steps whose files are stored."""
    place: str
    """The folder in which the run works now; "" if it stores no files."""
    effects: tuple[OutsideEffect, ...]
    """Later calls whose effects the files do not hold. A fork or a rewind does not undo them."""

    def require_state(self) -> e.Snapshotted | e.Restored:
        """Returns the state of the files.

        Raises:
            Refused: There is none.
        """
        if self.state is not None:
            return self.state
        some = ", ".join(map(str, self.stored)) or "none"
        raise Refused(
            f"the files after step {self.step} of run {self.run!r} are not stored (steps with "
            f"files: {some}): choose another step, or leave the files as they are with --no-files"
        )


async def look_back(log: Log, run: str, at: int | None = None) -> PastStep:
    """Returns the last complete step at or before the event `at`, and what came after it."""
    records = await log.read(run)
    seq = last_complete_step(records, at)
    events = [it.event for it in reversed(records)]
    folders = [it.folder for it in events if isinstance(it, e.Snapshotted | e.Restored)]
    return PastStep(
        run,
        seq,
        steps_at(records, seq),
        state_at(records, seq),
        stores_files(records),
        tuple(sorted(stored_states(records))),
        place_of(records) or next(filter(None, folders), ""),
        _not_undone(records, await _effects(log, run, _begun(records), seq)),
    )


def _begun(records: Sequence[e.Record]) -> Sequence[e.Record]:
    """Returns the records without a rewind whose files were not restored: it is done again."""
    if place_of(records) is not None:
        return records
    last = max(it.seq for it in records if isinstance(it.event, e.Rewound))
    return [record for record in records if record.seq != last]


def _not_undone(
    records: Sequence[e.Record], effects: Sequence[OutsideEffect]
) -> tuple[OutsideEffect, ...]:
    """Returns the effects with the statuses of their undoing, without those that were undone."""
    statuses = {
        (record.event.run, record.event.start): record.event.status
        for record in records
        if isinstance(record.event, e.Compensated) and record.event.run
    }
    known: list[OutsideEffect] = []
    for effect in effects:
        undo = statuses.get((effect.run, effect.seq), effect.undo)
        if undo != "done":
            known.append(replace(effect, undo=undo.replace("declined", "")))
    return tuple(known)


async def _effects(
    log: Log, run: str, records: Sequence[e.Record], after: int
) -> list[OutsideEffect]:
    """Returns the effects after an event, those of child runs in the place of their calls."""
    effects = effects_after(records, after)
    if not effects:
        return []
    children = {row.run for row in await log.rows(parent=run, limit=0)}
    lives = range(fold(records).rewinds + 1)
    found: list[OutsideEffect] = []
    for effect in effects:
        inner = {child_id(run, effect.key, effect.index, life) for life in lives} & children
        for child in sorted(inner):
            for each in await _effects(log, child, await log.read(child), -1):
                # A copied or imported call is not the child's own.
                is_own = each.run == child or each.path
                path = (effect.action.tool, *each.path) if is_own else ()
                found.append(replace(each, path=path))
        if not inner:
            found.append(effect)
    return found


async def restore_files(
    past: PastStep, run: str, folder: Path | None = None, *, in_place: bool = False
) -> e.Restored:
    """Restores the files of a step for `run`; returns the event to record.

    Args:
        past: The step.
        run: The run that continues with the files.
        folder: A new or empty folder. None: one in the user's state folder.
        in_place: Restores them where the run works now.

    Raises:
        ConfigError: The folder is not empty.
        Refused: The files of the step are not stored, or changes would be lost.
        RunError: The state is gone, or a file cannot be written.
    """
    state = past.require_state()
    source, where = _where(past, state, run, folder, in_place=in_place)
    if in_place:
        await asyncio.to_thread(RunFiles.of(where).restore, state.tree, run)
    else:
        await asyncio.to_thread(source.restore_beside, state.tree, where, run)
    kept = tuple([utf8(effect.line) for effect in past.effects])
    return e.Restored(step=past.step, tree=state.tree, folder=utf8(str(where)), kept=kept)


async def check_restore(
    past: PastStep, run: str, folder: Path | None = None, *, in_place: bool = False
) -> None:
    """Raises what `restore_files` would raise, and changes nothing: for use before a rewind."""
    state = past.require_state()
    source, where = _where(past, state, run, folder, in_place=in_place)
    if in_place:
        await asyncio.to_thread(RunFiles.of(where).check_restore, state.tree, run)
    else:
        await asyncio.to_thread(source.check_beside, state.tree, where)


def _where(
    past: PastStep,
    state: e.Snapshotted | e.Restored,
    run: str,
    folder: Path | None,
    *,
    in_place: bool,
) -> tuple[RunFiles, Path]:
    """Returns the store of the state, and the folder for its files."""
    source = RunFiles.of(state.folder)
    if not in_place:
        # As it is compared on resume: without links and `..`.
        return source, RunFiles.of(folder or source.free_folder_for(run)).root
    target = RunFiles.of(past.place)
    if target.place != source.place:
        raise Refused(
            f"the files of step {past.step} are stored for {state.folder!r}, and the run works in "
            f"{past.place!r}: restore them into another folder"
        )
    return source, target.root


def compared(
    one: e.Snapshotted | e.Restored, two: e.Snapshotted | e.Restored, *, patch: bool
) -> tuple[list[StateChange], str]:
    """Returns the files that differ between two states, and with `patch` their lines. Blocks.

    Raises:
        RunError: A state is not stored any more.
    """
    first, second = RunFiles.of(one.folder), RunFiles.of(two.folder)
    changes = first.changes(one.tree, two.tree, second)
    return changes, first.patch(one.tree, two.tree, second) if patch and changes else ""


async def keep_states(log: Log, run: str) -> None:
    """Keeps the states in the records of a fork for it: its source may be deleted."""
    folders: dict[str, list[str]] = {}
    for state in stored_states(await log.read(run)).values():
        folders.setdefault(state.folder, []).append(state.tree)
    for folder, trees in folders.items():
        await asyncio.to_thread(RunFiles.of(folder).share, run, trees)


async def forget_states(log: Log, runs: Sequence[str]) -> None:
    """Removes the stored files of runs that are about to be deleted."""
    folders: dict[str, set[str]] = {}
    for run in runs:
        for record in await log.read(run):
            if isinstance(record.event, e.Snapshotted | e.Restored) and record.event.folder:
                folders.setdefault(record.event.folder, set()).add(run)
    for folder, names in folders.items():
        await asyncio.to_thread(RunFiles.of(folder).forget, sorted(names))
