"""Commits on a branch of the loop's own, made without the person's index, branch or files."""

import os
from collections.abc import Collection
from pathlib import Path

from taofold.core.errors import Refused, RunError
from taofold.loop.workspace_git import Git, nul


def committed(
    project: Git,
    root: Path,
    index: Path,
    branch: str,
    title: str,
    body: str,
    changed: Collection[str] = (),
) -> str:
    """Commit the files below `root` on `branch`, after its last commit or the current one.

    No filter is run. A file that the project filters (large files, secrets) stays as it was
    committed unless it is one of `changed`, relative to `root`; then it is committed as it is.

    Returns:
        The commit; "" if nothing changed since.

    Raises:
        Refused: the branch is checked out, or its name is none.
        RunError: git failed.
    """
    git = Git(project.store, project.tree, index, own=False)
    reference = usable(git, branch)
    parent = _commit(git, reference) or _commit(git, "HEAD")
    index.unlink(missing_ok=True)
    git.run("read-tree", parent or "--empty")
    git.run("add", "--all", "--", str(root))
    _unfiltered(git, parent, {(root / path).relative_to(git.tree).as_posix() for path in changed})
    tree = git.text("write-tree")
    if parent and git.text("rev-parse", f"{parent}^{{tree}}") == tree:
        return ""
    text = f"{title}\n\n{body}".strip() + "\n"
    above = ["-p", parent] if parent else []
    raw = git.run("commit-tree", tree, *above, given=text.encode(), more=_author(git))
    commit = os.fsdecode(raw).strip()
    git.run("update-ref", "-m", title, reference, commit, _commit(git, reference) or "0" * 40)
    return commit


def _unfiltered(git: Git, parent: str, changed: Collection[str]) -> None:
    """Have the entries of the parent for files that a filter would have made smaller or other."""
    if not parent:
        return
    names = git.names("diff-index", "--cached", "-z", "--name-only", "--no-renames", parent)
    said = git.names("check-attr", "-z", "--stdin", "filter", given=nul(names))
    filtered = [
        path
        for path, value in zip(said[::3], said[2::3], strict=True)
        if value not in ("unspecified", "unset") and path not in changed
    ]
    if filtered:
        entries = git.run("ls-tree", "-z", "-r", parent, "--", *filtered)
        git.run("update-index", "-z", "--index-info", given=entries)


def usable(git: Git, branch: str) -> str:
    """The reference of a branch that may be committed to beside the person's own work.

    Raises:
        Refused: the branch is checked out, or its name is none.
    """
    reference = f"refs/heads/{branch}"
    try:
        git.run("check-ref-format", reference)
    except RunError:
        raise Refused(f"{branch!r} is no name for a branch") from None
    if any([f"branch {reference}" == line for line in _worktrees(git)]):
        raise Refused(f"the branch {branch!r} is checked out; commit to another one")
    return reference


def _commit(git: Git, name: str) -> str:
    try:
        return git.text("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    except RunError:
        return ""


def _worktrees(git: Git) -> list[str]:
    return git.text("worktree", "list", "--porcelain").splitlines()


def _author(git: Git) -> dict[str, str]:
    """The person's name, if git knows one; else ours."""
    try:
        git.run("var", "GIT_COMMITTER_IDENT")
    except RunError:
        name = {"NAME": "taofold", "EMAIL": "taofold@localhost"}
        return {f"GIT_{who}_{k}": v for who in ("AUTHOR", "COMMITTER") for k, v in name.items()}
    return {}
