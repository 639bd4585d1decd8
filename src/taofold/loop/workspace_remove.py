"""Whether a worktree or a copy may go: it may not while anything in it would be lost.

Looks and removes; knows nothing about loops. What a snapshot keeps is not lost, caches and
installed packages are made again; everything else is a reason to leave the folder where it is.
"""

import shlex
import shutil
from contextlib import suppress
from filecmp import cmp
from pathlib import Path
from typing import Final

from taofold.core.errors import RunError
from taofold.loop.workspace_git import MADE_AGAIN, Git, repository
from taofold.loop.workspace_snapshots import Snapshot, changed, take

_SHOWN: Final = 5


def losses(
    git: Git, project: Path, root: Path, top: Path, last: Snapshot, now: Snapshot, whole: str
) -> str:
    """What would be lost with the folder `top`; "" if nothing would be.

    Args:
        git: The snapshots of `root`, the part of `top` where the work was done.
        project: The person's own files.
        last: The state that was brought back, or that was put back.
        now: The state as it is.
        whole: A snapshot of all of `top` at its beginning, where `root` is a part of it.

    Raises:
        RunError: git failed.
    """
    found: list[tuple[str, list[str]]] = [
        ("changed since", list(changed(git, last.id, now.id))),
        ("too large to be kept", [one for one in now.skipped if not _same(project, root, one)]),
        ("ignored, and only there", _ignored(git, root)),
        ("repositories of their own", _repositories(git)),
    ]
    if whole:
        inner = root.relative_to(top).as_posix()
        then = outer(git, top)
        beyond = [one for one in changed(git, whole, then) if not one.startswith(f"{inner}/")]
        found.append(("changed beside the work root", beyond))
    said = [f"{what}: {_some(names)}" for what, names in found if names]
    alone = _commits(project, top)
    if alone:
        said.append(f"commits on no branch: {alone}")
    return "; ".join(said)


def outer(git: Git, top: Path) -> str:
    """A snapshot of the whole worktree, of which the work root is a part."""
    return take(Git(git.store, top, git.store / "top.index"), None).id


def remove(project: Path, top: Path, *, worktree: bool) -> None:
    """Remove the folder, and what the project's repository knows of it.

    Raises:
        RunError: git refuses, as for a worktree that is locked.
        OSError: something in it cannot be removed.
    """
    home = repository(project) if worktree else None
    if home is not None and top.exists():
        home.run("worktree", "remove", "--force", str(top))
    if top.exists():
        shutil.rmtree(top)
    if home is not None:
        with suppress(RunError):
            home.run("worktree", "prune")


def command(project: Path, top: Path, *, worktree: bool) -> str:
    """How a person removes it."""
    if worktree:
        return shlex.join(["git", "-C", str(project), "worktree", "remove", "--force", str(top)])
    return shlex.join(["rm", "-rf", str(top)])


def _same(project: Path, root: Path, name: str) -> bool:
    try:
        return cmp(project / name, root / name, shallow=False)
    except OSError:
        return False


def _ignored(git: Git, root: Path) -> list[str]:
    """What the project ignores and no snapshot has; of caches and the like nothing."""
    names = git.names(
        "ls-files", "-z", "--others", "--ignored", "--exclude-per-directory=.gitignore"
    )
    return [one for one in names if not _made_again(one) and (root / one).exists()]


def _made_again(name: str) -> bool:
    parts = name.rstrip("/").split("/")
    plain = {one.rstrip("/") for one in MADE_AGAIN}
    inside = any([f"{part}/" in MADE_AGAIN for part in parts])
    built = any([one in name for one in MADE_AGAIN if "/" in one.rstrip("/")])
    return inside or built or parts[-1] in plain or parts[-1].endswith(".pyc")


def _repositories(git: Git) -> list[str]:
    names = git.names("ls-files", "-z", "--others", "--exclude-standard")
    return [one for one in names if one.endswith("/")]


def _commits(project: Path, top: Path) -> int:
    """Commits of the worktree's HEAD that nothing else in the repository leads to."""
    home, there = repository(project), repository(top)
    if home is None or there is None or there.tree != top:
        return 0
    others = ["--branches", "--tags", "--remotes", home.text("rev-parse", "HEAD")]
    return int(there.text("rev-list", "--count", "HEAD", "--not", *others))


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
