"""The states of files at the steps of a run: stored after each step, with an event.

A state is stored only between steps: while no step is open in any branch. If the process ends
between a tool and the snapshot, the step has no state, and none is claimed later: the files may
have changed since.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from taofold.core import events as e
from taofold.core.errors import Refused, RunError
from taofold.core.file_states import place_of, stores_files
from taofold.core.text import utf8
from taofold.runtime.setup import Setup
from taofold.tools import Tool
from taofold.workspace.run_files import RunFiles

MOST_NAMED: Final = 20
"""The most paths in an event that a state does not hold."""


def check_place(run: str, records: Sequence[e.Record], setup: Setup) -> None:
    """Checks that the run continues where its files are.

    Raises:
        Refused: Its files were restored into another folder, or the restoring was interrupted.
    """
    if not stores_files(records):
        return
    place = place_of(records)
    if place is None:
        raise Refused(
            f"run {run!r} was rewound, and its files were not restored: rewind it again with "
            "`taofold runs rewind`"
        )
    here = "" if setup.snapshots is None else str(setup.snapshots.root)
    if place and place != here:
        raise Refused(
            f"the files of run {run!r} are in {place!r}: resume it with `taofold runs resume`, or "
            f"with an agent that has snapshots={place!r}"
        )


async def step_state(
    run: str, setup: Setup, step: int, calls: Sequence[tuple[str, int, Tool | None]] = ()
) -> e.Snapshotted | None:
    """Stores the state of the files after a step. Returns its event; None if it stores none.

    Args:
        run: The run.
        setup: Its setup.
        step: The number of complete steps; 0 is the state before the first.
        calls: Key, index and tool of each call of the step.
    """
    if setup.snapshots is None:
        return None
    root = setup.snapshots.root
    held = tuple(
        [
            (key, index)
            for key, index, tool in calls
            if tool is not None and tool.confined is not None and tool.confined == root
        ]
    )
    return await asyncio.to_thread(_stored, setup.snapshots, run, step, held)


def _stored(
    files: RunFiles, run: str, step: int, held: tuple[tuple[str, int], ...]
) -> e.Snapshotted:
    folder = utf8(str(files.root))
    try:
        state = files.take(run)
    except (RunError, OSError) as error:
        # The run goes on: its work counts more than a state to return to. The event has the reason.
        return e.Snapshotted(step=step, folder=folder, why=utf8(str(error)))
    named = tuple([utf8(path) for path in state.left_out[:MOST_NAMED]])
    return e.Snapshotted(
        step=step,
        tree=state.tree,
        folder=folder,
        files=state.files,
        left_out=named,
        more=len(state.left_out) - len(named),
        held=held,
    )
