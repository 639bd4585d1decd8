"""The files of forks: restored in a folder that the owner of the server configured.

A client never names a path. The answer has the reason if files are not restored.
"""

from dataclasses import dataclass

from taofold.agent.worktrees import check_placed
from taofold.core import events as e
from taofold.core.errors import ConfigError, Refused, RunError
from taofold.core.text import visible
from taofold.policy.redaction.views import shown_value
from taofold.runtime.time_travel import PastStep, look_back, restore_files
from taofold.server.api import schemas
from taofold.server.catalog import AnyAgent
from taofold.server.server import Server
from taofold.workspace.run_files import RunFiles

NO_FOLDER = "this server has no folder for the files of forks (`taofold serve --forks FOLDER`)"


@dataclass(frozen=True, slots=True)
class ForkFiles:
    """The files of a fork: the event to record, and the answer. None for a run without files."""

    restored: e.Restored | None = None
    view: schemas.ForkedFiles | None = None


async def fork_files(
    server: Server, agent: AnyAgent, run: str, new: str, at: int | None, *, wanted: bool
) -> ForkFiles:
    """Restores the files with which the fork `new` begins.

    Args:
        server: The server.
        agent: The agent of the run.
        run: The source.
        new: The id of the fork.
        at: The event at which it is cut.
        wanted: False if the client wants the files left as they are.

    Raises:
        Refused: The files of the step cannot be restored.
    """
    past = await look_back(server.log, run, at)
    if not past.stores_files:
        return ForkFiles()
    why = _obstacle(server, agent, past) if wanted else "the request leaves them as they are"
    folder = server.settings.forks
    if why or folder is None:
        return ForkFiles(view=_view(past, "", why))
    try:
        restored = await restore_files(past, new, RunFiles.of(folder).root / new)
    except (ConfigError, RunError) as error:
        raise Refused(f"the files of step {past.step} were not restored: {error}") from error
    return ForkFiles(restored, _view(past, restored.folder, ""))


def _obstacle(server: Server, agent: AnyAgent, past: PastStep) -> str:
    """Returns why the files are left as they are, or ""."""
    if server.settings.forks is None:
        return NO_FOLDER
    if agent.snapshot_folder is None:
        return "the agent stores no files any more (`snapshots`)"
    past.require_state()
    try:
        check_placed(agent, RunFiles.of(agent.snapshot_folder).root)
    except ConfigError as error:
        return str(error)
    return ""


def _view(past: PastStep, folder: str, why: str) -> schemas.ForkedFiles:
    state = past.state
    left_out = state.left_out if folder and isinstance(state, e.Snapshotted) else ()
    return schemas.ForkedFiles(
        restored=bool(folder),
        folder=visible(folder or past.place),
        step=past.step,
        why=visible(why),
        left_out=[visible(path) for path in left_out],
        effects_kept=[visible(shown_value(effect.line)) for effect in past.effects],
    )
