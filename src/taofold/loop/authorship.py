"""Attributes the changes of an iteration to its loop, while others may work in the same folder.

A loop's own changes are the recorded writes of its tools, applied to the files of the last verdict.
A write counts if the log shows that it met the file that these writes lead to. A file with another
content at the end was changed by others, too. A change without a record is the loop's only if no
other loop was at work in the folder and the loop ran a command. Everything unclear is `unsure`.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Final

from taofold.core.events import Record
from taofold.core.state import fold
from taofold.core.values import FINISH, Value
from taofold.learning.extraction.history import (
    RecordedWrite,
    changed,
    effects_of,
    read_run,
)
from taofold.log.journal import Journal
from taofold.loop import events as loop_events
from taofold.loop.environment import LoopEnvironment
from taofold.loop.iteration import COMMANDS
from taofold.loop.state import LoopState
from taofold.loop.stream import load
from taofold.loop.values import DRIVEN
from taofold.tools.files import shown_difference

_QUIET: Final = (
    loop_events.Taught,
    loop_events.PauseAsked,
    loop_events.LessonsInjected,
)
"""Facts during which a loop changes no file."""


class Authorship(Value, frozen=True):
    """The authors of the changes between two snapshots.

    `texts` are the loop's own contents of files that others changed, too.
    """

    own: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()
    texts: dict[str, str] = {}

    @property
    def alone(self) -> bool:
        """True if all changes are the loop's."""
        return not (self.others or self.unsure)


async def authorship(
    records: Sequence[Record], base: str, made: str, environment: LoopEnvironment, *, shared: bool
) -> Authorship:
    """Returns the authors of the changes from the snapshot `base` to `made`.

    Args:
        records: The log of the iteration's run.
        base: The files of the last verdict.
        made: The files after the run.
        environment: The loop's files.
        shared: True if another loop was at work in the folder.
    """
    paths = await environment.changed(base, made)
    state = fold(records)
    calls = [
        (action, seen)
        for step in state.steps
        for action, seen in zip(step.actions, step.observations, strict=False)
        if not seen.refused and action.tool != FINISH
    ]
    effects = effects_of(state.started)
    held: Mapping[str, str] = effects or {}
    commands = any(
        changed(action, effects) is None
        and (action.tool in COMMANDS or held.get(action.tool, "read") != "read")
        for action, _ in calls
    )
    written = {
        _inside(change.path, environment)
        for action, seen in calls
        if seen.status == "success" and (change := changed(action, effects)) is not None
    }
    # A change that neither a recorded write nor a command of the loop can have made.
    foreign = [] if commands else [path for path in paths if path not in written]
    if not (shared or foreign):
        return Authorship(tuple(paths))
    texts = {path: await environment.text(base, path) or "" for path in written & {*paths}}
    reading = read_run(records, 0, (), texts)
    vague = {write.change.path for write in reading.writes if not _sure(write)}
    own: list[str] = []
    others: list[str] = []
    unsure: list[str] = []
    mixed: dict[str, str] = {}
    for path in paths:
        text = reading.texts.get(path)
        if path not in written:
            (unsure if commands else others).append(path)
        elif text is None or path in vague:
            unsure.append(path)
        elif text == await environment.text(made, path):
            own.append(path)
        elif text == texts[path]:
            others.append(path)
        else:
            own.append(path)
            (unsure if commands and not shared else others).append(path)
            mixed[path] = text
    return Authorship(tuple(own), tuple(others), tuple(unsure), mixed)


def _inside(path: str, environment: LoopEnvironment) -> str:
    """Returns the path below the work root, as snapshots name it."""
    root = f"{environment.root}/"
    return os.path.normpath(path.removeprefix(root))


def _sure(write: RecordedWrite) -> bool:
    """Returns whether the log shows that the write met the expected file."""
    change = write.change
    if change.part or change.unsure:
        return False
    # An edit names the text that it replaces. A whole file may hold what others wrote there: the
    # result shows its difference from the file that it replaced.
    if not write.whole:
        return True
    result = write.result if isinstance(write.result, str) else ""
    if not change.before:
        return result.startswith("created ")
    shown = shown_difference(change.before, change.after)
    return bool(shown) and result.endswith(f"\n{shown}")


async def others_at_work(
    journal: Journal, loop: str, state: LoopState, since: int
) -> tuple[str, ...]:
    """Returns the other loops of the journal that worked in the folder since `since` (ms)."""
    found: list[str] = []
    for row in await journal.streams(loop_events.PREFIX):
        name = row.stream.removeprefix(loop_events.PREFIX)
        if name == loop or not (row.held or row.updated_at >= since):
            continue
        stream = await load(journal, name)
        other = stream.state
        if not _overlap(state.wish.root, other.wish.root):
            continue
        # A worktree or a copy reaches the project only when it delivers.
        if other.wish.mode != "in-place" and other.status in ("pending", "running", "paused"):
            continue
        acts = [record.at for record in stream.records if not isinstance(record.event, _QUIET)]
        if (other.status in DRIVEN and row.held) or max(acts, default=0) >= since:
            found.append(name)
    return tuple(found)


def _overlap(one: str, other: str) -> bool:
    """Returns whether a folder is the other one, or lies in it."""
    roots = os.path.realpath(one), os.path.realpath(other)
    return os.path.commonpath(roots) in roots
