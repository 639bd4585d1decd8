"""Worktrees of child runs: a copy of the parent's files, whose changes are merged at the end.

A worktree is a restored state of the parent's folder. The child's first events name both. When the
child has succeeded, its changes are merged into the parent's folder. The states to merge are on
record before the first file changes, with the start of the parent's call, and the observation lists
the result. An interrupted merge is done again with the same states.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from taofold.core import events as e
from taofold.core.errors import RunError
from taofold.core.json_values import is_object
from taofold.core.text import times, utf8, visible_line
from taofold.core.values import OpenConflict, OpenConflicts
from taofold.runtime.setup import ChildFiles
from taofold.workspace.merging import ConflictKind, MergeConflict, Merged
from taofold.workspace.run_files import RunFiles

MOST_LISTED: Final = 50
"""The most conflicts that an observation lists."""
MOST_ATTEMPTS: Final = 3
"""Merges until files that change at the same time count as conflicts."""
_KEPT: Final = "merge"
_CAUSES: Final[dict[ConflictKind, str]] = {
    "lines": "both changed the same lines",
    "binary": "both changed it, and it is binary",
    "large": "both changed it, and it is too large to be merged",
    "deleted": "one deleted it, the other changed it",
    "added": "both added it",
    "link": "both changed it, and one of them is a link",
    "mode": "both changed its permissions",
    "folder": "there is a folder in its place, or a file in the place of its folder",
    "changed": "it changed during the merge, or no stored state has it",
    "unwritable": "it cannot be written here",
}


async def open_worktree(files: RunFiles, parent: str, child: str) -> e.Restored:
    """Makes the worktree of a child run that has not begun; returns the event to record in it.

    Raises:
        RunError: The files cannot be stored or copied.
    """
    return await asyncio.to_thread(_opened, files, parent, child)


def _opened(files: RunFiles, parent: str, child: str) -> e.Restored:
    try:
        state = files.take(parent)
        folder = files.folder_for(child)
        # Left by an activation that ended before the child began: it is unused.
        RunFiles.of(folder).discard()
        files.restore_beside(state.tree, folder, child)
    except OSError as error:
        raise RunError(str(error)) from error
    return e.Restored(step=0, tree=state.tree, folder=utf8(str(folder)))


@dataclass(frozen=True, slots=True)
class MergedFiles:
    """The end of a merge."""

    merged: Merged
    folder: str
    """The worktree; "" if it was removed, because nothing is left in it."""
    left_out: tuple[str, ...] = ()
    """Paths in the worktree that no state holds, and that are not merged."""

    def open_conflicts(self, redact: Callable[[str], str]) -> OpenConflicts | None:
        """Returns the conflicts in the form of the log; None if there are none."""
        conflicts = self.merged.conflicts
        if not conflicts:
            return None
        listed = [OpenConflict(redact(it.path), _CAUSES[it.kind]) for it in conflicts[:MOST_LISTED]]
        return OpenConflicts(len(conflicts), redact(self.folder), tuple(listed))


class ChildMerge:
    """Merges the changes of one child into the folder of its parent."""

    def __init__(self, run: str, place: RunFiles, child: ChildFiles) -> None:
        self._run, self._place, self._child = run, place, child
        self._worktree = RunFiles.of(child.folder)

    async def prepare(self) -> dict[str, Any]:
        """Stores both states; returns the data to keep before `finish`.

        Raises:
            RunError: They cannot be stored.
        """
        try:
            theirs = await asyncio.to_thread(self._worktree.take, self._child.run)
            ours = await asyncio.to_thread(self._place.take, self._run)
        except OSError as error:
            raise RunError(str(error)) from error
        return {_KEPT: {"ours": ours.tree, "theirs": theirs.tree}}

    async def apply(self, kept: Any) -> Merged:
        """Merges the prepared states. Done again, it ends the same.

        Raises:
            RunError: Git failed.
        """
        states = kept[_KEPT]
        return await asyncio.to_thread(
            self._place.merge, self._child.tree, states["ours"], states["theirs"]
        )

    async def close(self, merged: Merged, kept: Any) -> MergedFiles:
        """Removes the worktree if nothing in it would be lost.

        Raises:
            RunError: Its files cannot be stored.
        """
        return await asyncio.to_thread(self._closed, merged, kept)

    def _closed(self, merged: Merged, kept: Any) -> MergedFiles:
        if self._worktree.root.is_dir():
            state = self._worktree.take(self._child.run)
            is_merged = state.tree == kept[_KEPT]["theirs"] and not merged.conflicts
            if state.left_out or not is_merged:
                return MergedFiles(merged, self._child.folder, state.left_out)
            self._worktree.discard()
        return MergedFiles(merged, self._child.folder if merged.conflicts else "")


def is_prepared(kept: Any) -> bool:
    """Returns whether an activation before this one has prepared the merge."""
    return is_object(kept) and _KEPT in kept


def unmerged(run: str, files: ChildFiles, why: str) -> str:
    """Returns the lines for the parent if nothing was merged."""
    return (
        f"Files: none of the changes of {run} were merged: {why}. They are in "
        f"{visible_line(files.folder)}."
    )


def report(parent: str, child: str, end: MergedFiles) -> str:
    """Returns the lines for the parent about the merged files and the conflicts."""
    merged, lines = end.merged, list[str]()
    if merged.paths:
        lines.append(f"Files: {times(len(merged.paths), 'changed file')} merged.")
    if merged.conflicts:
        lines.append(
            f"Open conflicts: {len(merged.conflicts)}. These files were left as they were. The "
            f"other versions are in {visible_line(end.folder)} (`taofold runs diff {parent} "
            f"{child} --patch`):"
        )
        lines += [_line(conflict) for conflict in merged.conflicts[:MOST_LISTED]]
        if len(merged.conflicts) > MOST_LISTED:
            lines.append(f"- and {len(merged.conflicts) - MOST_LISTED} more")
    if end.left_out:
        names = ", ".join(map(visible_line, end.left_out[:MOST_LISTED]))
        lines.append(
            "Not merged, because they are ignored, too large or repositories: "
            f"{names} in {visible_line(end.folder)}"
        )
    return "\n".join(lines)


def _line(conflict: MergeConflict) -> str:
    return f"- {visible_line(conflict.path)} ({conflict.kind}: {_CAUSES[conflict.kind]})"


def with_report(answer: Any, text: str) -> Any:
    """Returns an answer with the lines about its files: a text, or an object with both."""
    if not text:
        return answer
    if answer is None or isinstance(answer, str):
        return f"{answer or ''}\n\n{text}".strip()
    return {"answer": answer, "files": text}
